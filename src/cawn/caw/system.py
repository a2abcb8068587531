"""CAW-N as a `System`: chooses the decays, the time unit and the engine, and holds the index its scorers use."""

from __future__ import annotations

import math
from collections.abc import Iterator
from copy import copy
from functools import cached_property
from threading import Lock
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from cawn.caw.config import NAMED_LADDERS, Config
from cawn.caw.features import WALK_SEED, Batch, Batcher, input_widths, pairs_within, width_of_x
from cawn.caw.host import HostEngine, output
from cawn.caw.model import CAWN
from cawn.caw.variants import build_network
from cawn.data.decays import LADDERS, PAPER_RATIO, ladder, time_unit
from cawn.data.events import Events
from cawn.errors import DataError, brief
from cawn.index.index import Index
from cawn.index.stored import index_of, named_arrays, stored_index
from cawn.kernels.cuda.launch import memory_for
from cawn.systems.base import Alternatives, Context
from cawn.systems.training import LinkBatch, Optimizer
from cawn.walks.history import History

Array = npt.NDArray[Any]

TRIAL_DIM = 32  # of the short training runs for alpha="auto"
_COPY_BELOW = 0.13  # pairs per link: an index that grew is copied to a GPU when it was asked about more

_ENGINES = Lock()  # held while an engine is chosen or made


class CawnSystem:
    """CAW-N on the CPU or on a GPU."""

    def __init__(self, context: Context) -> None:
        config: Config = context.config
        self.context, self.config = context, config
        self.alpha = tuple(map(float, context.fact("alpha", lambda: decays(config, context.train.known.intensity))))
        self.unit = float(context.fact("unit", lambda: time_unit(context.train.known)))
        if not self.alpha or not all(0 <= a < math.inf for a in self.alpha) or not 0 < self.unit < math.inf:
            raise DataError(f"alpha {brief(self.alpha)} or unit {brief(self.unit)} is out of range")
        if config.widths[0] % len(self.alpha):
            raise DataError(f"{len(self.alpha)} decays cannot share {config.widths[0]} walks evenly")
        widths = context.fact("widths", lambda: list(input_widths(config, context.events, len(self.alpha))))
        if tuple(widths) != input_widths(config, context.events, len(self.alpha)):
            raise DataError("widths do not match the links")
        with memory_for("the model"):
            self.module = build_network(config, *widths).to(context.device)
        self._batcher: Batcher | None = None  # the index of the most recent events
        self._engine: Any = None  # for the last batcher; only one, to save GPU memory
        self._asked: tuple[Batcher | None, int] = (None, 0)  # a batcher without engine, and pairs it was asked about

    @property
    def same_dropout(self) -> bool:
        """See `Divisible`. Dropout on walks is drawn for the distinct prefixes of a rank, which others do not know."""
        config = self.config
        if config.dropout == 0 or self.context.device.type == "cpu":
            on_walks = config.rnn == "transformer" or config.pooling != "mean" or config.dropout_at == "walks"
            return config.dropout == 0 or not on_walks
        from cawn.caw.fused import is_fused

        return is_fused(config) and config.pooling == "mean" and config.dropout_at == "pairs"

    @staticmethod
    def alternatives(config: Config, train: Events) -> Alternatives | None:
        """The ladders of decays that alpha="auto" compares."""
        if config.alpha != "auto":
            return None
        small = config.with_(dim=min(config.dim, TRIAL_DIM), epochs=1, schedule="constant", alpha="ladder")
        facts = {name: {"alpha": decays(config, train.intensity, name)} for name in LADDERS}
        return Alternatives("decays", small, facts)

    @staticmethod
    def index_facts(config: Config, train: Events) -> dict[str, Any]:
        """See `Indexed`."""
        return {"alpha": decays(config, train.intensity), "unit": time_unit(train)}

    def updates(self, epoch: int, first: int, optimizer: Optimizer) -> Iterator[Tensor]:
        engine = self.engine(self.batcher(self.context.events))
        updates: Iterator[Tensor] = engine.updates(self.context.train, epoch, first, optimizer)
        return updates

    def scorer(self, events: Events) -> WalkScorer:
        return WalkScorer(self, self.batcher(events))

    def batcher(self, events: Events) -> Batcher:
        """The index of these events."""
        if self._batcher is None or self._batcher.events is not events:
            config, build, threads = self.config, self.context.threads, self._batch_threads
            parts, attributes = config.pair_parts, config.attributes
            index = stored_index(events, self.alpha, self.unit, parts, attributes=attributes)
            if index is not None:
                return self._adopt(events, index)
            options: dict[str, Any] = {"threads": threads, "build_threads": build, "grows": self.context.grows}
            self._batcher = Batcher.of(config, events, self.alpha, self.unit, **options)
        return self._batcher

    def _adopt(self, events: Events, index: Index) -> Batcher:
        """Use an index of these events."""
        self._batcher = Batcher(self.config, events, index, self.unit, self._batch_threads)
        return self._batcher

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
    def _batch_threads(self) -> int | None:
        """Threads that build batches: one in training, where the network uses the other cores."""
        return self.context.threads if self.context.training is None else 1

    def index(self, events: Events) -> dict[str, Array]:
        """See `Indexed`."""
        return named_arrays(self.batcher(events).index)

    def load_index(self, events: Events, arrays: dict[str, Array]) -> None:
        """See `Indexed`."""
        self._adopt(events, index_of(events, self.alpha, self.unit, self.config.pair_parts, arrays))

    def with_module(self, module: nn.Module) -> CawnSystem:
        """See `Replaceable`."""
        other = copy(self)
        other.module, other._engine = cast("CAWN", module), None
        return other

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {
            "_engine": None,
            "_asked": (None, 0),
        }  # device memory is not pickled


class WalkScorer:
    """Scores pairs by walks sampled from a history."""

    def __init__(self, system: CawnSystem, batcher: Batcher) -> None:
        self._system, self.batcher, self.config = system, batcher, system.config

    @property
    def history(self) -> History:
        return self.batcher.history

    @property
    def module(self) -> CAWN:
        return self._system.module

    def __call__(self, src: Array, dst: Array, t: Array) -> Array:
        return self.logits(src, dst, t, seed=WALK_SEED)

    def logits(self, src: Array, dst: Array, t: Array, *, seed: int) -> Array:
        found = self._system.engine(self.batcher, len(src)).forward(src, dst, t, seed=seed)
        return np.asarray(found, np.float64)

    def extended(self, events: Events, kept: int) -> WalkScorer:
        """See `Growing`."""
        self._system._batcher = self.batcher.extended(events, kept)
        return WalkScorer(self._system, self._system._batcher)

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

    def with_module(self, module: nn.Module) -> WalkScorer:
        """See `Trainable`."""
        return WalkScorer(self._system.with_module(module), self.batcher)

    def training_logits(self, links: LinkBatch, *, seed: int) -> Tensor:
        """See `Trainable`."""
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


def decays(config: Config, tau: float, name: str = "wide") -> tuple[float, ...]:
    """The decays for links of intensity tau: as given in the settings, by the paper's rule, or a ladder.

    The ladder is the one that the settings name; `name` for alpha="auto".
    """
    if isinstance(config.alpha, tuple):
        return config.alpha
    if not isinstance(config.alpha, str):
        return (config.alpha,)
    if config.alpha == "paper":
        return (tau / PAPER_RATIO,)
    return ladder(tau, num_walks=config.num_walks, name=NAMED_LADDERS.get(config.alpha, name))
