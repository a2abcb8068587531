"""The states of DyRep after each link, and their gradients; see `cawn.systems.dyrep_original`.

Row r of the tables is a state from before the links (r < L), or what message r - L makes of one. Message 2e is what
link e does to its source, message 2e + 1 what it does to its destination. Messages at one time read rows from before
that time, and the state after them is their mean.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cawn.kernels.cpu.matrices import multiply, multiply_transposed
from cawn.kernels.jit import inline_fast, njit_fast

Array = npt.NDArray[Any]


class Weights(NamedTuple):
    """Of a state of width d; float32."""

    struct: Array  # [d, d]
    rec: Array  # [d, d]
    h: Array  # [d, d]
    omega: Array  # [2, 2d], of both kinds of links
    bias: Array  # [2]
    psi: Array  # [2]


class Messages(NamedTuple):
    """M consecutive messages and what they read; K slots for partners."""

    rows: Array  # of the owner, of the other end, and of each partner of the other end [M, 2 + K]; -1 for no partner
    previous: Array  # the message before it to the same owner at the same time [M]; -1 for none
    writer: Array  # the message of the same owner and time that wrote to each slot of the owner [M, K]; -1 for none
    share: Array  # one over the owner's number of partners, before this time and now [M, 2]
    kinds: Array  # of the link [M]
    drive: Array  # what gap and attributes add to the state, before the nonlinearity [M, d]


class Tables(NamedTuple):
    """What the forward pass writes."""

    z: Array  # the states [L + M, d]
    projected: Array  # W_h z [L + M, d]
    attention: Array  # S [L + M, K]
    new: Array  # the states before they are averaged with those of the same time [M, d]
    averaged: Array  # the number of states in that average [M]
    h: Array  # the neighbourhood of the other end [M, d]
    best: Array  # the slot with the largest input to h [M, d]; -1 without partners
    q: Array  # softmax of the attention of the other end [M, K]
    rate: Array  # lambda [M]


@inline_fast
def _sigmoid(x: float) -> float:
    """1 / (1 + exp(-x)); the exponential does not overflow."""
    return 1 / (1 + math.exp(-min(max(x, -80.0), 80.0)))


@njit_fast
def forward(weights: Weights, messages: Messages, tables: Tables) -> None:
    """Fill the tables, of which the first L rows of z and attention are given."""
    z, projected = tables.z, tables.projected
    num_messages, num_outside = len(messages.rows), len(z) - len(messages.rows)
    for row in range(num_outside):
        projected[row] = 0
        multiply(weights.h, z[row], projected[row])
    for m in range(num_messages):
        own, other, row = messages.rows[m, 0], messages.rows[m, 1], num_outside + m
        _neighbourhood(messages, tables, m, other)
        new = tables.new[m]
        new[:] = messages.drive[m]
        multiply(weights.rec, z[own], new)
        multiply(weights.struct, tables.h[m], new)
        for j in range(new.size):
            new[j] = _sigmoid(new[j])
        before = messages.previous[m]
        if before >= 0:
            tables.averaged[m] = tables.averaged[before] + 1
            for j in range(new.size):
                z[row, j] = z[num_outside + before, j] + (new[j] - z[num_outside + before, j]) / tables.averaged[m]
        else:
            tables.averaged[m] = 1
            z[row] = new
        projected[row] = 0
        multiply(weights.h, z[row], projected[row])
        kind = messages.kinds[m]
        tables.rate[m] = (_rate(weights, z[own], z[other], kind) + _rate(weights, z[other], z[own], kind)) / 2
        _attend(messages, tables, m, own, row)


@inline_fast
def _neighbourhood(messages: Messages, tables: Tables, m: int, other: int) -> None:
    """h = max over partners i of the other end of sigma(q_i W_h z_i); sigma is monotonic, so it is applied last."""
    partners, h, best, q = messages.rows[m, 2:], tables.h[m], tables.best[m], tables.q[m]
    h[:], best[:], q[:] = 0, -1, 0
    total = np.float32(0)
    for k in range(q.size):
        if partners[k] >= 0:
            q[k] = math.exp(tables.attention[other, k])  # S is from 0 to 1
            total += q[k]
    for k in range(q.size):
        if partners[k] >= 0:
            q[k] /= total
            for j in range(h.size):
                value = q[k] * tables.projected[partners[k], j]
                if best[j] < 0 or value > h[j]:
                    h[j], best[j] = value, k
    if total > 0:
        for j in range(h.size):
            h[j] = _sigmoid(h[j])


@inline_fast
def _rate(weights: Weights, u: Array, v: Array, kind: int) -> float:
    """lambda = psi log(1 + exp(g / psi)), g = omega . [u | v] + b."""
    g = weights.bias[kind]
    for j in range(u.size):
        g += weights.omega[kind, j] * u[j] + weights.omega[kind, u.size + j] * v[j]
    x = g / weights.psi[kind]
    return float(weights.psi[kind] * (max(x, np.float32(0)) + math.log1p(math.exp(-abs(x)))))


@inline_fast
def _attend(messages: Messages, tables: Tables, m: int, own: int, row: int) -> None:
    """S of the owner: b + lambda for partners that link now; all others lose b' - b; the sum is 1."""
    old, new, writer = tables.attention[own], tables.attention[row], messages.writer[m]
    lost = messages.share[m, 0] - messages.share[m, 1]
    total = np.float32(0)
    for k in range(new.size):
        if writer[k] >= 0:
            new[k] = messages.share[m, 1] + tables.rate[writer[k]]
        elif old[k] > 0:
            new[k] = max(old[k] - lost, np.float32(0))
        else:
            new[k] = 0
        total += new[k]
    for k in range(new.size):
        new[k] /= total


@njit_fast
def backward(weights: Weights, messages: Messages, tables: Tables, grad_z: Array, grad_p: Array, grad: Array) -> None:
    """Gradients by the inputs of each message, from those by the states; attention is a constant.

    Args:
        grad_z: By the states [L + M, d]; those of the first L rows are completed, except for what `grad_p` adds.
        grad_p: By W_h z [L + M, d], zeros, written.
        grad: By the drive of each message [M, d], written.
    """
    num_messages, num_outside = len(messages.rows), len(grad_z) - len(messages.rows)
    by_h = np.empty(grad.shape[1], np.float32)
    for m in range(num_messages - 1, -1, -1):
        row, own, count = num_outside + m, messages.rows[m, 0], tables.averaged[m]
        multiply_transposed(weights.h, grad_p[row], grad_z[row])
        if count > 1:
            for j in range(by_h.size):
                grad_z[num_outside + messages.previous[m], j] += grad_z[row, j] * np.float32((count - 1) / count)
        for j in range(by_h.size):
            grad[m, j] = grad_z[row, j] / np.float32(count) * tables.new[m, j] * (1 - tables.new[m, j])
        multiply_transposed(weights.rec, grad[m], grad_z[own])
        by_h[:] = 0
        multiply_transposed(weights.struct, grad[m], by_h)
        for j in range(by_h.size):
            slot = tables.best[m, j]
            if slot >= 0:
                inner = by_h[j] * tables.h[m, j] * (1 - tables.h[m, j])
                grad_p[messages.rows[m, 2 + slot], j] += inner * tables.q[m, slot]
