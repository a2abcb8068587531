"""The recency baseline on a stream against `baselines.Past`, which is built from all links at once."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import cawn
from cawn.serve.recency import Recency
from cawn.systems.baselines import Past
from networks import random_events


def follow_all(
    events: cawn.Events, sizes: list[int], num_negatives: int = 5
) -> list[tuple[int, np.ndarray, np.ndarray]]:
    """Position, destinations and scores of every link, where links arrive in batches of these sizes."""
    state, rng, found, first = Recency(), np.random.default_rng(0), [], 0
    while first < len(events):
        part = events[first : first + sizes[len(found) % len(sizes)]]
        asked = np.arange(len(part))
        followed = state.follow(part.src, part.dst, part.t, asked, rng.random((len(part), num_negatives)))
        dst = np.concatenate([part.dst[:, None], followed.negatives], axis=1)
        found += [(first + i, dst[i], followed.scores[i]) for i in range(len(part))]
        first += len(part)
    return found


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000), sizes=st.lists(st.integers(1, 40), min_size=1, max_size=4))
def test_scores_are_those_of_the_baseline_on_the_whole_history(seed: int, sizes: list[int]) -> None:
    events = random_events(seed)
    past = Past(events)
    for link, dst, scores in follow_all(events, sizes):
        known = dst >= 0
        src, t = np.repeat(events.src[link], known.sum()), np.repeat(events.t[link], known.sum())
        np.testing.assert_array_equal(scores[known], past.recency(src, dst[known], t))


def test_negatives_are_earlier_destinations_except_the_links_own() -> None:
    events = random_events(3, num_links=200)
    drawn: dict[int, set[int]] = {}
    for link, dst, _ in follow_all(events, [7], num_negatives=60):
        earlier = set(events.dst[events.t < events.t[link]].tolist()) - {int(events.dst[link])}
        assert set(dst[1:].tolist()) <= (earlier or {-1})
        drawn[link] = earlier - set(dst[1:].tolist())
    assert not any(drawn[link] for link in range(150, 200))  # 60 draws among at most 8 destinations find all


def test_new_nodes_and_pairs() -> None:
    state = Recency()
    t = np.array([1, 1, 2, 2, 3])
    followed = state.follow(np.array([0, 1, 1, 0, 2]), np.array([1, 0, 0, 2, 0]), t)
    assert followed.new_pair.tolist() == [True, True, False, True, False]  # without direction; 0-1 twice at time 1
    assert followed.new_node.tolist() == [True, True, False, True, False]
    assert state.newest == 3


def test_a_late_link_is_added_where_it_belongs() -> None:
    state = Recency()
    state.follow(np.array([0, 0, 0]), np.array([1, 2, 3]), np.array([1, 5, 9]))
    state.insert(np.array([0]), np.array([4]), np.array([1]))  # between the first two
    assert state.late == 1
    assert state.is_late(np.array([8, 9])).tolist() == [True, False]
    followed = state.follow(np.array([0]), np.array([4]), np.array([10]), np.array([0]), np.linspace(0, 0.99, 30)[None])
    assert not followed.new_pair[0]
    scores = dict(zip([4, *followed.negatives[0].tolist()], followed.scores[0].tolist(), strict=True))
    assert scores[1] < scores[4] <= scores[2] < scores[3]


def test_the_tables_grow() -> None:
    events = random_events(1, num_nodes=3000, num_links=6000, span=10**9)
    new_nodes, new_pairs = Recency().extend(events, 0, 6000)
    assert len(np.unique(events.t)) == 6000  # no ties, so that every pair is new once
    pairs = np.stack([np.minimum(events.src, events.dst), np.maximum(events.src, events.dst)])
    assert new_pairs == len(np.unique(pairs, axis=1).T)
    nodes = set(events.src.tolist()) | set(events.dst.tolist())
    assert len(nodes) / 2 <= new_nodes <= len(nodes)
