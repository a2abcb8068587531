"""The time axis of a drawing: where the links of walks stand on it, and its ticks.

The axis is linear in time, or logarithmic in the age of a link at the time in question, which spreads recent links.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from cawn.data.times import PER_SECOND
from cawn.explain.drawing import text_width

AxisKind = Literal["logarithmic", "linear"]
Tick = tuple[float, str]  # x and text

KINDS: tuple[AxisKind, ...] = ("logarithmic", "linear")
GAP = 10.0  # pixels between two links
BEFORE: dict[AxisKind, float] = {"logarithmic": 34.0, "linear": 12.0}  # pixels between links and the one in question
SIZE = 11  # of the letters of ticks
_MINUTE, _HOUR, _DAY, _YEAR = 60, 3_600, 86_400, 365.25 * 86_400
_DATE = re.compile(r"-?\d{4,}-\d\d-\d\d")
_UNITS = ((_YEAR, "year"), (_DAY, "day"), (_HOUR, "hour"), (_MINUTE, "minute"), (1, "second"))
_COUNTS = {  # of ages that may be ticks, the most welcome ones first
    "year": (1, 10, 100, 3, 2, 5, 20, 50),
    "day": (1, 30, 7, 3, 100, 2, 5, 14, 10, 20, 60),
    "hour": (1, 6, 12, 3, 2),
    "minute": (1, 10, 30, 5, 2, 20),
    "second": (1, 10, 30, 5, 2, 20),
}
_SMALL_UNITS = ((1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, *(_HOUR * n for n in (1, 2, 3, 6, 12)))
_DAYS = (1, 2, 5, 10)
_MONTHS = (1, 2, 3, 6, *(12 * n for n in (1, 2, 5, 10, 20, 50, 100)))


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """Positions on an axis, from the oldest link to the one in question at the right end."""

    kind: AxisKind
    true: list[float]  # x of each link by its time
    x: list[float]  # the same, with neighbours moved apart
    ticks: list[Tick]
    label: str
    ends: tuple[float, float]  # x of its left end, and that of the link in question

    @property
    def moved(self) -> float:
        """How far the links were moved from their true places, in total."""
        return sum(abs(a - b) for a, b in zip(self.x, self.true, strict=True))


def better_axis(axes: list[TimeAxis]) -> TimeAxis:
    """The axis on which links are spread best: they had to be moved least. If in doubt, it is the linear one."""
    return min(axes, key=lambda axis: (round(axis.moved), axis.kind != "linear"))


def time_axis(
    kind: AxisKind, times: list[int | float], now: int | float, text: str, ends: tuple[float, float]
) -> TimeAxis:
    """An axis for links at these times, in order, before the time `now`.

    Args:
        text: `now` as text; a date tells in which unit times are.
        ends: See `TimeAxis`.
    """
    left, end = ends
    right, unit = end - BEFORE[kind], seconds_per_unit(now, text)
    if kind == "linear":
        place, ticks = _linear(times, now, unit, ends)
        label = f"time, linear scale, up to {text}"
    else:
        place, ticks = _logarithmic(times, now, unit, (left, right))
        label = f"age at {text}, logarithmic scale"
    true = [place(t) for t in times]
    return TimeAxis(kind, true, move_apart(true, GAP, (left + GAP / 2, right)), ticks, label, ends)


def seconds_per_unit(t: int | float, text: str) -> float | None:
    """The length of the unit of time t, whose text is a date; None for plain numbers."""
    if not _DATE.match(text):
        return None
    seconds = float(np.datetime64(text).astype("datetime64[s]").astype(np.int64))
    return 1 / min(PER_SECOND.values(), key=lambda per_second: abs(t / per_second - seconds))


def move_apart(x: list[float], gap: float, ends: tuple[float, float]) -> list[float]:
    """Positions in the same order, between two ends and at least `gap` apart if there is room, else evenly close.

    The sum of squared movements is least (isotonic regression, pooling adjacent violators), but for the two ends.
    """
    left, right = ends
    gap = min(gap, (right - left) / max(len(x) - 1, 1))
    blocks: list[tuple[float, int]] = []  # mean and size
    for i, value in enumerate(x):
        mean, size = value - gap * i, 1
        while blocks and blocks[-1][0] >= mean:
            before, count = blocks.pop()
            mean, size = (before * count + mean * size) / (count + size), count + size
        blocks.append((mean, size))
    means = [mean for mean, size in blocks for _ in range(size)]
    last = right - gap * (len(x) - 1)
    return [min(max(mean, left), last) + gap * i for i, mean in enumerate(means)]


def _logarithmic(
    times: list[int | float], now: int | float, unit: float | None, ends: tuple[float, float]
) -> tuple[Callable[[int | float], float], list[Tick]]:
    left, right = ends
    ages = [float(now - t) * (unit or 1) for t in times if t < now] or [1.0]
    low, high = min(ages), max(ages)
    if high < 1.05 * low:
        low, high = low / 2, high * 2

    def at(age: float) -> float:
        return right - (right - left) * math.log(max(age, low) / low) / math.log(high / low)

    found: list[Tick] = []
    for age, text in _ages() if unit else _powers(low, high):
        if low * 0.999 <= age <= high * 1.001:
            _add_if_free(found, (at(age), text))
    if len(found) < 2:
        found = []
        for age in (low, high):
            _add_if_free(found, (at(age), _age_text(age) if unit else f"{age:.3g}"))
    return lambda t: at(float(now - t) * (unit or 1)), found


def _linear(
    times: list[int | float], now: int | float, unit: float | None, ends: tuple[float, float]
) -> tuple[Callable[[int | float], float], list[Tick]]:
    left, end = ends
    first = times[0] if times and times[0] < now else now - 1
    span = float(now - first) or 1.0  # of large floats, 1 is lost

    def at(t: int | float) -> float:
        return left + (end - left) * float(t - first) / span

    for candidate in _date_ticks(first, now, unit) if unit else _number_ticks(first, now):
        found = [(at(t), text) for t, text in candidate]
        if _fits(found):
            return at, found
    return at, []


def _fits(ticks: list[Tick]) -> bool:
    half = [text_width(text, SIZE) / 2 + 5 for _, text in ticks]
    return all(ticks[i + 1][0] - ticks[i][0] >= half[i] + half[i + 1] for i in range(len(ticks) - 1))


def _add_if_free(ticks: list[Tick], tick: Tick) -> None:
    if _fits(sorted([*ticks, tick])):
        ticks.append(tick)


def _ages() -> Iterator[tuple[float, str]]:
    """Ages in seconds, those that make the best ticks first."""
    for rank in range(max(map(len, _COUNTS.values()))):
        for seconds, name in _UNITS:
            if rank < len(_COUNTS[name]):
                count = _COUNTS[name][rank]
                yield count * seconds, f"{count} {name}{'' if count == 1 else 's'}"
    for count in (1, 10, 100):
        for seconds, name in _SMALL_UNITS:
            yield count * seconds, f"{count} {name}"


def _age_text(age: float) -> str:
    """Any age: "2.5 days"."""
    for seconds, name in _UNITS:
        if age >= seconds:
            return f"{age / seconds:.3g} {name}{'' if age == seconds else 's'}"
    seconds, name = next((unit for unit in _SMALL_UNITS if age >= unit[0]), _SMALL_UNITS[-1])
    return f"{age / seconds:.3g} {name}"


def _powers(low: float, high: float) -> Iterator[tuple[float, str]]:
    exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factor in (1, 3, 2, 5):
        for exponent in exponents:
            yield factor * 10.0**exponent, f"{factor * 10.0**exponent:,.10g}"


def _number_ticks(first: float, last: float) -> Iterator[list[tuple[int | float, str]]]:
    """Round numbers between two, with larger and larger steps."""
    span = float(last - first)
    for exponent in range(math.floor(math.log10(span)) - 1, math.ceil(math.log10(span)) + 1):
        for factor in (1, 2, 5):
            step = factor * (10**exponent if exponent >= 0 else 10.0**exponent)
            if span / step <= 12 and (step >= 1 or not isinstance(last, int)):
                numbers = [n * step for n in range(math.ceil(first / step), math.floor(last / step) + 1)]
                yield [(number, f"{number:.12g}") for number in numbers]


def _date_ticks(first: float, last: float, unit: float) -> Iterator[list[tuple[int | float, str]]]:
    """Round dates and clock times between two, with larger and larger steps."""
    per_second = round(1 / unit)
    start, stop = first / per_second, last / per_second
    for steps, kind, seconds in ((_SECONDS, "s", 1), (_DAYS, "D", _DAY), (_MONTHS, "M", 30.4 * _DAY)):
        low, high = (np.datetime64(math.floor(t), "s").astype(f"datetime64[{kind}]").astype(int) for t in (start, stop))
        for step in steps:
            if (stop - start) / (step * seconds) > 12:
                continue
            dates = np.arange(-(-int(low) // step) * step, int(high) + 1, step).astype(f"datetime64[{kind}]")
            dates = dates[dates.astype("datetime64[s]").astype(np.int64) >= start]
            yield [
                (int(date.astype("datetime64[s]").astype(np.int64)) * per_second, _date_text(str(date), kind, step))
                for date in dates
            ]


def _date_text(text: str, kind: str, step: int) -> str:
    """As much of an ISO date as steps of this size need."""
    if kind == "s":
        return text[5:16].replace("T", " ") if step >= _MINUTE else text[11:19]
    return text[:4] if kind == "M" and step >= 12 else text
