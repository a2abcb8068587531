"""A baseline without walks: a small MLP on the exact features of pairs (`PairFeatures`).

Trained in seconds on the same links and negatives as a model, it shows how much of the accuracy comes from counting.
The preset "fast" uses decayed counts only, and scores half a million to a million pairs per second and core.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from cawn.data.decays import ladder
from cawn.data.events import Events
from cawn.index.features import NO_SEQUENCES, PairParts
from cawn.systems.base import Context, symmetric_features
from cawn.systems.indexed import IndexedScorer, IndexedSystem
from cawn.systems.layers import Standardise
from cawn.systems.settings import Settings, setting
from cawn.systems.training import LinkBatch, Optimizer, contrast_loss

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

    def decays(self, tau: float) -> tuple[float, ...]:
        """The decays of counts, for links of intensity tau."""
        return ladder(tau)

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


class RatesSystem(IndexedSystem):
    """An MLP on `PairFeatures`."""

    same_dropout = True  # there is none

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        config: RatesSettings = self.config
        width, hidden = config.pair_parts.width(len(self.alpha)), config.hidden
        layers = [nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1)]
        standardise = Standardise(width)
        self.module = nn.Sequential(*[standardise] * config.scaled, *layers).to(context.device)
        if context.training is not None and config.scaled:
            standardise.fit(self.scorer(context.events).inputs(*context.train.example_pairs()))

    def updates(self, epoch: int, first: int, optimizer: Optimizer) -> Iterator[Tensor]:
        scorer, training = self.scorer(self.context.events), self.context.train
        for links in training.batches(epoch, first):
            self.module.train()
            yield contrast_loss(scorer.training_logits(links), links.weight, training.num_negatives, links.rows)

    def scorer(self, events: Events) -> RatesScorer:
        return RatesScorer(self, self.past(events))


class RatesScorer(IndexedScorer):
    """Scores pairs by their exact features on a history."""

    def inputs(self, src: Array, dst: Array, t: Array) -> Tensor:
        """The features of pairs: [B, R]."""
        config, features = self.past.config, torch.from_numpy(self.past.exact_features(src, dst, t))
        if config.symmetric:
            features = symmetric_features(features, config.pair_parts, len(self._system.alpha))
        return features

    def network(self, src: Array, dst: Array, t: Array) -> Tensor:
        """Logits [B] of pairs."""
        device = self._system.context.device
        logits: Tensor = self._system.module(self.inputs(src, dst, t).to(device)).squeeze(-1)
        return logits

    def training_logits(self, links: LinkBatch, *, seed: int = 0) -> Tensor:
        K = len(links.negative) // len(links.src)
        sources = np.tile(links.src, K) if links.negative_src is None else links.negative_src
        src, dst = np.concatenate([links.src, sources]), np.concatenate([links.dst, links.negative])
        return self.network(src, dst, np.tile(links.t, 1 + K))

    @torch.no_grad()
    def __call__(self, src: Array, dst: Array, t: Array) -> Array:
        self._system.module.eval()
        parts = [slice(i, i + _PAIRS) for i in range(0, len(src), _PAIRS)]
        found = [self.network(src[part], dst[part], t[part]).double().cpu().numpy() for part in parts]
        return np.concatenate(found) if found else np.empty(0)
