"""What the network reads of a pair beside relative identities, on a GPU: see `batches` and `rates` for the meaning."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def log1p(x):
    """log(1 + x) of float64, to 1e-16 in absolute terms."""
    return tl.log(1.0 + x)


@triton.jit
def describe_positions(
    t,  # [Q, M, L] the walks, see `gpu.history.Paths`
    links,
    seen,
    nodes,
    rows,  # [S] which walk set each of 2B sides has
    elapsed,  # [S, M, L] float32
    x,  # [S, M, L, width] float32
    alive,  # [S, M, L] uint8
    unit,  # float64 [1]
    size,  # M * L
    x_width,
    L: tl.constexpr,
    LOGARITHMS: tl.constexpr,
    DIRECTED: tl.constexpr,
    DEGREE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """Elapsed time and X of every position, but for attributes; zeros where a walk has ended."""
    s = tl.program_id(0).to(tl.int64)
    p = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = p < size
    at = tl.load(rows + s) * size + p
    out = s * size + p
    live = inside & (tl.load(nodes + at, mask=inside, other=-1) >= 0)
    now = tl.load(t + at, mask=live, other=0)
    before = tl.load(t + at - (p % L > 0).to(tl.int64), mask=live, other=0)
    root = tl.load(t + at - p % L, mask=live, other=0)
    per_unit = 1.0 / tl.load(unit)
    step = tl.minimum((before - now).to(tl.float64) * per_unit, 1e30)
    tl.store(elapsed + out, step.to(tl.float32), mask=inside)
    tl.store(alive + out, live.to(tl.uint8), mask=inside)
    column = x + out * x_width
    if LOGARITHMS:
        tl.store(column, (log1p(step) / 6.0).to(tl.float32), mask=inside)
        age = tl.minimum((root - now).to(tl.float64) * per_unit, 1e30)
        tl.store(column + 1, (log1p(age) / 6.0).to(tl.float32), mask=inside)
        column += 2
    if DIRECTED:
        link = tl.load(links + at, mask=live, other=-1)
        tl.store(column, ((link >= 0) & (link % 2 == 0)).to(tl.float32), mask=inside)
        tl.store(column + 1, ((link >= 0) & (link % 2 == 1)).to(tl.float32), mask=inside)
    if DEGREE:
        count = tl.load(seen + at, mask=live, other=0).to(tl.float64)
        tl.store(x + (out + 1) * x_width - 1, (log1p(count) / 6.0).to(tl.float32), mask=inside)


@triton.jit(do_not_specialize=["num_rows"])
def gather_rows(
    table,  # [n, width] float32; may lie in pinned memory of the host
    ids,  # [Q, M, L] int32, which row each position of the walks has
    rows,  # [S]
    out,  # [S, M, L, out_width] float32
    num_rows,
    size,
    shift,  # rows are ids >> shift
    width,
    out_width,
    first,  # column of `out`
    BLOCK: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Attributes of links or nodes; zeros where there are none."""
    s = tl.program_id(0).to(tl.int64)
    p = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    c = tl.program_id(2) * COLUMNS + tl.arange(0, COLUMNS)
    inside = p < size
    row = tl.load(ids + tl.load(rows + s) * size + p, mask=inside, other=-1).to(tl.int64) >> shift
    there = (inside & (row >= 0) & (row < num_rows))[:, None] & (c < width)[None, :]
    value = tl.load(table + row[:, None] * width + c[None, :], mask=there, other=0.0)
    tl.store(
        out + (s * size + p)[:, None] * out_width + first + c[None, :],
        value,
        mask=inside[:, None] & (c < width)[None, :],
    )


