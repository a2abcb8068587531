"""One step of an LSTM over the prefixes of walks, in one pass over memory each way.

Written out in PyTorch, a step gathers, adds, activates and multiplies a dozen tensors of [n, 4d] one after the other,
and its time is that of moving them. Here each row stays in cache from its gathered parts to its state. Gates lie in
the order input, forget, output, new.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.kernels.jit import inline_fast, njit_fast

Array = npt.NDArray[Any]

_CLAMP = np.float32(7.90531110763549805)  # beyond it tanh is 1 in float32
_ODD = tuple(
    np.float32(c)
    for c in (
        4.89352455891786e-03,
        6.37261928875436e-04,
        1.48572235717979e-05,
        5.12229709037114e-08,
        -8.60467152213735e-11,
        2.00018790482477e-13,
        -2.76076847742355e-16,
    )
)
_EVEN = tuple(
    np.float32(c) for c in (4.89352518554385e-03, 2.26843463243900e-03, 1.18534705686654e-04, 1.19825839466702e-06)
)
A1, A3, A5, A7, A9, A11, A13 = _ODD
B0, B2, B4, B6 = _EVEN
HALF, ONE = np.float32(0.5), np.float32(1.0)


@inline_fast
def tanh(x: Any) -> Any:
    """A rational function that is right to about 2e-7, without a branch or a call."""
    x = min(max(x, -_CLAMP), _CLAMP)
    s = x * x
    odd = x * (A1 + s * (A3 + s * (A5 + s * (A7 + s * (A9 + s * (A11 + s * A13))))))
    return odd / (B0 + s * (B2 + s * (B4 + s * B6)))


@inline_fast
def sigmoid(x: Any) -> Any:
    return HALF + HALF * tanh(HALF * x)


@njit_fast
def forward(
    gates: Array,  # [n, 4d] in: what each position gives by itself; out: the activated gates
    own: Array,  # [n] rows of own_table to add, if it has any
    own_table: Array,  # [K, 4d]
    other: Array,
    other_table: Array,
    parent: Array,  # [n] rows of `past` and `c_before` to continue, if there are any
    past: Array,  # [p, 4d]
    c_before: Array,  # [p, d]
    h: Array,  # [n, d] out
    c: Array,  # [n, d] out
    lo: int,
    hi: int,
) -> None:
    d = h.shape[1]
    for n in range(lo, hi):
        row = gates[n]
        if own_table.shape[0] > 0:
            add = own_table[own[n]]
            for j in range(4 * d):
                row[j] += add[j]
        if other_table.shape[0] > 0:
            add = other_table[other[n]]
            for j in range(4 * d):
                row[j] += add[j]
        if past.shape[0] > 0:
            add = past[parent[n]]
            for j in range(4 * d):
                row[j] += add[j]
        for j in range(3 * d):
            row[j] = sigmoid(row[j])
        for j in range(3 * d, 4 * d):
            row[j] = tanh(row[j])
        now = c[n]
        for j in range(d):
            now[j] = row[j] * row[3 * d + j]
        if past.shape[0] > 0:
            before = c_before[parent[n]]
            for j in range(d):
                now[j] += row[d + j] * before[j]
        out = h[n]
        for j in range(d):
            out[j] = row[2 * d + j] * tanh(now[j])


@njit_fast
def backward(
    gates: Array,  # [n, 4d] in: the activated gates; out: the gradients before activation
    own: Array,
    own_grad: Array,  # [K, 4d] added to
    other: Array,
    other_grad: Array,
    parent: Array,
    past_grad: Array,  # [p, 4d] added to
    c_before: Array,  # [p, d]
    c_before_grad: Array,  # [p, d] added to
    c: Array,  # [n, d]
    h_grad: Array,  # [n, d]
    c_grad: Array,  # [n, d], overwritten
    lo: int,
    hi: int,
) -> None:
    d = c.shape[1]
    for n in range(lo, hi):
        row, now, dh, dc = gates[n], c[n], h_grad[n], c_grad[n]
        for j in range(d):
            squashed = tanh(now[j])
            o = row[2 * d + j]
            dc[j] += dh[j] * o * (ONE - squashed * squashed)
            row[2 * d + j] = dh[j] * squashed * o * (ONE - o)
        if past_grad.shape[0] > 0:
            before, to_before = c_before[parent[n]], c_before_grad[parent[n]]
            for j in range(d):
                f = row[d + j]
                to_before[j] += dc[j] * f
                row[d + j] = dc[j] * before[j] * f * (ONE - f)
        else:
            for j in range(d):
                row[d + j] = 0.0
        for j in range(d):
            i, new = row[j], row[3 * d + j]
            row[j] = dc[j] * new * i * (ONE - i)
            row[3 * d + j] = dc[j] * i * (ONE - new * new)
        if own_grad.shape[0] > 0:
            to = own_grad[own[n]]
            for j in range(4 * d):
                to[j] += row[j]
        if other_grad.shape[0] > 0:
            to = other_grad[other[n]]
            for j in range(4 * d):
                to[j] += row[j]
        if past_grad.shape[0] > 0:
            to = past_grad[parent[n]]
            for j in range(4 * d):
                to[j] += row[j]
