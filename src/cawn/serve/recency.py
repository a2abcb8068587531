"""The recency baseline on a stream: updated link by link, equal to `baselines.Past.recency` on the links so far."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cawn.data.events import Events
from cawn.serve import recency_kernels as kernels
from cawn.systems.baselines import recency_score

Array = npt.NDArray[Any]

_CHUNK = 1 << 18  # links added together
_FULLEST = 0.7  # share of the slots of the hash table in use


class Followed(NamedTuple):
    """Facts about n links at the time they were added, and scores of the m links that were `asked` for."""

    new_pair: npt.NDArray[np.bool_]  # [n] whether the pair had no earlier link, in either direction
    new_node: npt.NDArray[np.bool_]  # [n] whether one of its nodes had no earlier link
    negatives: Array  # [m, K] random earlier destinations except the link's own; -1 if there were none
    scores: npt.NDArray[np.float64]  # [m, 1 + K] the baseline's scores of the link and of its negatives


class Recency:
    """When each pair and each destination last linked. Memory: about 35 bytes for each pair, 24 for each node.

    Only links in the order of time are scored. A link that is older than the newest one is inserted at its time; the
    number of links between two others is then too small by the number of such links, which affects few ranks.
    """

    def __init__(self) -> None:
        self.late = 0
        self.newest: Any = None  # time of the newest link
        self._before = self._at = 0  # number of links before that time, and at that time
        self._counts = np.zeros(3, np.int64)
        self._pairs, self._nodes = _pairs(1 << 10), _nodes(0)

    def extend(self, events: Events, first: int, last: int) -> tuple[int, int]:
        """Add the links from position `first` to `last`; returns the number with a new node, and that of new pairs."""
        new_nodes = new_pairs = 0
        for start in range(first, last, _CHUNK):
            part = slice(start, min(start + _CHUNK, last))
            followed = self.follow(events.src[part], events.dst[part], events.t[part])
            new_nodes, new_pairs = new_nodes + int(followed.new_node.sum()), new_pairs + int(followed.new_pair.sum())
        return new_nodes, new_pairs

    def follow(
        self, src: Array, dst: Array, t: Array, asked: Array | None = None, uniform: Array | None = None
    ) -> Followed:
        """Add links in the order of time, none of them older than the newest; each is first scored if it is `asked`.

        Args:
            asked: Positions [m] of links to score.
            uniform: [m, K] random numbers in [0, 1), which choose K negatives for each.
        """
        asked = np.empty(0, np.int64) if asked is None else asked
        uniform = np.empty((len(asked), 0)) if uniform is None else uniform
        n, (m, K) = len(src), uniform.shape
        row = np.full(n, -1, np.int64)
        row[asked] = np.arange(m)
        rank = self._ranks(t)
        answers = (np.full((m, width), -1, np.int64) for width in (K, 1 + K, 1 + K))
        questions = kernels.Questions(row, uniform, *answers)
        new_pair, new_node = np.empty(n, np.bool_), np.empty(n, np.bool_)
        self._reserve(src, dst)
        ends = src.astype(np.int64), dst.astype(np.int64)
        kernels.follow(*ends, rank, self._pairs, self._nodes, self._counts, new_pair, new_node, questions)
        scores = recency_score(questions.pair, questions.destination, rank[asked][:, None])
        return Followed(new_pair, new_node, questions.negatives, scores)

    def is_late(self, t: Array) -> npt.NDArray[np.bool_]:
        """Which times are before that of the newest link: [n]."""
        return np.zeros(len(t), np.bool_) if self.newest is None else np.asarray(t < self.newest)

    def insert(self, src: Array, dst: Array, rank: Array) -> None:
        """Add links that are older than the newest, each after `rank` others."""
        self._reserve(src, dst)
        self.late += len(src)
        ends = src.astype(np.int64), dst.astype(np.int64)
        rank = np.minimum(rank.astype(np.int64), max(self._before - 1, 0))
        kernels.insert_late(*ends, rank, self._pairs, self._nodes, self._counts)

    def destinations(self) -> tuple[Array, Array, Array]:
        """All destinations in the order of their first link [D], the number of links before it [D], and the place of
        each node in that order, -1 for none [N]."""
        count, nodes = int(self._counts[1]), self._nodes
        return nodes.order[:count], nodes.order_first[:count].astype(np.int64) - 1, nodes.place

    def _ranks(self, t: Array) -> Array:
        """The number of links strictly before each of these; moves on to the last of them."""
        if len(t) == 0:
            return np.empty(0, np.int64)
        rank = self._before + self._at + np.searchsorted(t, t)
        same = t == self.newest if self.newest is not None else np.zeros(len(t), bool)
        rank = np.where(same, self._before, rank)
        total = self._before + self._at + len(t)
        self.newest, self._before = t[-1], int(rank[-1])
        self._at = total - self._before
        return rank

    def _reserve(self, src: Array, dst: Array) -> None:
        """Make room for these links."""
        size = len(self._pairs.keys)
        while self._counts[0] + len(src) > _FULLEST * size:
            size *= 2
        if size > len(self._pairs.keys):
            larger = _pairs(size)
            kernels.rehash(self._pairs, larger)
            self._pairs = larger
        needed = max(int(max(src.max(), dst.max())) + 1 if len(src) else 0, 0)
        held = len(self._nodes.last)
        if needed > held:
            larger_nodes = _nodes(max(needed, held + held // 2))
            for old, new in zip(self._nodes, larger_nodes, strict=True):
                new[:held] = old
            self._nodes = larger_nodes


def _pairs(size: int) -> kernels.Pairs:
    return kernels.Pairs(np.full(size, kernels.EMPTY), np.zeros(size, np.uint32), np.zeros(size, np.uint32))


def _nodes(size: int) -> kernels.Nodes:
    last, before, first, order_first = (np.zeros(size, np.uint32) for _ in range(4))
    return kernels.Nodes(last, before, first, np.zeros(size, np.int32), order_first, np.full(size, -1, np.int32))
