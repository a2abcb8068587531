"""Calibrated probabilities from logits: a temperature and a shift, fitted on validation links."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.checks import check_number
from cawn.errors import DataError

Array = npt.NDArray[np.float64]

FITTED_PRIOR = 0.5  # one negative per positive
BINS = 15
FLATTEST = 1e-3  # smallest slope, used if the model has learned nothing


@dataclass(frozen=True, slots=True)
class Calibration:
    """P(link) = sigmoid(logit / temperature + shift), assuming one negative per positive."""

    temperature: float = 1.0
    shift: float = 0.0

    @classmethod
    def fit(cls, true: npt.NDArray[Any], false: npt.NDArray[Any]) -> Calibration:
        """The maximum-likelihood temperature and shift for the logits of positives and as many negatives.

        Weak regularisation keeps them finite if the two classes are separable.
        """
        logits = np.concatenate([true, false]).astype(float)
        truth = np.repeat([1.0, 0.0], [len(true), len(false)])
        features = np.stack([logits, np.ones_like(logits)])  # [2, n]
        slope, shift = _fit_logistic(features, truth, start=np.array([1.0, 0.0]))
        if slope < FLATTEST:  # the order of the scores is kept even if it is worse than random
            slope = FLATTEST
            (shift,) = _fit_logistic(features[1:], truth, start=np.zeros(1), offset=slope * logits)
        return cls(float(1 / slope), float(shift))

    @classmethod
    def from_dict(cls, found: Any) -> Calibration:
        """From JSON; raises DataError for values that would invert or invalidate probabilities."""
        try:
            calibration = cls(float(found["temperature"]), float(found["shift"]))
            if not (0 < calibration.temperature < math.inf and math.isfinite(calibration.shift)):
                raise ValueError
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise DataError("calibration needs a temperature above 0 and a shift, both finite") from error
        return calibration

    def probability(self, logits: npt.NDArray[Any], prior: float = FITTED_PRIOR) -> Array:
        """The probability of a link, where `prior` is the share of positives among the candidates."""
        check_prior(prior)
        prior_shift = np.log(prior / (1 - prior)) - np.log(FITTED_PRIOR / (1 - FITTED_PRIOR))
        return sigmoid(np.asarray(logits, float) / self.temperature + self.shift + prior_shift)


def check_prior(prior: float) -> None:
    rule = "the share of positives among the candidates, between 0 and 1"
    check_number(prior, "prior", rule, lambda share: 0 < share < 1)


def _fit_logistic(features: Array, truth: Array, start: Array, offset: Array | float = 0.0) -> Array:
    """Logistic regression on k features [k, n] by Newton's method, weakly regularised towards `start`."""
    weights = start.copy()
    strength = 1e-3 * np.maximum(np.mean(features**2, axis=1), 1e-6)
    for _ in range(50):
        p = sigmoid(weights @ features + offset)
        gradient = features @ (p - truth) + strength * (weights - start)
        hessian = (features * (p * (1 - p))) @ features.T + np.diag(strength)
        step = np.linalg.solve(hessian, gradient)
        weights = weights - step * min(1.0, 1.0 / max(float(np.abs(step).max()), 1e-12))
        if np.abs(step).max() < 1e-10:
            break
    return weights


def reliability(true: Array, false: Array) -> dict[str, float]:
    """Expected calibration error and Brier score of the probabilities of positives and negatives."""
    p = np.concatenate([true, false])
    truth = np.repeat([1.0, 0.0], [len(true), len(false)])
    group = np.minimum((p * BINS).astype(int), BINS - 1)
    gap = np.bincount(group, weights=p - truth, minlength=BINS)
    return {"ece": float(np.abs(gap).sum() / len(p)), "brier": float(((p - truth) ** 2).mean())}


def sigmoid(x: npt.NDArray[Any]) -> Array:
    """1 / (1 + exp(-x)) without overflow."""
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1 / (1 + small), small / (1 + small)), np.float64)
