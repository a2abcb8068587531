"""Arrow tables -> Events: types, missing values, and messages that say which value is wrong."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cawn.data.attributes import MAX_CODES, Attribute, joined_attributes
from cawn.data.events import NO_NEGATIVE, Events
from cawn.data.hashing import hash_ids
from cawn.data.names import number_bipartite, number_nodes
from cawn.data.readers import files
from cawn.data.readers.columns import Layout, ReadOptions, find_layout, partition_columns
from cawn.data.reading import Reading, Unit
from cawn.data.times import PER_SECOND, calendar_dates, dates_in_unit, dates_to_numbers
from cawn.errors import DataError, brief

Array = npt.NDArray[Any]

_DATES = tuple(pa.timestamp(unit, zone) for unit in ("ns", "us", "s") for zone in (None, "UTC"))
_LAST_TICK = {"s": 2**53, "ms": 2**62, "us": 2**62, "ns": 2**63 - 2}
TIME_KINDS = (pa.int64(), pa.float64(), *_DATES)  # of text, in the order in which they are tried
TIMES_TOO_LARGE = (
    "some integer times are too large for float64, the type of times in other files; write all times as integers"
)
_TIME_RULE = "expected a time: a number or an ISO date"
ATTRIBUTE_RULE = "{of} attributes are finite numbers, unless the column is named in categorical"
_WEIGHT_RULE = "link weights are finite numbers from 0"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a table came from, for messages; `place` describes a row counted from 0."""

    name: str
    place: Callable[[int], str] = lambda row: f"row {row + 1}"


@dataclass(frozen=True, slots=True)
class Rows:
    """One file or table of links: its columns, checked, in the order of its rows."""

    src: pa.ChunkedArray
    dst: pa.ChunkedArray
    t: Array  # int64, float64 or datetime64
    reading: Reading
    prefixes: tuple[str, str]
    origin: Origin
    msg: npt.NDArray[np.float32] | None = None
    columns: tuple[Attribute, ...] = ()  # what msg holds
    weight: npt.NDArray[np.float32] | None = None
    negative: tuple[pa.ChunkedArray, npt.NDArray[np.int64]] | None = None  # names, and the rows they belong to
    link_id: npt.NDArray[np.uint64] | None = None
    node_attributes: Callable[[Array], Array | None] | None = None  # of nodes with these labels

    @property
    def has_dates(self) -> bool:
        return self.t.dtype.kind == "M"


def rows_of_table(table: pa.Table, options: ReadOptions, origin: Origin) -> Rows:
    """The links of a table whose columns have names."""
    wanted = options.columns(table.column_names)
    layout = find_layout(table.column_names, wanted, origin.name)
    return rows_of(table, layout, origin, layout.reading(table.column_names, wanted))


def with_partitions(table: pa.Table, file: files.File, options: ReadOptions) -> pa.Table:
    """The table of a file, with columns from the names of its folders."""
    values = dict(file.partitions)
    for key in partition_columns(list(values), table.column_names, options, has_names=True):
        table = table.append_column(key, files.constant(values[key], len(table)))
    return table


def refuse_rounded(file: files.File, t: Array) -> None:
    """Refuse times of a JSON file that may have been whole numbers before they were rounded."""
    if file.kind == "json" and t.dtype.kind == "f" and (np.abs(t) >= 2.0**53).any():
        raise DataError(f"{file}: times this large are rounded as float64; write whole numbers within int64")


def rows_of(table: pa.Table, layout: Layout, origin: Origin, reading: Reading) -> Rows:
    """The links of a table; `reading` has the names of its columns in the file."""
    if table.num_rows == 0:
        raise DataError(f"{origin.name}: no rows; expected at least one link")
    src, dst, time = (TableColumn.at(table, i, origin) for i in (layout.src, layout.dst, layout.time))
    names = src.names(), dst.names()
    t = time.times()
    if t.dtype.kind == "i" and not np.isnat(dates := calendar_dates(t)).any():
        t = dates
    parse: dict[str, Callable[[TableColumn], Any]]
    parse = {"weight": TableColumn.weights, "negative": TableColumn.negatives, "link_id": TableColumn.link_ids}
    optional: dict[str, Any] = {
        role: parse[role](TableColumn.at(table, i, origin)) for role, i in layout.optional.items()
    }
    msg, attributes = attributes_of(table, layout.msg, layout.categorical, origin)
    kinds = zip(reading.msg, attributes, strict=True)
    reading = replace(reading, categorical=tuple(column for column, found in kinds if found.kind == "category"))
    return Rows(*names, t, reading, layout.prefixes, origin, msg, attributes, **optional)


