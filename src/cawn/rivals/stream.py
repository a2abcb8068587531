"""Systems with a state that follows the stream: each batch of links updates it, and later links are scored from it."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from copy import deepcopy
from dataclasses import replace
from functools import cached_property
from threading import RLock
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cawn.data.events import Events
from cawn.data.ties import batch_ends
from cawn.kernels.cuda.launch import Pieces
from cawn.systems.neural import NeuralSystem, PastTensors
from cawn.systems.training import LinkBatch, Optimizer, contrast_loss

Array = npt.NDArray[Any]
State = dict[str, Tensor]
Replayed = TypeVar("Replayed")


class HasState(ABC):
    """A system whose training steps depend on a state, which is part of a checkpoint."""

    _state: State | None = None  # after the last step

    @abstractmethod
    def first_state(self) -> State:
        """The state before the first step of an epoch."""

    def training_state(self) -> State:
        return {} if self._state is None else dict(self._state)

    def load_training_state(self, state: State) -> None:
        expected = self.first_state()
        for name, value in expected.items():
            if state[name].shape != value.shape:
                raise ValueError(f"{name} has the wrong shape")
        self._state = {name: state[name].to(value) for name, value in expected.items()}


class StreamSystem(HasState, NeuralSystem):
    """A system that scores the links of one part of the stream after the other, each from the state before it.

    A subclass sets `module`, and says what a part is, how it changes the state and how pairs are scored.
    """

    pairs_per_pass = 1 << 12  # in scoring

    @abstractmethod
    def parts(self, past: Any, visible: Array) -> npt.NDArray[np.int64]:
        """The part of the stream in which each number of visible links is."""

    @abstractmethod
    def initial(self, past: Any) -> State:
        """The state before the first part."""

    @abstractmethod
    def part(self, past: Any, state: State, number: int) -> Any:
        """What is computed at once for a part of the stream, from the state before it."""

    @abstractmethod
    def advance(self, part: Any, state: State) -> None:
        """Update the state with all links of a part, in place."""

    @abstractmethod
    def logits(self, part: Any, src: Array, dst: Array, t: Array, visible: Array) -> Tensor:
        """Logits [B] of pairs at t after the first `visible` links, numbers within the part."""

    def scorer(self, events: Events) -> StreamScorer:
        return StreamScorer(self, self._past_of(events))


class StreamScorer:
    """Scores pairs with the weights of a system, replaying the stream from its first link."""

    def __init__(self, system: StreamSystem, past: Any) -> None:
        self._system, self._past, self._pieces = system, past, Pieces(system.pairs_per_pass)
        last = system.parts(past, np.array([len(past.events)])).item()
        self._replay = Replay(lambda: system.initial(past), self._advance, last)
        self._part: tuple[int, State, Any] | None = None  # the most recent one

    def __reduce__(self) -> tuple[Any, ...]:
        return StreamScorer, (self._system, self._past)  # the state is replayed again

    def __call__(self, src: Array, dst: Array, t: Array) -> Array:
        return self.score_after(src, dst, t, np.searchsorted(self._past.events.t, t))

    @torch.no_grad()
    def score_after(self, src: Array, dst: Array, t: Array, visible: Array) -> Array:
        """See `PrefixScorer`; simultaneous links are in canonical order."""
        self._system.module.eval()
        columns = [np.asarray(src, np.int64), np.asarray(dst, np.int64), np.asarray(t), np.asarray(visible)]
        numbers, found = self._system.parts(self._past, columns[3]), np.empty(len(src))
        with self._replay.lock:
            for number in np.unique(numbers).tolist():
                part, asked = self._part_of(self._replay.after(number), number), np.flatnonzero(numbers == number)

                def score(first: int, last: int, part: Any = part, asked: Array = asked) -> Array:
                    some = asked[first:last]
                    logits = self._system.logits(part, *(column[some] for column in columns))
                    return np.asarray(logits.double().cpu().numpy())

                found[asked] = np.concatenate(list(self._pieces(score, len(asked))))
        return found

    def _advance(self, state: State, first: int, last: int) -> None:
        for number in range(first, last):
            self._system.advance(self._part_of(state, number), state)

    def _part_of(self, state: State, number: int) -> Any:
        if self._part is None or self._part[0] != number or self._part[1] is not state:
            self._part = None  # free its memory first
            self._part = number, state, self._system.part(self._past, state, number)
        return self._part[2]


class Batches(PastTensors):
    """The past links of nodes, and batches of links that split no tie; see `batch_ends`."""

    def __init__(self, events: Events, system: NeuralSystem) -> None:
        super().__init__(events, system)
        self.ends = batch_ends(self.events.t, system.config.batch_size)  # [batches] the number of links up to each end

    def __len__(self) -> int:
        return len(self.ends)

    def complete(self, visible: Array) -> npt.NDArray[np.int64]:
        """The number of complete batches among the first `visible` links: [B]."""
        return np.searchsorted(self.ends, visible, side="right")

    def rows(self, nodes: Tensor) -> Tensor:
        """The rows of nodes in a table; the last row is for unknown ids."""
        return torch.where((nodes >= 0) & (nodes < self.num_nodes), nodes, self.num_nodes)


class BatchedSystem(StreamSystem):
    """A step computes the loss of all training links of one batch, with the state after the batches before it.

    Links that are not trained on update the state as well.
    """

    @abstractmethod
    def training_logits(self, past: Any, state: State, links: LinkBatch, complete: int) -> Tensor:
        """Logits of links of batch `complete`, then of their negatives, from the state of training: [2B]."""

    @abstractmethod
    def add(self, past: Any, state: State, number: int) -> None:
        """Update the state of training with a batch."""

    @cached_property
    def _steps(self) -> tuple[list[int], list[int]]:
        """The batch of each step, and where its training links begin and end."""
        past: Batches = self._past_of(self.context.events)
        t = self.context.train.events.t[self.context.train.positions]
        batch = past.complete(np.searchsorted(past.events.t, t))  # ascending
        numbers, first = np.unique(batch, return_index=True)
        return numbers.tolist(), [*first.tolist(), len(batch)]

    @property
    def steps_per_epoch(self) -> int:
        """The number of batches with links to train on."""
        return len(self._steps[0])

    def updates(self, epoch: int, first: int, optimizer: Optimizer) -> Iterator[Tensor]:
        train, past, (numbers, starts) = self.context.train, self._past_of(self.context.events), self._steps
        whole = replace(train, batch_size=len(train.positions))
        (links,) = whole.tensors(epoch, 0, self.device, shuffled=False)
        if first == 0 or self._state is None:
            self._state = self.first_state()
        done = numbers[first - 1] if first else 0
        for step in range(first, len(numbers)):
            for number in range(done, numbers[step]):
                self.add(past, self._state, number)
            done = numbers[step]
            some = links.map(operator.itemgetter(slice(starts[step], starts[step + 1])))
            yield contrast_loss(self.training_logits(past, self._state, some, done), some.weight)


class Replay(Generic[Replayed]):
    """Replays a stream: the state after its first n parts; ascending values of n cost one pass in total.

    For an n smaller than before, it restarts from the nearest earlier copy; a few evenly spaced copies are kept.

    Args:
        new: Creates the state before the first part.
        advance: Updates a state in place with the parts first..last.
        length: The number of parts.
        copies: How many copies to keep.
    """

    def __init__(
        self, new: Callable[[], Replayed], advance: Callable[[Replayed, int, int], None], length: int, copies: int = 8
    ) -> None:
        self._new, self._advance = new, advance
        self._interval = max(-(-length // copies), 1)
        self._position, self._state, self._kept = 0, new(), dict[int, Replayed]()
        self.lock = RLock()  # to be held while a state is used

    def after(self, count: int) -> Replayed:
        """The state after the first `count` parts, valid until the next call; the caller holds the lock."""
        if count < self._position:
            start = max((at for at in self._kept if at <= count), default=0)
            self._position, self._state = start, deepcopy(self._kept[start]) if start else self._new()
        while self._position < count:
            stop = min((self._position // self._interval + 1) * self._interval, count)
            self._advance(self._state, self._position, stop)
            self._position = stop
            if stop % self._interval == 0 and stop not in self._kept:
                self._kept[stop] = deepcopy(self._state)
        return self._state
