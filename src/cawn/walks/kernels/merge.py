"""Merge equal walk prefixes of different pairs, so that each is encoded once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.kernels.jit import njit
from cawn.kernels.rng import GOLDEN_64
from cawn.walks.kernels.prefixes import Level

Array = npt.NDArray[Any]


def merge_prefixes(vectors: Array, levels: list[Level], rows: Array) -> tuple[Array, list[Level]]:
    """Merge equal prefixes of different pairs: those with the same query, links and counts of their nodes."""
    vectors, number = np.unique(vectors, axis=0, return_inverse=True)
    number = number.reshape(-1)
    merged: list[Level] = []
    for level in levels:
        own, other = number[level.own], number[level.other]
        parent = merged[-1].row[level.parent] if merged else level.parent
        step = level.event if merged else rows.reshape(-1)[level.owner]
        row, first = np.empty(len(step), np.int64), np.empty(len(step), np.int64)
        table = np.full(1 << (2 * len(step)).bit_length(), -1, np.int64)
        kept = first[: number_distinct(parent, step, own, other, table, row, first)]
        arrays = level._replace(parent=parent, own=own, other=other)
        fields = [None if field is None else field[kept] for field in arrays]
        merged.append(Level(*fields)._replace(owner=level.owner, weight=level.weight, row=row))
    return vectors, merged


@njit
def number_distinct(
    parent: Array, step: Array, own: Array, other: Array, table: Array, row: Array, first: Array
) -> int:
    """Number the distinct rows (parent, step, own, other) in order of appearance; returns how many there are.

    Args:
        table: Hash table with more slots than rows: a power of two, all -1.
        row: [n] out: the number of each row.
        first: [n] out: where each number first appears.
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
