"""Times: dates <-> numbers without rounding, times as text, and how a run writes them."""

from __future__ import annotations

import math
import sys
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.checks import Array, as_array, refuse_values
from cawn.data.reading import Reading, Unit
from cawn.errors import DataError, QueryError, brief

Dates = npt.NDArray[np.datetime64]

PER_SECOND: dict[Unit, int] = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_COARSE = ("Y", "M", "W", "D", "h", "m")
_EARLIEST, _LATEST = 3.0e8, 4.0e9  # Unix seconds from 1979 to 2096: likely dates
_FINER_UNITS = {10**3: "milliseconds", 10**6: "microseconds", 10**9: "nanoseconds"}
_CENTURY = 100 * 365.2425 * 86_400  # seconds
_FIRST_YEAR, _LAST_CALENDAR = 1900, 2199_12_31  # between them, an integer may be a year or a date such as 20160123
SPANS = 10  # a time that is farther from the data than so many times its span is unlikely
LARGEST = {"i": int(np.iinfo(np.int64).max), "f": sys.float_info.max}  # of the types of times


# Arrays of times.


def as_times(t: npt.ArrayLike) -> Array:
    """Times of links as int64 or float64 [E]; DataError where they are missing, not finite or already rounded."""
    times = as_array(t, "t")
    if times.size == 0:
        times = times.reshape(-1).astype(np.float64 if times.dtype.kind == "f" and times.ndim else np.int64)
    if times.ndim != 1:
        raise DataError(f"t has shape {times.shape}, expected one time for each link")
    if times.dtype.kind == "M":
        times, unit = dates_to_numbers(times)
        if unit != "s":
            raise DataError(f"t holds dates that seconds in float64 would round; give integers, in {unit}")
    if times.dtype.kind == "f":
        if times.dtype.itemsize < 8:
            raise DataError(f"t is {times.dtype}, which rounds Unix seconds to minutes; use float64 or int64")
        with np.errstate(over="ignore"):
            times = times.astype(np.float64) + 0.0  # -0.0 is 0.0
        refuse_values(~np.isfinite(times), times, "t", "every link needs a finite time")
    elif times.dtype.kind in "iu":
        refuse_values(times > LARGEST["i"], times, "t", "times must fit into int64")
        times = times.astype(np.int64)
    else:
        raise DataError(f"t is {times.dtype}, expected integers, float64 or datetime64")
    check_span(times)
    return times


def check_span(t: Array) -> None:
    """Refuse times whose differences overflow their type."""
    if t.size:
        check_bounds(t.min().item(), t.max().item(), t.dtype)


def check_bounds(first: Any, last: Any, dtype: np.dtype[Any]) -> None:
    """The same, given the first and the last of the times."""
    if last - first > LARGEST[dtype.kind]:
        raise DataError(f"t spans more than {dtype} can hold; use a coarser unit of time")


def usual(t: Array) -> slice:
    """The links at times t [E], ascending, without those that are dated far from all others.

    These are at most one in a hundred at either end, beyond a pause longer than the whole time of the other 98 %. The
    rule does not depend on the unit of time; most networks have no such links.
    """
    few, first, last = len(t) // 100, 0, len(t)
    if few:
        period = t[-1 - few] - t[few]
        if t[few] - t[0] > period > 0:
            first = int(np.flatnonzero(np.append(True, np.diff(t[: few + 1]) > period))[-1])
        if t[-1] - t[-1 - few] > period > 0:
            last -= few - int(np.argmax(np.append(np.diff(t[-1 - few :]) > period, True)))
    return slice(first, last)


