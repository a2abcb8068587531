"""The parts of a training step: links with their negatives, the loss and the optimizer."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from cawn.data.events import NO_NEGATIVE, Events
from cawn.kernels import rng
from cawn.kernels.cpu.negatives import Choices
from cawn.systems.settings import Settings

Array = npt.NDArray[Any]
Nodes = npt.NDArray[np.int32]

HISTORICAL_SHARE = 0.25  # of the training negatives, if they are mixed
MAX_GRADIENT = 1.0  # norm
_RISE = 0.1  # share of all steps over which the learning rate rises


class Links(NamedTuple):
    """The links of one optimizer step: [B] each, as arrays or as tensors on a device."""

    src: Any
    dst: Any
    negative: Any  # a negative destination for each link
    t: Any
    weight: Any  # of each link's loss, float32, 1 on average; None if all are equal
    position: Any  # of each link in `TrainingLinks.events`


@dataclass(frozen=True)
class TrainingLinks:
    """The links to train on, and what their negatives are drawn from."""

    events: Events
    part: npt.NDArray[np.int64]  # all links of the training period, as positions in `events`
    positions: npt.NDArray[np.int64]  # [n] the links to train on: those in `part` with a weight above 0
    own_negatives: Nodes  # [n] given by the user; NO_NEGATIVE to draw one
    random: Choices
    historical: Choices | None  # for HISTORICAL_SHARE of the negatives; None if all are random
    batch_size: int
    seed: int

    def seed_for(self, *purpose: object) -> int:
        """A seed for one purpose, derived from the run's seed."""
        return rng.seed_for(self.seed, *purpose)

    @cached_property
    def known(self) -> Events:
        """All links of the training period."""
        return self.events[self.part]

    @property
    def steps_per_epoch(self) -> int:
        return math.ceil(len(self.positions) / self.batch_size)

    @cached_property
    def weights(self) -> npt.NDArray[np.float32] | None:
        """The weight of each link's loss, 1 on average; None if all are equal: [n]."""
        if self.events.weight is None:
            return None
        weights = self.events.weight[self.positions].astype(np.float64)
        return np.asarray(weights / weights.mean(), np.float32)

    def negatives(self, epoch: int) -> Nodes:
        """A negative destination for each link, user-given or drawn: [n]."""
        seed = self.seed_for("epoch", epoch)
        negatives = self.random.draw(seed)
        if self.historical is not None:
            historical = self.historical.draw(seed)
            chosen = rng.bernoulli(seed, len(negatives), HISTORICAL_SHARE) & (historical >= 0)
            negatives = np.where(chosen, historical, negatives)
        return np.where(self.own_negatives == NO_NEGATIVE, negatives, self.own_negatives)

    def example_pairs(self, most: int = 20_000) -> tuple[Array, Array, Array]:
        """Evenly spaced links and a negative of each: sources, destinations and times, at most 2 * `most`."""
        n = len(self.positions)
        some = np.linspace(0, n - 1, min(n, most)).astype(np.int64)
        links, events = self.positions[some], self.events
        dst = np.concatenate([events.dst[links], self.negatives(0)[some]])
        return np.tile(events.src[links], 2), dst, np.tile(events.t[links], 2)

    def batches(self, epoch: int, first: int, *, shuffled: bool = True) -> Iterator[Links]:
        """The links of each step of an epoch from step `first`, in time order unless they are `shuffled`."""
        negatives, events = self.negatives(epoch), self.events
        n = len(self.positions)
        order = rng.order(self.seed_for("epoch", epoch), n) if shuffled else np.arange(n)
        for start in range(first * self.batch_size, n, self.batch_size):
            some = order[start : start + self.batch_size]
            links = self.positions[some]
            weight = None if self.weights is None else self.weights[some]
            yield Links(events.src[links], events.dst[links], negatives[some], events.t[links], weight, links)

    def tensors(self, epoch: int, first: int, device: torch.device, *, shuffled: bool = True) -> Iterator[Links]:
        """As `batches`, with int64 ids, as tensors that are copied to the device once per epoch."""
        whole = replace(self, batch_size=len(self.positions))
        (links,) = whole.batches(epoch, 0, shuffled=shuffled)
        columns = [None if column is None else _tensor(column).to(device) for column in links]
        for start in range(first * self.batch_size, len(self.positions), self.batch_size):
            part = slice(start, start + self.batch_size)
            yield Links(*(None if column is None else column[part] for column in columns))


def _tensor(column: Array) -> Tensor:
    return torch.from_numpy(column.astype(np.int64) if column.dtype == np.int32 else np.array(column))


def contrast_losses(logits: Tensor) -> Tensor:
    """Binary cross-entropy of B links and their B negatives, given as logits [2B], links first: [B]."""
    positive, negative = logits.view(2, -1)
    return softplus(-positive) + softplus(negative)


def contrast_loss(logits: Tensor, weight: Tensor | npt.NDArray[np.float32] | None = None) -> Tensor:
    """The mean of `contrast_losses`, each multiplied by its weight."""
    losses = contrast_losses(logits)
    return (losses if weight is None else losses * torch.as_tensor(weight).to(losses)).mean()


def seed_step(device: torch.device, seed: int) -> None:
    """Seed the generator of one device, which is faster than seeding all."""
    if device.type == "cuda":
        index = torch.cuda.current_device() if device.index is None else device.index
        torch.cuda.default_generators[index].manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


class Optimizer:
    """AdamW with gradient clipping and a learning-rate schedule."""

    def __init__(self, module: nn.Module, config: Settings, steps_per_epoch: int) -> None:
        settings: dict[str, Any] = {"lr": config.lr, "weight_decay": config.weight_decay}
        parameters = list(module.parameters())
        if parameters and parameters[0].device.type == "cuda":  # one fused kernel, with the learning rate on the GPU
            settings |= {"lr": torch.tensor(config.lr, device=parameters[0].device), "fused": True, "capturable": True}
        self.adam = torch.optim.AdamW([{"params": parameters}], **settings)  # a system may have none
        self.parameters, self.config, self.steps_per_epoch = parameters, config, steps_per_epoch

    def learning_rate(self, epoch: int, step: int) -> float:
        """Constant; or rising over the first tenth of all steps, then cosine decay."""
        if self.config.schedule == "constant":
            return self.config.lr
        done = (epoch * self.steps_per_epoch + step + 1) / (self.config.epochs * self.steps_per_epoch)
        if done < _RISE:
            return self.config.lr * (0.04 + 0.96 * done / _RISE)
        return self.config.lr * 0.5 * (1 + math.cos(math.pi * min((done - _RISE) / (1 - _RISE), 1.0)))

    def set_learning_rate(self, rate: float | Tensor) -> None:
        """Use this rate from the next step on; a tensor is copied without waiting for its device."""
        for group in self.adam.param_groups:
            if isinstance(group["lr"], Tensor):
                group["lr"].copy_(rate) if isinstance(rate, Tensor) else group["lr"].fill_(rate)
            else:
                group["lr"] = float(rate)

    def minimise(self, loss: Tensor) -> None:
        """One step: backward, clip, update the weights."""
        self.adam.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(self.parameters, MAX_GRADIENT)
        self.adam.step()
