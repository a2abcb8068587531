"""CAW-N from its settings: the parts of the paper, or what the authors' code and its ablations have in their place."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, scaled_dot_product_attention

from cawn.caw.config import Config
from cawn.caw.features import Batch
from cawn.caw.model import CAWN, CountEncoder, PositionEncoder, RecurrentWalks, SelfAttention, TimeEncoder
from cawn.caw.pooling import AttentivePooling
from cawn.systems.layers import TimeEncoding
from cawn.walks.kernels.prefixes import Level

_AT_ONCE = 32_768  # walks or walk sets per call of PyTorch's attention, which supports at most 65,535 on a GPU


def build_network(config: Config, x_width: int = 0, pair_width: int = 0) -> CAWN:
    """The network that these settings describe, for features of these widths, see `features.input_widths`."""
    encoder = {
        "lstm": RecurrentWalks,
        "gru": GatedWalks,
        "transformer": AttentiveWalks,
        "bidirectional": BidirectionalWalks,
    }[config.rnn]
    gates = {"lstm": 4, "gru": 3}.get(config.rnn, 1)
    walks: Any = encoder(config, position_encoder(config, x_width, gates * config.dim))
    attention = None if config.pooling == "mean" else _POOLING[config.pooling](config)
    return CAWN(config, walks, attention, pair_width)


def position_encoder(config: Config, x_width: int, width: int) -> PositionEncoder:
    """f1, f2 and W; in the authors' code, f2 is of t_0 - t_i, by cos with a learned phase."""
    if config.identity == "caw":
        f1: nn.Module = CountEncoder(config, width)
    else:
        f1 = OneHotIdentity(config, width) if config.identity == "aw" else NoIdentity(width)
    f2 = TimeEncoder(config) if config.time_code == "elapsed" else TimeEncoding(config.frequencies)
    return PositionEncoder(f1, f2 if config.time else None, x_width, width, config.time_code)


# Instead of f1 and f2.


class OneHotIdentity(nn.Module):
    """f1 for I_AW, the order of the first occurrence of a node in its walk, as a one-hot vector."""

    def __init__(self, config: Config, width: int) -> None:
        super().__init__()
        self.one_hot = nn.Embedding(config.length + 2, width)

    def tables(self, batch: Batch) -> tuple[Tensor, Tensor]:
        return self.one_hot.weight, self.one_hot.weight[:0]

    def rows(self, level: Level) -> tuple[Tensor, Tensor]:
        return level.order, level.other

    def forward(self, level: Level, own: Tensor, other: Tensor) -> Tensor:
        chosen: Tensor = level.order[:, None] == torch.arange(len(own), device=own.device)  # [n, m + 2]
        return chosen.to(own.dtype) @ own  # few rows: a product, whose gradient needs no sorting


