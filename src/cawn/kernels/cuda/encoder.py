"""The encoder of walks on a GPU: what stands between its matrix products, forwards and backwards.

Rows are positions of walks, by depth: the S roots, then S * M of depth 1, then of depth 2, and so on. A row of inputs
is
    hidden layer of f1 for the own side (d) | the same for the other side (d) | cos, sin (2k) | X | 1 | zeros
and one product with a matrix of all weights makes the gates' pre-activations z [rows, 4d] of it, in the order i, f, o,
new.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def place(row, S, M, L: tl.constexpr):
    """The set of a row, and its place in arrays [S, M, L]."""
    below = row - S
    depth = tl.where(row < S, 0, 1 + below // (S * M))
    walk = tl.where(row < S, row * M, below % (S * M))  # s * M + w
    return walk // M, walk * L + depth


@triton.jit
def count_features(counts, at, reference, inside, M, L: tl.constexpr, KINDS: tl.constexpr, K: tl.constexpr):
    """g of one reference side, with KINDS = 3 also its logarithms and whether > 0, then a 1: [rows, K] float32."""
    k = tl.arange(0, K)
    kind, j = k // L, k % L
    number = tl.load(
        counts + (at * 2 + reference)[:, None] * L + j[None, :],
        mask=inside[:, None] & (kind < KINDS)[None, :],
        other=0,
    ).to(tl.float32)
    scaled = number / M
    logarithm = tl.log(1.0 + number) / tl.log(1.0 + tl.full([1, 1], M, tl.float32))
    feature = tl.where(
        (kind == 0)[None, :], scaled, tl.where((kind == 1)[None, :], logarithm, (number > 0).to(tl.float32))
    )
    feature = tl.where((kind < KINDS)[None, :], feature, 0.0)
    return tl.where((k == KINDS * L)[None, :] & inside[:, None], 1.0, feature)


@triton.jit
def kept(seed, row, column, keep):
    """Which of [rows, columns] dropout keeps: a hash of where they are."""
    x = (row.to(tl.uint32) ^ seed)[:, None] * 0x9E3779B1 + column.to(tl.uint32)[None, :] * 0x85EBCA77
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    x = x ^ (x >> 16)
    return (x >> 8).to(tl.float32) * 5.9604644775390625e-08 < keep


@triton.jit
def quarter_wave(g):
    """sin(2 pi g) for |g| <= 1/4, to 1e-7."""
    y = 6.283185307179586 * g
    square = y * y
    tail = -1.9841270e-4 + square * (2.7557319e-6 - square * 2.5052108e-8)
    return y + y * square * (-0.16666667 + square * (8.3333333e-3 + square * tail))


@triton.jit
def wave(phase):
    """Cosine and sine of float32, reduced in float64 so that large phases cost no more than small ones."""
    turns = phase.to(tl.float64) * 0.15915494309189535
    s = (turns - tl.floor(turns + 0.5)).to(tl.float32)  # from -1/2 to 1/2
    other_half = tl.where(s > 0, 0.5, -0.5) - s
    return quarter_wave(0.25 - tl.abs(s)), quarter_wave(tl.where(tl.abs(s) <= 0.25, s, other_half))


@triton.jit(do_not_specialize=["rows", "S"])
def position_inputs(
    counts,  # [S, M, L, 2, L] int32
    elapsed,  # [S, M, L]
    x,  # [S, M, L, x_width]
    layers,  # [2, K, d] the first layer of f1 with its bias, for the own side and for the other
    omega,  # [k]
    seed,  # [1] int64, of the dropout
    out,  # [rows, width]
    rows,
    S,
    M,
    x_width,
    d,
    num_frequencies,
    width,
    keep,
    L: tl.constexpr,
    KINDS: tl.constexpr,
    K: tl.constexpr,
    DROPOUT: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    WAVES: tl.constexpr,
):
    """Programs along the second axis: tiles of the own side's hidden layer, of the other's, the waves, and the rest."""
    tile, tiles = tl.program_id(1), (d + COLUMNS - 1) // COLUMNS
    row = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    inside = row < rows
    s, at = place(row, S, M, L)
    line = out + row[:, None] * width
    if tile < 2 * tiles:
        is_other = tile // tiles
        column = (tile % tiles) * COLUMNS + tl.arange(0, COLUMNS)
        k = tl.arange(0, K)
        layer = tl.load(
            layers + (is_other * K + k)[:, None] * d + column[None, :], mask=(column < d)[None, :], other=0.0
        )
        g = count_features(counts, at, (s % 2) ^ is_other, inside, M, L, KINDS, K)
        hidden = tl.maximum(tl.dot(g, layer, input_precision=PRECISION), 0.0)
        if DROPOUT:
            chosen = kept(tl.load(seed).to(tl.uint32), row, column + is_other * d, keep)
            hidden = tl.where(chosen, hidden / keep, 0.0)
        tl.store(line + is_other * d + column[None, :], hidden, mask=inside[:, None] & (column < d)[None, :])
    elif tile == 2 * tiles:
        f = tl.arange(0, WAVES)
        waves = inside[:, None] & (f < num_frequencies)[None, :]
        speed = tl.load(omega + f, mask=f < num_frequencies, other=0.0)
        cosine, sine = wave(tl.load(elapsed + at, mask=inside, other=0.0)[:, None] * speed[None, :])
        tl.store(line + 2 * d + f[None, :], cosine, mask=waves)
        tl.store(line + 2 * d + num_frequencies + f[None, :], sine, mask=waves)
    else:
        c = (tile - 2 * tiles - 1) * COLUMNS + tl.arange(0, COLUMNS)
        read = tl.load(x + at[:, None] * x_width + c[None, :], mask=inside[:, None] & (c < x_width)[None, :], other=0.0)
        one = c == tl.where(num_frequencies + x_width > 0, x_width, 1)
        first = 2 * (d + num_frequencies)
        value = tl.where(one[None, :], 1.0, read)
        tl.store(line + first + c[None, :], value, mask=inside[:, None] & (first + c < width)[None, :])


@triton.jit(do_not_specialize=["rows", "S"])
def position_inputs_backward(
    counts,
    elapsed,
    inputs,  # [rows, width] as they were made
    gradient,  # [rows, width] of the loss by them
    by_layers,  # [programs, 2, K, d] sums over a program's rows of the gradient by the layers
    by_omega,  # [programs, k] and by omega
    rows,
    S,
    M,
    d,
    num_frequencies,
    width,
    keep,
    L: tl.constexpr,
    KINDS: tl.constexpr,
    K: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    WAVES: tl.constexpr,
):
    """One program goes through every n-th block of rows; the second axis as above, the rest being one tile."""
    program, tile, tiles = tl.program_id(0), tl.program_id(1), (d + COLUMNS - 1) // COLUMNS
    block = program
    if tile < 2 * tiles:
        is_other = tile // tiles
        column = (tile % tiles) * COLUMNS + tl.arange(0, COLUMNS)
        total = tl.zeros([K, COLUMNS], tl.float32)
        while block * ROWS < rows:
            row = block.to(tl.int64) * ROWS + tl.arange(0, ROWS)
            inside = row < rows
            s, at = place(row, S, M, L)
            g = count_features(counts, at, (s % 2) ^ is_other, inside, M, L, KINDS, K)
            there = inside[:, None] & (column < d)[None, :]
            line = row[:, None] * width + is_other * d + column[None, :]
            passed = tl.load(inputs + line, mask=there, other=0.0).to(tl.float32) > 0
            slope = tl.where(passed, tl.load(gradient + line, mask=there, other=0.0).to(tl.float32) / keep, 0.0)
            total += tl.dot(tl.trans(g), slope, input_precision=PRECISION)
            block += tl.num_programs(0)
        k = tl.arange(0, K)
        target = by_layers + ((program.to(tl.int64) * 2 + is_other) * K + k)[:, None] * d + column[None, :]
        tl.store(target, total, mask=(column < d)[None, :])
    else:
        f = tl.arange(0, WAVES)
        waves = f < num_frequencies
        turn = tl.zeros([WAVES], tl.float32)
        while block * ROWS < rows:
            row = block.to(tl.int64) * ROWS + tl.arange(0, ROWS)
            inside = row < rows
            _, at = place(row, S, M, L)
            there = inside[:, None] & waves[None, :]
            line = row[:, None] * width + 2 * d + f[None, :]
            cosine = tl.load(inputs + line, mask=there, other=0.0).to(tl.float32)
            sine = tl.load(inputs + line + num_frequencies, mask=there, other=0.0).to(tl.float32)
            by_cosine = tl.load(gradient + line, mask=there, other=0.0).to(tl.float32)
            by_sine = tl.load(gradient + line + num_frequencies, mask=there, other=0.0).to(tl.float32)
            age = tl.load(elapsed + at, mask=inside, other=0.0)
            turn += tl.sum((by_sine * cosine - by_cosine * sine) * age[:, None], axis=0)
            block += tl.num_programs(0)
        tl.store(by_omega + program.to(tl.int64) * num_frequencies + f, turn, mask=waves)


@triton.jit
def tanh(x):
    return 2.0 * tl.sigmoid(2.0 * x) - 1.0


@triton.jit
def gate(z, past, row, s, column, inside, number: tl.constexpr, d, PAST: tl.constexpr):
    """Pre-activation of one gate: [walks, columns] float32."""
    value = tl.load(z + row[:, None] * 4 * d + number * d + column[None, :], mask=inside, other=0.0).to(tl.float32)
    if PAST:  # the state of the root, the same for all walks of the set
        value += tl.load(past + s * 4 * d + number * d + column, mask=column < d, other=0.0).to(tl.float32)[None, :]
    return value


@triton.jit
def lstm_cell(
    z,  # [S, M, 4d] this position's part of the gates; beyond depth 1 with that of the state before
    past,  # [S, 4d] at depth 1, the part of the root's state
    h_before,  # [S, d] at depth 1, [S, M, d] beyond
    c_before,
    alive,  # [S, M, L] uint8
    h,  # [S, M, d]; with POOL [S, d], the mean over the walks
    c,  # [S, M, d] float32
    M,
    d,
    depth,
    L: tl.constexpr,
    STATE: tl.constexpr,  # 0: none before, 1: that of the set, 2: that of the walk
    POOL: tl.constexpr,
    WALKS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """One step of all walks of a set. A walk that has ended keeps the state it had."""
    s = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    mean = tl.zeros([COLUMNS], tl.float32)
    first = s * 0
    while first < M:
        w = first + tl.arange(0, WALKS)
        row = s * M + w
        inside = (w < M)[:, None] & (column < d)[None, :]
        i = gate(z, past, row, s, column, inside, 0, d, STATE == 1)
        o = gate(z, past, row, s, column, inside, 2, d, STATE == 1)
        new = gate(z, past, row, s, column, inside, 3, d, STATE == 1)
        cell = tl.sigmoid(i) * tanh(new)
        if STATE > 0:
            f = gate(z, past, row, s, column, inside, 1, d, STATE == 1)
            before = (row if STATE == 2 else row * 0 + s)[:, None] * d + column[None, :]
            c_was = tl.load(c_before + before, mask=inside, other=0.0)
            cell += tl.sigmoid(f) * c_was
        state = tl.sigmoid(o) * tanh(cell)
        if STATE > 0:
            goes_on = (tl.load(alive + row * L + depth, mask=w < M, other=0) > 0)[:, None]
            state = tl.where(goes_on, state, tl.load(h_before + before, mask=inside, other=0.0).to(tl.float32))
            cell = tl.where(goes_on, cell, c_was)
        if POOL:
            mean += tl.sum(tl.where(inside, state, 0.0), axis=0)
        else:
            tl.store(h + row[:, None] * d + column[None, :], state, mask=inside)
            tl.store(c + row[:, None] * d + column[None, :], cell, mask=inside)
        first += WALKS
    if POOL:
        tl.store(h + s * d + column, mean / M, mask=column < d)


@triton.jit
def lstm_cell_backward(
    z,
    past,
    c_before,
    alive,
    dh,  # [S, M, d] gradient by the state; with POOL [S, d], by the mean over the walks
    dc,  # [S, M, d] float32 gradient by the cell; without LATER there is none
    dz,  # [S, M, 4d]
    dpast,  # [S, 4d] sums over the walks, with STATE == 1
    dh_before,  # [S, d] or [S, M, d]: what goes past this step, of walks that have ended
    dc_before,
    M,
    d,
    depth,
    L: tl.constexpr,
    STATE: tl.constexpr,
    POOL: tl.constexpr,
    LATER: tl.constexpr,
    WALKS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Gradients of `lstm_cell`, whose gates are computed again."""
    s = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    of_set = column < d
    sum_i = tl.zeros([COLUMNS], tl.float32)
    sum_f, sum_o, sum_new = tl.zeros_like(sum_i), tl.zeros_like(sum_i), tl.zeros_like(sum_i)
    sum_h, sum_c = tl.zeros_like(sum_i), tl.zeros_like(sum_i)
    first = s * 0
    while first < M:
        w = first + tl.arange(0, WALKS)
        row = s * M + w
        inside = (w < M)[:, None] & of_set[None, :]
        i = tl.sigmoid(gate(z, past, row, s, column, inside, 0, d, STATE == 1))
        o = tl.sigmoid(gate(z, past, row, s, column, inside, 2, d, STATE == 1))
        new = tanh(gate(z, past, row, s, column, inside, 3, d, STATE == 1))
        cell = i * new
        goes_on = inside
        if STATE > 0:
            f = tl.sigmoid(gate(z, past, row, s, column, inside, 1, d, STATE == 1))
            before = (row if STATE == 2 else row * 0 + s)[:, None] * d + column[None, :]
            c_was = tl.load(c_before + before, mask=inside, other=0.0)
            cell += f * c_was
            goes_on = inside & (tl.load(alive + row * L + depth, mask=w < M, other=0) > 0)[:, None]
        squashed = tanh(cell)
        if POOL:
            by_h = tl.where(
                inside, tl.load(dh + s * d + column, mask=of_set, other=0.0).to(tl.float32)[None, :] / M, 0.0
            )
        else:
            by_h = tl.load(dh + row[:, None] * d + column[None, :], mask=inside, other=0.0).to(tl.float32)
        by_c = tl.zeros([WALKS, COLUMNS], tl.float32)
        if LATER:
            by_c += tl.load(dc + row[:, None] * d + column[None, :], mask=inside, other=0.0)
        by_cell = by_c + by_h * o * (1.0 - squashed * squashed)
        by_i = tl.where(goes_on, by_cell * new * i * (1.0 - i), 0.0)
        by_o = tl.where(goes_on, by_h * squashed * o * (1.0 - o), 0.0)
        by_new = tl.where(goes_on, by_cell * i * (1.0 - new * new), 0.0)
        line = dz + row[:, None] * 4 * d + column[None, :]
        tl.store(line, by_i, mask=inside)
        tl.store(line + 2 * d, by_o, mask=inside)
        tl.store(line + 3 * d, by_new, mask=inside)
        if STATE > 0:
            by_f = tl.where(goes_on, by_cell * c_was * f * (1.0 - f), 0.0)
            tl.store(line + d, by_f, mask=inside)
            passed_c = tl.where(goes_on, by_cell * f, by_c)
            passed_h = tl.where(goes_on, 0.0, by_h)
            if STATE == 2:
                tl.store(dc_before + before, passed_c, mask=inside)
                tl.store(dh_before + before, passed_h, mask=inside)
            else:
                sum_i += tl.sum(by_i, axis=0)
                sum_f += tl.sum(by_f, axis=0)
                sum_o += tl.sum(by_o, axis=0)
                sum_new += tl.sum(by_new, axis=0)
                sum_c += tl.sum(passed_c, axis=0)
                sum_h += tl.sum(passed_h, axis=0)
        else:
            tl.store(line + d, tl.zeros([WALKS, COLUMNS], tl.float32), mask=inside)
        first += WALKS
    if STATE == 1:
        tl.store(dpast + s * 4 * d + column, sum_i, mask=of_set)
        tl.store(dpast + s * 4 * d + d + column, sum_f, mask=of_set)
        tl.store(dpast + s * 4 * d + 2 * d + column, sum_o, mask=of_set)
        tl.store(dpast + s * 4 * d + 3 * d + column, sum_new, mask=of_set)
        tl.store(dc_before + s * d + column, sum_c, mask=of_set)
        tl.store(dh_before + s * d + column, sum_h, mask=of_set)
