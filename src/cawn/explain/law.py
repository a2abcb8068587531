"""What a model relies on: the contribution and frequency of every walk shape, over many positives and negatives.

These are the paper's Figures 8 and 9: shapes of causal anonymous walks, and for comparison those of anonymous walks,
which do not know what walks have in common.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.errors import QueryError
from cawn.explain.leave_out import adds_up, effects
from cawn.explain.leaves import Leaves, leaves_of, order_text, shape_text, shape_words
from cawn.explain.report import Report
from cawn.systems.cawn.features import WALK_SEED
from cawn.systems.cawn.system import WalkScorer

Array = npt.NDArray[Any]

CONFIDENCE = 0.95  # of all intervals of a table simultaneously
MIN_SHARE = 0.005  # of the pairs: rarer shapes are only counted
_PAIRS_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class Shape:
    """A walk shape, over all pairs of a report."""

    shape: str
    score: float  # mean contribution of its walks to the logit, over the pairs that have any
    error: float  # standard error of the score
    with_true: float  # share of the positives that have such a walk
    with_false: float  # share of the negatives
    lift: float  # the ratio of the two shares, with half a pair added to each count
    low: float  # confidence interval of the lift, simultaneous over the table
    high: float
    meaning: str = ""  # the shape in words; empty for anonymous walks

    @property
    def significant(self) -> bool:
        """Whether it occurs significantly more or less often with positives than with negatives."""
        return not self.low <= 1 <= self.high


@dataclass(frozen=True, slots=True)
class Law(Report):
    """The walk shapes a model relies on, highest scores first."""

    links: int  # number of positives, and of negatives
    method: str  # as in `Explanation`
    shapes: list[Shape]  # of causal anonymous walks
    orders: list[Shape]  # of anonymous walks
    rare: int  # number of shapes too rare to be listed


def explain_law(
    scorer: WalkScorer,
    src: Array,
    dst: Array,
    false: Array,
    t: Array,
) -> Law:
    """The walk shapes behind the scores of positives (src, dst, t) and negatives (src, false, t)."""
    if len(src) == 0:
        raise QueryError("there are no links to explain the model with")
    batcher = scorer.batcher
    length = batcher.config.length
    sums = _ShapeSums(len(src)), _ShapeSums(len(src))  # of I_CAW and of I_AW
    for first in range(0, len(src), _PAIRS_AT_ONCE):
        part = slice(first, first + _PAIRS_AT_ONCE)
        for truth, other in ((1, dst), (0, false)):
            batch = batcher.trace(src[part], other[part], t[part], seed=WALK_SEED)
            leaves = leaves_of(batch)
            for each, shapes_of_walks in zip(sums, (leaves.shapes, leaves.orders), strict=True):
                each.add(shapes_of_walks, leaves, truth, scorer, batch)
    shapes, rare = sums[0].rows(lambda flat: _named(flat.reshape(-1, 2), length))
    orders, _ = sums[1].rows(lambda flat: (order_text(flat), ""))
    return Law(len(src), "additive" if adds_up(batcher.config) else "leave-group-out", shapes, orders, rare)


class _ShapeSums:
    """Sums over pairs for each shape."""

    def __init__(self, links: int) -> None:
        self._links = links
        self._known: dict[bytes, int] = {}
        self._shapes: list[Array] = []
        self._sums = np.zeros((0, 4))  # positives and negatives that have it; sum and sum of squares of contributions

    def add(self, shapes: Array, leaves: Leaves, truth: int, scorer: WalkScorer, batch: Any) -> None:
        """Add the contribution of each shape to each pair: that of all its walks left out together."""
        n = len(shapes)
        keys = np.concatenate([leaves.pair[:, None], shapes.reshape(n, -1).astype(np.int64)], axis=1)
        different, part = np.unique(keys, axis=0, return_inverse=True)
        effect, _, _ = effects(scorer, scorer.config, batch, leaves, part)
        numbers = np.array([self._index(key) for key in different[:, 1:].astype(np.int16)])
        for column, values in ((1 - truth, np.ones(len(effect))), (2, effect), (3, effect**2)):
            self._sums[:, column] += np.bincount(numbers, weights=values, minlength=len(self._sums))

    def _index(self, shape: Array) -> int:
        name = shape.tobytes()
        if name not in self._known:
            self._known[name] = len(self._known)
            self._shapes.append(shape)
            self._sums = np.concatenate([self._sums, np.zeros((1, 4))])
        return self._known[name]

    def rows(self, named: Callable[[Array], tuple[str, str]]) -> tuple[list[Shape], int]:
        """The shapes that are frequent enough, by score, and the number of those that are not."""
        frequent = self._sums[:, :2].sum(axis=1) >= max(MIN_SHARE * 2 * self._links, 5)
        z = NormalDist().inv_cdf(1 - (1 - CONFIDENCE) / 2 / max(frequent.sum(), 1))
        rows = []
        for i in np.flatnonzero(frequent):
            true, false, total, squares = self._sums[i]
            count = true + false
            score = total / count
            spread = math.sqrt(max(squares / count - score**2, 0) / count)
            rows.append(_row(named(self._shapes[i]), score, spread, true, false, self._links, z))
        return sorted(rows, key=lambda row: -row.score), int((~frequent).sum())


def _named(shape: Array, length: int) -> tuple[str, str]:
    return shape_text(shape, length), shape_words(shape, length)


def _row(names: tuple[str, str], score: float, error: float, true: float, false: float, links: int, z: float) -> Shape:
    """The lift has the usual interval of a ratio of two shares, symmetric in its logarithm."""
    p, q = (true + 0.5) / (links + 1), (false + 0.5) / (links + 1)
    half = z * math.sqrt((1 - p) / (p * links) + (1 - q) / (q * links))
    lift = p / q
    return Shape(
        shape=names[0],
        score=float(score),
        error=float(error),
        with_true=float(true / links),
        with_false=float(false / links),
        lift=float(lift),
        low=float(lift * math.exp(-half)),
        high=float(lift * math.exp(half)),
        meaning=names[1],
    )
