"""The state after any number of links is that of a replay from the start."""

import numpy as np

from cawn.rivals.stream import Replay


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
