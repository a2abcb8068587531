"""Node names (integers or strings) <-> node ids 0, 1, 2, ...

In a bipartite network the names of each side begin with a prefix (`user:7`, `item:7`); which users may omit (`forms`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from difflib import get_close_matches
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cawn.checks import Array
from cawn.data.columns import blocks, with_room
from cawn.errors import QueryError, brief
from cawn.kernels.cpu import numbering

Arrays = dict[str, Array]
Ids = npt.NDArray[np.int32]
Name = int | str
Names = Name | Iterable[Name]

UNKNOWN = numbering.ABSENT
SLOTS = "name_slots"  # the array of a hash table
_NO_INTEGERS, _NO_TEXT = np.empty(0, np.int64), np.empty(0, np.uint8)
_BLOCK = 1 << 20  # links that are looked at together
_LEAST = 1 << 10  # names that a table has room for at first
_GROWTH = 1.5
_SMALL = 1 << 22  # integers from 0 that are looked up in an array
_CLOSE = 10_000  # names that are compared letter by letter
_INTEGER = re.compile(r"(0|-?[1-9][0-9]{0,18})(\.0)?", re.ASCII)


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


def occurring(num_nodes: int, *ends: Ids) -> Array:
    """The nodes among these ends of links, in ascending order."""
    occurs = np.zeros(num_nodes, bool)
    for _, columns in blocks(_BLOCK, *ends):
        for nodes in columns:
            occurs[nodes] = True
    return np.flatnonzero(occurs)


class NameIndex:
    """The names of nodes 0, 1, 2, ...: integers as long as all are, else strings.

    `add` adds names to this index, `extended` returns a new version of it and leaves this one as it is. Versions share
    memory: one thread may extend the newest one while others use any of them.
    """

    def __init__(self, arrays: Arrays | None = None, reserve: Callable[[int], object] = lambda _: None) -> None:
        """Of the names in these arrays, which may be memory-mapped (see `arrays`; `SLOTS` may be among them), or empty.

        `reserve` is called with a number of bytes before that much more memory is used.
        """
        held = {} if arrays is None else arrays
        self._reserve = reserve
        self._integers = held.get("names", np.empty(0, np.int64))
        self._ends, self._text = held.get("name_ends", np.zeros(1, np.int64)), held.get("name_bytes", _NO_TEXT)
        self.strings = "name_bytes" in held
        self._size = self._ends.size - 1 if self.strings else self._integers.size
        self._slots: Array | None = held.get(SLOTS)
        self._small = np.empty(0, np.int32)
        self._newest = [self._size]  # how many names the newest of the versions has that share these arrays

    @classmethod
    def of(cls, labels: Array) -> NameIndex:
        """Index names, all integers or all strings."""
        if labels.dtype.kind in "iu":
            return cls({"names": labels.astype(np.int64)})
        _, ends, text = _utf8(labels.tolist())
        return cls({"name_ends": ends, "name_bytes": text})

    def __len__(self) -> int:
        return self._size

    def __reduce__(self) -> tuple[Any, ...]:
        return NameIndex, (self.arrays,)

    @property
    def arrays(self) -> Arrays:
        """The names: `names`, or `name_ends` [n + 1] and `name_bytes`, their offsets in a buffer of UTF-8."""
        if not self.strings:
            return {"names": self._integers[: self._size]}
        return {"name_ends": self._ends[: self._size + 1], "name_bytes": self._text[: self._ends[self._size]]}

    @property
    def slots(self) -> Array:
        """The slots of the hash table of these names, with which the index can be memory-mapped."""
        return self._filled() if self._newest[0] == self._size else NameIndex(self.arrays)._filled()

    def _filled(self) -> Array:
        """The slots, a power of two of them, filled when they are first used; newer versions may have added names."""
        if self._slots is None:
            slots = np.zeros(1 << max(self._size * 4 // 3, _LEAST).bit_length(), np.uint64)  # at most 3/4 are used
            numbering.fill_slots(self._held, self._size, slots)
            self._slots = slots
        return self._slots

    @property
    def _held(self) -> numbering.Names:
        """All names, for a kernel."""
        return self._integers, self._ends, self._text

    # Looking names up.

    def is_consistent(self) -> bool:
        """Whether every name is found at its own node."""
        return bool((self._find(self._held, self._size) == np.arange(self._size)).all())

    def ids(self, names: Iterable[Name]) -> npt.NDArray[np.int64]:
        """The id of each name, or UNKNOWN. An integer and its text are the same name."""
        given = list(names)
        if self.strings:
            return self._find(_utf8([str(name) for name in given]), len(given))
        numbers, is_integer = _as_integers(given)
        return np.where(is_integer, self._find(_integers(numbers), len(given)), UNKNOWN)

    def _find(self, names: numbering.Names, count: int) -> npt.NDArray[np.int64]:
        ids = np.empty(count, np.int64)
        numbering.find(_read_only(names), self._held, self._filled(), self._size, ids)
        return ids

    def name(self, node: int) -> Name:
        """The name of one node."""
        if not self.strings:
            return int(self._integers[node])
        return self._text[self._ends[node] : self._ends[node + 1]].tobytes().decode("utf-8", "surrogatepass")

    def all(self) -> Array:
        """All names, in the order of the ids: int64 or str objects."""
        arrays = self.arrays
        if not self.strings:
            return arrays["names"].copy()
        text = arrays["name_bytes"].tobytes()
        names = (text[lo:hi].decode("utf-8", "surrogatepass") for lo, hi in pairwise(arrays["name_ends"].tolist()))
        return np.fromiter(names, object, self._size)

    def arrow(self) -> pa.Array:
        """All names, in the order of the ids, without a copy: int64 or large_string."""
        if not self.strings:
            return pa.array(self._integers[: self._size])
        return pa.Array.from_buffers(pa.large_string(), self._size, [None, *map(pa.py_buffer, self._held[1:])])

    # Adding names.

    def add(self, names: pa.ChunkedArray) -> Ids:
        """Numbers of names, int64 or large_string; new names get the next numbers."""
        if not self.strings and not pa.types.is_integer(names.type):
            self._to_strings()
        if not self.strings and not len(self._small):
            self._small = np.zeros(_SMALL, np.int32)
        ids = np.empty(len(names), np.int32)
        first = 0
        for chunk in names.chunks:
            given = (_NO_INTEGERS, *string_buffers(chunk)) if self.strings else _integers(chunk.to_numpy())
            self._add(given, ids[first : first + len(chunk)])
            first += len(chunk)
        return ids

    def extended(self, names: Sequence[Name]) -> tuple[Ids, NameIndex]:
        """The ids of names, and an index in which those that are new have the next free ones.

        Takes time O(len(names)), unless the index was extended before.
        """
        found = NameIndex(self.arrays)
        if self._newest[0] == self._size:
            found.__dict__.update(self.__dict__)
        if not self.strings:
            integers, is_integer = _as_integers(names)
            if not is_integer.all():
                found._to_strings()
        added = _utf8([str(name) for name in names]) if found.strings else _integers(integers)
        ids = np.empty(len(names), np.int32)
        found._add(added, ids)
        return ids, found

    def _add(self, names: numbering.Names, ids: Ids) -> None:
        names, first = _read_only(names), 0
        while True:
            first, self._size = numbering.number(names, self._held, self._filled(), self._small, self._size, ids, first)
            self._newest[0] = self._size
            if first == len(ids):
                return
            self._grow(int(names[1][first + 1] - names[1][first]) if self.strings else 0)

    def _to_strings(self) -> None:
        """Turn integers into their text."""
        self._reserve(32 * self._size)
        ends, text = string_buffers(pa.array(self._integers[: self._size]))
        self._ends, self._text = ends.copy(), text.copy()
        self.strings, self._integers, self._slots, self._newest = True, _NO_INTEGERS, None, [self._size]

    def _grow(self, length: int) -> None:
        """Make room for one more name of this length, and for more. Readers may still use the arrays so far."""
        room = len(self._ends) - 1 if self.strings else len(self._integers)
        if self._size >= room - 1:
            more = max(int(room * _GROWTH), _LEAST)
            if self.strings:
                self._ends = self._enlarged(self._ends, more + 1)
            else:
                self._integers = self._enlarged(self._integers, more)
        needed = int(self._ends[self._size]) + length if self.strings else 0
        if needed > len(self._text):
            self._text = self._enlarged(self._text, int(needed * _GROWTH) + (1 << 12))
        if self._size >= len(self._filled()) // 4 * 3:
            self._reserve(8 * len(self._filled()))
            self._slots = None  # filled again, with twice as many

    def _enlarged(self, array: Array, size: int) -> Array:
        self._reserve((size - len(array)) * array.itemsize)
        return with_room(array, size)


def _read_only(names: numbering.Names) -> numbering.Names:
    """Views that are read-only, as those of Arrow are, so that kernels are compiled once."""
    integers, ends, text = (array.view() for array in names)
    integers.flags.writeable = ends.flags.writeable = text.flags.writeable = False
    return integers, ends, text


def _integers(names: Array) -> numbering.Names:
    """Names for a kernel."""
    return names, np.zeros(1, np.int64), _NO_TEXT


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


def _as_integers(names: Sequence[Name]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Names as int64, and which of them are integers; the others become 0."""
    if set(map(type, names)) == {int}:
        with suppress(OverflowError):
            return np.array(names, np.int64), np.ones(len(names), bool)
    found = [as_integer(name) for name in names]
    return np.array([name or 0 for name in found], np.int64), np.array([name is not None for name in found], bool)


def as_integer(name: Any) -> int | None:
    """The name as an int64, by the rule of `cawn.read`: 7 and 7.0 are integers, 007 and +7 are not (see
    `parse_integers`)."""
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
    return _NO_INTEGERS, ends, np.frombuffer(b"".join(encoded), np.uint8).copy()


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