def cast_times(t: npt.ArrayLike, dtype: np.dtype[Any]) -> Array:
    """Times of queries in the type of the events' times; QueryError where that would change them."""
    times = as_array(t, "t")
    if times.size == 0:
        return times.astype(dtype)
    if times.dtype.kind not in "iuf":
        raise QueryError(f"t: found {times.dtype}, expected numbers in the unit of the events' times")
    if times.dtype == np.float32 or times.dtype == np.float16:
        raise QueryError(f"t is {times.dtype}, which rounds times; use float64 or int64")
    if times.dtype.kind == "f" and not np.isfinite(times).all():
        raise QueryError("t holds NaN or infinity; every query needs a finite time")
    with np.errstate(over="ignore", invalid="ignore"):
        found = times.astype(dtype) + 0  # -0.0 and 0.0 are the same time
        exact = times.dtype.kind == dtype.kind or (
            (np.abs(times.astype(np.float64)) < 2.0**63).all() and (found.astype(times.dtype) == times).all()
        )
    if not exact and dtype.kind == "f":
        raise QueryError("t holds integers that float64, the type of the events' times, would round")
    if not exact:
        raise QueryError("t has fractions or is out of range, but the events' times are int64; query at whole times")
    return found


# Dates and numbers.


def dates_to_numbers(dates: Dates) -> tuple[Array, Unit]:
    """Dates as Unix time, and its unit.

    Seconds: int64, or float64 where there are fractions. Where float64 would make two different dates equal: int64 in
    the coarsest unit that represents all dates exactly.
    """
    units = DateUnits()
    units.add(dates)
    return dates_in_unit(dates, units.unit, units.dtype), units.unit


