"""Events: what is taken, what is refused, what stays; times in questions become numbers in the unit of the data."""

import sys
import warnings
from datetime import UTC, date, datetime

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import cawn
from cawn.data import times
from cawn.data.hashing import hash_ids
from cawn.data.reading import Reading
from cawn.data.times import TimeForm, calendar_dates, dates_in_unit, time_after


def test_links_are_in_the_order_of_time_and_then_of_rows() -> None:
    events = cawn.Events([0, 1, 2, 3], [1, 2, 3, 0], [5, 1, 5, 1], msg=[10, 11, 12, 13])
    assert events.src.tolist() == events.rows.tolist() == [1, 3, 0, 2]
    assert events.t.tolist() == [1, 1, 5, 5]
    assert events.msg.ravel().tolist() == [11, 13, 10, 12]
    assert repr(events) == "Events(4 links, 4 nodes, t 1..5 int64, msg [1])"
    assert cawn.Events([0], [5], [1]).labels.tolist() == [0, 1, 2, 3, 4, 5]
    assert cawn.Events([0], [5], [1]).ids([3, 9]).tolist() == [3, 9]
    assert cawn.Events([0], [1], [1], labels=[100, -7]).ids([-7, 100, 3, 4, 3]).tolist() == [1, 0, 2, 3, 2]


@pytest.mark.parametrize(
    ("t", "expected", "unit"),
    [
        (np.array([1, 2], np.int16), [1, 2], None),
        (np.array([1, 2], np.uint64), [1, 2], None),
        (np.array([1.5, 2]), [1.5, 2.0], None),
        ([1_700_000_000_000_000_001, 2**62 + 1], [1_700_000_000_000_000_001, 2**62 + 1], None),
        (["2024-01-01", "2024-01-02"], [1_704_067_200, 1_704_153_600], "D"),
        ([1, 2], [1, 2], "s"),
        ([500, 2000], [0.5, 2.0], "ms"),
        (["2024-01-01", "2024-01-01T00:00:01"], [1_704_067_200, 1_704_067_201], "us"),
        (["2024-01-01", "2024-01-01T00:00:00.001"], [1_704_067_200.0, 1_704_067_200.001], "us"),
        (["1969-12-31T23:59:59.5", "2024-01-01T00:00:00.000001"], [-0.5, 1_704_067_200.000001], "us"),
        (["9999-01-01", "9999-01-01T00:00:00.000001"], [253_370_764_800 * 10**6, 253_370_764_800 * 10**6 + 1], "us"),
    ],
)
def test_times_are_exact_in_int64_or_float64(t, expected: list, unit: str | None) -> None:
    """Dates in seconds, unless float64 would round these."""
    given = np.array(t) if unit is None else np.array(t, f"datetime64[{unit}]")
    events = cawn.Events([0, 1], [1, 0], given)
    assert (events.t.tolist(), events.t.dtype) == (expected, np.array(expected).dtype)
    if unit is not None:
        assert events.reading == Reading(dates=True, unit="us" if expected[0] > 10**16 else "s")
        assert dates_in_unit(given, events.reading.unit, events.t.dtype).tolist() == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"src": [0, -3]}, r"src\[1\] is -3: node ids are integers from 0"),
        ({"dst": [0, 2**31]}, r"dst\[1\] is 2147483648: node ids must be below"),
        ({"src": [0.0, 1.0]}, "src is float64"),
        ({"src": ["a", "b"]}, "use cawn.read on a table"),
        ({"src": [[0], [1]]}, r"shape \(2, 1\)"),
        ({"src": [0, [1]]}, "src: cannot be read as an array"),
        ({"src": [0]}, "lengths differ: src 1, dst 2, t 2"),
        ({"t": [1, 2, 3]}, "lengths differ"),
        ({"t": [1, np.nan]}, r"t\[1\] is nan"),
        ({"t": [-np.inf, 1]}, r"t\[0\] is -inf"),
        ({"t": np.array([1, 2], np.float32)}, "t is float32, which rounds"),
        ({"t": np.array([1, 2**63], np.uint64)}, r"t\[1\] is 9223372036854775808"),
        ({"t": [-(2**63), 2**63 - 1]}, "spans more than int64"),
        ({"t": [True, False]}, "t is bool"),
        ({"t": ["a", "b"]}, "expected integers"),
        ({"t": np.array(["2024", "NaT"], "datetime64[s]")}, r"t\[1\] is NaT"),
        ({"t": [[1, 2]]}, "shape"),
        ({"t": np.ma.array([1, 2], mask=[0, 1])}, "masked"),
        ({"t": [-1.7e308, 1.7e308]}, "spans more than float64"),
        ({"t": np.array([2**62, 50], "M8[Y]")}, "beyond the range of seconds"),
        ({"msg": [1, 2, 3]}, r"msg has shape \(3, 1\), expected one row for each of the 2 links"),
        ({"msg": [[1, 2], [3, np.nan]]}, r"msg\[1, 1\] is nan"),
        ({"msg": [1e300, 0]}, r"msg\[0, 0\] is 1e\+300"),
        ({"msg": ["a", "b"]}, "msg is"),
        ({"x": [[1.0]]}, "each of the 2 nodes"),
        ({"num_nodes": 1}, "node id 1 occurs, but there are only 1 nodes"),
        ({"num_nodes": 2.5}, "num_nodes is 2.5"),
        ({"labels": ["a"]}, "node id 1 occurs, but there are only 1 labels"),
        ({"labels": ["a", "a"]}, "labels repeat"),
        ({"labels": [1.5, 2]}, "all integers or all strings"),
        ({"labels": np.array([2**63, 1], np.uint64)}, r"labels\[0\] is 9223372036854775808"),
        ({"labels": ["a", "b", "c"], "num_nodes": 2}, "3 labels for 2 nodes"),
        ({"weight": [1, -1]}, r"weight\[1\] is -1.0: link weights are numbers from 0"),
        ({"weight": [1, np.inf]}, r"weight\[1, 0\] is inf"),
        ({"weight": [0, 0]}, "weight: all weights are 0"),
        ({"weight": [1]}, "expected one row for each of the 2 links"),
        ({"weight": [[1, 2], [3, 4]]}, "weight has 2 columns"),
        ({"negative": [0, -2]}, r"negative\[1\] is -2: negatives are node ids, or -1 for none"),
        ({"negative": [0.5, 1]}, "negative is float64"),
        ({"negative": [1]}, "a node id for each of the 2 links"),
        ({"link_id": ["a"]}, r"link_id has shape \(1,\)"),
        ({"link_id": ["a", None]}, "link_id holds None"),
    ],
)
def test_refused(arguments: dict, message: str) -> None:
    with pytest.raises(cawn.DataError, match=message):
        cawn.Events(**({"src": [0, 1], "dst": [1, 0], "t": [1, 2]} | arguments))


