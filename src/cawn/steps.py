"""The updates of one epoch: what they are made of, and how the CPU makes them.

Everything random in an update follows from (seed, epoch, step) alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from cawn import shuffle
from cawn.batches import Batch, Batcher, ahead
from cawn.config import Config
from cawn.events import Events
from cawn.model import CAWN
from cawn.negatives import Choices, partner_choices, random_choices
from cawn.seeds import seed_for
from cawn.splits import Split

HARD_SHARE = 0.25  # of the negatives in training, where they are mixed
MAX_GRADIENT = 1.0
_RISE = 0.1  # the share of all steps over which the learning rate rises


@dataclass(frozen=True, slots=True)
class Plan:
    """What is trained, on what."""

    events: Events
    parts: Split
    config: Config
    seed: int
    model: CAWN
    optimizer: torch.optim.Optimizer

    @property
    def steps_per_epoch(self) -> int:
        return math.ceil(len(self.parts.train) / self.config.batch_size)

    def number(self, *what: object) -> int:
        """The seed for one purpose."""
        return seed_for(self.seed, *what)

    def learning_rate(self, epoch: int, step: int) -> float:
        """Constant; or rising over the first tenth of all steps, then falling as a cosine."""
        if self.config.schedule == "constant":
            return self.config.lr
        done = (epoch * self.steps_per_epoch + step + 1) / (self.config.epochs * self.steps_per_epoch)
        if done < _RISE:
            return self.config.lr * (0.04 + 0.96 * done / _RISE)
        return self.config.lr * 0.5 * (1 + math.cos(math.pi * min((done - _RISE) / (1 - _RISE), 1.0)))

    def random_choices(self, links: Any) -> Choices:
        """What random negatives of `links` are drawn from, among what training may see."""
        return random_choices(self.events, links, self.parts.visible)

    def historical_choices(self) -> Choices | None:
        """What historical negatives of the training links are drawn from; None where the config has no use for them."""
        if self.config.negatives != "mixed":
            return None
        train, visible = self.parts.train, self.parts.visible
        return partner_choices(self.events, train, "historical", seen=train, visible=visible)

    def apply(self, loss: Tensor) -> None:
        """One update of the weights. The gradients were cleared before."""
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), MAX_GRADIENT)
        self.optimizer.step()


class Steps(Protocol):
    """Makes the updates of an epoch."""

    def epoch(self, epoch: int, first: int) -> Iterator[None]:
        """From update `first` on; one has been made for each item."""

    def loss(self) -> float:
        """The sum of the losses of the updates since `epoch` was called."""


class HostSteps:
    """Batches made by threads of the CPU, a few in advance."""

    def __init__(self, plan: Plan, batcher: Batcher) -> None:
        self.plan, self._batcher, self._loss = plan, batcher, 0.0
        self._random, self._historical = plan.random_choices(plan.parts.train), plan.historical_choices()

    def epoch(self, epoch: int, first: int) -> Iterator[None]:
        self._loss = 0.0
        for step, batch in enumerate(ahead(self.tasks(epoch, first), 1), start=first):
            self._loss += self.update(batch, epoch, step)
            yield

    def loss(self) -> float:
        return self._loss

    def tasks(self, epoch: int, first: int) -> list[Callable[[], Batch]]:
        """The batches of an epoch from step `first` on, each a function that makes it."""
        plan, config, events, train = self.plan, self.plan.config, self.plan.events, self.plan.parts.train
        seed = plan.number("epoch", epoch)
        false = np.zeros(len(events), np.int32)
        false[train] = self._negatives(seed)
        order = train[shuffle.order(seed, len(train))]

        def task(links: Any) -> Callable[[], Batch]:
            ends = (events.src[links], events.dst[links], false[links], events.t[links])
            return lambda: self._batcher.contrast(*ends, seed=seed)

        size = config.batch_size
        return [task(order[i : i + size]) for i in range(first * size, len(order), size)]

    def _negatives(self, seed: int) -> Any:
        """A false destination for each training link."""
        random = self._random.draw(seed)
        if self._historical is None:
            return random
        historical = self._historical.draw(seed)
        chosen = shuffle.coins(seed, len(random), HARD_SHARE) & (historical >= 0)
        return np.where(chosen, historical, random)

    def update(self, batch: Batch, epoch: int, step: int) -> float:
        """One update; returns the loss."""
        plan = self.plan
        torch.manual_seed(plan.number("dropout", epoch, step))
        for group in plan.optimizer.param_groups:
            group["lr"] = plan.learning_rate(epoch, step)
        plan.model.train()
        loss = losses(plan.model(batch)).mean()
        plan.optimizer.zero_grad()
        plan.apply(loss)
        return float(loss.detach())


def losses(logits: Tensor) -> Tensor:
    """Binary cross-entropy of B true links and B false ones: [2B] to [B]."""
    true, false = logits.view(2, -1)
    return softplus(-true) + softplus(false)
