"""States of nodes that every link updates, with all their versions.

Message 2e is the update of the source of link e, message 2e + 1 that of its destination. Each message produces a new
version of one state. All messages at one time read the versions from before that time, and the state after them is
their mean, so simultaneous links do not see each other. Which versions a message reads depends only on the links: a
`MessagePlan` numbers them as rows of a table. A system fills the table in compiled loops, because few messages are
independent of each other, and computes everything else from the table at once.
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
from cawn.rivals.stream import State, StreamSystem
from cawn.systems.neural import padded
from cawn.systems.training import Optimizer

Array = npt.NDArray[Any]

NONE = -1  # no message
_CHUNK = 2_048  # links per chunk, in scoring


@dataclass(frozen=True)
class MessagePlan:
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

    def plan(self, first: int, last: int, read: Array) -> MessagePlan:
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
        return MessagePlan(2 * first, outside, outside_last, rows, previous)

    def final(self, first: int, last: int) -> tuple[Array, Array]:
        """The owners whose states the links first..last update, and the last message to each."""
        changed = np.unique(self.owners[first:last])
        return changed, self.last_message(changed, np.full(len(changed), last))


def host_array(values: Tensor) -> npt.NDArray[np.float32]:
    """A contiguous array on the host, for compiled loops."""
    return np.ascontiguousarray(values.detach().cpu().numpy())


class StateVersions:
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
        start = self.system.without_links(self.stream, owners)
        return torch.where(tensor(last >= 0)[..., None], self.state["states"][tensor(owners)], start)

    def advance(self) -> None:
        """Update the state with the links of the chunk."""
        owners, messages = self.stream.final(self.first, self.last)
        tensor, rows = self.system.tensor, self.plan.row(messages)
        self.state["states"][tensor(owners)] = self.table.detach()[tensor(rows)]
        self.state.update(self.next)


class VersionedSystem(StreamSystem):
    """A system whose state is updated by every link. A training step processes the links of one chunk, in order.

    Gradients flow through the updates of a chunk; the state before it is a constant.
    """

    @abstractmethod
    def owners(self, events: Events) -> Array:
        """The owners of the states that each link updates: [E, 2]."""

    @abstractmethod
    def new_state(self, num_nodes: int) -> State:
        """The state before the first link. "states" has a row per owner, and one more for unknown nodes."""

    @abstractmethod
    def without_links(self, stream: VersionedLinks, owners: Array) -> Tensor:
        """The states of owners without links: [..., d]."""

    @abstractmethod
    def roll(self, versions: StateVersions) -> tuple[MessagePlan, Tensor]:
        """The plan of a chunk and its table; the table has a gradient."""

    @abstractmethod
    def loss(self, versions: StateVersions, weight: Tensor | None, epoch: int) -> Tensor:
        """The loss of the links of a chunk, with a weight for each link."""

    def past(self, events: Events) -> VersionedLinks:
        return VersionedLinks(events, self, _CHUNK)

    def parts(self, past: VersionedLinks, visible: Array) -> npt.NDArray[np.int64]:
        return past.chunk_of(visible)

    def initial(self, past: VersionedLinks) -> State:
        return self.new_state(past.events.num_nodes)

    def part(self, past: VersionedLinks, state: State, number: int) -> StateVersions:
        return StateVersions(self, past, state, *past.bounds(number))

    def advance(self, part: StateVersions, state: State) -> None:
        part.advance()

    @cached_property
    def training_stream(self) -> VersionedLinks:
        return VersionedLinks(self.context.train.known, self, self.config.batch_size)

    @property
    def steps_per_epoch(self) -> int:
        return len(self.training_stream.chunks) - 1

    def first_state(self) -> State:
        return self.initial(self.training_stream)

    def updates(self, epoch: int, first: int, optimizer: Optimizer) -> Iterator[Tensor]:
        stream = self.training_stream
        if first == 0 or self._state is None:
            self._state = self.first_state()
        weights = _weights(stream.events)
        for chunk in range(first, self.steps_per_epoch):
            versions = self.part(stream, self._state, chunk)
            some = slice(versions.first, versions.last)
            loss = self.loss(versions, None if weights is None else self.tensor(weights[some]), epoch)
            versions.advance()
            yield loss

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
