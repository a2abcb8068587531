"""The evaluation protocol: what trains, what tests, who is hidden."""

import numpy as np
import pytest

import cawn
from cawn.splits import snapshot_split, snapshots, split
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


def test_unknown_task() -> None:
    with pytest.raises(cawn.QueryError, match="task is 'frob'"):
        split(random_events(1), "frob", seed=0)


def test_snapshots() -> None:
    events = cawn.Events([0] * 6, [1] * 6, [0, 1, 4, 5, 9, 10])
    assert snapshots(events, 2).tolist() == [0, 0, 0, 1, 1, 1]
    assert snapshots(events, 5).tolist() == [0, 0, 2, 2, 4, 4]
    assert snapshots(cawn.Events([0], [1], [3]), 4).tolist() == [0]


@pytest.mark.parametrize(
    ("count", "parts"), [(174, (122, 26, 26)), (20, (14, 3, 3)), (27, (19, 4, 4)), (11, (7, 2, 2)), (88, (62, 13, 13))]
)
def test_snapshot_split_is_the_papers(count: int, parts: tuple) -> None:
    assert snapshot_split(count) == parts
