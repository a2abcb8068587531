"""The inputs of the LSTM's matrix products on a GPU, computed from single positions of walks, and their gradients.

Rows are positions of walks, ordered by depth: the S roots, then S * M of depth 1, then of depth 2, and so on. A row is
    hidden layer of f1 for the own side (d) | for the other side (d) | cos, sin (2k) | X | 1 | zeros
with WIDTH columns. From depth 2 on the previous state of the walk follows, SPAN columns in total. One product with a
matrix of all weights turns the rows into the gates' pre-activations z [rows, 4d], in the order i, f, o, new.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from cawn.kernels.cuda.launch import block_of

_ALIGNMENT = 16  # columns; tensor cores need it
_ROWS = 128  # per program
_ROWS_BACKWARD = 64
_PROGRAMS = 1056  # of the backward pass: eight per multiprocessor of a large GPU


class EncoderShape(NamedTuple):
    """The sizes of a batch as the encoder lays it out. The inputs of all depths are one flat tensor."""

    S: int  # walk sets
    M: int  # walks of each
    L: int  # positions of a walk
    d: int
    kinds: int  # features per count: 1, or 3 with logarithms
    frequencies: int
    x_width: int
    width: int  # of a row, without the previous state
    keep: float  # 1 - dropout in f1
    pool: bool  # return the mean over the walks of a set
    # Of each block of `whole` pairs of the batch, these are `size` from `first` on; 0 if they are all. For dropout.
    first: int = 0
    size: int = 0
    whole: int = 0

    @property
    def walks(self) -> int:
        return self.S * self.M

    @property
    def K(self) -> int:  # noqa: N802
        return block_of(self.kinds * self.L + 1, 4096)

    @property
    def span(self) -> int:
        """The width of a row with the previous state."""
        return self.width + padded(self.d)

    def empty(self, dtype: torch.dtype, device: torch.device) -> Tensor:
        """A flat tensor for the inputs, or for their gradients."""
        size = (self.S + self.walks) * self.width + (self.L - 2) * self.walks * self.span
        make = torch.empty if self.d % _ALIGNMENT == 0 else torch.zeros  # the padding of states is never written
        return make(size, dtype=dtype, device=device)

    def shallow(self, flat: Tensor) -> Tensor:
        """The rows of depths 0 and 1: [S + S * M, width]."""
        rows = self.S + self.walks
        return flat[: rows * self.width].view(rows, self.width)

    def deep(self, flat: Tensor, depth: int) -> Tensor:
        """The rows of a depth >= 2: [S * M, span]."""
        first = (self.S + self.walks) * self.width + (depth - 2) * self.walks * self.span
        return flat[first : first + self.walks * self.span].view(self.walks, self.span)


def padded(width: int) -> int:
    """Rounded up to a multiple of the alignment."""
    return -(-width // _ALIGNMENT) * _ALIGNMENT


class Layers(NamedTuple):
    """The first layers of f1 for the own and the other side, [d, N] with bias [d], and omega of f2 [k]."""

    own_weight: Tensor
    own_bias: Tensor
    other_weight: Tensor
    other_bias: Tensor
    omega: Tensor


def position_inputs(
    layers: Layers, counts: Tensor, elapsed: Tensor, x: Tensor, shape: EncoderShape, seed: Tensor, dtype: torch.dtype
) -> Tensor:
    """The flat inputs, except for the previous states; `seed` [1] is that of the dropout. See `Dense` for the rest."""
    out = shape.empty(dtype, counts.device)
    columns = block_of(shape.d, 64)
    rest = shape.width - 2 * (shape.d + shape.frequencies)
    rest_columns = block_of(rest, 64)
    tiles = 2 * -(-shape.d // columns) + 1 + -(-rest // rest_columns)
    position_inputs_kernel[(_num_blocks(shape, _ROWS) * tiles,)](
        *(_walks_last(counts), elapsed, x, *layers, seed, out),
        *(shape.S, shape.keep, 1 / math.log1p(shape.M), shape.first, shape.size, shape.whole),
        TILES=tiles,
        DROPOUT=shape.keep < 1,
        PART=shape.size > 0,
        COLUMNS=columns,
        REST=rest_columns,
        **_constants(shape, dtype, _ROWS),
    )
    return out


def position_gradients(
    gradient: Tensor, inputs: Tensor, layers: Layers, counts: Tensor, elapsed: Tensor, shape: EncoderShape
) -> Layers:
    """The gradients of the layers, given that of the inputs."""
    columns, blocks, N = block_of(shape.d, 64), _num_blocks(shape, _ROWS_BACKWARD), layers.own_weight.shape[1]
    programs = min(_PROGRAMS, -(-blocks // 2))
    by_layers = layers.omega.new_empty(programs, 2, shape.K, shape.d)
    by_omega = layers.omega.new_empty(programs, shape.frequencies)
    position_inputs_backward_kernel[(programs, 2 * -(-shape.d // columns) + (shape.frequencies > 0))](
        *(_walks_last(counts), elapsed, inputs, gradient, by_layers, by_omega),
        *(shape.S, blocks, shape.keep, 1 / math.log1p(shape.M)),
        COLUMNS=columns,
        **_constants(shape, inputs.dtype, _ROWS_BACKWARD),
    )
    own, other = by_layers.sum(dim=0)  # [K, d] each
    return Layers(own[:N].T, own[N], other[:N].T, other[N], by_omega.sum(dim=0))


def _walks_last(counts: Tensor) -> Tensor:
    """[S, M, L, 2, L] to [S, L, 2, L, M], which is their order in memory."""
    return counts.permute(0, 2, 3, 4, 1).contiguous()


def _num_blocks(shape: EncoderShape, rows: int) -> int:
    """The number of blocks of `rows` rows; each has one depth."""
    return -(-shape.S // rows) + (shape.L - 1) * -(-shape.walks // rows)


def _constants(shape: EncoderShape, dtype: torch.dtype, rows: int) -> dict[str, int | str]:
    return {
        "M": shape.M,
        "L": shape.L,
        "D": shape.d,
        "X": shape.x_width,
        "FREQUENCIES": shape.frequencies,
        "KINDS": shape.kinds,
        "K": shape.K,
        "WIDTH": shape.width,
        "SPAN": shape.span,
        "PRECISION": "ieee" if dtype == torch.float32 else "tf32",
        "ROWS": rows,
        "WAVES": block_of(max(shape.frequencies, 1), 4096),
    }


@triton.jit
def place(block, S, M: tl.constexpr, L: tl.constexpr, WIDTH: tl.constexpr, SPAN: tl.constexpr, ROWS: tl.constexpr):
    """For the rows of a block, which have one depth: whether they exist, their offsets in arrays [S, M, L], the offsets
    of their counts, the side of their walk set, their row numbers, and the offsets of their inputs."""
    of_roots, of_walks = (S + ROWS - 1) // ROWS, (S * M + ROWS - 1) // ROWS
    is_root = block < of_roots
    below = block - of_roots
    depth = tl.where(is_root, 0, 1 + below // of_walks)
    first = tl.where(is_root, block, below % of_walks).to(tl.int64) * ROWS
    r = tl.arange(0, ROWS)
    n = first + r
    inside = n < tl.where(is_root, S, S * M)
    within_set = (first % M).to(tl.int32) + r
    s = tl.where(is_root, n, first // M + within_set // M)
    w = tl.where(is_root, 0, within_set % M)
    roots, walks = S.to(tl.int64), S.to(tl.int64) * M
    row = n + tl.where(is_root, 0, roots + (depth - 1) * walks)
    deep = (roots + walks) * WIDTH + (n + (depth - 2) * walks) * SPAN
    start = tl.where(depth < 2, row * WIDTH, deep)
    return inside, (s * M + w) * L + depth, (s * L + depth) * 2 * L * M + w, (s % 2).to(tl.int32), row, start


@triton.jit
def count_features(counts, inside, per_log, M: tl.constexpr, L: tl.constexpr, KINDS: tl.constexpr, K: tl.constexpr):
    """g of one side; with KINDS = 3 also its logarithms and whether it is > 0; then a 1: [rows, K] float32."""
    k = tl.arange(0, K)
    kind, j = k // L, k % L
    there = inside[:, None] & (kind < KINDS)[None, :]
    number = tl.load(counts[:, None] + (j * M)[None, :], mask=there, other=0).to(tl.float32)
    feature = tl.where((kind == 0)[None, :], number * (1.0 / M), (number > 0).to(tl.float32))
    if KINDS == 3:
        feature = tl.where((kind == 1)[None, :], tl.log(1.0 + number) * per_log, feature)
    return tl.where((k == KINDS * L)[None, :] & inside[:, None], 1.0, feature)


@triton.jit
def within(inside, column, D: tl.constexpr, COLUMNS: tl.constexpr):
    """The mask [rows, columns]. If it does not depend on the column, loads and stores can be vectorized."""
    if D % COLUMNS == 0:
        there = inside[:, None] & tl.full([1, COLUMNS], 1, tl.int1)
    else:
        there = inside[:, None] & (column < D)[None, :]
    return there


@triton.jit
def mix32(x):
    """A hash of uint32."""
    x = (x ^ (x >> 16)) * 0x7FEB352D
    x = (x ^ (x >> 15)) * 0x846CA68B
    return x ^ (x >> 16)


@triton.jit
def kept(seed, row, column, keep):
    """The elements of [rows, columns] that dropout keeps, chosen by a hash of their position."""
    x = mix32(row.to(tl.uint32) ^ seed)[:, None] ^ mix32(column.to(tl.uint32) + 0x9E3779B1)[None, :]
    x = x * 0x9E3779B1
    x = (x ^ (x >> 15)) * 0x85EBCA77
    return x < tl.full([1, 1], keep * 4294967040.0, tl.float32).to(tl.uint32)


@triton.jit
def quarter_wave(g):
    """sin(2 pi g) for |g| <= 1/4, with an error below 1e-7."""
    y = 6.283185307179586 * g
    square = y * y
    tail = -1.9841270e-4 + square * (2.7557319e-6 - square * 2.5052108e-8)
    return y + y * square * (-0.16666667 + square * (8.3333333e-3 + square * tail))


@triton.jit
def wave(phase):
    """Cosine and sine of float32 phases up to 1e10, with an error below 1e-6; the range is reduced in float64."""
    turns = phase.to(tl.float64) * 0.15915494309189535
    s = (turns - tl.floor(turns + 0.5)).to(tl.float32)  # from -1/2 to 1/2
    other_half = tl.where(s > 0, 0.5, -0.5) - s
    return quarter_wave(0.25 - tl.abs(s)), quarter_wave(tl.where(tl.abs(s) <= 0.25, s, other_half))


@triton.jit
def first_layer(weight, bias, column, D: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    """Weight [d, N] and bias [d] as a matrix [K, columns], to be multiplied by `count_features`."""
    k = tl.arange(0, K)
    used = (column < D)[None, :]
    layer = tl.load(weight + column[None, :] * N + k[:, None], mask=used & (k < N)[:, None], other=0.0)
    offset = tl.load(bias + column, mask=column < D, other=0.0)
    return tl.where((k == N)[:, None], offset[None, :], layer)


@triton.jit
def row_of_whole(block, S, first, size, whole, M: tl.constexpr, ROWS: tl.constexpr):
    """The row numbers that `place` would give if all pairs were there: blocks of `whole` pairs instead of `size`."""
    of_roots, of_walks = (S + ROWS - 1) // ROWS, (S * M + ROWS - 1) // ROWS
    is_root = block < of_roots
    below = block - of_roots
    depth = tl.where(is_root, 0, 1 + below // of_walks)
    n = tl.where(is_root, block, below % of_walks).to(tl.int64) * ROWS + tl.arange(0, ROWS)
    each = tl.where(is_root, 1, M)  # rows of a walk set
    s = n // each
    pair = s // 2
    pair = pair // size * whole + first + pair % size
    roots = (S // size).to(tl.int64) * whole  # S = 2 * blocks * size
    return (2 * pair + s % 2) * each + n % each + tl.where(is_root, 0, roots + (depth - 1) * (roots * M))


@triton.jit(do_not_specialize=["S", "first_pair", "size", "whole"])
def position_inputs_kernel(
    counts,  # [S, L, 2, L, M] int32
    elapsed,  # [S, M, L]
    x,  # [S, M, L, X]
    own_weight,  # [d, N], see `Layers`; N = KINDS * L
    own_bias,
    other_weight,
    other_bias,
    omega,  # [k]
    seed,  # [1] int64
    out,  # the flat inputs
    S,
    keep,
    per_log,  # 1 / log(1 + M)
    first_pair,  # `first`, `size` and `whole` of `EncoderShape`
    size,
    whole,
    M: tl.constexpr,
    L: tl.constexpr,
    D: tl.constexpr,
    X: tl.constexpr,  # width of x
    FREQUENCIES: tl.constexpr,
    KINDS: tl.constexpr,
    K: tl.constexpr,  # at least N + 1
    WIDTH: tl.constexpr,
    SPAN: tl.constexpr,
    TILES: tl.constexpr,
    DROPOUT: tl.constexpr,
    PART: tl.constexpr,  # whether these are not all pairs of the batch
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    WAVES: tl.constexpr,
    REST: tl.constexpr,  # columns of a tile of X, 1 and zeros
):
    """One program computes one tile of a block of rows: own side's hidden layer, other side's, cos and sin, or rest."""
    tile, block = tl.program_id(0) % TILES, tl.program_id(0) // TILES
    hidden_tiles: tl.constexpr = (D + COLUMNS - 1) // COLUMNS
    inside, at, hits, side, row, start = place(block, S, M, L, WIDTH, SPAN, ROWS)
    line = out + start[:, None]
    if tile < 2 * hidden_tiles:
        is_other = tile // hidden_tiles
        column = (tile % hidden_tiles) * COLUMNS + tl.arange(0, COLUMNS)
        if is_other == 0:
            layer = first_layer(own_weight, own_bias, column, D, KINDS * L, K)
        else:
            layer = first_layer(other_weight, other_bias, column, D, KINDS * L, K)
        g = count_features(counts + hits + (side ^ is_other) * (L * M), inside, per_log, M, L, KINDS, K)
        hidden = tl.maximum(tl.dot(g, layer, input_precision=PRECISION), 0.0)
        if DROPOUT:
            if PART:
                row = row_of_whole(block, S, first_pair, size, whole, M, ROWS)
            chosen = kept(tl.load(seed).to(tl.uint32), row, column + is_other * D, keep)
            hidden = tl.where(chosen, hidden * (1.0 / keep), 0.0)
        tl.store(line + is_other * D + column[None, :], hidden, mask=within(inside, column, D, COLUMNS))
    elif tile == 2 * hidden_tiles:
        f = tl.arange(0, WAVES)
        waves = inside[:, None] & (f < FREQUENCIES)[None, :]
        speed = tl.load(omega + f, mask=f < FREQUENCIES, other=0.0)
        cosine, sine = wave(tl.load(elapsed + at, mask=inside, other=0.0)[:, None] * speed[None, :])
        tl.store(line + 2 * D + f[None, :], cosine, mask=waves)
        tl.store(line + 2 * D + FREQUENCIES + f[None, :], sine, mask=waves)
    else:
        c = (tile - 2 * hidden_tiles - 1) * REST + tl.arange(0, REST)
        read = tl.load(x + at[:, None] * X + c[None, :], mask=inside[:, None] & (c < X)[None, :], other=0.0)
        one = X if FREQUENCIES + X > 0 else 1
        value = tl.where((c == one)[None, :], 1.0, read)
        first: tl.constexpr = 2 * (D + FREQUENCIES)
        tl.store(line + first + c[None, :], value, mask=inside[:, None] & (first + c < WIDTH)[None, :])


@triton.jit(do_not_specialize=["S", "blocks"])
def position_inputs_backward_kernel(
    counts,
    elapsed,
    inputs,  # of the forward pass
    gradient,  # of the inputs
    by_layers,  # [programs, 2, K, d], the gradients of the layers, summed over a program's rows
    by_omega,  # [programs, k], that of omega
    S,
    blocks,
    keep,
    per_log,  # 1 / log(1 + M)
    M: tl.constexpr,
    L: tl.constexpr,
    D: tl.constexpr,
    X: tl.constexpr,
    FREQUENCIES: tl.constexpr,
    KINDS: tl.constexpr,
    K: tl.constexpr,
    WIDTH: tl.constexpr,
    SPAN: tl.constexpr,
    PRECISION: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
    WAVES: tl.constexpr,
):
    """One program sums over every n-th block of rows, for one tile of columns; that of cos and sin is the last."""
    program, tile = tl.program_id(0), tl.program_id(1)
    hidden_tiles: tl.constexpr = (D + COLUMNS - 1) // COLUMNS
    if tile < 2 * hidden_tiles:
        is_other = tile // hidden_tiles
        column = (tile % hidden_tiles) * COLUMNS + tl.arange(0, COLUMNS)
        total = tl.zeros([K, COLUMNS], tl.float32)
        scale = 1.0 / keep
        block = program
        while block < blocks:
            inside, _, hits, side, _, start = place(block, S, M, L, WIDTH, SPAN, ROWS)
            g = count_features(counts + hits + (side ^ is_other) * (L * M), inside, per_log, M, L, KINDS, K)
            there = within(inside, column, D, COLUMNS)
            line = start[:, None] + is_other * D + column[None, :]
            passed = tl.load(inputs + line, mask=there, other=0.0).to(tl.float32) > 0
            slope = tl.where(passed, tl.load(gradient + line, mask=there, other=0.0).to(tl.float32) * scale, 0.0)
            total += tl.dot(tl.trans(g), slope, input_precision=PRECISION)
            block += tl.num_programs(0)
        k = tl.arange(0, K)
        target = by_layers + ((program.to(tl.int64) * 2 + is_other) * K + k)[:, None] * D + column[None, :]
        tl.store(target, total, mask=(column < D)[None, :])
    else:
        f = tl.arange(0, WAVES)
        waves = f < FREQUENCIES
        turn = tl.zeros([WAVES], tl.float32)
        block = program
        while block < blocks:
            inside, at, _, _, _, start = place(block, S, M, L, WIDTH, SPAN, ROWS)
            there = inside[:, None] & waves[None, :]
            line = start[:, None] + 2 * D + f[None, :]
            cosine = tl.load(inputs + line, mask=there, other=0.0).to(tl.float32)
            sine = tl.load(inputs + line + FREQUENCIES, mask=there, other=0.0).to(tl.float32)
            by_cosine = tl.load(gradient + line, mask=there, other=0.0).to(tl.float32)
            by_sine = tl.load(gradient + line + FREQUENCIES, mask=there, other=0.0).to(tl.float32)
            age = tl.load(elapsed + at, mask=inside, other=0.0)
            turn += tl.sum((by_sine * cosine - by_cosine * sine) * age[:, None], axis=0)
            block += tl.num_programs(0)
        tl.store(by_omega + program.to(tl.int64) * FREQUENCIES + f, turn, mask=waves)
