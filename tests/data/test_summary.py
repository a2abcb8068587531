"""Networks in words."""

import pytest

import cawn
from cawn.data.decays import LADDERS
from cawn.data.summary import describe, in_words


def test_the_words_say_which_pairs_repeat() -> None:
    words = in_words(describe(cawn.Events([0, 1, 2, 0], [1, 0, 3, 1], [10, 20, 30, 40])))
    assert "50% repeat an earlier pair (in either direction)" in words
    assert "from 10 to 40; an average node links every 15 units of time (1/tau)" in words


def test_the_suggested_decays_are_those_of_the_model() -> None:
    events = cawn.Events([0, 1, 2, 0], [1, 0, 3, 1], [10, 20, 30, 40])
    assert describe(events)["alpha"] == [LADDERS["wide"][0] * events.intensity, LADDERS["wide"][-1] * events.intensity]


@pytest.mark.parametrize(
    ("events", "sentence"),
    [
        (cawn.Events([], [], []), "no links, so there is nothing to learn from"),
        (cawn.Events([0, 1], [1, 2], [7, 7]), "all links are at 7, so no link has a history"),
    ],
)
def test_networks_without_a_past(events: cawn.Events, sentence: str) -> None:
    words = in_words(describe(events))
    assert sentence in words
    assert "alpha" not in words
