"""Sums over scored links, from which accuracy is reported for a window or as a series over time."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.learn.calibration import STEP, Calibration
from cawn.learn.metrics import ranks
from cawn.learn.reliability import BINS, sums_by_bin
from cawn.serve.evidence import BLOCKS

Array = npt.NDArray[Any]

SCORERS = ("model", "shadow", "baseline")
NEWS = ("new_nodes", "new_pairs")  # what is counted of links that arrive
MOST_POINTS = 500  # of a series; beyond that, neighbouring points are merged
_SURE = 1e-6  # probabilities are clipped to this distance from 0 and 1 in a log loss


class Recalibrated:
    """A scorer's log loss, with a calibration that is refitted after every `STEP` links on the links scored before.

    A comparison of two scorers thus does not depend on how recently each was calibrated.
    """

    def __init__(self, calibration: Calibration | None = None) -> None:
        self.calibration = calibration  # None until the first fit
        self._waiting: list[Array] = []

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

    arrived: Array = field(default_factory=lambda: np.zeros(3, np.int64))  # links; those with new nodes; new pairs
    powers: Array = field(default_factory=lambda: np.zeros((3, 3, 2)))  # [power, scorer, (reciprocal rank, log loss)]
    bins: Array = field(default_factory=lambda: np.zeros((2, 3, BINS)))  # see `sums_by_bin`; not of the baseline
    end: tuple[int, Any] = (0, None)  # links that had arrived at the end, and the time of the last one

    def __add__(self, later: Sums) -> Sums:
        return Sums(self.arrived + later.arrived, self.powers + later.powers, self.bins + later.bins, later.end)

    @property
    def links(self) -> int:
        """The number of scored links."""
        return int(self.powers[0, 0, 0])

    def add(self, values: Array, probability: Array, news: Array, end: tuple[int, Any]) -> None:
        """Add m scored links of n that arrived; NaN marks unknown values.

        Args:
            values: Reciprocal rank and log loss of each link by each scorer: [m, 3, 2].
            probability: [m, 2, 1 + K] of the links and their negatives, by the model and the shadow model.
            news: Whether each link has a new node, and whether it is a new pair: [n, 2].
        """
        known = ~np.isnan(values)
        seen = np.where(known, values, 0)
        self.powers += np.stack([known, seen, seen**2]).sum(axis=1)
        for bins, found in zip(self.bins, probability.swapaxes(0, 1), strict=True):
            if len(given := found[~np.isnan(found[:, 0])]):
                bins += calibration_bins(given)
        self.arrived += [len(news), *news.sum(axis=0)]
        self.end = end

    def figures(self, scorer: str) -> dict[str, float | None] | None:
        """MRR, log loss and calibration error of one scorer, with standard errors; None if it scored nothing."""
        i = SCORERS.index(scorer)
        if self.powers[0, i, 0] == 0:
            return None
        found: dict[str, float | None] = {}
        for name, powers in zip(("mrr", "log_loss"), self.powers[:, i].T.tolist(), strict=True):
            found |= _mean_and_error(name, *powers)
        if i < len(self.bins):
            found["ece"] = calibration_error(self.bins[i])
        return found

    def to_dict(self) -> dict[str, Any]:
        """JSON values: accuracy by scorer, and the shares of links with new nodes and of new pairs."""
        (links, t), (arrived, *news) = self.end, self.arrived.tolist()
        shares = (count / arrived if arrived else None for count in news)
        found = {"links": links, "t": t, "scored": self.links} | dict(zip(NEWS, shares, strict=True))
        return found | {scorer: self.figures(scorer) for scorer in SCORERS}


def calibration_bins(probability: Array) -> Array:
    """`sums_by_bin` of links and their negatives [m, 1 + K], which together weigh as much as the link."""
    truth = np.zeros_like(probability)
    truth[:, 0] = 1
    weight = np.where(truth == 1, 1.0, 1 / max(probability.shape[1] - 1, 1))
    return sums_by_bin(probability.ravel(), truth.ravel(), weight.ravel())


def calibration_error(bins: Array) -> float:
    """The expected calibration error."""
    weight, probability, truth = bins
    return float(np.abs(probability - truth).sum() / weight.sum())


class Series:
    """Accuracy over the newest links, and at points over time, each over the same number of scored links.

    Links are added up in blocks, a twentieth of a window each. If there are too many points, neighbours are merged.
    """

    def __init__(self, window: int, most: int = MOST_POINTS) -> None:
        self._block, self._most, self._merged = max(window // BLOCKS, 1), most, 1  # links of a block, blocks of a point
        self._open, self._newest, self._points = Sums(), deque[Sums](maxlen=BLOCKS), list[Sums]()
        self._arrived = 0

    def add(self, values: Array, probability: Array, sample: Array, news: Array, t: Array) -> None:
        """Add n links, of which those at the positions `sample` [m] were scored; see `Sums.add`."""
        first = start = 0
        for end in [*range(self._block - self._open.links, len(sample), self._block), len(sample)]:
            last = len(t) if end == len(sample) else int(sample[end - 1]) + 1
            self._arrived += last - first
            part = values[start:end], probability[start:end], news[first:last]
            self._open.add(*part, (self._arrived, t[last - 1].item()))
            first, start = last, end
            if self._open.links == self._block:
                self._close()

    def _close(self) -> None:
        """Start a new block."""
        self._newest.append(self._open)
        if self._points and self._points[-1].links < self._merged * self._block:
            self._points[-1] += self._open
        else:
            self._points.append(self._open)
        if len(self._points) > self._most:
            self._points = [reduce(add, self._points[i : i + 2]) for i in range(0, len(self._points), 2)]
            self._merged *= 2
        self._open = Sums(end=self._open.end)

    def newest(self) -> Sums:
        """The sums over the last window of scored links, up to a block more."""
        return sum(self._newest, Sums()) + self._open

    def to_list(self) -> list[dict[str, Any]]:
        """JSON values, oldest first."""
        return [point.to_dict() for point in self._points]


def _mean_and_error(name: str, count: float, total: float, squares: float) -> dict[str, float | None]:
    if count == 0:
        return {name: None, f"{name}_error": None}
    mean = total / count
    variance = max(squares / count - mean**2, 0.0)
    return {name: mean, f"{name}_error": math.sqrt(variance / (count - 1)) if count > 1 else None}
