"""CAW-N on one page: Section 4 of the paper, in its order and with its symbols.

A batch has B pairs (u, v) at times t_0, with the walks S_u and S_v: M walks of m steps each, L = m + 1 positions. Many
walks begin alike, so they come as trees of their distinct prefixes, one level for each depth i = 0, ..., m. A prefix is
encoded once and weighted by its number of walks, which changes nothing but the time it takes. Of the n prefixes of a
level are known:

    parent [n]       the prefix that each continues, a row of the level above
    own, other [n]   g(w_i, S) in its own walk set and in that of the other side, as rows of `batch.vectors` [K, L]
    elapsed [n]      t_{i-1} - t_i
    x [n, f]         X_i: attributes of link and node, the link's direction, further features
    owner [p]        the walk set that it belongs to: 2b for S_u of pair b, 2b + 1 for S_v
    weight [p]       the share of the walks of that set that end with it
    row [p]          the prefix that p is about, if pairs have prefixes in common; else None, and p = n

d is `config.dim`. Other parts, as in the authors' code, are in `variants`; `fused` applies the same weights on a GPU.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, embedding_bag

from cawn.caw.config import Config
from cawn.caw.features import Batch
from cawn.caw.kernels.lstm import LstmStep
from cawn.caw.pooling import AttentivePooling
from cawn.systems.base import symmetric, symmetric_features
from cawn.systems.layers import row_dropout
from cawn.systems.ranks import RowDropout
from cawn.walks.kernels.prefixes import Level

_DECADES = 6  # the periods of f2 range from one time unit to a million


class CountEncoder(nn.Module):
    """f1(I_CAW(w)) = MLP(g(w, S_u)) + MLP(g(w, S_v)), for the K distinct vectors g; one MLP for both sides.

    With separate sides, there is one MLP for a walk's own set and one for the other set. The layer W that follows is
    linear, so it is applied here, to the K vectors rather than to all n prefixes.
    """

    def __init__(self, config: Config, width: int) -> None:
        super().__init__()
        d, self.logarithms = config.dim, config.logarithms
        inputs = (config.length + 1) * (3 if config.logarithms else 1)
        self.mlps = nn.ModuleList(
            nn.Sequential(nn.Linear(inputs, d), nn.ReLU(), nn.Dropout(config.dropout), nn.Linear(d, d))
            for _ in range(1 if config.sides == "joint" else 2)
        )
        self.project = nn.Linear(d, width, bias=False)

    def tables(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """W MLP(g) of the own and of the other side: [K, width] each."""
        counts, M = batch.vectors.float(), batch.num_walks
        g = counts / M  # [K, L]
        if self.logarithms:
            g = torch.cat([g, counts.log1p() / math.log1p(M), (counts > 0).float()], dim=1)  # [K, 3L]
        tables = [self.project(self._encode(mlp, g, batch.vectors)) for mlp in self.mlps]  # [K, width] each
        return tables[0], tables[-1]

    def _encode(self, mlp: Any, g: Tensor, vectors: Tensor) -> Tensor:
        linear, relu, dropout, last = mlp
        hidden = row_dropout(relu(linear(g)), vectors, dropout)  # [K, d]; does not depend on the rest of the batch
        encoded: Tensor = last(hidden)
        return encoded

    def rows(self, level: Level) -> tuple[Tensor, Tensor]:
        """The rows of the two tables for each prefix: [n] each."""
        return level.own, level.other

    def forward(self, level: Level, own: Tensor, other: Tensor) -> Tensor:
        """W f1 of each prefix, given the tables: [n, width]."""
        return embedding(level.own, own) + embedding(level.other, other)


class TimeEncoder(nn.Module):
    """f2(t_{i-1} - t_i): cos and sin of omega_k (t_{i-1} - t_i), omega learnable, one for each of k frequencies."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.omega = nn.Parameter(2 * math.pi * 10 ** -torch.linspace(0, _DECADES, config.frequencies))
        self.width = 2 * config.frequencies

    def forward(self, elapsed: Tensor) -> Tensor:
        phase = elapsed[:, None] * self.omega  # [n, k]
        return torch.cat([phase.cos(), phase.sin()], dim=-1)  # [n, 2k]


