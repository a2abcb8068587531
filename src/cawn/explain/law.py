"""What a model relies on: the contribution and frequency of every walk shape, over many positives and negatives.

These are the paper's Figures 8 and 9: shapes of causal anonymous walks, and for comparison those of anonymous walks,
which do not know what walks have in common.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.data.events import Events
from cawn.errors import QueryError
from cawn.explain.distinct_walks import describe_shape, distinct_walks, format_order, format_shape
from cawn.explain.leave_out import group_contributions, is_additive
from cawn.explain.link import walk_scorer
from cawn.explain.report import Report
from cawn.kernels.rng import seed_for
from cawn.learn.negatives import negatives
from cawn.learn.runs import read_description
from cawn.learn.splits import split_of_run
from cawn.systems.base import Scorer
from cawn.systems.cawn.features import WALK_SEED
from cawn.systems.cawn.system import WalkScorer

Array = npt.NDArray[Any]

CONFIDENCE = 0.95  # of all intervals of a table simultaneously
MIN_SHARE = 0.005  # of the pairs: rarer shapes are only counted
_PAIRS_PER_CHUNK = 256


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


def law_of_run(folder: Path, scorer: Scorer, events: Events, max_links: int) -> Law:
    """Explain the model of the run in `folder` on at most so many of its test links and on their random negatives."""
    return explain_law(walk_scorer(scorer), *links_of_run(folder, events, max_links))


def links_of_run(folder: Path, events: Events, max_links: int) -> tuple[Array, Array, Array, Array]:
    """Source, destination, random negative and time of at most so many test links of a run, spread over time."""
    found = read_description(folder)
    if len(events) != found["links"]:
        raise QueryError(f"{folder}: links were added after training; explain the run as it was trained")
    parts = split_of_run(events, found)
    links = np.sort(np.concatenate(list(parts.test.values())))
    links = links[np.linspace(0, len(links) - 1, min(max_links, len(links))).astype(int)]
    negative = negatives(events, links, "random", seen=parts.train, seed=seed_for(found["seed"], "test")).dst
    if not (events.src == events.dst).any():  # a self-loop would be an obvious negative
        kept = negative != events.src[links]
        links, negative = links[kept], negative[kept]
    return events.src[links], events.dst[links], negative, events.t[links]


def explain_law(scorer: WalkScorer, src: Array, dst: Array, negative: Array, t: Array) -> Law:
    """The walk shapes behind the scores of positives (src, dst, t) and negatives (src, negative, t)."""
    if len(src) == 0:
        raise QueryError("there are no links to explain the model with")
    length = scorer.config.length
    of_shapes, of_orders = _ShapeTable(len(src)), _ShapeTable(len(src))  # I_CAW and I_AW
    for groups in walk_groups(scorer, src, dst, negative, t):
        table = of_shapes if groups.relative else of_orders
        table.add(groups.shapes, groups.positive, groups.contribution)
    shapes, rare = of_shapes.rows()
    orders, _ = of_orders.rows()
    return Law(
        links=len(src),
        method="additive" if is_additive(scorer.config) else "leave-group-out",
        shapes=[
            replace(row, shape=format_shape(shape, length), meaning=describe_shape(shape, length))
            for shape, row in ((key.reshape(-1, 2), row) for key, row in shapes)
        ],
        orders=[replace(row, shape=format_order(key)) for key, row in orders],
        rare=rare,
    )


@dataclass(frozen=True, slots=True)
class WalkGroups:
    """The walks of some pairs, grouped by pair and shape: n groups."""

    relative: bool  # shapes of causal anonymous walks; else those of anonymous walks
    positive: bool
    link: Array  # [n] position of the pair's link among those given
    shapes: Array  # [n, 2 L] or [n, L], as in `DistinctWalks`
    contribution: Array  # [n] of all walks of the group together, to the logit of the pair
    count: Array  # [n] number of sampled walks


def walk_groups(scorer: WalkScorer, src: Array, dst: Array, negative: Array, t: Array) -> Iterator[WalkGroups]:
    """The walks of positives (src, dst, t) and of negatives (src, negative, t), and what they contribute."""
    for first in range(0, len(src), _PAIRS_PER_CHUNK):
        chunk = slice(first, first + _PAIRS_PER_CHUNK)
        for positive, other in ((True, dst), (False, negative)):
            batch = scorer.batcher.trace(src[chunk], other[chunk], t[chunk], seed=WALK_SEED)
            walks = distinct_walks(batch)
            for relative, values in ((True, walks.shapes), (False, walks.orders)):
                # Leave out, in each pair, all walks of a shape together.
                keys = np.column_stack([walks.pair, values.reshape(len(values), -1)])
                groups, group = np.unique(keys, axis=0, return_inverse=True)
                contribution, _, _ = group_contributions(scorer, batch, walks, group)
                count = np.bincount(group, weights=walks.count)
                yield WalkGroups(relative, positive, first + groups[:, 0], groups[:, 1:], contribution, count)


class _ShapeTable:
    """Collects how often each shape occurs and what it contributes."""

    def __init__(self, links: int) -> None:
        self._links = links
        self._parts: list[tuple[Array, Array, Array]] = []

    def add(self, shapes: Array, positive: bool, contribution: Array) -> None:
        """Add shapes [n, ...] that occur in one pair each, with their contributions to its logit [n]."""
        self._parts.append((shapes, np.full(len(shapes), positive), contribution))

    def rows(self) -> tuple[list[tuple[Array, Shape]], int]:
        """The frequent shapes with their keys, highest score first, and the number of those that are too rare."""
        shapes, positive, contribution = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        keys, number = np.unique(shapes, axis=0, return_inverse=True)
        with_true, with_false, total, squares = (
            np.bincount(number, weights=values, minlength=len(keys))
            for values in (positive, ~positive, contribution, contribution**2)
        )
        count = with_true + with_false
        score = total / count
        error = np.sqrt(np.maximum(squares / count - score**2, 0) / count)
        frequent = count >= max(MIN_SHARE * 2 * self._links, 5)
        z = NormalDist().inv_cdf(1 - (1 - CONFIDENCE) / 2 / max(frequent.sum(), 1))
        rows = [
            (keys[i], _row(float(score[i]), float(error[i]), float(with_true[i]), float(with_false[i]), self._links, z))
            for i in np.flatnonzero(frequent)
        ]
        return sorted(rows, key=lambda row: -row[1].score), int((~frequent).sum())


def _row(score: float, error: float, true: float, false: float, links: int, z: float) -> Shape:
    """The lift has the usual interval of a ratio of two shares, symmetric in its logarithm."""
    p, q = (true + 0.5) / (links + 1), (false + 0.5) / (links + 1)
    half = z * math.sqrt((1 - p) / (p * links) + (1 - q) / (q * links))
    lift = p / q
    return Shape(
        shape="",
        score=score,
        error=error,
        with_true=true / links,
        with_false=false / links,
        lift=lift,
        low=lift * math.exp(-half),
        high=lift * math.exp(half),
    )
