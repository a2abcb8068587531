"""The canonical order of simultaneous links (see `cawn.data.ties`), kept up to date link by link."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cawn.data.columns import GrowingArray
from cawn.data.events import Events
from cawn.data.ties import hash_rows
from cawn.kernels.cpu.ties import link_keys, simultaneous_keys

Array = npt.NDArray[Any]

_NO_NODES, _NOTHING = np.empty(0, np.int64), np.empty(0, np.uint64)
_CHECKPOINT = 1 << 16  # links after which the colours of nodes are recorded, for links that arrive late


class _Moment(NamedTuple):
    """The newest time: its first link, the number of earlier times, and the colours of nodes before it."""

    first: int
    number: int
    colours: Array  # [N or more] uint64


class CanonicalOrder:
    """The keys by which simultaneous links are sorted. Only one thread may use it.

    Args:
        attributes: Whether attributes may order simultaneous links.
    """

    def __init__(self, events: Events, *, attributes: bool) -> None:
        self._attributes, self._num_nodes, self._num_links = attributes, 0, 0
        self._newest, self._checkpoints = _Moment(0, 0, np.empty(0, np.uint64)), list[_Moment]()
        self._keys = GrowingArray(np.empty(0, np.uint64))  # of the links at the newest time
        self._sums = np.empty(0, np.uint64)  # scratch of `link_keys`
        self._before: tuple[_Moment, int, tuple[Array, Array]] = self._newest, 0, (_NO_NODES, _NOTHING)
        self.extend(events, 0)
        self.publish()

    def extend(self, events: Events, first: int) -> tuple[int, Array]:
        """Add the links from `first` on, and remove all others after it.

        Returns the first link at the time of link `first`, and the keys of all links from there on.
        """
        self._before = self._newest, self._num_links, (_NO_NODES, _NOTHING)
        if first < self._num_links:
            self._go_back(events, first)
        self._num_links = len(events)
        self._add_nodes(events)
        return (first, np.empty(0, np.uint64)) if first == len(events) else self._add(events, first)

    def publish(self) -> None:
        """Keep what was added."""
        first, number, colours = self._newest
        if first - (self._checkpoints[-1].first if self._checkpoints else 0) >= _CHECKPOINT:
            kept = _Moment(first, number, colours[: self._num_nodes].copy())
            self._checkpoints = [*self._checkpoints[-1:], kept]

    def abandon(self) -> None:
        """Forget what was added."""
        self._newest, self._num_links, (nodes, colours) = self._before
        self._newest.colours[nodes] = colours

    def _add(self, events: Events, first: int) -> tuple[int, Array]:
        start, number, colours = self._newest
        t, tied = events.t, start < first and events.t[start] == events.t[first]
        base = max(first - 1, start)
        changes = base + 1 + np.flatnonzero(t[base + 1 :] != t[base:-1])  # where a new time begins
        begin = start if tied else first
        if len(changes) == 0:
            self._keys.append(self._tie_keys(events, first, colours), first - start)
            return begin, self._keys.view()[begin - start :]
        last, moments = int(changes[-1]), number + np.searchsorted(changes, np.arange(start, int(changes[-1])), "right")
        src, dst, attributes = self._columns(events, start, last)
        nodes = np.concatenate([src, dst])
        if self._before[0].colours is colours:
            self._before = *self._before[:2], (nodes, colours[nodes])
        keys = np.empty(last - start, np.uint64)
        link_keys(src, dst, moments.view(np.uint64), attributes, colours, self._sums, keys)
        self._newest = _Moment(last, number + len(changes), colours)
        newest = self._tie_keys(events, last, colours)
        self._keys = GrowingArray(newest)
        return begin, np.concatenate([keys, newest])[begin - start :]

    def _tie_keys(self, events: Events, first: int, colours: Array) -> Array:
        """The keys of the links from `first` on, which are all at the newest time."""
        keys = np.empty(len(events) - first, np.uint64)
        src, dst, attributes = self._columns(events, first, len(events))
        simultaneous_keys(src, dst, attributes, colours, keys)
        return keys

    def _columns(self, events: Events, first: int, last: int) -> tuple[Array, Array, Array]:
        msg = events.msg[first:last] if self._attributes and events.msg is not None else None
        return events.src[first:last], events.dst[first:last], hash_rows(msg, last - first)

    def _add_nodes(self, events: Events) -> None:
        """Give new nodes their first colours."""
        first, number, colours = self._newest
        held, self._num_nodes = self._num_nodes, events.num_nodes
        if len(self._sums) < events.num_nodes:
            self._sums = np.zeros(events.num_nodes + events.num_nodes // 2, np.uint64)
        if len(colours) < events.num_nodes:
            larger = np.zeros(events.num_nodes + events.num_nodes // 2, np.uint64)
            larger[:held] = colours[:held]
            self._newest = _Moment(first, number, larger)
        if held < events.num_nodes:
            x = events.x[held:] if self._attributes and events.x is not None else None
            self._newest.colours[held : events.num_nodes] = hash_rows(x, events.num_nodes - held)

    def _go_back(self, events: Events, first: int) -> None:
        """The state after the first links only."""
        self._checkpoints = [held for held in self._checkpoints if held.first <= first]
        self._num_nodes, self._newest = 0, _Moment(0, 0, np.empty(0, np.uint64))
        if self._checkpoints:
            held = self._checkpoints[-1]
            self._num_nodes, self._newest = len(held.colours), held._replace(colours=held.colours.copy())
        self._keys = GrowingArray(np.empty(0, np.uint64))
        self._add_nodes(events)
        if self._newest.first < first:
            self._add(events[:first], self._newest.first)
