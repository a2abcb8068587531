"""The entries of the lists of each kind, in the order of its lists, in blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from cawn.checks import Array
from cawn.data.columns import Column, release_pages
from cawn.data.events import Events
from cawn.index.canonical import CanonicalOrder, in_order
from cawn.index.kernels import building
from cawn.index.kinds import Kind
from cawn.kernels.keys import pair_key

Entries = Iterator[tuple[Array, ...]]  # row or key, then the columns of the kind that do not depend on other entries


class Streams:
    """Reads links in blocks of about `block`, in memory or from files, and yields their entries.

    `order` is empty, and gets the canonical order of links (`data.ties`), if some are simultaneous.
    """

    def __init__(self, events: Events, block: int, order: Column) -> None:
        self._events, self._block, self._order = events, block, order

    def of(self, kind: Kind) -> Entries:
        """The entries of a kind; those of ways are those of pairs."""
        entries: Entries = getattr(self, f"_{kind.name}")()
        return entries

    def find_order(self, attributes: bool, show: Callable[[int], object]) -> None:
        """Find the order of simultaneous links, if there are any."""
        events, last, is_tied = self._events, None, False
        for _, (_, _, t, _) in self.links():
            is_tied = is_tied or (len(t) and t[0] == last) or bool((t[1:] == t[:-1]).any())
            last = t[-1] if len(t) else None
        if not is_tied:
            return
        order = CanonicalOrder(events[:0], attributes=attributes)
        for first, (_, _, t, _) in self.links(events.msg, whole_ties=True):
            _, keys = order.extend(events[: first + len(t)], first)
            self._order.append(first + in_order(t, keys))
            show(first + len(t))

    def links(self, msg: Array | None = None, *, whole_ties: bool = False) -> Iterator[tuple[int, list[Any]]]:
        """At least one block of links: the first one, and their sources, destinations, times and attributes."""
        t, first = self._events.t, 0
        while first < len(t) or first == 0:
            last = min(first + self._block, len(t))
            if whole_ties and last < len(t):
                begin = int(np.searchsorted(t, t[last]))  # of the links at the time of the next one
                last = begin if begin > first else int(np.searchsorted(t, t[last], side="right"))
            columns = self._events.src, self._events.dst, t, msg
            views = [None if column is None else column[first:last] for column in columns]
            yield first, views
            for view in views:
                if view is not None:
                    release_pages(view)
            if last == len(t):
                break
            first = last

    def _nodes(self) -> Entries:
        events = self._events
        newest, count = np.empty(events.num_nodes, events.t.dtype), np.zeros((events.num_nodes, 2), np.int32)
        for first, (src, dst, t, _) in self.links():
            nodes, _ = building.both_ends(src, dst, np.arange(len(t), dtype=np.int32))
            time, hop = np.empty(len(nodes), t.dtype), np.empty((len(nodes), 3), np.int32)
            building.fill_nodes(src, dst, t, first, newest, count, np.arange(len(nodes)), time, hop)
            yield nodes, time, hop

    def _pairs(self) -> Entries:
        for first, (src, dst, *_) in self.links():
            yield pair_key(np.minimum(src, dst), np.maximum(src, dst)), _sources(first, len(src)) + (src > dst)

    def _sources(self) -> Entries:
        for first, (src, *_) in self.links():
            yield src, _sources(first, len(src))

    def _destinations(self) -> Entries:
        for first, (_, dst, *_) in self.links():
            yield dst, _sources(first, len(dst)) + 1

    def _partners(self) -> Entries:
        for first, (src, dst, *_) in self.links(whole_ties=self._order.rows > 0):
            order = np.arange(len(src), dtype=np.int32)
            if self._order.rows:
                order = self._order.read(first, len(src)) - first
            nodes, link = building.both_ends(src, dst, order)
            yield nodes, link + np.int32(2 * first), building.other_ends(src, dst, link)

    def _next(self) -> Entries:
        last = np.full(self._events.num_nodes, -1, np.int32)
        for nodes, link, partner in self._partners():
            before, after, later = building.transitions(nodes, partner, link, last)
            yield pair_key(before, after), later

    def _origins(self) -> Entries:
        for keys, link in self._next():
            yield (keys >> 32).astype(np.int32), link


def _sources(first: int, count: int) -> Array:
    """Entries of consecutive links as their sources see them."""
    return np.arange(2 * first, 2 * (first + count), 2, dtype=np.int32)
