"""The judge must be able to say no."""

import numpy as np

from statistics_of_draws import LEVEL, p_value


def test_a_slightly_wrong_law_is_refused() -> None:
    rng = np.random.default_rng(0)
    law = np.array([0.5, 0.3, 0.2])
    observed = np.bincount(rng.choice(3, 20_000, p=[0.47, 0.32, 0.21]), minlength=3)
    assert p_value(observed, law) < LEVEL


def test_p_values_of_the_right_law_are_uniform() -> None:
    rng = np.random.default_rng(1)
    law = np.array([0.6, 0.25, 0.1, 0.05])
    p = np.array([p_value(rng.multinomial(5_000, law), law) for _ in range(2_000)])
    counts, _ = np.histogram(p, bins=10, range=(0, 1))
    assert p_value(counts, np.full(10, 0.1)) > LEVEL
