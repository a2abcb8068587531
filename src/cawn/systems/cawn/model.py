"""The whole CAW-N on one page: Section 4 of the paper in its own order and with its own symbols.

The walks of B pairs come as trees of distinct prefixes (see `prefixes`), n_i of them at depth i. Identical walks are
encoded once and pooled by how many there are, which changes nothing but the time it takes. d is `config.dim`, k the
number of frequencies, K the number of distinct count vectors g in the batch, L = m + 1, B the number of pairs.
`fused` computes the same network on a GPU, from walks in fixed shapes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from cawn.kernels.cpu.lstm_step import LstmStep
from cawn.systems.base import symmetric
from cawn.systems.cawn.batches import Batch, Level
from cawn.systems.cawn.config import Config
from cawn.walks.rates import pair_width

_PATHS_AT_ONCE = 32_768  # through the transformer; attention on a GPU takes 65,535 at most
_DECADES = 6  # the frequencies of f2 reach from one period in a time unit to one in a million of them


@dataclass(frozen=True, slots=True)
class Tensors:
    """A batch (see `batches`) on the device of the network."""

    num_pairs: int
    g: Tensor  # [K, L or 3L]
    levels: list[Level[Tensor]]
    rates: Tensor  # [B, R]

    @classmethod
    def of(cls, batch: Batch, device: torch.device | str) -> Tensors:
        def tensor(array: Any) -> Tensor:
            return torch.from_numpy(array).to(device)

        levels = [Level(*(tensor(getattr(level, name)) for name in Level.__slots__)) for level in batch.levels]
        return cls(batch.num_pairs, tensor(batch.g), levels, tensor(batch.rates))


class CountEncoder(nn.Module):
    """f1: MLP(g(w, S_u)) + MLP(g(w, S_v)), one MLP for both sides.

    With the sides apart, a node's own walk set and the other one have an MLP each. What follows is linear, so its
    matrix is applied to the K different vectors rather than to all n prefixes.
    """

    def __init__(self, config: Config, width: int) -> None:
        super().__init__()
        inputs = (config.length + 1) * (3 if config.logarithms else 1)
        self.mlps = nn.ModuleList(
            nn.Sequential(
                nn.Linear(inputs, config.dim), nn.ReLU(), nn.Dropout(config.dropout), nn.Linear(config.dim, config.dim)
            )
            for _ in range(1 if config.sides == "together" else 2)
        )
        self.project = nn.Linear(config.dim, width, bias=False)

    def forward(self, g: Tensor) -> tuple[Tensor, Tensor]:
        tables = [self.project(mlp(g)) for mlp in self.mlps]  # [K, width] each
        return tables[0], tables[-1]


class TimeEncoder(nn.Module):
    """f2: cos and sin of omega (t_{i-1} - t_i), omega learnable."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.omega = nn.Parameter(2 * math.pi * 10 ** -torch.linspace(0, _DECADES, config.frequencies))
        self.width = 2 * config.frequencies

    def forward(self, elapsed: Tensor) -> Tensor:
        phase = elapsed[:, None] * self.omega  # [n, k]
        return torch.cat([phase.cos(), phase.sin()], dim=-1)  # [n, 2k]


class PositionEncoder(nn.Module):
    """What one position of a walk gives to the walk's encoder: W (f1(I_CAW(w_i)) ⊕ f2(t_{i-1} - t_i) ⊕ X_i).

    W falls into two parts: that of f1 is applied to the few different identities, as tables; that of f2 and X to all.
    """

    def __init__(self, config: Config, x_width: int, width: int) -> None:
        super().__init__()
        self.identity = config.identity
        if config.identity == "caw":
            self.f1 = CountEncoder(config, width)
        elif config.identity == "aw":
            self.one_hot = nn.Embedding(config.length + 2, width)
        self.bias = nn.Parameter(torch.zeros(1, width))
        self.f2 = TimeEncoder(config) if config.time else None
        self.from_features = nn.Linear(max((self.f2.width if self.f2 else 0) + x_width, 1), width, bias=False)

    def tables(self, batch: Tensors) -> tuple[Tensor, Tensor]:
        """What `own` and `other` of a prefix stand for: [K, width] each."""
        if self.identity == "caw":
            own, other = self.f1(batch.g)
            return own + self.bias, other
        own = self.one_hot.weight + self.bias if self.identity == "aw" else self.bias
        return own, own[:0]

    def features(self, level: Level[Tensor]) -> Tensor:
        """f2 ⊕ X, or a zero where there is neither: [n_i, f]."""
        if self.f2 is not None:
            return torch.cat([self.f2(level.elapsed), level.x], dim=-1)
        return level.x if level.x.shape[1] else level.weight.new_zeros(len(level.owner), 1)

    def forward(self, batch: Tensors) -> list[Tensor]:
        tables = self.tables(batch)
        return [self.sum(level, self.features(level), *tables) for level in batch.levels]

    def sum(self, level: Level[Tensor], features: Tensor, own: Tensor, other: Tensor) -> Tensor:
        """Both parts together: [n_i, width]."""
        z: Tensor = self.from_features(features)
        if self.identity == "caw":
            return z + embedding(level.own, own) + embedding(level.other, other)
        if len(own) == 1:
            return z + own
        chosen = level.own[:, None] == torch.arange(len(own), device=own.device)  # [n_i, K]
        return z + chosen.to(own.dtype) @ own  # few rows: a product, whose gradient needs no sorting


