"""Attention among the walks of a set, each distinct walk computed once."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn


class AttentivePooling(nn.Module, ABC):
    """Replaces each encoded walk by a function of all walks of its set, `mix`, then takes the mean."""

    @abstractmethod
    def mix(self, walks: Tensor, log_weight: Tensor | None) -> Tensor:
        """Each walk after attention to all walks of its set: [sets, n, d] to [sets, n, d].

        `log_weight` [sets, n] is added to the attention scores: log m_j, up to a constant, if walk j occurs m_j times.
        """

    def forward(self, walks: Tensor) -> Tensor:
        """All walks of each set: [sets, M, d] to [sets, d]."""
        return self.mix(walks, None).mean(dim=1)

    def weighted(self, enc: Tensor, weight: Tensor, owner: Tensor, num_sets: int) -> Tensor:
        """The distinct walks of all sets, [p, d] to [sets, d]; a walk that occurs m_j times counts like m_j walks."""
        mixed, share, _, _ = self._mix_distinct(enc, weight, owner, num_sets)
        mean: Tensor = (mixed * share[..., None]).sum(dim=1) / share.sum(dim=1, keepdim=True)
        return torch.where(share.sum(dim=1, keepdim=True) > 0, mean, 0)  # a set without walks is all zeros

    def weighted_terms(self, enc: Tensor, weight: Tensor, owner: Tensor, num_sets: int) -> Tensor:
        """What each walk adds to the result of `weighted`: [p, d]."""
        mixed, share, rows, place = self._mix_distinct(enc, weight, owner, num_sets)
        terms = enc.new_zeros(enc.shape)
        terms[rows] = (mixed * (share / share.sum(dim=1, keepdim=True))[..., None])[owner[rows], place]
        return terms

    def _mix_distinct(self, enc: Tensor, weight: Tensor, owner: Tensor, num_sets: int) -> tuple[Tensor, ...]:
        """`mix` of the walks that occur [sets, n, d], their weights [sets, n], which they are, and their places n."""
        rows = torch.nonzero(weight > 0).squeeze(-1)
        rows = rows[owner[rows].argsort(stable=True)]
        sets, sizes = owner[rows], torch.bincount(owner[rows], minlength=num_sets)
        place = torch.arange(len(rows), device=owner.device) - (sizes.cumsum(0) - sizes)[sets]
        n = int(sizes.max())
        walks, share = enc.new_zeros(num_sets, n, enc.shape[-1]), weight.new_zeros(num_sets, n)
        walks[sets, place], share[sets, place] = enc[rows], weight[rows]
        return self.mix(walks, share.log()), share, rows, place
