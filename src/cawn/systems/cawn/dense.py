"""Pairs ready for the network on a device: every walk by itself, in shapes that depend on nothing but their number."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from cawn.kernels.cpu.prefixes import Level


@dataclass(frozen=True, slots=True)
class Dense:
    """B pairs of M walks each side; S = 2B walk sets, that of u before that of v. L = m + 1."""

    counts: Tensor  # [S, M, L, 2, L] int32, the relative identities; best with the walks last in memory
    elapsed: Tensor  # [S, M, L] float32, t_{i-1} - t_i in time units
    x: Tensor  # [S, M, L, width of X] float32
    alive: Tensor  # [S, M, L] uint8, 0 where a walk has ended
    rates: Tensor  # [B, R] float32
    identities: Tensor | None = None  # [S, M, L]: which row of the model's table, where that is not by the counts

    @property
    def num_pairs(self) -> int:
        return len(self.counts) // 2

    def levels(self) -> list[Level]:
        """As trees: the root of a set once, then every walk a branch of its own. Ended walks weigh nothing."""
        S, M, L = self.alive.shape
        sets, walks = torch.arange(S, device=self.alive.device), torch.arange(S * M, device=self.alive.device)
        last = self.alive.bool()
        ends = last & ~torch.cat([last[..., 1:], torch.zeros_like(last[..., :1])], dim=-1)
        levels = []
        for i in range(L):
            rows = sets * M if i == 0 else walks
            at = rows * L + i
            owner = sets if i == 0 else walks // M
            share = ends[..., i].float() / M
            own, other = (2 * at + ((owner % 2) ^ side) for side in (0, 1))
            levels.append(
                Level(
                    parent=walks // M if i == 1 else rows,
                    owner=owner,
                    own=own,
                    other=other,
                    weight=share.sum(dim=1) if i == 0 else share.flatten(),
                    elapsed=self.elapsed.flatten()[at],
                    x=self.x.flatten(0, 2)[at],
                    order=None if self.identities is None else self.identities.flatten()[at].long(),
                )
            )
        return levels


def orders(nodes: Tensor) -> Tensor:
    """I_AW, see `anonymize_each`: [S, M, L] int64 from nodes of that shape."""
    same = nodes[..., :, None] == nodes[..., None, :]  # [S, M, L, L]
    first = same.int().argmax(dim=-1)  # of equal ones the first
    new = first == torch.arange(nodes.shape[-1], device=nodes.device)
    return torch.where(nodes >= 0, new.cumsum(dim=-1).gather(-1, first), 0)
