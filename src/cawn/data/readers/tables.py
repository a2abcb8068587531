"""Arrow tables -> Events: types, missing values, and where exactly something is wrong."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cawn.data.attributes import MAX_CODES, Attribute, joined_attributes
from cawn.data.events import NO_NEGATIVE, Events
from cawn.data.hashing import hash_ids
from cawn.data.names import number_bipartite, number_nodes
from cawn.data.readers.columns import Layout, Roles, find_layout, reading_of
from cawn.data.reading import Reading, Unit
from cawn.data.times import PER_SECOND, calendar_dates, dates_in_unit, dates_to_numbers
from cawn.errors import DataError, brief

_DATES = tuple(pa.timestamp(unit, zone) for unit in ("ns", "us", "s") for zone in (None, "UTC"))
_LAST_TICK = {"s": 2**53, "ms": 2**62, "us": 2**62, "ns": 2**63 - 2}


def _row_from_one(row: int) -> str:
    return f"row {row + 1}"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a table came from, for messages; `place` words a row counted from 0."""

    name: str
    place: Callable[[int], str] = _row_from_one

    def error(self, row: int, column: str, found: object, rule: str) -> DataError:
        shown = "nothing" if found is None or found == "" else brief(found)
        return DataError(f"{self.name}, {self.place(row)}, column {brief(column)}: found {shown}; {rule}")


@dataclass(frozen=True, slots=True)
class Rows:
    """One file or table of links: its columns, checked, in the order of its rows."""

    src: pa.ChunkedArray
    dst: pa.ChunkedArray
    t: npt.NDArray[Any]  # int64, float64 or datetime64
    reading: Reading
    prefixes: tuple[str, str]
    source: Origin
    msg: npt.NDArray[np.float32] | None = None
    columns: tuple[Attribute, ...] = ()  # what msg holds
    weight: npt.NDArray[np.float32] | None = None
    negative: tuple[pa.ChunkedArray, npt.NDArray[np.int64]] | None = None  # names, and the rows they belong to
    link_id: npt.NDArray[np.uint64] | None = None
    node_attributes: Callable[[npt.NDArray[Any]], npt.NDArray[Any] | None] | None = None  # of nodes with these labels

    @property
    def has_dates(self) -> bool:
        return self.t.dtype.kind == "M"


def rows_of(table: pa.Table, layout: Layout, source: Origin, reading: Reading) -> Rows:
    """The links of a table; `reading` says how its columns are called in the file."""
    if table.num_rows == 0:
        raise DataError(f"{source.name}: no rows; expected at least one link")
    names = table.column_names
    src = name_column(table.column(layout.src), names[layout.src], source)
    dst = name_column(table.column(layout.dst), names[layout.dst], source)
    t = time_column(table.column(layout.time), names[layout.time], source)
    if t.dtype.kind == "i" and not np.isnat(dates := calendar_dates(t)).any():
        t = dates
    columns = {"weight": weight_column, "negative": _negative_names, "link_id": link_id_column}
    optional: dict[str, Any] = {
        role: columns[role](table.column(i), names[i], source) for role, i in layout.optional.items()
    }
    msg, attributes = attributes_of(table, layout.msg, layout.categorical, source)
    kinds = zip(reading.msg, attributes, strict=True)
    reading = replace(reading, categorical=tuple(column for column, found in kinds if found.kind == "category"))
    return Rows(src, dst, t, reading, layout.prefixes, source, msg, attributes, **optional)


def rows_of_table(table: pa.Table, roles: Roles, source: Origin, bipartite: bool | None) -> Rows:
    """The links of a table whose columns have names."""
    layout = find_layout(table.column_names, roles, source.name)
    return rows_of(table, layout, source, reading_of(layout, table.column_names, bipartite=bipartite))


def events_of(parts: Sequence[Rows]) -> Events:
    """The links of all parts, in their order. Nodes have attributes only where there is one part."""
    first = parts[0]
    for part in parts[1:]:
        _refuse_difference(first, part)
    times, unit = _joined_times(parts)
    given = [part.negative for part in parts if part.negative is not None]
    src = _joined_names([part.src for part in parts])
    dst = _joined_names([*(part.dst for part in parts), *(names for names, _ in given)])
    if first.reading.bipartite:
        src_ids, dst_ids, labels = number_bipartite(src, dst, first.prefixes)
    else:
        if src.type != dst.type:
            src, dst = src.cast(pa.large_string()), dst.cast(pa.large_string())
        src_ids, dst_ids, labels = number_nodes(src, dst)
    columns: dict[str, Any] = {}
    attributes: tuple[Attribute, ...] = ()
    if given:
        columns["negative"] = np.full(len(src_ids), NO_NEGATIVE, np.int32)
        starts = np.cumsum([0, *(len(part.t) for part in parts)])
        rows = np.concatenate([start + rows for start, (_, rows) in zip(starts[:-1], given, strict=True)])
        columns["negative"][rows] = dst_ids[len(src_ids) :]
        dst_ids = dst_ids[: len(src_ids)].copy()
    if first.msg is not None:
        columns["msg"], attributes = joined_attributes([(part.msg, part.columns) for part in parts])
    for name in ("weight", "link_id"):
        if getattr(first, name) is not None:
            columns[name] = _stacked([getattr(part, name) for part in parts])
    x = None if first.node_attributes is None or len(parts) > 1 else first.node_attributes(labels)
    events = Events.adopt(src_ids, dst_ids, times, columns.pop("msg", None), x, labels, **columns)
    events.columns = attributes
    events.reading = replace(first.reading, dates=first.has_dates, unit=unit)
    return events


