"""The recency baseline on a stream: `baselines.Past.recency` of all links so far, without indexing them all again."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.index.index import Index
from cawn.index.kernels.building import first_links
from cawn.index.kernels.lists import constant, last_links, rows_of_keys
from cawn.index.kinds import DESTINATIONS, PAIRS
from cawn.kernels.keys import pair_key
from cawn.snapshot import Snapshot
from cawn.systems.baselines import recency_score
from cawn.systems.indexed import IndexedScorer

Array = npt.NDArray[Any]

NONE = -1


class Recency:
    """When each node first linked; and when each pair and each destination last did before any time, which the index of
    a system knows. Where there is none, one is built for each version of the history that is asked."""

    def __init__(self, src: Array, dst: Array, t: Array) -> None:
        limits: Any = (np.iinfo if t.dtype.kind == "i" else np.finfo)(t.dtype)
        self._never, self.newest = limits.max, limits.min  # the time of the newest link
        self._first = np.empty((2, 0), t.dtype)  # time of the first link of each node, and of the first to it
        self.destinations = np.empty(0, np.int32)  # in the order of the first link to them
        self.first_times = t[:0]  # of that link
        self.place = np.empty(0, np.int32)  # of each node among them; `NONE` for others
        self._built: Index | None = None
        self.add(src, dst, t)

    def add(self, src: Array, dst: Array, t: Array) -> None:
        """Add links in the order of time, all of which may be older than others."""
        if len(t) == 0:
            return
        self.newest = max(self.newest, t[-1])
        size, held = 1 + int(max(src.max(), dst.max())), len(self.place)
        if size > held:
            more = 0, max(size, held + held // 2) - held
            self._first = np.pad(self._first, ((0, 0), more), constant_values=self._never)
            self.place = np.pad(self.place, more, constant_values=NONE)
        unseen, to = np.zeros((2, len(self.place)), bool), _ids(dst)
        first = [first_links(ends, to, 0, seen) for ends, seen in zip((_ids(src), to), unseen, strict=True)]
        few = np.unique(np.concatenate(first) >> 1)  # NumPy would take long for all links
        src, dst, t = src[few], dst[few], t[few]
        np.minimum.at(self._first[0], src, t)
        np.minimum.at(self._first[0], dst, t)
        if (t < self._first[1, dst]).any():
            np.minimum.at(self._first[1], dst, t)
            found = dst[np.sort(np.unique(dst, return_index=True)[1])]
            found = np.append(self.destinations, found[self.place[found] == NONE])
            self.destinations = found[np.argsort(self._first[1, found], kind="stable")]
            self.first_times = self._first[1, self.destinations]
            self.place[self.destinations] = np.arange(len(found))

    def news(self, state: Snapshot, src: Array, dst: Array, t: Array) -> npt.NDArray[np.bool_]:
        """Whether a node has no link before time t, and whether the pair has none, in either direction: [n, 2]."""
        new_node = np.maximum(self._first[0, src], self._first[0, dst]) >= t
        return np.stack([new_node, self._last(state, src, dst, t)[0] == NONE], axis=1)

    def negatives(self, dst: Array, t: Array, uniform: Array) -> Array:
        """Random destinations of links before time t, other than dst; `NONE` if there are none: [n, K].

        Args:
            uniform: [n, K] random numbers in [0, 1), which choose them.
        """
        known, own = np.searchsorted(self.first_times, t)[:, None], self.place[dst][:, None]
        choices = known - (own < known)
        at = np.minimum((uniform * choices).astype(np.int64), choices - 1)
        return np.where(choices > 0, self.destinations[at + (at >= own)], NONE)

    def scores(self, state: Snapshot, src: Array, dst: Array, t: Array) -> npt.NDArray[np.float64]:
        """The baseline's scores of pairs at times t: [B]."""
        last, every_t = self._last(state, src, dst, t), state.events.t
        pair, destination = np.where(last == NONE, NONE, np.searchsorted(every_t, every_t[last]))
        return recency_score(pair, destination, np.searchsorted(every_t, t))

    def _last(self, state: Snapshot, src: Array, dst: Array, t: Array) -> Array:
        """The last link of each pair before time t, and the last one to its destination; `NONE` without any: [2, n]."""
        index, visible = self._index(state), np.searchsorted(state.events.t, t)
        pairs, destinations = index.lists(PAIRS), index.lists(DESTINATIONS)
        rows = rows_of_keys(pairs, pair_key(np.minimum(src, dst), np.maximum(src, dst)))
        return np.stack([last_links(pairs, rows, visible), last_links(destinations, dst.astype(np.int64), visible)])

    def _index(self, state: Snapshot) -> Index:
        """An index with the lists of pairs and of destinations."""
        held = state.scorer.history.index if isinstance(state.scorer, IndexedScorer) else None
        if held is not None and {PAIRS.name, DESTINATIONS.name} <= held.kinds.keys():
            return held
        if self._built is None or self._built.t is not state.events.t:
            self._built = Index.of(state.events, np.empty(0), (PAIRS, DESTINATIONS))
        return self._built


def _ids(nodes: Array) -> Array:
    """Nodes in the type for which kernels are compiled."""
    return constant(nodes.astype(np.int32, copy=False))
