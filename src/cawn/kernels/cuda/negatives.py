"""False destinations drawn on a GPU: the very ones that `cawn.learn.negatives.Choices.draw` draws."""

from __future__ import annotations

import triton
import triton.language as tl

from cawn.kernels.cuda.walks import mix64


@triton.jit(do_not_specialize=["n"])
def draw(
    links,  # see `cawn.learn.negatives.Choices`; all int64
    nodes,
    first,
    count,
    skipped,
    skip_from,
    skip_to,
    key,  # [1] int64, the seed
    fallback,  # [n] int64, taken where there is nothing to draw; not read if HAS_FALLBACK is false
    out,  # [n] int64
    n,
    SALT: tl.constexpr,
    HAS_FALLBACK: tl.constexpr,
    BLOCK: tl.constexpr,
):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < n
    size = tl.load(count + i, mask=inside, other=0)
    some = inside & (size > 0)
    link = tl.load(links + i, mask=some, other=0).to(tl.uint64, bitcast=True)
    seed = tl.load(key).to(tl.uint64, bitcast=True)
    r = (mix64(mix64(seed ^ SALT) ^ link) % tl.where(some, size, 1).to(tl.uint64)).to(tl.int64)
    start = tl.load(skip_from + i, mask=some, other=0)
    lo, hi = start, tl.load(skip_to + i, mask=some, other=0)
    while tl.max((lo < hi).to(tl.int32), axis=0) > 0:
        mid = (lo + hi) >> 1
        passed = (lo < hi) & (tl.load(skipped + mid, mask=lo < hi, other=0) <= r)
        hi = tl.where(passed, hi, tl.where(lo < hi, mid, hi))
        lo = tl.where(passed, mid + 1, lo)
    drawn = tl.load(nodes + tl.load(first + i, mask=some, other=0) + r + lo - start, mask=some, other=-1)
    if HAS_FALLBACK:
        drawn = tl.where(some, drawn, tl.load(fallback + i, mask=inside, other=0))
    tl.store(out + i, drawn, mask=inside)
