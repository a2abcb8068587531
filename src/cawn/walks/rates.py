"""Exact decayed counts of the past links of u, of v and of the pair, at every decay.

Walks are drawn in proportion to a node's links, so they show where it links but not how often; and M walks see only a
sample of its links, although most links repeat earlier ones. These sums over the past are exact.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cawn.data.events import Events
from cawn.kernels.cpu.index import fill_logsums
from cawn.kernels.cpu.rates import AGES, CLOSENESS_SCALE, LONGEST, SAME, Lists, RateTables, hash_table, rate_features
from cawn.kernels.cpu.spans import Spans, constant
from cawn.walks.history import History
from cawn.walks.lists import ListsVersion

__all__ = ["AGES", "CLOSENESS_SCALE", "LONGEST", "DecayedCounts", "Rates", "in_units", "part_widths", "rates_width"]

Array = npt.NDArray[Any]

STORED_NAMES = ("pairs", "ways", "sources", "destinations")  # in run folders; "ways" are the directed pairs


def part_widths(num_decays: int) -> tuple[int, int, int]:
    """Number of features of a pair, of each of its ends, and of each directed count."""
    return num_decays + 1 + AGES, 2 * num_decays + 1, num_decays + 1


def part_columns(num_decays: int, *, directed: bool) -> npt.NDArray[np.int64]:
    """Where each part of a row of features starts, in the order of `kernels.cpu.rates`, and where the last ends."""
    pair, end, directed_count = part_widths(num_decays)
    return np.cumsum([0, pair, end, end, *[directed_count] * 3 * directed])


def rates_width(num_decays: int, *, directed: bool) -> int:
    """Number of features per pair, see `Rates.features`."""
    return int(part_columns(num_decays, directed=directed)[-1])


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

    @property
    def lists(self) -> Lists:
        """The lists without their keys, as the kernel takes them."""
        return Lists(Spans.of(self.starts), constant(self.time), constant(self.logsum))

    def rows_like(self, others: DecayedCounts, keys: Array) -> npt.NDArray[np.int32]:
        """The row of each key, -1 where it never occurred; SAME where it occurred as often as row i of `others`."""
        rows = np.full(len(keys), -1, np.int32)
        _, at, row = np.intersect1d(keys, self.keys, assume_unique=True, return_indices=True)
        rows[at] = np.where(np.diff(self.starts)[row] == np.diff(others.starts)[at], SAME, row)
        return rows


class Rates:
    """The decayed counts of a network's pairs and nodes; with `directed` also by the direction of their links."""

    _lists: list[ListsVersion]  # of a version of lists that grow

    def __init__(self, events: Events, history: History, *, directed: bool) -> None:
        alphas = np.array(history.alpha)
        src, dst, t = events.src.astype(np.int64), events.dst.astype(np.int64), events.t
        keys = [_pair(np.minimum(src, dst), np.maximum(src, dst))]
        if directed:
            directed_pairs = _pair(src, dst)
            keys += [directed_pairs, src, dst]
        self._set([DecayedCounts.of(some, t, alphas) for some in keys], history)

    def _set(self, counts: list[DecayedCounts], history: History) -> None:
        self.history, self._counts, self._is_directed = history, counts, len(counts) > 1

    @classmethod
    def of_versions(cls, lists: list[ListsVersion], rows: tuple[Array, Array], history: History) -> Rates:
        """One version of lists that grow: of pairs and, if directed, of directed pairs, sources and destinations.

        Args:
            rows: The rows of each pair's directed pairs [K or more, 2] and of each node [N or more]; see `RateTables`.
        """
        rates = cls.__new__(cls)
        rates.history, rates._lists, rates._is_directed = history, lists, len(lists) > 1
        index, (directed_rows, node_rows) = history.index, rows
        nodes = Lists(index.spans, index.time, index.logsum)
        pairs, *directed = (Lists(one.spans, one.columns["time"], one.columns["logsum"]) for one in lists)
        arrays = index.alphas, lists[0].keys, lists[0].slots, directed_rows, node_rows, node_rows
        rates._tables = RateTables((pairs, nodes, nodes, *(directed or [nodes] * 3)), *map(constant, arrays))
        return rates

    def __reduce__(self) -> tuple[Any, ...]:
        return Rates.adopt, (self.arrays, self.history)

    @cached_property
    def _counts(self) -> list[DecayedCounts]:
        """The counts of growing lists, in the order of their keys."""
        found = []
        for lists in self._lists:
            keys, rows = lists.sorted_keys()
            starts, columns = lists.flat(rows)
            found.append(DecayedCounts(keys, starts, columns["time"], columns["logsum"], self.history.index.alphas))
        return found

    @property
    def _pairs(self) -> DecayedCounts:
        return self._counts[0]

    @property
    def _directed(self) -> list[DecayedCounts]:
        return self._counts[1:]

    @property
    def _nodes(self) -> DecayedCounts:
        lists = (self.history.arrays[name] for name in ("starts", "time", "logsum", "alphas"))
        return DecayedCounts(np.arange(self.history.num_nodes), *lists)

    @classmethod
    def adopt(cls, arrays: dict[str, Array], history: History) -> Rates:
        """Rebuild from `arrays`; those read from a file must pass `check_rates` first."""
        rates = cls.__new__(cls)
        names = [name for name in STORED_NAMES if f"{name}.keys" in arrays]
        fields = DecayedCounts._fields
        rates._set([DecayedCounts(*(arrays[f"{name}.{field}"] for field in fields)) for name in names], history)
        return rates

    @property
    def pairs(self) -> DecayedCounts:
        """Of undirected pairs."""
        return self._pairs

    @property
    def counts(self) -> list[DecayedCounts]:
        """Of pairs and nodes; with `directed` also of directed pairs, sources and destinations."""
        return [self._pairs, self._nodes, *self._directed]

    @property
    def arrays(self) -> dict[str, Array]:
        """The counts by name as stored in run folders; those of the nodes are part of the history."""
        counts = zip(STORED_NAMES, (self._pairs, *self._directed), strict=False)
        return {f"{name}.{field}": array for name, one in counts for field, array in one._asdict().items()}

    @cached_property
    def _tables(self) -> RateTables:
        """The counts as the kernel reads them."""
        pairs, nodes, directed = self._pairs, self._nodes, self._directed
        slots = hash_table(pairs.keys)
        lists = tuple(one.lists for one in (pairs, nodes, nodes, *(directed or [nodes] * 3)))
        rows = np.empty((0, 2), np.int32), np.empty(0, np.int32), np.empty(0, np.int32)
        if directed:
            low, high = pairs.keys >> 32, pairs.keys & 0xFFFFFFFF
            both_ways = [directed[0].rows_like(pairs, _pair(*ends)) for ends in ((low, high), (high, low))]
            by_side = [one.rows_like(nodes, nodes.keys) for one in directed[1:]]
            rows = np.stack(both_ways, axis=1), by_side[0], by_side[1]
        return RateTables(lists, *map(constant, (nodes.alphas, pairs.keys, slots, *rows)))

    def features(
        self, src: Array, dst: Array, t: Array, unit: float, *, threads: int | None = None
    ) -> npt.NDArray[np.float32]:
        """[B, R]: decayed counts, number and ages of the pair's links; then for each end its decayed counts, last
        activity and the probability of a step to the other end; then decayed counts and last activity by direction."""
        index = self.history.index
        columns = part_columns(len(index.alphas), directed=self._is_directed)
        src, dst = (constant(np.asarray(nodes, np.int64)) for nodes in (src, dst))
        times = constant(np.asarray(t, index.time.dtype))
        return rate_features(self._tables, columns, src, dst, times, float(unit), threads)


def _pair(a: Array, b: Array) -> npt.NDArray[np.int64]:
    """One key for two nodes."""
    return np.asarray(a << 32 | b)


def in_units(span: Array, unit: float) -> Array:
    """Spans of time in units, at most LONGEST."""
    with np.errstate(over="ignore"):
        return np.minimum(span / unit, LONGEST)
