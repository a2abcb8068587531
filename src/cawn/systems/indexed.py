"""Systems that score pairs from the index of walks and exact features, which can be stored, extended and shared."""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt
from torch import Tensor, nn

from cawn.data.decays import time_unit
from cawn.data.events import Events
from cawn.index.features import PairFeatures
from cawn.index.growing import GrowingIndex, growing_index
from cawn.index.index import Index
from cawn.index.stored import index_of, named_arrays, stored_index
from cawn.systems.base import Context
from cawn.systems.training import LinkBatch, Optimizer
from cawn.walks.history import History

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class PastIndex:
    """The index of the history of `events`. Times are measured in `unit`."""

    config: Any  # settings with `pair_parts` and `attributes`
    events: Events
    index: Index
    unit: float
    threads: int | None = None
    growing: GrowingIndex | None = None

    @classmethod
    def of(
        cls,
        config: Any,
        events: Events,
        alpha: tuple[float, ...],
        unit: float,
        *,
        threads: int | None = None,
        build_threads: int | None = None,
        grows: bool = False,
    ) -> Self:
        """Index the events with `build_threads` threads, with room if it `grows`; use it with `threads`."""
        parts, alphas, attributes = config.pair_parts, np.array(alpha), config.attributes
        kinds, decay = parts.live_kinds if grows else parts.kinds, parts.decay(unit)
        index = Index.of(events, alphas, kinds, decay, attributes=attributes, threads=build_threads, room=grows)
        growing = GrowingIndex(events, index, attributes=attributes, own=True) if grows else None
        return cls(config, events, index, unit, threads, growing)

    @property
    def history(self) -> History:
        """The history that walks are sampled from."""
        return History.of(self.index)

    def exact_features(self, src: Array, dst: Array, t: Array) -> npt.NDArray[np.float32]:
        """The exact features of pairs: [B, R]."""
        features = PairFeatures(self.config.pair_parts, self.index, self.unit)
        return features.features(src, dst, t, threads=self.threads)

    def extended(self, events: Events, kept: int) -> Self:
        """The index of other events, of which the first `kept` are those of this one; only for the newest index."""
        growing = growing_index(self.growing, self.events, self.index, attributes=self.config.attributes)
        return replace(self, events=events, index=growing.append(events, kept), growing=growing)


class IndexedSystem(ABC):
    """A system whose scorers use a `PastIndex`. A subclass sets `module`.

    The index can be stored and loaded, and the weights replaced while it is in use.
    """

    module: nn.Module
    past_type: ClassVar[type[PastIndex]] = PastIndex

    def __init__(self, context: Context) -> None:
        self.context, self.config = context, context.config
        decays = context.fact("alpha", lambda: self.config.decays(context.train.known.intensity))
        self.alpha = tuple(map(float, decays))
        self.unit = float(context.fact("unit", lambda: time_unit(context.train.known)))
        self._past: Any = None  # of the most recent events

    @abstractmethod
    def updates(self, epoch: int, first: int, optimizer: Optimizer) -> Iterator[Tensor]:
        """See `System`."""

    @abstractmethod
    def scorer(self, events: Events) -> IndexedScorer:
        """See `System`."""

    @staticmethod
    def index_facts(config: Any, train: Events) -> dict[str, Any]:
        """The facts that the index depends on, from the training links."""
        return {"alpha": config.decays(train.intensity), "unit": time_unit(train)}

    @property
    def threads(self) -> int | None:
        """Threads that use the index."""
        return self.context.threads

    def past(self, events: Events) -> Any:
        """The index of these events, in a `past_type`: stored with them, or built once."""
        if self._past is None or self._past.events is not events:
            parts, attributes = self.config.pair_parts, self.config.attributes
            index = stored_index(events, self.alpha, self.unit, parts, attributes=attributes)
            if index is None:
                grows, threads = self.context.grows, self.context.threads
                options: dict[str, Any] = {"build_threads": None if grows else threads, "grows": grows}
                known = self.config, events, self.alpha, self.unit
                self._past = self.past_type.of(*known, threads=self.threads, **options)
            else:
                self._past = self.past_type(self.config, events, index, self.unit, self.threads)
        return self._past

    def index(self, events: Events) -> dict[str, Array]:
        """The arrays of the index of these events; `scorer(events)` then uses the same index."""
        return named_arrays(self.past(events).index)

    def load_index(self, events: Events, arrays: dict[str, Array]) -> None:
        """Use stored arrays for `scorer(events)`; raises DataError if they do not match the events."""
        index = index_of(events, self.alpha, self.unit, self.config.pair_parts, arrays)
        self._past = self.past_type(self.config, events, index, self.unit, self.threads)

    def with_module(self, module: nn.Module) -> Self:
        """A copy with another network of the same shape; it shares the index."""
        other = copy(self)
        other.module = module
        return other


class IndexedScorer(ABC):
    """Scores pairs with the weights of a system on an index, which can be extended while others use it."""

    def __init__(self, system: Any, past: Any) -> None:
        self._system, self.past = system, past

    @abstractmethod
    def __call__(self, src: Array, dst: Array, t: Array) -> Array:
        """See `Scorer`."""

    @abstractmethod
    def training_logits(self, links: LinkBatch, *, seed: int = 0) -> Tensor:
        """Logits of B links, then of their K B negatives, with gradients: [(1 + K) B]."""

    @property
    def history(self) -> History:
        """Candidates are chosen from it."""
        history: History = self.past.history
        return history

    def pairs_within(self, byte_budget: int) -> int:
        """The number of pairs that can be scored at once in this many bytes; by default they are scored in pieces."""
        return sys.maxsize

    def extended(self, events: Events, kept: int) -> Self:
        """A scorer of other events, of which the first `kept` are those of this one; only for the newest scorer."""
        self._system._past = self.past.extended(events, kept)
        return type(self)(self._system, self._system._past)

    def with_module(self, module: nn.Module) -> Self:
        """Scores with another network of the same shape on the same history."""
        return type(self)(self._system.with_module(module), self.past)
