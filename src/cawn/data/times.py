"""Times as users give them in a question -> numbers in the unit of the data."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cawn.data.dates import PER_SECOND, calendar_dates, dates_of, in_unit, is_unix_seconds
from cawn.data.events import Events, as_array
from cawn.data.readers.tables import Source, as_times
from cawn.data.reading import Reading
from cawn.errors import DataError, QueryError, brief
from cawn.walks.sampling import query_times

Array = npt.NDArray[Any]

_YEAR = 365.2425 * 86_400  # seconds
_UNITS = {10**3: "milliseconds", 10**6: "microseconds", 10**9: "nanoseconds"}


def times_of_queries(t: Any, held: Array, reading: Reading) -> Array:
    """Times in the type and unit of the data's, `held` (in order, as `reading` says).

    Numbers are in the data's unit. Where the data has dates (`reading.dates`, or numbers that can only be Unix
    seconds), dates may be given as well: datetime64, ISO text, or integers such as 20160123; a bare year is refused.
    Warns where a time is far from all of the data: with dates more than a century and more than the data's span,
    with other numbers more than ten spans; or where it fits the data once its unit is changed.

    Raises:
        QueryError: for what is no time, has another type than the data's times, or is too far away to be counted.
    """
    values = as_array(t, "t")
    shape, values = values.shape, values.reshape(-1)
    if values.dtype.kind in "UO":
        values = _parsed(values, t)
    if values.dtype.kind == "M":
        times = _from_dates(values, held, reading)
    elif values.dtype.kind in "iuf" and _has_dates(held, reading):
        times = _numbers_or_dates(values, held, reading)
    else:
        times = query_times(values, held.dtype)
    if times.size and held.size:
        _refuse_overflow(times, held)
        _warn_if_far(times, held, reading)
    return times.reshape(shape)


def times_of_links(new: Events, held: Events) -> Array:
    """The times of new links in the type and unit of those that are held."""
    mine, theirs = new.reading or Reading(), held.reading or Reading()
    if mine.dates and len(new) and not _has_dates(held.t, theirs):
        raise DataError("the new links have dates, but the data's times are plain numbers; give numbers")
    if not mine.dates or mine.unit == theirs.unit:
        return query_times(new.t, held.t.dtype)
    dates = dates_of(new.t, mine.unit)
    return in_unit(dates, theirs.unit, held.t.dtype)


def _has_dates(held: Array, reading: Reading) -> bool:
    return reading.dates or (held.size > 0 and is_unix_seconds(held[0]) and is_unix_seconds(held[-1]))


def _parsed(values: Array, given: Any) -> Array:
    """Text (or objects that are written as such) as numbers or dates."""
    try:
        column = pa.chunked_array([pa.array([str(value) for value in values.tolist()], pa.string())])
        return as_times(column, "t", Source("t"))
    except (DataError, ValueError) as error:  # the latter of text that is not Unicode, and of integers too long
        raise QueryError(
            f"t is {brief(given)}: give numbers in the data's unit of time, or ISO dates such as 2016-01-23"
        ) from error


def _from_dates(dates: Array, held: Array, reading: Reading) -> Array:
    if not _has_dates(held, reading):
        span = f" from {held[0]} to {held[-1]}" if held.size else ""
        raise QueryError(f"t is {dates[0]}, a date, but the data's times are plain numbers{span}; give a number")
    try:
        return in_unit(dates, reading.unit, held.dtype)
    except DataError as error:
        raise QueryError(f"t: {error}") from error


def _numbers_or_dates(values: Array, held: Array, reading: Reading) -> Array:
    """Numbers, those outside of the data that look like a date read as that date, a year refused."""
    outside = (values < held[0]) | (values > held[-1]) if held.size else np.ones(len(values), bool)
    years = outside & (values >= 1900) & (values < 2200) & (values == np.floor(values))
    if years.any():
        year = int(values[np.argmax(years)])
        raise QueryError(f"t is {year}: if that is a year, write a date, such as {year}-01-01")
    dates = calendar_dates(values)
    written = outside & ~np.isnat(dates)
    times = np.empty(len(values), held.dtype)
    times[written] = _from_dates(dates[written], held, reading)
    times[~written] = query_times(values[~written], held.dtype)
    return times


def _refuse_overflow(times: Array, held: Array) -> None:
    """Refuse a time whose distance from the data its type cannot hold: no age could be computed."""
    largest = np.iinfo(np.int64).max if held.dtype.kind == "i" else float(np.finfo(np.float64).max)
    for t in (times.min().item(), times.max().item()):
        if max(t - held[0].item(), held[-1].item() - t) > largest:
            raise QueryError(
                f"t is {t}: further from the data ({held[0]} to {held[-1]}) than {held.dtype} can count; "
                "ask about a nearer time"
            )


def _warn_if_far(times: Array, held: Array, reading: Reading) -> None:
    first, last = held[0].item(), held[-1].item()
    span = last - first
    dates = _has_dates(held, reading)
    century = 100 * _YEAR * PER_SECOND[reading.unit]
    limit = max(span, century) if dates else 10 * span if span > 0 else float("inf")
    early, late = times.min().item(), times.max().item()
    t, distance = max((early, first - early), (late, late - last), key=lambda pair: pair[1])
    cause = _cause(t, first, last) if distance > span else ""
    if distance > limit or cause:
        spans = f"{_rounded(distance / (span or 1))} times the data's span"
        size = f"{_rounded(100 * distance / century)} years" if dates else spans
        side = "after the last" if t > last else "before the first"
        warnings.warn(
            f"t is {t}: {size} {side} link ({last if t > last else first}){cause}",
            UserWarning,
            stacklevel=4,
        )


def _cause(t: float, first: float, last: float) -> str:
    """The likely mistake behind a time that would fit the data in another unit."""
    span = last - first
    if min(abs(first), abs(last)) <= span:
        return ""  # numbers near 0 fit in any unit
    for factor, unit in _UNITS.items():
        if first - span <= t / factor <= last + span:
            return f"; about {factor:,} times the data's times: {unit}?"
        if first - span <= t * factor <= last + span:
            return f"; about 1/{factor:,} of the data's times, which may be {unit}"
    return ""


def _rounded(number: float) -> str:
    """Two digits, so that the message is the same for times close together."""
    return f"{float(f'{number:.2g}'):,.0f}"
