"""Calibrated probabilities from logits, fitted on held-out links and refitted as further links arrive.

Networks drift: as activity rises or falls, the logits of links and of negatives move, and a calibration fitted once on
validation links is soon off. A `RollingCalibration` therefore has one `Calibration` for each period of time, fitted on
the links before it with more weight on recent ones.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cawn.checks import check_number
from cawn.errors import DataError
from cawn.learn.reliability import reliability

Array = npt.NDArray[Any]
Matrix = tuple[tuple[float, ...], ...]

FITTED_PRIOR = 0.5  # one negative per positive
FLATTEST = 1e-3  # smallest slope, used if the model has learned nothing
HALF_LIFE = 500  # links: when refitting, a link counts half as much as one that is this many links newer
HALF_LIVES = (math.inf, 2000.0, 1000.0, 500.0)  # to choose from for the fit on validation links
STEP = 125  # links between two fits, at least
MOST_STEPS = 256  # fits in one call of `follow`
LEAST_CHECKED = 4 * STEP  # validation links needed to compare half-lives
_STIFFNESS = 0.05  # regularisation towards the previous fit that does not decay, so that separable links do not diverge
_UNCERTAIN: Matrix = ((50.0, 0.0, 0.0), (0.0, 50.0, 0.0), (0.0, 0.0, 50.0))  # for calibrations that record none


@dataclass(frozen=True, slots=True)
class Calibration:
    """P(link) = sigmoid(z / temperature + shift) of a logit z, assuming one negative per positive.

    If `low_temperature` is given, it takes the place of `temperature` for very low logits, with a smooth transition
    around 0 (beta calibration; Kull et al., 2017). Probabilities always increase with the logit.
    """

    temperature: float = 1.0
    shift: float = 0.0
    low_temperature: float | None = None
    information: Matrix = field(default=_UNCERTAIN, repr=False, compare=False)  # curvature of the log-likelihood

    @classmethod
    def fit(cls, true: Array, false: Array, half_life: float = math.inf) -> Calibration:
        """Fit the logits of positives and as many negatives, each in time order, by maximum likelihood.

        Weak regularisation keeps all values finite if the two classes are separable.

        Args:
            half_life: A link counts half as much as one that is this many links newer.
        """
        sample = _Sample.of(true, false, half_life)
        start = np.array([1.0, 1.0, 0.0])
        information = np.diag(1e-3 * np.maximum(np.mean(sample.features**2, axis=1), 1e-6))
        weights, information = _maximise(sample, start, information)
        total = sample.weight.sum() / 2  # links
        return cls._of(weights, information * min(1.0, HALF_LIFE / math.log(2) / total))

    def refit(self, true: Array, false: Array) -> Calibration:
        """The calibration after further links; earlier ones count half for each `HALF_LIFE` of these."""
        information = np.array(self.information) * 0.5 ** (len(true) / HALF_LIFE) + _STIFFNESS * np.eye(3)
        start = np.array([*self.slopes, self.shift])
        return self._of(*_maximise(_Sample.of(true, false, HALF_LIFE), start, information))

    @classmethod
    def _of(cls, weights: Array, information: Array) -> Calibration:
        high, low, shift = weights.tolist()
        return cls(1 / high, shift, 1 / low, tuple(tuple(row) for row in information.tolist()))

    @property
    def slopes(self) -> tuple[float, float]:
        """The slopes of the log-odds at very high and at very low logits."""
        return 1 / self.temperature, 1 / (self.low_temperature or self.temperature)

    @classmethod
    def from_dict(cls, found: Any) -> Calibration:
        """From JSON; raises DataError for values that would invert or invalidate probabilities."""
        try:
            low = found.get("low_temperature")
            calibration = cls(
                float(found["temperature"]),
                float(found["shift"]),
                None if low is None else float(low),
                _matrix(found.get("information", _UNCERTAIN)),
            )
            temperatures = [calibration.temperature, *([] if low is None else [float(low)])]
            if not all(0 < value < math.inf for value in temperatures) or not math.isfinite(calibration.shift):
                raise ValueError
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise DataError("calibration needs a temperature above 0 and a shift, both finite") from error
        return calibration

    def to_dict(self) -> dict[str, Any]:
        """For a JSON file."""
        values = {"temperature": self.temperature, "shift": self.shift, "low_temperature": self.low_temperature}
        return values | {"information": [list(row) for row in self.information]}

    def probability(self, logits: Array, prior: float = FITTED_PRIOR) -> npt.NDArray[np.float64]:
        """The probability of a link, where `prior` is the share of positives among the candidates."""
        check_prior(prior)
        return _probability(np.asarray(logits, float), np.array([*self.slopes, self.shift]), prior)


@dataclass(frozen=True, slots=True)
class RollingCalibration:
    """Calibrations in time order. Each was fitted on links up to the time `since`, and applies to later queries.

    The first also applies to queries before its time. At any one time there is one calibration, so probabilities at
    that time have the order of the logits.
    """

    steps: tuple[Calibration, ...]
    since: tuple[int | float | None, ...]  # ascending; the first may be unknown

    @classmethod
    def of(cls, calibration: Calibration | RollingCalibration) -> RollingCalibration:
        """A single calibration applies to all times."""
        return calibration if isinstance(calibration, RollingCalibration) else cls((calibration,), (None,))

    @property
    def initial(self) -> RollingCalibration:
        """Only the first step, fitted on validation links."""
        return RollingCalibration(self.steps[:1], self.since[:1])

    def known_since(self, t: Any) -> RollingCalibration:
        """The same, fitted on links up to time t if the time of the first step is unknown."""
        return self if self.since[0] is not None else RollingCalibration(self.steps, (t, *self.since[1:]))

    def closed_until(self, t: Any) -> RollingCalibration:
        """The same, never refitted on links up to time t, such as those that the weights were trained on."""
        if self.since[-1] is not None and self.since[-1] >= t:
            return self
        return RollingCalibration((*self.steps, self.steps[-1]), (*self.since, t))

    def then(self, calibration: Calibration, t: Any) -> RollingCalibration:
        """With one more step, fitted on links up to time t; unchanged if the last is as new. Few steps are kept."""
        if self.since[-1] is not None and self.since[-1] >= t:
            return self
        first = max(len(self.steps) + 1 - MOST_STEPS, 0)
        return RollingCalibration((*self.steps[first:], calibration), (*self.since[first:], t))

    def at(self, t: Any) -> Calibration:
        """The calibration of queries at time t."""
        return self.steps[int(self._index(np.asarray(t)))]

    def probability(self, logits: Array, t: Array, prior: float = FITTED_PRIOR) -> npt.NDArray[np.float64]:
        """The probabilities of links at times t [B], from logits [..., B]."""
        check_prior(prior)
        weights = np.array([[*step.slopes, step.shift] for step in self.steps])  # [steps, 3]
        return _probability(np.asarray(logits, float), weights[self._index(np.asarray(t))].T, prior)

    def _index(self, t: Array) -> Array:
        """The number of the step for each time: the last one fitted on links strictly before it."""
        later = np.array(self.since[1:], dtype=None if len(self.since) > 1 else t.dtype)
        return np.searchsorted(later, t, side="left")

    def follow(
        self, t: Array, true: Array, false: Array, known: npt.NDArray[np.bool_] | None = None
    ) -> RollingCalibration:
        """Refit every `STEP` links or more; the links after the last fit are left out.

        Args:
            t: Times of the links, in ascending order: [n].
            true: Logits of the links: [n].
            false: Logits of one negative for each: [n].
            known: Which of the negatives to use: [n]; all by default.
        """
        known = np.ones(len(t), bool) if known is None else known
        steps, since, start = list(self.steps), list(self.since), 0
        size = max(STEP, -(-len(t) // MOST_STEPS))
        while len(t) - start >= size:
            end = int(np.searchsorted(t, t[start + size - 1], side="right"))
            part = slice(start, end)
            if known[part].any():
                steps.append(steps[-1].refit(true[part], false[part][known[part]]))
                since.append(t[end - 1].item())
            start = end
        return RollingCalibration(tuple(steps), tuple(since))

    @classmethod
    def from_dict(cls, found: Any) -> RollingCalibration:
        """The inverse of `to_dict`, also for a single calibration; raises DataError for anything else."""
        first = Calibration.from_dict(found)
        try:
            later = list(found.get("later") or [])
            steps = tuple(Calibration.from_dict(step) for step in later)
            since = [found.get("since"), *(step["since"] for step in later)]
            times = np.array([time for time in since if time is not None], float)
            if not np.isfinite(times).all() or (np.diff(times) <= 0).any() or None in since[1:]:
                raise ValueError
        except (KeyError, TypeError, ValueError) as error:
            raise DataError("calibration needs finite times in ascending order") from error
        return cls((first, *steps), tuple(since))

    def to_dict(self) -> dict[str, Any]:
        """For a JSON file; the curvature is recorded where a refit may start, for the first and the last step."""
        found = [step.to_dict() | {"since": time} for step, time in zip(self.steps, self.since, strict=True)]
        for step in found[1:-1]:
            del step["information"]
        return found[0] | {"prior": FITTED_PRIOR, "later": found[1:]}


class Check(NamedTuple):
    """A calibration of validation links, and how well one of the earlier half of them fits the later half."""

    calibration: RollingCalibration
    half_life: float
    expected: dict[str, Any] | None  # reliability on the later half, with and without refitting; None if too few

    def to_dict(self) -> dict[str, Any]:
        """What is recorded beside the calibration."""
        return {"half_life": None if math.isinf(self.half_life) else self.half_life, "expected": self.expected}


def fit_and_check(t: Array, true: Array, false: Array) -> Check:
    """Fit validation links, in time order; recent links count more if that fits the later half of them better.

    The half-life is chosen by the log-likelihood of the later half, given a calibration of the earlier half.
    """
    half_life, expected = math.inf, None
    middle = int(np.searchsorted(t, t[len(t) // 2]))  # links at one time stay together
    if len(t) >= LEAST_CHECKED and middle > 0:
        early, late = slice(0, middle), slice(middle, None)
        fits = {each: Calibration.fit(true[early], false[early], each) for each in HALF_LIVES}
        half_life = max(HALF_LIVES, key=lambda each: _log_likelihood(fits[each], true[late], false[late]))
        rolling = RollingCalibration((fits[half_life],), (t[middle - 1].item(),))
        rolling = rolling.follow(t[late], true[late], false[late])
        expected = {
            "links": len(t) - middle,
            "fixed": reliability(*(fits[half_life].probability(logits[late]) for logits in (true, false))),
            "rolling": reliability(*(rolling.probability(logits[late], t[late]) for logits in (true, false))),
        }
    fitted = Calibration.fit(true, false, half_life)
    return Check(RollingCalibration((fitted,), (t[-1].item(),)), half_life, expected)


def check_prior(prior: float) -> None:
    rule = "the share of positives among the candidates, between 0 and 1"
    check_number(prior, "prior", rule, lambda share: 0 < share < 1)


class _Sample(NamedTuple):
    """Logits as the features of a logistic regression [3, n], and the class and weight of each [n]."""

    features: Array
    truth: Array
    weight: Array

    @classmethod
    def of(cls, true: Array, false: Array, half_life: float) -> _Sample:
        """Negatives have the same total weight as positives, however many there are."""
        logits = np.concatenate([true, false]).astype(float)
        features = np.stack([np.logaddexp(0, logits), -np.logaddexp(0, -logits), np.ones_like(logits)])
        newer = [np.arange(len(side))[::-1] * (len(true) / max(len(side), 1)) for side in (true, false)]
        recent = [0.5 ** (links / half_life) for links in newer]
        recent[1] = recent[1] * (recent[0].sum() / max(recent[1].sum(), 1e-300))
        return cls(features, np.repeat([1.0, 0.0], [len(true), len(false)]), np.concatenate(recent))


def _maximise(sample: _Sample, start: Array, information: Array) -> tuple[Array, Array]:
    """The slopes and the shift that maximise the log-likelihood, regularised towards `start`: [3]; and the curvature
    there: [3, 3]. Slopes are at least `FLATTEST`, so that the order of the scores is kept even if it is worse than
    random."""
    weights, free = start.copy(), np.ones(3, bool)
    while True:
        curvature = _newton(sample, start, information, weights, free)
        flat = free & (weights < FLATTEST) & [True, True, False]
        if not flat.any():
            return weights, curvature
        weights[flat] = FLATTEST
        free &= ~flat


def _newton(sample: _Sample, start: Array, information: Array, weights: Array, free: Array) -> Array:
    """Newton's method on the `free` weights, in place; returns the curvature with respect to all."""
    features, truth, weight = sample
    for _ in range(100):
        p = sigmoid(weights @ features)
        gradient = features @ (weight * (p - truth)) + information @ (weights - start)
        curvature: Array = (features * (weight * p * (1 - p))) @ features.T + information
        step = np.linalg.solve(curvature[np.ix_(free, free)], gradient[free])
        weights[free] -= step * min(1.0, 1.0 / max(float(np.abs(step).max()), 1e-12))
        if np.abs(step).max() < 1e-10:
            break
    return curvature


