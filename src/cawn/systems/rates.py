"""A baseline without walks: a small MLP on exact decayed link counts of both ends and of the pair.

Trained in seconds on the same links and negatives as a model, it shows how much of the accuracy comes from counting.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from cawn.data.decays import ladder, time_unit
from cawn.data.events import Events
from cawn.systems.base import Context, symmetric
from cawn.systems.settings import Settings
from cawn.systems.training import Optimizer, contrast_loss
from cawn.walks.history import History
from cawn.walks.rates import Rates, pair_width, rates_width

Array = npt.NDArray[Any]

_PAIRS = 1 << 16  # per forward pass


@dataclass(frozen=True)
class RatesSettings(Settings):
    """Settings of the rates baseline."""

    batch_size: int = 256
    lr: float = 3e-3
    epochs: int = 6
    weight_decay: float = 0.0
    hidden: int = 64
    directed: bool = True  # also count links by direction; otherwise scores are symmetric

    RANGES: ClassVar[dict[str, tuple[float, float]]] = Settings.RANGES | {"hidden": (1, 4096)}
    MEMORY: ClassVar[tuple[str, ...]] = ("batch_size", "hidden")

    @property
    def symmetric(self) -> bool:
        return not self.directed

    @property
    def uses_direction(self) -> bool:
        return self.directed


class RatesSystem:
    """An MLP on `Rates.features`."""

    def __init__(self, context: Context) -> None:
        config: RatesSettings = context.config
        self.context, self.config = context, config
        self.alpha = tuple(context.fact("alpha", lambda: ladder(context.train.known.intensity)))
        self.unit = float(context.fact("unit", lambda: time_unit(context.train.known)))
        width, hidden = rates_width(len(self.alpha), directed=config.directed), config.hidden
        layers = [nn.Linear(width, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1)]
        self.module = nn.Sequential(*layers).to(context.device)
        self._rates: tuple[Events, Rates] | None = None  # of the most recent events

    def updates(self, epoch: int, first: int, optimizer: Optimizer) -> Iterator[Tensor]:
        scorer = self.scorer(self.context.events)
        for links in self.context.train.batches(epoch, first):
            src, t = np.tile(links.src, 2), np.tile(links.t, 2)
            self.module.train()
            logits = scorer.network(src, np.concatenate([links.dst, links.negative]), t)  # [2B]
            yield contrast_loss(logits, links.weight)

    def scorer(self, events: Events) -> RatesScorer:
        if self._rates is None or self._rates[0] is not events:
            history = History(events, self.alpha, threads=self.context.threads)
            self._rates = events, Rates(events, history, directed=self.config.directed)
        return RatesScorer(self, self._rates[1])


class RatesScorer:
    """Scores pairs by the rates of a history."""

    def __init__(self, system: RatesSystem, rates: Rates) -> None:
        self._system, self._rates = system, rates

    def network(self, src: Array, dst: Array, t: Array) -> Tensor:
        """Logits [B] of pairs."""
        system = self._system
        features = torch.from_numpy(self._rates.features(src, dst, t, system.unit, threads=system.context.threads))
        if system.config.symmetric:
            features = symmetric(features, pair_width(features.shape[1]))
        logits: Tensor = system.module(features.to(system.context.device)).squeeze(-1)
        return logits

    @torch.no_grad()
    def __call__(self, src: Array, dst: Array, t: Array) -> Array:
        self._system.module.eval()
        parts = [slice(i, i + _PAIRS) for i in range(0, len(src), _PAIRS)]
        found = [self.network(src[part], dst[part], t[part]).double().cpu().numpy() for part in parts]
        return np.concatenate(found) if found else np.empty(0)
