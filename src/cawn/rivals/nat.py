"""NAT (Luo & Li, LoG 2022): every node has small caches of its neighbours, and a pair is scored by joining them.

A node has a state vector, a cache of neighbours and a cache of neighbours of neighbours. An entry of a cache has a key
(the neighbour), the link that added it, and a vector that an RNN updates when the pair links again. A pair is scored
from all keys of its two nodes: in which of the caches each key occurs, and its vectors.

The caches are updated after each batch of links. A batch never splits a tie, so a score depends neither on the order of
rows nor on links at or after its time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from cawn.data.events import Events, by_first_appearance
from cawn.kernels import rng
from cawn.rivals.stream import BatchedSystem, Batches, State
from cawn.systems.base import Context
from cawn.systems.layers import Dropout, Merge, TimeEncoding
from cawn.systems.settings import PublishedSettings, setting
from cawn.systems.training import LinkBatch

Array = npt.NDArray[Any]

EMPTY = -1
CACHES = 6  # the node itself, its neighbours and their neighbours, for each node of a pair
_DRAWN = 1 << 13  # links whose replacements are drawn at once
LOG_PERIOD = 14.0  # log(1 + gap) of a gap as long as the training period


@dataclass(frozen=True)
class NATSettings(PublishedSettings):
    """Settings of NAT; the defaults are those its authors publish for a run on Wikipedia."""

    batch_size: int = setting(100, "also the number of links between updates of the caches")
    epochs: int = 50
    patience: int = 5

    neighbours: int = setting(32, "slots of the first cache", 1, 1 << 16)
    second_neighbours: int = setting(16, "slots of the second cache", 1, 1 << 16)
    replacement: float = setting(0.7, "alpha, the probability that a new key replaces another in its slot", 0, 1)
    dim: int = setting(72, "width of the state vectors", 1, 4096)
    entry_dim: int = setting(4, "width of the vector of an entry", 1, 4096)
    position_dim: int = setting(16, "width of the embedding of the set of caches that a key occurs in", 1, 4096)
    time_dim: int = setting(16, "width of the time encoding", 1, 4096)
    heads: int = setting(2, "attention heads", 1, 64)
    pooling: Literal["attention", "sum"] = setting("attention", "how the keys are pooled; the published code sums")
    dropout: float = setting(0.1, "dropout", 0, 0.95)

    MEMORY: ClassVar[tuple[str, ...]] = ("batch_size", "neighbours", "second_neighbours", "dim")
    SEARCHED: ClassVar[dict[str, Any]] = PublishedSettings.SEARCHED | {
        "dim": [36, 72, 144],
        "neighbours": [16, 32, 64],
        "second_neighbours": [8, 16, 32],
        "replacement": {"low": 0.5, "high": 1.0, "step": 0.1},
        "dropout": {"low": 0.0, "high": 0.5, "step": 0.1},
    }


class Caches(NamedTuple):
    """The state of all nodes. Slot 0 is for the node itself, followed by those of the first and of the second cache.

    There are two rows more than nodes: one that stays empty, for unknown nodes, and one for writes without effect.
    """

    own: Tensor  # [N + 2, dim] the state vectors of nodes, before their last link
    key: Tensor  # [N + 2, S] int64 node ids; EMPTY
    link: Tensor  # [N + 2, S] int64 positions of the links that added the entries; EMPTY
    vector: Tensor  # [N + 2, S, entry] vectors of entries, before that link
    winner: Tensor  # [(N + 2) * S] int64 scratch


class CacheView(NamedTuple):
    """The contents of the caches of B nodes, as read at t."""

    own: Tensor  # [B, dim]
    key: Tensor  # [B, S]
    link: Tensor  # [B, S]
    vector: Tensor  # [B, S, entry]


class NAT(nn.Module):
    """The RNNs of the caches, and the network on the joined caches of a pair."""

    def __init__(self, config: NATSettings, link: int, node: int) -> None:
        super().__init__()
        dim, entry = config.dim, config.entry_dim
        message = dim + config.time_dim + link
        self.time = TimeEncoding(config.time_dim, period=LOG_PERIOD)
        self.own_message, self.own_rnn = nn.Linear(message, dim, bias=False), nn.GRUCell(dim, dim)
        self.entry_message, self.entry_rnn = nn.Linear(message, entry, bias=False), nn.GRUCell(entry, entry)
        self.position = nn.Embedding(2**CACHES, config.position_dim)
        self.heads, self.pooling, self.dropout = config.heads, config.pooling, Dropout(config.dropout)
        self.value = nn.Linear(node + entry + config.position_dim, config.heads * dim)
        self.attention = nn.Linear(dim, 1, bias=False)
        self.out = Merge(dim, 2 * (dim + node), 3 * dim, 1)
        caches = torch.cat(
            [torch.full((n,), i) for i, n in enumerate((1, config.neighbours, config.second_neighbours))]
        )
        both = torch.cat([caches, caches + 3])  # the cache of every slot of u, then of v
        self.membership = nn.Buffer(nn.functional.one_hot(both, CACHES).float(), persistent=False)  # [2S, 6]
        self.bits = nn.Buffer(2.0 ** torch.arange(CACHES), persistent=False)

    def updated(self, vector: Tensor, message: Tensor, *, own: bool) -> Tensor:
        """Vectors [..., width] after a link with this message [..., dim + time + link]."""
        linear, rnn = (self.own_message, self.own_rnn) if own else (self.entry_message, self.entry_rnn)
        after: Tensor = rnn(linear(message).flatten(0, -2), vector.flatten(0, -2))
        return after.view_as(vector)

    def forward(self, u: CacheView, v: CacheView, features: Tensor | None, own_features: list[Tensor]) -> Tensor:
        """Logits [B] of pairs.

        Args:
            features: Node attributes of all keys of u, then of v [B, 2S, node].
            own_features: Node attributes of u and of v, if there are any [B, node] each.
        """
        key = torch.cat([u.key, v.key], dim=1)  # [B, 2S]
        vectors = torch.cat([u.vector, v.vector], dim=1)  # [B, 2S, entry]
        same = (key[:, :, None] == key[:, None, :]) & (key >= 0)[:, None, :]  # [B, 2S, 2S]
        first = (key >= 0) & ~same.tril(-1).any(dim=2)  # [B, 2S] each distinct key once
        joined = same.to(vectors.dtype) @ torch.cat([vectors, self.membership.expand(len(key), -1, -1)], dim=-1)
        code = (joined[..., -CACHES:] @ self.bits).long()  # [B, 2S] in which caches the key occurs
        parts = [joined[..., :-CACHES], self.position(code)]
        x = torch.cat(parts if features is None else [features, *parts], dim=-1)  # [B, 2S, node + entry + position]
        h = self.value(self.dropout(x)).view(*key.shape, self.heads, -1)  # [B, 2S, heads, dim]
        if self.pooling == "attention":
            scores = nn.functional.leaky_relu(self.attention(h), 0.2)  # [B, 2S, heads, 1]
            weights = scores.masked_fill(~first[..., None, None], -1e9).softmax(dim=1)
        else:
            weights = first[..., None, None].to(h.dtype)
        pooled = (weights * h).sum(dim=1).mean(dim=1)  # [B, dim]
        logits: Tensor = self.out(pooled, torch.cat([u.own, v.own, *own_features], dim=-1)).squeeze(-1)
        return logits


class CacheBatches(Batches):
    """Links in canonical order, in batches that do not split ties, and the slots of every node as a key.

    Slots are hashes of the order in which nodes first appear, so that renaming nodes changes nothing.
    """

    def __init__(self, events: Events, system: NATSystem) -> None:
        super().__init__(events, system)
        config, device = system.config, system.device
        src, dst = self.events.src.astype(np.int64), self.events.dst.astype(np.int64)
        self.both = torch.from_numpy(np.stack([src, dst], axis=1)).to(device)  # [E, 2]
        number = np.zeros(self.num_nodes, np.int64)
        nodes = np.stack([src, dst], axis=1).ravel()
        number[nodes] = by_first_appearance(nodes)
        hashes = rng.mix64(number.astype(np.uint64) ^ np.uint64(rng.mix64_int(system.seed)))
        self._seed, self._probability = rng.signed(rng.mix64_int(system.seed)), config.replacement
        self._candidates = 2 + config.neighbours  # for each node of a link
        self._drawn = 0, torch.zeros(0, self._candidates, dtype=torch.bool, device=device)
        sizes = config.neighbours, config.second_neighbours
        self.slots = [torch.from_numpy((hashes % np.uint64(size)).astype(np.int64)).to(device) for size in sizes]

    def replaces(self, start: int, stop: int) -> Tensor:
        """Whether the candidates of the links start..stop may replace another key: [2n, 2 + M], in the order u, v, ...

        This depends only on the link, the node and the candidate; drawn for many links at once.
        """
        first, drawn = self._drawn
        if not first <= start <= stop <= first + len(drawn) // 2:
            first = start
            ends = torch.arange(2 * start, 2 * max(stop, min(start + _DRAWN, len(self.events))), device=self.device)
            key = rng.mix64_tensor(ends ^ self._seed)  # [2n]
            counter = torch.arange(1, self._candidates + 1, device=self.device) * rng.signed(rng.GOLDEN)
            words: Tensor = rng.mix64_tensor(key[:, None] + counter)
            drawn = torch.as_tensor(rng.shift_right(words, 12)) < round(self._probability * 2**52)
            self._drawn = first, drawn
        return drawn[2 * (start - first) : 2 * (stop - first)]


class NATSystem(BatchedSystem):
    """NAT, with caches of the links of earlier batches; a part of the stream is a batch."""

    module: NAT
    pairs_per_pass = 1 << 10

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        config: NATSettings = context.config
        self.seed = rng.seed_for(context.seed, "caches")
        self.size = 1 + config.neighbours + config.second_neighbours  # S
        self.module = NAT(config, self.link_width, self.node_width).to(context.device)

    def past(self, events: Events) -> CacheBatches:
        return CacheBatches(events, self)

    def first_state(self) -> State:
        return self.initial(self._past_of(self.context.events))

    def training_logits(self, past: CacheBatches, state: State, links: LinkBatch, complete: int) -> Tensor:
        nodes, n = torch.cat([links.src, links.dst, links.negative]), len(links.src)
        whole = self.view(past, Caches(**state), nodes, links.t.repeat(3))  # of u, v, negative
        u = CacheView(*(torch.cat([column[:n], column[:n]]) for column in whole))
        return self.score(past, u, CacheView(*(column[n:] for column in whole)))  # [2n]

    def parts(self, past: CacheBatches, visible: Array) -> npt.NDArray[np.int64]:
        return past.complete(visible)

    def initial(self, past: CacheBatches) -> State:
        rows, S, config = past.num_nodes + 2, self.size, self.config
        none = torch.full((rows, S), EMPTY, device=self.device)
        own = torch.zeros(rows, config.dim, device=self.device)
        vector = torch.zeros(rows, S, config.entry_dim, device=self.device)
        return Caches(own, none, none.clone(), vector, none.flatten().clone())._asdict()

    def part(self, past: CacheBatches, state: State, number: int) -> tuple[CacheBatches, Caches, int]:
        return past, Caches(**state), number

    def advance(self, part: tuple[CacheBatches, Caches, int], state: State) -> None:
        self.add(part[0], state, part[2])

    @torch.no_grad()
    def add(self, past: CacheBatches, state: State, number: int) -> None:
        """Insert the links of a batch into the caches, which it reads as they were before it."""
        start = int(past.ends[number - 1]) if number else 0
        self._insert(past, Caches(**state), start, int(past.ends[number]))

    def logits(
        self, part: tuple[CacheBatches, Caches, int], src: Array, dst: Array, t: Array, visible: Array
    ) -> Tensor:
        past, caches, _ = part
        nodes, now = torch.from_numpy(np.concatenate([src, dst])), torch.from_numpy(np.tile(t, 2))
        whole = self.view(past, caches, nodes.to(self.device), now.to(self.device))
        u, v = (CacheView(*half) for half in zip(*(column.chunk(2) for column in whole), strict=True))
        return self.score(past, u, v)

    # The caches

    def view(self, stream: CacheBatches, caches: Caches, nodes: Tensor, t: Tensor) -> CacheView:
        """The vectors of nodes and of their entries at t, given the links inserted into the caches so far."""
        row = stream.rows(nodes)  # [B]
        key, link, vector = caches.key[row], caches.link[row], caches.vector[row]  # [B, S], [B, S], [B, S, entry]
        own = caches.own[row]  # [B, dim]
        if len(stream.t):
            exists = link >= 0
            gap = torch.where(exists, (t[:, None] - stream.t[link]).double() / self.unit, 0.0).clamp(min=0)
            code = self.module.time(torch.log1p(gap))  # [B, S, time]
            parts = [code, stream.attributes(link)]
            shared = torch.cat([part for part in parts if part is not None], dim=-1)  # [B, S, time + link]
            message = torch.cat([caches.own[key], shared], dim=-1)  # [B, S, dim + time + link]
            other = torch.where(exists[:, 0], stream.both[link[:, 0]].sum(dim=1) - row, stream.num_nodes)  # [B]
            own_message = torch.cat([caches.own[other], shared[:, 0]], dim=-1)  # [B, dim + time + link]
            vector = torch.where(exists[..., None], self.module.updated(vector, message, own=False), vector)
            own = torch.where(exists[:, :1], self.module.updated(own, own_message, own=True), own)
        key = torch.cat([nodes[:, None], key[:, 1:]], dim=1)  # every node is a key of its own
        return CacheView(own, key, link, vector)

    def score(self, stream: CacheBatches, u: CacheView, v: CacheView) -> Tensor:
        features = stream.features(torch.cat([u.key, v.key], dim=1))
        own = [] if features is None else [features[:, 0], features[:, self.size]]
        logits: Tensor = self.module(u, v, features, own)
        return logits

    def _insert(self, stream: CacheBatches, caches: Caches, start: int, stop: int) -> None:
        """Insert the links start..stop into the caches of both of their nodes.

        If there are several candidates for one slot, that of the last link wins.
        """
        n, M, S = stop - start, self.config.neighbours, self.size
        owner, other = stream.both[start:stop].flatten(), stream.both[start:stop].flip(1).flatten()  # [2n], by link
        link = torch.arange(start, stop, device=self.device).repeat_interleave(2)
        before = self.view(stream, caches, owner, stream.t[link])  # of u, v, u, v, ...
        firsts = [column[:, 1 : 1 + M] for column in (before.key, before.link, before.vector)]
        of_other = [column.reshape(n, 2, *column.shape[1:]).flip(1).flatten(0, 1) for column in firsts]  # v, u, v, u

        first_slot = 1 + stream.slots[0][other]  # [2n]
        known = before.key.gather(1, first_slot[:, None]).squeeze(1) == other
        vector = before.vector[torch.arange(2 * n, device=self.device), first_slot] * known[:, None]
        second_key, second_link, second_vector = of_other  # [2n, M] the neighbours of the other node
        second_slot = 1 + M + stream.slots[1][second_key.clamp(min=0)]

        # Candidates [2n, 2 + M]: the node itself, its neighbour, the neighbours of that neighbour.
        slot = torch.cat([torch.zeros_like(first_slot)[:, None], first_slot[:, None], second_slot], dim=1)
        key = torch.cat([owner[:, None], other[:, None], second_key], dim=1)
        links = torch.cat([link[:, None], link[:, None], second_link], dim=1)
        vectors = torch.cat([before.vector[:, :1], vector[:, None], second_vector], dim=1)

        place = owner[:, None] * S + slot  # [2n, 2 + M]
        occupied = caches.key.flatten()[place]
        free = (occupied < 0) | (occupied == key)
        enters = (key >= 0) & (free | stream.replaces(start, stop))
        order = torch.arange(place.numel(), device=self.device).view_as(place)
        nowhere = (stream.num_nodes + 1) * S
        place = torch.where(enters, place, nowhere)
        caches.winner[place] = -1
        caches.winner.scatter_reduce_(0, place.flatten(), order.flatten(), "amax")
        place = torch.where(caches.winner[place] == order, place, nowhere)
        caches.key.view(-1)[place] = key
        caches.link.view(-1)[place] = links
        caches.vector.view(-1, caches.vector.shape[2])[place] = vectors
        caches.own[place[:, 0] // S] = before.own
