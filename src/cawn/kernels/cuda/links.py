"""The links of one update, gathered on a GPU."""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["n", "size"])
def take_links(
    order,  # [n] int64, the shuffled links
    src,  # [n] int64 each
    dst,
    false,
    t,  # [n]
    weight,  # [n] float32
    step,  # [1] int64, which update
    ends,  # [4, size] int64 out: src, src, dst, false
    times,  # [3, size] out: t thrice
    weights,  # [size] float32 out: 0 where there are no more links; the last link fills those places
    present,  # [size] float32 out: 1 for a link, 0 likewise
    n,
    size,
    BLOCK: tl.constexpr,
):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < size
    at = tl.load(step) * size + i
    link = tl.load(order + tl.minimum(at, n - 1), mask=inside, other=0)
    u, now = tl.load(src + link, mask=inside, other=0), tl.load(t + link, mask=inside, other=0)
    tl.store(ends + i, u, mask=inside)
    tl.store(ends + size + i, u, mask=inside)
    tl.store(ends + 2 * size + i, tl.load(dst + link, mask=inside, other=0), mask=inside)
    tl.store(ends + 3 * size + i, tl.load(false + link, mask=inside, other=0), mask=inside)
    tl.store(times + i, now, mask=inside)
    tl.store(times + size + i, now, mask=inside)
    tl.store(times + 2 * size + i, now, mask=inside)
    there = inside & (at < n)
    tl.store(weights + i, tl.load(weight + link, mask=there, other=0), mask=inside)
    tl.store(present + i, there.to(tl.float32), mask=inside)
