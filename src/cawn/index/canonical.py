"""The canonical order of simultaneous links (see `cawn.data.ties`), kept up to date link by link."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cawn.checks import Array
from cawn.data.columns import GrowingArray, with_room
from cawn.data.events import Events
from cawn.data.ties import hash_rows
from cawn.kernels.cpu.ties import link_keys, simultaneous_keys

_CHECKPOINT = 1 << 16  # links after which the colours of nodes are recorded, for links that arrive late


class _State(NamedTuple):
    """What the keys of further links depend on."""

    first: int  # the first link at the newest time
    number: int  # of earlier times
    colours: Array  # [num_nodes or more] uint64, those of nodes before the newest time
    num_nodes: int
    num_links: int


_NO_LINKS, _NO_KEYS = _State(0, 0, np.empty(0, np.uint64), 0, 0), np.empty(0, np.uint64)
_UNCHANGED = np.empty(0, np.int64), _NO_KEYS


def in_order(t: Array, keys: Array) -> Array:
    """The positions of links at ascending times t [n], simultaneous ones in the order of their keys."""
    order, tied = np.arange(len(t)), np.zeros(len(t), bool)
    tied[1:] = t[1:] == t[:-1]
    tied[:-1] |= tied[1:]
    among = np.flatnonzero(tied)
    order[among] = among[np.lexsort((keys[among], t[among]))]
    return order


class CanonicalOrder:
    """The keys by which simultaneous links are sorted, with `attributes` or without. Only one thread may use it."""

    def __init__(self, events: Events, *, attributes: bool) -> None:
        self._attributes, self._state, self._checkpoints = attributes, _NO_LINKS, list[_State]()
        self._keys = GrowingArray(_NO_KEYS)  # of the links at the newest time
        self._sums = np.empty(0, np.uint64)  # scratch of `link_keys`
        self.publish()
        self.extend(events, 0)
        self.publish()

    def extend(self, events: Events, first: int) -> tuple[int, Array]:
        """Add the links from `first` on, and remove all others after it.

        Returns the first link at the time of link `first`, and the keys of all links from there on.
        """
        if first < self._state.num_links:
            self._go_back(events, first)
        self._add_nodes(events)
        found = (first, _NO_KEYS) if first == len(events) else self._add(events, first)
        self._state = self._state._replace(num_links=len(events))
        return found

    def publish(self) -> None:
        """Keep what was added."""
        state = self._state
        if state.first - (self._checkpoints[-1].first if self._checkpoints else 0) >= _CHECKPOINT:
            kept = state._replace(colours=state.colours[: state.num_nodes].copy())
            self._checkpoints = [*self._checkpoints[-1:], kept]
        self._before, self._changed = (self._state, self._keys, self._checkpoints), _UNCHANGED

    def abandon(self) -> None:
        """Forget what was added."""
        self._state, self._keys, self._checkpoints = self._before
        nodes, colours = self._changed
        self._state.colours[nodes] = colours

    def _add(self, events: Events, first: int) -> tuple[int, Array]:
        start, number, colours, *_ = self._state
        t, tied = events.t, start < first and events.t[start] == events.t[first]
        base = max(first - 1, start)
        changes = base + 1 + np.flatnonzero(t[base + 1 :] != t[base:-1])  # where a new time begins
        begin = start if tied else first
        if len(changes) == 0:
            self._keys.append(self._tie_keys(events, first), first - start)
            return begin, self._keys.view()[begin - start :]
        last, moments = int(changes[-1]), number + np.searchsorted(changes, np.arange(start, int(changes[-1])), "right")
        src, dst, attributes = self._columns(events, start, last)
        nodes = np.concatenate([src, dst])
        if self._before[0].colours is colours:
            self._changed = nodes, colours[nodes]
        keys = np.empty(last - start, np.uint64)
        link_keys(src, dst, moments.view(np.uint64), attributes, colours, self._sums, keys)
        self._state = self._state._replace(first=last, number=number + len(changes))
        newest = self._tie_keys(events, last)
        self._keys = GrowingArray(newest)
        return begin, np.concatenate([keys, newest])[begin - start :]

    def _tie_keys(self, events: Events, first: int) -> Array:
        """The keys of the links from `first` on, which are all at the newest time."""
        keys = np.empty(len(events) - first, np.uint64)
        src, dst, attributes = self._columns(events, first, len(events))
        simultaneous_keys(src, dst, attributes, self._state.colours, keys)
        return keys

    def _columns(self, events: Events, first: int, last: int) -> tuple[Array, Array, Array]:
        msg = events.msg[first:last] if self._attributes and events.msg is not None else None
        return events.src[first:last], events.dst[first:last], hash_rows(msg, last - first)

    def _add_nodes(self, events: Events) -> None:
        """Give new nodes their first colours."""
        held, size, colours = self._state.num_nodes, events.num_nodes, self._state.colours
        if len(self._sums) < size:
            self._sums = np.zeros(size + size // 2, np.uint64)
        if len(colours) < size:
            colours = with_room(colours, size + size // 2)
        x = events.x[held:] if self._attributes and events.x is not None else None
        colours[held:size] = hash_rows(x, size - held)
        self._state = self._state._replace(colours=colours, num_nodes=size)

    def _go_back(self, events: Events, first: int) -> None:
        """The state after the first links only."""
        self._checkpoints = [held for held in self._checkpoints if held.first <= first]
        held = self._checkpoints[-1] if self._checkpoints else _NO_LINKS
        self._state, self._keys = held._replace(colours=held.colours.copy()), GrowingArray(_NO_KEYS)
        self._add_nodes(events)
        if held.first < first:
            self._add(events[:first], held.first)
