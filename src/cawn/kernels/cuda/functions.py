"""Functions of Triton kernels: the random numbers of `cawn.kernels.rng`, and a logarithm."""

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


@triton.jit
def log1p(x):
    """log(1 + x) of float64, with an absolute error of 1e-16."""
    return tl.log(1.0 + x)
