"""Node names (integers or strings) <-> node ids 0, 1, 2, ...

`number_nodes` assigns ids to the names of a table. `NameIndex` looks names up, in arrays that can be memory-mapped.
In a bipartite network the names of each side begin with a prefix (`user:7`, `item:7`); `Spelling` lets users omit it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cawn.errors import QueryError, brief
from cawn.kernels.jit import njit

if TYPE_CHECKING:
    from cawn.data.events import Events

Array = npt.NDArray[Any]
Ids = npt.NDArray[np.int32]
Name = int | str
Names = Name | Iterable[Name]

UNKNOWN = -1
_ADDED = 10_000  # names that are added before an index is rebuilt, at least
_BLOCK = 1 << 20  # links that are looked at together
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


@dataclass(frozen=True, slots=True)
class Spelling:
    """How a network spells the names of sources (side 0) and destinations (side 1).

    Args:
        prefixes: Of the sources and of the destinations of a bipartite network; None for any other network.
    """

    prefixes: tuple[str, str] | None

    def spelled(self, name: Name, side: int) -> Name:
        """The name with the prefix of its side."""
        if self.prefixes is None or str(name).startswith(f"{self.prefixes[side]}:"):
            return name
        return f"{self.prefixes[side]}:{name}"

    def same(self, u: Name, v: Name) -> bool:
        """Whether an unknown source and an unknown destination of these names are the same node."""
        return self.spelled(str(u), 0) == self.spelled(str(v), 1)

    def ids(self, names: NameIndex, given: list[Name], side: int) -> npt.NDArray[np.int64]:
        """Ids of names. Unknown sources get the id len(names), unknown destinations len(names) + 1."""
        ids = names.ids(given if self.prefixes is None else [self.spelled(name, side) for name in given])
        missing = np.flatnonzero(ids == UNKNOWN)
        if self.prefixes is not None and len(missing):
            ids[missing] = names.ids([given[i] for i in missing])
        return np.where(ids == UNKNOWN, len(names) + side, ids)


def bipartite_prefixes(events: Events) -> tuple[str, str] | None:
    """("user", "item") where all sources are named user:... and all destinations item:..., as `cawn.read` does."""
    index = events.names
    strings = events.labels.dtype.kind not in "iu" if index is None else index.strings
    if not strings or len(events) == 0:
        return None
    name = events.labels.__getitem__ if index is None else index.name
    first, second = (_common_prefix(name, _occurring(ends, events.num_nodes)) for ends in (events.src, events.dst))
    return None if first is None or second is None or first == second else (first, second)


def _common_prefix(name: Callable[[int], Any], nodes: Array) -> str | None:
    """What stands before the colon in the name of every node; None unless that is the same."""
    prefix = None
    for node in nodes.tolist():
        found, colon, _ = str(name(node)).partition(":")
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


# Looking names up.


class NameIndex:
    """The names of nodes 0, 1, 2, ...: all integers, or all strings, stored as one buffer of UTF-8 bytes."""

    def __init__(self, arrays: dict[str, Array]) -> None:
        self.arrays = arrays
        self.strings = "name_bytes" in arrays

    @classmethod
    def of(cls, labels: Array) -> NameIndex:
        """Index names, all integers or all strings."""
        if labels.dtype.kind in "iu":
            return cls({"names": labels.astype(np.int64), "name_order": np.argsort(labels, kind="stable")})
        return cls(_ordered(*_utf8(labels.tolist())))

    def __len__(self) -> int:
        return len(self.arrays["name_order"])

    def ids(self, names: Iterable[Name]) -> npt.NDArray[np.int64]:
        """The id of each name, or UNKNOWN. An integer and its text are the same name."""
        given, order = list(names), self.arrays["name_order"]
        if self.strings:
            ends, text = _utf8([str(name) for name in given])
            return _find_strings(ends, text, self.arrays["name_ends"], self.arrays["name_bytes"], order)
        if len(order) == 0:
            return np.full(len(given), UNKNOWN)
        labels, (numbers, is_integer) = self.arrays["names"], _as_integers(given)
        found = order[np.minimum(np.searchsorted(labels, numbers, sorter=order), len(order) - 1)]
        return np.where(is_integer & (labels[found] == numbers), found, UNKNOWN)

    def name(self, node: int) -> Name:
        """The name of one node."""
        if not self.strings:
            return int(self.arrays["names"][node])
        ends = self.arrays["name_ends"]
        return self.arrays["name_bytes"][ends[node] : ends[node + 1]].tobytes().decode("utf-8", "surrogatepass")

    def all(self) -> Array:
        """All names, in the order of the ids: int64 or str objects."""
        return np.array([self.name(i) for i in range(len(self))], object) if self.strings else self.arrays["names"]

    def canonical(self, name: Name) -> str:
        """The text of a name; where names are integers, "7" for "7.0"."""
        number = None if self.strings else _as_integer(name)
        return str(name) if number is None else str(number)

    def extended(self, names: Sequence[Name]) -> NameIndex:
        """A new index with further names after these."""
        if not self.strings:
            more = [_as_integer(name) for name in names]
            if None not in more:
                return NameIndex.of(np.concatenate([self.arrays["names"], np.array(more, np.int64)]))
        return NameIndex.of(np.array([str(name) for name in [*self.all().tolist(), *names]], object))


class GrowingNames(NameIndex):
    """A `NameIndex` and the names added since. Versions share the added names, so adding a name takes O(1) time.

    Only the newest version may be extended, by one thread at a time.
    """

    def __init__(self, base: NameIndex, added: dict[str, int] | None = None, size: int | None = None) -> None:
        self._base, self._added = base, {} if added is None else added
        self._size, self.strings = len(base) if size is None else size, base.strings

    @classmethod
    def over(cls, index: NameIndex) -> GrowingNames:
        """The same names, ready to grow."""
        return index if isinstance(index, GrowingNames) else cls(index)

    def __len__(self) -> int:
        return self._size

    @cached_property
    def _names(self) -> list[str]:
        """The names added up to this version, by id."""
        return list(islice(self._added, self._size - len(self._base)))

    @cached_property
    def arrays(self) -> dict[str, Array]:  # type: ignore[override]
        """The arrays of an index of all names, built from scratch."""
        if self._size == len(self._base):
            return self._base.arrays
        if not self.strings:
            return NameIndex.of(self.all()).arrays
        base, (ends, text) = self._base.arrays, _utf8(self._names)
        ends = np.concatenate([base["name_ends"], base["name_ends"][-1] + ends[1:]])
        return _ordered(ends, np.concatenate([base["name_bytes"], text]))

    def ids(self, names: Iterable[Name]) -> npt.NDArray[np.int64]:
        given = list(names)
        found = self._base.ids(given)
        if self._size > len(self._base):
            for i in np.flatnonzero(found == UNKNOWN).tolist():
                node = self._added.get(self.canonical(given[i]), UNKNOWN)
                found[i] = node if node < self._size else UNKNOWN
        return found

    def name(self, node: int) -> Name:
        if node < len(self._base):
            return self._base.name(node)
        name = self._names[node - len(self._base)]
        return name if self.strings else int(name)

    def all(self) -> Array:
        base, added = self._base.all(), self._names
        return np.concatenate([base, np.array(added, object if self.strings else np.int64)]) if added else base

    def extended(self, names: Sequence[Name]) -> GrowingNames:
        spelled = [self.canonical(name) for name in names]
        if not self.strings and None in map(_as_integer, spelled):  # all names become strings
            return GrowingNames(NameIndex.of(self.all()).extended(names))
        if len(self._added) + len(names) > max(len(self._base), _ADDED):
            return GrowingNames(NameIndex.of(self.all()).extended(names))
        added = self._added
        if len(self._base) + len(added) > self._size:  # links with names that were added later could not be added
            added = {name: len(self._base) + i for i, name in enumerate(self._names)}
        for name in spelled:
            added.setdefault(name, len(self._base) + len(added))
        return GrowingNames(self._base, added, len(self._base) + len(added))


def name_arrays(labels: Array) -> dict[str, Array]:
    """The arrays of a `NameIndex` without the sorting order."""
    if labels.dtype.kind in "iu":
        return {"names": labels.astype(np.int64)}
    ends, text = _utf8(labels.tolist())
    return {"name_ends": ends, "name_bytes": text}


def _ordered(ends: Array, text: Array) -> dict[str, Array]:
    """The arrays of a `NameIndex` of strings, with their order by bytes. Sorted by Arrow, which releases the GIL."""
    names = pa.Array.from_buffers(pa.large_binary(), len(ends) - 1, [None, pa.py_buffer(ends), pa.py_buffer(text)])
    order = pc.array_sort_indices(names).to_numpy().astype(np.int64)
    return {"name_ends": ends, "name_bytes": text, "name_order": order}


def _as_integers(names: list[Name]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Names as int64, and which of them are integers; the others become 0."""
    if set(map(type, names)) == {int}:
        with suppress(OverflowError):
            return np.array(names, np.int64), np.ones(len(names), bool)
    found = [_as_integer(name) for name in names]
    return np.array([name or 0 for name in found], np.int64), np.array([name is not None for name in found], bool)


