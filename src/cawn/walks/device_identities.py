"""Relative identities on a GPU."""

from __future__ import annotations

import torch
from torch import Tensor

from cawn.kernels.cuda.launch import block_of, current, require_triton


def count_hits(nodes: Tensor, rows: Tensor) -> Tensor:
    """`anonymize` for pairs of walk sets: nodes [Q, M, L] int32, rows [B, 2] int64 to [B, 2, M, L, 2, L] int32.

    In memory the walks come last.
    """
    from cawn.kernels.cuda.counts import count_positions

    (_, M, L), B = nodes.shape, len(rows)
    counts = torch.empty(B, 2, L, 2, L, M, dtype=torch.int32, device=nodes.device)
    if B:
        block = block_of(M, 64)
        with current(nodes.device):
            count_positions[(B, 2 * L, -(-M // block))](nodes, rows, counts, M=M, L=L, BLOCK=block, num_warps=1)
    return counts.permute(0, 1, 5, 2, 3, 4)


def anonymize(nodes_u: Tensor, nodes_v: Tensor) -> Tensor:
    """I_CAW of pairs b of walk sets nodes_u[b], nodes_v[b], [B, M, L] each."""
    require_triton(nodes_u.device)
    first = torch.arange(len(nodes_u), device=nodes_u.device)
    return count_hits(torch.cat([nodes_u, nodes_v]), torch.stack([first, first + len(first)], dim=1)).contiguous()
