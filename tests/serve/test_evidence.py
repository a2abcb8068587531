"""Repeated tests on paired differences: how often they are wrong, and whether they find a difference."""

import json
from collections.abc import Callable

import numpy as np
import pytest

from cawn.serve.evidence import PairedTest, t_quantile

Draw = Callable[[np.random.Generator, int], np.ndarray]


@pytest.mark.parametrize(
    ("share", "freedom", "quantile"),
    [(0.975, 19, 2.093), (0.9995, 19, 3.883), (0.9995, 39, 3.558), (0.999, 319, 3.117)],
)
def test_quantiles_of_students_t(share: float, freedom: int, quantile: float) -> None:
    assert t_quantile(share, freedom) == pytest.approx(quantile, abs=2e-3)


def false_verdicts(draw: Draw, windows: int, sequences: int, level: float, window: int = 100) -> list[int]:
    """The number of verdicts in each direction where the mean is 0; after each the test starts again."""
    rng, counts = np.random.default_rng(0), [0, 0]
    for _ in range(sequences):
        test = PairedTest(window, level)
        for _ in range(windows):
            if (verdict := test.add(draw(rng, window))) is not None:
                counts[verdict.means[0] > 0] += 1
                test.clear()
    return counts


def heavy_tails(rng: np.random.Generator, size: int) -> np.ndarray:
    """Differences of log losses: mostly near 0, sometimes large, in either direction."""
    return rng.standard_t(3, size)


def bursts(rng: np.random.Generator, size: int) -> np.ndarray:
    """Differences that are equal for five links in a row."""
    return np.repeat(rng.normal(size=size // 5), 5)


def independent(rng: np.random.Generator, size: int) -> np.ndarray:
    return rng.normal(size=size)


@pytest.mark.parametrize("draw", [independent, heavy_tails, bursts])
def test_false_verdicts_are_as_rare_as_stated(draw: Draw) -> None:
    # 1,200 windows at 0.05 each: at most 60 expected. More than 91 has a probability below 1e-4 (Poisson).
    counts = false_verdicts(draw, windows=40, sequences=30, level=0.05)
    assert max(counts) <= 91
    assert min(counts) >= 30  # half of the level is used, although each verdict starts the test again


def test_a_small_gain_is_found_over_several_windows() -> None:
    rng, test = np.random.default_rng(1), PairedTest(500, columns=2)
    for _ in range(40):
        gain = rng.normal(0.06, 1.0, 500)  # 1.3 standard errors in one window, 5.4 in sixteen
        verdict = test.add(np.stack([gain, np.full(500, 0.25)], axis=1))
        if verdict is not None:
            break
    assert verdict is not None
    assert verdict.links > 500
    assert verdict.means[0] == pytest.approx(0.06, abs=0.05)
    assert verdict.means[1] == 0.25
    assert test.newest_mean() == pytest.approx(0.06, abs=0.2)


def test_differences_arrive_in_any_portions_and_a_saved_test_continues() -> None:
    differences = np.random.default_rng(2).normal(0.3, 1, 1000)
    whole, parts = PairedTest(200), PairedTest(200)
    found, verdicts = whole.add(differences), []
    for part in np.array_split(differences, 37):
        verdicts.append(parts.add(part))
        state = json.loads(json.dumps(parts.state()))
        parts = PairedTest(200)
        parts.load(state)
    assert next(verdict for verdict in verdicts if verdict is not None) == found
    assert parts.links == whole.links == 1000
    assert parts.state()["waiting"] == whole.state()["waiting"]
    np.testing.assert_allclose(parts.state()["blocks"], whole.state()["blocks"])
    with pytest.raises(ValueError, match="does not fit"):
        PairedTest(200).load(parts.state() | {"links": 7})
    with pytest.raises(ValueError, match="does not fit"):
        PairedTest(200, columns=2).load(parts.state())