def attributes_of(
    table: pa.Table, chosen: Sequence[int], categorical: Collection[int], origin: Origin, *, of: str = "link"
) -> tuple[npt.NDArray[np.float32] | None, tuple[Attribute, ...]]:
    """The chosen columns as attributes of every row, [E, d], and what they hold.

    A text column is a category, unless its first value is a number: then all must be numbers.
    """
    rule = ATTRIBUTE_RULE.format(of=of)
    values, columns = [], []
    for i in chosen:
        column = TableColumn.at(table, i, origin)
        if i in categorical or column.is_category():
            codes, levels = column.categories()
            values.append(codes)
            columns.append(Attribute(column.name, "category", levels))
        else:
            values.append(column.numbers(rule))
            columns.append(Attribute(column.name))
    return np.stack(values, axis=1) if values else None, tuple(columns)


def parse_times(texts: list[str]) -> Array:
    """Text as `TableColumn.times` reads it."""
    return TableColumn(pa.chunked_array([pa.array(texts, pa.large_string())]), "t", Origin("t")).times()


# Several files -> one network.


def events_of(parts: Sequence[Rows]) -> Events:
    """The links of all parts, in their order. Nodes have attributes only where there is one part."""
    first = parts[0]
    for part in parts[1:]:
        refuse_difference(first, part)
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
    events = Events.adopt(src_ids, dst_ids, times, x=x, labels=labels, **columns)
    events.columns = attributes
    events.reading = replace(first.reading, dates=first.has_dates, unit=unit)
    return events


class Part(Protocol):
    """A file of a log that has several."""

    @property
    def reading(self) -> Reading: ...
    @property
    def origin(self) -> Origin: ...
    @property
    def has_dates(self) -> bool: ...


def refuse_difference(first: Part, part: Part) -> None:
    """Refuse files that cannot be parts of one log."""
    for role in ("src", "dst", "time", "msg", "categorical", "weight", "negative", "link_id", "bipartite"):
        mine, others = getattr(part.reading, role), getattr(first.reading, role)
        if mine != others:
            raise DataError(
                f"{part.origin.name}: {role} is {brief(mine)}, but {brief(others)} in {first.origin.name}; "
                "files read together need the same columns"
            )
    if first.has_dates != part.has_dates:
        kinds = ["dates" if rows.has_dates else "numbers" for rows in (part, first)]
        raise DataError(f"{part.origin.name}: times are {kinds[0]}, but {kinds[1]} in {first.origin.name}")


def _stacked(arrays: list[Array]) -> Array:
    """All rows, without a copy where there is one array."""
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _joined_names(columns: list[pa.ChunkedArray]) -> pa.ChunkedArray:
    columns = [column for column in columns if len(column)] or columns[:1]
    if len({column.type for column in columns}) > 1:
        columns = [column.cast(pa.large_string()) for column in columns]
    return pa.chunked_array([chunk for column in columns for chunk in column.chunks], columns[0].type)


def _joined_times(parts: Sequence[Rows]) -> tuple[Array, Unit]:
    """All times as numbers, and the unit of those that were dates."""
    if not parts[0].has_dates:
        if len({part.t.dtype for part in parts}) > 1:
            for part in parts:
                if part.t.dtype == np.int64 and (np.abs(part.t) > 2**53).any():
                    raise DataError(f"{part.origin.name}: {TIMES_TOO_LARGE}")
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
        raise DataError(f"{part.origin.name}: {error}") from error


