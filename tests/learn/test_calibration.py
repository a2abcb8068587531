"""Probabilities that can be believed."""

import json
import math

import numpy as np
import pytest

import cawn
from cawn.learn.calibration import FLATTEST, STEP, Calibration, RollingCalibration, fit_and_check, sigmoid
from cawn.learn.reliability import reliability


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
    """Within five standard errors of a fit to 40,000 draws (about 0.02 of the log-odds within two deviations)."""
    true, false = drawn(scale, shift)
    found = Calibration.fit(true, false)
    odds = np.linspace(-4, 4, 9)
    p = found.probability((odds - shift) / scale)
    np.testing.assert_allclose(np.log(p / (1 - p)), odds, atol=0.3)
    np.testing.assert_allclose(np.log(p / (1 - p))[3:6], odds[3:6], atol=0.1)
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


def test_low_logits_have_their_own_temperature() -> None:
    """The log-odds have slope 1/2 at high logits and 3 at low ones; with one temperature, they are a line."""
    z = np.array([-40.0, -39.0, 0.0, 39.0, 40.0])
    odds = [math.log(p / (1 - p)) for p in Calibration(2.0, 0.5, 1 / 3).probability(z / 4)]
    assert (odds[1] - odds[0]) * 4 == pytest.approx(3, abs=1e-2)
    assert (odds[4] - odds[3]) * 4 == pytest.approx(0.5, abs=1e-2)
    assert odds[2] == pytest.approx(0.5 + (1 / 2 - 3) * math.log(2))
    same = Calibration(2.0, 0.5, 2.0).probability(z)
    np.testing.assert_array_equal(same, sigmoid(z / 2 + 0.5))
    np.testing.assert_array_equal(same, Calibration(2.0, 0.5).probability(z))


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_the_logits_is_kept_whatever_was_fitted(seed: int) -> None:
    rng = np.random.default_rng(seed)
    true, false = rng.normal(rng.normal(), rng.uniform(0.1, 9), (2, 300))
    found = Calibration.fit(true, false).refit(false[:150], true[:80])
    assert min(found.slopes) >= FLATTEST
    p = found.probability(np.linspace(-9, 9, 99))
    assert (np.diff(p) > 0).all()


def test_newer_links_count_more() -> None:
    """Links of half a life ago, with another shift, move the fit less than a third of the way."""
    old, new = drawn(1.0, 2.0, size=2_000), drawn(1.0, 0.0, seed=1, size=10_000)
    logits = [np.concatenate([a[:900], b[:500]]) for a, b in zip(old, new, strict=True)]
    shifts = {life: Calibration.fit(*logits, life).probability(np.zeros(1))[0] for life in (math.inf, 100.0)}
    assert sigmoid(np.array(0.9)) < shifts[math.inf]
    assert abs(shifts[100.0] - 0.5) < 0.12