@triton.jit
def find_newest(keys, starts, time, first, last, key, t, inside):
    """Where each key's newest entry before t lies, and how many there are; none for a key not in keys[first:last]."""
    lo, hi = first + tl.zeros(key.shape, tl.int64), last + tl.zeros(key.shape, tl.int64)
    going = inside & (lo < hi)
    while tl.max(going.to(tl.int32), axis=0) > 0:
        mid = (lo + hi) >> 1
        less = tl.load(keys + mid, mask=going, other=0) < key
        lo = tl.where(going & less, mid + 1, lo)
        hi = tl.where(going & (less == 0), mid, hi)
        going = inside & (lo < hi)
    known = inside & (lo < last)
    known = known & (tl.load(keys + lo, mask=known, other=-1) == key)
    start = tl.load(starts + lo, mask=known, other=0)
    stop = tl.load(starts + lo + 1, mask=known, other=0)
    lo, hi = start, stop
    going = lo < hi
    while tl.max(going.to(tl.int32), axis=0) > 0:
        mid = (lo + hi) >> 1
        earlier = tl.load(time + mid, mask=going, other=0) < t
        lo = tl.where(going & earlier, mid + 1, lo)
        hi = tl.where(going & (earlier == 0), mid, hi)
        going = lo < hi
    return lo - 1, lo - start


@triton.jit
def rate_of(time, logsum, num_entries, alpha, a, decays, newest, count, t):
    """Sums of exp(-alpha age): [BLOCK, decays]."""
    there = (count > 0)[:, None] & decays[None, :]
    age = (t - tl.load(time + newest, mask=count > 0, other=0)).to(tl.float64)
    past = tl.load(logsum + a.to(tl.int64)[None, :] * num_entries + newest[:, None], mask=there, other=0.0)
    return tl.where(there, tl.exp(past - alpha[None, :] * age[:, None]), 0.0)


@triton.jit
def closeness(time, newest, count, r, t, unit):
    """See `rates`: of the r-th newest entry."""
    ever = count > r
    age = (t - tl.load(time + newest - r, mask=ever, other=0)).to(tl.float64)
    return tl.where(ever, 1.0 - log1p(tl.minimum(age / unit, 1e30)) / 14.0, -1.0)


@triton.jit(do_not_specialize=["num_pairs", "num_entries"])
def rate_features(
    keys,  # the tallies of pairs, nodes, ways, sources and destinations, one after the other
    starts,
    time,
    logsum,  # [decays, entries]
    alphas,
    bounds,  # [6] where the keys of each tally begin
    src,  # [B] int64
    dst,
    t,  # [B]
    unit,  # float64 [1]
    out,  # [B, width] float32
    num_pairs,
    num_entries,
    width,
    D: tl.constexpr,
    AGES: tl.constexpr,
    BLOCK: tl.constexpr,
    DECAYS: tl.constexpr,
):
    """One program looks up one part of the features of a block of pairs: the pair, its ends, the ways they point."""
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
    tally = tl.where(part == 0, 0, tl.where(part < 3, 1, part - 1))
    key = tl.where(part == 0, pair, tl.where(part == 3, (u << 32) | v, tl.where((part == 1) | (part == 4), u, v)))
    newest, count = find_newest(
        keys, starts, time, tl.load(bounds + tally), tl.load(bounds + tally + 1), key, now, inside
    )
    rate = rate_of(time, logsum, num_entries, alpha, a, decays, newest, count, now)
    ages, ends = D + 1 + AGES, 2 * D + 1
    first = tl.where(part == 0, 0, tl.where(part < 3, ages + (part - 1) * ends, ages + 2 * ends + (part - 3) * (D + 1)))
    at = out + b.to(tl.int64) * width + first
    both = inside[:, None] & decays[None, :]
    tl.store(at[:, None] + a[None, :], log1p(rate).to(tl.float32), mask=both)
    if part == 0:
        tl.store(at + D, log1p(count.to(tl.float64)).to(tl.float32), mask=inside)
        for r in tl.static_range(AGES):
            tl.store(at + D + 1 + r, closeness(time, newest, count, r, now, scale).to(tl.float32), mask=inside)
    else:
        tl.store(at + D, closeness(time, newest, count, 0, now, scale).to(tl.float32), mask=inside)
        if part < 3:
            newest, count = find_newest(keys, starts, time, tl.load(bounds), tl.load(bounds + 1), pair, now, inside)
            shared = rate_of(time, logsum, num_entries, alpha, a, decays, newest, count, now)
            one_step = shared / tl.maximum(rate, 2.2250738585072014e-308)
            tl.store(at[:, None] + D + 1 + a[None, :], one_step.to(tl.float32), mask=both)
