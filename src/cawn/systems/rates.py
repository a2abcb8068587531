"""A baseline without walks: a small MLP on the exact features of pairs (`PairFeatures`).

Trained in seconds on the same links and negatives as a model, it shows how much of the accuracy comes from counting.
The preset "fast" uses decayed counts only, and scores half a million to a million pairs per second and core.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from cawn.data.decays import ladder, time_unit
from cawn.data.events import Events
from cawn.index.features import NO_SEQUENCES, PairFeatures, PairParts
from cawn.index.growing import GrowingIndex, growing_index
from cawn.index.index import Index
from cawn.index.stored import index_of, named_arrays, stored_index
from cawn.systems.base import Context, symmetric_features
from cawn.systems.layers import Standardise
from cawn.systems.settings import Settings, setting
from cawn.systems.training import LinkBatch, Optimizer, contrast_loss
from cawn.walks.history import History

Array = npt.NDArray[Any]

_PAIRS = 1 << 13  # per forward pass: their features and hidden layers stay in cache


@dataclass(frozen=True)
class RatesSettings(Settings):
    """Settings of the rates baseline."""

    batch_size: int = 256
    lr: float = 3e-3
    epochs: int = 6
    weight_decay: float = 0.0
    hidden: int = setting(64, "width of the two hidden layers", 1, 4096)
    num_negatives: int = setting(1, "K, per training link", 1, 1000)
    since: bool = setting(True, "the number of links of each end since the last link of the pair")
    two_steps: bool = setting(True, "how often the recent partners of each end have linked to the other end")
    transitions: bool = setting(True, "how often nodes link to one end soon after a recent partner of the other")
    scaled: bool = setting(True, "scale all features to mean 0 and deviation 1 over the training pairs")
    directed: bool = setting(True, "also count links by direction; otherwise scores are symmetric")

    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {"default": {}, "fast": NO_SEQUENCES}
    MEMORY: ClassVar[tuple[str, ...]] = ("batch_size", "hidden")
    SEARCHED: ClassVar[dict[str, Any]] = Settings.SEARCHED | {
        "lr": {"low": 3e-4, "high": 3e-2, "log": True},
        "batch_size": [128, 256, 512],
        "hidden": [32, 64, 128, 256],
        "num_negatives": [1, 2, 4],
    }

    @property
    def pair_parts(self) -> PairParts:
        """The features that are used."""
        return PairParts(True, self.directed, self.since, self.two_steps, self.transitions)

    @property
    def symmetric(self) -> bool:
        return not self.directed

    @property
    def uses_direction(self) -> bool:
        return self.directed


class RatesSystem:
    """An MLP on `PairFeatures`."""

    same_dropout = True  # see `Divisible`; there is none

    def __init__(self, context: Context) -> None:
        config: RatesSettings = context.config
        self.context, self.config = context, config
        self.alpha = tuple(context.fact("alpha", lambda: ladder(context.train.known.intensity)))
        self.unit = float(context.fact("unit", lambda: time_unit(context.train.known)))
        width, hidden = config.pair_parts.width(len(self.alpha)), config.hidden
        layers = [nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1)]
        standardise = Standardise(width)
        self.module = nn.Sequential(*[standardise] * config.scaled, *layers).to(context.device)
        self._index: tuple[Events, Index, GrowingIndex | None] | None = None  # of the most recent events
        if context.training is not None and config.scaled:
            standardise.fit(self.scorer(context.events).inputs(*context.train.example_pairs()))

    @staticmethod
    def index_facts(config: RatesSettings, train: Events) -> dict[str, Any]:
        """See `Indexed`."""
        return {"alpha": ladder(train.intensity), "unit": time_unit(train)}

    def updates(self, epoch: int, first: int, optimizer: Optimizer) -> Iterator[Tensor]:
        scorer, training = self.scorer(self.context.events), self.context.train
        for links in training.batches(epoch, first):
            self.module.train()
            yield contrast_loss(scorer.training_logits(links), links.weight, training.num_negatives, links.rows)

    def with_module(self, module: nn.Module) -> RatesSystem:
        """See `Replaceable`."""
        other = copy(self)
        other.module = cast("nn.Sequential", module)
        return other

    def scorer(self, events: Events) -> RatesScorer:
        if self._index is None or self._index[0] is not events:
            parts, attributes, threads = self.config.pair_parts, self.config.attributes, self.context.threads
            index, growing = stored_index(events, self.alpha, self.unit, parts, attributes=attributes), None
            if index is None:
                grows, decay = self.context.grows, parts.decay(self.unit)
                kinds, alphas = parts.live_kinds if grows else parts.kinds, np.array(self.alpha)
                index = Index.of(events, alphas, kinds, decay, attributes=attributes, threads=threads, room=grows)
                growing = GrowingIndex(events, index, attributes=attributes, own=True) if grows else None
            self._index = events, index, growing
        return RatesScorer(self, *self._index)

    def index(self, events: Events) -> dict[str, Array]:
        """See `Indexed`."""
        return named_arrays(self.scorer(events).index)

    def load_index(self, events: Events, arrays: dict[str, Array]) -> None:
        """See `Indexed`."""
        self._index = events, index_of(events, self.alpha, self.unit, self.config.pair_parts, arrays), None


class RatesScorer:
    """Scores pairs by their exact features on a history."""

    def __init__(self, system: RatesSystem, events: Events, index: Index, growing: GrowingIndex | None = None) -> None:
        self._system, self._events, self.index, self._growing = system, events, index, growing
        self._features = PairFeatures(system.config.pair_parts, index, system.unit)

    @property
    def history(self) -> History:
        return History.of(self.index)

    def extended(self, events: Events, kept: int) -> RatesScorer:
        """See `Growing`."""
        growing = growing_index(self._growing, self._events, self.index, attributes=self._system.config.attributes)
        index = growing.append(events, kept)
        self._system._index = events, index, growing
        return RatesScorer(self._system, events, index, growing)

    def inputs(self, src: Array, dst: Array, t: Array) -> Tensor:
        """The features of pairs: [B, R]."""
        system = self._system
        features = torch.from_numpy(self._features.features(src, dst, t, threads=system.context.threads))
        if system.config.symmetric:
            features = symmetric_features(features, system.config.pair_parts, len(system.alpha))
        return features

    def network(self, src: Array, dst: Array, t: Array) -> Tensor:
        """Logits [B] of pairs."""
        device = self._system.context.device
        logits: Tensor = self._system.module(self.inputs(src, dst, t).to(device)).squeeze(-1)
        return logits

    def training_logits(self, links: LinkBatch, *, seed: int = 0) -> Tensor:
        """See `Trainable`; nothing is random."""
        K = len(links.negative) // len(links.src)
        sources = np.tile(links.src, K) if links.negative_src is None else links.negative_src
        src, dst = np.concatenate([links.src, sources]), np.concatenate([links.dst, links.negative])
        return self.network(src, dst, np.tile(links.t, 1 + K))

    def with_module(self, module: nn.Module) -> RatesScorer:
        """See `Trainable`."""
        return RatesScorer(self._system.with_module(module), self._events, self.index)

    @torch.no_grad()
    def __call__(self, src: Array, dst: Array, t: Array) -> Array:
        self._system.module.eval()
        parts = [slice(i, i + _PAIRS) for i in range(0, len(src), _PAIRS)]
        found = [self.network(src[part], dst[part], t[part]).double().cpu().numpy() for part in parts]
        return np.concatenate(found) if found else np.empty(0)
