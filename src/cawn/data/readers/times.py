"""The times of the files of a log: one kind in each file, one type and unit for all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from cawn.checks import Array
from cawn.data.columns import Column, steps
from cawn.data.readers.tables import TIME_KINDS, TableColumn
from cawn.data.reading import Unit
from cawn.data.times import PER_SECOND, DateUnits, calendar_dates, check_span, dates_in_unit
from cawn.errors import DataError

_CALENDAR = "calendar"  # integers such as 20160123, for dates


class FileTimes:
    """The times of one file as they are stored while it is read, 8 bytes each: integers, floats or ticks of dates."""

    def __init__(self, name: str, rounds: bool) -> None:
        """`rounds`: whether the file, of this name, is parsed so that large integers may have become floats."""
        self.name, self.units, self._rounds = name, DateUnits(), rounds
        self.rounded: DataError | None = None  # for the first integer that float64 would round
        self._pieces: list[tuple[str, int]] = []  # the type and number of consecutive times
        self._all_calendar = True  # whether all are integers such as 20160123
        self._kinds: tuple[pa.DataType, ...] = TIME_KINDS  # that further text may have
        self._first: TableColumn | None = None  # the first value

    def add(self, column: TableColumn) -> Array:
        """The times of a piece, as they are stored."""
        times = (self._parsed(column) if column.is_text else column).times()
        if times.dtype.kind == "M":
            self.units.add(times)
        elif self._rounds if times.dtype.kind == "f" else self.rounded is None:
            try:
                column.refuse_rounded(times)
            except DataError as error:
                if times.dtype.kind == "f":
                    raise
                self.rounded = error
        self._all_calendar &= times.dtype.kind == "i" and not np.isnat(calendar_dates(times)).any()
        self._pieces.append((times.dtype.str, len(times)))
        return times.view(np.int64)

    def _parsed(self, column: TableColumn) -> TableColumn:
        """Text as numbers, or as dates that are alike in all pieces but for their precision."""
        self._first = self._first or column.slice(0, 1)
        parsed = column.parsed_times(self._kinds)
        if parsed is None:
            raise column.misfit(self._first, self._kinds)
        if pa.types.is_timestamp(parsed.type):
            coarser = TIME_KINDS[TIME_KINDS.index(parsed.type) :]
            self._kinds = tuple(kind for kind in coarser if kind.tz == parsed.type.tz)
        else:
            self._kinds = (pa.int64(), pa.float64())
        return parsed

    @property
    def has_dates(self) -> bool:
        return self._all_calendar or self._pieces[0][0][1] == "M"

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of these times on their own, in seconds if they are dates."""
        return self.units.dtype if self.has_dates else np.result_type(*{kind for kind, _ in self._pieces})

    def blocks(self, size: int) -> Iterator[tuple[str, int]]:
        """Consecutive times, at most `size`, that are stored alike: how, and how many."""
        for kind, rows in self._pieces:
            for _, count in steps(rows, size):
                yield _CALENDAR if self._all_calendar else kind, count


def join_times(files: Sequence[FileTimes], column: Column, block: int) -> tuple[Unit, bool]:
    """Turn the stored times of all files into the numbers that events have: their unit, and whether they are sorted."""
    unit, dtype = _common_type(files)
    row, last, is_sorted, bounds = 0, None, True, list[Any]()
    for kind, count in chain.from_iterable(file.blocks(block) for file in files):
        t = column.read(row, count)
        if kind == _CALENDAR or kind[1] == "M":
            dates = calendar_dates(t.view(np.int64)) if kind == _CALENDAR else t.view(kind)
            t = dates_in_unit(dates, unit, dtype)
        else:
            t = t.view(kind).astype(dtype)
        if kind != dtype.str:
            column.replace(row, t.view(np.int64))
        is_sorted = is_sorted and (last is None or t[0] >= last) and bool((t[1:] >= t[:-1]).all())
        row, last = row + count, t[-1]
        bounds += [t.min(), t.max()]
    column.retype(dtype)
    check_span(np.array(bounds, dtype))
    return unit, is_sorted


def _common_type(files: Sequence[FileTimes]) -> tuple[Unit, np.dtype[Any]]:
    """The finest unit of dates, and a type for the times of all files that rounds none."""
    unit = max((file.units.unit for file in files), key=PER_SECOND.__getitem__)
    is_float = unit == "s" and any(file.dtype.kind == "f" for file in files)
    for file in files:
        if is_float and file.rounded and not file.has_dates:
            raise file.rounded
        try:
            file.units.check(unit)
        except DataError as error:
            raise DataError(f"{file.name}: {error}") from error
    return unit, np.dtype(np.float64 if is_float else np.int64)
