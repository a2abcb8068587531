"""Negatives are what they say."""

import numpy as np
import pytest

import cawn
from cawn.learn.negatives import (
    CHOICES,
    Negatives,
    choices,
    known_negatives,
    linked_share,
    negatives,
    pair_negatives,
    seen_before,
)
from cawn.learn.splits import split
from cawn.learn.task import PAIR_KINDS
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
    with pytest.raises(cawn.QueryError, match="negatives is 'frob'"):
        negatives(events, parts.val, "frob", seen=parts.train, seed=0)
    lonely = cawn.Events([0, 1, 2], [5, 5, 5], [1, 2, 3])
    with pytest.raises(cawn.DataError, match="one destination"):
        negatives(lonely, np.arange(3), "random", seen=np.arange(1), seed=0)


@pytest.mark.parametrize("kind", ["historical", "inductive"])
def test_all_partners_that_a_source_does_not_link_to_now_are_equally_likely(kind: str) -> None:
    events = random_events(4, num_nodes=9, num_links=120, span=12)  # many links of a source share a time
    seen, links = np.arange(60), np.arange(40, 100)
    before, ever = pairs(events, seen), pairs(events, slice(None))
    choices = CHOICES[kind](events, links, seen)
    drawn = np.stack([choices.draw(seed) for seed in range(2_000)])
    for i, link in enumerate(links):
        u, now = int(events.src[link]), events.t == events.t[link]
        linked = set(events.dst[now & (events.src == u)].tolist())
        partners = {v for a, v in (before if kind == "historical" else ever - before) if a == u} - linked
        assert choices.count[i] == len(partners)
        if partners:
            assert_follows(
                [(drawn[:, i] == v).sum() for v in range(9)], [(v in partners) / len(partners) for v in range(9)]
            )
        else:
            assert (drawn[:, i] == -1).all()


def test_large_mailings_need_no_search() -> None:
    """One sender, five mailings to the same recipients: a scan of the recipients for each link would take hours."""
    recipients, mailings = 20_000, 5
    t = np.repeat(np.arange(mailings), recipients)
    events = cawn.Events(np.zeros(len(t), int), np.tile(np.arange(1, recipients + 1), mailings), t)
    everything = np.arange(len(events))
    drawn = negatives(events, everything, "historical", seen=everything, seed=0)
    assert drawn.fallback == 1.0  # every recipient is linked to at every time
    last = recipients // 2  # the last mailing leaves half of them out
    cut = events[: len(events) - last]
    drawn = negatives(cut, everything[-2 * last : -last], "historical", seen=everything[:recipients], seed=0)
    assert drawn.fallback == 0.0
    assert (drawn.dst > recipients - last).all()


def renamed(events: cawn.Events, seed: int) -> tuple[cawn.Events, np.ndarray]:
    """The same links among nodes numbered in another way, and the new number of each node."""
    number = np.random.default_rng(seed).permutation(events.num_nodes)
    return cawn.Events(number[events.src], number[events.dst], events.t, num_nodes=events.num_nodes), number


@pytest.mark.parametrize("kind", ["random", "historical", "inductive"])
def test_names_of_nodes_change_no_draw(events, parts, kind: str) -> None:
    other, number = renamed(events, 1)
    links = parts.test["all"]
    expected = negatives(events, links, kind, seen=parts.train, seed=3)
    found = negatives(other, links, kind, seen=parts.train, seed=3)
    np.testing.assert_array_equal(found.dst, number[expected.dst])


def test_links_that_are_not_visible_change_no_draw(events) -> None:
    parts = split(events, "inductive", seed=1)
    known = events[parts.visible]
    at = np.flatnonzero(np.isin(np.flatnonzero(parts.visible), parts.train))
    for kind in ("random", "historical"):
        expected = negatives(known, at, kind, seen=at, seed=2)
        found = negatives(events, parts.train, kind, seen=parts.train, seed=2, visible=parts.visible)
        np.testing.assert_array_equal(found.dst, expected.dst)


def slow_pairs(events: cawn.Events, batch: np.ndarray, kind: str, first_test: int) -> set:
    """The pairs that one batch may draw, by sets."""
    links = list(zip(events.src.tolist(), events.dst.tolist(), events.t.tolist(), strict=True))
    begin, end = events.t[batch[0]], events.t[batch[-1]]
    found = {(u, v) for u, v, t in links if t <= begin} - {(u, v) for u, v, t in links if begin <= t <= end}
    if kind == "inductive pairs":
        found -= {(u, v) for u, v, t in links if t < events.t[first_test]}
    return found


