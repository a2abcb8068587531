"""Negatives are what they say."""

import numpy as np
import pytest

import cawn
from cawn.negatives import negatives
from cawn.splits import split
from networks import random_events
from statistics_of_draws import assert_follows


@pytest.fixture(scope="module")
def events() -> cawn.Events:
    return random_events(2, num_nodes=30, num_links=2_000, span=1_500)


@pytest.fixture(scope="module")
def parts(events):
    return split(events, "transductive", seed=0)


def pairs(events: cawn.Events, links) -> set:
    return set(zip(events.src[links].tolist(), events.dst[links].tolist(), strict=True))


def test_random(events, parts) -> None:
    links = parts.test["all"]
    drawn = negatives(events, links, "random", seen=parts.train, seed=3)
    assert drawn.fallback == 0
    assert (drawn.dst != events.dst[links]).all()
    assert set(drawn.dst) <= set(events.dst)
    many = np.concatenate([negatives(events, links, "random", seen=parts.train, seed=s).dst for s in range(200)])
    true = np.tile(events.dst[links], 200)
    pool = np.unique(events.dst)
    law = np.array([(true != v).sum() / (len(pool) - 1) for v in pool]) / len(true)
    assert_follows([(many == v).sum() for v in pool], law)


def test_historical(events, parts) -> None:
    links = parts.test["all"]
    drawn = negatives(events, links, "historical", seen=parts.train, seed=3)
    before = pairs(events, parts.train)
    now = set(zip(events.src.tolist(), events.t.tolist(), events.dst.tolist(), strict=True))
    taken = [(u, v) in before for u, v in zip(events.src[links].tolist(), drawn.dst.tolist(), strict=True)]
    assert np.mean(taken) >= 1 - drawn.fallback > 0.8
    triples = zip(events.src[links].tolist(), events.t[links].tolist(), drawn.dst.tolist(), strict=True)
    assert sum(triple in now for triple, true in zip(triples, taken, strict=True) if true) == 0


def test_inductive(events, parts) -> None:
    links = parts.test["all"]
    drawn = negatives(events, links, "inductive", seen=parts.train, seed=3)
    before, ever = pairs(events, parts.train), pairs(events, slice(None))
    new = [p in ever - before for p in zip(events.src[links].tolist(), drawn.dst.tolist(), strict=True)]
    assert np.mean(new) >= 1 - drawn.fallback > 0.5


@pytest.mark.parametrize("kind", ["random", "historical", "inductive"])
def test_a_link_has_its_negative_whatever_else_is_asked(events, parts, kind: str) -> None:
    links = parts.test["all"]
    whole = negatives(events, links, kind, seen=parts.train, seed=3)
    tail = negatives(events, links[50:], kind, seen=parts.train, seed=3)
    np.testing.assert_array_equal(whole.dst[50:], tail.dst)
    assert whole.digest != negatives(events, links, kind, seen=parts.train, seed=4).digest


def test_refused(events, parts) -> None:
    with pytest.raises(cawn.QueryError, match="negatives 'frob'"):
        negatives(events, parts.val, "frob", seen=parts.train, seed=0)
    lonely = cawn.Events([0, 1, 2], [5, 5, 5], [1, 2, 3])
    with pytest.raises(cawn.DataError, match="one destination"):
        negatives(lonely, np.arange(3), "random", seen=np.arange(1), seed=0)
