"""An LSTM step over prefixes as one differentiable operation on the CPU; `cpu_lstm` does the work."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from cawn.kernels.cpu import lstm as cpu_lstm
from cawn.kernels.jit import in_parallel

Array = npt.NDArray[Any]


class LstmStep(torch.autograd.Function):
    """(h, c) of n prefixes: gates = features W^T + own_table[own] + other_table[other] + past[parent].

    The tables and what came before may be empty (no rows), and then add nothing.
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
        owner: Tensor,  # [n]
    ) -> tuple[Tensor, Tensor]:
        gates = features @ weight.T  # [n, 4d]
        h = features.new_empty(len(gates), weight.shape[0] // 4)
        c = torch.empty_like(h)
        rows = (own.numpy(), own_table.numpy(), other.numpy(), other_table.numpy(), parent.numpy())
        arrays = (gates.numpy(), *rows, past.numpy(), c_before.numpy(), h.numpy(), c.numpy())
        pieces = _pieces(owner.numpy(), torch.get_num_threads())
        in_parallel(partial(cpu_lstm.forward, *arrays), pieces, len(pieces))
        ctx.save_for_backward(features, weight, own, other, parent, c_before, c)
        ctx.gates, ctx.pieces = gates, pieces
        ctx.sizes = (len(own_table), len(other_table), len(past))
        return h, c

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, h_grad: Tensor, c_grad: Tensor) -> tuple[Tensor | None, ...]:
        features, weight, own, other, parent, c_before, c = ctx.saved_tensors
        gates, pieces = ctx.gates, ctx.pieces
        ctx.gates = None  # overwritten below: a graph is walked once
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
            cpu_lstm.backward(gates.numpy(), *tables, *before, *state, lo, hi)

        in_parallel(work, pieces, len(pieces))
        to_features = gates @ weight if ctx.needs_input_grad[0] else None
        to_weight = gates.T @ features
        grads = (to_features, to_weight, own_grad.sum(0), other_grad.sum(0), past_grad, c_before_grad)
        return (*grads, None, None, None, None)


def _pieces(owner: Array, threads: int) -> list[int]:
    """Bounds of rows for each thread, between walk sets, so that no two threads add to the state of one parent."""
    n = len(owner)
    if threads < 2 or n < 256 or (np.diff(owner) < 0).any():
        return [0, n]
    aims = owner[[n * k // threads for k in range(1, threads)]]
    return sorted({0, *np.searchsorted(owner, aims).tolist(), n})
