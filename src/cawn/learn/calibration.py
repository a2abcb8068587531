"""From logits to probabilities that can be believed: a temperature and a shift, fitted on validation links."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.checks import check_number
from cawn.errors import DataError

Array = npt.NDArray[np.float64]

FITTED_PRIOR = 0.5  # one false link for each true one
BINS = 15
FLATTEST = 1e-3  # slope of a model that knows nothing


@dataclass(frozen=True, slots=True)
class Calibration:
    """P(link) = sigmoid(logit / temperature + shift) where half of the candidates are true links."""

    temperature: float = 1.0
    shift: float = 0.0

    @classmethod
    def fit(cls, true: npt.NDArray[Any], false: npt.NDArray[Any]) -> Calibration:
        """The most likely temperature and shift given the logits of true and of as many false links.

        A touch of prior weight keeps them finite where the classes separate.
        """
        logits = np.concatenate([true, false]).astype(float)
        truth = np.repeat([1.0, 0.0], [len(true), len(false)])
        features = np.stack([logits, np.ones_like(logits)])  # [2, n]
        slope, shift = _most_likely(features, truth, start=np.array([1.0, 0.0]))
        if slope < FLATTEST:  # a model that ranks the wrong way round is not turned over
            slope = FLATTEST
            (shift,) = _most_likely(features[1:], truth, start=np.zeros(1), offset=slope * logits)
        return cls(float(1 / slope), float(shift))

    @classmethod
    def from_dict(cls, found: Any) -> Calibration:
        """From a JSON file; raises DataError for numbers that would turn or spoil every probability."""
        try:
            calibration = cls(float(found["temperature"]), float(found["shift"]))
            if not (0 < calibration.temperature < math.inf and math.isfinite(calibration.shift)):
                raise ValueError
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise DataError("calibration needs a temperature above 0 and a shift, both finite") from error
        return calibration

    def probability(self, logits: npt.NDArray[Any], prior: float = FITTED_PRIOR) -> Array:
        """The probability of a link among candidates of which a share `prior` are true links."""
        check_prior(prior)
        moved = np.log(prior / (1 - prior)) - np.log(FITTED_PRIOR / (1 - FITTED_PRIOR))
        return sigmoid(np.asarray(logits, float) / self.temperature + self.shift + moved)


def check_prior(prior: float) -> None:
    rule = "the share of true links among the candidates, between 0 and 1"
    check_number(prior, "prior", rule, lambda share: 0 < share < 1)


def _most_likely(features: Array, truth: Array, start: Array, offset: Array | float = 0.0) -> Array:
    """Logistic regression of k features [k, n] by Newton's method, drawn a little towards where it starts."""
    weights = start.copy()
    strength = 1e-3 * np.maximum(np.mean(features**2, axis=1), 1e-6)
    for _ in range(50):
        p = sigmoid(weights @ features + offset)
        gradient = features @ (p - truth) + strength * (weights - start)
        curvature = (features * (p * (1 - p))) @ features.T + np.diag(strength)
        step = np.linalg.solve(curvature, gradient)
        weights = weights - step * min(1.0, 1.0 / max(float(np.abs(step).max()), 1e-12))
        if np.abs(step).max() < 1e-10:
            break
    return weights


def reliability(true: Array, false: Array) -> dict[str, float]:
    """How far probabilities of true and false links are from the truth: expected calibration error, Brier score."""
    p = np.concatenate([true, false])
    truth = np.repeat([1.0, 0.0], [len(true), len(false)])
    group = np.minimum((p * BINS).astype(int), BINS - 1)
    off = np.bincount(group, weights=p - truth, minlength=BINS)
    return {"ece": float(np.abs(off).sum() / len(p)), "brier": float(((p - truth) ** 2).mean())}


def sigmoid(x: npt.NDArray[Any]) -> Array:
    """1 / (1 + exp(-x)) without overflow."""
    small = np.exp(-np.abs(x))
    return np.asarray(np.where(x >= 0, 1 / (1 + small), small / (1 + small)), np.float64)
