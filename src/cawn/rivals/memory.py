"""TGN, and JODIE and DyRep in their TGN form: every node has a memory that its links update, batch by batch.

A link between u and v at t sends u the message [s_u | s_v | phi(t - last_u) | e], and v the same with u and v
exchanged. The messages of a batch are aggregated per node, and a recurrent cell computes the new memory:
s = updater(message, s). The stream is divided into batches that do not depend on the queries. A query at t uses the
memory after the last batch that was complete before t, and all links strictly before t as neighbours.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from cawn.data.events import Events
from cawn.rivals.stream import BatchedSystem, Batches, State
from cawn.systems.base import Context
from cawn.systems.layers import Merge, TemporalAttention, TimeEncoding
from cawn.systems.neural import NeuralSystem, distinct
from cawn.systems.settings import PublishedSettings, setting
from cawn.systems.training import LinkBatch

Array = npt.NDArray[Any]
Read = Callable[[Tensor, Tensor], Tensor]  # memories of nodes [...] after a number of batches [...]: [..., dim]

NONE = -1  # no version
_VERSIONS = 1 << 18  # versions of memories that are stored at once, in scoring


@dataclass(frozen=True)
class TgnSettings(PublishedSettings):
    """Settings of TGN."""

    batch_size: int = setting(200, "links per batch and per training step; more where a tie would be split")
    dim: int = setting(172, "width of the memory and of the embedding", 1, 4096)
    time_dim: int = setting(100, "width of the time encoding", 1, 4096)
    neighbours: int = setting(10, "most recent links, the input of the attention", 1, 4096)
    heads: int = setting(2, "attention heads", 1, 64)
    dropout: float = setting(0.1, "dropout", 0.0, 0.99)
    aggregation: Literal["last", "mean"] = setting("last", "how a node's messages in a batch are aggregated")
    updater: Literal["gru", "rnn"] = setting("gru", "the cell that updates memories")
    embedding: Literal["attention", "projection", "memory"] = setting(
        "attention", "how a node is embedded from its memory"
    )
    message: Literal["memory", "attention"] = setting("memory", "what a message contains of the other node")

    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {
        "default": {},
        "fast": {"lr": 3e-4, "schedule": "one-cycle", "epochs": 25},  # a memory needs more steps than other systems
    }
    MEMORY: ClassVar[tuple[str, ...]] = ("batch_size", "neighbours", "dim")
    SEARCHED: ClassVar[dict[str, Any]] = PublishedSettings.SEARCHED | {
        "dim": [64, 100, 172],
        "neighbours": [5, 10, 20],
        "dropout": {"low": 0.0, "high": 0.5, "step": 0.1},
    }


@dataclass(frozen=True)
class JodieSettings(TgnSettings):
    """Settings of JODIE in its TGN form."""

    updater: Literal["gru", "rnn"] = "rnn"
    embedding: Literal["attention", "projection", "memory"] = "projection"

    MEMORY: ClassVar[tuple[str, ...]] = ("batch_size", "dim")


@dataclass(frozen=True)
class DyrepSettings(TgnSettings):
    """Settings of DyRep in its TGN form."""

    updater: Literal["gru", "rnn"] = "rnn"
    embedding: Literal["attention", "projection", "memory"] = "memory"
    message: Literal["memory", "attention"] = "attention"


# The batches of links that update memories, their messages, and the resulting versions of memories.


class BatchMessages(NamedTuple):
    """The messages of consecutive batches, grouped by the n versions that they produce."""

    nodes: Tensor  # [n] the receivers
    sender: Tensor  # [m] the other end of each link, as a position among the versions of its batch
    links: Tensor  # [m] positions in `MemoryBatches.events`
    gap: Tensor  # [m] time since the receiver's previous version, 0 without one; float64
    counts: Tensor | None  # [n] messages of each version; None if each has one

    def mean(self, values: Tensor) -> Tensor:
        """Averages over the messages of each version: [m, d] -> [n, d]."""
        if self.counts is None:
            return values
        return torch.segment_reduce(values, "mean", lengths=self.counts, axis=0, unsafe=True)


class MemoryBatches(Batches):
    """The past links of nodes, and the updates of memories by each batch; see `batch_ends`.

    Each batch produces a new version of the memory of every node in it. Versions are numbered by batch, then by node;
    the numbering depends only on the links.

    Args:
        versions: The most versions in a part of the stream, unless it is one batch.
    """

    def __init__(self, events: Events, system: NeuralSystem, versions: int) -> None:
        super().__init__(events, system)
        config: TgnSettings = system.config
        self._index(last=config.aggregation == "last")
        self.bounds = part_bounds(self.first_version, versions)  # of the parts that are replayed at once, in batches

    def version(self, nodes: Tensor, complete: Tensor) -> Tensor:
        """The latest version of each node's memory after the first `complete` batches; NONE if it has none."""
        if len(self._version_codes) == 0:
            return torch.full_like(nodes + complete, NONE)
        base = self.rows(nodes) * (len(self) + 1)
        at = torch.searchsorted(self._version_codes, base + complete) - 1
        exists = (at >= 0) & (self._version_codes[at.clamp(min=0)] >= base)
        return torch.where(exists, self._versions_by_node[at], NONE)

    def time_since(self, nodes: Tensor, t: Tensor, complete: Tensor) -> Tensor:
        """The time from the latest message of each node to t, 0 without one; float64."""
        version = self.version(nodes, complete)
        return torch.where(version == NONE, 0, t - self.latest[version]).double()

    def messages(self, first: int, last: int) -> BatchMessages:
        """The messages of batches first..last."""
        versions = slice(self.first_version[first], self.first_version[last])
        messages = slice(self._first_message[first], self._first_message[last])
        single = versions.stop - versions.start == messages.stop - messages.start
        sender, links, gap = (column[messages] for column in (self._sender, self._links_of_messages, self._gap))
        return BatchMessages(self.owner[versions], sender, links, gap, None if single else self._counts[versions])

    def _index(self, *, last: bool) -> None:
        """Group the messages of all batches by version; with `last`, only those at its latest time."""
        count = int(self.ends[-1]) if len(self.ends) else 0
        src, dst, t = (column[:count] for column in (self.events.src, self.events.dst, self.events.t))
        both = np.stack([np.ones(count, bool), src != dst], axis=1)  # a self-loop sends one message
        links = np.repeat(np.arange(count), both.sum(axis=1))
        receiver, sender = np.stack([src, dst], axis=1)[both], np.stack([dst, src], axis=1)[both]
        batch, stride = self.complete(links), self.num_nodes + 1
        order = np.argsort(batch * stride + receiver, kind="stable")  # by batch, receiver and time
        links, sender = links[order], (batch * stride + sender)[order]
        versions, first, counts = np.unique((batch * stride + receiver)[order], return_index=True, return_counts=True)
        latest = t[links[first + counts - 1]]
        version = np.repeat(np.arange(len(versions)), counts)  # the version of each message
        if last:
            kept = t[links] == latest[version]
            links, version, sender = links[kept], version[kept], sender[kept]
            counts = np.bincount(version, minlength=len(versions))
        batch, owner = np.divmod(versions, stride)
        bounds = np.arange(len(self) + 1)
        first_version = np.searchsorted(batch, bounds)
        self.first_version: list[int] = first_version.tolist()  # [batches + 1]
        self._first_message: list[int] = np.searchsorted(batch[version], bounds).tolist()
        codes = owner * (len(self) + 1) + batch
        by_node = np.argsort(codes)
        previous = np.full(len(versions), NONE)
        previous[by_node[1:]] = np.where(np.diff(owner[by_node]) == 0, by_node[:-1], NONE)
        gap = np.where(previous[version] == NONE, 0, t[links] - latest[previous[version]]) if count else np.empty(0)

        def tensor(array: Array) -> Tensor:
            return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)

        self.owner, self.previous, self._counts = tensor(owner), tensor(previous), tensor(counts)  # [versions]
        self.latest = tensor(np.append(latest, latest.dtype.type(0)))  # [versions + 1] times; 0 for NONE
        self._versions_by_node, self._version_codes = tensor(by_node), tensor(codes[by_node])
        self._links_of_messages, self._gap = tensor(links), tensor(gap.astype(np.float64))
        self._sender = tensor(np.searchsorted(versions, sender) - first_version[batch[version]])


