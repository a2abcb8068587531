"""Products of small matrices and vectors in compiled loops, without the overhead of a library call."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.kernels.jit import inline_fast

Array = npt.NDArray[Any]


@inline_fast
def multiply(matrix: Array, vector: Array, out: Array) -> None:
    """out += matrix vector, in float32"""
    for i in range(out.size):
        total = np.float32(0)
        for j in range(vector.size):
            total += matrix[i, j] * vector[j]
        out[i] += total


@inline_fast
def multiply_transposed(matrix: Array, vector: Array, out: Array) -> None:
    """out += matrix^T vector, in float32"""
    for i in range(vector.size):
        for j in range(out.size):
            out[j] += matrix[i, j] * vector[i]
