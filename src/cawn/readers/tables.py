"""Arrow tables -> Events: types, missing values, and where exactly something is wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cawn.errors import DataError
from cawn.events import Events, seconds
from cawn.names import number_nodes, number_two_sided
from cawn.readers.columns import Layout, Roles, find_layout


def _row_from_one(row: int) -> str:
    return f"row {row + 1}"


@dataclass(frozen=True, slots=True)
class Source:
    """Where a table came from, for messages; `place` words a row counted from 0."""

    name: str
    place: Callable[[int], str] = _row_from_one

    def error(self, row: int, column: str, found: object, rule: str) -> DataError:
        shown = "nothing" if found is None or found == "" else repr(found)
        return DataError(f"{self.name}, {self.place(row)}, column {column!r}: found {shown[:60]}; {rule}")


@dataclass(frozen=True, slots=True)
class Links:
    """The columns every edge log has, in the order of its rows."""

    src: npt.NDArray[np.int32]
    dst: npt.NDArray[np.int32]
    t: npt.NDArray[Any]
    labels: npt.NDArray[Any]


def events_from_table(table: pa.Table, roles: Roles, source: Source, bipartite: bool | None) -> Events:
    """Events of a table whose columns have names."""
    layout = find_layout(table.column_names, roles, source.name)
    links = links_of(table, layout, source, bipartite)
    return Events(links.src, links.dst, links.t, attributes_of(table, layout, source), labels=links.labels)


def links_of(table: pa.Table, layout: Layout, source: Source, bipartite: bool | None) -> Links:
    """Both ends and the time of every row."""
    if table.num_rows == 0:
        raise DataError(f"{source.name}: no rows; expected at least one link")
    names = table.column_names
    src = as_names(table.column(layout.src), names[layout.src], source)
    dst = as_names(table.column(layout.dst), names[layout.dst], source)
    time = as_times(table.column(layout.time), names[layout.time], source)
    if layout.two_sided if bipartite is None else bipartite:
        src_ids, dst_ids, labels = number_two_sided(src, dst, layout.prefixes)
    else:
        if src.type != dst.type:
            src, dst = src.cast(pa.large_string()), dst.cast(pa.large_string())
        src_ids, dst_ids, labels = number_nodes(src, dst)
    for array in (src_ids, dst_ids, time):
        array.flags.writeable = False  # so that Events need not copy it
    return Links(src_ids, dst_ids, time, labels)


def attributes_of(table: pa.Table, layout: Layout, source: Source) -> npt.NDArray[np.float32] | None:
    """The link attributes of every row: [E, d]."""
    columns = [as_attribute(table.column(i), table.column_names[i], source) for i in layout.msg]
    return np.stack(columns, axis=1) if columns else None


def as_names(column: pa.ChunkedArray, name: str, source: Source) -> pa.ChunkedArray:
    """Node names as int64 or large_string, none missing."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    _refuse_nulls(column, name, source, "every link needs two nodes")
    if pa.types.is_integer(kind):
        return _cast(column, pa.int64(), name, source, "integer names must fit into int64")
    if pa.types.is_floating(kind):
        return _cast(column, pa.int64(), name, source, "node names are whole numbers or strings")
    if (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_string_view(kind)
        or pa.types.is_binary(kind)
    ):
        column = _cast(column, pa.large_string(), name, source, "node names must be text")
        empty = pc.equal(column, "")
        if pc.any(empty).as_py():
            raise source.error(_first(empty), name, "", "every link needs two nodes")
        return column
    raise DataError(f"{source.name}, column {name!r}: found {kind}, expected node names (integers or strings)")


