"""Relative identities on the CPU: how often each node occurs at each position of both walk sets of a pair."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cawn.checks import Array
from cawn.kernels.jit import njit, reader
from cawn.kernels.rng import GOLDEN_64


class Counts(NamedTuple):
    """A hash table from the nodes of a pair's walks to their counts. The next pair clears it without writing to it."""

    node: Array  # [slots]
    pair: Array  # [slots] int64, the pair that a slot is used by; it is free for others
    counts: Array  # [slots, 2, L] int32, g of each node for both sides
    used: Array  # [2 * M * L] int64, the slots of the pair
    slot: Array  # [2, M, L] int64, of each position, -1 after a walk's end
    shift: np.uint64  # of hashes, to a slot


def empty_counts(nodes: Array) -> Counts:
    """A table for walks like these, [Q, M, L]."""
    _, M, L = nodes.shape
    bits = max((4 * M * L - 1).bit_length(), 1)
    table = np.empty(1 << bits, nodes.dtype), np.full(1 << bits, -1, np.int64), np.empty((1 << bits, 2, L), np.int32)
    return Counts(*table, np.empty(2 * M * L, np.int64), np.empty((2, M, L), np.int64), np.uint64(64 - bits))


@reader
def count_nodes(table: Counts, pair: int, nodes_u: Array, nodes_v: Array) -> int:
    """Count the nodes [M, L] of both sides of a pair; returns how many slots are used."""
    node, owner, counts, used, slots, shift = table
    size, mask = 0, node.size - 1
    for side in range(2):
        nodes = nodes_u if side == 0 else nodes_v
        for w in range(nodes.shape[0]):
            for i in range(nodes.shape[1]):
                here = nodes[w, i]
                if here < 0:
                    slots[side, w, i] = -1
                    continue
                slot = np.int64((np.uint64(here) * GOLDEN_64) >> shift)
                while owner[slot] == pair and node[slot] != here:
                    slot = (slot + 1) & mask
                if owner[slot] != pair:
                    owner[slot], node[slot], used[size] = pair, here, slot
                    counts[slot] = 0
                    size += 1
                counts[slot, side, i] += 1
                slots[side, w, i] = slot
    return size


@njit
def count_positions(table: Counts, nodes_u: Array, nodes_v: Array, out: Array, first: int, last: int) -> None:
    """I_CAW of pairs first..last: out[b, side, walk, position] = (g(w, S_u), g(w, S_v)), zero after a walk's end."""
    for b in range(first, last):
        count_nodes(table, b, nodes_u[b], nodes_v[b])
        for side in range(2):
            for w in range(out.shape[2]):
                for i in range(out.shape[3]):
                    slot = table.slot[side, w, i]
                    for reference in range(2):
                        for j in range(out.shape[5]):
                            out[b, side, w, i, reference, j] = table.counts[slot, reference, j] if slot >= 0 else 0
