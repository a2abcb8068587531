"""The canonical form of names, times and attributes of links, which a run fixes when it is trained.

What a user writes is read by these rules alone: not by what arrived before, nor by what arrives together with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.checks import Array
from cawn.data.attributes import Attribute, Encoder, Feature, encode
from cawn.data.events import Events, as_attributes, by_first_appearance, link_ids
from cawn.data.names import UNKNOWN, Name, NameIndex, Names, as_integer, as_names, occurring
from cawn.data.reading import Reading
from cawn.data.times import TimeForm
from cawn.errors import DataError, QueryError, brief


@dataclass(frozen=True, slots=True)
class NameForm:
    """How a run writes the names of nodes."""

    integers: bool = False  # whether 7, "7" and "7.0" are the same name: all names of the training data were integers
    trimmed: bool = True  # whether white space at the ends of a name means nothing: no name of the data had any
    prefixes: tuple[str, str] | None = None  # of sources and of destinations, in a bipartite network

    @classmethod
    def of(cls, names: NameIndex, prefixes: tuple[str, str] | None) -> NameForm:
        """That of the names of a training."""
        trimmed = not names.strings or all(name == name.strip() for name in names.all().tolist())
        return cls(not names.strings, trimmed, prefixes)

    def canonical(self, name: Name, side: int | None = None) -> Name:
        """The name of a source (side 0), a destination (1) or, in a network that is not bipartite, any node."""
        if isinstance(name, str):
            if self.trimmed:
                name = name.strip()
            if self.integers and (number := as_integer(name)) is not None:
                name = number
        if self.prefixes is None or side is None:
            return name if self.integers else str(name)
        text = str(name)
        return text if text.startswith(tuple(f"{each}:" for each in self.prefixes)) else f"{self.prefixes[side]}:{text}"

    def all(self, names: list[Name], side: int) -> list[Name]:
        """The canonical names of sources or destinations."""
        if self.integers and self.prefixes is None and set(map(type, names)) == {int}:
            return names
        return [self.canonical(name, side) for name in names]

    def ids(self, index: NameIndex, names: list[Name], side: int) -> npt.NDArray[np.int64]:
        """Ids of names. Unknown sources get the id len(index), unknown destinations len(index) + 1."""
        ids = index.ids(self.all(names, side))
        return np.where(ids == UNKNOWN, len(index) + side, ids)

    def shown(self, name: Name) -> Name:
        """A name as users see it, whatever other names the index holds."""
        return self.canonical(name) if self.integers else name


@dataclass(frozen=True, slots=True, eq=False)
class Arrivals:
    """Links in canonical form, in the order in which they were given; each stands for itself, whatever came before.

    `names` are in the order in which they first occur (source, destination, next source, ...) and may repeat.
    """

    names: list[Name]
    src: npt.NDArray[np.int64]  # [n] positions in `names`
    dst: npt.NDArray[np.int64]  # [n]
    t: Array  # [n] in the type and unit of the run
    msg: npt.NDArray[np.float32] | None = None  # [n, d], encoded
    link_id: npt.NDArray[np.uint64] | None = None  # [n], see `hash_ids`
    x: npt.NDArray[np.float32] | None = None  # [len(names), d'] attributes of nodes
    clock: float | None = None  # of entries of a stream: when the first was added to it, in seconds since 1970

    def __len__(self) -> int:
        return len(self.t)

    def where(self, chosen: npt.NDArray[np.bool_]) -> Arrivals:
        """Only the chosen links, and the names that occur in them."""
        named, ends = _as_they_appear(np.stack([self.src[chosen], self.dst[chosen]], axis=1).ravel())
        msg = None if self.msg is None else self.msg[chosen]
        ids = None if self.link_id is None else self.link_id[chosen]
        x = None if self.x is None else self.x[named]
        names = [self.names[i] for i in named.tolist()]
        return Arrivals(names, ends[::2], ends[1::2], self.t[chosen], msg, ids, x, self.clock)


@dataclass(frozen=True, slots=True)
class Form:
    """How a run writes names, times and attributes."""

    names: NameForm
    times: TimeForm
    encoder: Encoder | None = None
    attributes: tuple[str, ...] = ()  # the names of the link attributes as read, where they are not encoded
    widths: tuple[int, int] = (0, 0)  # the number of inputs for each link and for each node

    @classmethod
    def of(cls, names: NameForm, times: TimeForm, events: Events, reading: Reading) -> Form:
        """That of a run with these links."""
        msg, x = (0 if array is None else array.shape[1] for array in (events.msg, events.x))
        given = tuple(map(str, reading.msg)) if len(reading.msg) == msg else tuple(f"msg[{i}]" for i in range(msg))
        return cls(names, times, events.encoder, given, (msg, x))

    def to_dict(self) -> dict[str, Any]:
        """What a run records of it, besides its encoder, prefixes and reading."""
        span = None if self.times.first is None else [self.times.first, self.times.last]
        return {"names": {"integers": self.names.integers, "trimmed": self.names.trimmed}, "span": span}

    def arrivals(
        self, src: Names, dst: Names, t: Any, attributes: Any = None, link_id: npt.ArrayLike | None = None
    ) -> Arrivals:
        """Links given as columns; QueryError or DataError says what is wrong with them."""
        ends, times = (as_names(src), as_names(dst)), self.times.parse(t).reshape(-1)
        if not len(ends[0]) == len(ends[1]) == len(times):
            raise QueryError(f"{len(ends[0])} src, {len(ends[1])} dst and {len(times)} times: give as many of each")
        names: list[Name] = [""] * (2 * len(times))
        names[::2], names[1::2] = (self.names.all(side, i) for i, side in enumerate(ends))
        at = np.arange(0, 2 * len(times), 2)
        ids = None if link_id is None else link_ids(link_id, len(times))
        return Arrivals(names, at, at + 1, times, self._attributes(attributes, len(times)), ids)

    def events(self, new: Events) -> Arrivals:
        """The links of `cawn.Events`, in the order in which they were given."""
        if self.encoder is not None:
            new = self.encoder.transform(new)
        for what, mine, theirs in zip(("link", "node"), self.widths, (new.msg, new.x), strict=True):
            given = 0 if theirs is None else theirs.shape[1]
            if mine != given and not (what == "node" and given == 0):
                raise DataError(f"the new links have {given} {what} attributes, but the model needs {mine}")
        back = np.argsort(new.rows, kind="stable")
        both = np.stack([2 * new.src[back].astype(np.int64), 2 * new.dst[back].astype(np.int64) + 1], axis=1).ravel()
        nodes, ends = _as_they_appear(both)
        labels = new.labels[nodes >> 1].tolist()
        names = [self.names.canonical(name, int(side)) for name, side in zip(labels, nodes & 1, strict=True)]
        msg = None if new.msg is None else new.msg[back]
        ids = None if new.link_id is None else new.link_id[back]
        x = None if new.x is None else new.x[nodes >> 1]
        return Arrivals(names, ends[::2], ends[1::2], self.times.convert(new)[back], msg, ids, x)

    def _attributes(self, given: Any, size: int) -> npt.NDArray[np.float32] | None:
        """The attributes of links, encoded: given as columns by name, as rows (by name or in order), or as numbers."""
        if given is None or self.widths[0] == 0:
            if self.widths[0] or (given is not None and _width(given)):
                found, wanted = "none" if given is None else brief(given), ", ".join(self._columns) or "none"
                raise DataError(f"link attributes: found {found}, but the model needs {self.widths[0]} ({wanted})")
            return None
        columns = _by_column(given, self._columns, size)
        if self.encoder is None:
            values = np.stack([_numbers(column, name) for name, column in zip(self._columns, columns, strict=True)], 1)
            return as_attributes(values, "msg", size, "links")
        features = self.encoder.msg
        return encode(features, [_held(column, feature) for column, feature in zip(columns, features, strict=True)])

    @property
    def _columns(self) -> tuple[str, ...]:
        """The names of the attributes of links, as they are read."""
        return self.attributes if self.encoder is None else tuple(feature.name for feature in self.encoder.msg)


def _as_they_appear(values: Array) -> tuple[Array, Array]:
    """The distinct values in the order in which they first appear, and the position of each value among them."""
    at = by_first_appearance(values)
    distinct = np.empty(int(at.max(initial=-1)) + 1, values.dtype)
    distinct[at] = values
    return distinct, at


def _width(given: Any) -> int:
    """The number of attributes of each link."""
    if isinstance(given, Mapping):
        return len(given)
    rows = [row for row in _values(given, "attributes") if row is not None]
    return max((len(row) if isinstance(row, list | tuple | Mapping) else 1 for row in rows), default=0)


def _by_column(given: Any, names: tuple[str, ...], size: int) -> list[list[Any]]:
    """The column of each attribute, in the order of `names`."""
    if isinstance(given, Mapping):
        columns = _chosen(given, names, "attributes")
    else:
        rows = _values(given, "attributes")
        if len(rows) != size:
            raise DataError(f"{len(rows):,} rows of attributes for {size:,} links: give one for each")
        columns = [list(column) for column in zip(*(_row(row, i, names) for i, row in enumerate(rows)), strict=True)]
        columns = columns or [[] for _ in names]
    found = [_values(column, f"attribute {brief(name)}") for name, column in zip(names, columns, strict=True)]
    for name, column in zip(names, found, strict=True):
        if len(column) != size:
            raise DataError(f"attribute {brief(name)} has {len(column):,} values for {size:,} links: give one for each")
    return found


def _values(given: Any, what: str) -> list[Any]:
    """A column or rows as a list."""
    found = given.tolist() if hasattr(given, "tolist") else given
    if isinstance(found, str | bytes) or not isinstance(found, Iterable):
        raise DataError(f"{what} is {brief(given)}: give one value for each link")
    return list(found)


def _row(row: Any, i: int, names: tuple[str, ...]) -> list[Any]:
    if isinstance(row, Mapping):
        return _chosen(row, names, f"attributes[{i}]")
    values = list(row) if isinstance(row, list | tuple) else [row]
    if len(values) != len(names):
        raise DataError(
            f"attributes[{i}] has {len(values)} values, but the model has {len(names)} attributes ({', '.join(names)})"
        )
    return values


def _chosen(given: Mapping[str, Any], names: tuple[str, ...], what: str) -> list[Any]:
    """The values of these names; what is missing is None."""
    if unknown := [name for name in given if name not in names]:
        raise DataError(f"{what} has {brief(unknown[0])}, but the model's attributes are {', '.join(names)}")
    return [given.get(name) for name in names]


def _held(column: Sequence[Any], feature: Feature) -> tuple[Array, Attribute]:
    """A column as it is encoded."""
    if feature.kind != "category":
        return _numbers(column, feature.name), Attribute(feature.name)
    codes = dict[str, int]()
    values = [codes.setdefault("" if value is None else str(value), len(codes)) for value in column]
    return np.array(values, np.int64), Attribute(feature.name, "category", tuple(codes))


def _numbers(column: Sequence[Any], name: str) -> Array:
    """Finite numbers."""
    for i, value in enumerate(column):
        if not isinstance(value, int | float | np.number) or isinstance(value, bool) or not np.isfinite(value):
            raise DataError(f"attribute {brief(name)} of link {i} is {brief(value)}: give a finite number")
    return np.array(column, np.float64)


def bipartite_prefixes(events: Events) -> tuple[str, str] | None:
    """("user", "item") where all sources are named user:... and all destinations item:..., as `cawn.read` does."""
    if len(events) == 0 or not events.names.strings:
        return None
    first, second = (_common_prefix(events.names, ends, events.num_nodes) for ends in (events.src, events.dst))
    return None if first is None or second is None or first == second else (first, second)


def _common_prefix(names: NameIndex, ends: Array, num_nodes: int) -> str | None:
    """What stands before the colon in the name of each of these nodes; None unless that is the same."""
    prefix = None
    for node in occurring(num_nodes, ends).tolist():
        found, colon, _ = str(names.name(node)).partition(":")
        if not colon or prefix not in (None, found):
            return None
        prefix = found
    return prefix