class NoIdentity(nn.Module):
    """No f1: all nodes are alike."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.zero = nn.Buffer(torch.zeros(1, width), persistent=False)

    def tables(self, batch: Batch) -> tuple[Tensor, Tensor]:
        return self.zero, self.zero[:0]

    def rows(self, level: Level) -> tuple[Tensor, Tensor]:
        return torch.zeros_like(level.own), level.other

    def forward(self, level: Level, own: Tensor, other: Tensor) -> Tensor:
        return own.expand(len(level.own), -1)


# Instead of the LSTM.


class GatedWalks(nn.Module):
    """enc(W) by a GRU."""

    def __init__(self, config: Config, position: PositionEncoder) -> None:
        super().__init__()
        self.position = position  # of width 3d
        self.from_state = nn.Linear(config.dim, 3 * config.dim, bias=False)
        self.dropout = nn.Dropout(config.dropout if config.dropout_at == "walks" else 0.0)

    def forward(self, batch: Batch) -> list[Tensor]:
        tables = self.position.tables(batch)
        h: Tensor | None = None
        states = []
        for level in batch.levels:
            r, u, new = self.position(level, *tables).chunk(3, dim=-1)  # [n_i, d] each
            if h is None:
                h = (1 - u.sigmoid()) * new.tanh()
            else:
                past, h = embedding(level.parent, self.from_state(h)), embedding(level.parent, h)
                from_r, from_u, from_new = past.chunk(3, dim=-1)
                u = (u + from_u).sigmoid()
                h = u * h + (1 - u) * (new + (r + from_r).sigmoid() * from_new).tanh()
            states.append(self.dropout(h))
        return states


class AttentiveWalks(nn.Module):
    """enc(W) by a transformer layer over the positions of a walk, read at its last position."""

    def __init__(self, config: Config, position: PositionEncoder) -> None:
        super().__init__()
        d = config.dim
        self.position = position  # of width d
        self.place = nn.Embedding(config.length + 1, d)
        heads = next(h for h in (4, 2, 1) if d % h == 0)
        self.layer = nn.TransformerEncoderLayer(d, heads, 2 * d, config.dropout, batch_first=True)

    def forward(self, batch: Batch) -> list[Tensor]:
        tables = self.position.tables(batch)
        path: Tensor | None = None
        states = []
        for i, level in enumerate(batch.levels):
            here = (self.position(level, *tables) + self.place.weight[i])[:, None]  # [n_i, 1, d]
            path = here if path is None else torch.cat([path[level.parent], here], dim=1)  # [n_i, i + 1, d]
            states.append(torch.cat([self.layer(some)[:, -1] for some in path.split(_AT_ONCE)]))
        return states


class BidirectionalWalks(nn.Module):
    """enc(W) from two bidirectional LSTMs: one over the positions of a walk, one over its identities alone.

    Their outputs at the last position of the walk are concatenated and projected to d. At that position, the backward
    direction has processed a single input. The authors' code reads position m even if a walk is shorter, which gives
    zeros.
    """

    def __init__(self, config: Config, position: PositionEncoder) -> None:
        super().__init__()
        d, narrow = config.dim, max(config.dim // 4, 1)  # the authors' ratio of widths
        self.position = position  # of width d
        self.forwards = nn.ModuleList(nn.LSTMCell(d, width) for width in (d, narrow))
        self.backwards = nn.ModuleList(FirstStep(d, width) for width in (d, narrow))
        self.project = nn.Linear(2 * (d + narrow), d)
        self.dropout = nn.Dropout(config.dropout if config.dropout_at == "walks" else 0.0)

    def forward(self, batch: Batch) -> list[Tensor]:
        tables = self.position.tables(batch)
        before: list[Any] = [None, None]  # (h, c) of both forward LSTMs; None before the first position
        encoded: list[Tensor] = []
        for level in batch.levels:
            identities = self.position.f1(level, *tables)  # [n_i, d]
            inputs = identities + self.position.from_features(self.position.features(level)), identities
            if encoded:
                before = [tuple(embedding(level.parent, state) for state in states) for states in before]
            before = [cell(z, states) for cell, z, states in zip(self.forwards, inputs, before, strict=True)]
            backwards = [step(z) for step, z in zip(self.backwards, inputs, strict=True)]
            both = torch.cat([*(h for h, _ in before), *backwards], dim=-1)  # [n_i, 2 (d + narrow)]
            encoded.append(self.dropout(self.project(self.dropout(both)).relu()))  # [n_i, d]
        return encoded


class FirstStep(nn.Module):
    """The first step of an LSTM: without a previous state, it needs no forget gate and no recurrent weights."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.gates = nn.Linear(inputs, 3 * width)

    def forward(self, z: Tensor) -> Tensor:
        i, o, new = self.gates(z).chunk(3, dim=-1)
        h: Tensor = o.sigmoid() * (i.sigmoid() * new.tanh()).tanh()
        return h


# Instead of Mean-AGG and Self-Att-AGG.


class TransformerPooling(AttentivePooling):
    """A transformer layer over one walk set with up to eight heads, then the mean, as in the authors' code.

    Not `nn.TransformerEncoderLayer`, whose fast path takes no weights.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        d = config.dim
        self.heads = math.gcd(d, 8)
        self.queries_keys_values, self.from_heads = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.norms = nn.ModuleList([nn.LayerNorm(d), nn.LayerNorm(d)])
        self.feedforward = nn.Sequential(
            nn.Linear(d, 4 * d), nn.ReLU(), nn.Dropout(config.dropout), nn.Linear(4 * d, d)
        )
        self.dropout = nn.Dropout(config.dropout)

    def mix(self, walks: Tensor, log_weight: Tensor | None) -> Tensor:
        bias = None if log_weight is None else log_weight[:, None, None, :]  # of the scores, for all heads and queries
        pieces = [slice(i, i + _AT_ONCE) for i in range(0, len(walks), _AT_ONCE)]
        attended = [self._attend(walks[some], None if bias is None else bias[some]) for some in pieces]
        walks = self.norms[0](walks + self.dropout(torch.cat(attended)))
        mixed: Tensor = self.norms[1](walks + self.dropout(self.feedforward(walks)))  # [sets, n, d]
        return mixed

    def _attend(self, walks: Tensor, bias: Tensor | None) -> Tensor:
        """Multi-head attention: [sets, n, d] to [sets, n, d]."""
        heads = self.queries_keys_values(walks).unflatten(-1, (3, self.heads, -1))  # [sets, n, 3, heads, d / heads]
        query, key, value = heads.permute(2, 0, 3, 1, 4)  # [sets, heads, n, d / heads] each
        dropout = self.dropout.p if self.training else 0.0
        mixed = scaled_dot_product_attention(query, key, value, bias, dropout)
        return self.from_heads(mixed.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]


_POOLING = {"attention": SelfAttention, "transformer": TransformerPooling}
