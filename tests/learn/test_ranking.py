"""Ranks of links among many destinations."""

from typing import Any

import numpy as np
import pytest

import cawn
from cawn.errors import QueryError
from cawn.learn import metrics
from cawn.learn.ranking import random_candidates, rank_among, rank_among_all
from networks import random_events


def by_destination(src: Any, dst: Any, t: Any) -> Any:
    """Scores a pair by its destination alone, in steps of two."""
    return (dst // 2).astype(np.float64)


def hashed(src: Any, dst: Any, t: Any) -> Any:
    """A score that depends on all three, with many ties."""
    return (src.astype(np.int64) * 31 + dst.astype(np.int64) * 17 + (np.asarray(t) * 7).astype(np.int64)) % 11 / 1.0


def test_ranks_by_hand() -> None:
    events = cawn.Events([0, 0, 1], [2, 4, 5], [1, 2, 3])
    candidates = np.array([[3, 4, 5], [5, 2, -1], [2, 3, 4]])
    # Scores 1, 1, 2, 2 of nodes 2, 3, 4, 5. Link 0: one tie, two above; link 1: one tie; link 2: one tie.
    assert rank_among(by_destination, events, np.arange(3), candidates).tolist() == [3.5, 1.5, 1.5]


def test_other_destinations_at_the_same_time_are_not_counted() -> None:
    events = cawn.Events([0, 0, 0, 1], [2, 4, 4, 3], [1, 1, 1, 1])
    pool = np.array([2, 3, 4, 5])
    # Node 0 links to 2 and 4 at once: 2 competes with 3 (tie) and 5; 4 with 3 and 5 (tie).
    assert rank_among_all(by_destination, events, np.arange(4), pool).tolist() == [2.5, 1.5, 1.5, 3.5]
    later = np.array([1.0, 2.0, 3.0, 4.0])  # scored at times of their own: the same destinations are left out
    assert rank_among_all(by_destination, events, np.arange(4), pool, times=later).tolist() == [2.5, 1.5, 1.5, 3.5]


@pytest.mark.parametrize("block", [1, 70, 1 << 17])
def test_all_destinations_as_one_by_one(block: int) -> None:
    events = random_events(0, num_nodes=12, num_links=200, span=9)
    links, pool = np.arange(120, 200), np.unique(events.dst)
    for times in (None, events.t[links] + np.linspace(0, 0.9, len(links))):
        t = events.t[links] if times is None else times
        expected = []
        for link, now in zip(links, t, strict=True):
            same = (events.src[links] == events.src[link]) & (events.t[links] == events.t[link])
            others = np.setdiff1d(pool, events.dst[links[same]])
            asked = np.append(events.dst[link], others)
            scores = hashed(np.repeat(events.src[link], len(asked)), asked, np.repeat(now, len(asked)))
            expected.append(metrics.ranks(scores[:1], scores[None, 1:])[0])
        found = rank_among_all(hashed, events, links, pool, times=times, block=block)
        assert found.tolist() == expected
        assert len(set(expected)) > 10


def test_blocks_are_in_order_and_share_their_source() -> None:
    events = random_events(1, num_nodes=12, num_links=200, span=60)
    links, pool, calls, shares = np.arange(100, 200), np.unique(events.dst), [], []

    def scorer(src: Any, dst: Any, t: Any) -> Any:
        calls.append((src, t))
        return hashed(src, dst, t)

    whole = rank_among_all(scorer, events, links, pool)
    assert len(calls) == 1
    src, t = calls[0]
    assert (np.diff(t) >= 0).all()
    changes = np.count_nonzero((np.diff(src) != 0) | (np.diff(t) != 0)) + 1
    distinct = len(set(zip(events.src[links].tolist(), events.t[links].tolist(), strict=True)))
    assert changes == distinct
    assert len(src) == distinct * len(pool)  # each source and time is scored once
    calls.clear()
    assert rank_among_all(scorer, events, links, pool, block=100, report=shares.append).tolist() == whole.tolist()
    assert max(len(src) for src, _ in calls) <= 100
    assert shares == sorted(shares)
    assert shares[-1] == 1
    times = np.concatenate([t for _, t in calls])
    assert (np.diff(times) >= 0).all()


def test_random_candidates_are_destinations_but_not_the_links_own() -> None:
    events = random_events(2, num_nodes=12, num_links=200)
    links = np.arange(100, 150)
    found = random_candidates(events, links, 40, seed=0)
    assert found.shape == (50, 40)
    assert np.isin(found, events.dst[:150]).all()
    assert not (found == events.dst[links][:, None]).any()
    assert np.array_equal(found, random_candidates(events, links, 40, seed=0))


def test_bad_questions_are_refused() -> None:
    events = cawn.Events([0, 1], [2, 3], [1, 2])
    links = np.arange(2)
    with pytest.raises(QueryError, match="a row for each link"):
        rank_among(by_destination, events, links, np.zeros((1, 3), int))
    with pytest.raises(QueryError, match="lacks destinations"):
        rank_among_all(by_destination, events, links, np.array([2]))
    with pytest.raises(QueryError, match="NaN"):
        rank_among(lambda src, dst, t: np.full(len(src), np.nan), events, links, np.zeros((2, 3), int))
