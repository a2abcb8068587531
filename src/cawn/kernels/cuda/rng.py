"""Random numbers on a GPU: those of `cawn.kernels.rng`."""

import triton
import triton.language as tl

from cawn.kernels import rng

GOLDEN, _MIX_1, _MIX_2 = tl.constexpr(rng.GOLDEN), tl.constexpr(rng.MIX_1), tl.constexpr(rng.MIX_2)


@triton.jit
def mix64(x):
    """The SplitMix64 finalizer of uint64."""
    x = (x ^ (x >> 30)) * _MIX_1
    x = (x ^ (x >> 27)) * _MIX_2
    return x ^ (x >> 31)
