"""Whom a node may link to next: a short list to rank instead of everyone.

Three sources, each saying why: partners of the node (links repeat), nodes its walks reach in two or three steps
(triangles close, and in two-sided networks people take what their likes took), destinations that are popular right now.
Where a source finds too many, the most frequent are kept, of equally frequent ones those seen last: never by node id.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.data.decays import ladder
from cawn.data.events import Events
from cawn.walks.history import History

Array = npt.NDArray[Any]

KINDS = ("recent", "two hops", "popular")
LONGEST = 400  # candidates of each kind
POPULAR_LINKS = 50_000  # the newest links among which popularity is counted
WALKS = 512


class Candidates:
    """Chooses candidates from a history. May be used by several threads at once.

    Args:
        history: The index of the events; built with a ladder of decays where none is given.
        directed: Whether only nodes that links have gone to are candidates; else all that had a link.
    """

    def __init__(self, events: Events, history: History | None = None, *, directed: bool = True) -> None:
        self._events, self._index = events, history
        self._ends = events.dst if directed else np.stack([events.dst, events.src], axis=1).reshape(-1)
        self._per_link = 1 if directed else 2
        self._first: Array | None = None
        self._popular: tuple[int, list[int]] = (0, [])  # of the last question's time: it often is the next one's too

    @property
    def _history(self) -> History:
        if self._index is None:
            self._index = History(self._events, ladder(self._events.intensity))
        return self._index

    def choose(self, node: int, t: Any, kinds: tuple[str, ...] = KINDS) -> dict[int, str]:
        """Node ids in the order of how they were found, each with the first kind that found it. `node` is not one."""
        found: dict[int, str] = {}
        if "recent" in kinds or "two hops" in kinds:
            num_walks = WALKS * len(self._history.alpha)
            walks = self._history.sample([node], t, num_walks=num_walks, length=3, seed=0, threads=1)
            for kind, steps in (("recent", slice(1, 2)), ("two hops", slice(2, None))):
                if kind in kinds:
                    reached = walks.nodes[0, :, steps].ravel(), walks.events[0, :, steps].ravel()
                    for other in self._most_frequent(*self._destinations(*reached, t)):
                        found.setdefault(other, kind)
        if "popular" in kinds:
            for other in self._popular_before(t):
                found.setdefault(other, "popular")
        found.pop(node, None)
        return found

    def everyone(self, node: int, t: Any) -> Array:
        """Every node that could be a candidate at t, the first in the history first; not `node`."""
        nodes = self._ends[: self._num_before(t)]
        _, first = np.unique(nodes, return_index=True)
        different = nodes[np.sort(first)].astype(np.int64)
        return np.asarray(different[different != node])

    def _num_before(self, t: Any) -> int:
        """How many of `_ends` belong to links before t."""
        return int(np.searchsorted(self._events.t, t)) * self._per_link

    def _popular_before(self, t: Any) -> list[int]:
        end = self._num_before(t)
        held_end, held = self._popular
        if held_end != end:
            start = max(end - POPULAR_LINKS * self._per_link, 0)
            held = self._most_frequent(self._ends[start:end], np.arange(start, end) // self._per_link)
            self._popular = end, held
        return held

    def _destinations(self, nodes: Array, links: Array, t: Any) -> tuple[Array, Array]:
        """Those of the nodes that could be candidates at t, and the links they were reached by."""
        if self._first is None:
            first = np.full(self._events.num_nodes, len(self._ends))
            first[self._ends[::-1]] = np.arange(len(self._ends))[::-1]
            self._first = first
        at = np.flatnonzero(nodes >= 0)
        at = at[self._first[nodes[at]] < self._num_before(t)]
        return nodes[at], links[at]

    def _most_frequent(self, nodes: Array, links: Array) -> list[int]:
        """The nodes that occur most often, each by one of the links; of equals the one with the newest link first."""
        different, at, count = np.unique(nodes, return_inverse=True, return_counts=True)
        newest = np.zeros(len(different), np.int64)
        # The two ends of a link differ in being its destination, so no two nodes are equal.
        np.maximum.at(newest, at, 2 * links.astype(np.int64) + (self._events.dst[links] == nodes))
        best: list[int] = different[np.lexsort((-newest, -count))[:LONGEST]].tolist()
        return best
