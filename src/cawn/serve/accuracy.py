"""Sums over scored links, from which accuracy is reported for a window or as a series over time."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.learn.calibration import STEP, Calibration
from cawn.learn.metrics import ranks
from cawn.learn.reliability import BINS

Array = npt.NDArray[Any]

SCORERS = ("model", "shadow", "baseline")
MOST_POINTS = 500  # of a series; beyond that, neighbouring points are merged
_SURE = 1e-6  # probabilities are clipped to this distance from 0 and 1 in a log loss


class Recalibrated:
    """A scorer's log loss, with a calibration that is refitted after every `STEP` links on the links scored before.

    A comparison of two scorers thus does not depend on how recently each was calibrated.
    """

    def __init__(self, calibration: Calibration | None = None) -> None:
        self.calibration = calibration  # None until the first fit
        self._waiting: list[Array] = []

    def copy(self) -> Recalibrated:
        """The same calibration, to be refitted on other scores."""
        return Recalibrated(self.calibration)

    def probability(self, logits: Array) -> Array:
        """Probabilities by the current calibration; NaN before the first fit."""
        return np.full(logits.shape, np.nan) if self.calibration is None else self.calibration.probability(logits)

    def log_losses(self, logits: Array) -> Array:
        """Of m links with K negatives each [m, 1 + K], then refit; NaN before the first fit: [m]."""
        losses = log_losses(self.probability(logits))
        self._waiting.append(logits)
        if sum(map(len, self._waiting)) >= STEP:
            true, false = np.concatenate(self._waiting)[:, 0], np.concatenate(self._waiting)[:, 1:].ravel()
            fitted = self.calibration
            self.calibration = Calibration.fit(true, false) if fitted is None else fitted.refit(true, false)
            self._waiting = []
        return losses


def log_losses(probability: Array) -> Array:
    """The log loss of each link and its negatives [m, 1 + K], which together weigh as much as the link: [m]."""
    p = np.clip(probability, _SURE, 1 - _SURE)
    return np.asarray(-(np.log(p[:, 0]) + np.log1p(-p[:, 1:]).mean(axis=1)) / 2)


def reciprocal_ranks(scores: Array) -> Array:
    """Of each link among its negatives, from scores [m, 1 + K]: [m]."""
    return 1 / ranks(scores[:, 0], scores[:, 1:])


@dataclass
class Sums:
    """Sums over some scored links, and over all links that arrived in the same period. Addition joins two periods."""

    links: int = 0  # scored
    arrived: int = 0
    new_nodes: int = 0
    new_pairs: int = 0
    count: Array = field(default_factory=lambda: np.zeros((3, 2)))  # [scorer, (reciprocal rank, log loss)]
    total: Array = field(default_factory=lambda: np.zeros((3, 2)))
    squares: Array = field(default_factory=lambda: np.zeros((3, 2)))
    bins: Array = field(default_factory=lambda: np.zeros((2, BINS, 3)))  # weight, probability, truth; not of baseline
    end: tuple[int, Any] = (0, None)  # links that had arrived at the end, and the time of the last one

    def __add__(self, later: Sums) -> Sums:
        numbers = {name: getattr(self, name) + getattr(later, name) for name in _ADDED}
        return Sums(**numbers, end=later.end)

    def add(self, values: Array, probability: Array) -> None:
        """Add m scored links; NaN marks unknown values.

        Args:
            values: [m, 3, 2] in the order of `count`.
            probability: [m, 2, 1 + K] of the links and their negatives, by the model and the shadow model.
        """
        known = ~np.isnan(values)
        self.links += len(values)
        self.count += known.sum(axis=0)
        self.total += np.where(known, values, 0).sum(axis=0)
        self.squares += np.where(known, values**2, 0).sum(axis=0)
        for i in range(2):
            self.bins[i] += calibration_bins(probability[:, i][~np.isnan(probability[:, i, 0])])

    def add_arrived(self, new_node: Array, new_pair: Array) -> None:
        """Add n links that arrived: whether each has a new node, and whether it is a new pair."""
        self.arrived += len(new_node)
        self.new_nodes += int(new_node.sum())
        self.new_pairs += int(new_pair.sum())

    def figures(self, scorer: str) -> dict[str, float | None] | None:
        """MRR, log loss and calibration error of one scorer, with standard errors; None if it scored nothing."""
        i = SCORERS.index(scorer)
        if self.count[i, 0] == 0:
            return None
        found: dict[str, float | None] = {}
        for j, name in enumerate(("mrr", "log_loss")):
            found |= _mean_and_error(name, self.count[i, j], self.total[i, j], self.squares[i, j])
        if i < len(self.bins):
            found["ece"] = calibration_error(self.bins[i])
        return found

    def to_dict(self) -> dict[str, Any]:
        """JSON values: accuracy by scorer, and the shares of links with new nodes and of new pairs."""
        shares = {name: _share(getattr(self, name), self.arrived) for name in ("new_nodes", "new_pairs")}
        links, t = self.end
        return {"links": links, "t": t, "scored": self.links} | shares | {s: self.figures(s) for s in SCORERS}


_ADDED = ("links", "arrived", "new_nodes", "new_pairs", "count", "total", "squares", "bins")


def calibration_bins(probability: Array) -> Array:
    """Weight, sum of probabilities and sum of truths by interval of the probability [BINS, 3], of links and their
    negatives [m, 1 + K]; the negatives of a link together weigh as much as the link."""
    truth = np.zeros_like(probability)
    truth[:, 0] = 1
    weight = np.where(truth == 1, 1.0, 1 / max(probability.shape[1] - 1, 1))
    at = np.minimum((probability * BINS).astype(int), BINS - 1).ravel()
    columns = (weight, weight * probability, weight * truth)
    return np.stack([np.bincount(at, weights=each.ravel(), minlength=BINS) for each in columns], axis=1)


def calibration_error(bins: Array) -> float:
    """The expected calibration error."""
    weight, probability, truth = bins.T
    return float(np.abs(probability - truth).sum() / weight.sum())


class Series:
    """Points over time, each over the same number of scored links; neighbours are merged if there are too many."""

    def __init__(self, most: int = MOST_POINTS) -> None:
        self._most, self._merged = most, 1
        self._points: deque[Sums] = deque()
        self._open: Sums | None = None
        self._parts = 0

    def add(self, part: Sums) -> None:
        self._open = part if self._open is None else self._open + part
        self._parts += 1
        if self._parts == self._merged:
            self._points.append(self._open)
            self._open, self._parts = None, 0
        if len(self._points) > self._most:
            held = list(self._points)
            self._points = deque(a + b for a, b in zip(held[::2], held[1::2], strict=False))
            if len(held) % 2:
                self._open, self._parts = held[-1], self._merged
            self._merged *= 2

    def to_list(self) -> list[dict[str, Any]]:
        """JSON values, oldest first."""
        return [point.to_dict() for point in [*self._points, *([] if self._open is None else [self._open])]]


def _share(count: int, total: int) -> float | None:
    return count / total if total else None


def _mean_and_error(name: str, count: float, total: float, squares: float) -> dict[str, float | None]:
    if count == 0:
        return {name: None, f"{name}_error": None}
    mean = float(total / count)
    variance = max(float(squares / count) - mean**2, 0.0)
    return {name: mean, f"{name}_error": math.sqrt(variance / (count - 1)) if count > 1 else None}
