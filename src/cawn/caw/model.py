"""CAW-N on one page: Section 4 of the paper, in its order and with its symbols.

The walks of B pairs come as trees of distinct prefixes (see `features.Batch`), n_i of them at depth i. Identical walks
are encoded once and weighted by their number when they are pooled, which changes nothing but the time it takes.
d is `config.dim`, k the number of frequencies, K the number of distinct count vectors in the batch, L = m + 1.
Self-Att-AGG is in `attention`, and the authors' own walk encoder in `bidirectional`; `fused` applies the same
parameters on a GPU, to walks in fixed shapes.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, embedding_bag

from cawn.caw.attention import AttentiveWalks, pooling_layer
from cawn.caw.bidirectional import BidirectionalWalks
from cawn.caw.config import Config
from cawn.caw.features import Batch
from cawn.caw.kernels.lstm import LstmStep
from cawn.systems.base import symmetric, symmetric_features
from cawn.systems.layers import TimeEncoding, hashed_dropout, row_keys
from cawn.systems.ranks import RowDropout
from cawn.walks.kernels.prefixes import Level

_DECADES = 6  # the periods of f2 range from one time unit to a million


class CountEncoder(nn.Module):
    """f1: MLP(g(w, S_u)) + MLP(g(w, S_v)), one MLP for both sides.

    With separate sides, there is one MLP for a walk's own set and one for the other set. The layer that follows is
    linear, so it is applied to the K distinct vectors rather than to all n prefixes.

    On a CPU, dropout in the MLPs is a hash of the vector, so that it does not depend on the other pairs of the batch.
    """

    def __init__(self, config: Config, width: int) -> None:
        super().__init__()
        self.logarithms = config.logarithms
        inputs = (config.length + 1) * (3 if config.logarithms else 1)
        self.mlps = nn.ModuleList(
            nn.Sequential(
                nn.Linear(inputs, config.dim), nn.ReLU(), nn.Dropout(config.dropout), nn.Linear(config.dim, config.dim)
            )
            for _ in range(1 if config.sides == "joint" else 2)
        )
        self.project = nn.Linear(config.dim, width, bias=False)

    def forward(self, vectors: Tensor, num_walks: int) -> tuple[Tensor, Tensor]:
        counts = vectors.float()
        g = counts / num_walks  # [K, L]
        if self.logarithms:
            g = torch.cat([g, counts.log1p() / math.log1p(num_walks), (counts > 0).float()], dim=1)  # [K, 3L]
        tables = [self.project(self._encode(mlp, g, vectors)) for mlp in self.mlps]  # [K, width] each
        return tables[0], tables[-1]

    def _encode(self, mlp: Any, g: Tensor, vectors: Tensor) -> Tensor:
        linear, relu, dropout, last = mlp
        hidden = relu(linear(g))  # [K, d]
        if self.training and dropout.p > 0 and vectors.device.type == "cpu":
            keys = row_keys(vectors.numpy(), int(torch.randint(1 << 62, ())))
            hidden = hashed_dropout(hidden, keys, dropout.p)
        else:
            hidden = dropout(hidden)
        encoded: Tensor = last(hidden)
        return encoded


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
    """The input of the walk encoder at one position: W (f1(I_CAW(w_i)) ⊕ f2(t_{i-1} - t_i) ⊕ X_i).

    W is split in two: the part for f1 is applied to the few distinct identities, which gives tables; the part for f2
    and X is applied to every position.
    """

    def __init__(self, config: Config, x_width: int, width: int) -> None:
        super().__init__()
        self.identity = config.identity
        if config.identity == "caw":
            self.f1 = CountEncoder(config, width)
        elif config.identity == "aw":
            self.one_hot = nn.Embedding(config.length + 2, width)
        self.bias = nn.Parameter(torch.zeros(1, width))
        self.time_code = config.time_code
        f2: Any = TimeEncoder(config) if config.time_code == "elapsed" else TimeEncoding(config.frequencies)
        self.f2 = f2 if config.time else None
        self.from_features = nn.Linear(max((f2.width if config.time else 0) + x_width, 1), width, bias=False)

    def tables(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The two tables of identities: [K, width] each; the second is empty unless the identity is I_CAW."""
        if self.identity == "caw":
            own, other = self.f1(batch.vectors, batch.num_walks)
            return own + self.bias, other
        own = self.one_hot.weight + self.bias if self.identity == "aw" else self.bias
        return own, own[:0]

    def rows(self, level: Level) -> tuple[Tensor, Tensor]:
        """The rows of the two tables for each prefix: [n_i] each."""
        if self.identity == "caw":
            return level.own, level.other
        return (level.order if self.identity == "aw" else torch.zeros_like(level.own)), level.other

    def features(self, level: Level) -> Tensor:
        """f2 ⊕ X, or a zero if there is neither: [n_i, f]."""
        if self.f2 is not None:
            return torch.cat([self.f2(getattr(level, self.time_code)), level.x], dim=-1)
        return level.x if level.x.shape[1] else level.x.new_zeros(len(level.x), 1)  # type: ignore[no-any-return]

    def identities(self, level: Level, own: Tensor, other: Tensor) -> Tensor:
        """The part for f1, given the tables: [n_i, width]."""
        rows, other_rows = self.rows(level)
        if self.identity == "caw":
            return embedding(rows, own) + embedding(other_rows, other)
        if self.identity == "none":
            return own.expand(len(rows), -1)
        chosen = rows[:, None] == torch.arange(len(own), device=own.device)  # [n_i, K]
        return chosen.to(own.dtype) @ own  # few rows: a product, whose gradient needs no sorting

    def forward(self, level: Level, own: Tensor, other: Tensor) -> Tensor:
        """All positions of one depth, given the tables: [n_i, width]."""
        z: Tensor = self.from_features(self.features(level))
        return z + self.identities(level, own, other)


