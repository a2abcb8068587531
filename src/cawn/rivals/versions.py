"""States of nodes that every link updates, with all their versions.

Message 2e is the update of the source of link e, message 2e + 1 that of its destination. Each message produces a new
version of one state. All messages at one time read the versions from before that time, and the state after them is
their mean, so simultaneous links do not see each other. Which versions a message reads depends only on the links: a
`Plan` numbers them as rows of a table. A system fills the table in compiled loops, because few messages are independent
of each other, and computes everything else from the table at once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cawn.data.events import Events
from cawn.data.ties import in_canonical_order
from cawn.rivals.replay import Replay
from cawn.systems.base import Context
from cawn.systems.neural import NeuralSystem, padded
from cawn.systems.training import Optimizer

Array = npt.NDArray[Any]
State = dict[str, Tensor]

NONE = -1  # no message
_CHUNK = 2_048  # links per chunk, in scoring
_PAIRS = 4_096  # per forward pass, in scoring


@dataclass(frozen=True)
class Plan:
    """What the messages of consecutive links read, as rows of one table.

    The first L rows of the table are the states of the owners `outside` before these links; one version per message
    follows.
    """

    first_message: int
    outside: npt.NDArray[np.int64]  # owners [L]
    outside_last: npt.NDArray[np.int64]  # the last message to each of them [L]; NONE without one
    rows: npt.NDArray[np.int64]  # of the versions that each message reads [M, R]; NONE for none
    previous: npt.NDArray[np.int64]  # the message before it to the same owner at the same time, from 0 [M]; or NONE

    def row(self, messages: Array) -> npt.NDArray[np.int64]:
        """The table row of a version by its message; NONE for those from before these links."""
        return np.where(messages >= self.first_message, len(self.outside) + messages - self.first_message, NONE)


class VersionedLinks:
    """Links in canonical order with the states that they update.

    Args:
        system: Defines the owners of states: nodes, or nodes in one role.
        size: Links per chunk. A chunk ends at the first change of time after that many, so it never splits a tie.
    """

    def __init__(self, events: Events, system: VersionedSystem, size: int) -> None:
        self.events = in_canonical_order(events)
        self.owners = np.asarray(system.owners(self.events), np.int64)  # [E, 2]
        self.msg = None if system.link_width == 0 else self.events.msg
        self.x = None if system.node_width == 0 else padded(self.events.x, system.device)
        t = self.events.t
        self.moment = np.searchsorted(t, t)  # of each link, the number of links before its time [E]
        starts = np.flatnonzero(self.moment == np.arange(len(t)))
        self.chunks = _chunks(starts, len(t), size)  # boundaries
        self._stride = 2 * len(t) + 2
        self._codes = np.sort(self.owners.ravel() * self._stride + np.arange(2 * len(t)))  # by owner, then message

    def last_message(self, owners: Array, visible: Array) -> npt.NDArray[np.int64]:
        """The last message to each owner among those of the first `visible` links; NONE if there is none."""
        if len(self._codes) == 0:
            return np.full(np.broadcast_shapes(np.shape(owners), np.shape(visible)), NONE)
        base = np.asarray(owners, np.int64) * self._stride
        at = np.searchsorted(self._codes, base + 2 * np.asarray(visible)) - 1
        found = self._codes[np.maximum(at, 0)] - base
        return np.where((at >= 0) & (found >= 0), found, NONE)

    @cached_property
    def _pairs(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The pairs of nodes that link, in either direction, as sorted codes; and the first link of each."""
        codes, first = np.unique(
            self._pair_codes(np.stack([self.events.src, self.events.dst], axis=1)), return_index=True
        )
        return codes, first

    def _pair_codes(self, pairs: Array) -> npt.NDArray[np.int64]:
        small, large = pairs.min(axis=1).astype(np.int64), pairs.max(axis=1)
        return np.where(large < self.events.num_nodes, small * self.events.num_nodes + large, NONE)

    def linked(self, pairs: Array, visible: Array) -> npt.NDArray[np.bool_]:
        """Whether two nodes [B, 2] have linked, in either direction, among the first `visible` links."""
        codes, first = self._pairs
        if len(codes) == 0:
            return np.zeros(len(pairs), np.bool_)
        wanted = self._pair_codes(pairs)
        at = np.minimum(np.searchsorted(codes, wanted), len(codes) - 1)
        return np.asarray((codes[at] == wanted) & (first[at] < visible))

    def chunk_of(self, visible: Array) -> npt.NDArray[np.int64]:
        """The chunk of the next link after the first `visible` links."""
        return np.asarray(np.searchsorted(self.chunks, visible, side="right") - 1)

    def bounds(self, chunk: int) -> tuple[int, int]:
        """First and last link of a chunk; the one after the last is empty."""
        return self.chunks[chunk], self.chunks[min(chunk + 1, len(self.chunks) - 1)]

    def plan(self, first: int, last: int, read: Array) -> Plan:
        """The plan of links first..last; each message reads the versions of the owners `read` [M, R], -1 for none.

        The first column of `read` is the owner of the message itself.
        """
        owners, visible = read[:, 0], np.repeat(self.moment[first:last], 2)
        messages = np.where(read >= 0, self.last_message(read, visible[:, None]), NONE)  # [M, R]
        is_outside = (read >= 0) & (messages < 2 * first)
        outside = np.unique(read[is_outside])
        rows = np.where(messages >= 2 * first, len(outside) + messages - 2 * first, NONE)
        rows[is_outside] = np.searchsorted(outside, read[is_outside])
        order = np.argsort(owners, kind="stable")
        same = (owners[order][1:] == owners[order][:-1]) & (visible[order][1:] == visible[order][:-1])
        previous = np.full(len(owners), NONE)
        previous[order[1:]] = np.where(same, order[:-1], NONE)
        outside_last = self.last_message(outside, np.full(len(outside), first))
        return Plan(2 * first, outside, outside_last, rows, previous)

    def final(self, first: int, last: int) -> tuple[Array, Array]:
        """The owners whose states the links first..last update, and the last message to each."""
        changed = np.unique(self.owners[first:last])
        return changed, self.last_message(changed, np.full(len(changed), last))


