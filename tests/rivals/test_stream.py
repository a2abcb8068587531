"""The state after any number of links is that of a replay from the start."""

import numpy as np
import pytest

from cawn.data.ties import in_canonical_order
from cawn.rivals.stream import Replay
from networks import random_events
from rivals.past_by_reading import briefly_trained
from tolerances import assert_same_scores


def test_any_order_of_questions() -> None:
    links = np.random.default_rng(0).integers(1, 100, 57)
    work = []

    def advance(state: list[int], first: int, last: int) -> None:
        work.append(last - first)
        state.extend(links[first:last].tolist())

    replay: Replay[list[int]] = Replay(list, advance, len(links), copies=4)
    for count in range(58):
        assert replay.after(count) == links[:count].tolist()
    assert sum(work) == 57
    for count in (57, 3, 30, 29, 0, 57, 56):
        assert replay.after(count) == links[:count].tolist()
    work.clear()
    replay.after(50)
    assert sum(work) <= 15  # from the nearest copy


def test_an_empty_stream() -> None:
    assert Replay(list, lambda *_: None, 0).after(0) == []


@pytest.mark.parametrize(("name", "lr"), [("jodie-original", 0.02), ("dyrep-original", 0.05)])
def test_a_prefix_may_end_between_simultaneous_links(name: str, lr: float) -> None:
    events = in_canonical_order(random_events(4, num_links=90, span=12))
    system = briefly_trained(name, events, lr=lr).system
    scorer = system.scorer(events)
    for visible in np.flatnonzero(events.t[1:] == events.t[:-1])[20::13] + 1:
        src, dst, t = np.array([1, 2, 3]), np.array([3, 1, 2]), np.full(3, events.t[-1] + 1)
        found = scorer.score_after(src, dst, t, np.full(3, visible))
        assert_same_scores(found, system.scorer(events[:visible])(src, dst, t))