@pytest.mark.parametrize("kind", PAIR_KINDS)
def test_pairs_linked_before_the_batch_and_not_in_its_time(kind: str, monkeypatch) -> None:
    monkeypatch.setattr("cawn.learn.negatives.PAIR_BATCH", 7)
    events = random_events(1, num_nodes=12, num_links=300, span=200)
    first_test = int(np.searchsorted(events.t, events.t[200]))
    links = np.arange(first_test, 300)
    drawn = pair_negatives(events, links, kind, first_test=first_test, seed=0)
    fallbacks = 0
    for start in range(0, len(links), 7):
        batch, some = links[start : start + 7], slice(start, start + 7)
        pairs = list(zip(drawn.src[some].tolist(), drawn.dst[some].tolist(), strict=True))
        allowed = slow_pairs(events, batch, kind, first_test)
        taken = pairs[: len(allowed)]
        assert set(taken) <= allowed
        assert len(set(taken)) == len(taken)
        present = set(zip(events.src[batch].tolist(), events.dst[batch].tolist(), strict=True))
        assert not set(pairs) & present
        fallbacks += len(pairs) - len(taken)
    assert drawn.fallback == fallbacks / len(links)
    other = pair_negatives(events, links, kind, first_test=first_test, seed=1)
    assert other.digest != drawn.digest


def test_pairs_do_not_depend_on_how_nodes_are_numbered() -> None:
    events = random_events(1, num_nodes=12, num_links=300, span=200)
    to = np.random.default_rng(0).permutation(12)
    renamed = cawn.Events(to[events.src], to[events.dst], events.t, num_nodes=12)
    links = np.arange(240, 300)
    one, other = (pair_negatives(some, links, "inductive pairs", first_test=240, seed=0) for some in (events, renamed))
    assert one.fallback > 0
    np.testing.assert_array_equal(to[one.src], other.src)
    np.testing.assert_array_equal(to[one.dst], other.dst)


def test_pairs_of_a_complete_network_are_refused() -> None:
    events = cawn.Events([0, 0, 1, 1] * 5, [2, 3, 2, 3] * 5, np.arange(20))
    with pytest.raises(cawn.DataError, match="every source links to every destination"):
        pair_negatives(events, np.arange(10, 20), "inductive pairs", first_test=10, seed=0)


def test_known_negatives_are_earlier_destinations() -> None:
    """By hand: destinations 5, 6, 7 first appear at times 1, 2 and 3; two links share time 2."""
    events = cawn.Events([0, 1, 0, 1, 0, 1], [5, 6, 5, 7, 6, 7], [1, 2, 2, 3, 4, 5])
    links = np.arange(6)
    drawn = np.stack([known_negatives(events, links, seed) for seed in range(40)], axis=1)
    found = [set(row.tolist()) for row in drawn]
    assert found == [{-1}, {5}, {-1}, {5, 6}, {5, 7}, {5, 6}]
    nodes = np.array([5, 6, 6, 7, 0])
    np.testing.assert_array_equal(
        seen_before(events, nodes, np.array([2, 2, 3, 3, 9])), [True, False, True, False, False]
    )


def test_training_negatives_appear_by_the_end_of_their_links_period() -> None:
    t = np.repeat(np.arange(10), 2)  # five periods of two times each
    dst = np.arange(20) % 16 + 1  # a new destination with each link, at first
    events = cawn.Events(np.zeros(20, int), dst, t)
    drawn = [choices(events, np.arange(20), "period", seen=np.arange(20)).draw(seed) for seed in range(300)]
    for link, found in enumerate(np.transpose(drawn)):
        period = link // 4
        assert set(found) == set(dst[: 4 * period + 4]) - {dst[link]}


def test_a_period_with_one_destination_draws_the_next() -> None:
    lonely = cawn.Events([0] * 10, [1] * 5 + [2, 3, 4, 5, 6], np.arange(10))
    drawn = choices(lonely, np.arange(10), "period", seen=np.arange(10)).draw(0)
    assert drawn[:2].tolist() == [2, 2]


def test_share_of_negatives_that_are_links_at_the_same_time() -> None:
    events = cawn.Events([0, 0, 1, 0, 0, 1], [5, 6, 6, 5, 6, 6], [1, 1, 1, 2, 2, 3])
    links = np.array([3, 4, 5])  # (0, 5) and (0, 6) at time 2, (1, 6) at time 3
    ends = np.array([6, 7, 5], np.int32)  # (0, 6) is a link at time 2
    assert linked_share(events, links, Negatives(ends, 0.0)) == pytest.approx(1 / 3)
    sources = np.array([0, 0, 1], np.int32)
    assert linked_share(events, links, Negatives(np.full(3, 6, np.int32), 0.0, sources)) == 1
