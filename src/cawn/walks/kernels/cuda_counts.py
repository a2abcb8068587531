"""Relative identities on a GPU: how often each node occurs at each position of both walk sets of a pair.

Every position is compared with every other one of its pair: for M walks of a few steps this is less work than a hash
table, and it needs no memory.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

from cawn.kernels.cuda.launch import block_of, current


def count_positions(nodes: Tensor, rows: Tensor) -> Tensor:
    """`anonymize` for pairs of walk sets: nodes [Q, M, L] int32 and rows [B, 2] int64 to [B, 2, M, L, 2, L] int32.

    A permuted view: the walks come last in memory, so that adjacent lanes write adjacent elements.
    """
    (_, M, L), B = nodes.shape, len(rows)
    counts = torch.empty(B, 2, L, 2, L, M, dtype=torch.int32, device=nodes.device)
    if B:
        block = block_of(M, 64)
        with current(nodes.device):
            count_positions_kernel[(B, 2 * L, -(-M // block))](nodes, rows, counts, M=M, L=L, BLOCK=block, num_warps=1)
    return counts.permute(0, 1, 5, 2, 3, 4)


@triton.jit
def count_positions_kernel(
    nodes,  # [Q, M, L] int32, the walk sets
    rows,  # [B, 2] int64, the two walk sets of each pair
    out,  # [B, 2, L, 2, L, M] int32
    M: tl.constexpr,
    L: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One program counts for a block of walks of one side of one pair, at one position."""
    pair, side, i = tl.program_id(0).to(tl.int64), tl.program_id(1) // L, tl.program_id(1) % L
    w = tl.program_id(2) * BLOCK + tl.arange(0, BLOCK)
    inside = w < M
    mine = tl.load(nodes + (tl.load(rows + 2 * pair + side) * M + w) * L + i, mask=inside, other=-1)
    known = mine >= 0
    at = out + ((2 * pair + side) * L + i) * 2 * L * M + w
    for reference in range(2):
        walk_set = nodes + tl.load(rows + 2 * pair + reference) * M * L
        root = tl.load(walk_set)  # of all its walks
        tl.store(at + reference * L * M, tl.where(known & (mine == root), M, 0), mask=inside)
        for j in range(1, L):
            hits = tl.zeros([BLOCK], tl.int32)
            for start in range(0, M, BLOCK):
                others = start + tl.arange(0, BLOCK)
                theirs = tl.load(walk_set + others * L + j, mask=others < M, other=-1)
                if i == 0:  # the root, the same for all walks of the block
                    hits += tl.sum((theirs == tl.max(mine, axis=0)).to(tl.int32), axis=0)
                else:
                    hits += tl.sum((theirs[:, None] == mine[None, :]).to(tl.int32), axis=0)
            tl.store(at + (reference * L + j) * M, tl.where(known, hits, 0), mask=inside)
