"""Position features and decayed counts on a GPU; `systems.cawn.features` and `walks.rates` define them.

Constants of the definitions are compile-time arguments: Triton would round them to float32 otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from cawn.kernels.cuda.launch import block_of

_PAIRS = 16  # per program of `rate_features`: few, because its binary searches are a chain of dependent loads
_TINY = tl.constexpr(2.2250738585072014e-308)  # the smallest normal float64


def position_features(
    walks: Sequence[Tensor],
    sets: Tensor,
    unit: Tensor,
    width: int,
    columns: dict[str, int],
    *,
    log_scale: float,
    longest: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Elapsed time [S, M, L] and X [S, M, L, width] in float32, and which positions exist [S, M, L] in uint8.

    All are zero where a walk has ended. Columns of X that hold attributes are left for `gather_rows`.

    Args:
        walks: As `sample_walks` returns them.
        sets: [S] int64, the walk set of each side.
        unit: [1] float64, the unit of time.
        columns: The first column of each feature of X that is used, see `systems.cawn.features`.
        log_scale, longest: The divisor of logarithms, and the longest time in units.
    """
    nodes, t, links, degrees = walks
    S, (_, M, L) = len(sets), nodes.shape
    elapsed, x = torch.empty(S, M, L, device=nodes.device), torch.empty(S, M, L, width, device=nodes.device)
    alive = torch.empty(S, M, L, dtype=torch.uint8, device=nodes.device)
    if S:
        block = block_of(M * L, 256)
        position_features_kernel[(S, -(-M * L // block))](
            *(t, links, degrees, nodes, sets, elapsed, x, alive, unit, M * L, width),
            L=L,
            TIME=columns.get("time", -1),
            DIRECTION=columns.get("direction", -1),
            DEGREE=columns.get("degree", -1),
            LOG_SCALE=log_scale,
            LONGEST=longest,
            BLOCK=block,
        )
    return elapsed, x, alive


def gather_rows(table: Tensor, ids: Tensor, sets: Tensor, x: Tensor, column: int, *, shift: int) -> None:
    """Write row `ids >> shift` of `table` [n, w] to x[..., column : column + w] for every position of the walk sets."""
    (S, M, L, x_width), (n, width) = x.shape, table.shape
    if S:
        gather_rows_kernel[(S, -(-M * L // 32), -(-width // 64))](
            *(table, ids, sets, x, n, M * L, shift, width, x_width, column), BLOCK=32, COLUMNS=64
        )


def rate_features(
    lists: Sequence[Tensor],
    src: Tensor,
    dst: Tensor,
    t: Tensor,
    unit: Tensor,
    out: Tensor,
    *,
    directed: bool,
    pair_width: int,
    end_width: int,
    num_ages: int,
    closeness_scale: float,
    longest: float,
) -> None:
    """Fill out [B, R] with `Rates.features` of the pairs (src, dst) at times t, [B] each.

    Args:
        lists: The arguments `keys` to `bounds` of the kernel.
        pair_width, end_width: Number of features of a pair and of each of its ends.
    """
    if len(src):
        _, _, time, _, alphas, _ = lists
        rate_features_kernel[(-(-len(src) // _PAIRS), 6 if directed else 3)](
            *(*lists, src, dst, t, unit, out, len(src), len(time), out.shape[1]),
            D=len(alphas),
            AGES=num_ages,
            PAIR=pair_width,
            END=end_width,
            SCALE=closeness_scale,
            LONGEST=longest,
            BLOCK=_PAIRS,
            DECAYS=block_of(len(alphas), 1 << 20),
            num_warps=1,
        )


@triton.jit
def log1p(x):
    """log(1 + x) of float64, with an absolute error of 1e-16."""
    return tl.log(1.0 + x)


@triton.jit
def position_features_kernel(
    t,  # [Q, M, L]
    links,
    degrees,
    nodes,
    sets,  # [S]
    elapsed,  # [S, M, L] float32
    x,  # [S, M, L, x_width] float32
    alive,  # [S, M, L] uint8
    unit,  # [1] float64
    size,  # M * L
    x_width,
    L: tl.constexpr,
    TIME: tl.constexpr,  # first column, -1 without it
    DIRECTION: tl.constexpr,
    DEGREE: tl.constexpr,
    LOG_SCALE: tl.constexpr,
    LONGEST: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One program describes a block of positions of one walk set."""
    s = tl.program_id(0).to(tl.int64)
    p = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = p < size
    at = tl.load(sets + s) * size + p
    out = s * size + p
    live = inside & (tl.load(nodes + at, mask=inside, other=-1) >= 0)
    now = tl.load(t + at, mask=live, other=0)
    before = tl.load(t + at - (p % L > 0).to(tl.int64), mask=live, other=0)
    root = tl.load(t + at - p % L, mask=live, other=0)
    per_unit = 1.0 / tl.load(unit)
    step = tl.minimum((before - now).to(tl.float64) * per_unit, LONGEST)
    tl.store(elapsed + out, step.to(tl.float32), mask=inside)
    tl.store(alive + out, live.to(tl.uint8), mask=inside)
    column = x + out * x_width
    if TIME >= 0:
        tl.store(column + TIME, (log1p(step) / LOG_SCALE).to(tl.float32), mask=inside)
        age = tl.minimum((root - now).to(tl.float64) * per_unit, LONGEST)
        tl.store(column + TIME + 1, (log1p(age) / LOG_SCALE).to(tl.float32), mask=inside)
    if DIRECTION >= 0:
        link = tl.load(links + at, mask=live, other=-1)
        tl.store(column + DIRECTION, ((link >= 0) & (link % 2 == 0)).to(tl.float32), mask=inside)
        tl.store(column + DIRECTION + 1, ((link >= 0) & (link % 2 == 1)).to(tl.float32), mask=inside)
    if DEGREE >= 0:
        count = tl.load(degrees + at, mask=live, other=0).to(tl.float64)
        tl.store(column + DEGREE, (log1p(count) / LOG_SCALE).to(tl.float32), mask=inside)


@triton.jit(do_not_specialize=["num_rows"])
def gather_rows_kernel(
    table,  # [num_rows, width] float32; may be in pinned host memory
    ids,  # [Q, M, L] int32
    sets,  # [S]
    out,  # [S, M, L, out_width] float32
    num_rows,
    size,  # M * L
    shift,
    width,
    out_width,
    first,  # column of `out`
    BLOCK: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """One program copies a tile of attributes of one walk set; zeros for rows outside the table."""
    s = tl.program_id(0).to(tl.int64)
    p = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    c = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    inside = p < size
    row = tl.load(ids + tl.load(sets + s) * size + p, mask=inside, other=-1).to(tl.int64) >> shift
    there = (inside & (row >= 0) & (row < num_rows))[:, None] & (c < width)[None, :]
    value = tl.load(table + row[:, None] * width + c[None, :], mask=there, other=0.0)
    tl.store(
        out + (s * size + p)[:, None] * out_width + first + c[None, :],
        value,
        mask=inside[:, None] & (c < width)[None, :],
    )


@triton.jit
def count_below(values, first, last, limit, inside):
    """Number of entries of the sorted values[first:last] that are below a limit; 0 outside."""
    lo, hi = first, last
    going = inside & (lo < hi)
    while tl.max(going.to(tl.int32), axis=0) > 0:
        mid = (lo + hi) >> 1
        below = tl.load(values + mid, mask=going, other=0) < limit
        lo = tl.where(going & below, mid + 1, lo)
        hi = tl.where(going & (below == 0), mid, hi)
        going = inside & (lo < hi)
    return tl.where(inside, lo - first, 0)


@triton.jit
def find_newest(keys, starts, time, first, last, key, t, inside):
    """The position of each key's newest entry before t, and the number of entries before t; 0 for an unknown key.

    Keys are searched in the sorted keys[first:last].
    """
    none = tl.zeros(key.shape, tl.int64)
    at = first + count_below(keys, first + none, last + none, key, inside)
    known = inside & (at < last)
    known = known & (tl.load(keys + at, mask=known, other=-1) == key)
    start = tl.load(starts + at, mask=known, other=0)
    count = count_below(time, start, tl.load(starts + at + 1, mask=known, other=0), t, known)
    return start + count - 1, count


@triton.jit
def rate_of(time, logsum, num_entries, alpha, a, decays, newest, count, t):
    """Decayed counts, the sums of exp(-alpha age): [BLOCK, DECAYS] float64."""
    there = (count > 0)[:, None] & decays[None, :]
    age = (t - tl.load(time + newest, mask=count > 0, other=0)).to(tl.float64)
    past = tl.load(logsum + a.to(tl.int64)[None, :] * num_entries + newest[:, None], mask=there, other=0.0)
    return tl.where(there, tl.exp(past - alpha[None, :] * age[:, None]), 0.0)


@triton.jit
def closeness(time, newest, count, r, t, unit, SCALE: tl.constexpr, LONGEST: tl.constexpr):
    """See `walks.rates`: of the r-th newest entry, float32."""
    ever = count > r
    age = (t - tl.load(time + newest - r, mask=ever, other=0)).to(tl.float64)
    return tl.where(ever, 1.0 - log1p(tl.minimum(age / unit, LONGEST)) / SCALE, -1.0).to(tl.float32)


@triton.jit(do_not_specialize=["num_pairs", "num_entries"])
def rate_features_kernel(
    keys,  # [K] int64, of the counts of pairs, nodes, directed pairs, sources and destinations, concatenated
    starts,  # [K + 1] where the entries of each key start
    time,  # [entries]
    logsum,  # [D, entries] float64
    alphas,  # [D] float64
    bounds,  # [6] where the keys of each kind start
    src,  # [B] int64
    dst,
    t,  # [B]
    unit,  # [1] float64
    out,  # [B, width] float32
    num_pairs,
    num_entries,
    width,
    D: tl.constexpr,
    AGES: tl.constexpr,
    PAIR: tl.constexpr,  # number of features of a pair
    END: tl.constexpr,  # and of an end
    SCALE: tl.constexpr,
    LONGEST: tl.constexpr,
    BLOCK: tl.constexpr,
    DECAYS: tl.constexpr,  # a power of two >= D
):
    """One program computes one part of the features of a block of pairs.

    Parts: 0 the pair, 1 and 2 its ends, 3 the directed pair, 4 the source as a source, 5 the destination as one.
    """
    part = tl.program_id(1)
    b = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = b < num_pairs
    u, v = tl.load(src + b, mask=inside, other=0), tl.load(dst + b, mask=inside, other=0)
    now = tl.load(t + b, mask=inside, other=0)
    a = tl.arange(0, DECAYS)
    decays = a < D
    alpha = tl.load(alphas + a, mask=decays, other=0.0)
    scale = tl.load(unit)
    pair = (tl.minimum(u, v) << 32) | tl.maximum(u, v)
    kind = tl.where(part == 0, 0, tl.where(part < 3, 1, part - 1))
    key = tl.where(part == 0, pair, tl.where(part == 3, (u << 32) | v, tl.where((part == 1) | (part == 4), u, v)))
    newest, count = find_newest(
        keys, starts, time, tl.load(bounds + kind), tl.load(bounds + kind + 1), key, now, inside
    )
    rate = rate_of(time, logsum, num_entries, alpha, a, decays, newest, count, now)
    first = tl.where(part == 0, 0, tl.where(part < 3, PAIR + (part - 1) * END, PAIR + 2 * END + (part - 3) * (D + 1)))
    at = out + b.to(tl.int64) * width + first
    both = inside[:, None] & decays[None, :]
    tl.store(at[:, None] + a[None, :], log1p(rate).to(tl.float32), mask=both)
    if part == 0:
        tl.store(at + D, log1p(count.to(tl.float64)).to(tl.float32), mask=inside)
        for r in tl.static_range(AGES):
            tl.store(at + D + 1 + r, closeness(time, newest, count, r, now, scale, SCALE, LONGEST), mask=inside)
    else:
        tl.store(at + D, closeness(time, newest, count, 0, now, scale, SCALE, LONGEST), mask=inside)
        if part < 3:
            newest, count = find_newest(keys, starts, time, tl.load(bounds), tl.load(bounds + 1), pair, now, inside)
            shared = rate_of(time, logsum, num_entries, alpha, a, decays, newest, count, now)
            one_step = shared / tl.maximum(rate, _TINY)
            tl.store(at[:, None] + D + 1 + a[None, :], one_step.to(tl.float32), mask=both)
