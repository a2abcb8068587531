"""Node names (integers or strings) <-> node ids 0, 1, 2, ...

`NameTable` gives names numbers; `NameIndex` is a view of the first names of a table, which may be extended. In a
bipartite network the names of each side begin with a prefix (`user:7`, `item:7`), which users may omit (`forms`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from difflib import get_close_matches
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cawn.errors import QueryError, brief
from cawn.kernels.cpu import numbering

if TYPE_CHECKING:
    from cawn.data.events import Events

Array = npt.NDArray[Any]
Arrays = dict[str, Array]
Ids = npt.NDArray[np.int32]
Name = int | str
Names = Name | Iterable[Name]

UNKNOWN = numbering.ABSENT
SLOTS = "name_slots"  # the array of a hash table
_BLOCK = 1 << 20  # links that are looked at together
_LEAST = 1 << 10  # names that a table has room for at first
_GROWTH = 1.5
_SMALL = 1 << 22  # integers from 0 that are looked up in an array
_CLOSE = 10_000  # names that are compared letter by letter
_INTEGER = re.compile(r"(0|-?[1-9][0-9]{0,18})(\.0)?", re.ASCII)


# Names as users give them.


def as_names(names: Names) -> list[Name]:
    """One name, or any collection of names, as a list."""
    if isinstance(names, str | bytes | float | int | np.generic) or not hasattr(names, "__iter__"):
        given: list[Any] = [names]
    elif isinstance(names, np.ndarray):
        given = names.reshape(-1).tolist()
    else:
        try:
            given = names.to_pylist() if hasattr(names, "to_pylist") else list(names)
        except Exception as error:  # iterating over a user's object can raise anything
            raise QueryError(f"names cannot be listed ({type(error).__name__}); give a list of names") from error
    if set(map(type, given)) <= {str, int}:
        return given
    found = [int(name) if isinstance(name, np.integer) else name for name in given]
    if wrong := [name for name in found if not isinstance(name, str | int) or isinstance(name, bool)]:
        raise QueryError(f"{brief(wrong[0])} is not a node name: names are integers or strings")
    return found


def as_name(name: Any, what: str) -> Name:
    """A single name; `what` is the argument's name in the error message."""
    found = as_names(name)
    if len(found) != 1 or (hasattr(name, "__iter__") and not isinstance(name, str)):
        raise QueryError(f"{what} is {brief(name)}: give one name")
    return found[0]


def bipartite_prefixes(events: Events) -> tuple[str, str] | None:
    """("user", "item") where all sources are named user:... and all destinations item:..., as `cawn.read` does."""
    if len(events) == 0 or not events.names.strings:
        return None
    first, second = (_common_prefix(events.names, ends, events.num_nodes) for ends in (events.src, events.dst))
    return None if first is None or second is None or first == second else (first, second)


def _common_prefix(names: NameIndex, ends: Ids, num_nodes: int) -> str | None:
    """What stands before the colon in the name of each of these nodes; None unless that is the same."""
    prefix = None
    for node in _occurring(ends, num_nodes).tolist():
        found, colon, _ = str(names.name(node)).partition(":")
        if not colon or prefix not in (None, found):
            return None
        prefix = found
    return prefix


def _occurring(ends: Ids, num_nodes: int) -> Array:
    """The nodes among these, in ascending order."""
    occurs = np.zeros(num_nodes, bool)
    for first in range(0, len(ends), _BLOCK):
        occurs[ends[first : first + _BLOCK]] = True
    return np.flatnonzero(occurs)


# The table of names.


