"""From pairs to what the network reads: sample walks, share their prefixes, look up their attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from cawn.data.events import Events
from cawn.kernels.cpu.prefixes import Room
from cawn.systems.cawn.config import Config
from cawn.systems.cawn.prefixes import Prefixes, merge_prefixes, share_prefixes
from cawn.walks.history import History
from cawn.walks.identities import anonymize_each
from cawn.walks.rates import Rates, in_units, rates_width
from cawn.walks.sampling import Walks

Array = npt.NDArray[Any]
Result = TypeVar("Result")
Kind = TypeVar("Kind")  # of what holds numbers

PAIRS_PER_BATCH = 1024  # of those that are scored, not trained on
WALK_SEED = 0x5EED  # scores of one model do not depend on when or with what they are asked for
_LOG_UNIT = 6.0  # log(1 + a large number), so that features are of order one


@dataclass(frozen=True, slots=True)
class Level(Generic[Kind]):
    """The n_i distinct prefixes of depth i, as arrays or as tensors."""

    parent: Kind  # [n_i] the prefix of depth i - 1 that each continues
    owner: Kind  # [n_i] 2 * pair + side
    own: Kind  # [n_i] the number of g(w, S) in the prefix's own walk set S
    other: Kind  # [n_i] and in that of the other side
    weight: Kind  # [n_i] the share of the M walks that end here
    elapsed: Kind  # [n_i] t_{i-1} - t_i in time units
    x: Kind  # [n_i, width of X]


@dataclass(frozen=True, slots=True)
class Batch:
    """B pairs, ready for the network. K is the number of distinct count vectors among them, L = m + 1."""

    num_pairs: int
    g: Array  # [K, L] those vectors divided by M; with `logarithms` [K, 3L], also their logarithms and whether > 0
    levels: list[Level[Array]]
    rates: Array  # [B, R] exact rates of both ends and of the pair; R = 0 without them
    rows: list[Array] | None = None  # of `merged` pairs, for each level: which of its n_i prefixes each owner has


def ahead(tasks: Iterable[Callable[[], Result]], workers: int) -> Iterator[Result]:
    """The results of the tasks in their order, a few of them always being worked on in advance."""
    if workers < 1:
        yield from (task() for task in tasks)
        return
    with ThreadPoolExecutor(workers) as pool:
        waiting = iter(tasks)
        running = [pool.submit(task) for task in islice(waiting, 2 * workers)]
        try:
            while running:
                yield running.pop(0).result()
                running.extend(pool.submit(task) for task in islice(waiting, 1))
        finally:
            for future in running:
                future.cancel()


def pairs_within(byte_budget: int, config: Config, x_width: int) -> int:
    """How many pairs may go through the network at once."""
    L = config.length + 1
    numbers = 8 * config.dim + 2 * x_width + 4 * L  # of a position: in states and gates, X, and counts
    return max(byte_budget // (2 * config.num_walks * L * 4 * numbers), 1)


def input_widths(config: Config, events: Events, num_decays: int) -> tuple[int, int]:
    """How many numbers X_i holds, and how many rates a pair has."""
    rates = rates_width(num_decays, directed=config.directed) if config.rates else 0
    return width_of_x(config, events), rates


def width_of_x(config: Config, events: Events) -> int:
    """How many numbers X_i holds."""
    msg, x = attributes(config, events)
    return (
        2 * (config.time and config.logarithms)
        + 2 * config.directed
        + (0 if msg is None else msg.shape[1])
        + (0 if x is None else x.shape[1])
        + int(config.degree)
    )


def attributes(config: Config, events: Events) -> tuple[Array | None, Array | None]:
    """Those of the links and of the nodes that the model uses."""
    return (events.msg, events.x) if config.attributes else (None, None)


@dataclass(frozen=True, slots=True)
class Batcher:
    """Makes batches of pairs on one history, built from `events`; times are counted in `unit`."""

    config: Config
    events: Events
    history: History
    unit: float
    rates: Rates | None
    threads: int | None = None

    @classmethod
    def of(
        cls,
        config: Config,
        events: Events,
        alpha: tuple[float, ...],
        unit: float,
        *,
        threads: int | None = None,
        build_threads: int | None = None,
    ) -> Batcher:
        """Index the events, then make batches on `threads` cores."""
        history = History(events, alpha, threads=build_threads)
        rates = Rates(events, history, directed=config.directed) if config.rates else None
        return cls(config, events, history, unit, rates, threads)

    def pairs(self, src: Array, dst: Array, t: Array, *, seed: int) -> Batch:
        """The pairs (src, dst) at times t."""
        return self._batch(self._sample(src, t, seed), self._sample(dst, t, seed), self._rates(src, dst, t))

    def trace(self, src: Array, dst: Array, t: Array, *, seed: int) -> tuple[Batch, Prefixes]:
        """The same with the prefixes behind the batch: row by row, the nodes and links that each stands for."""
        shared = share_prefixes(self._sample(src, t, seed), self._sample(dst, t, seed), threads=self.threads)
        return self._of_prefixes(shared, self._rates(src, dst, t)), shared

    def contrast(self, src: Array, dst: Array, false: Array, t: Array, *, seed: int) -> Batch:
        """The pairs (src, dst), then (src, false), at the same times; the walks of the sources are sampled once."""
        walks = self._sample(np.concatenate([src, dst, false]), np.tile(t, 3), seed)
        B = len(src)
        of_src, of_others = (
            Walks(*(np.concatenate([field[part * B : (part + 1) * B] for part in parts]) for field in _fields(walks)))
            for parts in ((0, 0), (1, 2))
        )
        ends = np.concatenate([src, src]), np.concatenate([dst, false]), np.concatenate([t, t])
        return self._batch(of_src, of_others, self._rates(*ends))

    def one_against_many(self, src: int, dst: Array, t: Any, piece: int, *, seed: int) -> Iterator[Batch]:
        """The pairs (src, each of dst) at one time, `piece` of them at once; the walks of src are sampled once."""
        of_src = self._sample(np.array([src]), np.array([t]), seed)
        for first in range(0, len(dst), piece):
            some = dst[first : first + piece]
            repeated = Walks(*(np.repeat(field, len(some), axis=0) for field in _fields(of_src)))
            now = np.full(len(some), t)
            rates = self._rates(np.full(len(some), src), some, now)
            yield self._batch(repeated, self._sample(some, now, seed), rates)

    def merged(self, src: Array, dst: Array, t: Array, *, seed: int) -> Batch:
        """The pairs (src, dst) at times t, for those that have ends in common: each node's walks are sampled once, and
        equal prefixes of different pairs are one."""
        nodes, times = np.concatenate([src, dst]), np.concatenate([t, t])
        order = np.lexsort((times, nodes))
        is_new = np.ones(len(order), bool)
        is_new[1:] = (np.diff(nodes[order]) != 0) | (np.diff(times[order]) != 0)
        number = np.empty(len(order), np.int64)
        number[order] = np.cumsum(is_new) - 1
        different = order[is_new]
        walks = self._sample(nodes[different], times[different], seed)
        roots = number.reshape(2, -1).T  # [B, 2]
        walks_u, walks_v = (Walks(*(field[roots[:, side]] for field in _fields(walks))) for side in (0, 1))
        shared = share_prefixes(walks_u, walks_v, threads=self.threads)
        distinct, rows = merge_prefixes(shared, roots)
        batch = self._of_prefixes(distinct, self._rates(src, dst, t))
        levels = [
            replace(level, owner=room.owner, weight=_shares(room, shared))
            for level, room in zip(batch.levels, shared.levels, strict=True)
        ]
        return replace(batch, levels=levels, rows=rows)

    def _sample(self, nodes: Array, t: Array, seed: int) -> Walks:
        config = self.config
        return self.history.sample(
            nodes, t, num_walks=config.num_walks, length=config.length, seed=seed, threads=self.threads
        )

    def _rates(self, src: Array, dst: Array, t: Array) -> npt.NDArray[np.float32]:
        if self.rates is None:
            return np.empty((len(src), 0), np.float32)
        return self.rates.features(src, dst, t, self.unit)

    def _batch(self, walks_u: Walks, walks_v: Walks, rates: npt.NDArray[np.float32]) -> Batch:
        return self._of_prefixes(share_prefixes(walks_u, walks_v, threads=self.threads), rates)

    def _of_prefixes(self, shared: Prefixes, rates: npt.NDArray[np.float32]) -> Batch:
        levels = []
        for depth, room in enumerate(shared.levels):
            levels.append(
                Level(
                    parent=room.parent,
                    owner=room.owner,
                    own=_identities(self.config.identity, shared, depth),
                    other=room.other,
                    weight=_shares(room, shared),
                    elapsed=in_units(room.elapsed, self.unit).astype(np.float32),
                    x=self._x(room, shared, depth),
                )
            )
        return Batch(shared.num_pairs, self._g(shared), levels, rates)

    def _g(self, shared: Prefixes) -> npt.NDArray[np.float32]:
        counts = shared.vectors.astype(np.float32)
        parts: list[Array] = [counts / shared.num_walks]
        if self.config.logarithms:
            parts += [np.log1p(counts) / np.float32(np.log1p(shared.num_walks)), counts > 0]
        return np.concatenate(parts, axis=1).astype(np.float32)

    def _x(self, room: Room, shared: Prefixes, depth: int) -> npt.NDArray[np.float32]:
        """X_i: logarithms of elapsed time and age, the way the link points, its attributes, those of the node, and
        the node's degree; [n, width]."""
        n = len(room.node)
        parts: list[Array] = []
        msg, x = attributes(self.config, self.events)
        linked = room.event >= 0
        if self.config.time and self.config.logarithms:
            parts.append(np.log1p(in_units(np.stack([room.elapsed, room.age], axis=1), self.unit)) / _LOG_UNIT)
        if self.config.directed:
            before = shared.levels[depth - 1].node[room.parent] if depth > 0 else room.node
            forward = self.events.src[np.maximum(room.event, 0)] == before if len(self.events) else np.zeros(n, bool)
            parts.append(np.stack([linked & forward, linked & ~forward], axis=1))
        if msg is not None:
            parts.append(np.where(linked[:, None], msg[np.maximum(room.event, 0)], 0))
        if x is not None:
            known = room.node < len(x)
            parts.append(np.where(known[:, None], x[np.where(known, room.node, 0)], 0))
        if self.config.degree:
            parts.append(np.log1p(self.history.degree(room.node, room.t))[:, None] / _LOG_UNIT)
        return np.concatenate(parts, axis=1).astype(np.float32) if parts else np.empty((n, 0), np.float32)


