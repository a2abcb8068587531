"""Dates as numbers, and back into the unit of other numbers, without rounding."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.data.reading import Unit
from cawn.errors import DataError

Dates = npt.NDArray[np.datetime64]

PER_SECOND: dict[Unit, int] = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_EARLIEST, _LATEST = 3.0e8, 4.0e9  # Unix seconds from 1979 to 2096: likely dates
_COARSE = ("Y", "M", "W", "D", "h", "m")


def numbers_of(dates: Dates) -> tuple[npt.NDArray[Any], Unit]:
    """Dates as Unix time, and its unit: whole seconds as int64, fractions as float64 where none is rounded.

    Where float64 seconds would make two different dates equal, int64 in the coarsest unit that holds all of them.
    """
    whole, ticks = _parts(dates)
    if not ticks.any():
        return whole, "s"
    rounded = whole + ticks / PER_SECOND["ns"]
    if _restored(rounded, whole, ticks):
        return rounded, "s"
    unit: Unit = next(unit for unit in ("ms", "us", "ns") if not (ticks % (10**9 // PER_SECOND[unit])).any())
    return _in_ticks(whole, ticks, unit), unit


def in_unit(dates: Dates, unit: Unit, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Dates as numbers of this unit and type; raises DataError where these cannot hold them exactly."""
    whole, ticks = _parts(dates)
    if dtype.kind == "f":
        rounded = whole + ticks / PER_SECOND["ns"]
        if not _restored(rounded, whole, ticks):
            raise DataError("dates finer than the data's times, which are seconds in float64, can tell apart")
        return np.asarray(rounded)
    if (ticks % (10**9 // PER_SECOND[unit])).any():
        raise DataError(f"dates finer than the data's times, which are whole numbers of {unit}")
    return _in_ticks(whole, ticks, unit)


def dates_of(numbers: npt.NDArray[Any], unit: Unit) -> Dates:
    """The dates that numbers of this unit stand for; those of float64 to the microsecond."""
    if numbers.dtype.kind == "i":
        return np.asarray(numbers.astype(f"datetime64[{unit}]"))
    whole = np.floor(numbers)
    fraction = np.rint((numbers - whole) * 10**6).astype("timedelta64[us]")
    return np.asarray(whole.astype(np.int64).astype("datetime64[s]") + fraction)


def is_unix_seconds(t: float) -> bool:
    """Whether a number can hardly be anything but a date in Unix seconds."""
    return bool(_EARLIEST < t < _LATEST)


def calendar_dates(numbers: npt.NDArray[Any]) -> Dates:
    """The dates that whole numbers such as 20160123 stand for (1900 to 2199), NaT where one stands for none."""
    dates = np.full(numbers.shape, "NaT", "datetime64[D]")
    candidates = (numbers >= 1900_01_01) & (numbers <= 2199_12_31) & (numbers == np.floor(numbers))
    if not candidates.any():
        return dates
    given = numbers[candidates].astype(np.int64)
    year, month, day = given // 10_000, given // 100 % 100, given % 100
    first = (12 * (year - 1970) + month - 1).astype("datetime64[M]")
    following = first + np.timedelta64(1, "M")
    length = (following.astype("datetime64[D]") - first.astype("datetime64[D]")).astype(np.int64)
    valid = (month >= 1) & (month <= 12) & (day >= 1) & (day <= length)
    found = first.astype("datetime64[D]") + (day - 1).astype("timedelta64[D]")
    found[~valid] = np.datetime64("NaT", "D")
    dates[candidates] = found
    return dates


def _parts(dates: Dates) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Whole seconds, rounded down, and the nanoseconds that follow."""
    missing = np.isnat(dates)
    if missing.any():
        raise DataError(f"t[{int(np.argmax(missing))}] is NaT: every link needs a time")
    unit, _ = np.datetime_data(dates.dtype)
    if unit in ("ps", "fs", "as") or (unit in _COARSE and (np.abs(dates.astype(np.int64)) > 2**40).any()):
        raise DataError(f"t is {dates.dtype} beyond the range of seconds; use seconds, milliseconds or nanoseconds")
    whole = dates.astype("datetime64[s]")
    return whole.astype(np.int64), (dates - whole).astype("timedelta64[ns]").astype(np.int64)


def _restored(rounded: npt.NDArray[Any], whole: npt.NDArray[np.int64], ticks: npt.NDArray[np.int64]) -> bool:
    """Whether the nanoseconds can be told from float64 seconds."""
    finest = next(step for step in (10**6, 10**3, 1) if not (ticks % step).any())
    return bool((np.rint((rounded - whole) * (10**9 // finest)) == ticks // finest).all())


def _in_ticks(whole: npt.NDArray[np.int64], ticks: npt.NDArray[np.int64], unit: Unit) -> npt.NDArray[np.int64]:
    factor = PER_SECOND[unit]
    if (np.abs(whole.astype(np.float64)) * factor >= 2.0**63 - 1024).any():
        raise DataError(f"dates beyond what int64 can count in {unit}; use coarser dates")
    return np.asarray(whole * factor + ticks // (10**9 // factor))
