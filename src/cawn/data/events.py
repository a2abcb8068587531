"""Events: validated links in the order of time."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.checks import Array, as_array, is_integer, refuse_values
from cawn.data.attributes import Attribute, Encoder
from cawn.data.hashing import hash_ids
from cawn.data.names import UNKNOWN, NameIndex, occurring
from cawn.data.reading import Reading
from cawn.data.times import as_times, dates_to_numbers, usual
from cawn.errors import DataError, brief

_MAX_ID = 2**31 - 2
PER_LINK = ("msg", "weight", "negative", "link_id")  # optional columns that follow the links
COLUMNS = ("src", "dst", "t", "x", *PER_LINK)
NO_NEGATIVE, NO_LINK_ID = -1, 0


class Events:
    """Links (src, dst, t) sorted by time; links of equal time keep the order they were given in.

    Immutable: the arrays are read-only copies.

    Args:
        src: Node ids [E], integers from 0.
        dst: Node ids [E].
        t: Times [E]: integers, float64 or datetime64, which become Unix seconds, or int64 of a finer unit
            where seconds would round them (`reading.unit`). Kept as int64 or float64.
        msg: Link attributes [E, d] or [E].
        x: Node attributes [num_nodes, d] or [num_nodes].
        labels: The name of each node; its id by default.
        num_nodes: The number of nodes, if more than occur.
        weight: The weight of each link in the training loss [E]: finite, from 0, not all 0.
        negative: A negative destination for each link [E], used in training; -1 for none.
        link_id: Ids of the links [E], integers or strings, kept as 64-bit hashes (see `hash_ids`); a uint64 array is
            taken as such hashes, 0 for no id.
    """

    src: npt.NDArray[np.int32]
    dst: npt.NDArray[np.int32]
    t: Array
    msg: npt.NDArray[np.float32] | None
    x: npt.NDArray[np.float32] | None
    weight: npt.NDArray[np.float32] | None  # [E]
    negative: npt.NDArray[np.int32] | None  # [E], NO_NEGATIVE where none was given
    link_id: npt.NDArray[np.uint64] | None  # [E], NO_LINK_ID where none was given
    num_nodes: int
    columns: tuple[Attribute, ...] = ()  # what msg holds; () for numbers
    node_columns: tuple[Attribute, ...] = ()  # what x holds
    encoder: Encoder | None = None  # that encoded msg and x; None for attributes as given
    reading: Reading | None = None  # how a file or table was read; set by `cawn.read`
    stored: Any = None  # the `StoredIndex` that arrays are mapped from
    _rows: Array | range  # positions in the input
    _names: NameIndex | None = None  # made of the labels when they are looked up, or the labels of it

    def __init__(
        self,
        src: npt.ArrayLike,
        dst: npt.ArrayLike,
        t: npt.ArrayLike,
        msg: npt.ArrayLike | None = None,
        *,
        x: npt.ArrayLike | None = None,
        labels: npt.ArrayLike | None = None,
        num_nodes: int | None = None,
        weight: npt.ArrayLike | None = None,
        negative: npt.ArrayLike | None = None,
        link_id: npt.ArrayLike | None = None,
    ) -> None:
        if (dates := as_array(t, "t")).dtype.kind == "M" and dates.ndim == 1 and dates.size:
            t, unit = dates_to_numbers(dates)
            self.reading = Reading(dates=True, unit=unit)
        src, dst, times = link_arrays(src, dst, t)
        self.msg = None if msg is None else as_attributes(msg, "msg", len(src), "links")
        self.weight = None if weight is None else _weights(weight, len(src))
        self.negative = None if negative is None else _negatives(negative, len(src))
        self.link_id = None if link_id is None else link_ids(link_id, len(src))
        names = None if labels is None else _label_array(labels)
        nodes = (src, dst) if self.negative is None else (src, dst, self.negative)
        least = max((int(ids.max()) + 1 for ids in nodes if ids.size), default=0)
        self.num_nodes = _count_nodes(least, num_nodes, names)
        self.x = None if x is None else as_attributes(x, "x", self.num_nodes, "nodes")
        self.src, self.dst, self.t, self._rows, self._labels = src, dst, times, range(len(src)), names
        if (times[1:] < times[:-1]).any():
            self._rows = np.argsort(times, kind="stable")
            self.__dict__.update(self._columns_at(self._rows))
        self._freeze()

    @classmethod
    def of_arrays(cls, num_nodes: int, arrays: dict[str, Array]) -> Events:
        """Events of arrays that were checked and sorted, and may be memory-mapped; none is read here: src, dst, t, and
        where there are any, other `COLUMNS`, rows and those of a `NameIndex`."""
        events = cls.__new__(cls)
        events.num_nodes, events._labels, events._rows = num_nodes, None, arrays.get("rows", range(len(arrays["src"])))
        events._names = NameIndex(arrays) if "names" in arrays or "name_ends" in arrays else None
        for name in COLUMNS:
            setattr(events, name, arrays.get(name))
        events._freeze()
        return events

    @property
    def arrays(self) -> dict[str, Array]:
        """All columns that there are, and the arrays of the names: what `of_arrays` takes."""
        columns = {name: array for name in COLUMNS if (array := getattr(self, name)) is not None}
        return columns | self.names.arrays

    def _columns_at(self, chosen: Any) -> dict[str, Array | None]:
        """These rows of the columns of links."""
        columns = {name: getattr(self, name) for name in ("src", "dst", "t", *PER_LINK)}
        return {name: None if column is None else column[chosen] for name, column in columns.items()}

    def replace(self, **changed: Any) -> Events:
        """A copy with some attributes changed; columns keep their rows, and times their order."""
        events = object.__new__(Events)
        events.__dict__.update(self.__dict__ | changed)
        events._freeze()
        return events

    def _freeze(self) -> None:
        for array in self.__dict__.values():
            if isinstance(array, np.ndarray):
                array.flags.writeable = False

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"stored": None}  # another process has its own maps

    def __len__(self) -> int:
        return len(self.src)

    def __getitem__(self, chosen: slice | Array) -> Events:
        """The chosen links (a slice, a mask, or increasing positions), among the same nodes.

        Consecutive links are views of the same memory, and all links are these events themselves.
        """
        chosen = self._choice(chosen)
        if isinstance(chosen, slice) and len(range(*chosen.indices(len(self)))) == len(self):
            return self
        rows = self._rows[chosen] if isinstance(chosen, slice) else self.rows[chosen]
        return self.replace(_rows=rows, **self._columns_at(chosen))

    def reordered(self, order: Array) -> Events:
        """A copy with the links in another order; `order` may only permute links of equal time."""
        return self.replace(_rows=self.rows[order], **self._columns_at(order))

    def named(self, names: NameIndex) -> Events:
        """A copy with these node names."""
        return self.replace(_labels=None, _names=names)

    def grown(self, columns: Mapping[str, Array | None], num_nodes: int) -> Events:
        """A copy with these columns, which are sorted by time and not copied; link weights, negatives and node names
        are dropped."""
        dropped = {"weight": None, "negative": None, "_labels": None, "_names": None}
        found = self.replace(num_nodes=num_nodes, **dropped, **columns)
        found._rows = range(len(found.t))
        return found

    def _choice(self, chosen: Any) -> Any:
        """The choice, if it keeps the order of time."""
        if isinstance(chosen, slice):
            with suppress(TypeError, ValueError):
                if chosen.indices(len(self))[2] > 0:
                    return chosen
        else:
            positions = as_array(chosen, "chosen links")
            if positions.dtype == bool and positions.shape == self.src.shape:
                positions = np.flatnonzero(positions)
            if positions.ndim == 1 and (positions.size == 0 or positions.dtype.kind in "iu"):
                at = positions.astype(np.int64)
                if at.size == 0 or (at[0] >= 0 and at[-1] < len(self) and (np.diff(at) > 0).all()):
                    consecutive = at.size > 0 and at[-1] - at[0] == at.size - 1
                    return slice(int(at[0]), int(at[-1]) + 1) if consecutive else at
        raise DataError(
            f"choose among the {len(self):,} links by a forward slice, a mask or increasing positions from 0: "
            "events stay sorted by time"
        )

    def __repr__(self) -> str:
        span = f", t {self.t[0]}..{self.t[-1]}" if len(self) else ""
        msg = f", msg [{self.msg.shape[1]}]" if self.msg is not None else ""
        return f"Events({len(self):,} links, {self.num_nodes:,} nodes{span} {self.t.dtype}{msg})"

    @property
    def rows(self) -> npt.NDArray[np.int64]:
        """The position of each link in the input, before sorting by time: [E]."""
        rows = self._rows
        return np.arange(rows.start, rows.stop, rows.step) if isinstance(rows, range) else rows

    @property
    def labels(self) -> Array:
        """The name of each node: [num_nodes], int64 or str objects."""
        if self._labels is None and self._names is not None:
            self._labels = self._names.all()
            self._labels.flags.writeable = False
        return np.arange(self.num_nodes) if self._labels is None else self._labels

    @property
    def names(self) -> NameIndex:
        """The index of the node names."""
        if self._names is None and self._labels is not None:
            self._names = NameIndex.of(self._labels)
        return self._names or NameIndex.of(self.labels)

    def ids(self, names: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Ids of nodes given by name. Each unknown name gets a new id, from num_nodes on."""
        if self._labels is None and self._names is None:
            return _ids(names, "names").astype(np.int64)
        wanted = as_array(names, "names").reshape(-1).tolist()
        ids, new = self.names.ids(wanted), dict[Any, int]()
        for i in np.flatnonzero(ids == UNKNOWN).tolist():
            ids[i] = new.setdefault(wanted[i], self.num_nodes + len(new))
        return ids

    @property
    def intensity(self) -> float:
        """The paper's tau, links of an average node per unit of time: 2 |E| / (|V| T), over nodes that occur.

        Links that are dated far from all others do not count; see `times.usual`.
        """
        chosen = usual(self.t)
        src, dst, t = self.src[chosen], self.dst[chosen], self.t[chosen]
        span = float(t[-1] - t[0]) if len(t) else 0.0
        return 2 * len(t) / len(occurring(self.num_nodes, src, dst)) / span if span > 0 else 0.0