def _log_likelihood(calibration: Calibration, true: Array, false: Array) -> float:
    """Mean log-likelihood of positives and negatives."""
    likely = np.concatenate([calibration.probability(true), 1 - calibration.probability(false)])
    return float(np.log(np.maximum(likely, 1e-12)).mean())


def _probability(logits: Array, weights: Array, prior: float) -> npt.NDArray[np.float64]:
    """`weights` are the two slopes and the shift: [3] or [3, B]."""
    high, low, shift = weights
    prior_shift = np.log(prior / (1 - prior)) - np.log(FITTED_PRIOR / (1 - FITTED_PRIOR))
    with np.errstate(invalid="ignore"):  # no number stays no number
        bend = (high - low) * np.logaddexp(0, -logits)  # 0 if both slopes are equal
    return sigmoid(high * logits + bend + shift + prior_shift)


def _matrix(found: Any) -> Matrix:
    """A symmetric positive definite matrix [3, 3]; raises TypeError or ValueError for anything else."""
    array = np.array(found, float)
    if array.shape != (3, 3) or not np.isfinite(array).all() or np.linalg.eigvalsh(array)[0] <= 0:
        raise ValueError
    return tuple(tuple(row) for row in array.tolist())


def sigmoid(x: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """1 / (1 + exp(-x)) without overflow."""
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1 / (1 + small), small / (1 + small)), np.float64)
