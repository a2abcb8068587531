"""The evaluation protocol: what trains, what tests, who is hidden."""

import numpy as np
import pytest

import cawn
from cawn import TimeSplit
from cawn.learn.splits import split, split_of_run
from networks import random_events


def test_transductive(network) -> None:
    events = network("uci")
    parts = split(events, "transductive", seed=0)
    assert parts.visible.all()
    assert not parts.hidden.any()
    everything = np.concatenate([parts.train, parts.val, parts.test["all"]])
    np.testing.assert_array_equal(everything, np.arange(len(events)))
    assert len(parts.train) / len(events) == pytest.approx(0.7, abs=0.001)
    assert len(parts.test["all"]) / len(events) == pytest.approx(0.15, abs=0.001)
    assert events.t[parts.train[-1]] < events.t[parts.val[0]]


def test_inductive(network) -> None:
    events = network("uci")
    parts, again, other = (split(events, "inductive", seed=s) for s in (1, 1, 2))
    assert parts.digest == again.digest != other.digest
    assert parts.hidden.sum() == 189
    ends = np.stack([events.src, events.dst])
    for links in (parts.train, parts.val):
        assert not parts.hidden[ends[:, links]].any()
        assert parts.visible[links].all()
    new_new, new_old = parts.test["new-new"], parts.test["new-old"]
    assert (parts.hidden[ends[:, new_new]].sum(axis=0) == 2).all()
    assert (parts.hidden[ends[:, new_old]].sum(axis=0) == 1).all()
    later = split(events, "transductive", seed=0).test["all"]
    assert set(new_new) | set(new_old) == {i for i in later if parts.hidden[ends[:, i]].any()}
    after_training = np.unique(ends[:, events.t > events.t[parts.train].max()])
    assert set(np.flatnonzero(parts.hidden)) <= set(after_training)


def test_hidden_nodes_do_not_depend_on_names() -> None:
    events = random_events(1, num_nodes=40, num_links=500, span=200)
    number = np.random.default_rng(0).permutation(events.num_nodes)
    other = cawn.Events(number[events.src], number[events.dst], events.t, num_nodes=events.num_nodes)
    hidden = split(events, "inductive", seed=3).hidden
    assert hidden.sum() == 4
    np.testing.assert_array_equal(split(other, "inductive", seed=3).hidden[number], hidden)


def test_links_of_equal_time_stay_together() -> None:
    events = random_events(1, num_links=500, span=20)
    parts = split(events, "transductive", seed=0)
    times = [set(events.t[links].tolist()) for links in (parts.train, parts.val, parts.test["all"])]
    assert not times[0] & times[1]
    assert not times[1] & times[2]


@pytest.mark.parametrize("events", [cawn.Events([0], [1], [1]), cawn.Events([0] * 9, [1] * 9, [1] * 9)])
def test_too_few(events: cawn.Events) -> None:
    with pytest.raises(cawn.DataError, match="are too few"):
        split(events, "transductive", seed=0)


def sizes(events: cawn.Events, **cuts) -> tuple[int, int, int]:
    parts = split(events, cawn.Task("transductive", TimeSplit(**cuts)), seed=0)
    everything = np.concatenate([parts.train, parts.val, parts.test["all"]])
    np.testing.assert_array_equal(everything, np.arange(len(events)))
    return len(parts.train), len(parts.val), len(parts.test["all"])


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_splits_at_times_and_shares(dtype) -> None:
    events = cawn.Events([0] * 100, [1] * 100, np.arange(100, dtype=dtype))
    assert sizes(events) == (70, 15, 15)
    assert sizes(events, train_share=0.5, val_share=0.25) == (50, 25, 25)
    assert sizes(events, train_until=60, test_from=90) == (60, 30, 10)
    assert sizes(events, train_until=60, test_from=60) == sizes(events, test_from=60) == (51, 9, 40)
    assert sizes(events, train_until=60, val_share=0.5) == (30, 30, 40)