def link_arrays(
    src: npt.ArrayLike, dst: npt.ArrayLike, t: npt.ArrayLike
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], Array]:
    """Sources, destinations and times [E], checked, in the order given."""
    ends, times = (_ids(src, "src"), _ids(dst, "dst")), as_times(t)
    if not len(ends[0]) == len(ends[1]) == len(times):
        raise DataError(
            f"lengths differ: src {len(ends[0]):,}, dst {len(ends[1]):,}, t {len(times):,}; each link needs all three"
        )
    return *ends, times


def _ids(values: npt.ArrayLike, what: str) -> npt.NDArray[np.int32]:
    ids = as_array(values, what)
    if ids.size == 0:
        ids = ids.reshape(-1).astype(np.int64)
    if ids.ndim != 1 or ids.dtype.kind not in "iu":
        raise DataError(
            f"{what} is {ids.dtype} of shape {ids.shape}, expected node ids: a list of integers from 0. "
            "For names of any other kind use cawn.read on a table"
        )
    refuse_values(ids < 0, ids, what, "node ids are integers from 0")
    refuse_values(ids > _MAX_ID, ids, what, "node ids must be below 2**31 - 1; cawn.read on a table numbers any names")
    return np.array(ids, np.int32)


def as_attributes(values: npt.ArrayLike, what: str, size: int, of: str) -> npt.NDArray[np.float32]:
    """Attributes as finite float32 [size, d]."""
    table = as_array(values, what)
    if table.dtype.kind not in "iufb":
        raise DataError(f"{what} is {table.dtype}, expected numbers")
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or len(table) != size:
        raise DataError(f"{what} has shape {table.shape}, expected one row for each of the {size:,} {of}")
    with np.errstate(over="ignore"):
        rounded = np.array(table, np.float32, order="C")
    broken = ~np.isfinite(rounded)
    if broken.any():
        row, column = (int(i) for i in np.argwhere(broken)[0])
        raise DataError(f"{what}[{row}, {column}] is {table[row, column]}: attributes must be finite in float32")
    return rounded