def _as_integer(name: Name) -> int | None:
    """The name as an int64, by the rule of `cawn.read`: 7 and 7.0 are integers, 007 and +7 are not."""
    if isinstance(name, str):
        if not _INTEGER.fullmatch(name):
            return None
        name = name.removesuffix(".0")
    number = int(name)
    return number if -(2**63) <= number < 2**63 else None


def _utf8(names: list[str]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Offsets [n + 1] of the names in a buffer of UTF-8 bytes, and the buffer."""
    encoded = [name.encode("utf-8", "surrogatepass") for name in names]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return ends, np.frombuffer(b"".join(encoded), np.uint8).copy()


@njit
def _find_strings(ends: Array, text: Array, held_ends: Array, held_text: Array, order: Array) -> Array:
    """A binary search in the sorted names for each wanted one."""
    found = np.full(ends.size - 1, UNKNOWN, np.int64)
    for i in range(ends.size - 1):
        wanted = text[ends[i] : ends[i + 1]]
        lo, hi = 0, order.size
        while lo < hi:
            mid = (lo + hi) >> 1
            node = order[mid]
            held = held_text[held_ends[node] : held_ends[node + 1]]
            sign, shorter = 0, min(wanted.size, held.size)
            for j in range(shorter):
                if wanted[j] != held[j]:
                    sign = -1 if wanted[j] < held[j] else 1
                    break
            if sign == 0:
                sign = wanted.size - held.size
            if sign == 0:
                found[i] = node
                break
            if sign < 0:
                hi = mid
            else:
                lo = mid + 1
    return found


# Numbering the names of a table.


def number_names(src: list[Name], dst: list[Name]) -> tuple[Array, Array, Array]:
    """Ids of sources and destinations, and the name of each id: integers if all names are, else text."""
    if set(map(type, src)) | set(map(type, dst)) == {int}:
        with suppress(OverflowError):
            labels, ids = np.unique(np.array(src + dst, np.int64), return_inverse=True)
            return ids[: len(src)], ids[len(src) :], labels
    texts = [list(map(str, side)) for side in (src, dst)]
    numbers = {name: i for i, name in enumerate(dict.fromkeys(chain(*texts)))}
    u, v = (np.array([numbers[name] for name in side], np.int64) for side in texts)
    return u, v, np.array(list(numbers), object)


def number_nodes(src: pa.ChunkedArray, dst: pa.ChunkedArray) -> tuple[Ids, Ids, Array]:
    """Ids of sources and destinations, and the name of each id. Both columns are int64, or both are strings.

    Integers keep their order (names 0..N-1 stay as they are); strings are numbered as they appear, sources first.
    """
    return _number_integers(src, dst) if pa.types.is_integer(src.type) else _number_strings(src, dst)


def number_bipartite(src: pa.ChunkedArray, dst: pa.ChunkedArray, prefixes: tuple[str, str]) -> tuple[Ids, Ids, Array]:
    """The same where a source and a destination of the same name are different nodes: 'user:7' and 'item:7'."""
    src_ids, _, src_labels = number_nodes(src, src.slice(0, 0))
    dst_ids, _, dst_labels = number_nodes(dst, dst.slice(0, 0))
    sides = zip(prefixes, (src_labels, dst_labels), strict=True)
    labels = [f"{prefix}:{name}" for prefix, names in sides for name in names]
    return src_ids, dst_ids + np.int32(len(src_labels)), np.array(labels, dtype=object)


def _number_integers(src: pa.ChunkedArray, dst: pa.ChunkedArray) -> tuple[Ids, Ids, Array]:
    bounds = [pc.min_max(column) for column in (src, dst) if len(column)]
    low = min((b["min"].as_py() for b in bounds), default=0)
    high = max((b["max"].as_py() for b in bounds), default=-1)
    if high - low > 4 * (len(src) + len(dst)) + 1024:
        return _number_sparse_integers(src, dst)
    table = np.zeros(high - low + 1, np.int32)
    for column in (src, dst):
        for chunk in column.chunks:
            _mark(chunk.to_numpy(), low, table)
    labels = np.flatnonzero(table) + low
    table = np.cumsum(table, dtype=np.int32) - np.int32(1)
    src_ids, dst_ids = np.empty(len(src), np.int32), np.empty(len(dst), np.int32)
    for column, ids in ((src, src_ids), (dst, dst_ids)):
        first = 0
        for chunk in column.chunks:
            _look_up(chunk.to_numpy(), low, table, ids[first : first + len(chunk)])
            first += len(chunk)
    return src_ids, dst_ids, labels


def _number_sparse_integers(src: pa.ChunkedArray, dst: pa.ChunkedArray) -> tuple[Ids, Ids, Array]:
    both = pa.chunked_array([*src.chunks, *dst.chunks]).combine_chunks().dictionary_encode()
    labels = both.dictionary.to_numpy()
    order = np.argsort(labels)
    rank = np.empty(len(order), np.int32)
    rank[order] = np.arange(len(order), dtype=np.int32)
    ids = rank[both.indices.to_numpy()]
    return ids[: len(src)], ids[len(src) :], labels[order]


def _number_strings(src: pa.ChunkedArray, dst: pa.ChunkedArray) -> tuple[Ids, Ids, Array]:
    with ThreadPoolExecutor(2) as pool:  # Arrow releases the GIL
        ends = list(pool.map(lambda column: column.combine_chunks().dictionary_encode(), (src, dst)))
    names = pa.concat_arrays([end.dictionary for end in ends]).dictionary_encode()
    ids = names.indices.to_numpy()
    src_rank, dst_rank = ids[: len(ends[0].dictionary)], ids[len(ends[0].dictionary) :]
    labels = names.dictionary.to_numpy(zero_copy_only=False).astype(object)
    return src_rank[ends[0].indices.to_numpy()], dst_rank[ends[1].indices.to_numpy()], labels


def parse_integers(column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """A text column as int64, or None unless every name is a plain integer: 7 or 7.0, but not 007, +7 or 0x7."""
    parsed = []
    for chunk in column.chunks:
        values = np.empty(len(chunk), np.int64)
        if not _parse_integers(*string_buffers(chunk), values):
            return None
        parsed.append(pa.array(values))
    return pa.chunked_array(parsed, pa.int64())


def string_buffers(names: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """The text of an Arrow array of strings without a copy: name i is text[ends[i] : ends[i + 1]]."""
    large = names.cast(pa.large_string())
    _, ends, text = large.buffers()
    if ends is None or len(large) == 0:
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    found = np.empty(0, np.uint8) if text is None else np.frombuffer(text, np.uint8)
    return np.frombuffer(ends, np.int64, len(large) + 1, 8 * large.offset), found


@njit
def _parse_integers(ends: npt.NDArray[np.int64], text: npt.NDArray[np.uint8], values: npt.NDArray[np.int64]) -> bool:
    """-?(0|[1-9][0-9]{0,17})(.0)? in every field."""
    zero, minus, point = np.uint8(48), np.uint8(45), np.uint8(46)
    for i in range(values.size):
        lo, hi = ends[i], ends[i + 1]
        if hi - lo > 2 and text[hi - 1] == zero and text[hi - 2] == point:
            hi -= 2
        negative = hi > lo and text[lo] == minus
        lo += negative
        digits = hi - lo
        if digits < 1 or digits > 18 or (text[lo] == zero and (digits > 1 or negative)):
            return False
        value = np.int64(0)
        for j in range(lo, hi):
            digit = np.int64(text[j]) - 48
            if digit < 0 or digit > 9:
                return False
            value = 10 * value + digit
        values[i] = -value if negative else value
    return True


@njit
def _mark(names: npt.NDArray[np.int64], low: int, table: Ids) -> None:
    for i in range(names.size):
        table[names[i] - low] = 1


@njit
def _look_up(names: npt.NDArray[np.int64], low: int, table: Ids, ids: Ids) -> None:
    for i in range(names.size):
        ids[i] = table[names[i] - low]
