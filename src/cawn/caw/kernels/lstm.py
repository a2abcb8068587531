"""One step of an LSTM over the prefixes of walks as one differentiable operation on the CPU.

In plain PyTorch, a step gathers, adds, activates and multiplies a dozen tensors of [n, 4d] one after the other, and
takes as long as moving them through memory. Here each row stays in cache from its gathered parts to its state, in one
pass each way. The gates are in the order input, forget, output, new.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from cawn.kernels.jit import inline_fast, njit_fast
from cawn.kernels.threads import even_bounds, in_parallel

Array = npt.NDArray[Any]

_FEW_ROWS = 256  # not worth another thread


class LstmStep(torch.autograd.Function):
    """(h, c) of n prefixes from gates = features W^T + own_table[own] + other_table[other] + past[parent].

    A table without rows, and a `past` without rows, add nothing.
    """

    @staticmethod
    def forward(
        ctx: Any,
        features: Tensor,  # [n, f]
        weight: Tensor,  # [4d, f]
        own_table: Tensor,  # [K, 4d]
        other_table: Tensor,  # [K, 4d]
        past: Tensor,  # [p, 4d]
        c_before: Tensor,  # [p, d]
        own: Tensor,  # [n]
        other: Tensor,  # [n]
        parent: Tensor,  # [n]
        owner: Tensor,  # [n] ascending where rows of different owners have different parents; else any other length
    ) -> tuple[Tensor, Tensor]:
        gates = features @ weight.T  # [n, 4d]
        n, threads = len(gates), torch.get_num_threads()
        h = features.new_empty(n, weight.shape[0] // 4)
        c = torch.empty_like(h)
        rows = (own.numpy(), own_table.numpy(), other.numpy(), other_table.numpy(), parent.numpy())
        arrays = (gates.numpy(), *rows, past.numpy(), c_before.numpy(), h.numpy(), c.numpy())
        in_parallel(partial(step_forward, *arrays), even_bounds(n, max(-(-n // threads), _FEW_ROWS)), threads)
        ctx.save_for_backward(features, weight, own, other, parent, owner, c_before, c)
        ctx.gates, ctx.threads = gates, threads
        ctx.sizes = (len(own_table), len(other_table), len(past))
        return h, c

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, h_grad: Tensor, c_grad: Tensor) -> tuple[Tensor | None, ...]:
        features, weight, own, other, parent, owner, c_before, c = ctx.saved_tensors
        gates, ctx.gates = ctx.gates, None  # overwritten below: a graph is used once
        pieces = bounds_between_owners(owner.numpy(), len(gates), ctx.threads)
        width, d = weight.shape[0], weight.shape[0] // 4
        num_own, num_other, num_past = ctx.sizes
        own_grad = features.new_zeros(len(pieces) - 1, num_own, width)  # one for each thread
        other_grad = features.new_zeros(len(pieces) - 1, num_other, width)
        past_grad, c_before_grad = features.new_zeros(num_past, width), features.new_zeros(num_past, d)
        before = (parent.numpy(), past_grad.numpy(), c_before.numpy(), c_before_grad.numpy())
        state = (c.numpy(), h_grad.contiguous().numpy(), c_grad.clone(memory_format=torch.contiguous_format).numpy())

        def work(lo: int, hi: int) -> None:
            k = pieces.index(lo)
            tables = (own.numpy(), own_grad[k].numpy(), other.numpy(), other_grad[k].numpy())
            step_backward(gates.numpy(), *tables, *before, *state, lo, hi)

        in_parallel(work, pieces, len(pieces))
        to_features = gates @ weight if ctx.needs_input_grad[0] else None
        grads = (to_features, gates.T @ features, own_grad.sum(0), other_grad.sum(0), past_grad, c_before_grad)
        return (*grads, None, None, None, None)


def bounds_between_owners(owner: Array, n: int, threads: int) -> list[int]:
    """Bounds of n rows for each thread, so that no two threads add to the gradient of one parent."""
    if threads < 2 or n < _FEW_ROWS or len(owner) != n or (np.diff(owner) < 0).any():
        return [0, n]
    aims = owner[[n * k // threads for k in range(1, threads)]]
    return sorted({0, *np.searchsorted(owner, aims).tolist(), n})


_CLAMP = np.float32(7.90531110763549805)  # tanh is 1 in float32 beyond it
A1, A3, A5, A7, A9, A11, A13 = (
    *(np.float32(4.89352455891786e-03), np.float32(6.37261928875436e-04), np.float32(1.48572235717979e-05)),
    *(np.float32(5.12229709037114e-08), np.float32(-8.60467152213735e-11), np.float32(2.00018790482477e-13)),
    np.float32(-2.76076847742355e-16),
)
B0, B2 = np.float32(4.89352518554385e-03), np.float32(2.26843463243900e-03)
B4, B6 = np.float32(1.18534705686654e-04), np.float32(1.19825839466702e-06)
HALF, ONE = np.float32(0.5), np.float32(1.0)


@inline_fast
def tanh(x: Any) -> Any:
    """A rational approximation with an error of about 2e-7 that compiles to vector instructions."""
    x = min(max(x, -_CLAMP), _CLAMP)
    s = x * x
    odd = x * (A1 + s * (A3 + s * (A5 + s * (A7 + s * (A9 + s * (A11 + s * A13))))))
    return odd / (B0 + s * (B2 + s * (B4 + s * B6)))


@inline_fast
def sigmoid(x: Any) -> Any:
    return HALF + HALF * tanh(HALF * x)


@njit_fast
def step_forward(
    gates: Array,  # [n, 4d] in: features W^T; out: the activated gates
    own: Array,  # [n]
    own_table: Array,  # [K, 4d]
    other: Array,
    other_table: Array,
    parent: Array,  # [n]
    past: Array,  # [p, 4d]
    c_before: Array,  # [p, d]
    h: Array,  # [n, d] out
    c: Array,  # [n, d] out
    lo: int,
    hi: int,
) -> None:
    """States of rows lo..hi."""
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
def step_backward(
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
    """Gradients of rows lo..hi; rows of one parent must not be shared among threads."""
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
