"""The learning-free rules, and the figures known for them on real networks."""

import numpy as np
import pytest

import cawn
from cawn import metrics
from cawn.negatives import negatives
from cawn.rules import Past
from cawn.splits import split


def test_by_hand() -> None:
    past = Past(cawn.Events([0, 2, 0, 3], [1, 1, 4, 4], [10, 20, 30, 100]))
    src, dst, t = np.array([1, 0, 2, 0, 9]), np.array([0, 1, 4, 9, 9]), np.array([25, 10, 50, 50, 50])
    assert past.edgebank(src, dst, t).tolist() == [1, 0, 0, 0, 0]
    assert past.edgebank_window(src, dst, t + 10).tolist() == [0, 1, 0, 0, 0]
    assert past.popularity(src, dst, t).tolist() == [0, 0, 1, 0, 0]
    score = past.recency(src, dst, t)
    assert score[0] > 1 > score[2] > 0 == score[1] == score[3]


def test_the_future_changes_nothing() -> None:
    from networks import random_events

    events = random_events(3, num_links=300)
    now = int(np.median(events.t))
    src, dst = np.arange(8), np.arange(8)[::-1]
    t = np.full(8, now)
    for name, rule in Past(events).rules().items():
        cut = Past(cawn.Events(events.src, events.dst, np.minimum(events.t, now + 1), num_nodes=8))
        if name in ("edgebank", "popularity"):
            np.testing.assert_array_equal(rule(src, dst, t), cut.rules()[name](src, dst, t))


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
