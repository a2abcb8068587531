"""Storage of memories: in training the latest message of each node, in scoring all versions of a memory."""

from __future__ import annotations

import torch
from torch import Tensor

from cawn.rivals.memory.network import MemoryNetwork
from cawn.rivals.memory.stream import MemoryBatches
from cawn.rivals.stream import State


class LatestMessages:
    """The memories of all nodes, each stored as its latest message; the last row is for unknown nodes and stays 0.

    A message begins with the memory before it, so it contains all inputs of the updater. The updater runs whenever a
    memory is read, with the current weights and with a gradient.
    """

    def __init__(self, network: MemoryNetwork, stream: MemoryBatches, state: State) -> None:
        self._network, self._stream = network, stream
        self.message, self.seen = state["message"], state["seen"]

    @staticmethod
    def initial(network: MemoryNetwork, stream: MemoryBatches) -> State:
        """No messages: a row per node, and whether there is a message."""
        rows, device = stream.num_nodes + 1, stream.device
        message = torch.zeros(rows, network.width, device=device)
        return {"message": message, "seen": torch.zeros(rows, dtype=torch.bool, device=device)}

    def read(self, nodes: Tensor, complete: Tensor) -> Tensor:
        """The memories of nodes after the last batch that was added: [..., dim]."""
        rows, places = self._stream.rows(nodes).reshape(-1), None
        if rows.device.type == "cpu":  # on a GPU, finding the distinct rows costs more than it saves
            rows, places = torch.unique(rows, return_inverse=True)
        s = self._network.update(self.message[rows]) * self.seen[rows, None]  # [n, dim]
        return (s if places is None else s[places]).view(*nodes.shape, -1)

    @torch.no_grad()
    def add(self, number: int) -> None:
        """Replace the messages of the nodes of the next batch, whose number is given."""
        messages = self._stream.messages(number, number + 1)
        s = self.read(messages.nodes, torch.full_like(messages.nodes, number))
        context = self._network.context(self._stream, messages)
        self.message[messages.nodes] = self._network.message(self._stream, number, s, context, self.read)
        self.seen[messages.nodes] = True


class MemoryVersions:
    """The memories of all nodes before a range of batches, and all versions within it, with fixed weights.

    Queries at any number of times within these batches can be answered at once.

    Args:
        before: The memories before the first of the batches [N + 1, dim], 0 in the last row.
        first: The first batch.
        last: The batch after the last.
    """

    @torch.no_grad()
    def __init__(self, network: MemoryNetwork, stream: MemoryBatches, before: Tensor, first: int, last: int) -> None:
        self.stream, self._last = stream, last
        self._base, self._offset = stream.first_version[first], len(before)
        starts = [version - self._base for version in stream.first_version[first : last + 1]]
        self.memory = torch.cat([before, before.new_zeros(starts[-1], before.shape[1])])
        made = slice(self._base, self._base + starts[-1])
        previous = self._place(stream.previous[made], stream.owner[made])
        context = network.context(stream, stream.messages(first, last))
        for number, start, stop in zip(range(first, last), starts[:-1], starts[1:], strict=True):
            s = self.memory[previous[start:stop]]  # [n, dim]
            message = network.message(stream, number, s, context[start:stop], self.read)
            self.memory[self._offset + start : self._offset + stop] = network.update(message)

    def _place(self, version: Tensor, rows: Tensor) -> Tensor:
        """The rows of versions in `memory`; a version before the first batch has the row of its node."""
        return torch.where(version >= self._base, version - self._base + self._offset, rows)

    def read(self, nodes: Tensor, complete: Tensor) -> Tensor:
        """The memories of nodes after the first `complete` batches: [..., dim]."""
        return self.memory[self._place(self.stream.version(nodes, complete), self.stream.rows(nodes))]

    def after(self) -> Tensor:
        """The memories of all nodes after these batches: [N + 1, dim]."""
        nodes = torch.arange(self._offset, device=self.memory.device)
        return self.read(nodes, torch.full_like(nodes, self._last))