def stretch(shift: float, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    true, false = drawn(1.0, shift, seed=seed, size=4 * count)
    return true[:count], false[:count]


def test_a_rolling_calibration_follows_a_drift_and_uses_only_earlier_links() -> None:
    n = 3_000
    parts = [stretch(shift, n // 6, seed) for seed, shift in enumerate(np.linspace(0, 3, 6))]
    true, false = (np.concatenate(side) for side in zip(*parts, strict=True))
    t = np.repeat(np.arange(n // 2), 2)  # two links at each time
    start = RollingCalibration((Calibration.fit(true[:500], false[:500]),), (t[499].item(),))
    later = slice(500, None)
    rolling = start.follow(t[later], true[later], false[later])
    errors = [
        reliability(*(found.probability(side[later], t[later]) for side in (true, false)))["ece"]
        for found in (start, rolling)
    ]
    assert errors[1] < errors[0] / 2
    assert len(rolling.steps) == 1 + 2_500 // (STEP + 1)  # a step ends with all links of its last time

    changed = true.copy()
    changed[2_000:] = -5.0  # of links from time t[2_000] on
    again = start.follow(t[later], changed[later], false[later])
    before, after = (found.probability(np.zeros(n), t) for found in (rolling, again))
    until = int(np.searchsorted(t, t[2_000], side="right"))
    np.testing.assert_array_equal(before[:until], after[:until])
    assert (before[until + 2 * STEP :] != after[until + 2 * STEP :]).all()


def test_the_step_of_a_time_by_hand() -> None:
    rolling = RollingCalibration((Calibration(), Calibration(1.0, 1.0), Calibration(1.0, 2.0)), (5, 10, 20))
    assert [rolling.at(t).shift for t in (0, 10, 11, 20, 21)] == [0.0, 0.0, 1.0, 1.0, 2.0]
    np.testing.assert_array_equal(rolling.probability(np.zeros(2), np.array([10, 21])), sigmoid(np.array([0.0, 2.0])))
    assert rolling.initial.steps == (Calibration(),)
    fixed = RollingCalibration.of(Calibration(1.0, 1.0))
    np.testing.assert_array_equal(fixed.probability(np.zeros(1), np.array([3])), sigmoid(np.ones(1)))


def test_too_few_links_change_nothing() -> None:
    start = RollingCalibration.of(Calibration())
    t = np.arange(STEP)
    assert start.follow(t[1:], np.ones(STEP - 1), np.ones(STEP - 1)) == start
    assert start.follow(t, np.ones(STEP), np.ones(STEP), np.zeros(STEP, bool)) == start
    assert start.follow(t, np.ones(STEP), np.zeros(STEP)).since == (None, STEP - 1)


def test_json_and_back_continues_the_same() -> None:
    t, (true, false) = np.arange(600), stretch(0.5, 600, 0)
    half = RollingCalibration.of(Calibration.fit(true[:100], false[:100])).follow(
        t[100:350], true[100:350], false[100:350]
    )
    read = RollingCalibration.from_dict(json.loads(json.dumps(half.to_dict())))
    assert read == half
    rest = slice(350, None)
    assert read.follow(t[rest], true[rest], false[rest]) == half.follow(t[rest], true[rest], false[rest])


@pytest.mark.parametrize(
    "wrong",
    [
        {"low_temperature": -1.0},
        {"low_temperature": math.inf},
        {"information": [[1.0]]},
        {"information": [[0.0] * 3] * 3},
        {"since": "yesterday"},
        {"later": [{"temperature": 1.0, "shift": 0.0}]},
        {"later": [{"temperature": 1.0, "shift": 0.0, "since": 1}, {"temperature": 1.0, "shift": 0.0, "since": 1}]},
        {"later": [{"temperature": 0.0, "shift": 0.0, "since": 1}]},
        {"later": 3},
    ],
)
def test_damaged_json_is_refused(wrong: dict) -> None:
    with pytest.raises(cawn.DataError, match="calibration needs"):
        RollingCalibration.from_dict({"temperature": 1.0, "shift": 0.0} | wrong)


def test_validation_links_choose_how_fast_to_forget() -> None:
    """Half-lives are compared on later links: with a trend, recent links count more."""
    n = 1_500
    parts = [stretch(shift, n // 6, seed) for seed, shift in enumerate(np.linspace(0, 6, 6))]
    found = fit_and_check(np.arange(n), *(np.concatenate(side) for side in zip(*parts, strict=True)))
    assert found.half_life == found.to_dict()["half_life"] == 500
    assert found.calibration.since == (n - 1,)
    assert found.expected is not None
    assert found.expected["links"] == n // 2
    assert found.expected["rolling"]["ece"] < found.expected["fixed"]["ece"]


def test_few_validation_links_are_fitted_without_a_check() -> None:
    true, false = stretch(0.0, 40, 0)
    found = fit_and_check(np.zeros(40), true, false)
    assert (found.half_life, found.expected) == (math.inf, None)
    assert found.to_dict() == {"half_life": None, "expected": None}
    assert found.calibration.steps == (Calibration.fit(true, false),)


def test_a_closed_calibration_keeps_its_last_step_and_its_time() -> None:
    first, second = Calibration(1.0, 0.0), Calibration(2.0, 1.0)
    rolling = RollingCalibration((first, second), (5, 7))
    assert rolling.closed_until(7) is rolling
    closed = rolling.closed_until(9)
    assert closed == RollingCalibration((first, second, second), (5, 7, 9))
    assert RollingCalibration.from_dict(closed.to_dict()).since == (5, 7, 9)
    assert closed.initial == rolling.initial


def test_a_step_fitted_elsewhere_applies_to_later_queries() -> None:
    first, second = Calibration(1.0), Calibration(2.0)
    rolling = RollingCalibration((first,), (10,)).then(second, 20)
    assert rolling.at(20) is first
    assert rolling.at(21) is second
    assert rolling.then(first, 20) is rolling  # no newer than the last
    for t in range(21, 700):
        rolling = rolling.then(second, t)
    assert len(rolling.steps) == len(rolling.since) == 256
    assert rolling.since[-1] == 699
