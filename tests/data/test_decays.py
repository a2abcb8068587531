"""Decays: the ladder, and what the settings make of it."""

import numpy as np

import cawn
from cawn.data import laws
from cawn.data.decays import LADDERS
from cawn.systems.cawn.config import Config
from cawn.systems.cawn.system import decays


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