class NameTable:
    """Distinct names in the order in which they were added: integers as long as all are, else strings.

    One thread adds names, while others look up those that they know of.
    """

    def __init__(self, arrays: Arrays | None = None, reserve: Callable[[int], object] | None = None) -> None:
        """A table of the names in these arrays (see `arrays`), by default empty.

        `reserve` is called with a number of bytes before that much more memory is used.
        """
        held = {"names": np.empty(0, np.int64)} if arrays is None else arrays
        self._reserve = reserve
        self._integers, self._text = (
            held.get("names", np.empty(0, np.int64)),
            held.get("name_bytes", np.empty(0, np.uint8)),
        )
        self._ends = held.get("name_ends", np.zeros(1, np.int64))
        self.strings = "name_bytes" in held
        self._size = len(self._ends) - 1 if self.strings else len(self._integers)
        self._slots: Array | None = held.get(SLOTS)
        self._small = np.empty(0, np.int32)

    def __len__(self) -> int:
        return self._size

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_slots": None, "_small": np.empty(0, np.int32)}

    @property
    def slots(self) -> Array:
        """The slots of the hash table, filled when they are first used."""
        if self._slots is None:
            slots = _empty_slots(self._size)
            numbering.fill_slots(self.held, self._size, slots)
            self._slots = slots
        return self._slots

    @property
    def held(self) -> numbering.Names:
        """All names, for a kernel."""
        return self._integers, self._ends, self._text

    def arrays(self, size: int | None = None) -> Arrays:
        """The first names: `names`, or `name_ends` [n + 1] and `name_bytes`, their offsets in a buffer of UTF-8."""
        size = self._size if size is None else size
        if not self.strings:
            return {"names": self._integers[:size]}
        return {"name_ends": self._ends[: size + 1], "name_bytes": self._text[: self._ends[size]]}

    def add(self, names: pa.ChunkedArray) -> Ids:
        """Numbers of names, int64 or large_string; new names get the next numbers."""
        if pa.types.is_integer(names.type) and self.strings:
            names = names.cast(pa.large_string())
        elif not pa.types.is_integer(names.type) and not self.strings:
            self.to_strings()
        if not self.strings and not len(self._small):
            self._small = np.zeros(_SMALL, np.int32)
        ids = np.empty(len(names), np.int32)
        first = 0
        for chunk in names.chunks:
            self._add(_buffers(chunk), ids[first : first + len(chunk)])
            first += len(chunk)
        return ids

    def _add(self, names: numbering.Names, ids: Ids) -> None:
        names, first = _read_only(names), 0
        while True:
            first, self._size = numbering.number(names, self.held, self.slots, self._small, self._size, ids, first)
            if first == len(ids):
                return
            self._grow(int(names[1][first + 1] - names[1][first]) if self.strings else 0)

    def find(self, names: numbering.Names, count: int, size: int) -> npt.NDArray[np.int64]:
        """The numbers of `count` names among the first `size` ones, or UNKNOWN."""
        ids = np.empty(count, np.int64)
        numbering.find(_read_only(names), self.held, self.slots, size, ids)
        return ids

    def to_strings(self) -> None:
        """Turn integers into their text."""
        if self.strings:
            return
        self._use(32 * self._size)
        ends, text = string_buffers(pa.array(self._integers[: self._size]))
        self._ends, self._text = ends.copy(), text.copy()
        self.strings, self._integers, self._slots = True, np.empty(0, np.int64), None

    def select(self, order: Array) -> Iterator[Arrays]:
        """The names with these numbers, in this order: blocks of them as in `arrays`."""
        for at in range(0, len(order), _BLOCK):
            chosen = order[at : at + _BLOCK]
            if not self.strings:
                yield {"names": self._integers[chosen]}
            else:
                ends = np.zeros(len(chosen) + 1, np.int64)
                np.cumsum(self._ends[chosen + 1] - self._ends[chosen], out=ends[1:])
                text = np.empty(int(ends[-1]), np.uint8)
                numbering.gather_strings(chosen, self._ends, self._text, ends, text)
                yield {"name_ends": ends, "name_bytes": text}

    def _use(self, size: int) -> None:
        if self._reserve is not None:
            self._reserve(size)

    def _grow(self, length: int) -> None:
        """Make room for one more name of this length, and for more. Readers may still use the arrays so far."""
        room = len(self._ends) - 1 if self.strings else len(self._integers)
        if self._size >= room - 1:
            more = max(int(room * _GROWTH), _LEAST)
            self._use(8 * (more - room))
            if self.strings:
                self._ends = _enlarged(self._ends, more + 1)
            else:
                self._integers = _enlarged(self._integers, more)
        if self.strings and int(self._ends[self._size]) + length > len(self._text):
            more = int((int(self._ends[self._size]) + length) * _GROWTH) + (1 << 12)
            self._use(more - len(self._text))
            self._text = _enlarged(self._text, more)
        if self._size >= len(self.slots) // 4 * 3:
            self._use(8 * len(self.slots))
            slots = np.zeros(2 * len(self.slots), np.uint64)
            numbering.fill_slots(self.held, self._size, slots)
            self._slots = slots


