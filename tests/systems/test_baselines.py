"""The learning-free rules, and the figures known for them on real networks."""

import numpy as np
import pytest

import cawn
from cawn.learn import metrics
from cawn.learn.negatives import negatives
from cawn.learn.splits import split
from cawn.systems.baselines import Past
from networks import random_events


def test_by_hand() -> None:
    past = Past(cawn.Events([0, 2, 0, 3], [1, 1, 4, 4], [10, 20, 30, 100]))
    src, dst, t = np.array([1, 0, 2, 0, 9]), np.array([0, 1, 4, 9, 9]), np.array([25, 10, 50, 50, 50])
    assert past.edgebank(src, dst, t).tolist() == [1, 0, 0, 0, 0]
    assert past.edgebank_window(src, dst, t + 10).tolist() == [0, 1, 0, 0, 0]
    assert past.popularity(src, dst, t).tolist() == [0, 0, 1, 0, 0]
    score = past.recency(src, dst, t)
    assert score[0] > 1 > score[2] > 0 == score[1] == score[3]


@pytest.mark.parametrize("seed", range(3))
def test_the_future_changes_nothing(seed: int) -> None:
    """Other links at or after the query's time, none of them: only the scale of recency is that of all times."""
    events = random_events(seed, num_links=300)
    now = int(np.median(events.t))
    past, later = events[events.t < now], events[events.t >= now]
    other = np.random.default_rng(seed).integers(0, 8, (2, len(later)))
    src, dst = np.repeat(np.arange(8), 8), np.tile(np.arange(8), 8)
    t = np.full(64, now)
    shuffled = cawn.Events(np.append(past.src, other[0]), np.append(past.dst, other[1]), events.t, num_nodes=8)
    truth, same = Past(events).rules(), Past(shuffled).rules()
    assert set(truth) == {"recency", "edgebank", "edgebank (window)", "popularity"}
    for name, rule in truth.items():
        np.testing.assert_array_equal(rule(src, dst, t), same[name](src, dst, t))
        assert len(set(rule(src, dst, t))) > 1
    removed = Past(cawn.Events(past.src, past.dst, past.t, num_nodes=8))
    orders = [np.unique(found.recency(src, dst, t), return_inverse=True)[1] for found in (Past(events), removed)]
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
