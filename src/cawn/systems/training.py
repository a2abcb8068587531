"""The parts of a training step: links with their negatives, the loss and the optimizer."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
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
from cawn.systems.choices import Choices
from cawn.systems.ranks import SINGLE, BatchRows, Bucket, Ranks
from cawn.systems.settings import Settings

Array = npt.NDArray[Any]
Nodes = npt.NDArray[np.int32]

HISTORICAL_SHARE = 0.25  # of the training negatives, unless they are "random"
RECENT_SHARE = 1 / 3  # of the remaining ones, which is a quarter of all, if they are hard
PAIR_SHARE = 0.25  # of all negatives, if they are "pairs"
MAX_GRADIENT = 1.0  # norm
_RISE = 0.1  # share of all steps over which the learning rate rises


class LinkBatch(NamedTuple):
    """The links of one optimizer step: [B] each except negatives, as arrays or as tensors on a device."""

    src: Any
    dst: Any
    negative: Any  # [K B] K negative destinations for each link: one for each, then another for each, and so on
    t: Any
    weight: Any  # of each link's loss, float32, 1 on average; None if all are equal
    position: Any  # of each link in `TrainingLinks.events`
    negative_src: Any = None  # [K B] the sources of the negatives; None if they are those of the links
    rows: BatchRows | None = None  # which part of the batch these are; None if they are all of it

    def map(self, function: Callable[[Any], Any]) -> LinkBatch:
        """The links with a function applied to each column."""
        columns = {name: value for name, value in self._asdict().items() if value is not None and name != "rows"}
        return self._replace(**{name: function(value) for name, value in columns.items()})


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
    recent: Choices | None = None  # for RECENT_SHARE of the rest
    pairs: Choices | None = None  # earlier links (positions), for PAIR_SHARE of the negatives
    num_negatives: int = 1  # K
    ranks: Ranks = SINGLE  # which train on parts of each batch

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

    def draw_seeds(self, epoch: int) -> list[int]:
        """The seed of each of the K draws of negatives: [K]."""
        more = (self.seed_for("epoch", epoch, "negatives", k) for k in range(1, self.num_negatives))
        return [self.seed_for("epoch", epoch), *more]

    def negatives(self, epoch: int, draw: int = 0) -> Nodes:
        """A negative destination for each link, user-given or drawn: [n]; `draw` is below `num_negatives`."""
        seed = self.draw_seeds(epoch)[draw]
        negatives = self.random.draw(seed)
        if self.recent is not None:
            recent, n = self.recent.draw(seed), len(negatives)
            other = (recent >= 0) & (recent != self._dst)
            negatives = np.where(rng.bernoulli(recent_seed(seed), n, RECENT_SHARE) & other, recent, negatives)
        if self.historical is not None:
            historical = self.historical.draw(seed)
            chosen = rng.bernoulli(seed, len(negatives), HISTORICAL_SHARE) & (historical >= 0)
            negatives = np.where(chosen, historical, negatives)
        return np.where(self.own_negatives == NO_NEGATIVE, negatives, self.own_negatives)

    def negative_pairs(self, epoch: int, draw: int = 0) -> tuple[Nodes, Nodes]:
        """The source and destination of a negative for each link: [n] each; see `negatives`."""
        events, dst = self.events, self.negatives(epoch, draw)
        src = events.src[self.positions]
        if self.pairs is None:
            return src, dst
        seed = self.draw_seeds(epoch)[draw]
        link = self.pairs.draw(seed)
        chosen = rng.bernoulli(pair_seed(seed), len(dst), PAIR_SHARE) & (link >= 0)
        chosen &= (self.own_negatives == NO_NEGATIVE) & ((events.src[link] != src) | (events.dst[link] != self._dst))
        return np.where(chosen, events.src[link], src), np.where(chosen, events.dst[link], dst)

    @property
    def _dst(self) -> Nodes:
        return np.asarray(self.events.dst[self.positions])

    def example_pairs(self, most: int = 20_000) -> tuple[Array, Array, Array]:
        """Evenly spaced links and a negative of each: sources, destinations and times, at most 2 * `most`."""
        n = len(self.positions)
        some = np.linspace(0, n - 1, min(n, most)).astype(np.int64)
        links, events = self.positions[some], self.events
        dst = np.concatenate([events.dst[links], self.negatives(0)[some]])
        return np.tile(events.src[links], 2), dst, np.tile(events.t[links], 2)

    def batches(self, epoch: int, first: int, *, shuffled: bool = True) -> Iterator[LinkBatch]:
        """This rank's links of each step of an epoch from step `first`, in time order unless they are `shuffled`.

        A rank without links in a small batch gets one, with weight 0.
        """
        events = self.events
        n, K = len(self.positions), self.num_negatives
        negatives, sources = np.empty((K, n), np.int32), None if self.pairs is None else np.empty((K, n), np.int32)
        for draw in range(K):
            if sources is None:
                negatives[draw] = self.negatives(epoch, draw)
            else:
                sources[draw], negatives[draw] = self.negative_pairs(epoch, draw)
        order = rng.order(self.seed_for("epoch", epoch), n) if shuffled else np.arange(n)
        for start in range(first * self.batch_size, n, self.batch_size):
            some = order[start : start + self.batch_size]
            rows = self._rows(len(some))
            if rows is not None:
                some = some[rows.part] if rows.size else some[:1]
            links = self.positions[some]
            weight = None if self.weights is None else self.weights[some]
            if rows is not None and rows.size == 0:
                weight, rows = np.zeros(1, np.float32), rows._replace(first=0, size=1)
            ends = events.src[links], events.dst[links], negatives[:, some].ravel()
            source = None if sources is None else sources[:, some].ravel()
            yield LinkBatch(*ends, events.t[links], weight, links, source, rows)

    def _rows(self, count: int) -> BatchRows | None:
        return self.ranks.rows(count) if self.ranks.several else None

    def tensors(self, epoch: int, first: int, device: torch.device, *, shuffled: bool = True) -> Iterator[LinkBatch]:
        """As `batches`, with int64 ids, as tensors that are copied to the device once per epoch."""
        n = len(self.positions)
        (links,) = replace(self, batch_size=n, ranks=SINGLE).batches(epoch, 0, shuffled=shuffled)
        columns = links.map(lambda column: _tensor(column).to(device))
        assert columns.negative_src is None  # only CAW-N and rates take negatives="pairs", and they use `batches`
        negative = columns.negative.view(self.num_negatives, -1)
        for start in range(first * self.batch_size, n, self.batch_size):
            part, rows = slice(start, min(start + self.batch_size, n)), self._rows(min(self.batch_size, n - start))
            if rows is not None:
                part = slice(start + rows.first, start + rows.first + rows.size)
            if rows is None or rows.size:
                yield _part(columns, negative, part, rows)
            else:
                some = _part(columns, negative, slice(start, start + 1), rows._replace(first=0, size=1))
                yield some._replace(weight=torch.zeros(1, device=device))


def _part(columns: LinkBatch, negative: Tensor, part: slice, rows: BatchRows | None) -> LinkBatch:
    """Some of the links, with their negatives [K, n]."""
    return columns.map(lambda column: column[part])._replace(negative=negative[:, part].flatten(), rows=rows)


def _tensor(column: Array) -> Tensor:
    return torch.from_numpy(column.astype(np.int64) if column.dtype == np.int32 else np.array(column))


def recent_seed(seed: int) -> int:
    """The seed that determines which negatives of a draw are recent destinations."""
    return rng.seed_for(seed, "recent")


def pair_seed(seed: int) -> int:
    """The seed that determines which negatives of a draw are earlier links."""
    return rng.seed_for(seed, "pairs")


def contrast_losses(logits: Tensor, num_negatives: int = 1) -> Tensor:
    """Binary cross-entropy of B links and their K B negatives, given as logits [(1 + K) B], links first: [B].

    The K negatives of a link weigh as much as the link.
    """
    logits = logits.view(1 + num_negatives, -1)
    positive, negative = logits[0], logits[1:]
    return softplus(-positive) + softplus(negative).mean(dim=0)


def contrast_loss(
    logits: Tensor,
    weight: Tensor | npt.NDArray[np.float32] | None = None,
    num_negatives: int = 1,
    rows: BatchRows | None = None,
) -> Tensor:
    """The mean of `contrast_losses`, each multiplied by its weight; see `mean_loss`."""
    return mean_loss(contrast_losses(logits, num_negatives), weight, rows)


def mean_loss(losses: Tensor, weight: Tensor | npt.NDArray[np.float32] | None, rows: BatchRows | None = None) -> Tensor:
    """The mean of losses, each multiplied by its weight; of some rows of a batch, their part of the batch's mean."""
    losses = losses if weight is None else losses * torch.as_tensor(weight).to(losses)
    return losses.mean() if rows is None else losses.sum() / rows.whole


