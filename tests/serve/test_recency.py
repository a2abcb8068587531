"""The recency baseline on a stream against `baselines.Past`, which is built from all links at once."""

from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import cawn
from cawn.index.features import PairParts
from cawn.index.index import Index
from cawn.index.kinds import NODES
from cawn.serve.recency import NONE, Recency
from cawn.systems.baselines import Past
from networks import random_events

WALKS = (NODES,)


def arrived(events: cawn.Events, order: np.ndarray, sizes: list[int]) -> Recency:
    """The state after the links arrived in this order, in batches of these sizes."""
    state, first, count = Recency(events.src[:0], events.dst[:0], events.t[:0]), 0, 0
    while first < len(order):
        batch = np.sort(order[first : first + sizes[count % len(sizes)]])
        state.add(events.src[batch], events.dst[batch], events.t[batch])
        first, count = first + len(batch), count + 1
    return state


def state_of(events: cawn.Events, *, indexed: bool) -> Any:
    """A snapshot of a system with an index that has the lists, or without."""
    parts = PairParts()
    index = Index.of(events, np.array([0.1]), parts.live_kinds if indexed else WALKS, parts.decay(1.0))
    return SimpleNamespace(events=events, scorer=SimpleNamespace(history=cawn.History.of(index)))


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 1000),
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=4),
    late=st.sampled_from([0, 60]),
    indexed=st.booleans(),
)
def test_however_links_arrive_the_answers_are_those_of_the_whole_history(
    seed: int, sizes: list[int], late: int, indexed: bool
) -> None:
    events, rng = random_events(seed), np.random.default_rng(seed)
    state = arrived(events, np.argsort(np.arange(len(events)) + late * rng.random(len(events))), sizes)
    dst, t = rng.permutation(events.dst), np.sort(rng.choice(events.t, len(events)))
    snapshot = state_of(events, indexed=indexed)
    scores = state.scores(snapshot, events.src, dst, t)
    np.testing.assert_array_equal(scores, Past(events).recency(events.src, dst, t))
    assert state.newest == events.t[-1]

    for i, (new_node, new_pair) in enumerate(state.news(snapshot, events.src, dst, t).tolist()):
        before = events.t < t[i]
        ends = np.stack([events.src, events.dst])[:, before]
        assert new_node == (not (events.src[i] in ends and dst[i] in ends))
        pair = {events.src[i], dst[i]}
        assert new_pair == (not any({u, v} == pair for u, v in ends.T.tolist()))


def test_negatives_are_earlier_destinations_except_the_links_own() -> None:
    events, rng = random_events(3, num_links=200), np.random.default_rng(0)
    state = arrived(events, np.argsort(np.arange(200) + 30 * rng.random(200)), [7])
    drawn = state.negatives(events.dst, events.t, rng.random((200, 300)))
    for i in range(200):  # each of at most 9 destinations is missed by 300 draws with a probability below 1e-14
        earlier = set(events.dst[events.t < events.t[i]].tolist()) - {int(events.dst[i])}
        assert set(drawn[i].tolist()) == (earlier or {NONE})