def host_array(values: Tensor) -> npt.NDArray[np.float32]:
    """A contiguous array on the host, for compiled loops."""
    return np.ascontiguousarray(values.detach().cpu().numpy())


class Versions:
    """The versions of the states after each link of one chunk."""

    def __init__(self, system: VersionedSystem, stream: VersionedLinks, state: State, first: int, last: int) -> None:
        self.system, self.stream, self.state, self.first, self.last = system, stream, state, first, last
        self.next: State = {}  # tables that replace those of the state in `advance`
        self.plan, self.table = system.roll(self)  # table: [L + M, d]

    def __call__(self, owners: Array, visible: Array) -> Tensor:
        """The state of each owner after the first `visible` links: [..., d]; `visible` is within the chunk."""
        messages = self.stream.last_message(owners, visible)
        row = self.plan.row(messages)
        found = self.before(owners, messages)
        if (row >= 0).any():
            rows = self.system.tensor(row)
            found = torch.where(rows[..., None] >= 0, self.table[rows.clamp(min=0)], found)
        return found

    def before(self, owners: Array, last: Array) -> Tensor:
        """The state of each owner before the chunk, given the last message to it: [..., d]."""
        tensor = self.system.tensor
        start = self.system.initial(self.stream, owners)
        return torch.where(tensor(last >= 0)[..., None], self.state["states"][tensor(owners)], start)

    def advance(self) -> None:
        """Update the state with the links of the chunk."""
        owners, messages = self.stream.final(self.first, self.last)
        tensor, rows = self.system.tensor, self.plan.row(messages)
        self.state["states"][tensor(owners)] = self.table.detach()[tensor(rows)]
        self.state.update(self.next)


class VersionedSystem(NeuralSystem):
    """A system whose state is updated by every link. A training step processes the links of one chunk, in order.

    Gradients flow through the updates of a chunk; the state before it is a constant.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._state: State | None = None  # of training

    @abstractmethod
    def owners(self, events: Events) -> Array:
        """The owners of the states that each link updates: [E, 2]."""

    @abstractmethod
    def new_state(self, num_nodes: int) -> State:
        """The state before the first link. "states" has a row per owner, and one more for unknown nodes."""

    @abstractmethod
    def initial(self, stream: VersionedLinks, owners: Array) -> Tensor:
        """The states of owners without links: [..., d]."""

    @abstractmethod
    def roll(self, versions: Versions) -> tuple[Plan, Tensor]:
        """The plan of a chunk and its table; the table has a gradient."""

    @abstractmethod
    def loss(self, versions: Versions, weight: Tensor | None, epoch: int) -> Tensor:
        """The loss of the links of a chunk, with a weight for each link."""

    @abstractmethod
    def logits(self, versions: Versions, src: Array, dst: Array, t: Array, visible: Array) -> Tensor:
        """Logits [B] of pairs at t after the first `visible` links, which is a number within the chunk."""

    @cached_property
    def training_stream(self) -> VersionedLinks:
        return VersionedLinks(self.context.train.known, self, self.config.batch_size)

    @property
    def steps_per_epoch(self) -> int:
        return len(self.training_stream.chunks) - 1

    def updates(self, epoch: int, first: int, optimizer: Optimizer) -> Iterator[Tensor]:
        stream = self.training_stream
        if first == 0 or self._state is None:
            self._state = self.new_state(stream.events.num_nodes)
        weights = _weights(stream.events)
        for chunk in range(first, self.steps_per_epoch):
            a, b = stream.bounds(chunk)
            versions = Versions(self, stream, self._state, a, b)
            loss = self.loss(versions, None if weights is None else self.tensor(weights[a:b]), epoch)
            versions.advance()
            yield loss

    def training_state(self) -> State:
        assert self._state is not None
        return dict(self._state)

    def load_training_state(self, state: State) -> None:
        expected = self.new_state(self.training_stream.events.num_nodes)
        if {name: value.shape for name, value in state.items()} != {n: v.shape for n, v in expected.items()}:
            raise ValueError("the state has the wrong shapes for these links")
        self._state = {name: value.to(expected[name]) for name, value in state.items()}

    def scorer(self, events: Events) -> VersionScorer:
        return VersionScorer(self, self._past_of(events))

    def past(self, events: Events) -> VersionedLinks:
        return VersionedLinks(events, self, _CHUNK)

    def tensor(self, values: Array) -> Tensor:
        """An array on the device of the system."""
        return torch.from_numpy(np.ascontiguousarray(values)).to(self.device, non_blocking=True)

    def gaps(self, t: Array, last: Array, stream: VersionedLinks, scale: list[float]) -> Tensor:
        """The time since each last message, standardised by mean and deviation; 0 where there is none; float32."""
        mean, deviation = scale
        gap = (_since(stream, t, last) - mean) / deviation
        return self.tensor(np.where(last >= 0, gap, 0.0).astype(np.float32))

    def gap_scale(self, name: str, side: int | None = None) -> list[float]:
        """Mean and standard deviation of the gaps between an owner's training links; stored as a fact."""

        def find() -> list[float]:
            stream = self.training_stream
            sides = slice(None) if side is None else slice(side, side + 1)
            last = stream.last_message(stream.owners[:, sides], stream.moment[:, None])
            gaps = _since(stream, stream.events.t[:, None], last)[last >= 0]
            deviation = float(gaps.std()) if len(gaps) else 0.0
            return [float(gaps.mean()) if len(gaps) else 0.0, deviation if deviation > 0 else 1.0]

        mean, deviation = self.context.fact(name, find)
        return [float(mean), float(deviation)]


