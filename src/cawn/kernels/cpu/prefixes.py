"""The distinct prefixes of the walks of pairs, and the distinct count vectors of their nodes, on the CPU."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cawn.kernels.cpu.counts import slot_of_node
from cawn.kernels.jit import inline, njit
from cawn.kernels.rng import GOLDEN_64

Array = npt.NDArray[Any]


@inline
def _vector_id(vector: Array, vectors: Array, table: Array, size: int) -> Any:
    """The number of a count vector among `vectors[:size]`, or `size` where it is new; `table` finds it by its hash."""
    code = np.uint64(0)
    for j in range(vector.size):
        code = (code + np.uint64(vector[j] + 1)) * GOLDEN_64
        code ^= code >> np.uint64(29)
    mask = table.size - 1
    slot = np.int64(code & np.uint64(mask))
    while table[slot] >= 0:
        known = table[slot]
        same = True
        for j in range(vector.size):
            same &= vectors[known, j] == vector[j]
        if same:
            return known
        slot = (slot + 1) & mask
    table[slot] = size
    return size


class Room(NamedTuple):
    """Where prefixes are written: n of depth i at [i, n]."""

    parent: Array  # the prefix of depth i - 1 it continues, -1 at depth 0
    owner: Array  # 2 * pair + side
    own: Array  # the count vector of its last node in its own walk set
    other: Array  # and in that of the other side
    ended: Array  # how many walks go no further
    node: Array  # its last node
    event: Array  # its last link, -1 at depth 0
    t: Array  # when
    elapsed: Array  # t_{i-1} - t_i
    age: Array  # t_0 - t_i


@njit
def find_prefixes(
    walks_u: tuple[Array, Array, Array],
    walks_v: tuple[Array, Array, Array],
    room: Room,
    vectors: Array,
    table: Array,
    first: int,
    last: int,
) -> tuple[Array, int]:
    """Write every distinct prefix of pairs first..last once; return how many at each depth, and how many vectors.

    A walk set is (nodes, t, events), each [B, M, m + 1].
    """
    nodes_u, nodes_v = walks_u[0], walks_v[0]
    M, L = nodes_u.shape[1], nodes_u.shape[2]
    bits = 1
    while (1 << bits) < 4 * M * L:
        bits += 1
    shift = np.uint64(64 - bits)
    mask = (1 << bits) - 1
    slot_node, slot_owner = np.empty(1 << bits, nodes_u.dtype), np.full(1 << bits, -1, np.int64)
    counts, slot_vector = np.empty((1 << bits, 2, L), np.int32), np.empty((1 << bits, 2), np.int64)
    used, at_slot = np.empty(2 * M * L, np.int64), np.empty((2, M, L), np.int64)
    step_owner, step_prefix = np.full(1 << bits, -1, np.int64), np.empty(1 << bits, np.int64)
    reached = np.empty(M, np.int64)
    sizes, num_vectors, stamp = np.zeros(L, np.int64), 0, 0
    for b in range(first, last):
        num_used = 0
        for side in range(2):
            nodes = nodes_u if side == 0 else nodes_v
            for w in range(M):
                for i in range(L):
                    node = nodes[b, w, i]
                    if node < 0:
                        break
                    slot = slot_of_node(node, slot_node, slot_owner, b, shift)
                    if slot_owner[slot] != b:
                        slot_owner[slot] = b
                        slot_node[slot] = node
                        counts[slot] = 0
                        used[num_used] = slot
                        num_used += 1
                    counts[slot, side, i] += 1
                    at_slot[side, w, i] = slot
        for k in range(num_used):
            for side in range(2):
                number = _vector_id(counts[used[k], side], vectors, table, num_vectors)
                if number == num_vectors:
                    vectors[number] = counts[used[k], side]
                    num_vectors += 1
                slot_vector[used[k], side] = number
        for side in range(2):
            nodes, times, events = walks_u if side == 0 else walks_v
            for i in range(L):
                stamp += 1
                for w in range(M):
                    if nodes[b, w, i] < 0:
                        continue
                    before = reached[w] if i > 0 else -1
                    event = events[b, w, i]
                    slot = np.int64((np.uint64(event + 1) * GOLDEN_64 ^ np.uint64(before + 1)) * GOLDEN_64 >> shift)
                    while step_owner[slot] == stamp:
                        n = step_prefix[slot]
                        if room.parent[i, n] == before and room.event[i, n] == event:
                            break
                        slot = (slot + 1) & mask
                    if step_owner[slot] != stamp:
                        n = sizes[i]
                        sizes[i] += 1
                        step_owner[slot], step_prefix[slot] = stamp, n
                        at = at_slot[side, w, i]
                        room.parent[i, n], room.owner[i, n], room.ended[i, n] = before, 2 * (b - first) + side, 0
                        room.own[i, n], room.other[i, n] = slot_vector[at, side], slot_vector[at, 1 - side]
                        room.node[i, n], room.event[i, n], room.t[i, n] = nodes[b, w, i], event, times[b, w, i]
                        room.elapsed[i, n] = times[b, w, max(i - 1, 0)] - times[b, w, i]
                        room.age[i, n] = times[b, w, 0] - times[b, w, i]
                    n = step_prefix[slot]
                    reached[w] = n
                    if i == L - 1 or nodes[b, w, i + 1] < 0:
                        room.ended[i, n] += 1
    return sizes, num_vectors