def test_columns_follow_order_and_choice() -> None:
    """A negative that occurs nowhere else is a node."""
    src = np.array([0, 1, 2], np.int32)
    optional = {"weight": [0.5, 0.0, 2.0], "negative": [2, -1, 5], "link_id": ["c", "a", "b"]}
    events = cawn.Events(src, [1, 2, 0], [3, 1, 2], msg=[3, 1, 2], **optional)
    src[:] = 5  # they are copies
    assert events.src.tolist() == [1, 2, 0]
    for part, expected in ((events, [1, 2, 0]), (events[1:], [2, 0]), (events[np.array([0, 2])], [1, 0])):
        assert (len(part), part.num_nodes, part.rows.tolist()) == (len(expected), 6, expected)
        assert part.t.tolist() == part.msg.ravel().tolist() == [[3, 1, 2][row] for row in expected]
        assert part.weight.tolist() == [optional["weight"][row] for row in expected]
        assert part.negative.tolist() == [optional["negative"][row] for row in expected]
        for array in (part.src, part.dst, part.t, part.weight):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1
        assert part.link_id.tolist() == hash_ids([optional["link_id"][row] for row in expected]).tolist()
    assert (events.weight.dtype, events.negative.dtype) == (np.float32, np.int32)
    assert events[events.t > 2].msg.tolist() == [[3]]
    assert len(events[[]]) == 0
    assert cawn.Events([0], [1], [1], link_id=hash_ids(["x"])).link_id.tolist() == hash_ids(["x"]).tolist()


NO_PARTS = [slice(None, None, -1), slice(None, None, 0), slice("a", None), np.array([2, 0], np.uint8), np.array([0.5])]


@pytest.mark.parametrize("chosen", [*NO_PARTS, np.array([[0, 1]]), [2, 0], [-1, 0], [0, 0], [99], [True], 0])
def test_parts_out_of_order_are_refused(chosen) -> None:
    with pytest.raises(cawn.DataError, match=r"choose among the 3 links .* sorted by time"):
        cawn.Events([0, 0, 0], [1, 1, 1], [1, 2, 3])[chosen]


@pytest.mark.parametrize(("name", "tau"), [("wikipedia", 1.27e-5), ("mooc", 4.48e-5)])
def test_intensity_is_the_papers(network, name: str, tau: float) -> None:
    """Two rows of its Table 1 (those of Enron and UCI do not follow from its formula)."""
    assert network(name).intensity == pytest.approx(tau, rel=0.005)
    assert cawn.Events([0], [1], [1]).intensity == 0


@given(
    src=hnp.arrays(st.sampled_from([np.int64, np.float64, np.uint8, np.bool_]), st.integers(0, 4)),
    t=hnp.arrays(st.sampled_from([np.int64, np.float64, np.float32, np.uint64]), st.integers(0, 4)),
)
def test_any_arrays_are_events_or_refused(src, t) -> None:
    try:
        events = cawn.Events(src, src, t)
    except cawn.CawnError:
        return
    assert len(events) == len(src)
    assert np.isfinite(events.t).all()
    assert (np.diff(events.t) >= 0).all()


# Times in questions.

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
    for t, held in (
        ("2100-01-01", SECONDS),
        (0, SECONDS),
        (1_000, NUMBERS),
        (10**6, np.array([5])),
        (SECONDS, SECONDS),
    ):
        parse_query_times(t, held, Reading())  # near enough: warnings are errors here


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


@pytest.mark.parametrize(
    ("t", "held", "reading", "message", "kind"),
    [*((*row, cawn.QueryError) for row in REFUSED), *((*row, UserWarning) for row in FAR)],
)
def test_times_that_are_refused_or_far_from_the_data(t, held, reading: Reading, message: str, kind: type) -> None:
    with (pytest.warns if kind is UserWarning else pytest.raises)(kind, match=message) as caught:
        parse_query_times(t, held, reading)
    (found,) = [warning.message for warning in caught] if kind is UserWarning else [caught.value]
    assert "\n" not in str(found)


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
