"""Times in questions: numbers, text and dates become numbers in the data's unit, or one clear line."""

import sys
import warnings
from datetime import UTC, date, datetime

import numpy as np
import pyarrow as pa
import pytest

import cawn
from cawn.data import times
from cawn.data.reading import Reading
from cawn.data.times import TimeForm, calendar_dates, time_after

DATES = Reading(dates=True)


def parse_query_times(t: object, held: np.ndarray, reading: Reading) -> np.ndarray:
    """Times of queries about a run with links at the times `held`."""
    return times.parse_query_times(t, held, TimeForm.of(held, reading))


def convert_link_times(new: cawn.Events, held: cawn.Events) -> np.ndarray:
    return TimeForm.of(held.t, held.reading or Reading()).convert(new)


SECONDS = np.array([1_451_606_400, 1_483_228_800])  # 2016-01-01, 2017-01-01
NUMBERS = np.array([0, 100])
NANOSECONDS = 1_704_067_200 * 10**9 + np.arange(3) * 100  # 2024-01-01
JANUARY_23 = 1_453_507_200


MIDNIGHT = [20160123, "20160123", "2016-01-23", "2016-01-23T00:00:00Z", "1453507200", JANUARY_23]
MIDNIGHT += [np.datetime64("2016-01-23"), date(2016, 1, 23), datetime(2016, 1, 23, tzinfo=UTC)]


@pytest.mark.parametrize("t", MIDNIGHT)
@pytest.mark.parametrize("reading", [DATES, Reading()])
def test_dates(t: object, reading: Reading) -> None:
    found = parse_query_times(t, SECONDS, reading)
    assert found.dtype == np.int64
    assert found.tolist() == JANUARY_23
    assert parse_query_times([t, t], SECONDS, reading).tolist() == [JANUARY_23] * 2
    assert parse_query_times(t, SECONDS.astype(float), reading).dtype == np.float64


def test_each_time_is_read_by_itself_and_plain_numbers_stay_numbers() -> None:
    assert parse_query_times([20160123, JANUARY_23 + 5], SECONDS, DATES).tolist() == [JANUARY_23, JANUARY_23 + 5]
    held = SECONDS + 0.5
    assert parse_query_times([20160123, JANUARY_23 + 0.5], held, DATES).tolist() == [JANUARY_23, JANUARY_23 + 0.5]
    held = np.array([19_000_000, 21_000_000])
    assert parse_query_times([20160123, 20160199], held, Reading()).tolist() == [20160123, 20160199]
    assert parse_query_times(20160123, held, DATES).tolist() == 20160123  # within the data, whatever its dates
    assert parse_query_times("17", NUMBERS, Reading()).tolist() == 17
    assert parse_query_times([], NUMBERS, Reading()).shape == (0,)


REFUSED = [
    (2016, SECONDS, DATES, "t is 2016: if that is a year, write a date, such as 2016-01-01"),
    ("2016", SECONDS, Reading(), "such as 2016-01-01"),
    ([JANUARY_23, 2016], SECONDS, DATES, "such as 2016-01-01"),
    ("2016-01-23", NUMBERS, Reading(), "a date, but the data's times are plain numbers from 0 to 100"),
    ("noon", SECONDS, DATES, "t is 'noon': give numbers in the data's unit of time, or ISO dates"),
    ("2016-02-30", SECONDS, DATES, "or ISO dates"),
    ("x" * 1000, SECONDS, DATES, r"t is 'x+\.\.\.x*': give"),
    (float("nan"), SECONDS, DATES, "NaN or infinity"),
    ("nan", SECONDS, DATES, "give numbers"),
    (float("inf"), NUMBERS, Reading(), "NaN or infinity"),
    ("inf", NUMBERS, Reading(), "give numbers"),
    (np.datetime64("NaT", "s"), SECONDS, DATES, "NaT"),
    (None, SECONDS, DATES, "t is None"),
    ("2016-01-23T00:00:00.5", SECONDS, DATES, "finer than the data's times, which are whole numbers of s"),
    (2**63 - 1, np.array([-(2**63) + 10, 0]), Reading(), "distance from the data .* overflows int64"),
    (1.7e308, np.array([-1e308, 0.0]), Reading(), "overflows float64"),
]
FAR = [
    (JANUARY_23 * 1000, SECONDS, DATES, r"46,000 years after the last .* 1,000 times the data's times: millisec"),
    (JANUARY_23 * 10**9, SECONDS, Reading(), "nanoseconds"),
    (JANUARY_23, SECONDS * 1000, Reading(), r"1/1,000 of the data's times, which may be milliseconds"),
    (1_704_067_200, NANOSECONDS, Reading(dates=True, unit="ns"), "nanoseconds"),
    ("1850-01-01", SECONDS, DATES, "170 years before the first link"),
    (1_101, NUMBERS, Reading(), "t is 1101: 10 times the data's span after the last link"),
    ([5, -2_000], NUMBERS, Reading(), "t is -2000: 20 times the data's span before the first link"),
]
NEAR = [("2100-01-01", SECONDS), (0, SECONDS), (1_000, NUMBERS), (10**6, np.array([5])), (SECONDS, SECONDS)]


