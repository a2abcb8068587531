"""The learning-free rules, and the figures known for them on real networks."""

import numpy as np
import pytest

import cawn
from cawn.learn import metrics
from cawn.learn.negatives import negatives
from cawn.learn.splits import split
from cawn.systems.baselines import Past, scorers
from networks import random_events


def test_by_hand() -> None:
    assert NAMES == ["edgebank", "edgebank (window)", "popularity", "recency"]
    past = Past(cawn.Events([0, 2, 0, 3], [1, 1, 4, 4], [10, 20, 30, 100]))
    src, dst, t = np.array([1, 0, 2, 0, 9]), np.array([0, 1, 4, 9, 9]), np.array([25, 10, 50, 50, 50])
    assert past.edgebank(src, dst, t).tolist() == [1, 0, 0, 0, 0]
    assert past.edgebank_window(src, dst, t + 10).tolist() == [0, 1, 0, 0, 0]
    assert past.popularity(src, dst, t).tolist() == [0, 0, 1, 0, 0]
    score = past.recency(src, dst, t)
    assert score[0] > 1 > score[2] > 0 == score[1] == score[3]


NAMES = sorted(scorers(random_events(0)))
QUERIES = np.repeat(np.arange(8), 8), np.tile(np.arange(8), 8)  # every pair of eight nodes


def past_and_future(seed: int) -> tuple[cawn.Events, int, np.ndarray, np.ndarray]:
    """Links, a time among them, and the links before that time and from it on, apart from the very last."""
    events = random_events(seed, num_links=300)
    now = int(np.median(events.t))
    return events, now, np.flatnonzero(events.t < now), np.flatnonzero(events.t >= now)[:-1]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(3))
def test_the_future_changes_nothing(name: str, seed: int) -> None:
    """Other links between other nodes at other times, from the query's time to the end of the time range."""
    events, now, _, later = past_and_future(seed)
    rng = np.random.default_rng(seed)
    src, dst, t = events.src.copy(), events.dst.copy(), events.t.copy()
    src[later], dst[later] = rng.integers(0, 8, (2, len(later)))
    t[later] = rng.integers(now, int(t[-1]) + 1, len(later))
    assert (t != events.t).any()
    other = cawn.Events(src, dst, t, num_nodes=8)
    asked = *QUERIES, np.full(64, now)
    truth = scorers(events)[name](*asked)
    np.testing.assert_array_equal(scorers(other)[name](*asked), truth)
    assert len(set(truth)) > 1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("seed", range(3))
def test_the_past_changes_every_baseline(name: str, seed: int) -> None:
    """So the test above compares scores that do depend on links."""
    events, now, before, _ = past_and_future(seed)
    dst = events.dst.copy()
    dst[before] = np.random.default_rng(seed).integers(0, 8, len(before))
    asked = *QUERIES, np.full(64, now)
    one, other = (
        scorers(some)[name](*asked)
        for some in (events, cawn.Events(events.src, dst, events.t, num_nodes=events.num_nodes))
    )
    assert (one != other).any()


@pytest.mark.parametrize("seed", range(3))
def test_recency_orders_pairs_without_the_future(seed: int) -> None:
    """Its scale is that of the whole time range; the order of the scores at one time is not."""
    events, now, before, _ = past_and_future(seed)
    asked = *QUERIES, np.full(64, now)
    orders = [np.unique(Past(some).recency(*asked), return_inverse=True)[1] for some in (events, events[before])]
    np.testing.assert_array_equal(*orders)


@pytest.mark.parametrize(
    ("name", "auc", "ap"),
    [("uci", 0.953, 0.965), ("wikipedia", 0.975, 0.982), ("enron", 0.933, 0.924), ("mooc", 0.720, 0.759)],
)
def test_recency_on_real_networks(network, name: str, auc: float, ap: float) -> None:
    events = network(name)
    parts = split(events, "transductive", seed=0)
    links = parts.test["all"]
    false = negatives(events, links, "random", seen=parts.train, seed=0).dst
    rule = Past(events).recency
    scores = [rule(events.src[links], dst, events.t[links]) for dst in (events.dst[links], false)]
    assert metrics.auc(*scores) == pytest.approx(auc, abs=0.006)
    assert metrics.average_precision(*scores) == pytest.approx(ap, abs=0.006)
