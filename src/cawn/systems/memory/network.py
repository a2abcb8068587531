"""The memory of nodes, and the network that updates and reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from cawn.systems.layers import Merge, TemporalAttention, TimeCode
from cawn.systems.memory.config import TgnSettings
from cawn.systems.memory.stream import Stream


@dataclass
class State:
    """The memories of all nodes, each as its latest message; the last row belongs to unknown nodes, and stays 0."""

    message: Tensor  # [N + 1, 2 dim + time + link]: the memory before the message, then what the other end sent
    last: Tensor  # [N + 1] the time of the latest message
    seen: Tensor  # [N + 1] whether there is one

    def store(self, messages: Messages) -> None:
        """Replace the messages of some nodes, without their gradients."""
        self.message[messages.nodes] = messages.message.detach()
        self.last[messages.nodes] = messages.latest
        self.seen[messages.nodes] = True


class Messages(NamedTuple):
    """The aggregated messages of a batch: for n nodes, in ascending order."""

    nodes: Tensor  # [n]
    message: Tensor  # [n, 2 dim + time + link]
    latest: Tensor  # [n]


class MemoryNetwork(nn.Module):
    """The functions of a memory model: message, updater, embedding and score.

    Args:
        link: Width of link attributes; 0 if there are none.
        node: Width of node attributes; 0 if there are none.
        unit: Of time, for the time code.
        gaps: Mean and deviation of the gaps between a node's links, which standardise the gaps of the projection.
    """

    def __init__(self, config: TgnSettings, link: int, node: int, unit: float, gaps: tuple[float, float]) -> None:
        super().__init__()
        dim, width = config.dim, 2 * config.dim + config.time_dim + link
        self.config, self.width, self.unit, self.gaps = config, width, unit, gaps
        self.time = TimeCode(config.time_dim)
        self.updater = (nn.GRUCell if config.updater == "gru" else nn.RNNCell)(width, dim)
        self.features = nn.Linear(node, dim, bias=False) if node else None
        if "attention" in (config.embedding, config.message):
            self.attention = TemporalAttention(dim, link, config.time_dim, heads=config.heads, dropout=config.dropout)
        if config.embedding == "projection":
            self.projection = nn.Linear(1, dim)
        self.dropout = nn.Dropout(config.dropout)
        self.score = Merge(dim, dim, dim, 1)

    def new_state(self, stream: Stream) -> State:
        """The state before the first link."""
        rows, device = stream.num_nodes + 1, stream.device
        last = torch.zeros(rows, dtype=stream.t.dtype, device=device)
        message = torch.zeros(rows, self.width, device=device)
        return State(message, last, torch.zeros(rows, dtype=torch.bool, device=device))

    def memory(self, state: State, rows: Tensor, recent: Messages | None = None) -> Tensor:
        """The memory of nodes: [..., dim].

        Args:
            rows: The rows of the nodes in the state [...].
            recent: Messages that the state already holds, but without their gradients.
        """
        flat, places = rows.reshape(-1), None
        if flat.device.type == "cpu":  # elsewhere, finding the distinct ones costs more than it saves
            flat, places = torch.unique(flat, return_inverse=True)
        message = state.message[flat]  # [n, width]
        if recent is not None:
            at = torch.searchsorted(recent.nodes, flat).clamp_(max=len(recent.nodes) - 1)
            message = torch.where((recent.nodes[at] == flat)[:, None], recent.message[at], message)
        s: Tensor = self.updater(message, message[:, : self.config.dim])  # [n, dim]
        s = s * state.seen[flat, None]
        s = s if places is None else s[places]
        return s.view(*rows.shape, self.config.dim)

    @torch.no_grad()
    def messages(self, stream: Stream, state: State, number: int) -> Messages:
        """The messages of a batch, if the state is that of its start."""
        batch = stream.batch(number)
        nodes, t = batch.nodes, stream.t[batch.links]  # [n], [m]
        s = self.memory(state, nodes)  # [n, dim]
        if self.config.message == "memory":
            other = s[batch.sender]  # [m, dim]
        else:
            other = self.attend(stream, state, nodes[batch.sender], t, stream.before(t))
        gap = self.gap(state, nodes[batch.receiver], t)  # [m]
        parts = [other, self.time(gap / self.unit), stream.attributes(batch.links)]
        sent = torch.cat([part for part in parts if part is not None], dim=-1)  # [m, dim + time + link]
        if batch.counts is not None:
            sent = torch.segment_reduce(sent, "mean", lengths=batch.counts, axis=0, unsafe=True)  # [n, ...]
        return Messages(nodes, torch.cat([s, sent], dim=-1), batch.latest)

    def gap(self, state: State, rows: Tensor, t: Tensor) -> Tensor:
        """The time since the latest message of each node, 0 before its first: [B], float64."""
        return torch.where(state.seen[rows], t - state.last[rows], 0).double()

    def embed(
        self, stream: Stream, state: State, nodes: Tensor, t: Tensor, visible: Tensor, recent: Messages | None
    ) -> Tensor:
        """Embeddings of nodes at t, of which the first `visible` links are known: [B, dim]."""
        if self.config.embedding == "attention":
            return self.attend(stream, state, nodes, t, visible, recent)
        rows = stream.rows(nodes)
        s = self.memory(state, rows, recent)  # [B, dim]
        if self.config.embedding == "projection":
            mean, deviation = self.gaps
            gap = (self.gap(state, rows, t) - mean) / deviation
            s = self.dropout(s * (1 + self.projection(gap.float()[:, None])))
        return self._with_features(s, stream, nodes)

    def attend(
        self, stream: Stream, state: State, nodes: Tensor, t: Tensor, visible: Tensor, recent: Messages | None = None
    ) -> Tensor:
        """One layer of graph attention over the most recent links of nodes: [B, dim]."""
        past = stream.recent(nodes, visible, self.config.neighbours)  # [B, k]
        ends = torch.cat([nodes[:, None], past.nodes], dim=1)  # [B, 1 + k]
        h = self._with_features(self.memory(state, stream.rows(ends), recent), stream, ends)  # [B, 1 + k, dim]
        now = self.time(torch.zeros((), device=t.device))  # [time]
        times = self.time((t[:, None] - past.t).double() / self.unit)  # [B, k, time]
        attended: Tensor = self.attention(h[:, 0], now, h[:, 1:], stream.attributes(past.events), times, past.mask)
        return attended

    def _with_features(self, s: Tensor, stream: Stream, nodes: Tensor) -> Tensor:
        return s if self.features is None else s + self.features(stream.features(nodes))
