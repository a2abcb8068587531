"""Names to ids and back for networks of any size: sorted arrays, mapped from a file, instead of a dictionary."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.data.events import Events
from cawn.kernels.jit import njit

Array = npt.NDArray[Any]
Name = int | str

UNKNOWN = -1
_INTEGER = re.compile(r"(0|-?[1-9][0-9]{0,18})(\.0)?", re.ASCII)


class NameIndex:
    """The names of nodes 0, 1, 2, ...: integers, or strings kept as one run of UTF-8 bytes."""

    def __init__(self, arrays: dict[str, Array]) -> None:
        self.arrays = arrays
        self.strings = "name_bytes" in arrays

    @classmethod
    def of(cls, labels: Array) -> NameIndex:
        """Index names, all integers or all strings."""
        if labels.dtype.kind in "iu":
            return cls(name_arrays(labels) | {"name_order": np.argsort(labels, kind="stable")})
        encoded = [name.encode("utf-8", "surrogatepass") for name in labels.tolist()]
        order = np.array(sorted(range(len(labels)), key=encoded.__getitem__), np.int64)
        return cls(name_arrays(labels) | {"name_order": order})

    def __len__(self) -> int:
        return len(self.arrays["name_order"])

    def ids(self, names: Iterable[Name]) -> npt.NDArray[np.int64]:
        """The id of each name, UNKNOWN where there is none. Integers and their text are the same name."""
        given = list(names)
        order = self.arrays["name_order"]
        if self.strings:
            ends, text = _utf8([str(name) for name in given])
            return _find_strings(ends, text, self.arrays["name_ends"], self.arrays["name_bytes"], order)
        held = self.arrays["names"]
        wanted = np.array([_as_integer(name) for name in given], object)
        real = np.array([name is not None for name in wanted], bool)
        numbers = np.where(real, wanted, 0).astype(np.int64)
        at = np.minimum(np.searchsorted(held, numbers, sorter=order), max(len(order) - 1, 0))
        if len(order) == 0:
            return np.full(len(given), UNKNOWN)
        found = order[at]
        return np.where(real & (held[found] == numbers), found, UNKNOWN)

    def name(self, node: int) -> Name:
        """The name of one node."""
        if not self.strings:
            return int(self.arrays["names"][node])
        ends = self.arrays["name_ends"]
        return self.arrays["name_bytes"][ends[node] : ends[node + 1]].tobytes().decode("utf-8", "surrogatepass")

    def all(self) -> Array:
        """Every name in the order of the ids: int64 or str objects."""
        return np.array([self.name(i) for i in range(len(self))], object) if self.strings else self.arrays["names"]

    def canonical(self, name: Name) -> str:
        """The one spelling of a name here: text, and where names are integers 7 for 7.0."""
        number = None if self.strings else _as_integer(name)
        return str(name) if number is None else str(number)

    def extended(self, names: Sequence[Name]) -> NameIndex:
        """These names and then some new ones."""
        if not self.strings:
            more = [_as_integer(name) for name in names]
            if None not in more:
                return NameIndex.of(np.concatenate([self.arrays["names"], np.array(more, np.int64)]))
        everyone = [str(name) for name in [*self.all().tolist(), *names]]
        return NameIndex.of(np.array(everyone, object))


def name_arrays(labels: Array) -> dict[str, Array]:
    """The names themselves, without the order that finds them."""
    if labels.dtype.kind in "iu":
        return {"names": labels.astype(np.int64)}
    ends, text = _utf8(labels.tolist())
    return {"name_ends": ends, "name_bytes": text}


def two_sided(events: Events) -> tuple[str, str] | None:
    """("user", "item") where all sources are called user:... and all destinations item:..., as by `cawn.read`."""
    labels = events.labels
    if labels.dtype.kind in "iu" or len(events) == 0:
        return None
    prefixes = []
    for ends in (events.src, events.dst):
        kinds = {str(labels[i]).partition(":")[:2] for i in np.unique(ends).tolist()}
        if len(kinds) != 1 or (kind := kinds.pop())[1] != ":":
            return None
        prefixes.append(kind[0])
    return (prefixes[0], prefixes[1]) if prefixes[0] != prefixes[1] else None


def _as_integer(name: Name) -> int | None:
    """What the name is as an integer, as `cawn.read` takes it: 7 and 7.0, but not 007 or +7."""
    if isinstance(name, str):
        if not _INTEGER.fullmatch(name):
            return None
        name = name.removesuffix(".0")
    number = int(name)
    return number if -(2**63) <= number < 2**63 else None


def _utf8(names: list[str]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Where each name starts and ends in the bytes of all: [n + 1], and the bytes."""
    encoded = [name.encode("utf-8", "surrogatepass") for name in names]
    ends = np.cumsum([0, *map(len, encoded)], dtype=np.int64)
    return ends, np.frombuffer(b"".join(encoded), np.uint8).copy()


@njit
def _find_strings(ends: Array, text: Array, held_ends: Array, held_text: Array, order: Array) -> Array:
    """By halving the sorted names, for each wanted one."""
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
