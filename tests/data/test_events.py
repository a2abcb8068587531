"""Events: what is taken, what is refused, what stays."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import cawn
from cawn.data.hashing import hash_ids
from cawn.data.reading import Reading
from cawn.data.times import dates_in_unit


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