def dates_in_unit(dates: Dates, unit: Unit, dtype: np.dtype[Any]) -> Array:
    """Dates as Unix time in this unit and type; DataError where that would round them."""
    whole, nanoseconds = _split_seconds(dates)
    if dtype.kind == "f":
        if not _is_exact(whole, nanoseconds, _step_of(nanoseconds)):
            raise DataError("dates are finer than the data's times, which are seconds in float64")
        return np.asarray(whole + nanoseconds / 10**9)
    if (nanoseconds % (10**9 // PER_SECOND[unit])).any():
        raise DataError(f"dates are finer than the data's times, which are whole numbers of {unit}")
    return _in_ticks(whole, nanoseconds, unit)


class DateUnits:
    """The unit that represents dates without rounding them, found piece by piece."""

    def __init__(self) -> None:
        self._step = 10**9  # nanoseconds that divide every fraction of a second
        self._kept = 1  # nanoseconds: float64 seconds keep fractions that are multiples of it
        self._range = (0, 0)  # of the whole seconds

    def add(self, dates: Dates) -> None:
        """Take further dates into account."""
        whole, nanoseconds = _split_seconds(dates)
        if not len(whole):
            return
        low, high = self._range
        self._range = min(low, int(whole.min())), max(high, int(whole.max()))
        if nanoseconds.any():
            self._step = min(self._step, _step_of(nanoseconds))
            while self._kept < 10**9 and not _is_exact(whole, nanoseconds, self._kept):
                self._kept *= 10**3

    @property
    def unit(self) -> Unit:
        """The unit: seconds, unless float64 would round them."""
        if self._step >= self._kept:
            return "s"
        return next(unit for unit, factor in PER_SECOND.items() if factor * self._step == 10**9)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the numbers: float64 for seconds with fractions."""
        return np.dtype(np.float64 if self.unit == "s" and self._step < 10**9 else np.int64)

    def check(self, unit: Unit) -> None:
        """Refuse dates that int64 cannot hold in this unit."""
        if unit != "s":
            _in_ticks(np.array(self._range), np.zeros(2, np.int64), unit)


def numbers_to_dates(numbers: Array, unit: Unit) -> Dates:
    """Unix time in this unit as dates; float64 is rounded to microseconds."""
    if numbers.dtype.kind == "i":
        return np.asarray(numbers.astype(f"datetime64[{unit}]"))
    whole = np.floor(numbers)
    fraction = np.rint((numbers - whole) * 10**6).astype("timedelta64[us]")
    return np.asarray(whole.astype(np.int64).astype("datetime64[s]") + fraction)


def calendar_dates(numbers: Array) -> Dates:
    """Integers such as 20160123 as dates (1900 to 2199); NaT where a number is not such a date."""
    dates = np.full(numbers.shape, "NaT", "datetime64[D]")
    candidates = (numbers >= 1900_01_01) & (numbers <= 2199_12_31) & (numbers == np.floor(numbers))
    if not candidates.any():
        return dates
    given = numbers[candidates].astype(np.int64)
    year, month, day = given // 10_000, given // 100 % 100, given % 100
    first = (12 * (year - 1970) + month - 1).astype("datetime64[M]")
    found = first.astype("datetime64[D]") + (day - 1).astype("timedelta64[D]")
    found[(month < 1) | (month > 12) | (found.astype("datetime64[M]") != first)] = np.datetime64("NaT", "D")
    dates[candidates] = found
    return dates


def is_unix_seconds(t: float) -> bool:
    """Whether a number is almost certainly a date in Unix seconds."""
    return bool(_EARLIEST < t < _LATEST)


def _split_seconds(dates: Dates) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Whole seconds, rounded down, and the remaining nanoseconds."""
    missing = np.isnat(dates)
    if missing.any():
        raise DataError(f"t[{int(np.argmax(missing))}] is NaT: every link needs a time")
    unit, _ = np.datetime_data(dates.dtype)
    if unit in ("ps", "fs", "as") or (unit in _COARSE and (np.abs(dates.astype(np.int64)) > 2**40).any()):
        raise DataError(f"t is {dates.dtype} beyond the range of seconds; use seconds, milliseconds or nanoseconds")
    whole = dates.astype("datetime64[s]")
    return whole.astype(np.int64), (dates - whole).astype("timedelta64[ns]").astype(np.int64)


def _step_of(nanoseconds: npt.NDArray[np.int64]) -> int:
    """The most nanoseconds, of a unit, that divide all of these."""
    return next(step for step in (10**9, 10**6, 10**3, 1) if not (nanoseconds % step).any())


def _is_exact(whole: npt.NDArray[np.int64], nanoseconds: npt.NDArray[np.int64], step: int) -> bool:
    """Whether the nanoseconds, multiples of `step` or of what divides them, can be recovered from float64 seconds."""
    rounded = whole + nanoseconds / 10**9
    return bool((np.rint((rounded - whole) * (10**9 // step)) == nanoseconds / step).all())


def _in_ticks(whole: npt.NDArray[np.int64], nanoseconds: npt.NDArray[np.int64], unit: Unit) -> npt.NDArray[np.int64]:
    factor = PER_SECOND[unit]
    if (np.abs(whole.astype(np.float64)) * factor >= 2.0**63 - 1024).any():
        raise DataError(f"dates out of the range of int64 in {unit}; use coarser dates")
    return np.asarray(whole * factor + nanoseconds // (10**9 // factor))


def time_after(newest: int | float | None) -> int | float:
    """The earliest time at which a link at `newest`, the newest one, is visible: the default time of a query."""
    if newest is None:
        raise QueryError("there are no links yet, so the time has no default; give one")
    if isinstance(newest, int):
        return min(newest + 1, LARGEST["i"])
    return min(math.nextafter(newest, math.inf), LARGEST["f"])


def format_time(t: float) -> str:
    """A date where the number looks like Unix seconds, else the number."""
    if not is_unix_seconds(t):
        return str(t) if isinstance(t, int) else f"{t:.15g}"
    text = str(numbers_to_dates(np.asarray(t), "s"))
    return (text.rstrip("0").rstrip(".") if "." in text else text).removesuffix("T00:00:00")


def format_as_read(t: float, reading: Reading | None) -> str:
    """A date where the data was read with dates, else the number."""
    if reading is None or not reading.dates:
        return repr(t)
    if isinstance(t, float):
        return format_time(t)
    return str(np.datetime64(t, reading.unit)).removesuffix("T00:00:00")


@dataclass(frozen=True, slots=True)
class TimeForm:
    """How a run writes times: a fact of its training data, so that a time always means the same.

    Numbers are in the data's unit. Where the data has dates, or numbers that can only be Unix seconds, dates are
    accepted as well: datetime64, ISO text, or integers such as 20160123 outside the range of the training data.
    """

    dates: bool  # whether dates are accepted
    unit: Unit  # of times that were dates
    dtype: str  # "int64" or "float64"
    first: int | float | None = None  # time of the training data; None without links
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

    def convert(self, new: Any) -> Array:
        """The times of other `Events`, which were read in their own way."""
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