class RecurrentWalks(nn.Module):
    """enc(W) = RNN(positions): one step of an LSTM or GRU per depth, from the state of the parent prefix."""

    def __init__(self, config: Config, x_width: int) -> None:
        super().__init__()
        gates = {"lstm": 4, "gru": 3}[config.rnn]
        self.position = PositionEncoder(config, x_width, gates * config.dim)
        self.from_state = nn.Linear(config.dim, gates * config.dim, bias=False)
        self.rnn = config.rnn
        self.dropout = nn.Dropout(config.dropout if config.dropout_at == "walks" else 0.0)

    def forward(self, batch: Batch) -> list[Tensor]:
        own, other = self.position.tables(batch)
        h = c = own.new_empty(0, self.from_state.in_features)  # no state before the first position
        states = []
        for level in batch.levels:
            past = self.from_state(h)  # [n_{i-1}, gates * d]
            if self.rnn == "lstm" and own.device.type == "cpu":
                features, weight = self.position.features(level), self.position.from_features.weight
                index = (*self.position.rows(level), level.parent, level.owner)
                h, c = LstmStep.apply(features, weight, own, other, past, c, *index)  # type: ignore[no-untyped-call]
            else:
                z = self.position(level, own, other)
                if len(past):
                    past, h, c = (embedding(level.parent, before) for before in (past, h, c))
                h, c = (lstm if self.rnn == "lstm" else gru)(z, past, h, c)  # [n_i, d] each
            states.append(self.dropout(h))
        return states


