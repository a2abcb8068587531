"""Candidates: a short list of destinations that a node may link to next, to be ranked instead of all nodes.

There are three kinds: nodes it has linked with (links repeat), nodes its walks reach in two or three steps (triangles
close, and users with common items choose more of the same items), and destinations that are popular at the moment.
Of each kind the most frequent ones are kept, ties broken by the newest link and never by node id.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cawn.checks import Array
from cawn.data.decays import ladder
from cawn.data.events import Events
from cawn.walks.history import History

KINDS = ("recent", "two hops", "popular")
MAX_CANDIDATES = 400  # of each kind
POPULAR_LINKS = 50_000  # popularity is counted among this many newest links
WALKS = 512  # per decay
NEVER = np.iinfo(np.int64).max


class Candidates:
    """Chooses candidates from a history, by default one with a ladder of decays. Thread-safe.

    If `directed`, only earlier destinations are candidates, rather than all nodes with an earlier link.
    """

    def __init__(self, events: Events, history: History | None = None, *, directed: bool = True) -> None:
        self._events, self._index, self._directed = events, history, directed
        self._per_link = 1 if directed else 2
        self._firsts: tuple[Array, int] = np.empty(0, np.int64), 0  # `_first` of some links, and how many these are
        self._popular: tuple[int, list[int]] = (0, [])  # cached: the next query often has the same time

    def extended(self, events: Events, kept: int, history: History | None) -> Candidates:
        """Candidates of other events, of which the first `kept` are those of this one; only for the newest one."""
        later = Candidates(events, history, directed=self._directed)
        if kept == len(self._events):
            later._firsts = self._firsts
        return later

    @property
    def _history(self) -> History:
        if self._index is None:
            self._index = History(self._events, ladder(self._events.intensity))
        return self._index

    def choose(self, node: int, t: Any, kinds: tuple[str, ...] = KINDS) -> dict[int, str]:
        """Node ids in the order they were found, except `node`, each with the first kind that found it."""
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
        """All possible candidates at t except `node`, in the order of their first link."""
        first = self._first()
        nodes = np.flatnonzero(first < self._num_before(t))
        nodes = nodes[np.argsort(first[nodes])]
        return np.asarray(nodes[nodes != node])

    def _num_before(self, t: Any) -> int:
        """Number of ends, in the order of `_ends`, that belong to links before t."""
        return int(np.searchsorted(self._events.t, t)) * self._per_link

    def _popular_before(self, t: Any) -> list[int]:
        end = self._num_before(t)
        held_end, held = self._popular
        if held_end != end:
            first, last = max(end // self._per_link - POPULAR_LINKS, 0), end // self._per_link
            held = self._most_frequent(self._ends(first, last), np.repeat(np.arange(first, last), self._per_link))
            self._popular = end, held
        return held

    def _destinations(self, nodes: Array, links: Array, t: Any) -> tuple[Array, Array]:
        """The nodes that are possible candidates at t, and the links they were reached by."""
        at, first = np.flatnonzero(nodes >= 0), self._first()
        at = at[first[nodes[at]] < self._num_before(t)]
        return nodes[at], links[at]

    def _ends(self, first: int, last: int) -> Array:
        """The ends of links first..last that are possible candidates."""
        src, dst = self._events.src[first:last], self._events.dst[first:last]
        return dst if self._directed else np.stack([dst, src], axis=1).reshape(-1)

    def _first(self) -> Array:
        """The first of all ends that is each node: [N], NEVER if none is. Later ends do not matter to this version."""
        first, listed = self._firsts
        if listed < len(self._events):
            first = np.append(
                first, np.full(self._events.num_nodes - len(first), NEVER)
            )  # earlier versions keep theirs
            nodes, place = np.unique(self._ends(listed, len(self._events)), return_index=True)
            first[nodes] = np.minimum(first[nodes], place + listed * self._per_link)
            self._firsts = first, len(self._events)
        return first

    def _most_frequent(self, nodes: Array, links: Array) -> list[int]:
        """The most frequent nodes, ties broken by the newest link; links[i] is the link of nodes[i]."""
        different, at, count = np.unique(nodes, return_inverse=True, return_counts=True)
        newest = np.zeros(len(different), np.int64)
        # The last bit says whether the node is the destination, so no two nodes are tied.
        np.maximum.at(newest, at, 2 * links.astype(np.int64) + (self._events.dst[links] == nodes))
        best: list[int] = different[np.lexsort((-newest, -count))[:MAX_CANDIDATES]].tolist()
        return best