def _shares(room: Room, shared: Prefixes) -> npt.NDArray[np.float32]:
    """The share of the walks that end at each prefix."""
    return np.asarray((room.ended / shared.num_walks).astype(np.float32))


def _fields(walks: Walks) -> tuple[Array, Array, Array]:
    return walks.nodes, walks.t, walks.events


def _identities(kind: str, shared: Prefixes, depth: int) -> npt.NDArray[np.int64]:
    """Which row of the model's identities each prefix has: its count vector, its order, or the only one."""
    if kind == "aw":
        return _orders(shared, depth)
    own: npt.NDArray[np.int64] = shared.levels[depth].own
    return own if kind == "caw" else np.zeros_like(own)


def _orders(shared: Prefixes, depth: int) -> npt.NDArray[np.int64]:
    """I_AW of the last node of each prefix: the order of its first appearance on the path to it, from 1."""
    path = [shared.levels[depth].node]
    at = np.arange(len(path[0]))
    for i in range(depth, 0, -1):
        at = shared.levels[i].parent[at]
        path.insert(0, shared.levels[i - 1].node[at])
    nodes = np.stack(path, axis=1)[:, None]  # [n, 1, depth + 1]
    return anonymize_each(Walks(nodes, nodes, nodes))[:, 0, -1].astype(np.int64)
