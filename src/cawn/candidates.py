"""Whom a node may link to next: a short list to rank instead of everyone.

Three sources, each saying why: partners of the node (links repeat), nodes its walks reach in two or three steps
(triangles close, and in two-sided networks people take what their likes took), destinations that are popular right now.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.events import Events
from cawn.history import History

Array = npt.NDArray[Any]

KINDS = ("recent", "two hops", "popular")
LONGEST = 400  # candidates of each kind
POPULAR_LINKS = 50_000  # the newest links among which popularity is counted
WALKS = 512


class Candidates:
    """Chooses candidates from a history."""

    def __init__(self, events: Events, history: History) -> None:
        self._events, self._history = events, history
        self._first: Array | None = None

    def choose(self, node: int, t: Any, kinds: tuple[str, ...] = KINDS) -> dict[int, str]:
        """Node ids in the order of how they were found, each with the first kind that found it. `node` is not one."""
        walks = self._history.sample([node], t, num_walks=WALKS * len(self._history.alpha), length=3, seed=0, threads=1)
        partners, near = walks.nodes[0, :, 1], walks.nodes[0, :, 2:]
        found: dict[int, str] = {}
        for kind, nodes in (("recent", partners), ("two hops", near), ("popular", self._popular(t))):
            if kind in kinds:
                for other in _most_frequent(self._destinations(nodes, t)):
                    found.setdefault(other, kind)
        found.pop(node, None)
        return found

    def _popular(self, t: Any) -> Array:
        end = int(np.searchsorted(self._events.t, t))
        return self._events.dst[max(end - POPULAR_LINKS, 0) : end]

    def _destinations(self, nodes: Array, t: Any) -> Array:
        """Those of the nodes that some link has gone to before t."""
        if self._first is None:
            first = np.full(self._events.num_nodes, len(self._events))
            first[self._events.dst[::-1]] = np.arange(len(self._events))[::-1]
            self._first = first
        known = nodes[nodes >= 0]
        return np.asarray(known[self._first[known] < np.searchsorted(self._events.t, t)])


def _most_frequent(nodes: Array) -> list[int]:
    different, count = np.unique(nodes, return_counts=True)
    best: list[int] = different[np.argsort(-count, kind="stable")[:LONGEST]].tolist()
    return best
