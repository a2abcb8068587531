"""Training and scoring with a memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cawn.data.events import Events
from cawn.kernels.cuda.launch import Pieces
from cawn.rivals.memory.config import TgnSettings
from cawn.rivals.memory.memories import LatestMessages, Versions
from cawn.rivals.memory.network import MemoryNetwork
from cawn.rivals.memory.stream import MemoryBatches
from cawn.rivals.replay import Replay
from cawn.systems.base import Context
from cawn.systems.neural import NeuralSystem, distinct
from cawn.systems.training import Optimizer, contrast_loss

Array = npt.NDArray[Any]

_PAIRS = 1 << 12  # per forward pass, in scoring
_VERSIONS = 1 << 18  # versions of memories that are stored at once, in scoring


class MemorySystem(NeuralSystem):
    """TGN, JODIE or DyRep, depending on the settings.

    Training follows the stream of visible links: a step computes the loss of all training links of one batch, with the
    memory of the batches before it. Links that are not trained on update the memory as well.
    """

    module: MemoryNetwork

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        config: TgnSettings = context.config
        gaps = (0.0, 1.0)
        if config.embedding == "projection":
            gaps = tuple(context.fact("gaps", lambda: gap_moments(context.train.known)))
        network = MemoryNetwork(config, self.link_width, self.node_width, self.unit, gaps)
        self.module = network.to(self.device)
        self._memories: LatestMessages | None = None  # of training

    def past(self, events: Events) -> MemoryBatches:
        return MemoryBatches(events, self)

    @cached_property
    def _steps(self) -> tuple[list[int], list[int]]:
        """The batch of each step, and where its training links begin and end."""
        stream: MemoryBatches = self._past_of(self.context.events)
        t = self.context.train.events.t[self.context.train.positions]
        batch = stream.complete(np.searchsorted(stream.events.t, t))  # ascending
        numbers, first = np.unique(batch, return_index=True)
        return numbers.tolist(), [*first.tolist(), len(batch)]

    @property
    def steps_per_epoch(self) -> int:
        """The number of batches with links to train on."""
        return len(self._steps[0])

    def updates(self, epoch: int, first: int, optimizer: Optimizer) -> Iterator[Tensor]:
        network, train = self.module, self.context.train
        stream: MemoryBatches = self._past_of(self.context.events)
        numbers, starts = self._steps
        whole = replace(train, batch_size=len(train.positions))
        (links,) = whole.tensors(epoch, 0, self.device, shuffled=False)
        if first == 0 or self._memories is None:
            self._memories = LatestMessages(network, stream)
        memories, done = self._memories, numbers[first - 1] if first else 0
        for step in range(first, len(numbers)):
            for number in range(done, numbers[step]):
                memories.add(number)
            done = numbers[step]
            some = slice(starts[step], starts[step + 1])
            src, t = links.src[some], links.t[some]
            nodes = torch.cat([src, links.dst[some], links.negative[some]])  # [3B]
            complete = torch.full_like(nodes, done)
            h = network.embed(stream, memories.read, nodes, t.repeat(3), stream.before(t).repeat(3), complete)
            source, *destinations = h.chunk(3)  # [B, dim] each
            logits = network.score(source.repeat(2, 1), torch.cat(destinations)).squeeze(-1)  # [2B]
            yield contrast_loss(logits, None if links.weight is None else links.weight[some])

    def training_state(self) -> dict[str, Tensor]:
        return {} if self._memories is None else self._memories.tensors

    def load_training_state(self, state: dict[str, Tensor]) -> None:
        memories = LatestMessages(self.module, self._past_of(self.context.events))
        for name, value in memories.tensors.items():
            if state[name].shape != value.shape:
                raise ValueError(f"{name} has the wrong shape")
            value.copy_(state[name])
        self._memories = memories

    def scorer(self, events: Events) -> MemoryScorer:
        return MemoryScorer(self.module, self._past_of(events))


class MemoryScorer:
    """Scores pairs with the current weights, using memories that are replayed from the first link.

    The stream is replayed in parts of several batches. All versions of memories in one part are stored at once, so that
    pairs at all times within it are scored together.
    """

    def __init__(self, network: MemoryNetwork, stream: MemoryBatches) -> None:
        self._network, self._stream, self._pieces = network, stream, Pieces(_PAIRS)
        self._bounds = part_bounds(stream.first_version, _VERSIONS)
        self._part: tuple[int, Versions] | None = None  # the most recent one
        self._replay = Replay(self._no_memories, self._advance, len(self._bounds) - 1)

    def __reduce__(self) -> tuple[Any, ...]:
        return MemoryScorer, (self._network, self._stream)  # the memories are replayed again

    def _no_memories(self) -> Tensor:
        return torch.zeros(self._stream.num_nodes + 1, self._network.config.dim, device=self._stream.device)

    def _advance(self, memory: Tensor, first: int, last: int) -> None:
        for part in range(first, last):
            memory.copy_(self._versions(part, memory).after())

    def _versions(self, part: int, before: Tensor) -> Versions:
        if self._part is None or self._part[0] != part:
            self._part = None  # free its memory first
            self._part = part, Versions(self._network, self._stream, before, *self._bounds[part : part + 2])
        return self._part[1]

    def __call__(self, src: Array, dst: Array, t: Array) -> Array:
        return self.score_after(src, dst, t, np.searchsorted(self._stream.events.t, t))

    @torch.no_grad()
    def score_after(self, src: Array, dst: Array, t: Array, visible: Array) -> Array:
        """See `PrefixScorer`."""
        complete, device = self._stream.complete(visible), self._stream.device
        part = np.maximum(np.searchsorted(self._bounds, complete) - 1, 0)  # the one that ends with these batches
        columns = [torch.from_numpy(np.array(column)).to(device) for column in (src, dst, t, visible, complete)]
        changes = np.flatnonzero(np.diff(part)) + 1
        bounds = [0, *changes.tolist(), len(src)] if len(src) else []
        logits = [np.empty(0)]
        with self._replay.lock:
            self._network.eval()
            for first, last in pairwise(bounds):
                number = int(part[first])
                versions = self._versions(number, self._replay.after(number))
                score = partial(self._score, versions, [column[first:last] for column in columns])
                logits += self._pieces(score, last - first)
        return np.concatenate(logits)

    def _score(self, versions: Versions, columns: list[Tensor], first: int, last: int) -> Array:
        """Logits of the pairs first..last."""
        src, dst, *rest = (column[first:last] for column in columns)
        nodes, *rest = torch.cat([src, dst]).long(), *(column.repeat(2) for column in rest)
        some, place = distinct(nodes, *rest)
        h = self._network.embed(self._stream, versions.read, nodes[some], *(column[some] for column in rest))
        found: Array = self._network.score(*h[place].chunk(2)).squeeze(-1).double().cpu().numpy()
        return found


def part_bounds(first_version: list[int], versions: int) -> list[int]:
    """Divides batches into parts of at most `versions` versions, or one batch: the bounds of at least one part."""
    starts, bounds = np.array(first_version), [0]
    while bounds[-1] < len(starts) - 1:
        end = int(np.searchsorted(starts, starts[bounds[-1]] + versions, side="right")) - 1
        bounds.append(max(end, bounds[-1] + 1))
    return bounds if len(bounds) > 1 else [0, 0]


def gap_moments(train: Events) -> tuple[float, float]:
    """Mean and standard deviation of the time between a node's successive links; (0, 1) if no node has two."""
    nodes, t = np.concatenate([train.src, train.dst]), np.tile(train.t, 2)
    order = np.lexsort((t, nodes))
    gaps = np.diff(t[order])[np.diff(nodes[order]) == 0].astype(np.float64)
    return (float(gaps.mean()), float(gaps.std()) or 1.0) if len(gaps) else (0.0, 1.0)