class RecurrentWalks(nn.Module):
    """enc(W) = RNN(positions): one step of an LSTM or GRU for each depth, continuing the state of the parent."""

    def __init__(self, config: Config, x_width: int) -> None:
        super().__init__()
        gates = {"lstm": 4, "gru": 3}[config.rnn]
        self.position = PositionEncoder(config, x_width, gates * config.dim)
        self.from_state = nn.Linear(config.dim, gates * config.dim, bias=False)
        self.rnn = config.rnn
        self.dropout = nn.Dropout(config.dropout if config.dropout_at == "walks" else 0.0)

    def forward(self, batch: Tensors) -> list[Tensor]:
        own, other = self.position.tables(batch)
        h = c = own.new_empty(0, self.from_state.in_features)  # nothing before the first position
        states = []
        for level in batch.levels:
            past = self.from_state(h)  # [n_{i-1}, gates * d]
            features = self.position.features(level)
            if self.rnn == "lstm" and features.device.type == "cpu":
                weight = self.position.from_features.weight
                index = (level.own, level.other, level.parent, level.owner)
                h, c = LstmStep.apply(features, weight, own, other, past, c, *index)  # type: ignore[no-untyped-call]
            else:
                z = self.position.sum(level, features, own, other)
                if len(past):
                    past, h, c = (embedding(level.parent, before) for before in (past, h, c))
                h, c = (lstm if self.rnn == "lstm" else gru)(z, past, h, c)  # [n_i, d] each
            states.append(self.dropout(h))
        return states


