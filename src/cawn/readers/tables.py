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
from cawn.events import NO_NEGATIVE, Events, seconds
from cawn.hashing import hash_ids
from cawn.names import number_nodes, number_two_sided
from cawn.readers.columns import Layout, Roles, find_layout

_DATES = tuple(pa.timestamp(unit, zone) for unit in ("ns", "us", "s") for zone in (None, "UTC"))
_LAST_TICK = {"s": 2**53, "ms": 2**62, "us": 2**62, "ns": 2**63 - 2}


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
    weight: npt.NDArray[np.float32] | None = None
    negative: npt.NDArray[np.int32] | None = None
    link_id: npt.NDArray[np.uint64] | None = None

    def events(self, msg: npt.NDArray[Any] | None, x: npt.NDArray[Any] | None = None) -> Events:
        optional = {"weight": self.weight, "negative": self.negative, "link_id": self.link_id}
        return Events.adopt(self.src, self.dst, self.t, msg, x, self.labels, **optional)  # type: ignore[arg-type]


def events_from_table(table: pa.Table, roles: Roles, source: Source, bipartite: bool | None) -> Events:
    """Events of a table whose columns have names."""
    layout = find_layout(table.column_names, roles, source.name)
    links = links_of(table, layout, source, bipartite)
    return links.events(attributes_of(table, layout, source))


def links_of(table: pa.Table, layout: Layout, source: Source, bipartite: bool | None) -> Links:
    """Both ends and the time of every row, and its weight, negative and id where there are such columns."""
    if table.num_rows == 0:
        raise DataError(f"{source.name}: no rows; expected at least one link")
    names = table.column_names
    src = as_names(table.column(layout.src), names[layout.src], source)
    dst = as_names(table.column(layout.dst), names[layout.dst], source)
    time = as_times(table.column(layout.time), names[layout.time], source)
    rows_with_negative = None
    if layout.negative is not None:
        negative, rows_with_negative = _negative_names(table.column(layout.negative), names[layout.negative], source)
        dst = _concatenated(dst, negative)
    if layout.two_sided if bipartite is None else bipartite:
        src_ids, dst_ids, labels = number_two_sided(src, dst, layout.prefixes)
    else:
        if src.type != dst.type:
            src, dst = src.cast(pa.large_string()), dst.cast(pa.large_string())
        src_ids, dst_ids, labels = number_nodes(src, dst)
    negatives = None
    if rows_with_negative is not None:
        negatives = np.full(table.num_rows, NO_NEGATIVE, np.int32)
        negatives[rows_with_negative] = dst_ids[table.num_rows :]
        dst_ids = dst_ids[: table.num_rows].copy()
    weight = None if layout.weight is None else as_weights(table.column(layout.weight), names[layout.weight], source)
    ids = None if layout.link_id is None else as_link_ids(table.column(layout.link_id), names[layout.link_id], source)
    return Links(src_ids, dst_ids, time, labels, weight, negatives, ids)


def _negative_names(
    column: pa.ChunkedArray, name: str, source: Source
) -> tuple[pa.ChunkedArray, npt.NDArray[np.int64]]:
    """The names that are there, and their rows."""
    column = _plain(column)
    there = pc.is_valid(column)
    if pa.types.is_large_string(column.type):
        there = pc.and_(there, pc.fill_null(pc.not_equal(column, ""), False))
    rows = np.flatnonzero(there.to_numpy())
    given = Source(source.name, lambda row: source.place(int(rows[row])))
    column = column.filter(there)
    return as_names(column if len(column) else column.cast(pa.int64()), name, given), rows


def _concatenated(one: pa.ChunkedArray, other: pa.ChunkedArray) -> pa.ChunkedArray:
    """Names below one another: integers if all are, else text."""
    if len(other) and one.type != other.type:
        one, other = one.cast(pa.large_string()), other.cast(pa.large_string())
    return pa.chunked_array([*one.chunks, *other.chunks], one.type) if len(other) else one


def as_weights(column: pa.ChunkedArray, name: str, source: Source) -> npt.NDArray[np.float32]:
    """Link weights as float32: finite, from 0, not all 0."""
    weights = as_attribute(column, name, source, "link weights are finite numbers from 0")
    _refuse_rows(weights < 0, weights, name, source, "link weights are finite numbers from 0")
    if not weights.any():
        raise DataError(f"{source.name}, column {name!r}: all weights are 0; give some links a weight above 0")
    return weights


def as_link_ids(column: pa.ChunkedArray, name: str, source: Source) -> npt.NDArray[np.uint64]:
    """The ids of links, hashed; none missing."""
    return hash_ids(as_names(column, name, source, "link ids", "every link needs an id").to_pylist())


def attributes_of(table: pa.Table, layout: Layout, source: Source) -> npt.NDArray[np.float32] | None:
    """The link attributes of every row: [E, d]."""
    columns = [as_attribute(table.column(i), table.column_names[i], source) for i in layout.msg]
    return np.stack(columns, axis=1) if columns else None


