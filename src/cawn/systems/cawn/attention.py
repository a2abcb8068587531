"""The parts of CAW-N that use attention: pooling by Self-Att-AGG, and a transformer in place of the RNN."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from cawn.systems.cawn.config import Config
from cawn.systems.cawn.features import Batch

_PATHS_AT_ONCE = 32_768  # per transformer call; attention on a GPU supports at most 65,535


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
            states.append(torch.cat([self.layer(some)[:, -1] for some in path.split(_PATHS_AT_ONCE)]))
        return states


class SelfAttention(nn.Module):
    """Self-Att-AGG: each walk replaced by softmax({enc_i^T Q1 enc_j}_j) enc_j Q2, then the mean, over one walk set."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.q1 = nn.Linear(config.dim, config.dim, bias=False)
        self.q2 = nn.Linear(config.dim, config.dim, bias=False)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, walks: Tensor) -> Tensor:
        """All walks of each set: [sets, M, d] to [sets, d]."""
        scores = self.q1(walks) @ walks.transpose(1, 2) / math.sqrt(walks.shape[-1])  # [sets, M, M]
        mixed: Tensor = self.dropout(scores.softmax(dim=-1)) @ self.q2(walks)  # [sets, M, d]
        return mixed.mean(dim=1)

    def forward_weighted(self, enc: Tensor, weight: Tensor, owner: Tensor, num_sets: int) -> Tensor:
        """The distinct walks of all sets, [n, d] to [sets, d].

        A walk that occurs m_j times has log m_j added to its score and counts m_j times in the mean, like m_j walks.
        """
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
        return torch.where(sizes[:, None] > 0, mean, 0)  # explanations remove walks, which can leave a set empty
