"""Columns of tables: types, missing values, and messages that say which value is wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from cawn.checks import Array
from cawn.data.attributes import MAX_CODES, Attribute
from cawn.data.hashing import hash_ids
from cawn.data.names import parse_integers, string_buffers
from cawn.errors import DataError, brief

_DATES = tuple(pa.timestamp(unit, zone) for unit in ("ns", "us", "s") for zone in (None, "UTC"))
_LAST_TICK = {"s": 2**53, "ms": 2**62, "us": 2**62, "ns": 2**63 - 2}
PLAIN_KINDS = (pa.float64(), pa.bool_(), pa.time32("s"), *_DATES)  # of text without words
TIME_KINDS = (pa.int64(), pa.float64(), *_DATES)  # of text, in the order in which they are tried
_TIME_RULE = "expected a time: a number or an ISO date"
_PER_LEVEL = 200  # bytes of a level of a category, about
_WEIGHT_RULE = "link weights are finite numbers from 0"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a table came from, for messages; `place` describes a row counted from 0."""

    name: str
    place: Callable[[int], str] = lambda row: f"row {row + 1}"


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

    @property
    def is_text(self) -> bool:
        return bool(pa.types.is_large_string(self.type))

    def slice(self, first: int, rows: int) -> TableColumn:
        """The same column of these rows; messages count them from 0."""
        return replace(self, values=self.values.slice(first, rows))

    def trimmed(self) -> TableColumn:
        """Text without white space at both ends; itself if there is none."""
        if not self.is_text or not any(map(_may_have_blanks, self.values.chunks)):
            return self
        return replace(self, values=pc.utf8_trim_whitespace(self.values))

    def names(self, what: str = "node names", needed: str = "every link needs two nodes") -> pa.ChunkedArray:
        """Names of nodes (or of `what`) as int64 or large_string, none missing."""
        self._refuse_nulls(needed)
        if pa.types.is_integer(self.type):
            return self._cast(pa.int64(), f"{what} that are integers must fit into int64")
        if pa.types.is_floating(self.type) or pa.types.is_decimal(self.type):
            return self._cast(pa.int64(), f"{what} are whole numbers or strings")
        if pa.types.is_large_binary(self.type):
            text = self._cast(pa.large_string(), f"{what} must be text")
            return replace(self, values=text).trimmed().names(what, needed)
        if self.is_text:
            empty = pc.equal(self.values, "")
            if pc.any(empty).as_py():
                raise self.error(needed, _first(empty))
            return self.values
        raise self.error(f"expected {what} (integers or strings)")

    def times(self) -> Array:
        """Times as int64, float64 or, where they are dates, datetime64; text is parsed as the first kind that fits."""
        if self.is_text:
            if (parsed := self.parsed_times(TIME_KINDS)) is None:
                raise self.misfit(self.slice(0, 1), TIME_KINDS)
            return parsed.times()
        kind = self.type
        self._refuse_nulls(_TIME_RULE)
        if pa.types.is_integer(kind) or (pa.types.is_decimal(kind) and kind.scale == 0):
            return np.array(self._cast(pa.int64(), "times must fit into int64").to_numpy())
        if pa.types.is_float64(kind) or pa.types.is_decimal(kind):
            times = np.array(self.values.cast(pa.float64()).to_numpy()) + 0.0  # -0.0 is 0.0
            self._refuse_rows(~np.isfinite(times), times, "every link needs a finite time")
            return times
        if pa.types.is_timestamp(kind) or pa.types.is_date(kind):
            unit = kind.unit if pa.types.is_timestamp(kind) else "ms" if pa.types.is_date64(kind) else "s"
            ticks = self.values.cast(pa.timestamp(unit)).cast(pa.int64()).to_numpy()
            self._refuse_rows(np.abs(ticks) > _LAST_TICK[unit], ticks, "every link needs a finite date")
            return np.array(ticks.astype(f"datetime64[{unit}]"))
        rounds = pa.types.is_floating(kind)
        raise self.error("which rounds times; store float64 or int64" if rounds else _TIME_RULE)

    def parsed_times(self, kinds: Sequence[pa.DataType]) -> TableColumn | None:
        """Text as the first of these kinds that fits all values; floats only where float64 does not round them."""
        if pa.int64() in kinds:
            integers, with_point = parse_integers(self.values)
            if integers is not None and not with_point:
                return replace(self, values=integers)
        trimmed = self._trimmed_times()
        values = next((values for kind in kinds if (values := _cast_or_none(trimmed, kind)) is not None), None)
        if values is not None and pa.types.is_float64(values.type):
            self.refuse_rounded(values.to_numpy())
        return None if values is None else replace(self, values=values)

    def refuse_rounded(self, times: Array) -> None:
        """Refuse times that float64 rounds, or may have rounded already."""
        large = np.isfinite(times) & (np.abs(times.astype(np.float64)) >= 2.0**53)
        self._refuse_rows(large, times, "float64 rounds times this large; use whole numbers within int64")

    def misfit(self, first: TableColumn, kinds: Sequence[pa.DataType]) -> DataError:
        """The error for the first value that is unlike `first`, or unlike these kinds, none of which fits all."""
        column, first = replace(self, values=self._trimmed_times()), first._trimmed_times()
        likely = next((kind for kind in TIME_KINDS[1:] if _all_fit(first, kind)), pa.float64())
        try:
            for kind in (likely, *kinds):
                column._cast(kind, _TIME_RULE)
        except DataError as error:
            return error
        return self.error(_TIME_RULE)

    def _trimmed_times(self) -> pa.ChunkedArray:
        """The text without blanks around it and without a plus sign."""
        return pc.replace_substring_regex(self.trimmed().values, r"^\+", "")

    def numbers(self, rule: str, *, booleans: bool = False) -> npt.NDArray[np.float32]:
        """Finite float32, none missing; with `booleans`, text may be true and false."""
        self._refuse_nulls(rule)
        values = self.values
        if self.is_text:
            values = self._cast(pa.bool_() if booleans and self.holds_booleans() else pa.float64(), rule)
        if (numbers := _cast_or_none(values, pa.float64(), safe=False)) is None:
            raise self.error(rule)
        exact = numbers.to_numpy()
        with np.errstate(over="ignore"):
            rounded = exact.astype(np.float32)
        self._refuse_rows(~np.isfinite(rounded), exact, rule)
        return np.asarray(rounded)

    def integers(self, rule: str) -> npt.NDArray[np.int64]:
        """Whole numbers in a column of text, however they are written."""
        numbers = replace(self, values=self._cast(pa.float64(), rule))
        return np.array(numbers._cast(pa.int64(), rule).to_numpy())

    def categories(self) -> tuple[npt.NDArray[np.int32], list[str]]:
        """The index of each value among the different texts, and these. A missing value is the empty text."""
        names = self._cast(pa.large_string(), "categories are text or numbers")
        coded = pc.fill_null(names, "").combine_chunks().dictionary_encode()
        return coded.indices.to_numpy(), coded.dictionary.to_pylist()

    def is_category(self) -> bool:
        """Whether these are words: text, unless the first value is a number."""
        return self.is_text and not _all_fit(self.values.slice(0, 1), pa.float64())

    def holds_booleans(self) -> bool:
        """Whether this is text, and all of it true, false, 1 or 0, but not all numbers."""
        return self.fits(pa.bool_()) and not self.fits(pa.float64())

    def fits(self, kind: pa.DataType) -> bool:
        """Whether this is text that can be parsed as this type."""
        return self.is_text and _all_fit(self.values, kind)

    def refusal(self, rule: str) -> DataError:
        """An error for the first value, or for the first empty text."""
        row = max(pc.index(self.values, "").as_py(), 0)
        return self.error(rule, row, self._value(row))

    def weights(self, *, booleans: bool = False) -> npt.NDArray[np.float32]:
        """Link weights: finite, from 0."""
        weights = self.numbers(_WEIGHT_RULE, booleans=booleans)
        self._refuse_rows(weights < 0, weights, _WEIGHT_RULE)
        return weights

    def link_ids(self) -> npt.NDArray[np.uint64]:
        """Hashes of the ids of links; none missing."""
        return hash_ids(self.names("link ids", "every link needs an id").to_pylist())

    def negatives(self) -> tuple[TableColumn, npt.NDArray[np.int64]]:
        """The values that are given, and their rows."""
        given = pc.is_valid(self.values)
        if self.is_text:
            given = pc.and_(given, pc.fill_null(pc.not_equal(self.values, ""), False))
        rows = np.flatnonzero(given.to_numpy())
        values = self.values.filter(given)
        origin = Origin(self.origin.name, lambda row: self.origin.place(int(rows[row])))
        return TableColumn(values if len(values) else values.cast(pa.int64()), self.name, origin), rows

    def _cast(self, kind: pa.DataType, rule: str) -> pa.ChunkedArray:
        try:
            return self.values.cast(kind)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            row = _first_misfit(self.values, kind)
            raise (self.error(rule) if row is None else self.error(rule, row, self._value(row))) from error

    def _value(self, row: int) -> object:
        try:
            return self.values[row].as_py()
        except (UnicodeDecodeError, ValueError):
            return str(self.values[row])

    def _refuse_nulls(self, rule: str) -> None:
        if self.values.null_count:
            raise self.error(rule, _first(self.values.is_null()))

    def _refuse_rows(self, bad: npt.NDArray[np.bool_], values: Array, rule: str) -> None:
        if bad.any():
            row = int(np.argmax(bad))
            raise self.error(rule, row, values[row].item())

    def error(self, rule: str, row: int | None = None, found: object = None) -> DataError:
        """About what was found in a row, or in the whole column: by default, its type."""
        name, place, shown = self.origin.name, "", found or self.type
        if row is not None:
            place, shown = f"{self.origin.place(row)}, ", "nothing" if found is None or found == "" else brief(found)
        return DataError(f"{name}, {place}column {brief(self.name)}: found {shown}; {rule}")


