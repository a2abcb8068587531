"""The LSTM's cell on a GPU, forwards and backwards: one program for all walks of a set, in one tile of columns.

The gates' pre-activations z come from a matrix product, see `positions`. Backwards the gates are computed again rather
than kept. A walk's encoding is its state at its last position: where a walk has ended, it keeps the state it had.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def tanh(x, FAST: tl.constexpr):
    """FAST is right to 2^-11, four times finer than bfloat16, in one instruction."""
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
    """Which of [walks, columns] are there; where all are, loads and stores need no mask."""
    if M % WALKS == 0 and D % COLUMNS == 0:
        inside = tl.full([WALKS, COLUMNS], 1, tl.int1)
    else:
        inside = (w < M)[:, None] & (column < D)[None, :]
    return inside


@triton.jit
def gate(z, root, line, inside, column, number: tl.constexpr, D: tl.constexpr, STATE: tl.constexpr):
    """Pre-activation of one gate: [walks, columns] float32."""
    value = tl.load(z + line + number * D, mask=inside, other=0.0).to(tl.float32)
    if STATE == 1:  # the state of the root, the same for all walks of the set
        value += tl.load(root + number * D + column, mask=column < D, other=0.0).to(tl.float32)[None, :]
    return value


@triton.jit
def lstm_cell(
    z,  # [S, M, 4d] this position's part of the gates; beyond depth 1 with that of the state before
    root,  # [S, 4d] at depth 1, the part of the root's state
    h_before,  # [S, d] at depth 1; beyond [S, M, d] with `before_stride` between walks
    c_before,  # [S, d] or [S, M, d] float32
    alive,  # [S, M, L] uint8
    h,  # [S, M, d] with `h_stride` between walks; with POOL [S, d], the mean over the walks
    c,  # [S, M, d] float32
    before_stride,
    h_stride,
    depth,
    M: tl.constexpr,
    D: tl.constexpr,
    L: tl.constexpr,
    STATE: tl.constexpr,  # 0: none before, 1: that of the set, 2: that of the walk
    POOL: tl.constexpr,
    FAST: tl.constexpr,
    WALKS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """One step of all walks of a set."""
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
def lstm_cell_backward(
    z,
    root,
    c_before,
    alive,
    dend,  # [S, M, d] gradient by the encodings of the walks; with POOL [S, d], by their mean
    dh,  # [S, M, d] by the state, with `dh_stride` between walks, of walks that go on; without LATER there is none
    dc,  # [S, M, d] float32 gradient by the cell; without CELL there is none
    dz,  # [S, M, 4d]
    droot,  # [S, 4d] sums over the walks, with STATE == 1
    dh_root,  # [S, d] likewise, of walks that have ended there
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
    """Gradients of `lstm_cell`."""
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