def lstm(z: Tensor, past: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """One step from the position z and the previous state; `past`, h and c are empty at the first position."""
    i, f, o, new = (z + past if len(past) else z).chunk(4, dim=-1)
    c = i.sigmoid() * new.tanh() + (f.sigmoid() * c if len(past) else 0)
    return o.sigmoid() * c.tanh(), c


def gru(z: Tensor, past: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    """The same for a GRU; c is not used."""
    r, u, new = z.chunk(3, dim=-1)
    if len(past) == 0:
        h = (1 - u.sigmoid()) * new.tanh()
        return h, h
    from_r, from_u, from_new = past.chunk(3, dim=-1)
    u = (u + from_u).sigmoid()
    h = u * h + (1 - u) * (new + (r + from_r).sigmoid() * from_new).tanh()
    return h, h


class CAWN(nn.Module):
    """The logit that u and v link at time t, for each pair of a batch."""

    matmul_dtype: torch.dtype | None = None  # on a GPU; None for `fused.best_dtype`

    def __init__(self, config: Config, x_width: int = 0, pair_width: int = 0) -> None:
        super().__init__()
        self.config = config
        d = config.dim
        if config.rnn == "transformer":
            self.walks: Any = AttentiveWalks(config, PositionEncoder(config, x_width, d))
        elif config.rnn == "bidirectional":
            self.walks = BidirectionalWalks(config, PositionEncoder(config, x_width, d))
        else:
            self.walks = RecurrentWalks(config, x_width)
        self.attention = pooling_layer(config)
        self.dropout = RowDropout(config.dropout if config.dropout_at == "pairs" else 0.0)
        from_pair = nn.Sequential(nn.Linear(pair_width, d), nn.ReLU()) if pair_width else None
        self.from_rates = from_pair  # the name of its weights in run folders; its input is all `PairFeatures`
        self.width = d * ((1 if config.sides == "joint" else 2) + (self.from_rates is not None))
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
        """Encode each distinct prefix, and average the walks of each set: [2B, d], or [B, d] with joint sides."""
        levels, states = batch.levels, self.walks(batch)
        num_sets, sets, weights = self._sets(batch)
        if self.attention is not None:
            enc = torch.cat([h if level.row is None else h[level.row] for h, level in zip(states, levels, strict=True)])
            return self.attention.forward_weighted(enc, torch.cat(weights), torch.cat(sets), num_sets)
        pooled: Tensor = states[0].new_zeros(num_sets, self.config.dim)
        for h, weight, owner, level in zip(states, weights, sets, levels, strict=True):
            if level.row is None:
                pooled = pooled.index_add(0, owner, h * weight[:, None])
            else:
                first = torch.searchsorted(owner, torch.arange(num_sets, device=owner.device))
                pooled = pooled + embedding_bag(level.row, h, first, mode="sum", per_sample_weights=weight)
        return pooled

    def pooling_terms(self, batch: Batch) -> Tensor:
        """What the walks that end at each prefix add to the result of `pool`: [n_0 + ... + n_m, d].

        The prefixes of different pairs must not be merged.
        """
        states = torch.cat(self.walks(batch))
        num_sets, sets, weights = self._sets(batch)
        weight = torch.cat(weights)
        if self.attention is not None:
            return self.attention.weighted_terms(states, weight, torch.cat(sets), num_sets)
        return states * weight[:, None]

    def _sets(self, batch: Batch) -> tuple[int, list[Tensor], list[Tensor]]:
        """The number of walk sets; of each level, the set of each prefix, and the share of its walks that end there."""
        joint, levels = self.config.sides == "joint", batch.levels
        sets = [level.owner >> 1 if joint else level.owner for level in levels]
        weights = [level.weight / 2 if joint else level.weight for level in levels]
        return batch.num_pairs if joint else 2 * batch.num_pairs, sets, weights

    def join(self, pooled: Tensor, pair_features: Tensor) -> Tensor:
        """enc(S_u ∪ S_v), or enc(S_u) ⊕ enc(S_v) with separate sides, ⊕ the encoded pair features: [B, width].

        `pooled` is [2B, d] in the order u, v, u, v, ...; or [B, d] with joint sides.
        """
        pooled, features = self.join_sides(pooled), self.encode_features(pair_features)
        return pooled if features is None else torch.cat([pooled, features], dim=-1)

    def join_sides(self, pooled: Tensor) -> Tensor:
        """The pooled walks of both sides, see `join`: [B, d] or [B, 2d]."""
        if self.config.sides != "joint":
            pooled = pooled.reshape(-1, 2 * self.config.dim)
        return self.dropout(symmetric(pooled, 0) if self.config.sides == "symmetric" else pooled)  # type: ignore[no-any-return]

    def encode_features(self, pair_features: Tensor) -> Tensor | None:
        """The encoded exact features of pairs: [B, d]; None for a model without them."""
        if self.from_rates is None:
            return None
        if self.config.sides == "symmetric":
            pair_features = symmetric_features(pair_features, self.config.pair_parts, self.config.num_decays)
        return self.from_rates(pair_features)  # type: ignore[no-any-return]
