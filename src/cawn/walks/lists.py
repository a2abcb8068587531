"""Lists that grow while other threads read earlier versions of them.

All lists of one kind, such as the links of each node, are in arrays of entries ("columns"); a list is contiguous, so
that kernels read it like one in an index built from scratch. A list that is full moves to a block of twice the
size. Where each list is and how long it is depends on the version (`kernels.cpu.spans`): entries after the end of a
list in one version are invisible to it, so the writer may fill them for the next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any, NamedTuple
from weakref import ref

import numpy as np
import numpy.typing as npt

from cawn.kernels.cpu import growing
from cawn.kernels.cpu.growing import CLASSES, ENTRIES, EXACT, NONE, PAGES, Blocks, Distinct
from cawn.kernels.cpu.rates import fill_slots
from cawn.kernels.cpu.spans import LENGTH_BITS, LENGTH_MASK, PAGE, Spans, constant, lengths, packed_spans
from cawn.kernels.threads import even_bounds, in_parallel

Array = npt.NDArray[Any]
Columns = dict[str, Array]

_LEAST = 1 << 10  # rows, pages or entries that arrays have room for at first
_FEW = 8  # versions whose memory is kept before unused ones are looked for
_PARALLEL = 1 << 18  # entries from which on several threads share the work


class Reserved(NamedTuple):
    """New entries: where each is, and the rows whose lists they extend."""

    position: Array  # [n]
    which: Array  # [n], positions in `distinct`
    distinct: Distinct  # [m] each


class ListsVersion(NamedTuple):
    """One version of the lists, as kernels read it."""

    spans: Spans
    columns: Columns
    keys: Array  # [size or more]; empty for lists of nodes
    slots: Array  # hash table of the keys

    def flat(self, rows: Array | None = None) -> tuple[Array, Columns]:
        """The lists of these rows, of all by default, one after the other: their starts [K + 1], and the columns."""
        packed = packed_spans(self.spans)
        packed = packed if rows is None else packed[rows]
        first, length = packed >> LENGTH_BITS, packed & LENGTH_MASK
        starts = np.append(0, np.cumsum(length))
        entries = np.repeat(first - starts[:-1], length) + np.arange(starts[-1])
        logsum = {n: np.ascontiguousarray(column[:, entries]) for n, column in self.columns.items() if n == "logsum"}
        return starts, {name: column[entries] for name, column in self.columns.items() if name != "logsum"} | logsum

    def sorted_keys(self) -> tuple[Array, Array]:
        """The keys that have entries, ascending, and their rows."""
        rows = np.flatnonzero(lengths(self.spans))
        if len(self.keys) == 0:
            return rows, rows
        rows = rows[np.argsort(self.keys[rows])]
        return self.keys[rows], rows


class Versions:
    """Counts versions, and keeps track of which are still in use."""

    def __init__(self) -> None:
        self.current = 0
        self._alive: deque[tuple[int, ref[Any]]] = deque()
        self._most = _FEW

    def publish(self, token: Any) -> None:
        """Publish the current version: it is in use as long as something holds this token."""
        self._alive.append((self.current, ref(token)))
        if len(self._alive) > self._most:
            self._alive = deque(one for one in self._alive if one[1]() is not None)
            self._most = 2 * len(self._alive) + _FEW

    def oldest(self) -> int:
        """The oldest version in use."""
        while self._alive and self._alive[0][1]() is None:
            self._alive.popleft()
        return self._alive[0][0] if self._alive else self.current

    def alive(self) -> Array:
        """All versions in use, ascending."""
        return np.array([version for version, token in self._alive if token() is not None], np.int64)


class _Freed(NamedTuple):
    """Blocks and pages that only versions before this one refer to."""

    version: int
    blocks: Array  # [n, 3]: first entry, class, the version it was made for
    pages: Array  # [m, 2]: page, the version it was made for


class GrowingLists:
    """The writer's side of growing lists; only one thread may call its methods.

    Args:
        starts: Where each list starts in the columns [K + 1].
        columns: Arrays of entries: [entries] or [entries, width]; "logsum" is [decays, entries] here and in versions,
            but [entries, decays] in memory, so that an entry is in one place.
        keys: The key of each row, for lists that are found by key rather than by number.
        alphas: The decays of "logsum".
    """

    def __init__(
        self,
        versions: Versions,
        starts: Array,
        columns: Columns,
        *,
        keys: Array | None = None,
        alphas: Array | None = None,
    ) -> None:
        starts = np.asarray(starts, np.int64)
        self.size, length = len(starts) - 1, np.diff(starts)
        self._versions = versions
        self._freed, self._read = deque[_Freed](), deque[_Freed]()  # recent; in use when last checked
        self._most_read = _FEW
        self._alphas = alphas
        self._views: dict[str, tuple[Array, Array]] = {}
        # Long lists get room to grow from the start; its memory is not touched until they grow.
        classes = np.full(self.size, EXACT, np.int8)
        growing.classes_for(length, classes)
        room = np.where(classes == EXACT, length, np.int64(1) << np.maximum(classes, 0))
        first = np.append(0, np.cumsum(room))
        entries = _with_room_for(int(first[-1]) + int(starts[-1]))
        self.columns = {}
        tasks = [0, *np.searchsorted(starts, even_bounds(int(starts[-1]), _PARALLEL)[1:-1]).tolist(), self.size]
        for name, given in columns.items():
            column = given.T if name == "logsum" else constant(given)
            self.columns[name] = np.empty((entries, *column.shape[1:]), column.dtype)
            in_parallel(partial(growing.place_lists, column, starts, first, self.columns[name]), tasks, None)
        self._find_totals(first, length, classes)
        spans = Spans.packed(first[:-1], length)
        self._table, self._pages = np.array(spans.table), _with_room(spans.pages, 2 * len(spans.pages))
        self._next_free = np.zeros(entries, np.int64)
        self._keys = np.empty(0, np.int64) if keys is None else _with_room(keys, 2 * self.size)
        self._slots = np.empty(0, np.int32) if keys is None else self._hashed()
        self._blocks = Blocks(
            classes=_with_room(classes, 2 * self.size),
            added=np.zeros(_with_room_for(2 * self.size), np.int32),
            stamps=np.zeros(len(self._pages) // PAGE, np.int64),
            heads=np.full(CLASSES + 1, NONE),
            used=np.array([first[-1], len(self._table)]),
        )

    def version(self) -> ListsVersion:
        """The lists as they are now; the caller publishes it with a token (see `Versions`)."""
        spans = Spans(constant(self._table), self._view("pages", self._pages), self.size)
        columns = {name: self._view(name, column) for name, column in self.columns.items()}
        if "logsum" in columns:
            columns["logsum"] = columns["logsum"].T
        return ListsVersion(spans, columns, self._view("keys", self._keys), self._view("slots", self._slots))

    def _view(self, name: str, array: Array) -> Array:
        """A read-only view, made once for each array."""
        if (held := self._views.get(name)) is None or held[0] is not array:
            held = self._views[name] = array, constant(array)
        return held[1]

    def begin(self, size: int) -> None:
        """Start the next version, with `size` rows at least."""
        oldest = self._versions.oldest()
        for unused in (self._read, self._freed):
            while unused and unused[0].version <= oldest:
                self._release(unused.popleft())
        if len(self._freed) > _FEW:
            self._read.extend(self._release_unread(self._freed))
            self._freed = deque()
        if len(self._read) > self._most_read:
            self._read = deque(self._release_unread(self._read))
            self._most_read = 2 * len(self._read) + _FEW
        self._table = self._table.copy()
        self._extend(size)

    def rows_of(self, keys: Array) -> Array:
        """The rows of keys [n]; new keys get new rows."""
        self._keys = _with_room(self._keys, self.size + len(keys))
        if 2 * (self.size + len(keys)) > len(self._slots):
            self._slots = self._hashed(len(keys))
        rows = np.empty(len(keys), np.int64)
        self._extend(int(growing.rows_of(keys, self._keys, self._slots, self.size, rows)))
        return rows

    def reserve(self, rows: Array, forced: Array | None = None) -> Reserved:
        """Extend the lists of rows [n] by an entry each, in this order; a row may occur several times.

        Args:
            forced: Rows whose lists must move because the caller overwrites some of their entries [n].
        """
        n = len(rows)
        distinct = Distinct(*np.empty((len(Distinct._fields), n), np.int64))
        which, position = np.empty((2, n), np.int64)
        freed_blocks, freed_pages = np.empty((n, 3), np.int64), np.empty(n, np.int64)
        forced = np.empty(0, np.bool_) if forced is None else forced
        self._make_pages(n)
        while True:
            arrays = self._table, self._pages, self._versions.current, self._blocks, self._next_free
            written = distinct, which, position, freed_blocks, freed_pages
            num, num_blocks, num_pages = growing.reserve(rows, forced, *arrays, *written)
            if num_blocks != NONE:
                break
            self._make_entries(num)
        distinct = Distinct(*(values[:num] for values in distinct))
        if num_blocks:
            self._move(distinct.moved_from, distinct.first, distinct.before)
        self._free(freed_blocks[:num_blocks], freed_pages[:num_pages])
        return Reserved(position, which, distinct)

    def shorten(self, rows: Array, by: Array) -> None:
        """Remove the last by[i] entries of the lists of distinct rows [n]."""
        n, needed = len(rows), 2 * int(self.spans_of(rows)[1].sum()) + len(rows)
        (moves, freed_blocks), freed_pages = np.empty((2, n, 3), np.int64), np.empty(n, np.int64)
        self._make_pages(n)
        self._make_entries(0, needed)
        arrays = self._table, self._pages, self._versions.current, self._blocks, self._next_free
        num_pages = growing.shorten(rows, by, *arrays, moves, freed_blocks, freed_pages)
        before, after, length = np.ascontiguousarray(moves.T)
        self._move(before, after, length)
        self._find_totals(after, length, self._blocks.classes[rows])
        self._free(freed_blocks, freed_pages[:num_pages])

    def _find_totals(self, first: Array, length: Array, classes: Array) -> None:
        """Compute the running sums that blocks hold."""
        if self._alphas is not None:
            time, logsum = self.columns["time"], self.columns["logsum"]
            find = partial(growing.find_totals, first, length, classes, time, self._alphas, logsum)
            tasks = 64 if length.sum() > _PARALLEL else 1
            in_parallel(find, even_bounds(len(length), -(-len(length) // tasks) or 1), None)

    def spans_of(self, rows: Array) -> tuple[Array, Array]:
        """Where the list of each row starts in the columns, and its length: [n] each."""
        first, length = np.empty((2, len(rows)), np.int64)
        growing.find_spans(rows, self._table, self._pages, first, length)
        return first, length

    @property
    def nbytes(self) -> int:
        """Memory in use, with free blocks and pages."""
        entries, pages = self._blocks.used.tolist()
        per_entry = sum(column[:1].nbytes for column in self.columns.values())
        of_rows = (self._keys, self._blocks.classes, self._blocks.added)
        per_row = sum(array.itemsize for array in of_rows if len(array))
        used: int = entries * per_entry + pages * (8 * PAGE + 8) + self.size * per_row + self._slots.nbytes
        return used

    # Arrays that readers of earlier versions have are replaced, never resized.

    def _extend(self, size: int) -> None:
        """Add rows with empty lists."""
        if size <= self.size:
            return
        first, length = len(self._table), -(-size // PAGE)
        self._make_pages(length - first)
        self._table = np.append(self._table, np.empty(length - first, np.int32))
        growing.extend_table(self._table, self._pages, self._versions.current, self._blocks, first)
        old = self._blocks
        added = old.added if size <= len(old.added) else np.zeros(_with_room_for(2 * size), np.int32)
        self._blocks = old._replace(classes=_with_room(old.classes, size), added=added)
        self._blocks.classes[self.size : size] = EXACT
        self.size = size

    def _make_pages(self, missing: int) -> None:
        if (size := (int(self._blocks.used[PAGES]) + missing) * PAGE) <= len(self._pages):
            return
        self._pages = _with_room(self._pages, size)
        self._blocks = self._blocks._replace(stamps=_with_room(self._blocks.stamps, len(self._pages) // PAGE))

    def _make_entries(self, missing: int, needed: int = 0) -> None:
        size = max(len(self._next_free) + missing, int(self._blocks.used[ENTRIES]) + needed)
        self.columns = {name: _with_room(column, size) for name, column in self.columns.items()}
        self._next_free = _with_room(self._next_free, size)

    def _hashed(self, more: int = 0) -> Array:
        """A new hash table of the keys with room for more."""
        slots = np.full(1 << (2 * (self.size + more) + 8).bit_length(), NONE, np.int32)
        fill_slots(constant(self._keys[: self.size]), slots)
        return slots

    def _move(self, before: Array, after: Array, length: Array) -> None:
        for column in self.columns.values():
            move = growing.move_entries if column.ndim == 1 else growing.move_wide_entries
            move(column, before, after, length)

    def _free(self, freed_blocks: Array, freed_pages: Array) -> None:
        """Reuse these once no version before the current one is in use."""
        if len(freed_blocks) or len(freed_pages):
            pages = np.stack([freed_pages, self._blocks.stamps[freed_pages]], axis=1)
            self._freed.append(_Freed(self._versions.current, np.array(freed_blocks), pages))

    def _release(self, freed: _Freed) -> None:
        growing.release(freed.blocks, freed.pages, self._pages, self._blocks, self._next_free)

    def _release_unread(self, several: Iterable[_Freed]) -> Iterator[_Freed]:
        """Reuse what no version in use refers to; returns the rest.

        A version that stays in use for long thus keeps only its own memory, not that of all versions after it.
        """
        alive = self._versions.alive()
        for freed in several:
            before = int(np.searchsorted(alive, freed.version))
            newest = alive[before - 1] if before else NONE  # of the versions that may refer to it
            blocks, pages = freed.blocks[:, 2] <= newest, freed.pages[:, 1] <= newest
            self._release(freed._replace(blocks=freed.blocks[~blocks], pages=freed.pages[~pages]))
            if blocks.any() or pages.any():
                yield freed._replace(blocks=freed.blocks[blocks], pages=freed.pages[pages])


def _with_room_for(size: int) -> int:
    return max(size, _LEAST)


def _with_room(array: Array, size: int) -> Array:
    """The array itself if it has this size, else a copy of at least twice its size."""
    if len(array) >= size:
        return array
    larger = np.empty((max(2 * len(array), size, _LEAST), *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger
