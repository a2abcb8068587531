"""Node names that are numbered piece by piece, as `cawn.read` numbers them at once.

While a log is read, names get provisional numbers in the order in which they are seen. At the end these are replaced:
integers are numbered in ascending order, strings in the order of all sources, then all destinations, then negatives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cawn.data.external.files import ColumnFile
from cawn.data.names import string_buffers
from cawn.kernels.cpu.numbering import (
    NO_ROLE,
    ROLES,
    fill_slots_integers,
    fill_slots_strings,
    gather_strings,
    number_integers,
    number_strings,
)

Array = npt.NDArray[Any]
Ids = npt.NDArray[np.int32]

SOURCE, DESTINATION, NEGATIVE = range(ROLES)
_LEAST = 1 << 10  # names a table has room for at first
_GROWTH = 1.5
_BLOCK = 1 << 18  # names that are written at once


class NameTable:
    """Distinct names: integers as long as all are, else strings."""

    def __init__(self, reserve: Callable[[int], None]) -> None:
        """`reserve` is called with a number of bytes before that much more memory is used."""
        self._reserve = reserve
        self._counts = np.zeros(ROLES + 1, np.int64)
        self._roles = np.full(_LEAST, NO_ROLE, np.uint8)
        self._ranks = np.empty(_LEAST, np.int32)
        self._slots = np.zeros(2 * _LEAST, np.uint64)
        self._integers: Array | None = np.empty(_LEAST, np.int64)
        self._ends = np.zeros(1, np.int64)
        self._text = np.empty(0, np.uint8)

    def __len__(self) -> int:
        return int(self._counts[ROLES])

    @property
    def strings(self) -> bool:
        return self._integers is None

    def add(self, names: pa.ChunkedArray, role: int) -> Ids:
        """Provisional numbers of names, int64 or large_string, that occur in a role."""
        if pa.types.is_integer(names.type) and self.strings:
            names = names.cast(pa.large_string())
        elif not pa.types.is_integer(names.type) and not self.strings:
            self.to_strings()
        ids = np.empty(len(names), np.int32)
        first = 0
        for chunk in names.chunks:
            found = ids[first : first + len(chunk)]
            self._add_strings(chunk, role, found) if self.strings else self._add_integers(chunk.to_numpy(), role, found)
            first += len(chunk)
        return ids

    def to_strings(self) -> None:
        """Turn integers into their text."""
        if self._integers is None:
            return
        size = len(self)
        known = self._integers[:size]
        self._integers = None
        self._reserve(32 * size)
        self._ends, self._text = np.zeros(len(self._roles) + 1, np.int64), np.empty(0, np.uint8)
        texts = [string_buffers(pa.array(known[at : at + _BLOCK]).cast(pa.large_string())) for at in _steps(size)]
        self._text = np.concatenate([self._text, *(text for _, text in texts)])
        lengths = [np.diff(ends) for ends, _ in texts]
        np.cumsum(np.concatenate([self._ends[:0], *lengths]), out=self._ends[1 : size + 1])
        self._rebuild_slots(len(self._slots))

    def finals(self) -> Ids:
        """The final number of each provisional one. Names are no longer added after this."""
        self._slots = np.empty(0, np.uint64)
        size = len(self)
        if self._integers is not None:
            finals = np.empty(size, np.int32)
            finals[np.argsort(self._integers[:size])] = np.arange(size, dtype=np.int32)
            return finals
        finals, base = np.empty(size, np.int32), 0
        roles, ranks = self._roles[:size], self._ranks[:size]
        for role in range(ROLES):
            chosen = np.flatnonzero(roles == role)
            mine = ranks[chosen]
            place = np.zeros(int(self._counts[role]), np.int32)  # names that got a lesser role later leave gaps
            place[mine] = 1
            np.cumsum(place, out=place)
            finals[chosen] = place[mine] + np.int32(base - 1)
            base += len(chosen)
        return finals

    def in_order(self, finals: Ids) -> Iterator[Array | pa.Array]:
        """The names in the order of their final numbers, in blocks: int64, or an Arrow array of text."""
        order = np.empty(len(finals), np.int32)
        order[finals] = np.arange(len(finals), dtype=np.int32)
        for at in _steps(len(order)):
            chosen = order[at : at + _BLOCK]
            if self._integers is not None:
                yield self._integers[chosen]
            else:
                ends = np.zeros(len(chosen) + 1, np.int64)
                np.cumsum(self._ends[chosen + 1] - self._ends[chosen], out=ends[1:])
                text = np.empty(int(ends[-1]), np.uint8)
                gather_strings(chosen, self._ends, self._text, ends, text)
                yield _text_array(ends, text)

    def _add_integers(self, names: Array, role: int, ids: Ids) -> None:
        first = 0
        while True:
            table = (self._integers, self._slots, self._roles, self._ranks, self._counts)
            first = number_integers(names, role, *table, ids, first)  # type: ignore[arg-type]
            if first == len(ids):
                return
            self._grow(0)

    def _add_strings(self, names: pa.Array, role: int, ids: Ids) -> None:
        ends, text = string_buffers(names)
        first = 0
        while True:
            table = (self._ends, self._text, self._slots, self._roles, self._ranks, self._counts)
            first = number_strings(ends, text, role, *table, ids, first)
            if first == len(ids):
                return
            self._grow(int(ends[first + 1] - ends[first]))

    def _grow(self, length: int) -> None:
        """Make room for one more name of this length, and for more."""
        size = len(self)
        if size >= len(self._roles):
            more = int(len(self._roles) * _GROWTH)
            self._reserve((more - len(self._roles)) * (1 + 4 + 8))
            self._roles = _enlarged(self._roles, more)
            self._roles[size:] = NO_ROLE
            self._ranks = _enlarged(self._ranks, more)
            if self._integers is not None:
                self._integers = _enlarged(self._integers, more)
            else:
                self._ends = _enlarged(self._ends, more + 1)
        if size >= len(self._slots) // 4 * 3:
            self._rebuild_slots(2 * len(self._slots))
        if self._integers is None and int(self._ends[size]) + length > len(self._text):
            more = int((int(self._ends[size]) + length) * _GROWTH) + (1 << 12)
            self._reserve(more - len(self._text))
            self._text = _enlarged(self._text, more)

    def _rebuild_slots(self, count: int) -> None:
        self._reserve(8 * (count - len(self._slots)))
        self._slots = np.empty(0, np.uint64)  # free the old ones first
        self._slots = np.zeros(count, np.uint64)
        if self._integers is not None:
            fill_slots_integers(self._integers, len(self), self._slots)
        else:
            fill_slots_strings(self._ends, self._text, len(self), self._slots)


def write_names(
    tables: list[NameTable], prefixes: tuple[str, str] | None, create: Callable[[str, npt.DTypeLike], ColumnFile]
) -> list[Ids]:
    """Write the arrays of a `NameIndex` of all names; returns the final numbers of each table's provisional ones.

    Args:
        tables: One, or two for the sides of a bipartite network, whose names get `prefixes`.
        create: Makes the file of an array.
    """
    finals = [table.finals() for table in tables]
    count = sum(map(len, finals))
    if prefixes is None and not tables[0].strings:
        names, order = create("names", np.int64), create("name_order", np.int64)
        for block in tables[0].in_order(finals[0]):
            names.append(block)
        for at in _steps(count):
            order.append(np.arange(at, min(at + _BLOCK, count), dtype=np.int64))
    else:
        ends, text = _write_texts(tables, prefixes, finals, create)
        tables.clear()
        _write_order(ends, text, count, create("name_order", np.int64))
    for at in range(1, len(finals)):
        finals[at] += np.int32(len(finals[at - 1]))
    return finals


def _write_texts(
    tables: list[NameTable],
    prefixes: tuple[str, str] | None,
    finals: list[Ids],
    create: Callable[[str, npt.DTypeLike], ColumnFile],
) -> tuple[ColumnFile, ColumnFile]:
    ends, text = create("name_ends", np.int64), create("name_bytes", np.uint8)
    ends.append(np.zeros(1, np.int64))
    for side, (table, mine) in enumerate(zip(tables, finals, strict=True)):
        for block in table.in_order(mine):
            names = block if isinstance(block, pa.Array) else pa.array(block).cast(pa.large_string())
            if prefixes is not None:
                prefix = pa.scalar(f"{prefixes[side]}:", pa.large_string())
                names = pc.binary_join_element_wise(prefix, names, pa.scalar("", pa.large_string()))
            block_ends, block_text = string_buffers(names)
            ends.append(text.rows + block_ends[1:] - block_ends[0])
            text.append(block_text[int(block_ends[0]) : int(block_ends[-1])])
    return ends, text


def _write_order(ends: ColumnFile, text: ColumnFile, count: int, order: ColumnFile) -> None:
    """The order of the names by their bytes."""
    names = _text_array(ends.read(0, count + 1), text.read(0, text.rows), pa.large_binary())
    order.append(pc.array_sort_indices(names).to_numpy().view(np.int64))


def _text_array(ends: Array, text: Array, kind: pa.DataType | None = None) -> pa.Array:
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(text)]
    return pa.Array.from_buffers(kind or pa.large_string(), len(ends) - 1, buffers)


def _enlarged(array: Array, size: int) -> Array:
    """The same array with more room. Enlarged in place where the system can, so that it is not held twice."""
    array.resize(size, refcheck=False)
    return array


def _steps(count: int) -> range:
    return range(0, count, _BLOCK)