@pytest.mark.parametrize(
    ("t", "held", "reading", "message", "kind"),
    [*((*row, cawn.QueryError) for row in REFUSED), *((*row, UserWarning) for row in FAR)],
)
def test_times_that_are_refused_or_far_from_the_data(t, held, reading: Reading, message: str, kind: type) -> None:
    with (pytest.warns if kind is UserWarning else pytest.raises)(kind, match=message) as caught:
        parse_query_times(t, held, reading)
    (found,) = [warning.message for warning in caught] if kind is UserWarning else [caught.value]
    assert "\n" not in str(found)


def test_times_near_the_data_raise_no_warning() -> None:
    for t, held in NEAR:
        parse_query_times(t, held, Reading())


def test_calendar_dates() -> None:
    numbers = np.array([20240229, 20230229, 19000101, 18991231, 21991231, 22000101, 20241301, 20240100, 0, -20240101])
    found = calendar_dates(numbers)
    assert found[[0, 2, 4]].astype(str).tolist() == ["2024-02-29", "1900-01-01", "2199-12-31"]
    assert np.isnat(found[[1, 3, 5, 6, 7, 8, 9]]).all()


def test_nanoseconds_stay_apart() -> None:
    """Times 100 ns apart would be the same in float64 seconds."""
    table = pa.table({"src": [0, 1, 2], "dst": [1, 2, 3], "t": NANOSECONDS.view("datetime64[ns]")})
    for events in (cawn.Events([0, 1, 2], [1, 2, 3], table["t"].to_numpy()), cawn.read(table)):
        assert (events.t.dtype, events.t.tolist()) == (np.int64, NANOSECONDS.tolist())
        assert (events.reading.unit, events.reading.dates) == ("ns", True)
    for t, at in (("2024-01-01", 0), (20240101, 0), ("2024-01-01T00:00:00.0000001", 1)):
        assert parse_query_times(t, events.t, events.reading).tolist() == NANOSECONDS[at]
    with pytest.raises(cawn.DataError, match="seconds in float64 would round; give integers, in ns"):
        cawn.Stream(4, alpha=0.0).append([0], [1], NANOSECONDS[1:2].view("datetime64[ns]"))


def test_new_links_in_another_unit() -> None:
    day = np.array(["2024-01-01"], "datetime64[D]")
    finer = np.array(["2024-01-01T00:00:00.0000001"], "datetime64[ns]")
    seconds, nanoseconds = (cawn.Events([0], [1], t) for t in (day, finer))
    assert convert_link_times(seconds, nanoseconds).tolist() == [1_704_067_200 * 10**9]
    assert convert_link_times(nanoseconds, nanoseconds).tolist() == nanoseconds.t.tolist()
    half = cawn.Events([0], [1], day + np.timedelta64(1500, "ms"))
    assert convert_link_times(half, nanoseconds).tolist() == [1_704_067_201_500_000_000]
    with pytest.raises(cawn.DataError, match="finer than the data's times"):
        convert_link_times(nanoseconds, seconds)
    with pytest.raises(cawn.DataError, match="plain numbers"):
        convert_link_times(seconds, cawn.Events([0], [1], [5]))


def test_the_time_after_the_last_possible_time() -> None:
    last = np.iinfo(np.int64).max
    assert [time_after(t) for t in (7, int(last) - 1, int(last))] == [8, last, last]
    assert time_after(sys.float_info.max) == sys.float_info.max


def test_a_time_means_the_same_whatever_came_since() -> None:
    """What is a date is decided by the links of the training, not by those that arrived later."""
    form = TimeForm.of(SECONDS, DATES)
    later = np.array([0, *SECONDS, 4 * 10**9])
    for t, expected in ((20160123, JANUARY_23), ("1970-08-22T08:02:03", 20160123), ("1970-01-01T00:33:20", 2_000)):
        for held in (SECONDS, later):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                assert times.parse_query_times(t, held, form).tolist() == expected
    mixed = form.parse([20160123, JANUARY_23 + 5, "2016-01-23", np.datetime64("2016-01-24"), 1.5e9])
    assert mixed.tolist() == [JANUARY_23, JANUARY_23 + 5, JANUARY_23, JANUARY_23 + 86_400, 1_500_000_000]
    exact = TimeForm.of(NUMBERS, Reading()).parse([2**60 + 1, 2.0**60])
    assert exact.tolist() == [2**60 + 1, 2**60], "no time rounds another one"
