"""Equal prefixes of different pairs, found and pooled, on the CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.kernels.jit import njit, njit_fast
from cawn.kernels.rng import GOLDEN_64

Array = npt.NDArray[Any]


@njit
def merge_rows(parent: Array, step: Array, own: Array, other: Array, table: Array, row: Array, first: Array) -> int:
    """Number the distinct rows (parent, step, own, other) in the order they come; return how many there are.

    Args:
        table: Slots of a hash table, a power of two and more than there are rows; all -1.
        row: [n] out: the number of each row.
        first: [n] out: where the row of each number is first.
    """
    mask, size = table.size - 1, 0
    for n in range(parent.size):
        code = np.uint64(parent[n] + 1) * GOLDEN_64 ^ np.uint64(step[n] + 1)
        code = (code ^ code >> np.uint64(29)) * GOLDEN_64 ^ np.uint64(own[n])
        code = (code ^ code >> np.uint64(32)) * GOLDEN_64 ^ np.uint64(other[n])
        code = (code ^ code >> np.uint64(29)) * GOLDEN_64
        slot = np.int64(code >> np.uint64(20)) & mask
        while table[slot] >= 0:
            known = first[table[slot]]
            if (
                parent[known] == parent[n]
                and step[known] == step[n]
                and own[known] == own[n]
                and other[known] == other[n]
            ):
                break
            slot = (slot + 1) & mask
        if table[slot] < 0:
            table[slot] = size
            first[size] = n
            size += 1
        row[n] = table[slot]
    return size


@njit_fast
def pool_rows(h: Array, row: Array, owner: Array, weight: Array, pooled: Array) -> None:
    """Add to each owner the states of its rows, weighted: pooled[owner[n]] += weight[n] h[row[n]]."""
    for n in range(row.size):
        to, state, share = pooled[owner[n]], h[row[n]], weight[n]
        for j in range(state.size):
            to[j] += share * state[j]
