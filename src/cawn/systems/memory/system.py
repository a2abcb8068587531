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
from cawn.systems.base import Context
from cawn.systems.memory.config import TgnSettings
from cawn.systems.memory.network import MemoryNetwork, State
from cawn.systems.memory.stream import Stream
from cawn.systems.neural import NeuralSystem, distinct
from cawn.systems.replay import Replay
from cawn.systems.training import Optimizer, contrast_loss

Array = npt.NDArray[Any]

_PAIRS = 1 << 12  # per forward pass, in scoring
_COPY_BYTES = 1 << 30  # for copies of the state in a scorer


class MemorySystem(NeuralSystem):
    """TGN, JODIE or DyRep, depending on the settings.

    Training follows the stream of visible links: a step has the loss of all training links of one batch, with the
    memory of the batches before it. Links without a loss change the memory all the same.
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
        self._state: State | None = None  # of training

    def past(self, events: Events) -> Stream:
        return Stream(events, self)

    @cached_property
    def _steps(self) -> tuple[list[int], list[int]]:
        """The batch of each step, and where its training links begin and end."""
        stream: Stream = self._past_of(self.context.events)
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
        stream: Stream = self._past_of(self.context.events)
        numbers, starts = self._steps
        whole = replace(train, batch_size=len(train.positions))
        (links,) = whole.tensors(epoch, 0, self.device, shuffled=False)
        if first == 0 or self._state is None:
            self._state = network.new_state(stream)
        state, done = self._state, numbers[first - 1] if first else 0
        for step in range(first, len(numbers)):
            recent = None
            for number in range(done, numbers[step]):
                with torch.set_grad_enabled(number == numbers[step] - 1):
                    recent = network.messages(stream, state, number)
                state.store(recent)
            done = numbers[step]
            some = slice(starts[step], starts[step + 1])
            src, t = links.src[some], links.t[some]
            nodes = torch.cat([src, links.dst[some], links.negative[some]])  # [3B]
            visible = stream.before(t)
            h = network.embed(stream, state, nodes, t.repeat(3), visible.repeat(3), recent)
            u, others = h[: len(src)], h[len(src) :]
            logits = network.score(u.repeat(2, 1), others).squeeze(-1)  # [2B]
            yield contrast_loss(logits, None if links.weight is None else links.weight[some])

    def training_state(self) -> dict[str, Tensor]:
        return {} if self._state is None else dict(vars(self._state))

    def load_training_state(self, state: dict[str, Tensor]) -> None:
        mine = self.module.new_state(self._past_of(self.context.events))
        for name, value in vars(mine).items():
            if state[name].shape != value.shape:
                raise ValueError(f"{name} has the wrong shape")
            value.copy_(state[name])
        self._state = mine

    def scorer(self, events: Events) -> MemoryScorer:
        return MemoryScorer(self.module, self._past_of(events))


class MemoryScorer:
    """Scores pairs with the current weights, on a memory that is replayed from the first link."""

    def __init__(self, network: MemoryNetwork, stream: Stream) -> None:
        self._network, self._stream, self._pieces = network, stream, Pieces(_PAIRS)
        copies = _COPY_BYTES // max(4 * network.width * (stream.num_nodes + 1), 1)
        self._replay = Replay(lambda: network.new_state(stream), self._advance, len(stream), min(max(copies, 1), 8))

    def __reduce__(self) -> tuple[Any, ...]:
        return MemoryScorer, (self._network, self._stream)  # the state is replayed again

    def _advance(self, state: State, first: int, last: int) -> None:
        for number in range(first, last):
            state.store(self._network.messages(self._stream, state, number))

    def __call__(self, src: Array, dst: Array, t: Array) -> Array:
        return self.score_after(src, dst, t, np.searchsorted(self._stream.events.t, t))

    @torch.no_grad()
    def score_after(self, src: Array, dst: Array, t: Array, visible: Array) -> Array:
        """See `PrefixScorer`."""
        complete, device = self._stream.complete(visible), self._stream.device
        columns = [torch.from_numpy(np.array(column)).to(device) for column in (src, dst, t, visible)]
        changes = np.flatnonzero(np.diff(complete)) + 1
        bounds = [0, *changes.tolist(), len(src)] if len(src) else []
        logits = [np.empty(0)]
        with self._replay.lock:
            self._network.eval()
            for first, last in pairwise(bounds):
                state = self._replay.after(int(complete[first]))
                score = partial(self._score, state, [column[first:last] for column in columns])
                logits += self._pieces(score, last - first)
        return np.concatenate(logits)

    def _score(self, state: State, columns: list[Tensor], first: int, last: int) -> Array:
        """Logits of the pairs first..last."""
        src, dst, t, visible = (column[first:last] for column in columns)
        nodes, t, visible = torch.cat([src, dst]).long(), t.repeat(2), visible.repeat(2)
        some, place = distinct(nodes, t, visible)
        h = self._network.embed(self._stream, state, nodes[some], t[some], visible[some], None)  # [n, dim]
        found: Array = self._network.score(*h[place].chunk(2)).squeeze(-1).double().cpu().numpy()
        return found


def gap_moments(train: Events) -> tuple[float, float]:
    """Mean and deviation of the time between a node's successive links; (0, 1) if no node has two."""
    nodes, t = np.concatenate([train.src, train.dst]), np.tile(train.t, 2)
    order = np.lexsort((t, nodes))
    gaps = np.diff(t[order])[np.diff(nodes[order]) == 0].astype(np.float64)
    return (float(gaps.mean()), float(gaps.std()) or 1.0) if len(gaps) else (0.0, 1.0)
