"""The batches of links that a memory reads, and the messages of each."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cawn.data.events import Events
from cawn.data.ties import batch_ends
from cawn.systems.memory.config import TgnSettings
from cawn.systems.neural import NeuralSystem, PastTensors

Array = npt.NDArray[Any]


class Batch(NamedTuple):
    """The messages of one batch of links, for its n distinct nodes, grouped by their receiver."""

    nodes: Tensor  # [n] ascending
    latest: Tensor  # [n] the time of each node's last link in the batch
    receiver: Tensor  # [m] the receiver of each message, as a position in `nodes`
    sender: Tensor  # [m] the other end of the link, likewise
    links: Tensor  # [m] positions in `Stream.events`
    counts: Tensor | None  # [n] messages of each node; None if each has one


class Stream(PastTensors):
    """The past links of nodes, and the batches that a memory reads.

    A batch ends at the first change of time after `batch_size` links. So it never splits a tie, and whether it is
    complete before t depends on the links before t alone. Links after the last complete batch are in none.
    """

    def __init__(self, events: Events, system: NeuralSystem) -> None:
        super().__init__(events, system)
        config: TgnSettings = system.config
        self.ends = batch_ends(self.events.t, config.batch_size)  # [batches] the number of links up to each end
        self._index(last=config.aggregation == "last")

    def __len__(self) -> int:
        return len(self.ends)

    def complete(self, visible: Array) -> npt.NDArray[np.int64]:
        """The number of complete batches among the first `visible` [B] links: [B]."""
        return np.searchsorted(self.ends, visible, side="right")

    def rows(self, nodes: Tensor) -> Tensor:
        """The rows of nodes in a state; unknown ids have the last one."""
        return torch.where((nodes >= 0) & (nodes < self.num_nodes), nodes, self.num_nodes)

    def batch(self, number: int) -> Batch:
        """The messages of one batch."""
        nodes = slice(*self._first_node[number : number + 2])
        messages = slice(*self._first_message[number : number + 2])
        alone = nodes.stop - nodes.start == messages.stop - messages.start
        counts = None if alone else self._counts[nodes]
        return Batch(
            self._nodes_in[nodes],
            self._latest[nodes],
            self._receiver[messages],
            self._sender[messages],
            self._message_links[messages],
            counts,
        )

    def _index(self, *, last: bool) -> None:
        """Group the messages of all batches by receiver; with `last`, only those at its latest time in the batch."""
        count = int(self.ends[-1]) if len(self.ends) else 0
        src, dst, t = (column[:count] for column in (self.events.src, self.events.dst, self.events.t))
        both = np.stack([np.ones(count, bool), src != dst], axis=1)  # a self-loop sends one message
        links = np.repeat(np.arange(count), both.sum(axis=1))
        receiver, sender = np.stack([src, dst], axis=1)[both], np.stack([dst, src], axis=1)[both]
        batch = self.complete(links)
        stride = self.num_nodes + 1
        group = batch * stride + receiver
        order = np.argsort(group, kind="stable")  # by batch, receiver and time
        links, group, other = links[order], group[order], (batch * stride + sender)[order]
        groups, first, counts = np.unique(group, return_index=True, return_counts=True)
        latest = t[links[first + counts - 1]]
        number = np.repeat(np.arange(len(groups)), counts)
        if last:
            kept = t[links] == latest[number]
            links, number, other = links[kept], number[kept], other[kept]
            counts = np.bincount(number, minlength=len(groups))
        bounds = np.arange(len(self.ends) + 1)
        self._first_node: list[int] = np.searchsorted(groups // stride, bounds).tolist()
        self._first_message: list[int] = np.searchsorted(groups[number] // stride, bounds).tolist()
        start = np.array(self._first_node, np.int64)[groups[number] // stride]

        def tensor(array: Array) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)

        self._nodes_in, self._latest, self._counts = tensor(groups % stride), tensor(latest), tensor(counts)
        self._receiver, self._sender = tensor(number - start), tensor(np.searchsorted(groups, other) - start)
        self._message_links = tensor(links)
