"""Relative identities on a GPU: how often each node is hit at each position of the two walk sets of a pair.

Every position is held against every other of its pair: at M walks of a few steps that is less work than a hash table,
and it needs no memory at all.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def count_positions(
    nodes,  # [Q, M, L] int32, the walk sets
    rows,  # [B, 2] int64, which two of them make a pair
    out,  # [B, 2, L, 2, L, M] int32, see `anonymize`; walks come last, so that neighbours are written together
    M: tl.constexpr,
    L: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One program counts for one block of walks of one side of a pair, at one position."""
    pair, side, i = tl.program_id(0).to(tl.int64), tl.program_id(1) // L, tl.program_id(1) % L
    w = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    inside = w < M
    mine = tl.load(nodes + (tl.load(rows + 2 * pair + side) * M + w) * L + i, mask=inside, other=-1)
    known = mine >= 0
    at = out + ((2 * pair + side) * L + i) * 2 * L * M + w
    for reference in range(2):
        walk_set = nodes + tl.load(rows + 2 * pair + reference) * M * L
        root = tl.load(walk_set)  # where all its walks begin
        tl.store(at + reference * L * M, tl.where(known & (mine == root), M, 0), mask=inside)
        for j in range(1, L):
            hits = tl.zeros([BLOCK], tl.int32)
            for start in range(0, M, BLOCK):
                others = start + tl.arange(0, BLOCK)
                theirs = tl.load(walk_set + others * L + j, mask=others < M, other=-1)
                if i == 0:  # here too all begin, so one count is that of all
                    hits += tl.sum((theirs == tl.max(mine, axis=0)).to(tl.int32), axis=0)
                else:
                    hits += tl.sum((theirs[:, None] == mine[None, :]).to(tl.int32), axis=0)
            tl.store(at + (reference * L + j) * M, tl.where(known, hits, 0), mask=inside)
