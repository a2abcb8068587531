"""Probabilities that can be believed."""

import numpy as np
import pytest

import cawn
from cawn.learn.calibration import Calibration, reliability, sigmoid


def drawn(scale: float, shift: float, seed: int = 0, size: int = 40_000) -> tuple[np.ndarray, np.ndarray]:
    """Logits off by a factor and a shift from the log-odds that the labels were drawn with; half are true."""
    rng = np.random.default_rng(seed)
    odds = rng.normal(0, 2, size)
    truth = rng.random(size) < sigmoid(odds)
    logits = (odds - shift) / scale
    count = min(truth.sum(), (~truth).sum())
    return logits[truth][:count], logits[~truth][:count]


@pytest.mark.parametrize(("scale", "shift"), [(1.0, 0.0), (0.3, 0.8), (4.0, -1.5)])
def test_temperature_and_shift_are_found(scale: float, shift: float) -> None:
    """Within five standard errors of a fit to 40,000 draws (about 0.03 of the temperature)."""
    true, false = drawn(scale, shift)
    found = Calibration.fit(true, false)
    assert 1 / found.temperature == pytest.approx(scale, rel=0.07)
    assert found.shift == pytest.approx(shift, abs=0.1)
    after = reliability(found.probability(true), found.probability(false))
    assert after["ece"] < 0.02
    assert after["brier"] <= reliability(sigmoid(true), sigmoid(false))["brier"] + 1e-4


def test_separated_classes_stay_finite() -> None:
    found = Calibration.fit(np.full(50, 9.0), np.full(50, -9.0))
    assert np.isfinite([found.temperature, found.shift]).all()
    assert found.probability(np.array([9.0]))[0] > 0.99


def test_the_wrong_way_round_is_not_turned_over() -> None:
    found = Calibration.fit(np.linspace(-3, 0, 100), np.linspace(0, 3, 100))
    p = found.probability(np.array([-1.0, 1.0]))
    assert p[0] <= p[1]
    np.testing.assert_allclose(p, 0.5, atol=0.01)
    skewed = Calibration.fit(np.linspace(-9, -6, 100), np.linspace(-5, -2, 100))
    np.testing.assert_allclose(skewed.probability(np.array([-9.0, -2.0])), 0.5, atol=0.01)


def test_another_prior_moves_the_odds() -> None:
    p = Calibration(2.0, 0.3).probability(np.array([-1.0, 0.5]), prior=0.5)
    rare = Calibration(2.0, 0.3).probability(np.array([-1.0, 0.5]), prior=0.01)
    np.testing.assert_allclose(rare / (1 - rare), p / (1 - p) * (0.01 / 0.99))
    for prior in (0.0, 1.0, -1.0):
        with pytest.raises(cawn.QueryError, match="prior is"):
            Calibration().probability(np.zeros(1), prior=prior)


def test_errors_by_hand() -> None:
    found = reliability(np.array([0.9, 0.6]), np.array([0.1, 0.6]))
    assert found["brier"] == pytest.approx((0.01 + 0.16 + 0.01 + 0.36) / 4)
    assert found["ece"] == pytest.approx((0.1 + 0.1 + 0.2) / 4)
