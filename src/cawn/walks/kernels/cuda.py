"""Walks and relative identities on a GPU: the index, random numbers and walks of `walks.kernels.sampling`.

One program samples all steps of one block of walks of one query. The walks of a query read entries that lie close
together in memory, so the lanes share cache lines. To count, every position is compared with every other one of its
pair: for M walks of a few steps this is less work than a hash table, and it needs no memory.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from cawn.index.kernels.lists import LENGTH, START_BITS
from cawn.kernels.cuda.functions import GOLDEN, mix64
from cawn.kernels.cuda.launch import block_of, current

_START_BITS, _LENGTH = tl.constexpr(START_BITS), tl.constexpr(LENGTH)


def sample_walks(
    index: Sequence[Tensor], nodes: Tensor, t: Tensor, widths: Tensor, seed: Tensor, num_walks: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Nodes, times, links and degrees of the walks of Q queries: [Q, M, m + 1] each, M = `num_walks` = widths[-1].

    `links` are 2 * event + side, -1 where a walk has ended; `degrees` count the earlier links of a node.

    Args:
        index: `span` to `alphas` of `index.kernels.nodes.Nodes`, on the device.
        nodes: [Q] int64; an id below 0 has no history.
        t: [Q] in the dtype of the index's times.
        widths: [m] int64, links drawn at each step.
        seed: [1] int64, the bits of the seed.
    """
    shape = (len(nodes), num_walks, len(widths) + 1)
    walked, links, degrees = (torch.empty(shape, device=nodes.device, dtype=torch.int32) for _ in range(3))
    walks = walked, torch.empty(shape, device=nodes.device, dtype=t.dtype), links, degrees
    if len(nodes):
        span, time, _, _, alphas = index
        block = block_of(num_walks, 128)
        with current(nodes.device):
            sample_walks_kernel[(len(nodes), -(-num_walks // block))](
                *(*index, nodes, t, widths, seed, *walks),
                *(len(span), len(time), len(alphas), num_walks),
                LENGTH=len(widths),
                BLOCK=block,
                num_warps=max(block // 64, 1),
            )
    return walks


@triton.jit
def count_before(time, start, stop, t):
    """How many of the sorted time[start:stop] are strictly before t; scalars."""
    lo, hi = start, stop
    while lo < hi:
        mid = (lo + hi) >> 1
        earlier = tl.load(time + mid) < t
        lo = tl.where(earlier, mid + 1, lo)
        hi = tl.where(earlier, hi, mid)
    return lo - start


@triton.jit
def draw_entry(time, sums, alpha, first, newest, u, alive):
    """See `walks.kernels.sampling.find_entry`; `sums` points to the log-sums of each lane's decay."""
    now = tl.load(time + newest, mask=alive, other=0)
    target = tl.load(sums + newest, mask=alive, other=0.0) + tl.log(u)
    lo, hi, probe = first - 1, newest, newest - 1
    stride = tl.full(newest.shape, 1, tl.int64)
    going = alive & (probe >= first)
    while tl.max(going.to(tl.int32), axis=0) > 0:
        age = now - tl.load(time + probe, mask=going, other=0)
        enough = tl.load(sums + probe, mask=going, other=0.0) - alpha * age.to(tl.float64) >= target
        lo = tl.where(going & (enough == 0), probe, lo)
        going = going & enough
        hi = tl.where(going, probe, hi)
        stride += stride
        probe = tl.where(going, probe - stride, probe)
        going = going & (probe >= first)
    going = alive & (hi - lo > 1)
    while tl.max(going.to(tl.int32), axis=0) > 0:
        mid = (lo + hi) >> 1
        age = now - tl.load(time + mid, mask=going, other=0)
        enough = tl.load(sums + mid, mask=going, other=0.0) - alpha * age.to(tl.float64) >= target
        hi = tl.where(going & enough, mid, hi)
        lo = tl.where(going & (enough == 0), mid, lo)
        going = alive & (hi - lo > 1)
    return hi


@triton.jit(do_not_specialize=["num_nodes", "num_entries"])
def sample_walks_kernel(
    span,  # the lists of nodes, see `index.kernels.nodes`
    time,
    hop,
    logsum,
    alphas,
    nodes,  # [Q] int64
    t,  # [Q]
    widths,  # [m] int64
    seed,  # [1] int64
    out_nodes,  # [Q, M, m + 1] int32
    out_t,  # [Q, M, m + 1]
    out_links,  # [Q, M, m + 1] int32
    out_degrees,  # [Q, M, m + 1] int32
    num_nodes,
    num_entries,
    num_decays,
    M,
    LENGTH: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """See `walks.kernels.sampling.sample_walks`."""
    q = tl.program_id(0).to(tl.int64)
    w = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = w < M
    root, when = tl.load(nodes + q), tl.load(t + q)
    known = (root >= 0) & (root < num_nodes)
    packed = tl.load(span + root, mask=known, other=0)
    start = packed >> _START_BITS
    seen = count_before(time, start, start + (packed & _LENGTH), when)
    link = tl.load(hop + 3 * (start + seen - 1) + 1, mask=seen > 0, other=0)
    key = mix64(tl.load(seed).to(tl.uint64, bitcast=True)) ^ when.to(tl.uint64, bitcast=True)
    key = mix64(mix64(key) ^ link.to(tl.uint64))
    out = (q * M + w) * (LENGTH + 1)
    first, count = start + tl.zeros([BLOCK], tl.int64), seen + tl.zeros([BLOCK], tl.int64)
    tl.store(out_nodes + out, root.to(tl.int32) + tl.zeros([BLOCK], tl.int32), mask=inside)
    tl.store(out_t + out, tl.where(inside, when, 0), mask=inside)
    tl.store(out_links + out, tl.full([BLOCK], -1, tl.int32), mask=inside)
    tl.store(out_degrees + out, count.to(tl.int32), mask=inside)
    for s in range(1, LENGTH + 1):
        width = tl.load(widths + s - 1)
        k = w // (M // width)
        a = k * num_decays // width
        alpha = tl.load(alphas + a, mask=inside, other=0.0)
        draw = ((k.to(tl.int64) << 8) | s).to(tl.uint64)
        u = ((mix64(key + draw * GOLDEN) >> 12).to(tl.float64) + 0.5) * 2.220446049250313e-16
        alive = inside & (count > 0)
        at = draw_entry(time, logsum + a.to(tl.int64) * num_entries, alpha, first, first + count - 1, u, alive)
        node = tl.load(hop + 3 * at, mask=alive, other=-1)
        count = tl.load(hop + 3 * at + 2, mask=alive, other=0).to(tl.int64)
        first = tl.load(span + node, mask=alive, other=0) >> _START_BITS
        tl.store(out_nodes + out + s, node, mask=inside)
        tl.store(out_t + out + s, tl.load(time + at, mask=alive, other=-1), mask=inside)
        tl.store(out_links + out + s, tl.load(hop + 3 * at + 1, mask=alive, other=-1), mask=inside)
        tl.store(out_degrees + out + s, count.to(tl.int32), mask=inside)


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