def _stacked(arrays: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """All rows, without a copy where there is one array."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _refuse_difference(first: Rows, part: Rows) -> None:
    """Refuse files that cannot be parts of one log."""
    for role in ("src", "dst", "time", "msg", "categorical", "weight", "negative", "link_id", "bipartite"):
        mine, others = getattr(part.reading, role), getattr(first.reading, role)
        if mine != others:
            raise DataError(
                f"{part.source.name}: {role} is {brief(mine)}, but {brief(others)} in {first.source.name}; "
                "files read together need the same columns"
            )
    if first.has_dates != part.has_dates:
        kinds = ["dates" if rows.has_dates else "numbers" for rows in (part, first)]
        raise DataError(f"{part.source.name}: times are {kinds[0]}, but {kinds[1]} in {first.source.name}")


def _joined_names(columns: list[pa.ChunkedArray]) -> pa.ChunkedArray:
    columns = [column for column in columns if len(column)] or columns[:1]
    if len({column.type for column in columns}) > 1:
        columns = [column.cast(pa.large_string()) for column in columns]
    return pa.chunked_array([chunk for column in columns for chunk in column.chunks], columns[0].type)


def _joined_times(parts: Sequence[Rows]) -> tuple[npt.NDArray[Any], Unit]:
    """All times as numbers, and the unit of those that were dates."""
    if not parts[0].has_dates:
        if len({part.t.dtype for part in parts}) > 1:
            for part in parts:
                if part.t.dtype == np.int64 and (np.abs(part.t) > 2**53).any():
                    raise DataError(f"{part.source.name}: whole times that float64, as in the other files, would round")
        return _stacked([part.t for part in parts]), "s"
    numbers = [_located(part, dates_to_numbers, part.t) for part in parts]
    finest = max((unit for _, unit in numbers), key=PER_SECOND.__getitem__)
    if finest == "s":
        return _stacked([times for times, _ in numbers]), finest
    whole = np.dtype(np.int64)
    return np.concatenate([_located(part, dates_in_unit, part.t, finest, whole) for part in parts]), finest


def _located(part: Rows, convert: Callable[..., Any], *arguments: Any) -> Any:
    """What `convert` returns; its errors name the file."""
    try:
        return convert(*arguments)
    except DataError as error:
        raise DataError(f"{part.source.name}: {error}") from error


def _negative_names(
    column: pa.ChunkedArray, name: str, source: Origin
) -> tuple[pa.ChunkedArray, npt.NDArray[np.int64]]:
    """The names that are there, and their rows."""
    column = _plain(column)
    there = pc.is_valid(column)
    if pa.types.is_large_string(column.type):
        there = pc.and_(there, pc.fill_null(pc.not_equal(column, ""), False))
    rows = np.flatnonzero(there.to_numpy())
    given = Origin(source.name, lambda row: source.place(int(rows[row])))
    column = column.filter(there)
    return name_column(column if len(column) else column.cast(pa.int64()), name, given), rows


def weight_column(column: pa.ChunkedArray, name: str, source: Origin) -> npt.NDArray[np.float32]:
    """Link weights as float32: finite, from 0, not all 0."""
    weights = number_column(column, name, source, "link weights are finite numbers from 0")
    _refuse_rows(weights < 0, weights, name, source, "link weights are finite numbers from 0")
    if not weights.any():
        raise DataError(f"{source.name}, column {brief(name)}: all weights are 0; give some links a weight above 0")
    return weights


def link_id_column(column: pa.ChunkedArray, name: str, source: Origin) -> npt.NDArray[np.uint64]:
    """The ids of links, hashed; none missing."""
    return hash_ids(name_column(column, name, source, "link ids", "every link needs an id").to_pylist())


def attributes_of(
    table: pa.Table, chosen: Sequence[int], categorical: Collection[int], source: Origin, *, of: str = "link"
) -> tuple[npt.NDArray[np.float32] | None, tuple[Attribute, ...]]:
    """The chosen columns as attributes of every row, [E, d], and what they hold.

    Text is a category, unless its first value is a number: then all must be.
    """
    rule = f"{of} attributes are finite numbers, unless the column is named in categorical"
    values, columns = [], []
    names = table.column_names  # a list that Arrow makes anew at each look
    for i in chosen:
        column, name = _plain(table.column(i)), names[i]
        text = pa.types.is_large_string(column.type) and not _all_fit(column.slice(0, 1), pa.float64())
        if i in categorical or text:
            codes, levels = category_column(column, name, source)
            values.append(codes)
            columns.append(Attribute(name, "category", levels))
        else:
            values.append(number_column(column, name, source, rule))
            columns.append(Attribute(name))
    return np.stack(values, axis=1) if values else None, tuple(columns)


def category_column(
    column: pa.ChunkedArray, name: str, source: Origin
) -> tuple[npt.NDArray[np.float32], tuple[str, ...]]:
    """Codes of the values of a column, and the text of each code. A missing value is the empty text."""
    names = _cast(_plain(column), pa.large_string(), name, source, "categories are text or numbers")
    coded = pc.fill_null(names, "").combine_chunks().dictionary_encode()
    levels = coded.dictionary.to_pylist()
    if len(levels) > MAX_CODES:
        raise DataError(
            f"{source.name}, column {brief(name)}: found {len(levels):,} categories; is it a column of ids?"
        )
    return coded.indices.to_numpy().astype(np.float32), tuple(levels)


def name_column(
    column: pa.ChunkedArray,
    name: str,
    source: Origin,
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
    raise DataError(f"{source.name}, column {brief(name)}: found {kind}, expected {what} (integers or strings)")


def integer_column(column: pa.ChunkedArray, name: str, source: Origin, rule: str) -> npt.NDArray[np.int64]:
    """Whole numbers, however they are stored."""
    _refuse_nulls(column, name, source, rule)
    if pa.types.is_string(column.type):
        column = _cast(column, pa.float64(), name, source, rule)
    return np.array(_cast(column, pa.int64(), name, source, rule).to_numpy())


def time_column(column: pa.ChunkedArray, name: str, source: Origin) -> npt.NDArray[Any]:
    """Times as int64, float64 or, where they are dates, datetime64, in memory of our own; text is one of these."""
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
        unit = kind.unit if pa.types.is_timestamp(kind) else "ms" if pa.types.is_date64(kind) else "s"
        ticks = column.cast(pa.timestamp(unit)).cast(pa.int64()).to_numpy()
        _refuse_rows(np.abs(ticks) > _LAST_TICK[unit], ticks, name, source, "every link needs a finite date")
        return np.array(ticks.astype(f"datetime64[{unit}]"))
    if pa.types.is_floating(kind):
        raise DataError(
            f"{source.name}, column {brief(name)}: found {kind}, which rounds times; store float64 or int64"
        )
    raise DataError(f"{source.name}, column {brief(name)}: found {kind}, {rule}")


def parse_times(texts: list[str]) -> npt.NDArray[Any]:
    """Text as `time_column` reads it."""
    return time_column(pa.chunked_array([pa.array(texts, pa.string())]), "t", Origin("t"))


def number_column(column: pa.ChunkedArray, name: str, source: Origin, rule: str) -> npt.NDArray[np.float32]:
    """Numbers as float32, none missing."""
    column = _plain(column)
    kind = column.type
    _refuse_nulls(column, name, source, rule)
    if pa.types.is_large_string(kind):
        column = _cast(column, pa.float64(), name, source, rule)
    elif not any(
        test(kind) for test in (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    ):
        raise DataError(f"{source.name}, column {brief(name)}: found {kind}; {rule}")
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


def _times_from_text(column: pa.ChunkedArray, name: str, source: Origin, rule: str) -> pa.ChunkedArray:
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


def _cast(column: pa.ChunkedArray, kind: pa.DataType, name: str, source: Origin, rule: str) -> pa.ChunkedArray:
    try:
        return column.cast(kind)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        row = _first_misfit(column, kind)
        if row is None:
            raise DataError(f"{source.name}, column {brief(name)}: found {column.type}; {rule}") from error
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


def _refuse_nulls(column: pa.ChunkedArray, name: str, source: Origin, rule: str) -> None:
    if column.null_count:
        raise source.error(_first(column.is_null()), name, None, rule)


def _refuse_rows(bad: npt.NDArray[np.bool_], values: npt.NDArray[Any], name: str, source: Origin, rule: str) -> None:
    if bad.any():
        row = int(np.argmax(bad))
        raise source.error(row, name, values[row].item(), rule)


def _first(mask: pa.ChunkedArray) -> int:
    return int(pc.index(mask, True).as_py())
