"""LSTM steps of all walks on a GPU, and their gradients: one program per walk set and tile of columns.

The gates' pre-activations z come from a matrix product, see `positions`. The backward pass recomputes the gates. A
walk that has ended keeps its state, so the state at the last position is the encoding of the walk.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from cawn.caw.kernels.cuda.positions import EncoderShape
from cawn.kernels.cuda.launch import block_of

_FEW_SETS = 512  # below this, several programs share a walk set


class PreviousState(NamedTuple):
    """The states before a step: those of the roots at depth 1, those of the walks at greater depths."""

    h: Tensor  # [S, d] or [S * M, d]
    c: Tensor  # the same shape, float32
    gates: Tensor | None = None  # [S, 4d] at depth 1: the roots' contribution to the pre-activations


class PreviousGradients(NamedTuple):
    """The gradients of a `PreviousState`; those of `h` and `gates` at depth 1 only."""

    h: Tensor  # [S, d], from walks that end at the root
    c: Tensor
    gates: Tensor


def step(
    z: Tensor, previous: PreviousState | None, alive: Tensor, shape: EncoderShape, h: Tensor, depth: int
) -> Tensor:
    """Fill h [S * M, d], possibly columns of a wider matrix, or [S, d] with `shape.pool`; returns c [S * M, d]."""
    S, M, d = shape.S, shape.M, shape.d
    c = z.new_empty((0,) if shape.pool else (S * M, d), dtype=torch.float32)
    was = previous or PreviousState(h, c)
    grid, constants = _launch_shape(S, M, d)
    lstm_cell_kernel[grid](
        *(z, z if was.gates is None else was.gates, was.h, was.c, alive, h, c, was.h.stride(0), h.stride(0), depth),
        L=shape.L,
        STATE=min(depth, 2),
        POOL=shape.pool,
        FAST=z.is_cuda and z.dtype != torch.float32,
        **constants,
    )
    return c


def step_backward(
    z: Tensor,
    previous: PreviousState | None,
    alive: Tensor,
    dend: Tensor,
    dh: Tensor | None,
    dc: Tensor | None,
    dz: Tensor,
    shape: EncoderShape,
    depth: int,
) -> PreviousGradients:
    """Fill dz with the gradient of z.

    Args:
        dend: Gradient of the walks' encodings, [S * M, d]; with `shape.pool` that of their mean, [S, d].
        dh, dc: Gradients of the state after this step, for walks that go on; None at the last depth.
    """
    S, M, d = shape.S, shape.M, shape.d
    dgates, dh_root = (z.new_empty(S, 4 * d), z.new_empty(S, d)) if depth == 1 else (z, z)
    dc_before = z.new_empty({0: (0,), 1: (S, d)}.get(depth, (S * M, d)), dtype=torch.float32)
    gates = z if previous is None or previous.gates is None else previous.gates
    grid, constants = _launch_shape(S, M, d)
    lstm_cell_backward_kernel[grid](
        *(z, gates, dc_before if previous is None else previous.c, alive, dend, dend if dh is None else dh),
        *(dc_before if dc is None else dc, dz, dgates, dh_root, dc_before, 0 if dh is None else dh.stride(0), depth),
        L=shape.L,
        STATE=min(depth, 2),
        POOL=shape.pool,
        LATER=dh is not None,
        CELL=dc is not None,
        FAST=z.is_cuda and z.dtype != torch.float32,
        **constants,
    )
    return PreviousGradients(dh_root, dc_before, dgates)


def _launch_shape(S: int, M: int, d: int) -> tuple[tuple[int, int], dict[str, Any]]:
    """The grid, and the constants of each program."""
    columns = block_of(d, 16 if S < _FEW_SETS else 64)
    walks = 1 if M == 1 else block_of(M, 64)
    constants = {"M": M, "D": d, "WALKS": walks, "COLUMNS": columns, "num_warps": 1 if M == 1 else 4}
    return (S, -(-d // columns)), constants


@triton.jit
def tanh(x, FAST: tl.constexpr):
    """FAST is one instruction with an error of 2^-11, a quarter of bfloat16's."""
    if FAST:
        y = tl.inline_asm_elementwise("tanh.approx.f32 $0, $1;", "=f,f", [x], tl.float32, is_pure=True, pack=1)
    else:
        y = 2.0 * tl.sigmoid(2.0 * x) - 1.0
    return y


@triton.jit
def sigmoid(x, FAST: tl.constexpr):
    return 0.5 * tanh(0.5 * x, FAST) + 0.5 if FAST else tl.sigmoid(x)


