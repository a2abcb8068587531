"""Exact rates: how much u, v and the pair of them have linked, at every decay, up to a moment.

Walks are drawn in proportion to the links of a node, so they tell where it links but not how much; and of the commonest
law of all, that links repeat, M walks see only a sample. Both are sums over the past that an index gives exactly.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cawn.data.events import Events
from cawn.kernels.cpu import walks as cpu
from cawn.kernels.cpu.rates import look_back
from cawn.walks.history import History

Array = npt.NDArray[Any]

AGES = 3  # of the newest links of a pair
LONGEST = 1e30  # units of time
_LONG = 14.0  # log(1 + age in units) of a long time ago, so that features are of order one


def rates_width(num_decays: int, *, directed: bool) -> int:
    """How many numbers `Rates.features` gives for a pair."""
    ends, pair = 2 * (num_decays + 1), 3 * num_decays + 1 + AGES
    return ends + pair + directed * 3 * (num_decays + 1)


def pair_width(rates_width: int) -> int:
    """How many of the undirected features are the pair's; those of u and then of v follow."""
    num_decays = (rates_width - AGES - 3) // 5
    return num_decays + 1 + AGES


class Tally(NamedTuple):
    """For each key the times it occurred, in order, and the running log-sums of their weights."""

    keys: Array  # [K] sorted int64
    starts: Array  # [K + 1]
    time: Array  # [n]
    logsum: Array  # [decays, n]
    alphas: Array  # [decays]

    @classmethod
    def of(cls, keys: Array, t: Array, alphas: Array) -> Tally:
        order = np.argsort(keys, kind="stable")
        different, first = np.unique(keys[order], return_index=True)
        starts, time = np.append(first, len(order)).astype(np.int64), np.ascontiguousarray(t[order])
        logsum = np.empty((alphas.size, len(order)))
        for a in range(alphas.size):
            cpu.fill_logsums(starts, time, alphas[a], logsum[a], 0, len(different))
        return cls(different, starts, time, logsum, alphas)

    def look_back(self, keys: Array, t: Array, num_ages: int = 1) -> tuple[Array, Array, Array]:
        """Before t: how often each key occurred [B], how long ago [B, num_ages], and its rates [B, decays]."""
        at = np.searchsorted(self.keys, keys)
        known = at < len(self.keys)
        known[known] = self.keys[at[known]] == keys[known]
        ages, rates = np.empty((len(keys), num_ages)), np.empty((len(keys), self.alphas.size))
        lists = np.where(known, at, -1)
        count = look_back(
            lists, t.astype(self.time.dtype), self.starts, self.time, self.logsum, self.alphas, ages, rates
        )
        return count, ages, rates


class Rates:
    """The tallies of a network's pairs and nodes, with `directed` also of the ways their links point."""

    def __init__(self, events: Events, history: History, *, directed: bool) -> None:
        alphas = np.array(history.alpha)
        src, dst, t = events.src.astype(np.int64), events.dst.astype(np.int64), events.t
        tallied = {"pairs": _pair(np.minimum(src, dst), np.maximum(src, dst))}
        if directed:
            tallied |= {"ways": _pair(src, dst), "sources": src, "destinations": dst}
        self._keep({name: Tally.of(keys, t, alphas) for name, keys in tallied.items()}, history)

    def _keep(self, tallies: dict[str, Tally], history: History) -> None:
        index = history.arrays
        lists = (index[name] for name in ("starts", "time", "logsum", "alphas"))
        self._nodes = Tally(np.arange(history.num_nodes), *lists)
        self._pairs, *self._directed = tallies.values()
        self._tallies = tallies

    @classmethod
    def adopt(cls, arrays: dict[str, Array], history: History) -> Rates:
        """The rates whose `arrays` these are; those of a file pass `check_rates` first."""
        rates = cls.__new__(cls)
        kinds = ("pairs", "ways", "sources", "destinations")
        names = [name for name in kinds if any(key.startswith(f"{name}.") for key in arrays)]
        rates._keep({name: Tally(*(arrays[f"{name}.{f}"] for f in Tally._fields)) for name in names}, history)
        return rates

    @property
    def tallies(self) -> list[Tally]:
        """Of pairs and nodes; with `directed` also of ways, sources and destinations."""
        return [self._pairs, self._nodes, *self._directed]

    @property
    def arrays(self) -> dict[str, Array]:
        """All they know beside the history, to be kept in files."""
        return {f"{name}.{f}": array for name, tally in self._tallies.items() for f, array in tally._asdict().items()}

    def features(self, src: Array, dst: Array, t: Array, unit: float) -> npt.NDArray[np.float32]:
        """[B, width]: for each end its rates and last activity; for the pair its rates, P(u -> v), P(v -> u), ages."""
        src, dst = src.astype(np.int64), dst.astype(np.int64)
        count, ages, rates = self._pairs.look_back(_pair(np.minimum(src, dst), np.maximum(src, dst)), t, AGES)
        parts = [np.log1p(rates), np.log1p(count)[:, None], _closeness(ages, unit)]
        for end in (src, dst):
            _, age, rates_of_end = self._nodes.look_back(end, t)
            one_step = rates / np.maximum(
                rates_of_end, np.finfo(float).tiny
            )  # the chance that a walk from it goes there
            parts += [np.log1p(rates_of_end), _closeness(age, unit), one_step]
        if self._directed:
            for tally, keys in zip(self._directed, (_pair(src, dst), src, dst), strict=True):
                _, age, rates = tally.look_back(keys, t)
                parts += [np.log1p(rates), _closeness(age, unit)]
        return np.concatenate(parts, axis=1).astype(np.float32)


def _pair(a: Array, b: Array) -> npt.NDArray[np.int64]:
    """One number for two nodes."""
    return np.asarray(a << 32 | b)


def _closeness(age: Array, unit: float) -> Array:
    """1 for just now, falling with the logarithm of the age to about 0; -1 for never."""
    ever = np.isfinite(age)
    return np.where(ever, 1 - np.log1p(in_units(np.where(ever, age, 0), unit)) / _LONG, -1)


def in_units(span: Array, unit: float) -> Array:
    """Spans of time counted in units; those beyond all reason are cut so that features stay finite."""
    with np.errstate(over="ignore"):
        return np.minimum(span / unit, LONGEST)
