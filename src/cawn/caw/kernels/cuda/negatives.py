"""Drawing a negative destination for each of many links, on a GPU; draws what `systems.choices` draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from cawn.kernels.cuda.functions import mix64

_LINKS = 128  # per program


class DeviceChoices:
    """Draws on the device what `systems.choices.Choices` draws; `choices` is any object with its fields."""

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