@triton.jit
def present(w, column, M: tl.constexpr, D: tl.constexpr, WALKS: tl.constexpr, COLUMNS: tl.constexpr):
    """The mask [walks, columns]; constant if all exist, so that loads and stores need none."""
    if M % WALKS == 0 and D % COLUMNS == 0:
        inside = tl.full([WALKS, COLUMNS], 1, tl.int1)
    else:
        inside = (w < M)[:, None] & (column < D)[None, :]
    return inside


@triton.jit
def gate(z, root, line, inside, column, number: tl.constexpr, D: tl.constexpr, STATE: tl.constexpr):
    """The pre-activation of one gate: [walks, columns] float32."""
    value = tl.load(z + line + number * D, mask=inside, other=0.0).to(tl.float32)
    if STATE == 1:  # all walks of the set share the root
        value += tl.load(root + number * D + column, mask=column < D, other=0.0).to(tl.float32)[None, :]
    return value


@triton.jit
def lstm_cell_kernel(
    z,  # [S, M, 4d], from depth 2 on with the contribution of the previous state
    root,  # [S, 4d] at depth 1, the contribution of the root's state
    h_before,  # [S, d] at depth 1, then [S, M, d] with stride `before_stride` between walks
    c_before,  # [S, d] or [S, M, d] float32
    alive,  # [S, M, L] uint8
    h,  # [S, M, d] with stride `h_stride` between walks; with POOL [S, d], the mean over the walks
    c,  # [S, M, d] float32
    before_stride,
    h_stride,
    depth,
    M: tl.constexpr,
    D: tl.constexpr,
    L: tl.constexpr,
    STATE: tl.constexpr,  # previous state, 0: none, 1: one per set, 2: one per walk
    POOL: tl.constexpr,
    FAST: tl.constexpr,
    WALKS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """One LSTM step of all walks of a set."""
    s = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    mean = tl.zeros([COLUMNS], tl.float32)
    z, c, alive, root = z + s * M * 4 * D, c + s * M * D, alive + s * M * L, root + s * 4 * D
    for first in range(0, M, WALKS):
        w = first + tl.arange(0, WALKS)
        inside = present(w, column, M, D, WALKS, COLUMNS)
        at, line = w[:, None] * D + column[None, :], w[:, None] * 4 * D + column[None, :]
        i = gate(z, root, line, inside, column, 0, D, STATE)
        o = gate(z, root, line, inside, column, 2, D, STATE)
        new = gate(z, root, line, inside, column, 3, D, STATE)
        cell = sigmoid(i, FAST) * tanh(new, FAST)
        if STATE > 0:
            f = gate(z, root, line, inside, column, 1, D, STATE)
            goes_on = (tl.load(alive + w * L + depth, mask=w < M, other=0) > 0)[:, None]
            if STATE == 1:
                c_was = tl.load(c_before + s * D + column, mask=column < D, other=0.0)[None, :]
                h_was = tl.load(h_before + s * D + column, mask=column < D, other=0.0).to(tl.float32)[None, :]
            else:
                c_was = tl.load(c_before + s * M * D + at, mask=inside, other=0.0)
                h_was = tl.load(
                    h_before + (s * M + w)[:, None] * before_stride + column[None, :], mask=inside, other=0.0
                ).to(tl.float32)
            cell = tl.where(goes_on, cell + sigmoid(f, FAST) * c_was, c_was)
            state = tl.where(goes_on, sigmoid(o, FAST) * tanh(cell, FAST), h_was)
        else:
            state = sigmoid(o, FAST) * tanh(cell, FAST)
        if POOL:
            mean += tl.sum(tl.where(inside, state, 0.0), axis=0)
        else:
            tl.store(h + (s * M + w)[:, None] * h_stride + column[None, :], state, mask=inside)
            tl.store(c + at, cell, mask=inside)
    if POOL:
        tl.store(h + s * D + column, mean / M, mask=column < D)


@triton.jit
def lstm_cell_backward_kernel(
    z,
    root,
    c_before,
    alive,
    dend,  # [S, M, d], gradient of the encodings; with POOL [S, d], of their mean
    dh,  # [S, M, d] with stride `dh_stride` between walks, of the states of walks that go on; read with LATER
    dc,  # [S, M, d] float32, of the cells; read with CELL
    dz,  # [S, M, 4d]
    droot,  # [S, 4d], summed over the walks; written if STATE == 1
    dh_root,  # [S, d], likewise, from walks that end at the root
    dc_before,
    dh_stride,
    depth,
    M: tl.constexpr,
    D: tl.constexpr,
    L: tl.constexpr,
    STATE: tl.constexpr,
    POOL: tl.constexpr,
    LATER: tl.constexpr,
    CELL: tl.constexpr,
    FAST: tl.constexpr,
    WALKS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """The gradients of `lstm_cell_kernel`."""
    s = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    of_set = column < D
    sum_i = tl.zeros([COLUMNS], tl.float32)
    sum_f, sum_o, sum_new = tl.zeros_like(sum_i), tl.zeros_like(sum_i), tl.zeros_like(sum_i)
    sum_h, sum_c = tl.zeros_like(sum_i), tl.zeros_like(sum_i)
    z, dz, dc = z + s * M * 4 * D, dz + s * M * 4 * D, dc + s * M * D
    alive, root = alive + s * M * L, root + s * 4 * D
    for first in range(0, M, WALKS):
        w = first + tl.arange(0, WALKS)
        inside = present(w, column, M, D, WALKS, COLUMNS)
        at, line = w[:, None] * D + column[None, :], w[:, None] * 4 * D + column[None, :]
        i = sigmoid(gate(z, root, line, inside, column, 0, D, STATE), FAST)
        o = sigmoid(gate(z, root, line, inside, column, 2, D, STATE), FAST)
        new = tanh(gate(z, root, line, inside, column, 3, D, STATE), FAST)
        cell = i * new
        goes_on = inside
        if STATE > 0:
            f = sigmoid(gate(z, root, line, inside, column, 1, D, STATE), FAST)
            if STATE == 1:
                c_was = tl.load(c_before + s * D + column, mask=of_set, other=0.0)[None, :]
            else:
                c_was = tl.load(c_before + s * M * D + at, mask=inside, other=0.0)
            cell += f * c_was
            goes_on = inside & (tl.load(alive + w * L + depth, mask=w < M, other=0) > 0)[:, None]
        squashed = tanh(cell, FAST)
        if POOL:
            by_h = (tl.load(dend + s * D + column, mask=of_set, other=0.0).to(tl.float32) / M)[None, :]
            by_h = tl.broadcast_to(by_h, [WALKS, COLUMNS])
        else:
            by_h = tl.load(dend + s * M * D + at, mask=inside, other=0.0).to(tl.float32)
        if LATER:
            later = (tl.load(alive + w * L + depth + 1, mask=w < M, other=0) > 0)[:, None]
            by_later = tl.load(dh + (s * M + w)[:, None] * dh_stride + column[None, :], mask=inside, other=0.0)
            by_h = tl.where(later, by_later.to(tl.float32), by_h)
        by_cell = by_h * o * (1.0 - squashed * squashed)
        if CELL:
            by_cell += tl.load(dc + at, mask=inside, other=0.0)
        by_i = tl.where(goes_on, by_cell * new * i * (1.0 - i), 0.0)
        by_o = tl.where(goes_on, by_h * squashed * o * (1.0 - o), 0.0)
        by_new = tl.where(goes_on, by_cell * i * (1.0 - new * new), 0.0)
        tl.store(dz + line, by_i, mask=inside)
        tl.store(dz + line + 2 * D, by_o, mask=inside)
        tl.store(dz + line + 3 * D, by_new, mask=inside)
        if STATE > 0:
            by_f = tl.where(goes_on, by_cell * c_was * f * (1.0 - f), 0.0)
            tl.store(dz + line + D, by_f, mask=inside)
            passed = tl.where(goes_on, by_cell * f, 0.0)
            if STATE == 2:
                tl.store(dc_before + s * M * D + at, passed, mask=inside)
            else:
                sum_i += tl.sum(by_i, axis=0)
                sum_f += tl.sum(by_f, axis=0)
                sum_o += tl.sum(by_o, axis=0)
                sum_new += tl.sum(by_new, axis=0)
                sum_c += tl.sum(passed, axis=0)
                sum_h += tl.sum(tl.where(inside & (goes_on == 0), by_h, 0.0), axis=0)
        else:
            tl.store(dz + line + D, tl.zeros([WALKS, COLUMNS], tl.float32), mask=inside)
    if STATE == 1:
        tl.store(droot + s * 4 * D + column, sum_i, mask=of_set)
        tl.store(droot + s * 4 * D + D + column, sum_f, mask=of_set)
        tl.store(droot + s * 4 * D + 2 * D + column, sum_o, mask=of_set)
        tl.store(droot + s * 4 * D + 3 * D + column, sum_new, mask=of_set)
        tl.store(dc_before + s * D + column, sum_c, mask=of_set)
        tl.store(dh_root + s * D + column, sum_h, mask=of_set)