def _empty_slots(names: int) -> npt.NDArray[np.uint64]:
    """A power of two of them, at most three quarters of which are needed."""
    return np.zeros(1 << max(names * 4 // 3, _LEAST).bit_length(), np.uint64)


def _enlarged(array: Array, size: int) -> Array:
    larger = np.empty(size, array.dtype)
    larger[: len(array)] = array
    return larger


def _read_only(names: numbering.Names) -> numbering.Names:
    """Views that are read-only, as those of Arrow are, so that kernels are compiled once."""
    integers, ends, text = (array.view() for array in names)
    integers.flags.writeable = ends.flags.writeable = text.flags.writeable = False
    return integers, ends, text


def _buffers(names: pa.Array) -> numbering.Names:
    """The names of an Arrow array of int64 or large_string for a kernel, without a copy."""
    if pa.types.is_integer(names.type):
        return names.to_numpy(), np.zeros(1, np.int64), np.empty(0, np.uint8)
    return np.empty(0, np.int64), *string_buffers(names)


def string_buffers(names: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """The text of an Arrow array of strings without a copy: name i is text[ends[i] : ends[i + 1]]."""
    large = names.cast(pa.large_string())
    _, ends, text = large.buffers()
    if ends is None or len(large) == 0:
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    found = np.empty(0, np.uint8) if text is None else np.frombuffer(text, np.uint8)
    return np.frombuffer(ends, np.int64, len(large) + 1, 8 * large.offset), found


def parse_integers(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray | None, bool]:
    """A text column as int64, and whether 7 is written as 7.0 somewhere.

    None unless every name is a plain integer: 7 or 7.0, but not 007, +7 or 0x7.
    """
    parsed, with_point = [], False
    for chunk in column.chunks:
        values = np.empty(len(chunk), np.int64)
        found = numbering.parse_integers(*string_buffers(chunk), values)
        if found == numbering.NOT_INTEGERS:
            return None, False
        with_point |= found == numbering.INTEGERS_WITH_POINT
        parsed.append(pa.array(values))
    return pa.chunked_array(parsed, pa.int64()), with_point


# Looking names up.


class NameIndex:
    """The names of nodes 0, 1, 2, ...: all integers, or all strings. It never changes; `extended` returns a new one."""

    def __init__(self, arrays: Arrays) -> None:
        """Of the names in these arrays, which may be memory-mapped; `SLOTS` may be among them."""
        self._table = NameTable(arrays)
        self._size = len(self._table)

    @classmethod
    def of(cls, labels: Array) -> NameIndex:
        """Index names, all integers or all strings."""
        if labels.dtype.kind in "iu":
            return cls({"names": labels.astype(np.int64)})
        _, ends, text = _utf8(labels.tolist())
        return cls({"name_ends": ends, "name_bytes": text})

    @classmethod
    def over(cls, table: NameTable) -> NameIndex:
        """Of the names that a table has now."""
        index = cls.__new__(cls)
        index._table, index._size = table, len(table)
        return index

    def __len__(self) -> int:
        return self._size

    @property
    def strings(self) -> bool:
        """Whether the names are strings."""
        return self._table.strings

    @property
    def arrays(self) -> Arrays:
        """The names as arrays; see `NameTable.arrays`."""
        return self._table.arrays(self._size)

    @property
    def slots(self) -> Array:
        """The slots of the hash table, from which, with the names, the index can be memory-mapped."""
        return self._table.slots if len(self._table) == self._size else NameTable(self.arrays).slots

    def is_consistent(self) -> bool:
        """Whether every name is found at its own node."""
        return bool((self._table.find(self._table.held, self._size, self._size) == np.arange(self._size)).all())

    def ids(self, names: Iterable[Name]) -> npt.NDArray[np.int64]:
        """The id of each name, or UNKNOWN. An integer and its text are the same name."""
        given = list(names)
        if self.strings:
            return self._table.find(_utf8([str(name) for name in given]), len(given), self._size)
        numbers, is_integer = _as_integers(given)
        found = self._table.find((numbers, np.zeros(1, np.int64), np.empty(0, np.uint8)), len(given), self._size)
        return np.where(is_integer, found, UNKNOWN)

    def name(self, node: int) -> Name:
        """The name of one node."""
        arrays = self.arrays
        if not self.strings:
            return int(arrays["names"][node])
        ends = arrays["name_ends"]
        return arrays["name_bytes"][ends[node] : ends[node + 1]].tobytes().decode("utf-8", "surrogatepass")

    def all(self) -> Array:
        """All names, in the order of the ids: int64 or str objects."""
        arrays = self.arrays
        if not self.strings:
            return arrays["names"].copy()
        text = arrays["name_bytes"].tobytes()
        names = (text[lo:hi].decode("utf-8", "surrogatepass") for lo, hi in pairwise(arrays["name_ends"].tolist()))
        return np.fromiter(names, object, self._size)

    def extended(self, names: Sequence[Name]) -> tuple[Ids, NameIndex]:
        """The ids of names, and an index in which those that are new have the next free ones.

        Takes time O(len(names)), unless the index was extended before.
        """
        table = self._table
        integers = [] if self.strings else [_as_integer(name) for name in names]
        if len(table) > self._size or None in integers:
            table = NameTable(self.arrays)
        if self.strings or None in integers:
            table.to_strings()
            _, ends, text = _utf8([str(name) for name in names])
            added = pa.Array.from_buffers(pa.large_string(), len(names), [None, pa.py_buffer(ends), pa.py_buffer(text)])
        else:
            added = pa.array(integers, pa.int64())
        ids = table.add(pa.chunked_array([added]))
        return ids, NameIndex.over(table)


def _as_integers(names: list[Name]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Names as int64, and which of them are integers; the others become 0."""
    if set(map(type, names)) == {int}:
        with suppress(OverflowError):
            return np.array(names, np.int64), np.ones(len(names), bool)
    found = [_as_integer(name) for name in names]
    return np.array([name or 0 for name in found], np.int64), np.array([name is not None for name in found], bool)


def _as_integer(name: Any) -> int | None:
    """The name as an int64, by the rule of `cawn.read`: 7 and 7.0 are integers, 007 and +7 are not."""
    if isinstance(name, str):
        if not _INTEGER.fullmatch(name):
            return None
        name = name.removesuffix(".0")
    if isinstance(name, float) and not name.is_integer():
        return None
    number = int(name)
    return number if -(2**63) <= number < 2**63 else None


def _utf8(names: list[str]) -> numbering.Names:
    """Names for a kernel."""
    encoded = [name.encode("utf-8", "surrogatepass") for name in names]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return np.empty(0, np.int64), ends, np.frombuffer(b"".join(encoded), np.uint8).copy()


def near_names(index: NameIndex, name: Name, most: int = 3) -> list[Name]:
    """Names that look like this one: first those that differ in case, white space or punctuation alone."""
    wanted, found = _plain(name), list[Name]()
    held: list[Name] = index.all().tolist()
    texts = {_plain(each): each for each in held}
    if wanted in texts:
        found.append(texts[wanted])
    close = [text for text in texts if text[:3] == wanted[:3] or text[-3:] == wanted[-3:]]
    return [*found, *(texts[text] for text in get_close_matches(wanted, close[:_CLOSE], most) if text != wanted)][:most]


def _plain(name: Name) -> str:
    """The letters and digits of a name."""
    return "".join(letter for letter in str(name).casefold() if letter.isalnum())
