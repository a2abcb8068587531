"""Base classes of systems that score a pair with a network on its past links."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from cawn.data.decays import time_unit
from cawn.data.events import Events
from cawn.index.neighbours import Neighbours, PastLinks
from cawn.kernels.cuda.launch import Pieces
from cawn.systems.base import Context
from cawn.systems.graphs import CapturedEpochs
from cawn.systems.training import LinkBatch, Optimizer, contrast_loss

Array = npt.NDArray[Any]


class NeuralSystem(ABC):
    """The base of systems with a network: the unit of time, the widths of attributes, and an index of past links.

    Gaps are measured in units of `unit`, a millionth of the training period, so that results do not depend on the unit
    of time of the data.
    """

    module: nn.Module

    def __init__(self, context: Context) -> None:
        self.context, self.config, self.device = context, context.config, context.device
        self.unit = float(context.fact("unit", lambda: time_unit(context.train.known)))
        events, used = context.events, context.config.attributes
        self.link_width = 0 if events.msg is None or not used else events.msg.shape[1]
        self.node_width = 0 if events.x is None or not used else events.x.shape[1]
        self._past: tuple[Events, Any] | None = None  # of the most recent events

    def past(self, events: Events) -> Any:
        """The index of a history, built once; `PastTensors` by default."""
        return PastTensors(events, self)

    def _past_of(self, events: Events) -> Any:
        if self._past is None or self._past[0] is not events:
            self._past = events, self.past(events)
        return self._past[1]


class NeighbourSystem(NeuralSystem):
    """A system whose logits depend only on its weights and on the links before each query.

    A subclass sets `module` and defines `logits`; training shuffles the links.
    """

    same_dropout = False  # see `System`
    pairs_per_pass = 1 << 12  # in scoring
    fixed_shapes = True  # whether a training step has the same shapes, and nothing random but dropout, in every batch
    _epochs: CapturedEpochs | None = None

    @abstractmethod
    def logits(self, past: Any, src: Tensor, dst: Tensor, t: Tensor, visible: Tensor) -> Tensor:
        """Logits [B] of pairs at t, given the first `visible` [B] links."""

    def gaps(self, t: Tensor, links: PastLinks) -> Tensor:
        """The time from each past link [B, k] to t [B], in units; 0 where there is no link: [B, k], float64."""
        return torch.where(links.mask, (t[:, None] - links.t).double() / self.unit, 0.0)

    def training_logits(self, past: Any, links: LinkBatch) -> Tensor:
        """Logits of B links, then of their negatives: [2B]."""
        src, t = links.src.repeat(2), links.t.repeat(2)
        return self.logits(past, src, torch.cat([links.dst, links.negative]), t, past.before(t))

    def updates(self, epoch: int, first: int, optimizer: Optimizer) -> Iterator[Tensor]:
        past = self._past_of(self.context.events)

        def loss(links: LinkBatch) -> Tensor:
            return contrast_loss(self.training_logits(past, links), links.weight, rows=links.rows)

        if self.device.type == "cuda" and self.fixed_shapes:
            if self._epochs is None or self._epochs.optimizer is not optimizer:
                self._epochs = CapturedEpochs(loss, self.module, optimizer, self.device)
            yield from self._epochs(self.context.train, epoch, first)
        else:
            yield from map(loss, self.context.train.tensors(epoch, first, self.device))

    def scorer(self, events: Events) -> NeighbourScorer:
        return NeighbourScorer(self, self._past_of(events))


class NodeEmbeddingSystem(NeighbourSystem):
    """A system that embeds both nodes of a pair separately. A node that several pairs share is embedded once.

    A subclass sets `module` and defines `embed` and `score`.
    """

    @abstractmethod
    def embed(self, past: Any, nodes: Tensor, t: Tensor, visible: Tensor) -> Tensor:
        """Embeddings of nodes at t, given the first `visible` links: [N] each -> [N, width]."""

    @abstractmethod
    def score(self, source: Tensor, destination: Tensor) -> Tensor:
        """Logits of pairs from the embeddings of their nodes: [B, width] each -> [B]."""

    def training_logits(self, past: Any, links: LinkBatch) -> Tensor:
        t = links.t.repeat(3)
        ends = self.embed(past, torch.cat([links.src, links.dst, links.negative]), t, past.before(t))
        source, *destinations = ends.chunk(3)  # [B, width] each
        return self.score(source.repeat(2, 1), torch.cat(destinations))

    def logits(self, past: Any, src: Tensor, dst: Tensor, t: Tensor, visible: Tensor) -> Tensor:
        nodes, t, visible = torch.cat([src, dst]), t.repeat(2), visible.repeat(2)
        some, place = distinct(nodes, t, visible)
        source, destination = self.embed(past, nodes[some], t[some], visible[some])[place].chunk(2)
        return self.score(source, destination)


def distinct(*columns: Tensor) -> tuple[Tensor, Tensor]:
    """The distinct rows of these columns [B]: the position of one of each, and for each row its distinct row [B]."""
    kind = torch.zeros_like(columns[0], dtype=torch.int64)
    for column in columns:
        _, value = torch.unique(column, return_inverse=True)
        _, kind = torch.unique(kind * len(value) + value, return_inverse=True)
    count = int(kind.max()) + 1 if len(kind) else 0
    rows = torch.arange(len(kind), device=kind.device)
    return rows.new_zeros(count).scatter_reduce(0, kind, rows, "amin", include_self=False), kind


class PastTensors(Neighbours):
    """`Neighbours` with the attributes of links and nodes on the device."""

    def __init__(self, events: Events, system: NeuralSystem) -> None:
        super().__init__(events, system.device)
        self.msg = None if system.link_width == 0 else padded(self.events.msg, system.device)
        self.x = None if system.node_width == 0 else padded(self.events.x, system.device)
        self._sums: Tensor | None = None  # of node attributes along the lists of links

    def attributes(self, events: Tensor) -> Tensor | None:
        """Attributes of links by position, zeros for -1: [..., link]."""
        return None if self.msg is None else self.msg[events]

    def mean_features(self, nodes: Tensor, visible: Tensor, k: int) -> Tensor | None:
        """Attributes of neighbours, averaged over the last k visible links of each node; zeros without any: [B, d].

        Computed as differences of prefix sums, which are built on first use.
        """
        if self.x is None:
            return None
        if self._sums is None:
            sums = self.x[self._nodes].double().cumsum(dim=0)  # [2E, d]
            self._sums = torch.cat([torch.zeros_like(sums[:1]), sums])
        first, end = self._range(nodes, visible)
        first = torch.maximum(first, end - k)
        mean = (self._sums[end] - self._sums[first]) / (end - first).clamp(min=1)[:, None]
        return mean.float()

    def features(self, nodes: Tensor) -> Tensor | None:
        """Attributes of nodes by id, zeros for -1 and unknown ids: [..., node]."""
        return None if self.x is None else self.x[torch.where(nodes < self.num_nodes, nodes, -1)]


class NeighbourScorer:
    """Scores pairs with the current weights of a system."""

    def __init__(self, system: NeighbourSystem, past: Any) -> None:
        self._system, self._past, self._pieces = system, past, Pieces(system.pairs_per_pass)

    def __call__(self, src: Array, dst: Array, t: Array) -> Array:
        return self._score(src, dst, t, None)

    def score_after(self, src: Array, dst: Array, t: Array, visible: Array) -> Array:
        """See `PrefixScorer`."""
        return self._score(src, dst, t, visible)

    @torch.no_grad()
    def _score(self, src: Array, dst: Array, t: Array, visible: Array | None) -> Array:
        system, past, device = self._system, self._past, self._system.device
        system.module.eval()

        def score(first: int, last: int) -> Array:
            u, v = (torch.from_numpy(ends[first:last].astype(np.int64)).to(device) for ends in (src, dst))
            now = torch.from_numpy(np.array(t[first:last])).to(device)
            known = past.before(now) if visible is None else torch.from_numpy(np.array(visible[first:last])).to(device)
            found: Array = system.logits(past, u, v, now, known).double().cpu().numpy()
            return found

        return np.concatenate([np.empty(0), *self._pieces(score, len(src))])


def padded(values: Any, device: torch.device) -> Tensor:
    """A table with a row of zeros at the end, for index -1."""
    return torch.from_numpy(np.concatenate([values, np.zeros_like(values[:1])])).to(device)
