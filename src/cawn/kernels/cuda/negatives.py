"""False destinations drawn on a GPU: the very ones that `negatives` draws."""

from __future__ import annotations

import triton
import triton.language as tl

from cawn.kernels.cuda.walks import mix64


@triton.jit(do_not_specialize=["n", "pool_size", "num_links"])
def draw(
    src,  # [n] the links: int64 nodes, times, and their positions in the events
    dst,
    t,
    links,
    pool,  # destinations to draw from, sorted
    starts,  # [N + 1] where each source's earlier destinations begin
    candidates,
    now_src,  # all links ordered by (source, time, destination)
    now_t,
    now_dst,
    key,  # [1] int64, the seed
    random,  # [n] int64 out: any destination but the true one
    hard,  # [n] int64 out: one the source had before and does not link to now; as `random` where there is none
    n,
    pool_size,
    num_links,
    HARD: tl.constexpr,
    BLOCK: tl.constexpr,
):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    v = tl.load(dst + i, mask=inside, other=0)
    link = tl.load(links + i, mask=inside, other=0).to(tl.uint64, bitcast=True)
    seed = tl.load(key).to(tl.uint64, bitcast=True)
    lo, hi = tl.zeros([BLOCK], tl.int64), pool_size + tl.zeros([BLOCK], tl.int64)
    while tl.max((lo < hi).to(tl.int32), axis=0) > 0:
        mid = (lo + hi) >> 1
        less = (lo < hi) & (tl.load(pool + mid, mask=lo < hi, other=0) < v)
        hi = tl.where(less, hi, tl.where(lo < hi, mid, hi))
        lo = tl.where(less, mid + 1, lo)
    others = (pool_size + tl.zeros([BLOCK], tl.int64) - 1).to(tl.uint64)
    j = (mix64(mix64(seed) ^ link) % others).to(tl.int64)
    j += (j >= lo).to(tl.int64)
    drawn = tl.load(pool + j, mask=inside, other=0)
    tl.store(random + i, drawn, mask=inside)
    if HARD:
        u, when = tl.load(src + i, mask=inside, other=0), tl.load(t + i, mask=inside, other=0)
        first = tl.load(starts + u, mask=inside, other=0)
        size = tl.load(starts + u + 1, mask=inside, other=0) - first
        lo, hi = tl.zeros([BLOCK], tl.int64), num_links + tl.zeros([BLOCK], tl.int64)
        while tl.max((lo < hi).to(tl.int32), axis=0) > 0:
            mid = (lo + hi) >> 1
            there = tl.load(now_src + mid, mask=lo < hi, other=0)
            earlier = (there < u) | ((there == u) & (tl.load(now_t + mid, mask=lo < hi, other=0) < when))
            less = (lo < hi) & earlier
            hi = tl.where(less, hi, tl.where(lo < hi, mid, hi))
            lo = tl.where(less, mid + 1, lo)
        some = tl.maximum(size, 1)
        offset = (mix64(mix64(seed ^ 0x5851F42D4C957F2D) ^ link) % some.to(tl.uint64)).to(tl.int64)
        tried, searching = tl.zeros([BLOCK], tl.int64), inside & (size > 0)
        while tl.max(searching.to(tl.int32), axis=0) > 0:
            candidate = tl.load(candidates + first + (offset + tried) % some, mask=searching, other=0)
            linked, at = candidate == v, lo
            more = searching & (linked == 0) & (at < num_links)
            while tl.max(more.to(tl.int32), axis=0) > 0:
                same = more & (tl.load(now_src + at, mask=more, other=-1) == u)
                same = same & (tl.load(now_t + at, mask=same, other=0) == when)
                linked = linked | (same & (tl.load(now_dst + at, mask=same, other=-1) == candidate))
                at += 1
                more = same & (linked == 0) & (at < num_links)
            drawn = tl.where(searching & (linked == 0), candidate, drawn)
            tried += 1
            searching = searching & linked & (tried < size)
        tl.store(hard + i, drawn, mask=inside)
