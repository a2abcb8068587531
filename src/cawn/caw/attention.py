"""The parts of CAW-N that use attention: two pooling layers for walks, and a transformer in place of the RNN."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from cawn.caw.config import Config
from cawn.caw.features import Batch

_AT_ONCE = 32_768  # walks or walk sets per call of PyTorch's attention, which supports at most 65,535 on a GPU


class AttentiveWalks(nn.Module):
    """enc(W) by a transformer layer over the positions of a walk, read at its last position."""

    def __init__(self, config: Config, position: Any) -> None:
        super().__init__()
        d = config.dim
        self.position = position  # a `PositionEncoder` of width d
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


class WalkPooling(nn.Module):
    """Replaces each encoded walk by a function of all walks of its set, `mix`, then takes the mean."""

    def mix(self, walks: Tensor, log_weight: Tensor | None) -> Tensor:
        """Each walk after attention to all walks of its set: [sets, n, d] to [sets, n, d].

        `log_weight` [sets, n] is added to the attention scores: log m_j, up to a constant, if walk j occurs m_j times.
        """
        raise NotImplementedError

    def forward(self, walks: Tensor) -> Tensor:
        """All walks of each set: [sets, M, d] to [sets, d]."""
        return self.mix(walks, None).mean(dim=1)

    def forward_weighted(self, enc: Tensor, weight: Tensor, owner: Tensor, num_sets: int) -> Tensor:
        """The distinct walks of all sets, [n, d] to [sets, d].

        A walk that occurs m_j times has log m_j added to its score and counts m_j times in the mean, like m_j walks.
        """
        mixed, share, _, _ = self._mix_weighted(enc, weight, owner, num_sets)
        mean: Tensor = (mixed * share[..., None]).sum(dim=1) / share.sum(dim=1, keepdim=True)
        return torch.where(share.sum(dim=1, keepdim=True) > 0, mean, 0)  # a set without walks is all zeros

    def weighted_terms(self, enc: Tensor, weight: Tensor, owner: Tensor, num_sets: int) -> Tensor:
        """What each walk adds to the result of `forward_weighted`: [n, d]."""
        mixed, share, rows, place = self._mix_weighted(enc, weight, owner, num_sets)
        terms = enc.new_zeros(enc.shape)
        terms[rows] = (mixed * (share / share.sum(dim=1, keepdim=True))[..., None])[owner[rows], place]
        return terms

    def _mix_weighted(
        self, enc: Tensor, weight: Tensor, owner: Tensor, num_sets: int
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """`mix` of the walks that occur: [sets, n, d], and their weights: [sets, n]; which walks they are, and the
        place of each in its set."""
        rows = torch.nonzero(weight > 0).squeeze(-1)
        rows = rows[owner[rows].argsort(stable=True)]
        sets, sizes = owner[rows], torch.bincount(owner[rows], minlength=num_sets)
        place = torch.arange(len(rows), device=owner.device) - (sizes.cumsum(0) - sizes)[sets]
        n = int(sizes.max())
        walks, share = enc.new_zeros(num_sets, n, enc.shape[-1]), weight.new_zeros(num_sets, n)
        walks[sets, place], share[sets, place] = enc[rows], weight[rows]
        return self.mix(walks, share.log()), share, rows, place


class SelfAttention(WalkPooling):
    """Self-Att-AGG: each walk i becomes sum_j softmax_j(enc_i^T Q1 enc_j) enc_j Q2, then the mean over the walk set."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.q1 = nn.Linear(config.dim, config.dim, bias=False)
        self.q2 = nn.Linear(config.dim, config.dim, bias=False)
        self.dropout = nn.Dropout(config.dropout)

    def mix(self, walks: Tensor, log_weight: Tensor | None) -> Tensor:
        scores = self.q1(walks) @ walks.transpose(1, 2) / math.sqrt(walks.shape[-1])  # [sets, n, n]
        if log_weight is not None:
            scores = scores + log_weight[:, None, :]
        mixed: Tensor = self.dropout(scores.softmax(dim=-1)) @ self.q2(walks)  # [sets, n, d]
        return mixed


class TransformerLayer(WalkPooling):
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


def pooling_layer(config: Config) -> WalkPooling | None:
    """The layer that pools the encoded walks of each set; None for their mean."""
    if config.pooling == "mean":
        return None
    return SelfAttention(config) if config.pooling == "attention" else TransformerLayer(config)
