"""GrowingLists: the writer's side of the lists of one kind; see `kernels.growth`."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cawn.index.building import Columns, hash_table
from cawn.index.index import Index
from cawn.index.kernels import growth
from cawn.index.kernels.building import LINK
from cawn.index.kernels.growth import CHAIN, ENTRIES, UNUSED, Extension
from cawn.index.kernels.lists import FREE, LENGTH, START_BITS, block_rows
from cawn.index.kinds import NODES, Kind

Array = npt.NDArray[Any]

_LEAST = 1 << 10  # entries or rows that arrays have room for at first
_COMPACTED = 1 << 10  # unused entries from which on lists are moved together
_NO_ROWS = np.empty(0, np.int64)
_NOTHING = Extension(*[_NO_ROWS] * len(Extension._fields))


class Added(NamedTuple):
    """Where new entries are: their positions in `extension` and in the columns, [n] each."""

    which: Array
    position: Array
    extension: Extension


class GrowingLists:
    """Only one thread may call its methods. Readers see nothing of an extension until it is published."""

    def __init__(self, kind: Kind, index: Index) -> None:
        held = index.kinds[kind.name]
        self.kind, self._decays, self._num_links = kind, kind.decays(index.alphas, index.decay), len(index.t)
        self.columns = {name: held[name] for name in kind.columns} | {"sums": held["sums"]}
        self.size, self._span = len(held["span"]), _with_room(held["span"], len(held["span"]) + _LEAST, fill=0)
        self._keys, self._slots = held.get("keys", _NO_ROWS), held.get("slots", np.full(4, FREE, np.int32)).copy()
        self._chain, self._used = np.empty((_LEAST, 2), np.int64), np.zeros(3, np.int64)
        self._extension, self._new_size, self._used_before = _NOTHING, self.size, self._used.copy()
        self._make_compact()

    @property
    def link(self) -> Array:
        """The link of each entry."""
        return self.columns["hop"][:, LINK] if self.kind is NODES else self.columns["link"]

    @property
    def span(self) -> Array:
        """The published spans of all rows."""
        return self._span

    def rows_of(self, keys: Array) -> Array:
        """The rows of keys [n]; new keys get new rows."""
        most = self.size + len(keys)
        self.make_rows(most)
        self._keys = _with_room(self._keys, len(self._span))
        if 2 * most > len(self._slots):
            self._slots = hash_table(self._keys[: self.size], 2 * most)
        rows = np.empty(len(keys), np.int64)
        self._new_size = int(growth.number_keys(keys, self._keys, self._slots, self.size, rows))
        return rows

    def extend(
        self,
        rows: Array,
        num_links: int,
        version: int,
        *,
        shortened: Array = _NO_ROWS,
        rewritten: tuple[Array, int] = (_NO_ROWS, 0),
        keep: Array = _NO_ROWS,
    ) -> Added:
        """Find places for new entries of rows [n], in this order, after those of the first `num_links` links.

        Args:
            shortened: Further rows, from which entries of later links are removed.
            rewritten: Rows and a smaller number of links, whose entries are all that stays of these rows; earlier
                versions see none of the new entries, although some may be of links that they know.
            keep: The number of entries that stay, instead, for the first distinct rows in the order of occurrence.
        """
        every = np.concatenate([rows, shortened]).astype(np.int64)
        self.make_rows(int(every.max(initial=-1)) + 1)
        self._new_size = max(self._new_size, 0 if self.kind.keyed else int(every.max(initial=-1)) + 1)
        which, order, row, more = np.empty((4, len(every)), np.int64)
        num = growth.distinct_rows(every, len(rows), which, order, row, more)
        extension = Extension(row[:num], more[:num], *np.empty((4, num), np.int64))
        late = num_links < self._num_links
        growth.entries_kept(self._span, self.link, extension.row, num_links if late else -1, extension.keep)
        extension.keep[: len(keep)] = keep
        # Late links have numbers that earlier versions know: these must not see them in any list.
        replaced = np.isin(extension.row, rewritten[0]) if len(rewritten[0]) else np.full(num, late)
        if len(rewritten[0]):
            fewer = np.empty(num, np.int64)
            growth.entries_kept(self._span, self.link, extension.row, rewritten[1], fewer)
            extension.keep[replaced] = fewer[replaced]
        if self._used[CHAIN] + num > len(self._chain):
            self._replace_span(chain=2 * (int(self._used[CHAIN]) + num))
        while missing := self._reserve(version, replaced, extension):
            self._make_entries(missing)
        moves = extension.moved_from, extension.start, extension.keep
        for name, column in self.columns.items():
            if name == "sums":
                growth.move_sums(column, column, self.kind.bits, *moves)
            else:
                _move(name, column, column, *moves)
        self._extension = extension
        first = (extension.start + extension.keep)[which[: len(rows)]]
        return Added(which[: len(rows)], first + order[: len(rows)], extension)

    def extend_links(self, rows: Array, entries: Array, t: Array, num_links: int, version: int, **how: Any) -> Added:
        """`extend` by these entries [n], which have nothing but a link; t are the times of all links."""
        added = self.extend(rows, num_links, version, **how)
        self.columns["link"][added.position] = entries
        self.fill_sums(t)
        return added

    def fill_sums(self, t: Array) -> None:
        """Compute the sums of the extended lists."""
        if len(self._decays):
            sums = self.columns["sums"]
            growth.extend_sums(self.link, t, self._decays, self.kind.bits, sums, self._extension)

    def publish(self, num_links: int) -> Columns:
        """Let readers see the extension, which has this many links; returns the arrays of the new version."""
        self._num_links = num_links
        growth.publish(self._span, self._keys, self._slots, self.size, self._keyed_size, self._extension)
        self.size, self._used_before, self._extension = self._new_size, self._used.copy(), _NOTHING
        if self._used[UNUSED] > _COMPACTED and 3 * self._used[UNUSED] > self._used[ENTRIES]:
            self._make_compact()
        keyed = {"keys": self._keys, "slots": self._slots} if self.kind.keyed else {}
        return self.columns | {"span": self._span, "chain": self._chain} | keyed

    def abandon(self) -> None:
        """Forget the extension."""
        self._used[:], self._extension, self._new_size = self._used_before, _NOTHING, self.size

    @property
    def _keyed_size(self) -> int:
        return self._new_size if self.kind.keyed else self.size

    @property
    def nbytes(self) -> int:
        """Memory in use, without room that was never used."""
        per_entry = sum(column.nbytes // max(len(self.link), 1) for column in self.columns.values())
        per_row = 8 + 8 * self.kind.keyed
        used: int = int(self._used[ENTRIES]) * per_entry + self.size * per_row + self._slots.nbytes
        return used

    # Arrays that readers of earlier versions have are replaced together, never resized: a span that is published later
    # may refer to the new ones.

    def _reserve(self, version: int, replaced: Array, extension: Extension) -> int:
        missing: int = growth.reserve(self._span, self.link, self._chain, self._used, version, replaced, extension)
        return missing

    def _replace_span(self, *, rows: int = 0, chain: int = 0) -> None:
        self._span = _with_room(self._span, rows, fill=0, copy=True)
        self._chain = _with_room(self._chain, chain, copy=True)

    def make_rows(self, size: int) -> None:
        """Make room for this many rows."""
        if size > len(self._span):
            self._replace_span(rows=size + size // 2)

    def _make_entries(self, missing: int) -> None:
        held = len(self.link)
        size = max(held + missing, 2 * held, _LEAST)
        for name, column in self.columns.items():
            room = block_rows(size, self.kind.bits) if name == "sums" else size
            self.columns[name] = _with_room(column, room, axis=int(name == "logsum"))
        self._replace_span()

    def _make_compact(self) -> None:
        """Move all lists to new arrays, with room to grow, and without places that no list uses."""
        span = self._span[: self.size]
        before, count = span >> START_BITS, span & LENGTH
        ends = np.append(0, np.cumsum(growth.rooms_for(count)))
        start, entries = ends[:-1], int(ends[-1])
        size = max(3 * entries, _LEAST)  # memory that is never written to is never taken
        for name, column in self.columns.items():
            if name == "sums":
                larger = np.empty((block_rows(size, self.kind.bits), column.shape[1]))
                growth.move_sums(column, larger, self.kind.bits, before, start, count)
            else:
                larger = np.empty((len(column), size) if name == "logsum" else (size, *column.shape[1:]), column.dtype)
                _move(name, column, larger, before, start, count)
            self.columns[name] = larger
        self._span = np.zeros(len(self._span), np.int64)
        self._span[: self.size] = start << START_BITS | count
        self._chain, self._used[:] = np.empty((_LEAST, 2), np.int64), (entries, 0, 0)
        self._used_before = self._used.copy()


def _move(name: str, before: Array, after: Array, *moves: Array) -> None:
    """Copy lists from one column to another."""
    for old, new in zip(before, after, strict=True) if name == "logsum" else [(before, after)]:
        (growth.move_rows if old.ndim == 2 else growth.move_entries)(old, new, *moves)


def _with_room(array: Array, size: int, *, axis: int = 0, fill: int | None = None, copy: bool = False) -> Array:
    """The array itself if it has this size, else a copy that has."""
    held = array.shape[axis]
    if held >= size:
        return array.copy() if copy else array
    shape = list(array.shape)
    shape[axis] = size
    larger = np.empty(shape, array.dtype) if fill is None else np.full(shape, fill, array.dtype)
    larger[(slice(None), slice(held)) if axis else slice(held)] = array
    return larger
