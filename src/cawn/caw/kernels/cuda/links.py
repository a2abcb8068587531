"""Gathering the links of one training step on a GPU."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

_LINKS = 128  # per program


def take_links(
    order: Tensor,
    src: Tensor,
    dst: Tensor,
    negatives: tuple[Tensor, Tensor],
    t: Tensor,
    weight: Tensor,
    step: Tensor,
    rows: tuple[int, int, int],
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Some links of update `step` [1], which has order[step * whole : (step + 1) * whole]: `size` from `first` on.

    Returns their ends [2 (1 + K) * size] (src, K sources of negatives, dst, K destinations of negatives), times
    [2 (1 + K) * size], weights [size] and presence [size]. In an incomplete last batch the last link fills the
    remaining places, with weight and presence 0.

    Args:
        negatives: Sources and destinations, [K, n] each.
        rows: (first, size, whole)
    """
    first, size, whole = rows
    K = len(negatives[0])
    ends, times = src.new_empty(2 * (1 + K) * size), t.new_empty(2 * (1 + K) * size)
    weights, present = torch.empty(2, size, device=src.device)
    take_links_kernel[(-(-size // _LINKS),)](
        *(order, src, dst, *negatives, t, weight, step, ends, times, weights, present, len(src), size, first, whole),
        K=K,
        BLOCK=_LINKS,
    )
    return ends, times, weights, present


@triton.jit(do_not_specialize=["n", "size", "first", "whole"])
def take_links_kernel(
    order,  # [n] int64, a permutation of the links
    src,  # [n] int64
    dst,  # [n] int64
    negative_src,  # [K, n] int64
    negative_dst,  # [K, n] int64
    t,  # [n]
    weight,  # [n] float32
    step,  # [1] int64
    ends,  # [2 (1 + K), size] int64
    times,  # [2 (1 + K), size]
    weights,  # [size] float32
    present,  # [size] float32
    n,
    size,
    first,
    whole,
    K: tl.constexpr,
    BLOCK: tl.constexpr,
):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < size
    at = tl.load(step) * whole + first + i
    link = tl.load(order + tl.minimum(at, n - 1), mask=inside, other=0)
    u, now = tl.load(src + link, mask=inside, other=0), tl.load(t + link, mask=inside, other=0)
    tl.store(ends + i, u, mask=inside)
    tl.store(ends + (1 + K) * size + i, tl.load(dst + link, mask=inside, other=0), mask=inside)
    for k in range(K):
        at_negative = k * n.to(tl.int64) + link
        tl.store(ends + (1 + k) * size + i, tl.load(negative_src + at_negative, mask=inside, other=0), mask=inside)
        tl.store(ends + (2 + K + k) * size + i, tl.load(negative_dst + at_negative, mask=inside, other=0), mask=inside)
    for k in range(2 * (1 + K)):
        tl.store(times + k * size + i, now, mask=inside)
    there = inside & (at < n)
    tl.store(weights + i, tl.load(weight + link, mask=there, other=0), mask=inside)
    tl.store(present + i, there.to(tl.float32), mask=inside)
