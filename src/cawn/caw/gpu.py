"""CAW-N on a GPU: walks, features, network, loss and optimizer run there without waiting for the host. Imports Triton.

All training batches have one shape, so that an update is captured once as a CUDA graph and then replayed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cawn.caw import fused
from cawn.caw.features import LOG_SCALE, Batcher, columns, input_widths, pairs_within
from cawn.caw.fused import Dense
from cawn.caw.kernels.cuda.features import gather_rows, position_features
from cawn.caw.kernels.cuda.links import take_links
from cawn.caw.kernels.cuda.negatives import DeviceChoices
from cawn.caw.model import CAWN
from cawn.data.events import NO_NEGATIVE
from cawn.index.cuda import DevicePairFeatures
from cawn.index.kernels.rates import LONGEST
from cawn.kernels.cuda.launch import USE_CPU, Pieces, current, free_memory, memory_for, place
from cawn.kernels.rng import bernoulli, order
from cawn.systems.graphs import CapturedStep
from cawn.systems.ranks import BatchRows, dropout_of
from cawn.systems.training import (
    HISTORICAL_SHARE,
    PAIR_SHARE,
    RECENT_SHARE,
    Optimizer,
    TrainingLinks,
    contrast_losses,
    pair_seed,
    recent_seed,
    seed_step,
)
from cawn.walks.cuda import DeviceHistory
from cawn.walks.identities import first_occurrences
from cawn.walks.kernels.cuda import count_positions, sample_walks

Array = npt.NDArray[Any]

_MAX_SCORING_BYTES = 16 << 30  # for the pairs that are scored at once
_MEMORY_SHARE = 0.25  # of the free memory: for these pairs, and for attributes, which otherwise stay on the host


class DeviceEngine:
    """CAW-N on a GPU, with the index of a batcher copied there."""

    def __init__(self, module: CAWN, host: Batcher, device: torch.device) -> None:
        self.host, self._module = host, module
        self.batcher = DeviceBatcher(host, device)
        self._steps: DeviceSteps | None = None
        self._scoring = Lock()  # one thread at a time: the side stream is shared

    def updates(self, training: TrainingLinks, epoch: int, first: int, optimizer: Optimizer) -> Iterator[Tensor]:
        """The loss of each step, after the step; see `System.updates`."""
        if self._steps is None:
            self._steps = DeviceSteps(self._module, training, optimizer, self.batcher)
        return self._steps.epoch(epoch, first)

    @torch.no_grad()
    def forward(self, src: Array, dst: Array, t: Array, *, seed: int, embed: bool = False) -> Array:
        """Logits [B] of pairs, or embeddings [B, width]. Consecutive pairs of one (source, t) share its walks."""
        module, batcher = self._module.eval(), self.batcher
        if len(src) == 0:
            return np.empty((0, module.width) if embed else 0, np.float32)
        network = fused.embed if embed else fused.logits
        repeated = np.zeros(len(src), bool)
        repeated[1:] = (src[1:] == src[:-1]) & (t[1:] == t[:-1])
        with self._scoring, memory_for(f"{len(src):,} pairs", "ask about fewer at once"):
            u, v, now, key = batcher.nodes(src), batcher.nodes(dst), batcher.times(t), batcher.history.seed(seed)

            def piece(first: int, last: int) -> Tensor:
                part = slice(first, last)
                return network(module, batcher.pairs(u[part], v[part], now[part], key, repeated[part]))

            return np.asarray(torch.cat(list(batcher.pieces(piece, len(src)))).cpu().numpy())


class DeviceBatcher:
    """Builds the batches of a `Batcher` on a device and in fixed shapes."""

    def __init__(self, host: Batcher, device: torch.device) -> None:
        config = host.config
        self.config, self.events, self.device = config, host.events, device
        self.history = DeviceHistory(host.history, device)
        self._side_stream = torch.cuda.Stream(device) if device.type == "cuda" else None  # type: ignore[no-untyped-call]
        self._widths = torch.tensor(config.widths, device=device)
        self._features = DevicePairFeatures(config.pair_parts, self.history.index)
        self.x_width, self.pair_width = input_widths(config, host.events, len(host.history.alpha))
        self._unit = torch.tensor([host.unit], dtype=torch.float64, device=device)
        budget = int(min(_MAX_SCORING_BYTES, _MEMORY_SHARE * free_memory(device)))
        self.pieces = Pieces(max(pairs_within(budget, config, self.x_width) // 16 * 16, 2))
        self._columns = {name: part.start for name, part in columns(config, host.events).items()}
        self.tables: dict[str, Tensor] = {
            name: place([getattr(host.events, name)], device, "the attributes", _MEMORY_SHARE)[0]
            for name in ("msg", "x")
            if name in self._columns
        }

    def nodes(self, nodes: Array) -> Tensor:
        """Node ids on the device."""
        return torch.from_numpy(np.asarray(nodes, np.int64)).to(self.device)

    def times(self, t: Array) -> Tensor:
        """Times on the device, in the dtype of the events' times."""
        dtype = self.events.t.dtype
        return torch.from_numpy(np.ascontiguousarray(t, dtype) + dtype.type(0)).to(self.device)  # no -0.0

    def pairs(self, src: Tensor, dst: Tensor, t: Tensor, seed: Tensor, repeated: Array | None = None) -> Dense:
        """The pairs (src, dst) at times t, [B] each. `repeated` [B] marks pairs whose source and time are those of the
        pair before: their walks are sampled once."""
        each = torch.arange(len(src), device=self.device)
        if repeated is None or not repeated[1:].any():
            nodes, times = torch.cat([src, dst]), torch.cat([t, t])
            rows = torch.stack([each, each + len(src)], dim=1)
        else:
            is_new = np.append(True, ~repeated[1:])
            first, source = (
                torch.from_numpy(found).to(self.device) for found in (np.flatnonzero(is_new), np.cumsum(is_new) - 1)
            )
            nodes, times = torch.cat([src[first], dst]), torch.cat([t[first], t])
            rows = torch.stack([source, each + len(first)], dim=1)
        return self.batch(nodes, times, rows, (src, dst, t), seed)

    def batch(
        self, nodes: Tensor, times: Tensor, rows: Tensor, pairs: tuple[Tensor, Tensor, Tensor], seed: Tensor
    ) -> Dense:
        """The features of B pairs (src, dst, t), [B] each, from the walks of Q queries (nodes, times), [Q] each.

        Args:
            rows: [B, 2] int64, the queries of the source and the destination of each pair.
            seed: [1] int64.
        """
        with current(self.device), self._pair_features(*pairs) as pair_features:
            walks = sample_walks(self.history.index.walks, nodes, times, self._widths, seed, self.config.num_walks)
            counts = count_positions(walks[0], rows).flatten(0, 1)
            sets = rows.flatten()
            elapsed, x, alive = self._position_features(walks, sets)
            order = first_occurrences(walks[0][sets]) if self.config.identity == "aw" else None
            age = self._ages(walks[1][sets], alive) if self.config.time_code == "age" else None
            return Dense(counts, elapsed, x, alive, pair_features, order, age)

    @contextmanager
    def _pair_features(self, src: Tensor, dst: Tensor, t: Tensor) -> Iterator[Tensor]:
        """`PairFeatures.features` [B, R], computed on a side stream; ready on exit."""
        out = torch.empty(len(src), self.pair_width, device=self.device)
        if self.pair_width == 0:
            yield out
            return
        side = self._side_stream
        try:
            if side is not None:
                side.wait_stream(torch.cuda.current_stream(side.device))
            with torch.cuda.stream(side):  # None changes nothing; no tensors are allocated inside
                self._features.fill(src, dst, t, self._unit, out)
            yield out
        finally:
            if side is not None:
                torch.cuda.current_stream(side.device).wait_stream(side)

    def _position_features(self, walks: tuple[Tensor, ...], sets: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Elapsed time, X and existence of every position."""
        elapsed, x, alive = position_features(
            *(walks, sets, self._unit, self.x_width, self._columns), log_scale=LOG_SCALE, longest=LONGEST
        )
        nodes, _, links, _ = walks
        for name, ids, shift in (("msg", links, 1), ("x", nodes, 0)):
            if name in self._columns:
                gather_rows(self.tables[name], ids, sets, x, self._columns[name], shift=shift)
        return elapsed, x, alive

    def _ages(self, t: Tensor, alive: Tensor) -> Tensor:
        """t_0 - t_i in units, for the times t [S, M, L] of the positions of walks; 0 where a walk has ended."""
        age = ((t[..., :1] - t).double() / self._unit).clamp(max=LONGEST)
        return torch.where(alive > 0, age, 0.0).float()


class DeviceSteps:
    """The steps of an epoch on a device."""

    def __init__(self, module: CAWN, training: TrainingLinks, optimizer: Optimizer, batcher: DeviceBatcher) -> None:
        self._module, self._training, self._optimizer, self._batcher = module, training, optimizer, batcher
        self._rows = training.ranks.rows(min(training.batch_size, len(training.positions)))
        self._dropout_rows = self._rows
        if self._rows.size == 0:  # one place, after the last link
            self._dropout_rows = BatchRows(0, 1, self._rows.whole)
            self._rows = self._dropout_rows._replace(first=len(training.positions))
        self._size = self._rows.size
        with memory_for("the training links"):
            self._place(batcher.device)
        parts = self._backward, self._update
        self._captured = CapturedStep(*parts, module, optimizer, batcher.device, reset=self._step.zero_)

    def _place(self, device: torch.device) -> None:
        """Allocate what an update reads: a captured graph finds it at the same addresses in every epoch."""
        training = self._training
        links, events, size = training.positions, training.events, self._size
        n = len(links)
        nodes, times = self._batcher.nodes, self._batcher.times
        self._links = nodes(events.src[links]), nodes(events.dst[links]), times(events.t[links])
        self._random = DeviceChoices(training.random, device)
        self._historical = None if training.historical is None else DeviceChoices(training.historical, device)
        self._own_negatives = torch.from_numpy(training.own_negatives).to(device).to(torch.int64)
        self._weights = torch.ones(n, device=device)
        if training.weights is not None:
            self._weights.copy_(torch.from_numpy(training.weights))
        self._order = torch.arange(n, device=device)
        self._recent = None if training.recent is None else DeviceChoices(training.recent, device)
        self._pairs = None if training.pairs is None else DeviceChoices(training.pairs, device)
        self._ends = [nodes(ends) for ends in (events.src, events.dst)] if training.pairs is not None else []
        K = training.num_negatives
        self._negatives = torch.zeros(2, K, n, dtype=torch.int64, device=device)  # sources and destinations
        self._negatives[0] = self._links[0]
        # Queries are sources, destinations, negatives; if negatives have sources of their own, all ends of the pairs.
        # Pairs are (source, destination), then (source, negative).
        pairs = torch.arange((1 + K) * size, device=device)
        sources, num_sources = (pairs % size, size) if training.pairs is None else (pairs, len(pairs))
        self._queries = torch.stack([sources, pairs + num_sources], dim=1)
        self._lr = torch.zeros(training.steps_per_epoch, device=device)
        first = torch.arange(training.steps_per_epoch, device=device) * self._rows.whole
        self._counts = (n - first).clamp(max=self._rows.whole)  # links of each step, on all ranks
        self._step = torch.zeros(1, dtype=torch.int64, device=device)
        self._seed = torch.zeros(1, dtype=torch.int64, device=device)
        self._loss = torch.zeros((), device=device)

    def epoch(self, epoch: int, first: int) -> Iterator[Tensor]:
        """The loss of each step, after the step."""
        training, device = self._training, self._batcher.device
        size = self._rows.whole
        remedy = f"choose a batch_size below {size}, and another folder" if size > 1 else USE_CPU
        with current(device), memory_for(f"batches of {self._size:,} links", remedy):
            self._prepare(epoch)
            self._step.fill_(first)
            if device.type == "cuda" and not self._captured.captured:
                self._captured.capture()
                self._step.fill_(first)
                seed_step(device, training.seed_for("dropout", epoch, first))  # the capture drew random numbers
            for _ in range(first, training.steps_per_epoch):
                self._captured()
                yield self._loss

    def _prepare(self, epoch: int) -> None:
        """Compute the order, negatives and learning rates of an epoch, in place."""
        training, device = self._training, self._batcher.device
        seed = training.seed_for("epoch", epoch)
        self._seed.fill_(seed)
        for k, draw_seed in enumerate(training.draw_seeds(epoch)):
            self._negatives[:, k].copy_(self._draw(draw_seed))
        self._order.copy_(order(seed, len(self._order), device))
        rates = [self._optimizer.learning_rate(epoch, step) for step in range(len(self._lr))]
        self._lr.copy_(torch.tensor(rates))

    def _draw(self, seed: int) -> Tensor:
        """The source and destination of a negative for each link; see `TrainingLinks.negative_pairs`: [2, n]."""
        device, (src, dst, _) = self._batcher.device, self._links
        key, n = self._batcher.history.seed(seed), len(dst)
        negatives = self._random.draw(key)
        if self._recent is not None:
            recent = self._recent.draw(key, fallback=negatives)
            chosen = bernoulli(recent_seed(seed), n, RECENT_SHARE, device) & (recent != dst)
            negatives = torch.where(chosen, recent, negatives)
        if self._historical is not None:
            historical = self._historical.draw(key, fallback=negatives)
            negatives = torch.where(bernoulli(seed, n, HISTORICAL_SHARE, device), historical, negatives)
        drawn = self._own_negatives == NO_NEGATIVE
        negatives = torch.where(drawn, negatives, self._own_negatives)
        if self._pairs is None:
            return torch.stack([src, negatives])
        link = self._pairs.draw(key)
        chosen = drawn & bernoulli(pair_seed(seed), n, PAIR_SHARE, device) & (link >= 0)
        earlier_src, earlier_dst = (ends[link.clamp(min=0)] for ends in self._ends)
        chosen = chosen & ((earlier_src != src) | (earlier_dst != dst))
        return torch.stack([torch.where(chosen, earlier_src, src), torch.where(chosen, earlier_dst, negatives)])

    def _backward(self) -> None:
        """The gradients of one step, whose number is counted on the device."""
        self._module.train()
        ends, times, weights, present = self._take()
        with dropout_of(self._dropout_rows):
            logits = fused.logits(self._module, self._batch(ends, times))
        losses = contrast_losses(logits, self._training.num_negatives)
        several = self._training.ranks.several
        loss = (losses * weights).sum() / (self._counts.gather(0, self._step)[0] if several else present.sum())
        self._optimizer.set_learning_rate(self._lr.gather(0, self._step)[0])
        self._optimizer.backward(loss)
        self._loss.copy_(loss.detach())

    def _update(self) -> None:
        """The rest of the step."""
        self._optimizer.update()
        if self._optimizer.bucket is not None:
            self._loss.copy_(self._optimizer.bucket.loss)
        self._step += 1

    def _take(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """The links of the next step, see `take_links`."""
        src, dst, t = self._links
        negatives = self._negatives[0], self._negatives[1]
        return take_links(self._order, src, dst, negatives, t, self._weights, self._step, self._rows)

    def _batch(self, ends: Tensor, times: Tensor) -> Dense:
        """The features of the links and their negatives."""
        num_pairs = len(self._queries)
        pairs = ends[:num_pairs], ends[num_pairs:], times[:num_pairs]
        first = 0 if self._pairs is not None else num_pairs - self._size  # the sources of the last negatives
        return self._batcher.batch(ends[first:], times[first:], self._queries, pairs, self._seed)