class VersionScorer:
    """Scores pairs with the weights of a system, replaying the stream in chunks."""

    def __init__(self, system: VersionedSystem, stream: VersionedLinks) -> None:
        self._system, self._stream = system, stream
        num_nodes, num_chunks = stream.events.num_nodes, len(stream.chunks) - 1
        self._replay = Replay(lambda: system.new_state(num_nodes), self._advance, num_chunks)
        self._versions: tuple[int, Versions] | None = None  # of the most recent chunk

    def __reduce__(self) -> tuple[Any, ...]:
        return VersionScorer, (self._system, self._stream)  # the state is replayed again

    def __call__(self, src: Array, dst: Array, t: Array) -> Array:
        return self.score_after(src, dst, t, np.searchsorted(self._stream.events.t, t))

    @torch.no_grad()
    def score_after(self, src: Array, dst: Array, t: Array, visible: Array) -> Array:
        """See `PrefixScorer`; simultaneous links are in canonical order."""
        self._system.module.eval()
        columns = [np.asarray(src, np.int64), np.asarray(dst, np.int64), np.asarray(t), np.asarray(visible)]
        chunks, found = self._stream.chunk_of(columns[3]), np.empty(len(src))
        with self._replay.lock:
            for chunk in np.unique(chunks).tolist():
                versions = self._of(self._replay.after(chunk), chunk)
                asked = np.flatnonzero(chunks == chunk)
                for first in range(0, len(asked), _PAIRS):
                    some = asked[first : first + _PAIRS]
                    logits = self._system.logits(versions, *(column[some] for column in columns))
                    found[some] = logits.double().cpu().numpy()
        return found

    def _advance(self, state: State, first: int, last: int) -> None:
        for chunk in range(first, last):
            self._of(state, chunk).advance()

    def _of(self, state: State, chunk: int) -> Versions:
        if self._versions is None or self._versions[0] != chunk or self._versions[1].state is not state:
            self._versions = chunk, Versions(self._system, self._stream, state, *self._stream.bounds(chunk))
        return self._versions[1]


def _since(stream: VersionedLinks, t: Array, last: Array) -> npt.NDArray[np.float64]:
    """The time from the link of each last message to t; arbitrary where there is none."""
    if len(stream.events) == 0:
        return np.zeros(np.shape(last))
    return np.asarray(t - stream.events.t[np.maximum(last, 0) // 2], np.float64)


def _weights(events: Events) -> npt.NDArray[np.float32] | None:
    """Link weights, 1 on average over the links with a weight above 0; None if all are equal."""
    if events.weight is None:
        return None
    return np.asarray(events.weight / events.weight[events.weight > 0].mean(dtype=np.float64), np.float32)


def _chunks(starts: Array, length: int, size: int) -> list[int]:
    """Boundaries, each at the first of `starts` at least `size` after the one before; the last is `length`."""
    found = [0]
    while found[-1] < length:
        at = int(np.searchsorted(starts, found[-1] + size))
        found.append(int(starts[at]) if at < len(starts) else length)
    return found