def as_times(column: pa.ChunkedArray, name: str, source: Source) -> npt.NDArray[Any]:
    """Times as int64 or float64. Dates become Unix seconds; text is read as integers, numbers or ISO dates."""
    rule = "expected a time: a number or an ISO date"
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
        kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        column = _times_from_text(column, name, source, rule)
        kind = column.type
    _refuse_nulls(column, name, source, rule)
    if pa.types.is_integer(kind):
        return np.asarray(_cast(column, pa.int64(), name, source, "times must fit into int64").to_numpy())
    if pa.types.is_float64(kind) or pa.types.is_decimal(kind):
        times = column.cast(pa.float64()).to_numpy()
        broken = ~np.isfinite(times)
        if broken.any():
            row = int(np.argmax(broken))
            raise source.error(row, name, float(times[row]), "every link needs a finite time")
        return np.asarray(times)
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        unit = kind.unit if pa.types.is_timestamp(kind) else "ms" if pa.types.is_date64(kind) else "s"
        return seconds(column.cast(pa.timestamp(unit)).to_numpy().astype(f"datetime64[{unit}]"))
    if pa.types.is_floating(kind):
        raise DataError(
            f"{source.name}, column {name!r}: found {kind}, which rounds times; store them as float64 or int64"
        )
    raise DataError(f"{source.name}, column {name!r}: found {kind}, {rule}")


def as_attribute(column: pa.ChunkedArray, name: str, source: Source) -> npt.NDArray[np.float32]:
    """One link attribute as float32, none missing."""
    rule = "link attributes are finite numbers"
    kind = column.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        column = _cast(column, pa.float64(), name, source, rule)
    elif not (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_decimal(kind)
    ):
        raise DataError(f"{source.name}, column {name!r}: found {kind}; {rule}")
    _refuse_nulls(column, name, source, rule)
    exact = column.cast(pa.float64()).to_numpy()
    with np.errstate(over="ignore"):
        values = exact.astype(np.float32)
    broken = ~np.isfinite(values)
    if broken.any():
        row = int(np.argmax(broken))
        raise source.error(row, name, float(exact[row]), rule)
    return np.asarray(values)


def _times_from_text(column: pa.ChunkedArray, name: str, source: Source, rule: str) -> pa.ChunkedArray:
    column = pc.utf8_trim_whitespace(column)
    for kind in (pa.int64(), pa.float64(), pa.timestamp("ns"), pa.timestamp("ns", "UTC")):
        try:
            return column.cast(kind)
        except pa.ArrowInvalid:
            continue
    wanted = next(
        k
        for k in (pa.float64(), pa.timestamp("ns"), pa.timestamp("ns", "UTC"), None)
        if k is None or _fits(column[0], k)
    )
    return _cast(column, wanted or pa.float64(), name, source, rule)


def _cast(column: pa.ChunkedArray, kind: pa.DataType, name: str, source: Source, rule: str) -> pa.ChunkedArray:
    try:
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        row = _first_misfit(column, kind)
        if row is None:
            raise DataError(f"{source.name}, column {name!r}: found {column.type}; {rule}") from error
        raise source.error(row, name, _shown(column[row]), rule) from error


def _first_misfit(column: pa.ChunkedArray, kind: pa.DataType) -> int | None:
    """The first row that cannot be cast, by halving: only ever walked on the way to an error."""
    if len(column) == 0 or _all_fit(column, kind):
        return None
    lo, hi = 0, len(column)  # rows before lo fit, and one of lo..hi does not
    while hi - lo > 1:
        mid = (lo + hi) // 2
        lo, hi = (mid, hi) if _all_fit(column.slice(lo, mid - lo), kind) else (lo, mid)
    return lo


def _all_fit(column: pa.ChunkedArray, kind: pa.DataType) -> bool:
    try:
        column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return False
    return True


def _fits(value: pa.Scalar, kind: pa.DataType) -> bool:
    return _all_fit(pa.chunked_array([pa.array([value.as_py()], value.type)]), kind)


def _shown(value: pa.Scalar) -> object:
    try:
        return value.as_py()
    except (UnicodeDecodeError, ValueError):
        return str(value)


def _refuse_nulls(column: pa.ChunkedArray, name: str, source: Source, rule: str) -> None:
    if column.null_count:
        raise source.error(_first(column.is_null()), name, None, rule)


def _first(mask: pa.ChunkedArray) -> int:
    return int(pc.index(mask, True).as_py())