class ReadAgainError(Exception):
    """A column of the file is of another kind than its beginning looked like: the log must be read again."""


@dataclass(slots=True)
class AttributeReader:
    """A column of attributes in one file: numbers, or categories.

    A column of text is a category unless it begins with a number: then all must be numbers. In a text file, where
    nothing else distinguishes them, a column without a single word is no category either.
    """

    of: str  # "link" or "node"
    codes: dict[str, int]  # of the levels of a category in all files, in the order in which they are seen
    given: bool  # whether the user says that it is a category
    untyped: bool  # whether it is a column of a text file
    is_category: bool | None = None  # as an earlier attempt to read the file has found
    reserve: Callable[[int], object] = lambda _: None  # called with the bytes that further codes are about to use
    _name: str = ""
    _booleans: bool = False
    _plain: tuple[pa.DataType, ...] = PLAIN_KINDS  # the types of which all values are
    _refusal: DataError | None = None  # if they are

    def __post_init__(self) -> None:
        self.is_category = self.given or self.is_category
        if self.given or not self.untyped:
            self._plain = ()

    def add(self, column: TableColumn) -> Array:
        """The values of a piece as float32, [n]."""
        self._name = column.name
        if self.is_category is None:
            self._booleans = self.untyped and column.holds_booleans()
            self.is_category = column.is_category() and not self._booleans
        rule = f"{self.of} attributes are finite numbers, unless the column is named in categorical"
        if self.is_category:
            if self._plain:
                words = replace(column, values=column.values.filter(pc.not_equal(column.values, "")))
                self._plain = tuple(kind for kind in self._plain if words.fits(kind))
                self._refusal = self._refusal or column.refusal(rule)
            return self._encoded(column)
        if self._booleans and not column.fits(pa.bool_()):
            self.is_category = True
            raise ReadAgainError
        return column.numbers(rule, booleans=self._booleans)

    def _encoded(self, column: TableColumn) -> Array:
        indices, levels = column.categories()
        before = len(self.codes)
        codes = np.array([self.codes.setdefault(level, len(self.codes)) for level in levels], np.float32)
        if len(self.codes) > MAX_CODES:
            raise column.error("is it a column of ids?", found=f"{len(self.codes):,} categories")
        self.reserve(_PER_LEVEL * (len(self.codes) - before))
        return np.asarray(codes[indices])

    def finish(self) -> Attribute:
        """What the column holds, called when the whole file is read."""
        if self._plain and self._refusal:
            raise self._refusal
        return Attribute(self._name, "category", tuple(self.codes)) if self.is_category else Attribute(self._name)


def parse_times(texts: list[str]) -> Array:
    """Text as `TableColumn.times` reads it."""
    return TableColumn(pa.chunked_array([pa.array(texts, pa.large_string())]), "t", Origin("t")).times()


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


def _may_have_blanks(text: pa.Array) -> bool:
    """Whether white space at an end is possible: not all values begin and end with a visible ASCII character."""
    ends, letters = string_buffers(text)
    outer = [letters.take(at, mode="clip") for at in (ends[:-1], ends[1:] - 1)] if len(letters) else []
    return any(bool(((letter <= 32) | (letter > 126)).any()) for letter in outer)


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
    return _cast_or_none(column, kind) is not None


def _cast_or_none(column: pa.ChunkedArray, kind: pa.DataType, **options: Any) -> pa.ChunkedArray | None:
    try:
        return column.cast(kind, **options)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        return None


def _first(mask: pa.ChunkedArray) -> int:
    return int(pc.index(mask, True).as_py())
