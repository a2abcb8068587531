"""exp and log1p of float64 to a relative error of about 1e-11, without branches: LLVM vectorizes loops over them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cawn.kernels.jit import inline_fused

_ROUND = 1.5 * 2.0**52  # adding it rounds to an integer, which is then in the low bits of the sum
_ROUND_BITS = np.int64(np.float64(_ROUND).view(np.int64))
_LOG2_E = 1 / math.log(2)
_LN2 = math.log(2)
_LN2_HIGH = 6.93147180369123816490e-01  # the first 33 bits of log(2): its products with exponents are exact
_LN2_LOW = 1.90821492927058770002e-10
_LEAST = -746.0  # exp is 0 from here on
_ONE_BITS = np.int64(0x3FF0000000000000)
_SQRT_HALF_BITS = np.int64(0x3FE6A09E667F3BCD)
_MANTISSA_BITS, _BIAS = np.int64(52), np.int64(1023)

# Coefficients of exp(r), and of 2 atanh(s)
E2, E3, E4, E5, E6, E7, E8, E9 = (1 / math.factorial(k) for k in range(2, 10))
L1, L3, L5, L7, L9, L11, L13 = (2 / k for k in range(1, 14, 2))


@inline_fused
def exp(x: Any) -> Any:
    """exp(x) of x < 700."""
    x = max(x, _LEAST)
    shifted = x * _LOG2_E + _ROUND
    exponent, rounded = np.float64(shifted).view(np.int64) - _ROUND_BITS, shifted - _ROUND
    r = (x - rounded * _LN2_HIGH) - rounded * _LN2_LOW  # |r| <= log(2) / 2
    s = r * r
    even = E2 + s * (E4 + s * (E6 + s * E8))
    odd = E3 + s * (E5 + s * (E7 + s * E9))
    series = 1.0 + (r + s * (even + r * odd))
    half = np.float64(rounded * 0.5 + _ROUND).view(np.int64) - _ROUND_BITS  # two factors: 2**-1070 is not normal
    first = np.int64((half + _BIAS) << _MANTISSA_BITS).view(np.float64)
    second = np.int64((exponent - half + _BIAS) << _MANTISSA_BITS).view(np.float64)
    return series * first * second


@inline_fused
def log1p(x: Any) -> Any:
    """log(1 + x) of finite x >= 0."""
    y = 1.0 + x  # 2**exponent * m, with m in [sqrt(1 / 2), sqrt(2))
    bits = np.float64(y).view(np.int64)
    exponent = np.int64(np.uint64(bits + (_ONE_BITS - _SQRT_HALF_BITS)) >> np.uint64(_MANTISSA_BITS)) - _BIAS
    m = np.int64(bits - (exponent << _MANTISSA_BITS)).view(np.float64)
    f = x if exponent == 0 else m - 1.0  # x itself, where 1 + x would round it away
    s = f / (2.0 + f)  # log(1 + f) = 2 atanh(s), |s| < 0.172
    z = s * s
    series = L1 + z * (L3 + z * (L5 + z * (L7 + z * (L9 + z * (L11 + z * L13)))))
    return (np.int64(exponent + _ROUND_BITS).view(np.float64) - _ROUND) * _LN2 + s * series