class PositionEncoder(nn.Module):
    """The input of the walk encoder at one position: W (f1(I_CAW(w_i)) ⊕ f2(t_{i-1} - t_i) ⊕ X_i) + b."""

    def __init__(self, f1: Any, f2: Any, x_width: int, width: int, time: str = "elapsed") -> None:
        super().__init__()
        self.f1, self.f2, self.time = f1, f2, time  # f2 of this column of a level; or None
        self.bias = nn.Parameter(torch.zeros(1, width))
        self.from_features = nn.Linear(max((0 if f2 is None else f2.width) + x_width, 1), width, bias=False)

    def tables(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The two tables of f1, to one of which b is added: [K, width] each."""
        own, other = self.f1.tables(batch)
        return own + self.bias, other

    def features(self, level: Level) -> Tensor:
        """f2 ⊕ X, or a zero if there is neither: [n, f]."""
        if self.f2 is not None:
            return torch.cat([self.f2(getattr(level, self.time)), level.x], dim=-1)
        return level.x if level.x.shape[1] else level.x.new_zeros(len(level.x), 1)  # type: ignore[no-any-return]

    def forward(self, level: Level, own: Tensor, other: Tensor) -> Tensor:
        """All positions of one depth, given the tables: [n, width]."""
        z: Tensor = self.from_features(self.features(level)) + self.f1(level, own, other)
        return z


class RecurrentWalks(nn.Module):
    """enc(W) = RNN(positions): a step of an LSTM per depth, from the state of the parent prefix."""

    def __init__(self, config: Config, position: PositionEncoder) -> None:
        super().__init__()
        self.position = position  # of width 4d: W is also the input weight of the LSTM
        self.from_state = nn.Linear(config.dim, 4 * config.dim, bias=False)
        self.dropout = nn.Dropout(config.dropout if config.dropout_at == "walks" else 0.0)

    def forward(self, batch: Batch) -> list[Tensor]:
        """The state after each prefix, by depth: [n, d] each."""
        own, other = self.position.tables(batch)
        h = c = own.new_empty(0, self.from_state.in_features)  # no state before the first position
        states = []
        for level in batch.levels:
            past = self.from_state(h)  # [n of the level above, 4d]
            if own.device.type == "cpu":  # the same in one compiled loop
                features, weight = self.position.features(level), self.position.from_features.weight
                index = *self.position.f1.rows(level), level.parent, level.owner
                h, c = LstmStep.apply(features, weight, own, other, past, c, *index)  # type: ignore[no-untyped-call]
            else:
                h, c = lstm(self.position(level, own, other), past, c, level.parent)
            states.append(self.dropout(h))
        return states


def lstm(z: Tensor, past: Tensor, c: Tensor, parent: Tensor) -> tuple[Tensor, Tensor]:
    """The new h and c [n, d] from positions z [n, 4d] and the states above; the first step has none."""
    i, f, o, new = (z + embedding(parent, past) if len(past) else z).chunk(4, dim=-1)  # [n, d] each
    c = i.sigmoid() * new.tanh() + (f.sigmoid() * embedding(parent, c) if len(past) else 0)
    return o.sigmoid() * c.tanh(), c


class SelfAttention(AttentivePooling):
    """Self-Att-AGG: the mean over i of sum_j softmax_j(enc(W_i)^T Q1 enc(W_j)) enc(W_j) Q2."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.q1 = nn.Linear(config.dim, config.dim, bias=False)
        self.q2 = nn.Linear(config.dim, config.dim, bias=False)
        self.dropout = nn.Dropout(config.dropout)

    def mix(self, walks: Tensor, log_weight: Tensor | None) -> Tensor:
        """The sums for all i of each set: [sets, n, d]; log m_j is added to the scores if walk j occurs m_j times."""
        scores = self.q1(walks) @ walks.transpose(1, 2) / math.sqrt(walks.shape[-1])  # [sets, n, n]
        if log_weight is not None:
            scores = scores + log_weight[:, None, :]
        mixed: Tensor = self.dropout(scores.softmax(dim=-1)) @ self.q2(walks)  # [sets, n, d]
        return mixed


class CAWN(nn.Module):
    """The logit that u and v link at time t_0, for each pair: a two-layer perceptron on enc(S_u ∪ S_v).

    Args:
        walks: Encodes each prefix: `RecurrentWalks`, or a variant.
        attention: `SelfAttention` or a variant; None for Mean-AGG.
        pair_width: Number of exact features of a pair, which are not in the paper; 0 for none.
    """

    matmul_dtype: torch.dtype | None = None  # on a GPU; None for `fused.best_dtype`

    def __init__(self, config: Config, walks: Any, attention: AttentivePooling | None, pair_width: int) -> None:
        super().__init__()
        self.config, d, sides = config, config.dim, 1 if config.sides == "joint" else 2
        self.walks, self.attention = walks, attention
        self.dropout = RowDropout(config.dropout if config.dropout_at == "pairs" else 0.0)
        self.from_pair = nn.Sequential(nn.Linear(pair_width, d), nn.ReLU()) if pair_width else None
        self.width = d * (sides + (pair_width > 0))
        deep = [nn.Linear(self.width, d), nn.ReLU(), RowDropout(config.dropout), nn.Linear(d, 1)]
        self.head = nn.Sequential(*deep) if config.head == "mlp" else nn.Linear(self.width, 1)

    def forward(self, batch: Batch) -> Tensor:
        logits: Tensor = self.head(self.embed(batch)).squeeze(-1)  # [B]
        return logits

    def embed(self, batch: Batch) -> Tensor:
        """The embedding of each pair: [B, width]."""
        batch = batch.to(self.walks.position.bias.device)
        return self.join(self.pool(batch), batch.pair_features)

    def pool(self, batch: Batch) -> Tensor:
        """Encode each distinct prefix, and pool the walks of each set: [2B, d], or [B, d] with joint sides."""
        levels, states = batch.levels, self.walks(batch)  # [n, d] of each level
        num_sets, sets, weights = self._sets(batch)
        if self.attention is not None:
            enc = torch.cat([h if level.row is None else h[level.row] for h, level in zip(states, levels, strict=True)])
            return self.attention.weighted(enc, torch.cat(weights), torch.cat(sets), num_sets)
        pooled: Tensor = states[0].new_zeros(num_sets, self.config.dim)  # Mean-AGG: 1/M sum_i enc(W_i)
        for h, weight, owner, level in zip(states, weights, sets, levels, strict=True):
            if level.row is None:
                pooled = pooled.index_add(0, owner, h * weight[:, None])
            else:
                first = torch.searchsorted(owner, torch.arange(num_sets, device=owner.device))
                pooled = pooled + embedding_bag(level.row, h, first, mode="sum", per_sample_weights=weight)
        return pooled

    def pooling_terms(self, batch: Batch) -> Tensor:
        """What the walks that end at each prefix add to `pool`, where no pairs share prefixes: [all n, d]."""
        states = torch.cat(self.walks(batch))
        num_sets, sets, weights = self._sets(batch)
        weight = torch.cat(weights)
        if self.attention is not None:
            return self.attention.weighted_terms(states, weight, torch.cat(sets), num_sets)
        return states * weight[:, None]

    def _sets(self, batch: Batch) -> tuple[int, list[Tensor], list[Tensor]]:
        """The number of walk sets; of each level, the set of each prefix, and the share of its walks that end there."""
        joint, levels = self.config.sides == "joint", batch.levels  # joint: S_u ∪ S_v is one set
        sets = [level.owner >> 1 if joint else level.owner for level in levels]
        weights = [level.weight / 2 if joint else level.weight for level in levels]
        return batch.num_pairs if joint else 2 * batch.num_pairs, sets, weights

    def join(self, pooled: Tensor, pair_features: Tensor) -> Tensor:
        """enc(S_u ∪ S_v), or enc(S_u) ⊕ enc(S_v) with separate sides, ⊕ the encoded pair features: [B, width]."""
        pooled, features = self.join_sides(pooled), self.encode_features(pair_features)
        return pooled if features is None else torch.cat([pooled, features], dim=-1)

    def join_sides(self, pooled: Tensor) -> Tensor:
        """The pooled walks of both sides, which come in the order u, v, u, v, ...: [B, d] or [B, 2d]."""
        if self.config.sides != "joint":
            pooled = pooled.reshape(-1, 2 * self.config.dim)
        return self.dropout(symmetric(pooled, 0) if self.config.sides == "symmetric" else pooled)  # type: ignore[no-any-return]

    def encode_features(self, pair_features: Tensor) -> Tensor | None:
        """The encoded exact features of pairs: [B, d]; None for a model without them."""
        if self.from_pair is None:
            return None
        if self.config.sides == "symmetric":
            pair_features = symmetric_features(pair_features, self.config.pair_parts, self.config.num_decays)
        return self.from_pair(pair_features)  # type: ignore[no-any-return]
