"""The links of an update and their negatives, on a GPU: the negatives are those of `learn.negatives.Choices.draw`."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from cawn.kernels.cuda.walks import mix64

_LINKS = 128  # per program


class DeviceChoices:
    """Draws on the device what `learn.negatives.Choices` draws; `choices` is any object with its fields."""

    def __init__(self, choices: Any, device: torch.device) -> None:
        names = ("links", "nodes", "first", "count", "skipped", "skip_from", "skip_to")
        arrays = (getattr(choices, name).astype(np.int64) for name in names)
        self._arrays = [torch.from_numpy(array).to(device) for array in arrays]
        self._salt = choices.salt

    def draw(self, seed: Tensor, fallback: Tensor | None = None) -> Tensor:
        """A destination for each link; where there is none, that of `fallback`, or -1: [n] int64."""
        out = torch.empty_like(self._arrays[0])
        draw_kernel[(-(-len(out) // _LINKS),)](
            *(*self._arrays, seed, out if fallback is None else fallback, out, len(out)),
            SALT=self._salt,
            HAS_FALLBACK=fallback is not None,
            BLOCK=_LINKS,
            num_warps=2,
        )
        return out


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


@triton.jit(do_not_specialize=["n"])
def draw_kernel(
    links,  # the fields of `Choices`, all int64
    nodes,
    first,
    count,
    skipped,
    skip_from,
    skip_to,
    key,  # [1] int64, the seed
    fallback,  # [n] int64, for links without a choice; not read unless HAS_FALLBACK
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