def as_names(
    column: pa.ChunkedArray,
    name: str,
    source: Source,
    what: str = "node names",
    needed: str = "every link needs two nodes",
) -> pa.ChunkedArray:
    """Names of nodes (or of what is said) as int64 or large_string, none missing."""
    column = _plain(column)
    kind = column.type
    _refuse_nulls(column, name, source, needed)
    if pa.types.is_integer(kind):
        return _cast(column, pa.int64(), name, source, f"{what} that are integers must fit into int64")
    if pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return _cast(column, pa.int64(), name, source, f"{what} are whole numbers or strings")
    if pa.types.is_large_string(kind) or pa.types.is_large_binary(kind):
        column = _cast(column, pa.large_string(), name, source, f"{what} must be text")
        empty = pc.equal(column, "")
        if pc.any(empty).as_py():
            raise source.error(_first(empty), name, "", needed)
        return column
    raise DataError(f"{source.name}, column {name!r}: found {kind}, expected {what} (integers or strings)")


def as_integers(column: pa.ChunkedArray, name: str, source: Source, rule: str) -> npt.NDArray[np.int64]:
    """Whole numbers, however they are stored."""
    _refuse_nulls(column, name, source, rule)
    if pa.types.is_string(column.type):
        column = _cast(column, pa.float64(), name, source, rule)
    return np.array(_cast(column, pa.int64(), name, source, rule).to_numpy())


def as_times(column: pa.ChunkedArray, name: str, source: Source) -> npt.NDArray[Any]:
    """Times as int64 or float64, in memory of our own. Dates become Unix seconds; text is numbers or ISO dates."""
    rule = "expected a time: a number or an ISO date"
    column = _plain(column)
    if pa.types.is_large_string(column.type):
        column = _times_from_text(column, name, source, rule)
    kind = column.type
    _refuse_nulls(column, name, source, rule)
    if pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0):
        return np.array(_cast(column, pa.int64(), name, source, "times must fit into int64").to_numpy())
    if pa.types.is_float64(kind) or pa.types.is_decimal(kind):
        times = np.array(column.cast(pa.float64()).to_numpy()) + 0.0  # -0.0 is 0.0
        _refuse_rows(~np.isfinite(times), times, name, source, "every link needs a finite time")
        return times
    if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
        unit = kind.unit if pa.types.is_timestamp(kind) else "s"
        ticks = column.cast(pa.timestamp(unit)).cast(pa.int64()).to_numpy()
        _refuse_rows(np.abs(ticks) > _LAST_TICK[unit], ticks, name, source, "every link needs a finite date")
        return seconds(ticks.astype(f"datetime64[{unit}]"))
    if pa.types.is_floating(kind):
        raise DataError(f"{source.name}, column {name!r}: found {kind}, which rounds times; store float64 or int64")
    raise DataError(f"{source.name}, column {name!r}: found {kind}, {rule}")


def as_attribute(
    column: pa.ChunkedArray, name: str, source: Source, rule: str = "link attributes are finite numbers"
) -> npt.NDArray[np.float32]:
    """One link attribute as float32, none missing."""
    column = _plain(column)
    kind = column.type
    _refuse_nulls(column, name, source, rule)
    if pa.types.is_large_string(kind):
        column = _cast(column, pa.float64(), name, source, rule)
    elif not any(
        test(kind) for test in (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    ):
        raise DataError(f"{source.name}, column {name!r}: found {kind}; {rule}")
    exact = column.cast(pa.float64(), safe=False).to_numpy()
    with np.errstate(over="ignore"):
        values = exact.astype(np.float32)
    _refuse_rows(~np.isfinite(values), exact, name, source, rule)
    return np.asarray(values)


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column without its encoding: dictionaries spelled out, text and bytes of any layout in the large one."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        words = [_plain(pa.chunked_array([chunk.dictionary])).combine_chunks() for chunk in column.chunks]
        pairs = zip(words, column.chunks, strict=True)
        column = pa.chunked_array([dictionary.take(chunk.indices) for dictionary, chunk in pairs] or [[]])
        kind = column.type
    if pa.types.is_string(kind) or pa.types.is_string_view(kind):
        return column.cast(pa.large_string())
    if pa.types.is_binary(kind) or pa.types.is_binary_view(kind) or pa.types.is_fixed_size_binary(kind):
        return column.cast(pa.large_binary())
    return column


def _times_from_text(column: pa.ChunkedArray, name: str, source: Source, rule: str) -> pa.ChunkedArray:
    """Numbers or dates, whichever the first value is; integers only as long as float64 need not round them."""
    column = pc.replace_substring_regex(pc.utf8_trim_whitespace(column), r"^\+", "")
    for kind in (pa.int64(), pa.float64(), *_DATES):
        if _all_fit(column, kind):
            column = column.cast(kind)
            break
    else:
        wanted = next((kind for kind in (pa.float64(), *_DATES) if _all_fit(column.slice(0, 1), kind)), pa.float64())
        return _cast(column, wanted, name, source, rule)
    if pa.types.is_float64(column.type):
        times = column.to_numpy()
        rounded = np.isfinite(times) & (np.abs(times) >= 2.0**53)
        _refuse_rows(rounded, times, name, source, "float64 rounds times this large; use whole numbers within int64")
    return column


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


def _shown(value: pa.Scalar) -> object:
    try:
        return value.as_py()
    except (UnicodeDecodeError, ValueError):
        return str(value)


def _refuse_nulls(column: pa.ChunkedArray, name: str, source: Source, rule: str) -> None:
    if column.null_count:
        raise source.error(_first(column.is_null()), name, None, rule)


def _refuse_rows(bad: npt.NDArray[np.bool_], values: npt.NDArray[Any], name: str, source: Source, rule: str) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        raise source.error(row, name, values[row].item(), rule)


def _first(mask: pa.ChunkedArray) -> int:
    return int(pc.index(mask, True).as_py())
