"""The states of JODIE after each link, and their gradients; see `cawn.systems.jodie_original`.

Row r of the tables is a state from before the links (r < L), or what message r - L makes of one. Message 2e is what
link e does to its source, message 2e + 1 what it does to its destination. Messages at one time read rows from before
that time, and the state after them is their mean, divided by its norm.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cawn.kernels.cpu.matrices import multiply, multiply_transposed
from cawn.kernels.jit import njit_fast

Array = npt.NDArray[Any]

_SMALLEST_NORM = 1e-12


class Messages(NamedTuple):
    """M consecutive messages and what they read."""

    rows: Array  # of the owner and of the other end [M, 2]
    previous: Array  # the message before it to the same owner at the same time [M]; -1 for none
    drive: Array  # what gap and attributes add to the state, before the nonlinearity [M, d]


class Tables(NamedTuple):
    """What the forward pass writes."""

    z: Array  # the states [L + M, d]
    new: Array  # tanh(own z_own + other z_other + drive) [M, d]
    mean: Array  # its mean with those to the same owner at the same time so far [M, d]
    averaged: Array  # the number of messages in that mean [M]
    norm: Array  # of the mean [M]


@njit_fast
def forward(own: Array, other: Array, messages: Messages, tables: Tables) -> None:
    """Fill the tables, of which the first L rows of z are given; `own` and `other` are weights by role [2, d, d]."""
    z, mean = tables.z, tables.mean
    num_outside = len(z) - len(messages.rows)
    for m in range(len(messages.rows)):
        new = tables.new[m]
        new[:] = messages.drive[m]
        multiply(own[m % 2], z[messages.rows[m, 0]], new)
        multiply(other[m % 2], z[messages.rows[m, 1]], new)
        before = messages.previous[m]
        tables.averaged[m] = 1 if before < 0 else tables.averaged[before] + 1
        total = 0.0
        for j in range(new.size):
            new[j] = math.tanh(new[j])
            mean[m, j] = new[j] if before < 0 else mean[before, j] + (new[j] - mean[before, j]) / tables.averaged[m]
            total += mean[m, j] * mean[m, j]
        tables.norm[m] = max(math.sqrt(total), _SMALLEST_NORM)
        for j in range(new.size):
            z[num_outside + m, j] = mean[m, j] / tables.norm[m]


@njit_fast
def backward(own: Array, other: Array, messages: Messages, tables: Tables, grad_z: Array, grad: Array) -> None:
    """Gradients by the inputs of each message, from those by the states.

    Args:
        grad_z: By the states [L + M, d]; those of the first L rows are completed.
        grad: By the drive of each message [M, d], written.
    """
    num_outside = len(grad_z) - len(messages.rows)
    by_mean = np.zeros_like(grad)
    for m in range(len(messages.rows) - 1, -1, -1):
        z, by_z, count, before = (
            tables.z[num_outside + m],
            grad_z[num_outside + m],
            tables.averaged[m],
            messages.previous[m],
        )
        along = 0.0
        for j in range(z.size):
            along += z[j] * by_z[j]
        for j in range(z.size):
            by_mean[m, j] += (by_z[j] - along * z[j]) / tables.norm[m]
            if before >= 0:
                by_mean[before, j] += by_mean[m, j] * (count - 1) / count
            grad[m, j] = by_mean[m, j] / count * (1 - tables.new[m, j] * tables.new[m, j])
        multiply_transposed(own[m % 2], grad[m], grad_z[messages.rows[m, 0]])
        multiply_transposed(other[m % 2], grad[m], grad_z[messages.rows[m, 1]])
