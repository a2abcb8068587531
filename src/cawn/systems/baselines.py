"""Untrained baselines: recency, popularity, EdgeBank and the lexicographic heuristics. Every table contains them.

Each is also a system without weights, so that it has run folders, calibrated probabilities and a `LinkPredictor`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from cawn.data.events import Events
from cawn.index.tallies import Tally
from cawn.kernels.keys import pair_key
from cawn.systems.base import Context, Scorer
from cawn.systems.settings import IgnoresDirection, Settings, setting
from cawn.systems.training import Optimizer

Scores = npt.NDArray[np.float64]
Array = npt.NDArray[Any]

Order = Literal[
    "LR+LP+GR+GP",
    "LR+LP+GR",
    "LR+LP+GP",
    "LR+LP",
    "LR+GR+GP",
    "LR+GR",
    "LR+GP",
    "LR",
    "LP+LR",
    "LP+GR+GP",
    "LP+GR",
    "LP+GP",
    "LP",
    "GR+GP",
    "GR",
    "GP+GR",
    "GP",
]

STANDING = ("recency", "LR+LP+GR+GP", "LP+GP", "edgebank", "edgebank (window)", "popularity")  # in every table
WINDOW = 0.15  # of the time since the first link
_BITS = 26  # ages and counts of 2 ** 26 or more count as equal


def scorers(events: Events) -> dict[str, Scorer]:
    """The untrained baselines of every table, by name."""
    past = Past(events)
    return {name: BaselineScorer(past, name) for name in STANDING}


class Past:
    """The number and the time of the last links of each pair and of each destination; pairs have no direction.

    Methods score pairs at times t given the first `visible` links; by default those strictly before t.
    """

    def __init__(self, events: Events) -> None:
        links = np.arange(len(events))
        self.t = events.t
        self._pairs = Tally.of(_undirected(events.src, events.dst), links)
        self._destinations = Tally.of(events.dst.astype(np.int64), links)

    def before(self, t: Array) -> Array:
        """The number of links strictly before each time."""
        return np.searchsorted(self.t, t)

    def recency(self, src: Array, dst: Array, t: Array, visible: Array | None = None) -> Scores:
        """Pairs that have linked before, most recent first; then all others, by the last link to the destination."""
        return self.heuristic("LR+GR", src, dst, t, visible)

    def popularity(self, src: Array, dst: Array, t: Array, visible: Array | None = None) -> Scores:
        """The logarithm of 1 + the number of earlier links to the destination."""
        count, _ = self._destinations.before(dst.astype(np.int64), self.before(t) if visible is None else visible)
        return np.log1p(count)

    def edgebank(self, src: Array, dst: Array, t: Array, visible: Array | None = None) -> Scores:
        """1 if the pair has linked before, else 0."""
        count, _ = self._pairs.before(_undirected(src, dst), self.before(t) if visible is None else visible)
        return (count > 0).astype(np.float64)

    def edgebank_window(self, src: Array, dst: Array, t: Array, visible: Array | None = None) -> Scores:
        """1 if the pair has linked within the last 15 % of the time since the first link, else 0."""
        if len(self.t) == 0:
            return np.zeros(len(src))
        _, newest = self._pairs.before(_undirected(src, dst), self.before(t) if visible is None else visible)
        last = self.t[self._pairs.links[newest]]  # of any pair where there is none
        return np.asarray((newest >= 0) & (t - last <= WINDOW * (t - self.t[0])), np.float64)

    def heuristic(self, order: str, src: Array, dst: Array, t: Array, visible: Array | None = None) -> Scores:
        """Compares pairs by the first statistic of an `order` such as "LR+GR", ties by the next, and so on.

        LR is the time of the pair's last link, LP its number of links; GR and GP are those of the destination.
        """
        visible = self.before(t) if visible is None else visible
        keys = {"L": _undirected(src, dst), "G": dst.astype(np.int64)}
        return _combined(*(self._statistic(part, keys[part[0]], visible) for part in _parts(order)))

    def _statistic(self, part: str, keys: Array, visible: Array) -> Scores:
        """From 0 for "never" to 26, on a logarithmic scale: [B]."""
        tally = self._pairs if part[0] == "L" else self._destinations
        count, newest = tally.before(keys, visible)
        if part[1:] == "P":
            return _log2(1 + count)
        rank = self._ranks[part][newest] if len(self.t) else visible
        return _recency(np.where(newest >= 0, rank, -1), visible)

    @cached_property
    def _ranks(self) -> dict[str, Array]:
        """For each occurrence in a tally, the number of links before it: by time, or by time and then by count."""
        ranks: dict[str, Array] = {}
        for name, tally in (("L", self._pairs), ("G", self._destinations)):
            t, count = self.t[tally.links], tally.running()
            order = np.lexsort((count, t))
            starts_group = np.ones(len(t), np.bool_)
            starts_group[1:] = (np.diff(t[order]) != 0) | (np.diff(count[order]) != 0)
            rank = np.empty(len(t), np.int64)
            rank[order] = np.flatnonzero(starts_group)[np.cumsum(starts_group) - 1]
            ranks |= {f"{name}R": self.before(t), f"{name}RP": rank}
        return ranks


def recency_score(pair: Array, destination: Array, visible: Array) -> Scores:
    """`Past.recency` from the last link of each pair and of its destination, for a caller that keeps track of them.

    Args:
        pair: The number of links before the time of the pair's last link; -1 if it has none.
        destination: The same for the destination.
        visible: The number of links before the time of the query.
    """
    return _combined(_recency(pair, visible), _recency(destination, visible))


def _recency(rank: Array, visible: Array) -> Scores:
    """Of a link that comes after `rank` of the first `visible` links: up to 26 for the newest; 0 for rank -1."""
    return np.asarray(np.where(rank >= 0, _BITS - _log2(np.maximum(visible - rank, 1)), 0.0), np.float64)


def _combined(first: Scores, second: Scores | None = None) -> Scores:
    """Compares by `first`, ties by `second`, which adds less than its smallest step; where `first` is 0, ranks last."""
    if second is None:
        return np.asarray(np.where(first > 0, first, first - 1), np.float64)
    return np.asarray(np.where(first > 0, first + 2.0**-31 * second, second / 32 - 1), np.float64)


def _undirected(src: Array, dst: Array) -> Array:
    found: Array = pair_key(np.minimum(src, dst), np.maximum(src, dst))
    return found


def _parts(order: str) -> list[str]:
    """The statistics of an order, at most two. A recency directly followed by its count is merged, such as "LRP"."""
    return order.replace("LR+LP", "LRP").replace("GR+GP", "GRP").split("+")


def _log2(x: Array) -> Scores:
    """A logarithm of integers from 1 that is linear between powers of 2, so that it is exact and strictly monotone."""
    mantissa, exponent = np.frexp(np.minimum(x, 2**_BITS - 1).astype(np.float64))
    return np.asarray(exponent + 2 * mantissa - 2, np.float64)


class BaselineScorer:
    """One of the rules of `Past`: a method with its name, or the order of a heuristic."""

    def __init__(self, past: Past, rule: str) -> None:
        methods: dict[str, Callable[..., Scores]] = {
            "recency": past.recency,
            "popularity": past.popularity,
            "edgebank": past.edgebank,
            "edgebank (window)": past.edgebank_window,
        }
        self._score = methods[rule] if rule in methods else partial(past.heuristic, rule)

    def __call__(self, src: Array, dst: Array, t: Array) -> Scores:
        return self._score(src, dst, t)

    def score_after(self, src: Array, dst: Array, t: Array, visible: Array) -> Scores:
        """See `PrefixScorer`."""
        return self._score(src, dst, t, visible)


@dataclass(frozen=True)
class RecencySettings(Settings):
    """Settings of an untrained baseline; those of training have no effect."""

    epochs: int = 1
    negatives: Literal["random", "mixed"] = "random"
    attributes: bool = False

    @property
    def rule(self) -> str:
        return "recency"


@dataclass(frozen=True)
class PopularitySettings(RecencySettings):
    """Settings of the popularity baseline."""

    @property
    def rule(self) -> str:
        return "popularity"


@dataclass(frozen=True)
class EdgebankSettings(IgnoresDirection, RecencySettings):
    """Settings of EdgeBank."""

    memory: Literal["unlimited", "window"] = setting("unlimited", '"window": only the last 15 % of the time so far')

    @property
    def rule(self) -> str:
        return "edgebank" if self.memory == "unlimited" else "edgebank (window)"


@dataclass(frozen=True)
class HeuristicsSettings(RecencySettings):
    """Settings of the lexicographic heuristics."""

    order: Order = setting("LR+LP+GR+GP", "L: of the pair, G: of the destination; R: last time, P: number of links")

    @property
    def rule(self) -> str:
        return self.order


class UntrainedSystem:
    """A baseline as a system without weights or training steps."""

    steps_per_epoch = 0

    def __init__(self, context: Context) -> None:
        self.config: RecencySettings = context.config
        self.module = nn.Module()

    def updates(self, epoch: int, first: int, optimizer: Optimizer) -> Iterator[Tensor]:
        return iter(())

    def scorer(self, events: Events) -> BaselineScorer:
        return BaselineScorer(Past(events), self.config.rule)
