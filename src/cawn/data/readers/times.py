"""The times of the files of a log: one kind in each file, one type and unit for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cawn.data.columns import Column, steps
from cawn.data.readers.tables import TIME_KINDS, Origin, TableColumn
from cawn.data.reading import Unit
from cawn.data.times import PER_SECOND, DateUnits, calendar_dates, check_span, dates_in_unit
from cawn.errors import DataError

Array = npt.NDArray[Any]

_CALENDAR = "calendar"  # integers such as 20160123, for dates


class ReadAgainError(Exception):
    """A column of the file is of another kind than its beginning looked like: the log must be read again."""


@dataclass(slots=True)
class Kinds:
    """What earlier attempts to read a file have found about its columns of text."""

    names_are_text: bool = False
    times: tuple[pa.DataType, ...] = TIME_KINDS  # that they may be
    categories: set[int] = field(default_factory=set)  # attributes that are categories, whatever they begin with


class FileTimes:
    """The times of one file as they are stored while it is read, 8 bytes each: integers, floats or ticks of dates."""

    def __init__(self, origin: Origin, kinds: Kinds, rounds: bool) -> None:
        """`rounds`: whether the file is parsed so that large integers may have become floats."""
        self.origin, self.units = origin, DateUnits()
        self.kind, self.rows = "", 0
        self._kinds, self._parsed_as, self._rounds = kinds, list[pa.DataType](), rounds
        self._first: TableColumn | None = None  # the first value
        self._all_calendar, self._range = True, (0, 0)  # of integers

    def add(self, column: TableColumn) -> Array:
        """The times of a piece, as they are stored."""
        times = (self._parsed(column) if column.is_text else column).times()
        if self._rounds and times.dtype.kind == "f" and (np.abs(times) >= 2.0**53).any():
            found = "times this large are rounded as float64; write whole numbers within int64"
            raise DataError(f"{self.origin.name}: {found}")
        if times.dtype.kind == "M":
            self.units.add(times)
        if times.dtype.kind == "i" and len(times):
            self._range = min(self._range[0], int(times.min())), max(self._range[1], int(times.max()))
        self._all_calendar &= times.dtype.kind == "i" and not np.isnat(calendar_dates(times)).any()
        self.kind, self.rows = times.dtype.str, self.rows + len(times)
        return times.view(np.int64)

    def _parsed(self, column: TableColumn) -> TableColumn:
        """Text as numbers or dates, of the same kind in all pieces."""
        self._first = self._first or column.slice(0, 1)
        kinds = self._parsed_as or self._kinds.times
        parsed = column.parsed_times(kinds)
        if parsed is None:
            tried = TIME_KINDS.index(kinds[0])
            rest = tuple(kind for kind in TIME_KINDS[tried + 1 :] if self._first.parsed_times([kind]))
            if self._parsed_as and column.parsed_times(rest):
                self._kinds.times = rest
                raise ReadAgainError
            raise column.misfit(self._first, kinds)
        self._parsed_as = [parsed.type]
        return parsed

    def finish(self) -> None:
        """Called when the whole file is read."""
        if self._all_calendar:
            self.kind = _CALENDAR

    @property
    def has_dates(self) -> bool:
        return self.kind == _CALENDAR or self.kind[1] == "M"

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of these times on their own, in seconds if they are dates."""
        return self.units.dtype if self.has_dates else np.dtype(self.kind)

    @property
    def beyond_float64(self) -> bool:
        """Whether float64 would round some of the times, which are integers."""
        return max(map(abs, self._range)) > 2**53

    def check(self, unit: Unit) -> None:
        """Refuse dates that int64 cannot hold in this unit."""
        try:
            self.units.check(unit)
        except DataError as error:
            raise DataError(f"{self.origin.name}: {error}") from error


class LogTimes:
    """The times of all files together."""

    def __init__(self, parts: Sequence[FileTimes]) -> None:
        self._parts, self.has_dates, self.unit = parts, parts[0].has_dates, _unit(parts)
        types = {part.dtype for part in parts}
        self.dtype = np.dtype(np.float64 if np.dtype(np.float64) in types and self.unit == "s" else np.int64)
        for part in parts:
            if self.has_dates:
                part.check(self.unit)
            elif len(types) > 1 and part.beyond_float64:
                raise DataError(
                    f"{part.origin.name}: some integer times are too large for float64, the type of times in other "
                    "files; write all times as integers"
                )

    def convert(self, column: Column, block: int) -> bool:
        """Turn stored times into the numbers that events have; returns whether they are sorted."""
        last, is_sorted, bounds = None, True, list[Any]()
        for kind, first, count in self._blocks(block):
            t = self._converted(column.read(first, count), kind)
            if kind != self.dtype.str:
                column.replace(first, t.view(np.int64))
            is_sorted = is_sorted and (last is None or t[0] >= last) and bool((t[1:] >= t[:-1]).all())
            last = t[-1]
            bounds = [min([*bounds[:1], t.min()]), max([*bounds[1:], t.max()])]
        column.retype(self.dtype)
        check_span(np.array(bounds, self.dtype))
        return is_sorted

    def _blocks(self, size: int) -> Iterator[tuple[str, int, int]]:
        """Consecutive rows whose times are stored as one kind: that, the first row and the number of rows."""
        row = 0
        for part in self._parts:
            for first, count in steps(part.rows, size):
                yield part.kind, row + first, count
            row += part.rows

    def _converted(self, stored: Array, kind: str) -> Array:
        if kind == _CALENDAR:
            return dates_in_unit(calendar_dates(stored), self.unit, self.dtype)
        if kind[1] == "M":
            return dates_in_unit(stored.view(kind), self.unit, self.dtype)
        return stored.view(kind).astype(self.dtype)


def _unit(parts: Sequence[FileTimes]) -> Unit:
    """The finest unit of dates."""
    return max((part.units.unit for part in parts), key=PER_SECOND.__getitem__)
