"""A complete system in one file: logistic regression on how long ago a pair and a destination last linked."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

import cawn
from cawn.systems import Entry, register
from cawn.systems.base import Context
from cawn.systems.baselines import Past
from cawn.systems.settings import Settings
from cawn.systems.training import Optimizer, contrast_loss


@dataclass(frozen=True)
class RecencySettings(Settings):
    """Nothing beside what every system has, with defaults that suit three weights."""

    lr: float = 0.05
    epochs: int = 3
    weight_decay: float = 0.0


class RecencyRegression:
    """P(link) = sigmoid(w · (recency, pair has linked, popularity) + b)."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.scale = context.fact("scale", lambda: float(np.log1p(len(context.train.known))))
        self.module = nn.Linear(3, 1).to(context.device)

    def updates(self, epoch: int, first: int, optimizer: Optimizer) -> Iterator[Tensor]:
        scorer = self.scorer(self.context.events)
        for links in self.context.train.batches(epoch, first):
            destinations = np.concatenate([links.dst, links.negative])
            logits = scorer.logits_tensor(np.tile(links.src, 2), destinations, np.tile(links.t, 2))
            yield contrast_loss(logits, links.weight)

    def scorer(self, events: cawn.Events) -> "RecencyScorer":
        return RecencyScorer(self, Past(events))


class RecencyScorer:
    def __init__(self, system: RecencyRegression, past: Past) -> None:
        self.system, self.past = system, past

    def logits_tensor(self, src: np.ndarray, dst: np.ndarray, t: np.ndarray) -> Tensor:
        popularity = self.past.popularity(src, dst, t) / self.system.scale
        columns = self.past.recency(src, dst, t), self.past.edgebank(src, dst, t), popularity
        features = torch.from_numpy(np.stack(columns, axis=1).astype(np.float32))  # [B, 3]
        return self.system.module(features.to(self.system.context.device)).squeeze(-1)

    @torch.no_grad()
    def __call__(self, src: np.ndarray, dst: np.ndarray, t: np.ndarray) -> np.ndarray:
        return self.logits_tensor(src, dst, t).double().cpu().numpy()


HERE = "systems.recency_regression"
register("recency regression", Entry(f"{HERE}:RecencyRegression", f"{HERE}:RecencySettings", "for tests"))
