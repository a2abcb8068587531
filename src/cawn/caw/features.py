"""From pairs to the input of the network: walks, their distinct prefixes, and the features of each position.

`FEATURES` is the one list of the columns of X. To add a feature, add it there and to `kernels.cuda.features`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cawn.caw.config import Config
from cawn.data.events import Events
from cawn.index.features import in_units
from cawn.index.kernels.nodes import degrees
from cawn.systems.indexed import PastIndex
from cawn.walks.identities import path_orders
from cawn.walks.kernels.prefixes import Level, Walks, merge_prefixes, share_prefixes
from cawn.walks.kernels.sampling import run_walks, sample_walks

Array = npt.NDArray[Any]

PAIRS_PER_BATCH = 1024  # in scoring; training has config.batch_size
WALK_SEED = 0x5EED  # of all scoring, so that a score does not depend on when or with what it is asked for
LOG_SCALE = 6.0  # logarithms of times and counts are divided by it, which makes features of order one
_MERGE_BELOW = 1.5  # queries per pair below which merging equal prefixes of different pairs pays


@dataclass(frozen=True, slots=True)
class Batch:
    """B pairs as input of the network, in NumPy arrays or PyTorch tensors. L = m + 1."""

    num_walks: int  # M, of each side
    vectors: Any  # [K, L] int32, the distinct count vectors g(w, S)
    levels: list[Level]  # L trees of prefixes, one level for each depth
    pair_features: Any  # [B, R] see `PairFeatures`; R = 0 without them

    @property
    def num_pairs(self) -> int:
        return len(self.pair_features)

    def to(self, device: Any) -> Batch:
        """The batch as tensors on a device; on the CPU they share the memory of the arrays."""
        import torch

        def tensor(values: Any) -> Any:
            return values if values is None else torch.as_tensor(values, device=device)

        levels = [Level(*map(tensor, level)) for level in self.levels]
        return Batch(self.num_walks, tensor(self.vectors), levels, tensor(self.pair_features))


class Batcher(PastIndex):
    """Makes batches of pairs from the history of `events`."""

    __slots__ = ()
    config: Config

    def pairs(self, src: Array, dst: Array, t: Array, *, seed: int) -> Batch:
        """The pairs (src, dst) at times t. Each distinct (node, time) is sampled once."""
        return self.rows(*_distinct_queries(src, dst, t), seed=seed)

    def trace(self, src: Array, dst: Array, t: Array, *, seed: int) -> Batch:
        """`pairs` for explanations: every prefix belongs to one pair."""
        return self.rows(*_distinct_queries(src, dst, t), seed=seed, merge=False)

    def contrast(
        self, src: Array, dst: Array, negative: Array, t: Array, *, seed: int, negative_src: Array | None = None
    ) -> Batch:
        """The pairs (src, dst), then (src, negative), at the same times. The walks of src are sampled once.

        Args:
            negative: [K B] K negative destinations for each link: one for each, then another for each, and so on.
            negative_src: [K B] the sources of the negatives, if they are not those of the links.
        """
        B, K = len(src), len(negative) // max(len(src), 1)
        first, destination = np.arange(B), np.arange(B, (2 + K) * B)
        more, source = np.empty(0, np.int64), np.tile(first, 1 + K)
        if negative_src is not None:
            more, source = negative_src, np.concatenate([first, np.arange((2 + K) * B, (2 + 2 * K) * B)])
        nodes, rows = np.concatenate([src, dst, negative, more]), np.stack([source, destination], axis=1)
        return self.rows(nodes, np.tile(t, len(nodes) // max(B, 1)), rows, seed=seed)

    def rows(self, nodes: Array, t: Array, rows: Array, *, seed: int, merge: bool | None = None) -> Batch:
        """The pairs whose two sides are the queries (nodes[q], t[q]) for q in rows[b].

        Args:
            nodes: [Q]
            t: [Q]
            rows: [B, 2]
            merge: Whether to encode equal prefixes of different pairs once; by default if pairs share many queries.
        """
        nodes, t = self.queries(nodes, t)
        walks = self.walks(nodes, t, seed=seed)
        if merge is None:
            merge = len(nodes) < _MERGE_BELOW * len(rows)
        vectors, levels = self.prefix_trees(walks, rows, merge=merge)
        u, v = rows.T
        return Batch(self.config.num_walks, vectors, levels, self.exact_features(nodes[u], nodes[v], t[u]))

    def queries(self, nodes: Array, t: Array) -> tuple[Array, Array]:
        """Nodes and times in the types that the index has."""
        dtype = self.events.t.dtype
        # -0.0 and 0.0 are the same time
        return np.ascontiguousarray(nodes, np.int64), np.ascontiguousarray(t, dtype) + dtype.type(0)

    def walks(self, nodes: Array, t: Array, *, seed: int) -> Walks:
        """The walks of queries: nodes, times and events, [Q, M, L] each."""
        return run_walks(sample_walks, self.index.nodes, nodes, t, self.config.widths, seed, self.threads)

    def prefix_trees(self, walks: Walks, rows: Array, *, merge: bool) -> tuple[Array, list[Level]]:
        """The vectors and levels of a `Batch`; see `rows`."""
        vectors, levels = share_prefixes(walks, rows, self.threads)
        if merge:
            vectors, levels = merge_prefixes(vectors, levels, rows)
        above = [levels[0], *levels]  # of each level; that of the first is not used
        levels = [self._with_features(level, above[i]) for i, level in enumerate(levels)]
        if self.config.identity == "aw":
            levels = [level._replace(order=path_orders(levels[: i + 1])) for i, level in enumerate(levels)]
        return vectors, levels

    def _with_features(self, level: Level, above: Level) -> Level:
        """The level with X, and with the times that f2 encodes in units."""
        used = [feature for feature in FEATURES if feature.width(self.config, self.events)]
        node_before = above.node[level.parent]
        parts = [feature.values(self, level, node_before) for feature in used]
        x = np.concatenate([np.empty((len(level.node), 0)), *parts], axis=1).astype(np.float32)
        f2_input = self.config.time_code
        times = in_units(getattr(level, f2_input), self.unit).astype(np.float32)
        return level._replace(x=x, **{f2_input: times})


def _distinct_queries(src: Array, dst: Array, t: Array) -> tuple[Array, Array, Array]:
    """The distinct pairs (node, time) among both sides, [Q] each, and which of them each side is: [B, 2]."""
    nodes, times = np.concatenate([src, dst]), np.concatenate([t, t])
    order = np.lexsort((times, nodes))
    is_new = np.ones(len(order), bool)
    is_new[1:] = (np.diff(nodes[order]) != 0) | (np.diff(times[order]) != 0)
    number = np.empty(len(order), np.int64)
    number[order] = np.cumsum(is_new) - 1
    distinct = order[is_new]
    return nodes[distinct], times[distinct], np.ascontiguousarray(number.reshape(2, -1).T)


# The features of a position.


class PositionFeature(NamedTuple):
    """Some columns of X."""

    name: str
    width: Callable[[Config, Events], int]  # number of columns, 0 if the feature is not used
    values: Callable[[Batcher, Level, Array], Array]  # of a level and the nodes before its last ones: [n, width]


def _log_times(batcher: Batcher, level: Level, _: Array) -> Array:
    """Logarithms of elapsed time and age."""
    times = np.stack([level.elapsed, level.age], axis=1)
    return np.asarray(np.log1p(in_units(times, batcher.unit)) / LOG_SCALE)


def _direction(batcher: Batcher, level: Level, node_before: Array) -> Array:
    """Whether the walk took the link from its source, or from its destination."""
    event, src = level.event, batcher.events.src
    linked = event >= 0
    forward = src[np.maximum(event, 0)] == node_before if len(src) else np.zeros(len(event), bool)
    return np.stack([linked & forward, linked & ~forward], axis=1)


def _link_attributes(batcher: Batcher, level: Level, _: Array) -> Array:
    event, msg = level.event, batcher.events.msg
    assert msg is not None
    return np.where(event[:, None] >= 0, msg[np.maximum(event, 0)], 0)


def _node_attributes(batcher: Batcher, level: Level, _: Array) -> Array:
    node, x = level.node, batcher.events.x
    assert x is not None
    known = node < len(x)
    return np.where(known[:, None], x[np.where(known, node, 0)], 0)


def _log_degree(batcher: Batcher, level: Level, _: Array) -> Array:
    """Logarithm of the number of earlier links of the node."""
    degree = degrees(batcher.index.nodes, level.node.astype(np.int64), level.t)
    return np.asarray(np.log1p(degree)[:, None] / LOG_SCALE)


def _attribute_width(table: str) -> Callable[[Config, Events], int]:
    def width(config: Config, events: Events) -> int:
        values = getattr(events, table)
        return values.shape[1] if config.attributes and values is not None else 0

    return width


FEATURES = (
    PositionFeature("time", lambda config, _: 2 * (config.time and config.logarithms), _log_times),
    PositionFeature("direction", lambda config, _: 2 * config.directed, _direction),
    PositionFeature("msg", _attribute_width("msg"), _link_attributes),
    PositionFeature("x", _attribute_width("x"), _node_attributes),
    PositionFeature("degree", lambda config, _: int(config.degree), _log_degree),
)


def columns(config: Config, events: Events) -> dict[str, slice]:
    """The columns of X of each feature that is used, in order."""
    found, first = dict[str, slice](), 0
    for feature in FEATURES:
        if width := feature.width(config, events):
            found[feature.name] = slice(first, first + width)
            first += width
    return found


def width_of_x(config: Config, events: Events) -> int:
    """Number of columns of X."""
    return sum(feature.width(config, events) for feature in FEATURES)


def input_widths(config: Config, events: Events, num_decays: int) -> tuple[int, int]:
    """Number of columns of X, and of exact features of a pair: the widths that the network is built with."""
    return width_of_x(config, events), config.pair_parts.width(num_decays)


def pairs_within(byte_budget: int, config: Config, x_width: int) -> int:
    """Number of pairs that may go through the network at once."""
    L = config.length + 1
    numbers = 8 * config.dim + 2 * x_width + 4 * L  # of a position: states and gates, X, counts
    return max(byte_budget // (2 * config.num_walks * L * 4 * numbers), 1)
