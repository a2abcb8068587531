"""How a run writes times: times as users give them, in the type and unit of its data."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.checks import as_array
from cawn.data.events import Events
from cawn.data.reading import Reading, Unit
from cawn.data.times import (
    LARGEST,
    PER_SECOND,
    calendar_dates,
    cast_times,
    dates_in_unit,
    is_unix_seconds,
    numbers_to_dates,
)
from cawn.errors import DataError, QueryError, brief

Array = npt.NDArray[Any]

_FINER_UNITS = {10**3: "milliseconds", 10**6: "microseconds", 10**9: "nanoseconds"}
_CENTURY = 100 * 365.2425 * 86_400  # seconds
_FIRST_YEAR, _LAST_CALENDAR = 1900, 2199_12_31  # between them, an integer may be a year or a date such as 20160123
SPANS = 10  # a time that is farther from the data than so many times its span is unlikely


@dataclass(frozen=True, slots=True)
class TimeForm:
    """How a run writes times: a fact of its training data, so that a time always means the same.

    Numbers are in the data's unit. Where the data has dates, or numbers that can only be Unix seconds, dates are
    accepted as well: datetime64, ISO text, or integers such as 20160123 outside the range of the training data.

    Args:
        dates: Whether dates are accepted.
        unit: The unit of times that were dates.
        dtype: "int64" or "float64".
        first: The first time of the training data; None without links.
        last: The last one.
    """

    dates: bool
    unit: Unit
    dtype: str
    first: int | float | None = None
    last: int | float | None = None

    @classmethod
    def of(cls, t: Array, reading: Reading) -> TimeForm:
        """That of the times of a training [E], in ascending order."""
        first, last = (t[0].item(), t[-1].item()) if len(t) else (None, None)
        return cls.between(first, last, str(t.dtype), reading)

    @classmethod
    def between(cls, first: Any, last: Any, dtype: str, reading: Reading) -> TimeForm:
        """That of a training with these first and last times, both None without links."""
        dates = reading.dates or (first is not None and is_unix_seconds(first) and is_unix_seconds(last))
        return cls(dates, reading.unit, dtype, first, last)

    def parse(self, t: Any) -> Array:
        """Times as users write them, in the type and unit of the data; any shape.

        Raises:
            QueryError: for what is not a time, or would be rounded, and for a bare year.
        """
        dtype = np.dtype(self.dtype)
        if isinstance(t, list):
            if self._are_plain(t):
                return np.asarray(np.array(t, dtype) + dtype.type(0))
            if _are_mixed(t):
                return np.concatenate([np.empty(0, dtype), *(self.parse(each).reshape(-1) for each in t)])
        values = as_array(t, "t")
        shape, values = values.shape, values.reshape(-1)
        if values.dtype.kind in "UO":
            values = _parse_text(values, t)
        if values.dtype.kind == "M":
            times = self._of_dates(values)
        elif values.dtype.kind in "iuf" and self.dates:
            times = self._numbers_or_dates(values)
        else:
            times = cast_times(values, dtype)
        return np.asarray(times.reshape(shape))

    def shown(self, t: Any) -> str:
        """A time for a message, with its date if there are dates."""
        return f"{t} ({numbers_to_dates(np.array([t], self.dtype), self.unit)[0]})" if self.dates else str(t)

    def convert(self, new: Events) -> Array:
        """The times of other events, which were read in their own way."""
        theirs = new.reading or Reading()
        if theirs.dates and len(new) and not self.dates:
            raise DataError("the new links have dates, but the data's times are plain numbers; give numbers")
        if not theirs.dates or theirs.unit == self.unit:
            return cast_times(new.t, np.dtype(self.dtype))
        return dates_in_unit(numbers_to_dates(new.t, theirs.unit), self.unit, np.dtype(self.dtype))

    def _are_plain(self, t: list[Any]) -> bool:
        """Whether these are numbers that stand for themselves; most are."""
        if set(map(type, t)) != {int if self.dtype == "int64" else float}:
            return False
        low, high = min(t), max(t)
        return -(2**63) <= low <= high < 2**63 and (not self.dates or low > _LAST_CALENDAR or high < _FIRST_YEAR)

    def _of_dates(self, dates: Array) -> Array:
        if not self.dates:
            span = f" from {self.first} to {self.last}" if self.first is not None else ""
            raise QueryError(f"t is {dates[0]}, a date, but the data's times are plain numbers{span}; give a number")
        try:
            return dates_in_unit(dates, self.unit, np.dtype(self.dtype))
        except DataError as error:
            raise QueryError(f"t: {error}") from error

    def _numbers_or_dates(self, values: Array) -> Array:
        """Numbers; one outside the range of the training data that looks like a date is that date. Refuses a year."""
        outside = np.ones(len(values), bool)
        if self.first is not None:
            outside = (values < self.first) | (values > self.last)
        years = outside & (values >= _FIRST_YEAR) & (values < 2200) & (values == np.floor(values))
        if years.any():
            year = int(values[np.argmax(years)])
            raise QueryError(f"t is {year}: if that is a year, write a date, such as {year}-01-01")
        dates = calendar_dates(values)
        is_date = outside & ~np.isnat(dates)
        times = np.empty(len(values), self.dtype)
        times[is_date] = self._of_dates(dates[is_date])
        times[~is_date] = cast_times(values[~is_date], np.dtype(self.dtype))
        return times


def parse_query_times(t: Any, held: Array, form: TimeForm) -> Array:
    """Times of a query about links at the times `held` (sorted).

    Warns about a time far from all of them (with dates: more than a century and more than the span of the links; with
    other numbers: more than ten spans), and about one that would fit the data in another unit.

    Raises:
        QueryError: as for `TimeForm.parse`, and for a time that is too far away to compute an age.
    """
    times = form.parse(t)
    if times.size and held.size:
        _refuse_overflow(times, held)
        if far := describe_far(times, held, form):
            warnings.warn(far, UserWarning, stacklevel=3)
    return times


def _are_mixed(t: list[Any]) -> bool:
    """Whether an array would make these times mean something else than each means alone."""
    kinds = set(map(type, t))
    if kinds == {int, float}:
        return any(isinstance(each, int) and abs(each) > 2**53 for each in t)
    return len(kinds) > 1


def _parse_text(values: Array, given: Any) -> Array:
    """Text, or objects written as text, as numbers or dates."""
    from cawn.data.readers.tables import parse_times  # whose package imports this module

    try:
        return parse_times([str(value) for value in values.tolist()])
    except (DataError, ValueError) as error:  # ValueError: text that is not Unicode, integers that are too long
        raise QueryError(
            f"t is {brief(given)}: give numbers in the data's unit of time, or ISO dates such as 2016-01-23"
        ) from error


def _refuse_overflow(times: Array, held: Array) -> None:
    """Refuse a time whose distance from the data overflows its type: no age could be computed."""
    first, last = held[0].item(), held[-1].item()
    for each in (times.min().item(), times.max().item()):
        if max(each - first, last - each) > LARGEST[held.dtype.kind]:
            raise QueryError(
                f"t is {each}: its distance from the data ({first} to {last}) overflows {held.dtype}; "
                "ask about a nearer time"
            )


def describe_far(times: Array, held: Array, form: TimeForm) -> str:
    """What is unlikely about times that are far from those of the links; empty if nothing is."""
    first, last = held[0].item(), held[-1].item()
    span = last - first
    century = _CENTURY * PER_SECOND[form.unit]
    limit = max(span, century) if form.dates else SPANS * span if span > 0 else float("inf")
    early, late = times.min().item(), times.max().item()
    t, distance = max((early, first - early), (late, late - last), key=lambda pair: pair[1])
    cause = likely_unit(t, first, last) if distance > span else ""
    if distance > limit or cause:
        spans = f"{_rounded(distance / (span or 1))} times the data's span"
        size = f"{_rounded(100 * distance / century)} years" if form.dates else spans
        side = "after the last" if t > last else "before the first"
        return f"t is {t}: {size} {side} link ({last if t > last else first}){cause}"
    return ""


def likely_unit(t: float, first: float, last: float) -> str:
    """A hint, for a time that would fit the data in another unit."""
    span = last - first
    if min(abs(first), abs(last)) <= span:
        return ""  # numbers near 0 fit in any unit
    for factor, unit in _FINER_UNITS.items():
        if first - span <= t / factor <= last + span:
            return f"; about {factor:,} times the data's times: {unit}?"
        if first - span <= t * factor <= last + span:
            return f"; about 1/{factor:,} of the data's times, which may be {unit}"
    return ""


def _rounded(number: float) -> str:
    """Two digits, so that nearby times give the same message (which Python then shows once)."""
    return f"{float(f'{number:.2g}'):,.0f}"
