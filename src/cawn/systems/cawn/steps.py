"""The updates of one epoch: what they are made of, and how the CPU makes them.

Everything random in an update follows from (seed, epoch, step) alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import softplus

from cawn.data.events import NO_NEGATIVE, Events
from cawn.errors import DataError
from cawn.kernels.rng import bernoulli, order, seed_for
from cawn.learn.negatives import Choices, Nodes, Positions, partner_choices, random_choices
from cawn.learn.splits import Split
from cawn.systems.cawn.batches import Batch, Batcher, ahead
from cawn.systems.cawn.config import Config
from cawn.systems.cawn.model import CAWN

HARD_SHARE = 0.25  # of the negatives in training, where they are mixed
MAX_GRADIENT = 1.0
_RISE = 0.1  # the share of all steps over which the learning rate rises


@dataclass(frozen=True)
class TrainingLinks:
    """The links to train on, their weights and their negatives."""

    events: Events
    parts: Split
    config: Config
    seed: int

    def number(self, *what: object) -> int:
        """The seed for one purpose."""
        return seed_for(self.seed, *what)

    @cached_property
    def links(self) -> Positions:
        """Those of the training part whose weight is not 0: [n]."""
        train, weight = self.parts.train, self.events.weight
        links = train if weight is None else train[weight[train] > 0]
        if len(links) == 0:
            raise DataError("all links of the training part have weight 0: give some of them a weight above 0")
        return links

    @cached_property
    def weights(self) -> npt.NDArray[np.float32] | None:
        """How much the loss of each of `links` counts, 1 on average; None where all count the same: [n]."""
        if self.events.weight is None:
            return None
        weights = self.events.weight[self.links].astype(np.float64)
        return np.asarray(weights / weights.mean(), np.float32)

    @cached_property
    def random_choices(self) -> Choices:
        """What random negatives of `links` are drawn from, among what training may see."""
        return random_choices(self.events, self.links, self.parts.visible)

    @cached_property
    def historical_choices(self) -> Choices | None:
        """What historical negatives of `links` are drawn from; None where the config has no use for them."""
        if self.config.negatives != "mixed":
            return None
        train, visible = self.parts.train, self.parts.visible
        return partner_choices(self.events, self.links, "historical", seen=train, visible=visible)

    def own_negatives(self, links: Positions) -> Nodes:
        """The user's own negatives of `links`; NO_NEGATIVE where there is none, or it is a hidden node: [n]."""
        if self.events.negative is None:
            return np.full(len(links), NO_NEGATIVE, np.int32)
        own = self.events.negative[links]
        return np.where((own >= 0) & self.parts.hidden[own], np.int32(NO_NEGATIVE), own)

    def negatives(self, seed: int) -> Nodes:
        """A false destination for each of `links`, its own or else a drawn one: [n]."""
        false = self.random_choices.draw(seed)
        if self.historical_choices is not None:
            historical = self.historical_choices.draw(seed)
            chosen = bernoulli(seed, len(false), HARD_SHARE) & (historical >= 0)
            false = np.where(chosen, historical, false)
        own = self.own_negatives(self.links)
        return np.where(own == NO_NEGATIVE, false, own)

    def validation_negatives(self) -> Nodes:
        """A false destination for each validation link, its own or else a random one."""
        val = self.parts.val
        false, own = (
            random_choices(self.events, val, self.parts.visible).draw(self.number("val")),
            self.own_negatives(val),
        )
        return np.where(own == NO_NEGATIVE, false, own)


@dataclass(frozen=True)
class Plan(TrainingLinks):
    """Everything an update needs."""

    model: CAWN
    optimizer: torch.optim.Optimizer

    @property
    def steps_per_epoch(self) -> int:
        return math.ceil(len(self.links) / self.config.batch_size)

    def learning_rate(self, epoch: int, step: int) -> float:
        """Constant; or rising over the first tenth of all steps, then falling as a cosine."""
        if self.config.schedule == "constant":
            return self.config.lr
        done = (epoch * self.steps_per_epoch + step + 1) / (self.config.epochs * self.steps_per_epoch)
        if done < _RISE:
            return self.config.lr * (0.04 + 0.96 * done / _RISE)
        return self.config.lr * 0.5 * (1 + math.cos(math.pi * min((done - _RISE) / (1 - _RISE), 1.0)))

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


class Update(NamedTuple):
    """The pairs of one update, and how much the loss of each link counts, [B]; None where all count the same."""

    batch: Batch
    weights: npt.NDArray[np.float32] | None


class HostSteps:
    """Batches made by threads of the CPU, a few in advance."""

    def __init__(self, plan: Plan, batcher: Batcher) -> None:
        self.plan, self._batcher, self._loss = plan, batcher, 0.0

    def epoch(self, epoch: int, first: int) -> Iterator[None]:
        self._loss = 0.0
        for step, update in enumerate(ahead(self.tasks(epoch, first), 1), start=first):
            self._loss += self.update(update, epoch, step)
            yield

    def loss(self) -> float:
        return self._loss

    def tasks(self, epoch: int, first: int) -> list[Callable[[], Update]]:
        """The updates of an epoch from step `first` on, each a function that makes its batch."""
        plan, events, size = self.plan, self.plan.events, self.plan.config.batch_size
        seed = plan.number("epoch", epoch)
        false, weights = plan.negatives(seed), plan.weights
        shuffled = order(seed, len(plan.links))

        def task(some: Positions) -> Callable[[], Update]:
            links = plan.links[some]
            ends = (events.src[links], events.dst[links], false[some], events.t[links])
            return lambda: Update(self._batcher.contrast(*ends, seed=seed), None if weights is None else weights[some])

        return [task(shuffled[i : i + size]) for i in range(first * size, len(shuffled), size)]

    def update(self, update: Update, epoch: int, step: int) -> float:
        """One update; returns the loss."""
        plan, (batch, weights) = self.plan, update
        torch.manual_seed(plan.number("dropout", epoch, step))
        for group in plan.optimizer.param_groups:
            group["lr"] = plan.learning_rate(epoch, step)
        plan.model.train()
        each = losses(plan.model(batch))
        loss = (each if weights is None else each * torch.from_numpy(weights).to(each.device)).mean()
        plan.optimizer.zero_grad()
        plan.apply(loss)
        return float(loss.detach())


def losses(logits: Tensor) -> Tensor:
    """Binary cross-entropy of B true links and B false ones: [2B] to [B]."""
    true, false = logits.view(2, -1)
    return softplus(-true) + softplus(false)
