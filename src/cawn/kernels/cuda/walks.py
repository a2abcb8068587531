"""The walk engine on a GPU. `cpu` says what is computed: the same index, the same random numbers, the same walks.

One program walks one block of walks of one query, all their steps. The lists of a query's walks lie close together, so
what one lane loads the others find in the cache.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def mix64(x):
    """See `cpu.mix64`."""
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB
    return x ^ (x >> 31)


@triton.jit
def count_before(time, start, stop, t):
    """How many of the sorted time[start:stop] are strictly earlier than t, for one list."""
    lo, hi = start, stop
    while lo < hi:
        mid = (lo + hi) >> 1
        earlier = tl.load(time + mid) < t
        lo = tl.where(earlier, mid + 1, lo)
        hi = tl.where(earlier, hi, mid)
    return lo - start


@triton.jit
def draw_entry(time, sums, alpha, first, newest, u, alive):
    """See `cpu.draw_entry`; `sums` points to the log-sums of each lane's decay."""
    now = tl.load(time + newest, mask=alive, other=0)
    target = tl.load(sums + newest, mask=alive, other=0.0) + tl.log(u)
    lo, hi, probe = first - 1, newest, newest - 1
    stride = tl.full(newest.shape, 1, tl.int64)
    going = alive & (probe >= first)
    while tl.max(going.to(tl.int32), axis=0) > 0:
        age = now - tl.load(time + probe, mask=going, other=0)
        enough = tl.load(sums + probe, mask=going, other=0.0) - alpha * age.to(tl.float64) >= target
        lo = tl.where(going & (enough == 0), probe, lo)
        going = going & enough
        hi = tl.where(going, probe, hi)
        stride += stride
        probe = tl.where(going, probe - stride, probe)
        going = going & (probe >= first)
    going = alive & (hi - lo > 1)
    while tl.max(going.to(tl.int32), axis=0) > 0:
        mid = (lo + hi) >> 1
        age = now - tl.load(time + mid, mask=going, other=0)
        enough = tl.load(sums + mid, mask=going, other=0.0) - alpha * age.to(tl.float64) >= target
        hi = tl.where(going & enough, mid, hi)
        lo = tl.where(going & (enough == 0), mid, lo)
        going = alive & (hi - lo > 1)
    return hi


@triton.jit(do_not_specialize=["num_nodes", "num_entries"])
def sample_walks(
    starts,  # the index, see `cpu.Index`
    time,
    hop,
    logsum,
    alphas,
    nodes,  # [B] int64, the queries
    t,  # [B]
    widths,  # [m] links drawn at each step
    seed,  # [1] int64
    out_nodes,  # [B, M, m + 1] int32
    out_t,  # the same, as the times
    out_links,  # int32, 2 * event + side; -1 where there is none
    out_seen,  # int32, how many earlier links the node has there
    num_nodes,
    num_entries,
    num_decays,
    M,
    LENGTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """See `cpu.sample_walks`."""
    q = tl.program_id(0).to(tl.int64)
    w = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = w < M
    root, when = tl.load(nodes + q), tl.load(t + q)
    known = (root >= 0) & (root < num_nodes)
    start = tl.load(starts + root, mask=known, other=0)
    seen = count_before(time, start, tl.load(starts + root + 1, mask=known, other=0), when)
    link = tl.load(hop + 3 * (start + seen - 1) + 1, mask=seen > 0, other=0)
    key = mix64(tl.load(seed).to(tl.uint64, bitcast=True)) ^ when.to(tl.uint64, bitcast=True)
    key = mix64(mix64(key) ^ link.to(tl.uint64))
    out = (q * M + w) * (LENGTH + 1)
    first, count = start + tl.zeros([BLOCK], tl.int64), seen + tl.zeros([BLOCK], tl.int64)
    tl.store(out_nodes + out, root.to(tl.int32) + tl.zeros([BLOCK], tl.int32), mask=inside)
    tl.store(out_t + out, tl.where(inside, when, 0), mask=inside)
    tl.store(out_links + out, tl.full([BLOCK], -1, tl.int32), mask=inside)
    tl.store(out_seen + out, count.to(tl.int32), mask=inside)
    for s in range(1, LENGTH + 1):
        width = tl.load(widths + s - 1)
        k = w // (M // width)
        a = k * num_decays // width
        alpha = tl.load(alphas + a, mask=inside, other=0.0)
        draw = ((k.to(tl.int64) << 8) | s).to(tl.uint64)
        u = ((mix64(key + draw * 0x9E3779B97F4A7C15) >> 12).to(tl.float64) + 0.5) * 2.220446049250313e-16
        alive = inside & (count > 0)
        at = draw_entry(time, logsum + a.to(tl.int64) * num_entries, alpha, first, first + count - 1, u, alive)
        node = tl.load(hop + 3 * at, mask=alive, other=-1)
        count = tl.load(hop + 3 * at + 2, mask=alive, other=0).to(tl.int64)
        first = tl.load(starts + node, mask=alive, other=0)
        tl.store(out_nodes + out + s, node, mask=inside)
        tl.store(out_t + out + s, tl.load(time + at, mask=alive, other=-1), mask=inside)
        tl.store(out_links + out + s, tl.load(hop + 3 * at + 1, mask=alive, other=-1), mask=inside)
        tl.store(out_seen + out + s, count.to(tl.int32), mask=inside)