def lstm(z: Tensor, past: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """Gates from the position z and the state before it; `past`, h and c are empty for the first position."""
    i, f, o, new = (z + past if len(past) else z).chunk(4, dim=-1)
    kept = f.sigmoid() * c if len(past) else 0
    c = i.sigmoid() * new.tanh() + kept
    return o.sigmoid() * c.tanh(), c


def gru(z: Tensor, past: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """Likewise; c is not used."""
    r, u, new = z.chunk(3, dim=-1)
    if len(past) == 0:
        h = (1 - u.sigmoid()) * new.tanh()
    else:
        from_r, from_u, from_new = past.chunk(3, dim=-1)
        u = (u + from_u).sigmoid()
        h = u * h + (1 - u) * (new + (r + from_r).sigmoid() * from_new).tanh()
    return h, h


class AttentiveWalks(nn.Module):
    """enc(W) by a transformer layer over the positions of a walk, read at its last."""

    def __init__(self, config: Config, x_width: int) -> None:
        super().__init__()
        d = config.dim
        self.position = PositionEncoder(config, x_width, d)
        self.place = nn.Embedding(config.length + 1, d)
        heads = next(h for h in (4, 2, 1) if d % h == 0)
        self.layer = nn.TransformerEncoderLayer(d, heads, 2 * d, config.dropout, batch_first=True)

    def forward(self, batch: Tensors) -> list[Tensor]:
        path: Tensor | None = None
        states = []
        for i, (level, z) in enumerate(zip(batch.levels, self.position(batch), strict=True)):
            here = (z + self.place.weight[i])[:, None]  # [n_i, 1, d]
            path = here if path is None else torch.cat([path[level.parent], here], dim=1)  # [n_i, i + 1, d]
            states.append(torch.cat([self.layer(some)[:, -1] for some in path.split(_PATHS_AT_ONCE)]))
        return states


class SelfAttention(nn.Module):
    """Self-Att-AGG: each walk replaced by softmax({enc_i^T Q1 enc_j}_j) enc_j Q2, then the mean, over one walk set.

    n different walks stand for all M: a walk that occurs m_j times has log m_j added to its score, and counts m_i
    times in the mean, which is the same.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.q1 = nn.Linear(config.dim, config.dim, bias=False)
        self.q2 = nn.Linear(config.dim, config.dim, bias=False)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, walks: Tensor) -> Tensor:
        """All walks of each set, one by one: [sets, n, d] to [sets, d]."""
        scores = self.q1(walks) @ walks.transpose(1, 2) / math.sqrt(walks.shape[-1])  # [sets, n, n]
        mixed: Tensor = self.dropout(scores.softmax(dim=-1)) @ self.q2(walks)  # [sets, n, d]
        return mixed.mean(dim=1)

    def of_different(self, enc: Tensor, weight: Tensor, owner: Tensor, num_sets: int) -> Tensor:
        """The different walks of all sets together, [n, d] to [sets, d]; see above."""
        kept = weight > 0
        enc, weight, owner = enc[kept], weight[kept], owner[kept]
        order = owner.argsort(stable=True)
        enc, weight, owner = enc[order], weight[order], owner[order]
        sizes = torch.bincount(owner, minlength=num_sets)
        place = torch.arange(len(owner), device=owner.device) - (sizes.cumsum(0) - sizes)[owner]
        n = int(sizes.max())
        walks = enc.new_zeros(num_sets, n, enc.shape[-1])
        walks[owner, place] = enc  # [sets, n, d]
        share = weight.new_zeros(num_sets, n)
        share[owner, place] = weight  # [sets, n]
        scores = self.q1(walks) @ walks.transpose(1, 2) / math.sqrt(walks.shape[-1])  # [sets, n, n]
        attention = (scores + share.log()[:, None, :]).softmax(dim=-1)
        mixed = self.dropout(attention) @ self.q2(walks)  # [sets, n, d]
        mean: Tensor = (mixed * share[..., None]).sum(dim=1) / share.sum(dim=1, keepdim=True)
        return torch.where(sizes[:, None] > 0, mean, 0)  # a set can be empty where walks are left out to explain


class CAWN(nn.Module):
    """The logit that u and v link at time t, for each pair of a batch."""

    products: torch.dtype | None = None  # of the matrix products on a GPU; see `encoder.best_dtype`

    def __init__(self, config: Config, x_width: int = 0, rates_width: int = 0) -> None:
        super().__init__()
        self.config = config
        d = config.dim
        self.walks = (AttentiveWalks if config.rnn == "transformer" else RecurrentWalks)(config, x_width)
        self.attention = SelfAttention(config) if config.pooling == "attention" else None
        self.dropout = nn.Dropout(config.dropout if config.dropout_at == "pairs" else 0.0)
        self.from_rates = nn.Sequential(nn.Linear(rates_width, d), nn.ReLU()) if config.rates else None
        self.width = d * ((1 if config.sides == "together" else 2) + config.rates)
        deep = [nn.Linear(self.width, d), nn.ReLU(), nn.Dropout(config.dropout), nn.Linear(d, 1)]
        self.head = nn.Sequential(*deep) if config.head == "mlp" else nn.Linear(self.width, 1)

    def forward(self, batch: Batch | Tensors) -> Tensor:
        logits: Tensor = self.head(self.embed(batch)).squeeze(-1)  # [B]
        return logits

    def embed(self, batch: Batch | Tensors) -> Tensor:
        """The embedding of each pair: [B, width]."""
        if isinstance(batch, Batch):
            batch = Tensors.of(batch, next(self.parameters()).device)
        return self.join(self.pool(batch), batch.rates)

    def join(self, pooled: Tensor, rates: Tensor) -> Tensor:
        """enc(S_u ∪ S_v), or enc(S_u) ⊕ enc(S_v) with the sides apart, ⊕ the encoded rates: [B, width].

        Args:
            pooled: [2B, d] in the order u, v, u, v, ...; or [B, d] with the sides together.
            rates: [B, R]
        """
        pooled = torch.reshape(pooled, (len(rates), -1))
        if self.config.sides == "symmetric":
            pooled = symmetric(pooled, 0)
            rates = symmetric(rates, pair_width(rates.shape[1])) if self.from_rates is not None else rates
        pooled = self.dropout(pooled)
        return pooled if self.from_rates is None else torch.cat([pooled, self.from_rates(rates)], dim=-1)

    def pool(self, batch: Tensors) -> Tensor:
        """Different prefixes, each encoded once and counted as often as it occurs: [2B, d], or [B, d] together."""
        states = self.walks(batch)
        apart = self.config.sides != "together"
        num_sets = batch.num_pairs * (2 if apart else 1)
        sets = [level.owner if apart else level.owner >> 1 for level in batch.levels]
        weights = [level.weight if apart else level.weight / 2 for level in batch.levels]
        if self.attention is not None:
            pooled: Tensor = self.attention.of_different(
                torch.cat(states), torch.cat(weights), torch.cat(sets), num_sets
            )
            return pooled
        pooled = states[0].new_zeros(num_sets, self.config.dim)
        for h, weight, owner in zip(states, weights, sets, strict=True):
            pooled = pooled.index_add(0, owner, h * weight[:, None])
        return pooled
