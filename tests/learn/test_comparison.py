"""Choosing between alternatives: noise rarely changes the choice, a clear gain does."""

import numpy as np

from cawn.learn.comparison import advantage, choose_alternative, trial_steps

NAMES = ("wide", "slow", "fast")


def test_noise_rarely_moves_the_ladder() -> None:
    """Three models of one quality. At three standard errors, 19 degrees of freedom, each of two others passes for
    better once in 270 times: 300 trials move about twice, more than ten times once in 10,000."""
    moved = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        true, false = rng.normal(1, 1, 400), rng.normal(0, 1, 400)
        noisy = {name: (true + rng.normal(0, 0.1, 400), false + rng.normal(0, 0.1, 400)) for name in NAMES}
        moved += choose_alternative(noisy) != "wide"
    assert moved <= 10


def test_a_clear_gain_does() -> None:
    rng = np.random.default_rng(0)
    false = rng.normal(0, 1, 2_000)
    scores = {
        name: (rng.normal(mean, 1, 2_000), false) for name, mean in {"wide": 1.0, "slow": 1.3, "fast": 1.8}.items()
    }
    assert choose_alternative(scores) == "fast"
    gain, error = advantage(scores["slow"], scores["wide"])
    assert 0 < error < gain


def test_too_few_links_to_tell() -> None:
    one = (np.array([1.0]), np.array([0.0]))
    assert choose_alternative({"wide": (one[1], one[0]), "slow": one, "fast": one}) == "wide"


def test_short_trainings_take_at_most_a_tenth_of_the_training() -> None:
    for planned in range(0, 5_000, 7):
        for alternatives in (2, 3, 4):
            assert trial_steps(planned, alternatives) * alternatives <= planned / 10
    assert trial_steps(3_000, 3) == trial_steps(1_000_000, 3) == 100
    assert trial_steps(1_500, 3) == 50
    assert trial_steps(750, 3) == 25
    assert trial_steps(749, 3) == trial_steps(0, 3) == 0