def part_bounds(first_version: list[int], versions: int) -> list[int]:
    """Divides batches into parts of at most `versions` versions, or one batch: the bounds of at least one part."""
    starts, bounds = np.array(first_version), [0]
    while bounds[-1] < len(starts) - 1:
        end = int(np.searchsorted(starts, starts[bounds[-1]] + versions, side="right")) - 1
        bounds.append(max(end, bounds[-1] + 1))
    return bounds if len(bounds) > 1 else [0, 0]


# Message, updater, embedding and score.


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


# Storage of memories: in training the latest message of each node, in scoring all versions of a memory.


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


# Training and scoring.


class MemorySystem(BatchedSystem):
    """TGN, JODIE or DyRep, depending on the settings.

    In scoring, a part of the stream is several batches: all versions of memories in one part are stored at once, so
    that pairs at all times within it are scored together.
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

    def past(self, events: Events) -> MemoryBatches:
        return MemoryBatches(events, self, _VERSIONS)

    def first_state(self) -> State:
        return LatestMessages.initial(self.module, self._past_of(self.context.events))

    def add(self, past: MemoryBatches, state: State, number: int) -> None:
        LatestMessages(self.module, past, state).add(number)

    def training_logits(self, past: MemoryBatches, state: State, links: LinkBatch, complete: int) -> Tensor:
        nodes, read = torch.cat([links.src, links.dst, links.negative]), LatestMessages(self.module, past, state).read
        visible, done = past.before(links.t).repeat(3), torch.full_like(nodes, complete)
        h = self.module.embed(past, read, nodes, links.t.repeat(3), visible, done)  # [3B, dim]
        source, *destinations = h.chunk(3)  # [B, dim] each
        return self.module.score(source.repeat(2, 1), torch.cat(destinations)).squeeze(-1)  # type: ignore[no-any-return]

    def parts(self, past: MemoryBatches, visible: Array) -> npt.NDArray[np.int64]:
        return np.maximum(np.searchsorted(past.bounds, past.complete(visible)) - 1, 0)  # that ends with these batches

    def initial(self, past: MemoryBatches) -> State:
        return {"memory": torch.zeros(past.num_nodes + 1, self.config.dim, device=self.device)}

    def part(self, past: MemoryBatches, state: State, number: int) -> MemoryVersions:
        return MemoryVersions(self.module, past, state["memory"], *past.bounds[number : number + 2])

    def advance(self, part: MemoryVersions, state: State) -> None:
        state["memory"].copy_(part.after())

    def logits(self, part: MemoryVersions, src: Array, dst: Array, t: Array, visible: Array) -> Tensor:
        past, columns = part.stream, (np.append(src, dst), *np.tile([visible, part.stream.complete(visible)], 2))
        nodes, known, complete = (torch.from_numpy(column).to(self.device) for column in columns)
        now = torch.from_numpy(np.tile(t, 2)).to(self.device)
        some, place = distinct(nodes, now, known, complete)
        h = self.module.embed(past, part.read, nodes[some], now[some], known[some], complete[some])
        return self.module.score(*h[place].chunk(2)).squeeze(-1)  # type: ignore[no-any-return]


def gap_moments(train: Events) -> tuple[float, float]:
    """Mean and standard deviation of the time between a node's successive links; (0, 1) if no node has two."""
    nodes, t = np.concatenate([train.src, train.dst]), np.tile(train.t, 2)
    order = np.lexsort((t, nodes))
    gaps = np.diff(t[order])[np.diff(nodes[order]) == 0].astype(np.float64)
    return (float(gaps.mean()), float(gaps.std()) or 1.0) if len(gaps) else (0.0, 1.0)
