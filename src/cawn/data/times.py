"""Times: dates <-> numbers without rounding, and times as text."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.checks import as_array, refuse_values
from cawn.data.reading import Reading, Unit
from cawn.errors import DataError, QueryError

Array = npt.NDArray[Any]
Dates = npt.NDArray[np.datetime64]

PER_SECOND: dict[Unit, int] = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_COARSE = ("Y", "M", "W", "D", "h", "m")
_EARLIEST, _LATEST = 3.0e8, 4.0e9  # Unix seconds from 1979 to 2096: likely dates
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
    if t.size and t.max().item() - t.min().item() > LARGEST[t.dtype.kind]:
        raise DataError(f"t spans more than {t.dtype} can hold; use a coarser unit of time")


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


# Times as text.


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