def test_splits_at_dates() -> None:
    from datetime import date, datetime

    days = np.datetime64("2024-01-01") + np.arange(100)
    events = cawn.Events([0] * 100, [1] * 100, days)
    assert sizes(events, train_until="2024-02-01", test_from="2024-03-01") == (31, 29, 40)
    assert sizes(events, train_until=date(2024, 2, 1), test_from=datetime(2024, 3, 1)) == (31, 29, 40)
    kept = TimeSplit(train_until="2024-02-01", test_from="2024-03-01").on(events)
    assert TimeSplit.from_dict(kept.to_dict()) == kept
    assert kept.train_until == 1706745600


@pytest.mark.parametrize(
    ("cuts", "message"),
    [
        ({"train_share": 0.9, "val_share": 0.1}, "leave nothing for the test"),
        ({"train_share": 0}, "train_share is 0: give a number between 0 and 1"),
        ({"val_share": True}, "val_share is True"),
        ({"train_share": 0.5, "test_from": 9}, "not both"),
        ({"train_until": 60, "test_from": 50}, "train_until=60 lies after test_from=50"),
        ({"train_until": "soon"}, "train_until: t is 'soon': give numbers"),
        ({"train_until": float("nan")}, "train_until: t holds NaN"),
        ({"train_until": [1, 2]}, "train_until has 2 values"),
        ({"train_until": "2024-01-01"}, "train_until: t is 2024-01-01"),
        ({"train_until": 60, "test_from": 200}, "the test part would be empty: training until 60"),
        ({"train_until": 0, "test_from": 50}, "the training part would be empty"),
        ({"train_until": 60, "test_from": 61}, "the validation part would be empty: training until 60, test from 61"),
    ],
)
def test_splits_that_cannot_be(cuts: dict, message: str) -> None:
    events = cawn.Events([0] * 100, [1] * 100, np.delete(np.arange(101), 60))
    with pytest.raises(cawn.CawnError, match=message) as caught:
        split(events, cawn.Task("transductive", TimeSplit(**cuts)), seed=0)
    assert "\n" not in str(caught.value)


def test_the_split_of_a_run() -> None:
    events = random_events(1, num_nodes=40, num_links=500, span=200)
    cuts = TimeSplit(train_share=0.5)
    expected = split(events, cawn.Task("inductive", cuts), seed=3).digest
    description = {"task": "inductive", "seed": 3, "cuts": cuts.to_dict(), "split": expected}
    assert split_of_run(events, description).digest == expected
    with pytest.raises(cawn.StorageError, match="split by another version of cawn"):
        split_of_run(events, description | {"split": "0" * 12})
    for broken in ({"frob": 1}, {"val_share": "x"}, 5):
        with pytest.raises(cawn.StorageError, match="damaged"):
            split_of_run(events, description | {"cuts": broken})


def test_unknown_task() -> None:
    with pytest.raises(cawn.QueryError, match="task is 'frob'"):
        split(random_events(1), "frob", seed=0)


def test_dyglibs_protocol_tests_all_links_and_those_of_new_nodes() -> None:
    events = random_events(2, num_nodes=60, num_links=800, span=600)
    parts = split(events, cawn.Task(protocol="dyglib"), seed=0)
    plain = split(events, "transductive", seed=0)
    np.testing.assert_array_equal(parts.test["transductive"], plain.test["all"])
    assert parts.first_test == plain.first_test == plain.test["all"][0]
    trained = {*events.src[parts.train], *events.dst[parts.train]}
    new = [i for i in plain.test["all"] if not {events.src[i], events.dst[i]} <= trained]
    assert parts.test["inductive"].tolist() == new
    assert parts.hidden.sum() == int(0.1 * len(np.unique([events.src, events.dst])))
    assert not trained & set(np.flatnonzero(parts.hidden))
    assert parts.digest == split(events, cawn.Task(protocol="dyglib"), seed=1).digest
    with pytest.raises(cawn.QueryError, match="leave out the task"):
        split(events, cawn.Task("inductive", protocol="dyglib"), seed=0)
    with pytest.raises(cawn.QueryError, match="protocol"):
        split(events, cawn.Task("inductive", protocol="frob"), seed=0)
