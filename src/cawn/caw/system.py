"""CAW-N as a `System`: chooses the decays, the time unit and the engine, and holds the index its scorers use."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from threading import Lock
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from cawn.caw.config import Config
from cawn.caw.features import WALK_SEED, Batch, Batcher, input_widths, pairs_within, width_of_x
from cawn.caw.host import HostEngine, output
from cawn.caw.model import CAWN
from cawn.caw.variants import build_network
from cawn.data.events import Events
from cawn.errors import DataError, brief
from cawn.kernels.cuda.launch import memory_for
from cawn.systems.base import Context
from cawn.systems.indexed import IndexedScorer, IndexedSystem
from cawn.systems.training import LinkBatch, Optimizer

Array = npt.NDArray[Any]

_COPY_BELOW = 0.13  # pairs per link: an index that grew is copied to a GPU when it was asked about more

_ENGINES = Lock()  # held while an engine is chosen or made


class CawnSystem(IndexedSystem):
    """CAW-N on the CPU or on a GPU."""

    module: CAWN
    past_type = Batcher

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        config: Config = self.config
        if not self.alpha or not all(0 <= a < math.inf for a in self.alpha) or not 0 < self.unit < math.inf:
            raise DataError(f"alpha {brief(self.alpha)} or unit {brief(self.unit)} is out of range")
        if config.widths[0] % len(self.alpha):
            raise DataError(f"{len(self.alpha)} decays cannot share {config.widths[0]} walks evenly")
        widths = context.fact("widths", lambda: list(input_widths(config, context.events, len(self.alpha))))
        if tuple(widths) != input_widths(config, context.events, len(self.alpha)):
            raise DataError("widths do not match the links")
        with memory_for("the model"):
            self.module = build_network(config, *widths).to(context.device)
        self._engine: Any = None  # for the last batcher; only one, to save GPU memory
        self._asked: tuple[Batcher | None, int] = (None, 0)  # a batcher without engine, and pairs it was asked about

    @property
    def same_dropout(self) -> bool:
        """See `System`. Dropout on walks is drawn for the distinct prefixes of a rank, which others do not know."""
        config = self.config
        if config.dropout == 0 or self.context.device.type == "cpu":
            on_walks = config.rnn == "transformer" or config.pooling != "mean" or config.dropout_at == "walks"
            return config.dropout == 0 or not on_walks
        from cawn.caw.fused import is_fused

        return is_fused(config) and config.pooling == "mean" and config.dropout_at == "pairs"

    def updates(self, epoch: int, first: int, optimizer: Optimizer) -> Iterator[Tensor]:
        engine = self.engine(self.past(self.context.events))
        updates: Iterator[Tensor] = engine.updates(self.context.train, epoch, first, optimizer)
        return updates

    def scorer(self, events: Events) -> WalkScorer:
        return WalkScorer(self, self.past(events))

    def engine(self, batcher: Batcher, num_pairs: int = 0) -> Any:
        """Runs the network: `HostEngine` on the CPU, `DeviceEngine` on a GPU.

        Copying an index that grows to a GPU takes longer than asking it about a few pairs: their walks are then sampled
        on the CPU.
        """
        if self.context.device.type == "cpu":
            return HostEngine(self.module, batcher)
        with _ENGINES:
            if self._engine is None or self._engine.host is not batcher:
                held, asked = self._asked
                self._asked = batcher, num_pairs + (asked if held is batcher else 0)
                grew = batcher.growing is not None and batcher.growing.num_appended > 0
                if grew and self._asked[1] < _COPY_BELOW * len(batcher.events):
                    return HostEngine(self.module, batcher)
                from cawn.caw.gpu import DeviceEngine

                self._engine = None  # free its memory first
                self._engine = DeviceEngine(self.module, batcher, self.context.device)
            return self._engine

    @property
    def threads(self) -> int | None:
        """Threads that build batches: one in training, where the network uses the other cores."""
        return self.context.threads if self.context.training is None else 1

    def with_module(self, module: nn.Module) -> Self:
        other = super().with_module(module)
        other._engine = None
        return other

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_engine": None, "_asked": (None, 0)}  # device memory is not pickled


class WalkScorer(IndexedScorer):
    """Scores pairs by walks sampled from a history."""

    _system: CawnSystem

    def __init__(self, system: CawnSystem, past: Batcher) -> None:
        super().__init__(system, past)
        self.batcher, self.config = past, system.config

    @property
    def module(self) -> CAWN:
        return self._system.module

    def __call__(self, src: Array, dst: Array, t: Array) -> Array:
        return self.logits(src, dst, t, seed=WALK_SEED)

    def logits(self, src: Array, dst: Array, t: Array, *, seed: int) -> Array:
        found = self._system.engine(self.batcher, len(src)).forward(src, dst, t, seed=seed)
        return np.asarray(found, np.float64)

    def on(self, events: Events) -> WalkScorer:
        """Scores with the same weights, decays and unit of time on another history; its index is not kept."""
        batcher, threads = self.batcher, self._system.context.threads
        other = Batcher.of(
            self.config, events, batcher.history.alpha, batcher.unit, threads=batcher.threads, build_threads=threads
        )
        return WalkScorer(self._system, other)

    def embed(self, src: Array, dst: Array, t: Array) -> npt.NDArray[np.float32]:
        engine = self._system.engine(self.batcher, len(src))
        return np.asarray(engine.forward(src, dst, t, seed=WALK_SEED, embed=True))

    def training_logits(self, links: LinkBatch, *, seed: int = 0) -> Tensor:
        ends = links.src, links.dst, links.negative, links.t
        logits: Tensor = self._system.module(self.batcher.contrast(*ends, seed=seed, negative_src=links.negative_src))
        return logits

    def logits_of(self, batch: Batch) -> Array:
        """Logits [B] of a batch that was built on the CPU."""
        return np.asarray(output(self._system.module, batch), np.float64)

    @cached_property
    def _x_width(self) -> int:
        return width_of_x(self.config, self.batcher.events)

    def pairs_within(self, byte_budget: int) -> int:
        return pairs_within(byte_budget, self.config, self._x_width)