# One column.


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a table: its values checked and converted, or a DataError that names the row."""

    values: pa.ChunkedArray  # text and bytes as large_string and large_binary
    name: str
    origin: Origin

    @classmethod
    def at(cls, table: pa.Table, i: int, origin: Origin) -> TableColumn:
        """Column i of a table."""
        return cls(_decoded(table.column(i)), table.field(i).name, origin)

    @property
    def type(self) -> pa.DataType:
        return self.values.type

    def names(self, what: str = "node names", needed: str = "every link needs two nodes") -> pa.ChunkedArray:
        """Names of nodes (or of `what`) as int64 or large_string, none missing."""
        self._refuse_nulls(needed)
        if pa.types.is_integer(self.type):
            return self._cast(pa.int64(), f"{what} that are integers must fit into int64")
        if pa.types.is_floating(self.type) or pa.types.is_decimal(self.type):
            return self._cast(pa.int64(), f"{what} are whole numbers or strings")
        if pa.types.is_large_string(self.type) or pa.types.is_large_binary(self.type):
            column = self._cast(pa.large_string(), f"{what} must be text")
            empty = pc.equal(column, "")
            if pc.any(empty).as_py():
                raise self._error(_first(empty), "", needed)
            return column
        raise self._type_error(f"expected {what} (integers or strings)")

    def times(self, kind: pa.DataType | None = None) -> Array:
        """Times as int64, float64 or, where they are dates, datetime64; text is parsed as one of these.

        Args:
            kind: How to parse text, one of `TIME_KINDS`; by default the first that fits all values.
        """
        column = self._parsed_times(kind) if pa.types.is_large_string(self.type) else self
        kind = column.type
        column._refuse_nulls(_TIME_RULE)
        if pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0):
            return np.array(column._cast(pa.int64(), "times must fit into int64").to_numpy())
        if pa.types.is_float64(kind) or pa.types.is_decimal(kind):
            times = np.array(column.values.cast(pa.float64()).to_numpy()) + 0.0  # -0.0 is 0.0
            column._refuse_rows(~np.isfinite(times), times, "every link needs a finite time")
            return times
        if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
            unit = kind.unit if pa.types.is_timestamp(kind) else "ms" if pa.types.is_date64(kind) else "s"
            ticks = column.values.cast(pa.timestamp(unit)).cast(pa.int64()).to_numpy()
            column._refuse_rows(np.abs(ticks) > _LAST_TICK[unit], ticks, "every link needs a finite date")
            return np.array(ticks.astype(f"datetime64[{unit}]"))
        rounds = pa.types.is_floating(kind)
        raise column._type_error("which rounds times; store float64 or int64" if rounds else _TIME_RULE)

    def numbers(self, rule: str) -> npt.NDArray[np.float32]:
        """Finite float32, none missing."""
        self._refuse_nulls(rule)
        values = self.values
        if pa.types.is_large_string(self.type):
            values = self._cast(pa.float64(), rule)
        elif not (
            pa.types.is_integer(self.type)
            or pa.types.is_floating(self.type)
            or pa.types.is_boolean(self.type)
            or pa.types.is_decimal(self.type)
        ):
            raise self._type_error(rule)
        exact = values.cast(pa.float64(), safe=False).to_numpy()
        with np.errstate(over="ignore"):
            rounded = exact.astype(np.float32)
        self._refuse_rows(~np.isfinite(rounded), exact, rule)
        return np.asarray(rounded)

    def integers(self, rule: str) -> npt.NDArray[np.int64]:
        """Whole numbers, however they are stored; none missing."""
        self._refuse_nulls(rule)
        column = self
        if pa.types.is_large_string(self.type):
            column = replace(self, values=self._cast(pa.float64(), rule))
        return np.array(column._cast(pa.int64(), rule).to_numpy())

    def categories(self) -> tuple[npt.NDArray[np.float32], tuple[str, ...]]:
        """Codes of the values, and the text of each code. A missing value is the empty text."""
        names = self._cast(pa.large_string(), "categories are text or numbers")
        coded = pc.fill_null(names, "").combine_chunks().dictionary_encode()
        levels = coded.dictionary.to_pylist()
        if len(levels) > MAX_CODES:
            raise self.too_many(len(levels))
        return coded.indices.to_numpy().astype(np.float32), tuple(levels)

    def too_many(self, categories: int) -> DataError:
        return DataError(f"{self._where}: found {categories:,} categories; is it a column of ids?")

    def is_category(self) -> bool:
        """Whether these are words: text, unless the first value is a number."""
        return pa.types.is_large_string(self.type) and not _all_fit(self.values.slice(0, 1), pa.float64())

    def weights(self, *, all_rows: bool = True) -> npt.NDArray[np.float32]:
        """Link weights: finite, from 0, not all 0 if these are all rows."""
        weights = self.numbers(_WEIGHT_RULE)
        self._refuse_rows(weights < 0, weights, _WEIGHT_RULE)
        if all_rows and not weights.any():
            raise self.no_weight()
        return weights

    def no_weight(self) -> DataError:
        return DataError(f"{self._where}: all weights are 0; give some links a weight above 0")

    def link_ids(self) -> npt.NDArray[np.uint64]:
        """Hashes of the ids of links; none missing."""
        return hash_ids(self.names("link ids", "every link needs an id").to_pylist())

    def negatives(self) -> tuple[pa.ChunkedArray, npt.NDArray[np.int64]]:
        """The names that are given, and their rows."""
        given = pc.is_valid(self.values)
        if pa.types.is_large_string(self.type):
            given = pc.and_(given, pc.fill_null(pc.not_equal(self.values, ""), False))
        rows = np.flatnonzero(given.to_numpy())
        values = self.values.filter(given)
        origin = Origin(self.origin.name, lambda row: self.origin.place(int(rows[row])))
        return TableColumn(values if len(values) else values.cast(pa.int64()), self.name, origin).names(), rows

    def time_kinds(self, among: Iterable[pa.DataType] = TIME_KINDS) -> Iterator[pa.DataType]:
        """Those of `TIME_KINDS` that fit all values of a text column."""
        values = self._trimmed_times()
        return (kind for kind in among if _all_fit(values, kind))

    def first_time_kind(self) -> pa.DataType:
        """What the first value looks like, for a message about one that does not."""
        first = self._trimmed_times().slice(0, 1)
        return next((kind for kind in TIME_KINDS[1:] if _all_fit(first, kind)), pa.float64())

    def _trimmed_times(self) -> pa.ChunkedArray:
        """The text without blanks around it and without a plus sign."""
        return pc.replace_substring_regex(pc.utf8_trim_whitespace(self.values), r"^\+", "")

    def _parsed_times(self, kind: pa.DataType | None) -> TableColumn:
        """Text as numbers or dates, whichever the first value is; floats only where float64 does not round them."""
        column = replace(self, values=self._trimmed_times())
        if kind is None:
            kind = next(self.time_kinds(), None)
        if kind is None:  # the cast fails, and says where
            kind = self.first_time_kind()
        parsed = replace(column, values=column._cast(kind, _TIME_RULE))
        if pa.types.is_float64(kind):
            times = parsed.values.to_numpy()
            rounded = np.isfinite(times) & (np.abs(times) >= 2.0**53)
            parsed._refuse_rows(rounded, times, "float64 rounds times this large; use whole numbers within int64")
        return parsed

    def _cast(self, kind: pa.DataType, rule: str) -> pa.ChunkedArray:
        try:
            return self.values.cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            row = _first_misfit(self.values, kind)
            raise (self._type_error(rule) if row is None else self._error(row, self._value(row), rule)) from error

    def _value(self, row: int) -> object:
        try:
            return self.values[row].as_py()
        except (UnicodeDecodeError, ValueError):
            return str(self.values[row])

    def _refuse_nulls(self, rule: str) -> None:
        if self.values.null_count:
            raise self._error(_first(self.values.is_null()), None, rule)

    def _refuse_rows(self, bad: npt.NDArray[np.bool_], values: Array, rule: str) -> None:
        if bad.any():
            row = int(np.argmax(bad))
            raise self._error(row, values[row].item(), rule)

    @property
    def _where(self) -> str:
        return f"{self.origin.name}, column {brief(self.name)}"

    def _error(self, row: int, found: object, rule: str) -> DataError:
        shown = "nothing" if found is None or found == "" else brief(found)
        place = f"{self.origin.name}, {self.origin.place(row)}, column {brief(self.name)}"
        return DataError(f"{place}: found {shown}; {rule}")

    def _type_error(self, rule: str) -> DataError:
        return DataError(f"{self._where}: found {self.type}; {rule}")


def _decoded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column without its encoding: dictionaries expanded, text and bytes of any layout in the large one."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        words = [_decoded(pa.chunked_array([chunk.dictionary])).combine_chunks() for chunk in column.chunks]
        pairs = zip(words, column.chunks, strict=True)
        column = pa.chunked_array([dictionary.take(chunk.indices) for dictionary, chunk in pairs] or [[]])
        kind = column.type
    if pa.types.is_string(kind) or pa.types.is_string_view(kind):
        return column.cast(pa.large_string())
    if pa.types.is_binary(kind) or pa.types.is_binary_view(kind) or pa.types.is_fixed_size_binary(kind):
        return column.cast(pa.large_binary())
    return column


def _first_misfit(column: pa.ChunkedArray, kind: pa.DataType) -> int | None:
    """The first row that cannot be cast, by bisection; only computed for an error message."""
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


def _first(mask: pa.ChunkedArray) -> int:
    return int(pc.index(mask, True).as_py())
