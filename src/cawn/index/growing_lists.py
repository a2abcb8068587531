"""GrowingLists: the writer's side of the lists of one kind; see `kernels.growth`."""

from __future__ import annotations

from typing import Any

import numpy as np

from cawn.checks import Array
from cawn.data.columns import with_room
from cawn.index.building import LEAST, ROOM, Columns, as_lists, hash_table, link_column, move_lists, moved_lists
from cawn.index.index import Index
from cawn.index.kernels import building, growth
from cawn.index.kernels.growth import CHAIN, ENTRIES, UNUSED, Added, Extension, Ties
from cawn.index.kernels.lists import LENGTH, START_BITS, slots_for, visible_lists
from cawn.index.kinds import Kind

_UNUSED = 0.4  # of the entries, from which on lists are moved together; links that are not late leave fewer
_NEWEST = 1 << 62  # a version that sees everything
_NO_ROWS = np.empty(0, np.int64)
_NOTHING = Extension(*[_NO_ROWS] * len(Extension._fields))


class GrowingLists:
    """Only one thread may call its methods. Readers see nothing of an extension until it is published."""

    def __init__(self, kind: Kind, index: Index) -> None:
        held = index.kinds[kind.name]
        self.kind, self._decays, self._num_links = kind, kind.decays(index.alphas, index.decay), len(index.t)
        self.columns = {name: held[name] for name in (*kind.columns, "sums")}
        self.size, self.span = len(held["span"]), held["span"]
        self._keys, self._slots = held.get("keys", _NO_ROWS), held.get("slots", slots_for(0))
        self._make_rows(self.size + LEAST)
        self._chain, self._used = np.empty((LEAST, 2), np.int64), np.zeros(3, np.int64)
        self._extension, self._new_size, self._used_before = _NOTHING, self.size, self._used.copy()
        if "chain" not in held:
            self._slots = self._slots.copy()
            self._make_compact()
        elif self.size:
            last = held["span"][-1]
            self._used[ENTRIES] = self._used_before[ENTRIES] = (last >> START_BITS) + rooms_for(last & LENGTH)

    @property
    def link(self) -> Array:
        """The link of each entry."""
        return link_column(self.columns)

    def rows_of(self, keys: Array) -> Array:
        """The rows of keys [n]; new keys get new rows."""
        most = self.size + len(keys)
        self._make_rows(most)
        if 2 * most > len(self._slots):
            self._slots = hash_table(self._keys[: self.size], 2 * most)
        rows = np.empty(len(keys), np.int64)
        self._new_size = int(growth.number_keys(keys, self._keys, self._slots, self.size, rows))
        return rows

    def extend(
        self, rows: Array, num_links: int, version: int, *, removed: Array = _NO_ROWS, ties: Ties | None = None
    ) -> Added:
        """Find places for new entries of rows [n], in this order, after those of the first `num_links` links.

        Args:
            removed: Rows that lose their last entry, once for each time that they are named.
            ties: Those of the entries that belong among simultaneous ones, which are to be written again after them.
        """
        every, is_late = np.concatenate([rows, removed]).astype(np.int64), num_links < self._num_links
        size = int(every.max(initial=-1)) + 1
        self._make_rows(size)
        self._new_size = max(self._new_size, 0 if self.kind.keyed else size)
        which, order, *fields = growth.plan(every, len(rows), self.span)
        row, more, keep, start, *_ = extension = Extension(*fields)
        if is_late:
            lists = as_lists(self.kind, self._arrays(), self._decays, _NEWEST)
            keep[:] = np.minimum(keep, visible_lists(lists, row, num_links)[1])
        if ties is not None:
            growth.find_places(ties, which, self.link, start, keep, more)
        if self._used[CHAIN] + len(row) > len(self._chain):
            self.span = self.span.copy()
            self._chain = with_room(self._chain, 2 * (int(self._used[CHAIN]) + len(row)))
        while needed := growth.reserve(self.span, self.link, self._chain, self._used, version, is_late, extension):
            self._make_compact(needed)
        move_lists(self.kind, self.columns, self.columns, extension.moved_from, start, keep)
        self._extension = extension
        return Added(which, (start + keep)[which] + order, extension)

    def extend_links(self, rows: Array, entries: Array, t: Array, num_links: int, version: int, **how: Any) -> None:
        """`extend` by these entries [n], which have nothing but a link; t are the times of all links."""
        added = self.extend(rows, num_links, version, **how)
        self.columns["link"][added.position] = entries
        self.fill_sums(t)

    def fill_sums(self, t: Array) -> None:
        """Compute the sums of the extended lists."""
        if len(self._decays):
            lists = self._extension.span, self._extension.keep, self.link
            building.fill_sums(*lists, t, self._decays, self.kind.bits, self.columns["sums"])

    def publish(self, num_links: int) -> Columns:
        """Let readers see the extension, which has this many links; returns the arrays of the new version."""
        self._num_links = num_links
        num_keys = self._new_size if self.kind.keyed else self.size
        growth.publish(self.span, self._keys, self._slots, self.size, num_keys, self._extension)
        self.size, self._used_before, self._extension = self._new_size, self._used.copy(), _NOTHING
        if self._used[UNUSED] > max(LEAST, _UNUSED * self._used[ENTRIES]):
            self._make_compact()
        return self._arrays()

    def abandon(self) -> None:
        """Forget the extension."""
        self._used[:], self._extension, self._new_size = self._used_before, _NOTHING, self.size

    @property
    def nbytes(self) -> int:
        """Memory in use, without room that was never used."""
        per_entry = sum(column.nbytes // max(len(self.link), 1) for column in self.columns.values())
        per_row = 8 + 8 * self.kind.keyed
        used: int = int(self._used[ENTRIES]) * per_entry + self.size * per_row + self._slots.nbytes
        return used

    def _arrays(self) -> Columns:
        keyed = {"keys": self._keys, "slots": self._slots} if self.kind.keyed else {}
        return self.columns | {"span": self.span, "chain": self._chain} | keyed

    # Arrays that readers of earlier versions have are never resized. Spans that are published later may refer to new
    # columns or a new chain, so `span` is replaced with them.

    def _make_rows(self, size: int) -> None:
        """Make room for this many rows."""
        if size > len(self.span):
            self.span = with_room(self.span, size + size // 2)
            self._keys = with_room(self._keys, len(self.span) if self.kind.keyed else 0)

    def _make_compact(self, needed: int = 0) -> None:
        """Move all lists to new arrays, with room for as many entries or more, without places that no list uses."""
        span = self.span[: self.size]
        before, count = span >> START_BITS, span & LENGTH
        ends = np.append(0, np.cumsum(rooms_for(count)))
        size = max(int(ends[-1]), -(-needed // ROOM))
        self.columns = moved_lists(self.kind, self.columns, before, ends[:-1], count, size, room=True)
        self.span = np.zeros(len(self.span), np.int64)
        self.span[: self.size] = ends[:-1] << START_BITS | count
        self._chain, self._used[:] = np.empty_like(self._chain), (ends[-1], 0, 0)
        self._used_before = self._used.copy()


def rooms_for(count: Any) -> Any:
    """The number of entries that places for so many have room for: the next powers of two (see `room_for`)."""
    return np.where(count > 0, 1 << np.frexp(count - 1)[1].astype(np.int64), 0)