def seed_step(device: torch.device, seed: int) -> None:
    """Seed the generator of one device, which is faster than seeding all."""
    if device.type == "cuda":
        index = torch.cuda.current_device() if device.index is None else device.index
        torch.cuda.default_generators[index].manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


class Optimizer:
    """AdamW with gradient clipping and a learning-rate schedule."""

    def __init__(self, module: nn.Module, config: Settings, steps_per_epoch: int, ranks: Ranks = SINGLE) -> None:
        settings: dict[str, Any] = {"lr": config.lr, "weight_decay": config.weight_decay}
        parameters = list(module.parameters())
        if parameters and parameters[0].device.type == "cuda":  # one fused kernel, with the learning rate on the GPU
            settings |= {"lr": torch.tensor(config.lr, device=parameters[0].device), "fused": True, "capturable": True}
        self.adam = torch.optim.AdamW([{"params": parameters}], **settings)  # a system may have none
        self.parameters, self.config, self.steps_per_epoch = parameters, config, steps_per_epoch
        self.bucket = Bucket(parameters, ranks) if parameters and ranks.group is not None else None

    def learning_rate(self, epoch: int, step: int) -> float:
        """Constant; or rising over the first tenth of all steps, then cosine decay to 0 at the last."""
        total = self.config.epochs * self.steps_per_epoch
        if self.config.schedule == "constant" or total == 1:
            return self.config.lr
        done = (epoch * self.steps_per_epoch + step + 1) / total
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
        """One step: backward, add the gradients of all ranks, clip, update the weights."""
        self.backward(loss)
        if self.bucket is not None:
            self.bucket.reduce()
        self.update()

    def backward(self, loss: Tensor) -> None:
        """The first part of `minimise`: the gradients of this rank, in the bucket if there is one."""
        self.adam.zero_grad()
        torch.autograd.backward(loss)
        if self.bucket is not None:
            self.bucket.collect(loss)

    def update(self) -> None:
        """The last part of `minimise`: clip, and update the weights."""
        torch.nn.utils.clip_grad_norm_(self.parameters, MAX_GRADIENT)
        self.adam.step()

    def whole_loss(self, loss: Tensor) -> Tensor:
        """The loss of the whole batch, after `minimise`, given this rank's part of it."""
        return loss.detach() if self.bucket is None else self.bucket.loss.clone()
