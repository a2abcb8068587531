"""Exact decayed counts of the past links of u, of v and of the pair, at every decay.

Walks are drawn in proportion to a node's links, so they show where it links but not how often; and M walks see only a
sample of its links, although most links repeat earlier ones. These sums over the past are exact.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cawn.data.events import Events
from cawn.kernels.cpu.index import fill_logsums
from cawn.kernels.cpu.walks import count_before
from cawn.kernels.jit import njit
from cawn.walks.history import History

Array = npt.NDArray[Any]

STORED_NAMES = ("pairs", "ways", "sources", "destinations")  # in run folders; "ways" are the directed pairs
AGES = 3  # of the newest links of a pair
LONGEST = 1e30  # units of time; longer spans are cut to this, so that features stay finite
CLOSENESS_SCALE = 14.0  # log(1 + age in units) of a long time ago, so that features are of order one


def part_widths(num_decays: int) -> tuple[int, int, int]:
    """Number of features of a pair, of each of its ends, and of each directed count."""
    return num_decays + 1 + AGES, 2 * num_decays + 1, num_decays + 1


def rates_width(num_decays: int, *, directed: bool) -> int:
    """Number of features per pair, see `Rates.features`."""
    pair, end, directed_count = part_widths(num_decays)
    return pair + 2 * end + directed * 3 * directed_count


def pair_width(rates_width: int) -> int:
    """How many of `rates_width` undirected features are the pair's; those of u and then of v follow."""
    return part_widths((rates_width - AGES - 3) // 5)[0]


class DecayedCounts(NamedTuple):
    """For each key the times at which it occurred, in order, and the running log-sums of their weights."""

    keys: Array  # [K] sorted int64
    starts: Array  # [K + 1]
    time: Array  # [n]
    logsum: Array  # [decays, n]
    alphas: Array  # [decays]

    @classmethod
    def of(cls, keys: Array, t: Array, alphas: Array) -> DecayedCounts:
        order = np.argsort(keys, kind="stable")
        different, first = np.unique(keys[order], return_index=True)
        starts, time = np.append(first, len(order)).astype(np.int64), np.ascontiguousarray(t[order])
        logsum = np.empty((alphas.size, len(order)))
        for a in range(alphas.size):
            fill_logsums(starts, time, alphas[a], logsum[a], 0, len(different))
        return cls(different, starts, time, logsum, alphas)

    def before(self, keys: Array, t: Array, num_ages: int = 1) -> tuple[Array, Array, Array]:
        """Occurrences of each key before t [B], ages of the newest [B, num_ages], decayed counts [B, decays]."""
        at = np.searchsorted(self.keys, keys)
        known = at < len(self.keys)
        known[known] = self.keys[at[known]] == keys[known]
        ages, rates = np.empty((len(keys), num_ages)), np.empty((len(keys), self.alphas.size))
        rows = np.where(known, at, -1)
        count = _before(rows, t.astype(self.time.dtype), *self[1:], ages, rates)
        return count, ages, rates


@njit
def _before(
    rows: Array, t: Array, starts: Array, time: Array, logsum: Array, alphas: Array, ages: Array, rates: Array
) -> Array:
    """Entries of each list strictly before t [B]; fills ages [B, r] of the newest, inf where there are fewer, and the
    decayed counts [B, decays], sums of exp(-alpha age). A row outside the lists is empty."""
    count = np.zeros(rows.size, np.int64)
    for q in range(rows.size):
        ages[q] = np.inf
        rates[q] = 0.0
        if rows[q] < 0 or rows[q] >= starts.size - 1:
            continue
        first = starts[rows[q]]
        count[q] = count_before(time, first, starts[rows[q] + 1], t[q])
        newest = first + count[q] - 1
        for r in range(min(count[q], ages.shape[1])):
            ages[q, r] = t[q] - time[newest - r]
        if count[q] > 0:
            for a in range(alphas.size):
                rates[q, a] = math.exp(logsum[a, newest] - alphas[a] * ages[q, 0])
    return count


class Rates:
    """The decayed counts of a network's pairs and nodes; with `directed` also by the direction of their links."""

    def __init__(self, events: Events, history: History, *, directed: bool) -> None:
        alphas = np.array(history.alpha)
        src, dst, t = events.src.astype(np.int64), events.dst.astype(np.int64), events.t
        keys = [_pair(np.minimum(src, dst), np.maximum(src, dst))]
        if directed:
            directed_pairs = _pair(src, dst)
            keys += [directed_pairs, src, dst]
        self._set([DecayedCounts.of(some, t, alphas) for some in keys], history)

    def _set(self, counts: list[DecayedCounts], history: History) -> None:
        index = history.arrays
        lists = (index[name] for name in ("starts", "time", "logsum", "alphas"))
        self._nodes = DecayedCounts(np.arange(history.num_nodes), *lists)
        self._pairs, *self._directed = counts

    @classmethod
    def adopt(cls, arrays: dict[str, Array], history: History) -> Rates:
        """Rebuild from `arrays`; those read from a file must pass `check_rates` first."""
        rates = cls.__new__(cls)
        names = [name for name in STORED_NAMES if f"{name}.keys" in arrays]
        fields = DecayedCounts._fields
        rates._set([DecayedCounts(*(arrays[f"{name}.{field}"] for field in fields)) for name in names], history)
        return rates

    @property
    def counts(self) -> list[DecayedCounts]:
        """Of pairs and nodes; with `directed` also of directed pairs, sources and destinations."""
        return [self._pairs, self._nodes, *self._directed]

    @property
    def arrays(self) -> dict[str, Array]:
        """The counts by name as stored in run folders; those of the nodes are part of the history."""
        counts = zip(STORED_NAMES, (self._pairs, *self._directed), strict=False)
        return {f"{name}.{field}": array for name, one in counts for field, array in one._asdict().items()}

    def features(self, src: Array, dst: Array, t: Array, unit: float) -> npt.NDArray[np.float32]:
        """[B, R]: decayed counts, number and ages of the pair's links; then for each end its decayed counts, last
        activity and the probability of a step to the other end; then decayed counts and last activity by direction."""
        src, dst = src.astype(np.int64), dst.astype(np.int64)
        count, ages, rates = self._pairs.before(_pair(np.minimum(src, dst), np.maximum(src, dst)), t, AGES)
        parts = [np.log1p(rates), np.log1p(count)[:, None], _closeness(ages, unit)]
        for end in (src, dst):
            _, age, end_rates = self._nodes.before(end, t)
            one_step = rates / np.maximum(end_rates, np.finfo(float).tiny)  # probability of a walk's first step
            parts += [np.log1p(end_rates), _closeness(age, unit), one_step]
        if self._directed:
            for counts, keys in zip(self._directed, (_pair(src, dst), src, dst), strict=True):
                _, age, rates = counts.before(keys, t)
                parts += [np.log1p(rates), _closeness(age, unit)]
        return np.concatenate(parts, axis=1).astype(np.float32)


def _pair(a: Array, b: Array) -> npt.NDArray[np.int64]:
    """One key for two nodes."""
    return np.asarray(a << 32 | b)


def _closeness(age: Array, unit: float) -> Array:
    """1 for age 0, decreasing with the logarithm of the age to about 0; -1 for never."""
    ever = np.isfinite(age)
    return np.where(ever, 1 - np.log1p(in_units(np.where(ever, age, 0), unit)) / CLOSENESS_SCALE, -1)


def in_units(span: Array, unit: float) -> Array:
    """Spans of time in units, at most LONGEST."""
    with np.errstate(over="ignore"):
        return np.minimum(span / unit, LONGEST)
