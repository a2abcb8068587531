"""Decays: the rule, and the comparison that may overrule it."""

import numpy as np

import cawn
from cawn.data import laws
from cawn.systems.cawn.config import Config
from cawn.systems.cawn.decays import LADDERS, advantage, better, decays


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


def test_noise_rarely_moves_the_ladder() -> None:
    """Three models of one quality. At three standard errors, 19 degrees of freedom, each of two others passes for
    better once in 270 times: 300 trials move about twice, more than ten times once in 10,000."""
    moved = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        true, false = rng.normal(1, 1, 400), rng.normal(0, 1, 400)
        noisy = {name: (true + rng.normal(0, 0.1, 400), false + rng.normal(0, 0.1, 400)) for name in LADDERS}
        moved += better(noisy) != "wide"
    assert moved <= 10


def test_a_clear_gain_does() -> None:
    rng = np.random.default_rng(0)
    false = rng.normal(0, 1, 2_000)
    scores = {
        name: (rng.normal(mean, 1, 2_000), false) for name, mean in {"wide": 1.0, "slow": 1.3, "fast": 1.8}.items()
    }
    assert better(scores) == "fast"
    gain, error = advantage(scores["slow"], scores["wide"])
    assert 0 < error < gain


def test_too_few_links_to_tell() -> None:
    one = (np.array([1.0]), np.array([0.0]))
    assert better({"wide": (one[1], one[0]), "slow": one, "fast": one}) == "wide"
