"""The shape of a batch as the encoder lays it out."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from cawn.kernels.cuda.launch import block_of

ALIGNMENT = 16  # of the widths of inputs, for the tensor cores


class Sizes(NamedTuple):
    """Numbers that shape the kernels; see `kernels.cuda.positions` for the inputs, which are one flat array."""

    S: int
    M: int
    L: int
    d: int
    kinds: int
    frequencies: int
    x_width: int
    width: int  # of what a position tells
    keep: float  # by the dropout within f1
    pool: bool

    @property
    def walks(self) -> int:
        return self.S * self.M

    @property
    def K(self) -> int:  # noqa: N802
        return block_of(self.kinds * self.L + 1, 4096)

    @property
    def span(self) -> int:
        """Of a position together with the state before it."""
        return self.width + padded(self.d)

    def empty(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        """A flat array for inputs, or for gradients by them."""
        size = (self.S + self.walks) * self.width + (self.L - 2) * self.walks * self.span
        make = torch.empty if self.d % ALIGNMENT == 0 else torch.zeros  # columns between states are never written
        return make(size, dtype=dtype, device=device)

    def shallow(self, flat: Tensor) -> Tensor:
        """The inputs of roots and of depth 1: [S + S * M, width]."""
        rows = self.S + self.walks
        return flat[: rows * self.width].view(rows, self.width)

    def deep(self, flat: Tensor, depth: int) -> Tensor:
        """Those of a depth from 2 on: [S * M, span]."""
        first = (self.S + self.walks) * self.width + (depth - 2) * self.walks * self.span
        return flat[first : first + self.walks * self.span].view(self.walks, self.span)


def padded(width: int) -> int:
    """The least multiple of ALIGNMENT that holds it."""
    return -(-width // ALIGNMENT) * ALIGNMENT
