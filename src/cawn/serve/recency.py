"""The recency baseline on a stream: `baselines.Past.recency` of all links so far, without indexing them all again."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cawn.index.tallies import Tally
from cawn.kernels.keys import pair_key
from cawn.systems.baselines import recency_score

Array = npt.NDArray[Any]

NONE = -1
RATIO = 4


class _Part(NamedTuple):
    """Some of the links, in the order of time, and those of each pair and of each destination."""

    src: Array
    dst: Array
    t: Array
    tallies: list[Tally]


class Recency:
    """When each pair and each destination last linked, before any time, and when each node first did.

    Links are kept in parts, each at least `RATIO` times as large as the next one; smaller ones are merged. So a link is
    moved a logarithmic number of times, and few parts are asked.
    """

    def __init__(self, src: Array, dst: Array, t: Array) -> None:
        limits: Any = (np.iinfo if t.dtype.kind == "i" else np.finfo)(t.dtype)
        self._never, self._before_all, self._parts = limits.max, limits.min, list[_Part]()
        self.newest: Any = self._before_all  # time of the newest link
        self._first = np.empty((2, 0), t.dtype)  # time of the first link of each node, and of the first to it
        self.destinations = np.empty(0, np.int32)  # in the order of the first link to them
        self.first_times = t[:0]  # of that link
        self.place = np.empty(0, np.int32)  # of each node among them; `NONE` for others
        self.add(src, dst, t)

    def add(self, src: Array, dst: Array, t: Array) -> None:
        """Add links in the order of time, all of which may be older than others."""
        if len(t) == 0:
            return
        self.newest = max(self.newest, t[-1])
        self._add_nodes(src, dst, t)
        while self._parts and len(self._parts[-1].t) < RATIO * len(t):
            held = self._parts.pop()
            src, dst, t = (np.concatenate(both) for both in zip(held[:3], (src, dst, t), strict=True))
        order = np.argsort(t, kind="stable")
        src, dst, t = src[order], dst[order], t[order]
        self._parts.append(_Part(src, dst, t, [Tally.of(keys, np.arange(len(t))) for keys in _keys(src, dst)]))

    def _add_nodes(self, src: Array, dst: Array, t: Array) -> None:
        size, held = 1 + int(max(src.max(), dst.max())), len(self.place)
        if size > held:
            more = 0, max(size, held + held // 2) - held
            self._first = np.pad(self._first, ((0, 0), more), constant_values=self._never)
            self.place = np.pad(self.place, more, constant_values=NONE)
        np.minimum.at(self._first[0], src, t)
        np.minimum.at(self._first[0], dst, t)
        if (t < self._first[1, dst]).any():
            np.minimum.at(self._first[1], dst, t)
            found = dst[np.sort(np.unique(dst, return_index=True)[1])]
            found = np.append(self.destinations, found[self.place[found] == NONE])
            self.destinations = found[np.argsort(self._first[1, found], kind="stable")]
            self.first_times = self._first[1, self.destinations]
            self.place[self.destinations] = np.arange(len(found))

    def news(self, src: Array, dst: Array, t: Array) -> npt.NDArray[np.bool_]:
        """Whether a node has no link before time t, and whether the pair has none, in either direction: [n, 2]."""
        new_node = np.maximum(self._first[0, src], self._first[0, dst]) >= t
        return np.stack([new_node, self._last(src, dst, t)[0] == self._before_all], axis=1)

    def negatives(self, dst: Array, t: Array, uniform: Array) -> Array:
        """Random destinations of links before time t, other than dst; `NONE` if there are none: [n, K].

        Args:
            uniform: [n, K] random numbers in [0, 1), which choose them.
        """
        known, own = np.searchsorted(self.first_times, t)[:, None], self.place[dst][:, None]
        choices = known - (own < known)
        at = np.minimum((uniform * choices).astype(np.int64), choices - 1)
        return np.where(choices > 0, self.destinations[at + (at >= own)], NONE)

    def scores(self, every_t: Array, src: Array, dst: Array, t: Array) -> npt.NDArray[np.float64]:
        """The baseline's scores of pairs at times t, given the times of all links: [B]."""
        last = self._last(src, dst, t)
        times, at = np.unique(last, return_inverse=True)  # likewise
        ranks = np.searchsorted(every_t, times)[at].reshape(last.shape)
        pair, destination = np.where(last > self._before_all, ranks, -1)
        return recency_score(pair, destination, np.searchsorted(every_t, t))

    def _last(self, src: Array, dst: Array, t: Array) -> Array:
        """The time of the last link of each pair before time t, and of the last one to its destination: [2, n]."""
        last = np.full((2, len(t)), self._before_all, self._first.dtype)
        visible = [np.searchsorted(part.t, t) for part in self._parts]
        for which, keys in enumerate(_keys(src, dst)):
            order = np.argsort(keys)  # the search for keys is five times as fast in their order
            keys, found = keys[order], last[which, order]
            for part, first in zip(self._parts, visible, strict=True):
                tally = part.tallies[which]
                count, newest = tally.before(keys, first[order])
                np.maximum(found, part.t[tally.links[newest]], out=found, where=count > 0)
            last[which, order] = found
        return last


def _keys(src: Array, dst: Array) -> tuple[Array, Array]:
    return pair_key(np.minimum(src, dst), np.maximum(src, dst)), dst.astype(np.int64)