def _weights(values: npt.ArrayLike, size: int) -> npt.NDArray[np.float32]:
    weights = as_attributes(values, "weight", size, "links")
    if weights.shape[1] != 1:
        raise DataError(f"weight has {weights.shape[1]} columns, expected one number for each link")
    weights = weights[:, 0]
    refuse_values(weights < 0, weights, "weight", "link weights are numbers from 0")
    if size and not weights.any():
        raise DataError("weight: all weights are 0; give some links a weight above 0")
    return weights


def _negatives(values: npt.ArrayLike, size: int) -> npt.NDArray[np.int32]:
    given = as_array(values, "negative")
    if given.ndim != 1 or len(given) != size or (size and given.dtype.kind not in "iu"):
        raise DataError(
            f"negative is {given.dtype} of shape {given.shape}, expected a node id for each of the {size:,} links"
        )
    bad = (given < NO_NEGATIVE) | (given > _MAX_ID)
    refuse_values(bad, given, "negative", "negatives are node ids, or -1 for none")
    return np.array(given, np.int32)


def link_ids(values: npt.ArrayLike, size: int) -> npt.NDArray[np.uint64]:
    """Ids of links as hashes; a uint64 array holds hashes already."""
    given = as_array(values, "link_id")
    if given.ndim != 1 or len(given) != size:
        raise DataError(f"link_id has shape {given.shape}, expected an id for each of the {size:,} links")
    if given.dtype == np.uint64:
        return np.array(given)
    ids = given.tolist()
    if wrong := [each for each in ids if not isinstance(each, str | int) or isinstance(each, bool)]:
        raise DataError(f"link_id holds {brief(wrong[0])}: ids are whole numbers or strings")
    return hash_ids(ids)


