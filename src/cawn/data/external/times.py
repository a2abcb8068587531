"""The times of files that are read in pieces, with the types and units that reading them at once would give."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cawn.data.external.files import ColumnFile
from cawn.data.external.pieces import LinkFile, TextLinks
from cawn.data.readers.tables import TIME_KINDS, TIMES_TOO_LARGE, Origin, TableColumn, refuse_rounded
from cawn.data.readers.text import beyond_float64
from cawn.data.reading import Unit
from cawn.data.times import PER_SECOND, DateUnits, calendar_dates, dates_in_unit
from cawn.errors import DataError

Array = npt.NDArray[Any]

_CALENDAR = "calendar"  # integers such as 20160123, for dates


class FileTimes:
    """The times of one file, as they are stored while it is read: 8 bytes each, of one or more types."""

    def __init__(self, links: LinkFile, stored: ColumnFile) -> None:
        self._links, self._stored, self._first = links, stored, stored.rows
        self.origin = links.origin(0)
        self._clear()

    def _clear(self) -> None:
        self.kinds: list[tuple[str, int]] = []  # types, and the number of rows of each
        self.units = DateUnits()
        self._all_calendar = True
        self._range = (0, 0)  # of integers
        self._group: str | None = None
        self._deferred = False
        self._stored.truncate(self._first)

    def add(self, column: TableColumn) -> None:
        """Append the times of a piece; if their types do not fit together, the file's times are read again later."""
        if self._deferred:
            return
        group, kind = self._group_of(column)
        if group is None or self._group not in (None, group):
            self._deferred = True
            return
        self._group = group
        self._append(column.times(kind))
        if "f" in {kind[1] for kind, _ in self.kinds} and max(map(abs, self._range)) >= 2**53:
            self._deferred = True  # reading them again finds which one float64 would round

    def finish(self) -> None:
        """Called when the whole file is read."""
        if self._deferred:
            self._clear()
            for times in _read_again(self._links):
                self._append(times)
        if self._all_calendar and [kind for kind, _ in self.kinds] == [np.dtype(np.int64).str]:
            self.kinds = [(_CALENDAR, self.kinds[0][1])]

    @property
    def has_dates(self) -> bool:
        return self.kinds[0][0] == _CALENDAR or self.kinds[0][0][1] == "M"

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of these times on their own, in seconds if they are dates."""
        fractions = not self.units.is_whole if self.has_dates else any(kind[1] == "f" for kind, _ in self.kinds)
        return np.dtype(np.float64 if fractions else np.int64)

    @property
    def beyond_float64(self) -> bool:
        """Whether float64 would round some of the times, which are integers."""
        return max(map(abs, self._range)) > 2**53

    def _group_of(self, column: TableColumn) -> tuple[str | None, pa.DataType | None]:
        """What the types of a file's pieces must have in common, and how to parse text; None if that is not clear."""
        kind = column.type
        if pa.types.is_large_string(kind):
            self._links.read_as_text(self._links.layout.time)
            fitting = next(column.time_kinds(), None)
            return (None if fitting is None else f"text {_group_of_type(fitting)}"), fitting
        if not isinstance(self._links, TextLinks):
            return "table", None
        return None if beyond_float64(column.values) else _group_of_type(kind), None

    def _append(self, times: Array) -> None:
        refuse_rounded(self._links.file, times)
        if times.dtype.kind == "M":
            self.units.add(times)
            self._all_calendar = False
        elif times.dtype.kind == "i" and len(times):
            self._range = min(self._range[0], int(times.min())), max(self._range[1], int(times.max()))
            self._all_calendar = self._all_calendar and not np.isnat(calendar_dates(times)).any()
        kind = times.dtype.str
        if self.kinds and self.kinds[-1][0] == kind:
            self.kinds[-1] = kind, self.kinds[-1][1] + len(times)
        else:
            self.kinds.append((kind, len(times)))
        self._stored.append(times.view(np.int64))


def _group_of_type(kind: pa.DataType) -> str | None:
    if pa.types.is_integer(kind) or pa.types.is_float64(kind):
        return "number"
    if pa.types.is_date(kind):
        return "date"
    if pa.types.is_timestamp(kind):
        return "date" if kind.tz is None else "date with a time zone"
    return None


def _read_again(links: LinkFile) -> Iterator[Array]:
    """The times of a file whose pieces, on their own, look like different things."""
    at = links.layout.time
    guessed = links.guessed_type(at) if isinstance(links, TextLinks) else None
    if guessed is not None and pa.types.is_float64(guessed):
        rounded = any(beyond_float64(column) for _, column in links.column(at, guessed))
        guessed = pa.string() if rounded else guessed
    if guessed is not None and not pa.types.is_string(guessed):
        for column in _columns(links, at, guessed):
            yield column.times()
        return
    kinds, first = list(TIME_KINDS), None
    for column in _columns(links, at, pa.string()):
        first = first or column
        kinds = list(column.time_kinds(kinds))
    assert first is not None
    kind = kinds[0] if kinds else first.first_time_kind()
    for column in _columns(links, at, pa.string()):
        yield column.times(kind)


def _columns(links: LinkFile, at: int, kind: pa.DataType) -> Iterator[TableColumn]:
    for first, values in links.column(at, kind):
        yield TableColumn.at(pa.table({links.names[at]: values}), 0, links.origin(first))


@dataclass
class LogTimes:
    """The times of all files together."""

    parts: Sequence[FileTimes]
    dtype: np.dtype[Any] = field(init=False)
    unit: Unit = field(init=False)

    def __post_init__(self) -> None:
        found = {part.dtype for part in self.parts}
        self.dtype, self.unit = np.dtype(np.float64 if np.dtype(np.float64) in found else np.int64), "s"
        if self.has_dates:
            for part in self.parts:
                _check_range(part, part.units.unit)
            self.unit = max((part.units.unit for part in self.parts), key=PER_SECOND.__getitem__)
            if self.unit != "s":
                self.dtype = np.dtype(np.int64)
                for part in self.parts:
                    _check_range(part, self.unit)
        elif len(found) > 1:
            for part in self.parts:
                if part.dtype == np.int64 and part.beyond_float64:
                    name = part.origin.name
                    raise DataError(f"{name}: {TIMES_TOO_LARGE}")

    @property
    def has_dates(self) -> bool:
        return self.parts[0].has_dates

    @property
    def stored_as_they_are(self) -> bool:
        """Whether the stored times need no conversion."""
        return {kind for part in self.parts for kind, _ in part.kinds} == {self.dtype.str}

    def segments(self) -> Iterator[tuple[str, int, Origin]]:
        """Consecutive rows whose times are stored as one type."""
        for part in self.parts:
            for kind, rows in part.kinds:
                yield kind, rows, part.origin

    def convert(self, stored: Array, kind: str) -> Array:
        """Stored times [n] as the numbers that events have."""
        if kind == _CALENDAR:
            dates = calendar_dates(stored)
        elif kind[1] == "M":
            dates = stored.view(kind)
        else:
            return stored.view(kind).astype(self.dtype)
        return np.asarray(dates_in_unit(dates, self.unit, self.dtype))


def _check_range(part: FileTimes, unit: Unit) -> None:
    try:
        part.units.check(unit)
    except DataError as error:
        raise DataError(f"{part.origin.name}: {error}") from error
