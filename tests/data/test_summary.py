"""Networks in words, and the decays that follow from their pace."""

import numpy as np
import pytest

import cawn
from cawn.data import laws
from cawn.data.decays import LADDERS
from cawn.data.summary import describe, in_words
from cawn.systems.cawn.config import Config
from cawn.systems.cawn.system import decays


def test_a_network_in_words() -> None:
    events = cawn.Events([0, 1, 2, 0], [1, 0, 3, 1], [10, 20, 30, 40])
    words = in_words(describe(events))
    assert "50% repeat an earlier pair (in either direction)" in words
    assert "from 10 to 40; an average node links every 15 units of time (1/tau)" in words
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


def test_the_ladder_follows_the_pace_of_the_network() -> None:
    events = laws.null(50, 1_000, seed=0).events
    tau = events.intensity
    assert decays(Config(), tau) == tuple(f * tau for f in LADDERS["wide"])
    assert len(decays(Config(num_walks=12), tau)) == 4
    assert decays(Config(num_walks=5), tau) == (LADDERS["wide"][4] * tau,)
    assert decays(Config(alpha=0.5), tau, "slow") == (0.5,)
    assert decays(Config(alpha=(0.5, 2.0)), tau) == (0.5, 2.0)
    assert decays(Config.preset("paper-mean"), tau) == (tau / 5,)
    faster = cawn.Events(events.src, events.dst, events.t / 1000.0, num_nodes=50)
    np.testing.assert_allclose(np.array(decays(Config(), faster.intensity)) / decays(Config(), tau), 1000)
