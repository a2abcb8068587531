"""Encode once: the walks of pairs as trees of distinct prefixes, on the CPU.

Walks that begin with the same links have the same encodings up to there, so each distinct prefix is encoded once. On
UCI with M = 64 and m = 2 only 72 of 192 positions are distinct, and the nodes of a batch have a few hundred distinct
count vectors.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cawn.checks import Array
from cawn.kernels.jit import inline, njit
from cawn.kernels.rng import GOLDEN_64
from cawn.kernels.threads import in_parallel, num_threads
from cawn.walks.kernels.counts import Counts, count_nodes, empty_counts

Walks = tuple[Array, Array, Array]  # nodes, times, events: [Q, M, L] each
Fields = tuple[Array, ...]

_PAIRS_PER_TASK = 16


class Level(NamedTuple):
    """The n distinct prefixes of one depth i, as arrays or tensors [n]. L = m + 1 levels make a batch.

    If equal prefixes of different pairs are merged, p >= n entries of (owner, weight, row) say which pairs have them.
    """

    parent: Any  # the prefix of depth i - 1 that each continues, -1 at depth 0
    owner: Any  # 2 * pair + side, ascending [p]
    own: Any  # index of the count vector g(w, S) of its last node w in its own walk set S
    other: Any  # index of the count vector of w in the walk set of the other side
    weight: Any  # fraction of the M walks of the owner that end here, float32 [p]
    node: Any = None  # w
    event: Any = None  # the last link, -1 at depth 0
    t: Any = None  # its time
    elapsed: Any = None  # t_{i-1} - t_i
    age: Any = None  # t_0 - t_i
    x: Any = None  # features X_i [n, width]
    order: Any = None  # I_AW of w, where the model uses it
    row: Any = None  # the prefix of each of the p entries, after merging


def share_prefixes(walks: Walks, rows: Array, threads: int | None = None) -> tuple[Array, list[Level]]:
    """The distinct count vectors [K, L] and the distinct prefixes of B pairs; `rows` [B, 2] are their queries."""
    B, M = len(rows), walks[0].shape[1]
    pieces = max(1, min(num_threads(threads), B // _PAIRS_PER_TASK))
    bounds = np.linspace(0, B, pieces + 1).astype(int).tolist()
    parts: list[tuple[Array, list[Level]]] = [(np.empty(0), [])] * pieces

    def work(piece: int, _: int) -> None:
        parts[piece] = _share(walks, rows, bounds[piece], bounds[piece + 1])

    in_parallel(work, list(range(pieces + 1)), threads)
    vectors, levels = parts[0] if pieces == 1 else _concatenate(parts)
    return vectors, [level._replace(weight=level.weight / np.float32(M)) for level in levels]


def _share(walks: Walks, rows: Array, first: int, last: int) -> tuple[Array, list[Level]]:
    """`share_prefixes` for pairs first..last, with `weight` as a number of walks."""
    nodes, times, _ = walks
    M, L = nodes.shape[1:]
    pairs = max(last - first, 1)
    size = (L, 2 * M * pairs)
    index = [np.empty(size, np.int64) for _ in range(4)]
    dtypes = (np.float32, np.int32, np.int64, times.dtype, np.float64, np.float64)
    out = (*index, *(np.empty(size, dtype) for dtype in dtypes))
    # All walks of a query begin at its node, so the first count is 0 or M; the others are 0 to M.
    vectors = np.empty((min(4 * M * L * pairs, 2 * (M + 1) ** (L - 1)), L), np.int32)
    known = np.full(1 << (2 * len(vectors) - 1).bit_length(), -1, np.int64)
    sizes, num_vectors = find_prefixes(walks, rows, empty_counts(nodes), out, vectors, known, first, last)
    levels = [Level(*(field[i, :n] for field in out)) for i, n in enumerate(sizes.tolist())]
    return vectors[:num_vectors], levels


def _concatenate(parts: list[tuple[Array, list[Level]]]) -> tuple[Array, list[Level]]:
    """The levels of consecutive pairs as one, with their indices shifted."""
    vectors_before = np.cumsum([0, *(len(vectors) for vectors, _ in parts)])
    before = np.zeros(len(parts) + 1, np.int64)  # prefixes of the level above
    joined = []
    for pieces in zip(*(levels for _, levels in parts), strict=True):
        level = Level(*(np.concatenate(fields) for fields in zip(*(piece[:10] for piece in pieces), strict=True)))
        sizes = [len(piece.parent) for piece in pieces]
        part = np.repeat(np.arange(len(parts)), sizes)
        own, other = level.own + vectors_before[part], level.other + vectors_before[part]
        joined.append(level._replace(parent=level.parent + before[part], own=own, other=other))
        before = np.cumsum([0, *sizes])
    return np.concatenate([vectors for vectors, _ in parts]), joined


@inline
def _vector_id(vector: Array, vectors: Array, table: Array, size: int) -> Any:
    """The index of a count vector in `vectors[:size]`, or `size` if it is new; `table` is a hash table of them."""
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


@njit
def find_prefixes(
    walks: Walks, rows: Array, table: Counts, out: Fields, vectors: Array, known: Array, first: int, last: int
) -> tuple[Array, int]:
    """Write each distinct prefix of pairs first..last once; return how many at each depth, and how many vectors.

    Args:
        out: The first ten fields of `Level` for all depths, [L, room] each; `weight` counts the walks that end there.
        vectors: Filled with the distinct count vectors.
        known: Hash table of them, at least as large: a power of two, all -1.
    """
    nodes, times, events = walks
    parent, owner, own, other, weight, last_node, last_event, t, elapsed, age = out
    M, L = nodes.shape[1], nodes.shape[2]
    shift, mask = table.shift, table.node.size - 1
    slot_vector = np.empty((table.node.size, 2), np.int64)
    step_owner, step_prefix = np.full(table.node.size, -1, np.int64), np.empty(table.node.size, np.int64)
    reached = np.empty(M, np.int64)
    sizes, num_vectors, stamp = np.zeros(L, np.int64), 0, 0
    for b in range(first, last):
        for k in range(count_nodes(table, b, nodes[rows[b, 0]], nodes[rows[b, 1]])):
            slot = table.used[k]
            for side in range(2):
                number = _vector_id(table.counts[slot, side], vectors, known, num_vectors)
                if number == num_vectors:
                    for j in range(L):  # assigning a slice takes long to compile
                        vectors[number, j] = table.counts[slot, side, j]
                    num_vectors += 1
                slot_vector[slot, side] = number
        for side in range(2):
            q = rows[b, side]
            for i in range(L):
                stamp += 1
                for w in range(M):
                    if nodes[q, w, i] < 0:
                        continue
                    before = reached[w] if i > 0 else -1
                    event = events[q, w, i]
                    slot = np.int64((np.uint64(event + 1) * GOLDEN_64 ^ np.uint64(before + 1)) * GOLDEN_64 >> shift)
                    while step_owner[slot] == stamp:
                        n = step_prefix[slot]
                        if parent[i, n] == before and last_event[i, n] == event:
                            break
                        slot = (slot + 1) & mask
                    if step_owner[slot] != stamp:
                        n = sizes[i]
                        sizes[i] += 1
                        step_owner[slot], step_prefix[slot] = stamp, n
                        at = table.slot[side, w, i]
                        parent[i, n], owner[i, n], weight[i, n] = before, 2 * b + side, 0
                        own[i, n], other[i, n] = slot_vector[at, side], slot_vector[at, 1 - side]
                        last_node[i, n], last_event[i, n], t[i, n] = nodes[q, w, i], event, times[q, w, i]
                        elapsed[i, n] = times[q, w, max(i - 1, 0)] - times[q, w, i]
                        age[i, n] = times[q, w, 0] - times[q, w, i]
                    n = step_prefix[slot]
                    reached[w] = n
                    if i == L - 1 or nodes[q, w, i + 1] < 0:
                        weight[i, n] += 1
    return sizes, num_vectors


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

    Written: `row`, the number of each [n]; `first`, where each number first appears [n]; and `table`, of their hashes,
    with more slots than rows: a power of two, all -1.
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
