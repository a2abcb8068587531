"""The steps of the LSTM on a GPU, and the gradients through them; see `kernels.cuda.cells`."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor

from cawn.kernels.cuda.launch import block_of
from cawn.systems.cawn.sizes import Sizes

_FEW_SETS = 512  # with fewer, one set is shared by several programs


class Before(NamedTuple):
    """The states before a step: h [S, d] and its part of the gates [S, 4d] at depth 1, h [S * M, d] beyond it."""

    h: Tensor
    c: Tensor  # likewise, float32
    root: Tensor | None = None


def step(z: Tensor, before: Before | None, alive: Tensor, sizes: Sizes, h: Tensor, *, depth: int) -> Tensor:
    """Fills h [S * M, d], which may be columns of a wider matrix, or with `sizes.pool` [S, d]; gives c."""
    from cawn.kernels.cuda.cells import lstm_cell

    S, M, d = sizes.S, sizes.M, sizes.d
    c = z.new_empty((0,) if sizes.pool else (S * M, d), dtype=torch.float32)
    was = before or Before(h, c)
    grid, shape = _shape(S, M, d)
    lstm_cell[grid](
        *(z, z if was.root is None else was.root, was.h, was.c, alive, h, c, was.h.stride(0), h.stride(0), depth),
        L=sizes.L,
        STATE=min(depth, 2),
        POOL=sizes.pool,
        FAST=z.is_cuda and z.dtype != torch.float32,
        **shape,
    )
    return c


class Gradients(NamedTuple):
    """Through a step, beside those by z: by the cell before; at depth 1 by the root's part of the gates and state."""

    c: Tensor
    root: Tensor
    h: Tensor


def gradients(
    z: Tensor,
    before: Before | None,
    alive: Tensor,
    dend: Tensor,
    dh: Tensor | None,
    dc: Tensor | None,
    dz: Tensor,
    sizes: Sizes,
    *,
    depth: int,
) -> Gradients:
    """Fills dz, from those by the encodings, [S, d] with `sizes.pool`, and by h and c of walks that go on."""
    from cawn.kernels.cuda.cells import lstm_cell_backward

    S, M, d = sizes.S, sizes.M, sizes.d
    droot, dh_root = (z.new_empty(S, 4 * d), z.new_empty(S, d)) if depth == 1 else (z, z)
    dc_before = z.new_empty({0: (0,), 1: (S, d)}.get(depth, (S * M, d)), dtype=torch.float32)
    root = z if before is None or before.root is None else before.root
    grid, shape = _shape(S, M, d)
    lstm_cell_backward[grid](
        *(z, root, dc_before if before is None else before.c, alive, dend, dend if dh is None else dh),
        *(dc_before if dc is None else dc, dz, droot, dh_root, dc_before, 0 if dh is None else dh.stride(0), depth),
        L=sizes.L,
        STATE=min(depth, 2),
        POOL=sizes.pool,
        LATER=dh is not None,
        CELL=dc is not None,
        FAST=z.is_cuda and z.dtype != torch.float32,
        **shape,
    )
    return Gradients(dc_before, droot, dh_root)


def _shape(S: int, M: int, d: int) -> tuple[tuple[int, int], dict[str, Any]]:
    """The grid of programs, and what one of them holds at once."""
    columns = block_of(d, 16 if S < _FEW_SETS else 64)
    walks = 1 if M == 1 else block_of(M, 64)
    return (S, -(-d // columns)), {
        "M": M,
        "D": d,
        "WALKS": walks,
        "COLUMNS": columns,
        "num_warps": 1 if M == 1 else 4,
    }