def _label_array(labels: npt.ArrayLike) -> Array:
    array = as_array(labels, "labels")
    if array.ndim != 1:
        raise DataError(f"labels have shape {array.shape}, expected one name for each node")
    if array.dtype.kind in "iu":
        refuse_values(array > np.iinfo(np.int64).max, array, "labels", "integer names must fit into int64")
        array = array.astype(np.int64)
    elif all(isinstance(name, str) for name in array.tolist()):
        array = array.astype(object)
    else:
        raise DataError("labels: names are all integers or all strings")
    if len(set(array.tolist())) != len(array):
        raise DataError("labels repeat: every node needs a different name")
    return array


def _count_nodes(occurring: int, given: int | None, labels: Array | None) -> int:
    if given is not None and (not is_integer(given) or not 0 <= given <= _MAX_ID + 1):
        raise DataError(f"num_nodes is {brief(given)}: give an integer from 0 to 2**31 - 1")
    count = given if given is not None else occurring if labels is None else len(labels)
    if count < occurring:
        raise DataError(
            f"node id {occurring - 1} occurs, but there are only {count:,} {'nodes' if labels is None else 'labels'}"
        )
    if labels is not None and len(labels) != count:
        raise DataError(f"{len(labels):,} labels for {count:,} nodes; every node needs one")
    return int(count)


def by_first_appearance(nodes: Array) -> Array:
    """The rank of each node in the order in which the nodes first appear: [n]."""
    _, first, at = np.unique(nodes, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return np.asarray(rank[at])
