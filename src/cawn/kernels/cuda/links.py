"""Gathering the links of one training step on a GPU."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_LINKS = 128  # per program


def take_links(
    order: Tensor, src: Tensor, dst: Tensor, negatives: Tensor, t: Tensor, weight: Tensor, step: Tensor, size: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The links of update `step` [1]: order[step * size : (step + 1) * size].

    Returns their ends [4 * size] (src, src, dst, negatives), times [3 * size], weights [size] and presence [size]. In
    an incomplete last batch the last link fills the remaining places, with weight and presence 0.
    """
    ends, times = src.new_empty(4 * size), t.new_empty(3 * size)
    weights, present = torch.empty(2, size, device=src.device)
    take_links_kernel[(-(-size // _LINKS),)](
        *(order, src, dst, negatives, t, weight, step, ends, times, weights, present, len(src), size), BLOCK=_LINKS
    )
    return ends, times, weights, present


@triton.jit(do_not_specialize=["n", "size"])
def take_links_kernel(
    order,  # [n] int64, a permutation of the links
    src,  # [n] int64
    dst,  # [n] int64
    negatives,  # [n] int64
    t,  # [n]
    weight,  # [n] float32
    step,  # [1] int64
    ends,  # [4, size] int64
    times,  # [3, size]
    weights,  # [size] float32
    present,  # [size] float32
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
    tl.store(ends + 3 * size + i, tl.load(negatives + link, mask=inside, other=0), mask=inside)
    tl.store(times + i, now, mask=inside)
    tl.store(times + size + i, now, mask=inside)
    tl.store(times + 2 * size + i, now, mask=inside)
    there = inside & (at < n)
    tl.store(weights + i, tl.load(weight + link, mask=there, other=0), mask=inside)
    tl.store(present + i, there.to(tl.float32), mask=inside)
