"""Relative identities on the CPU: how often each node occurs at each position of both walk sets of a pair."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.kernels.jit import njit
from cawn.walks.kernels.prefixes import slot_of_node

Array = npt.NDArray[Any]


@njit
def count_positions(nodes_u: Array, nodes_v: Array, out: Array, first: int, last: int) -> None:
    """I_CAW of pairs first..last: out[b, side, walk, position] = (g(w, S_u), g(w, S_v)), zero after a walk's end.

    Uses a hash table from nodes to counts. A new owner number per pair clears it without writing to it.
    """
    M, L = nodes_u.shape[1], nodes_u.shape[2]
    bits = 1
    while (1 << bits) < 4 * M * L:
        bits += 1
    shift = np.uint64(64 - bits)
    slot_node = np.empty(1 << bits, nodes_u.dtype)
    slot_owner = np.full(1 << bits, -1, np.int64)
    counts = np.empty((1 << bits, 2, L), out.dtype)
    slot_of = np.empty((2, M, L), np.int64)
    for b in range(first, last):
        for side in range(2):
            nodes = nodes_u if side == 0 else nodes_v
            for w in range(M):
                for i in range(L):
                    node = nodes[b, w, i]
                    if node < 0:
                        slot_of[side, w, i] = -1
                        continue
                    slot = slot_of_node(node, slot_node, slot_owner, b, shift)
                    if slot_owner[slot] != b:
                        slot_owner[slot] = b
                        slot_node[slot] = node
                        counts[slot] = 0
                    counts[slot, side, i] += 1
                    slot_of[side, w, i] = slot
        for side in range(2):
            for w in range(M):
                for i in range(L):
                    slot = slot_of[side, w, i]
                    for reference in range(2):
                        for j in range(L):
                            out[b, side, w, i, reference, j] = counts[slot, reference, j] if slot >= 0 else 0
