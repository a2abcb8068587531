"""The functions of a memory model: message, updater, embedding and score."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from cawn.rivals.memory.config import TgnSettings
from cawn.rivals.memory.stream import BatchMessages, MemoryBatches
from cawn.systems.layers import Merge, TemporalAttention, TimeEncoding

Read = Callable[[Tensor, Tensor], Tensor]  # memories of nodes [...] after a number of batches [...]: [..., dim]


class MemoryNetwork(nn.Module):
    """The network of TGN, JODIE or DyRep. Memories are stored elsewhere and read through a function.

    Args:
        link: Width of link attributes; 0 if there are none.
        node: Width of node attributes; 0 if there are none.
        unit: The unit of time of the time encoding.
        gaps: Mean and standard deviation of the gaps between a node's links, to standardise those of the projection.
    """

    def __init__(self, config: TgnSettings, link: int, node: int, unit: float, gaps: tuple[float, float]) -> None:
        super().__init__()
        dim, width = config.dim, 2 * config.dim + config.time_dim + link
        self.config, self.width, self.unit, self.gaps = config, width, unit, gaps
        self.time = TimeEncoding(config.time_dim)
        self.updater = (nn.GRUCell if config.updater == "gru" else nn.RNNCell)(width, dim)
        self.features = nn.Linear(node, dim, bias=False) if node else None
        if "attention" in (config.embedding, config.message):
            self.attention = TemporalAttention(dim, link, config.time_dim, heads=config.heads, dropout=config.dropout)
        if config.embedding == "projection":
            self.projection = nn.Linear(1, dim)
        self.dropout = nn.Dropout(config.dropout)
        self.score = Merge(dim, dim, dim, 1)

    def update(self, message: Tensor) -> Tensor:
        """New memories from aggregated messages, which begin with the memory before: [n, width] -> [n, dim]."""
        s: Tensor = self.updater(message, message[:, : self.config.dim])
        return s

    def context(self, stream: MemoryBatches, messages: BatchMessages) -> Tensor:
        """The part [phi(gap) | e] of the aggregated messages, which does not depend on memories: [n, time + link]."""
        phi, attributes = self.time(messages.gap / self.unit), stream.attributes(messages.links)
        return messages.mean(phi if attributes is None else torch.cat([phi, attributes], dim=-1))

    @torch.no_grad()
    def message(self, stream: MemoryBatches, number: int, s: Tensor, context: Tensor, read: Read) -> Tensor:
        """The aggregated messages of one batch: [n, width].

        Args:
            s: The memories of its nodes at its start [n, dim].
            context: See `context`.
        """
        messages = stream.messages(number, number + 1)
        if self.config.message == "memory":
            other = s[messages.sender]  # [m, dim]
        else:
            sender, t = messages.nodes[messages.sender], stream.t[messages.links]
            other = self.attend(stream, read, sender, t, stream.before(t), torch.full_like(sender, number))
        return torch.cat([s, messages.mean(other), context], dim=-1)

    def embed(
        self, stream: MemoryBatches, read: Read, nodes: Tensor, t: Tensor, visible: Tensor, complete: Tensor
    ) -> Tensor:
        """Embeddings of nodes at t, given the first `visible` links and `complete` batches: [B, dim]."""
        if self.config.embedding == "attention":
            return self.attend(stream, read, nodes, t, visible, complete)
        s = read(nodes, complete)  # [B, dim]
        if self.config.embedding == "projection":
            mean, deviation = self.gaps
            gap = (stream.time_since(nodes, t, complete) - mean) / deviation
            s = self.dropout(s * (1 + self.projection(gap.float()[:, None])))
        return self._with_features(s, stream, nodes)

    def attend(
        self, stream: MemoryBatches, read: Read, nodes: Tensor, t: Tensor, visible: Tensor, complete: Tensor
    ) -> Tensor:
        """One layer of graph attention over the most recent links of nodes: [B, dim]."""
        past = stream.recent(nodes, visible, self.config.neighbours)  # [B, k]
        ends = torch.cat([nodes[:, None], past.nodes], dim=1)  # [B, 1 + k]
        h = self._with_features(read(ends, complete[:, None]), stream, ends)  # [B, 1 + k, dim]
        now = self.time(torch.zeros((), device=t.device))  # [time]
        times = self.time((t[:, None] - past.t).double() / self.unit)  # [B, k, time]
        attended: Tensor = self.attention(h[:, 0], now, h[:, 1:], stream.attributes(past.events), times, past.mask)
        return attended

    def _with_features(self, s: Tensor, stream: MemoryBatches, nodes: Tensor) -> Tensor:
        return s if self.features is None else s + self.features(stream.features(nodes))
