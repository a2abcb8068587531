"""The law a model has found: over many true and false links, every shape of walk with what it adds and where it occurs.

The paper's Figures 8 and 9: shapes of causal anonymous walks, and beside them those of anonymous walks, which forget
what walks have in common.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cawn.errors import QueryError
from cawn.explain.leave_out import adds_up, effects
from cawn.explain.leaves import Leaves, leaves_of, order_text, shape_text, shape_words
from cawn.systems.cawn.batches import WALK_SEED, Batcher
from cawn.systems.cawn.engines import Network

if TYPE_CHECKING:
    from cawn.explain.scene import Scene

Array = npt.NDArray[Any]

CONFIDENCE = 0.95  # that all intervals of one table hold at once
FEWEST = 0.005  # share of the links a shape must occur with to be reported
_PAIRS_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class Shape:
    """One shape of walks, over all links of a report."""

    shape: str
    score: float  # what its walks together add to the logit, where they occur: the mean
    error: float  # and the standard error of that mean
    with_true: float  # share of the true links that have such a walk
    with_false: float
    lift: float  # the ratio of the two, half a link added to each count
    low: float  # its interval; together with those of all other shapes of the table
    high: float
    meaning: str = ""  # the shape in words, for those of causal anonymous walks

    @property
    def tells(self) -> bool:
        """Whether it occurs with true links more often than with false ones, or less, beyond chance."""
        return not self.low <= 1 <= self.high


@dataclass(frozen=True, slots=True)
class Law:
    """What a model goes by. Shapes with the highest scores first."""

    links: int  # true ones, and as many false ones
    method: str  # as in `Explanation`
    shapes: list[Shape]  # of causal anonymous walks
    orders: list[Shape]  # of anonymous walks
    rare: int  # shapes that occur too seldom to be told of

    def to_dict(self) -> dict[str, Any]:
        """The same in types that JSON has."""
        return asdict(self)

    def to_html(self) -> str:
        """A page that stands by itself."""
        from cawn.explain.page import law_page

        return law_page(self)

    def to_svg(self) -> str:
        """`to_picture` as an SVG."""
        return self.to_picture().to_svg()

    def to_picture(self) -> Scene:
        """The shapes in one picture."""
        from cawn.explain.pictures import law_picture

        return law_picture(self)


def explain_law(
    batcher: Batcher,
    network: Network,
    src: Array,
    dst: Array,
    false: Array,
    t: Array,
) -> Law:
    """The law behind true links (src, dst, t) and false ones (src, false, t)."""
    if len(src) == 0:
        raise QueryError("there are no links to explain a law by")
    length = batcher.config.length
    tallies = _Tally(len(src)), _Tally(len(src))
    for first in range(0, len(src), _PAIRS_AT_ONCE):
        part = slice(first, first + _PAIRS_AT_ONCE)
        for truth, other in ((1, dst), (0, false)):
            batch, shared = batcher.trace(src[part], other[part], t[part], seed=WALK_SEED)
            leaves = leaves_of(shared)
            for tally, kinds in zip(tallies, (leaves.shapes, leaves.orders), strict=True):
                tally.add(kinds, leaves, truth, network, batcher, batch)
    shapes, rare = tallies[0].rows(lambda flat: _named(flat.reshape(-1, 2), length))
    orders, _ = tallies[1].rows(lambda flat: (order_text(flat), ""))
    return Law(len(src), "additive" if adds_up(batcher.config) else "leave-group-out", shapes, orders, rare)


class _Tally:
    """Sums over links for each shape."""

    def __init__(self, links: int) -> None:
        self._links = links
        self._known: dict[bytes, int] = {}
        self._shapes: list[Array] = []
        self._sums = np.zeros((0, 4))  # links with it, true and false; sum and sum of squares of effects

    def add(self, shapes: Array, leaves: Leaves, truth: int, network: Network, batcher: Batcher, batch: Any) -> None:
        """Leave out, in each pair, all walks of each shape."""
        n = len(shapes)
        keys = np.concatenate([leaves.pair[:, None], shapes.reshape(n, -1).astype(np.int64)], axis=1)
        different, part = np.unique(keys, axis=0, return_inverse=True)
        effect, _, _ = effects(network, batcher.config, batch, leaves, part)
        numbers = np.array([self._number(key) for key in different[:, 1:].astype(np.int16)])
        for column, values in ((1 - truth, np.ones(len(effect))), (2, effect), (3, effect**2)):
            self._sums[:, column] += np.bincount(numbers, weights=values, minlength=len(self._sums))

    def _number(self, shape: Array) -> int:
        name = shape.tobytes()
        if name not in self._known:
            self._known[name] = len(self._known)
            self._shapes.append(shape)
            self._sums = np.concatenate([self._sums, np.zeros((1, 4))])
        return self._known[name]

    def rows(self, named: Callable[[Array], tuple[str, str]]) -> tuple[list[Shape], int]:
        """Those that occur often enough, by score; and how many do not."""
        often = self._sums[:, :2].sum(axis=1) >= max(FEWEST * 2 * self._links, 5)
        z = NormalDist().inv_cdf(1 - (1 - CONFIDENCE) / 2 / max(often.sum(), 1))
        rows = []
        for i in np.flatnonzero(often):
            true, false, total, squares = self._sums[i]
            count = true + false
            score = total / count
            spread = math.sqrt(max(squares / count - score**2, 0) / count)
            rows.append(_row(named(self._shapes[i]), score, spread, true, false, self._links, z))
        return sorted(rows, key=lambda row: -row.score), int((~often).sum())


def _named(shape: Array, length: int) -> tuple[str, str]:
    return shape_text(shape, length), shape_words(shape, length)


def _row(names: tuple[str, str], score: float, error: float, true: float, false: float, links: int, z: float) -> Shape:
    """With the interval of a ratio of two shares, on the scale of its logarithm; half a link is added to each count."""
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
