"""Features of pairs from the recent links of both ends on a GPU; see `cawn.walks.sequences`, which defines them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import triton
import triton.language as tl
from torch import Tensor

from cawn.kernels.cuda.features import count_below, find_newest, log1p

if TYPE_CHECKING:
    from cawn.kernels.cpu.sequences import FlatLists

_PAIRS = 32  # per program: few, because its binary searches are a chain of dependent loads


def sequence_features(
    index: FlatLists,
    src: Tensor,
    dst: Tensor,
    t: Tensor,
    out: Tensor,
    *,
    column: int,
    since: bool,
    partners: int,
    stride: int,
    depth: int,
    num_decays: int,
    since_scale: float,
    log_scale: float,
) -> None:
    """Fill the columns of out [B, R] from `column` on: the features of the sources, then of the destinations.

    Args:
        index: As tensors, with `scale` as [1]; its fields are the first arguments of the kernel, in this order.
        since, partners, stride, depth: See `kernels.cpu.sequences.sequence_features`.
        num_decays: Number of decays that are used.
    """
    if len(src):
        lengths = len(index.starts) - 1, len(index.pair_time), len(index.all_time), len(index.first_time)
        sequence_features_kernel[(-(-len(src) // _PAIRS), 2)](
            *(*index, src, dst, t, out, len(src), *lengths, out.shape[1], column),
            SINCE=since,
            PARTNERS=partners,
            STRIDE=stride,
            DEPTH=depth,
            D=num_decays,
            DECAYS=triton.next_power_of_2(max(num_decays, 1)),
            SINCE_SCALE=since_scale,
            LOG_SCALE=log_scale,
            BLOCK=_PAIRS,
            num_warps=1,
        )


@triton.jit
def find_entries(rows, keys, starts, time, num_nodes, a, b, t, inside):
    """The newest entry before t under the key (a, b), and the number of such entries; 0 for an unknown key."""
    inside = inside & (a >= 0) & (a < num_nodes)
    first, last = tl.load(rows + a, mask=inside, other=0), tl.load(rows + a + 1, mask=inside, other=0)
    return find_newest(keys, starts, time, first, last, (a << 32) | b, t, inside)


@triton.jit
def decayed(sums, time, at, t, scale, there):
    """A decayed count, as of t; 0 where there is none."""
    age = (t - tl.load(time + at, mask=there, other=0)).to(tl.float64)
    return tl.where(there, tl.load(sums + at, mask=there, other=0.0) * tl.exp(-age / scale), 0.0)


@triton.jit(do_not_specialize=["num_pairs", "num_nodes", "num_pair_entries", "num_links", "num_firsts"])
def sequence_features_kernel(
    starts,  # [N + 1]
    time,  # [n]
    partner,  # [n] int32
    activity,  # [n]
    pair_rows,  # [N + 1]
    pair_keys,  # [K]
    pair_starts,  # [K + 1]
    pair_time,  # [E]
    pair_logsum,  # [decays, E]
    pair_sum,  # [E]
    next_rows,  # [N + 1]
    next_keys,  # [J]
    next_starts,  # [J + 1]
    next_time,  # [s]
    next_sum,  # [s]
    from_starts,  # [N + 1]
    from_time,  # [s]
    from_sum,  # [s]
    all_time,  # [E]
    all_sum,  # [E]
    first_time,
    alphas,  # [decays] float64
    scale,  # [1] float64
    src,  # [B] int64
    dst,
    t,  # [B]
    out,  # [B, width] float32
    num_pairs,
    num_nodes,
    num_pair_entries,
    num_links,
    num_firsts,
    width,
    column,
    SINCE: tl.constexpr,
    PARTNERS: tl.constexpr,
    STRIDE: tl.constexpr,
    DEPTH: tl.constexpr,
    D: tl.constexpr,
    DECAYS: tl.constexpr,  # a power of two >= D
    SINCE_SCALE: tl.constexpr,
    LOG_SCALE: tl.constexpr,
    BLOCK: tl.constexpr,
):
    """One program computes the features of one end of a block of pairs."""
    side = tl.program_id(1)
    b = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = b < num_pairs
    source, destination = tl.load(src + b, mask=inside, other=0), tl.load(dst + b, mask=inside, other=0)
    u, v = tl.where(side == 0, source, destination), tl.where(side == 0, destination, source)
    now, time_scale = tl.load(t + b, mask=inside, other=0), tl.load(scale)
    known = inside & (u >= 0) & (u < num_nodes)
    start = tl.load(starts + u, mask=known, other=0)
    links = count_below(time, start, tl.load(starts + u + 1, mask=known, other=0), now, known)
    end = start + links
    newest, together = find_entries(
        *(pair_rows, pair_keys, pair_starts, pair_time, num_nodes),
        *(tl.minimum(u, v), tl.maximum(u, v), now, inside),
    )
    linked = together > 0
    SEQUENCE: tl.constexpr = 2 * SINCE + (2 * D + 1) * (PARTNERS > 0) + (2 + DEPTH) * (DEPTH > 0)
    at = out + b.to(tl.int64) * width + column + side * SEQUENCE
    if SINCE:
        last = tl.load(pair_time + newest, mask=linked, other=0)
        earlier = count_below(time, start, end, last, linked)
        passed = tl.maximum(links - earlier, 1).to(tl.float64)
        tl.store(at, tl.where(linked, log1p(passed) / SINCE_SCALE, -1.0).to(tl.float32), mask=inside)
        tl.store(at + 1, tl.where(linked, 1.0 / passed, 0.0).to(tl.float32), mask=inside)
        at += 2
    if PARTNERS > 0:
        a = tl.arange(0, DECAYS)
        used = a < D
        alpha = tl.load(alphas + a * STRIDE, mask=used, other=0.0)
        total_weight = tl.zeros([BLOCK, DECAYS], tl.float64)
        affinity = tl.zeros([BLOCK, DECAYS], tl.float64)
        root_sum = tl.zeros([BLOCK, DECAYS], tl.float64)
        hits = tl.zeros([BLOCK], tl.int64)
        for k in range(PARTNERS):
            i = end - PARTNERS + k  # in the order of time, as on the CPU
            there = known & (i >= start)
            w = tl.load(partner + i, mask=there, other=0).to(tl.int64)
            there = there & (w != v)
            age = (now - tl.load(time + i, mask=there, other=0)).to(tl.float64)
            weight = tl.where(there[:, None], tl.exp(-alpha[None, :] * age[:, None]), 0.0)
            total_weight += weight
            entry, count = find_entries(
                *(pair_rows, pair_keys, pair_starts, pair_time, num_nodes),
                *(tl.minimum(w, v), tl.maximum(w, v), now, there),
            )
            found = count > 0
            hits += found.to(tl.int64)
            age = (now - tl.load(pair_time + entry, mask=found, other=0)).to(tl.float64)
            both = found[:, None] & used[None, :]
            past = tl.load(
                pair_logsum + (a * STRIDE).to(tl.int64)[None, :] * num_pair_entries + entry[:, None],
                mask=both,
                other=0.0,
            )
            rate = tl.where(both, tl.exp(past - alpha[None, :] * age[:, None]), 0.0)
            affinity += weight * rate / (1.0 + rate)
            root_sum += tl.sqrt(weight * rate)
        written = inside[:, None] & used[None, :]
        tl.store(at[:, None] + a[None, :], (affinity / (total_weight + 1e-6)).to(tl.float32), mask=written)
        tl.store(at[:, None] + D + a[None, :], log1p(root_sum).to(tl.float32), mask=written)
        tl.store(at + 2 * D, log1p(hits.to(tl.float64)).to(tl.float32), mask=inside)
        at += 2 * D + 1
    if DEPTH > 0:
        other = inside & (v >= 0) & (v < num_nodes)
        first = tl.load(starts + v, mask=other, other=0)
        count = count_below(time, first, tl.load(starts + v + 1, mask=other, other=0), now, other)
        popularity = decayed(activity, time, first + count - 1, now, time_scale, count > 0)
        zero = tl.zeros([BLOCK], tl.int64)
        count = count_below(all_time, zero, zero + num_links, now, inside)
        total = decayed(all_sum, all_time, count - 1, now, time_scale, count > 0)
        nodes = tl.maximum(count_below(first_time, zero, zero + num_firsts, now, inside), 1)
        base = (popularity + 1.0) / (2.0 * total + nodes.to(tl.float64))
        own = decayed(activity, time, end - 1, now, time_scale, links > 0)
        pair = decayed(pair_sum, pair_time, newest, now, time_scale, linked)
        tl.store(at, (tl.log(base) / LOG_SCALE).to(tl.float32), mask=inside)
        tl.store(at + 1, (tl.log((pair + base) / (own + 1.0)) / LOG_SCALE).to(tl.float32), mask=inside)
        for k in range(DEPTH):
            i = end - 1 - k
            there = known & (i >= start)
            w = tl.load(partner + i, mask=there, other=0).to(tl.int64)
            first = tl.load(from_starts + w, mask=there, other=0)
            count = count_below(from_time, first, tl.load(from_starts + w + 1, mask=there, other=0), now, there)
            followed = decayed(from_sum, from_time, first + count - 1, now, time_scale, count > 0)
            entry, count = find_entries(next_rows, next_keys, next_starts, next_time, num_nodes, w, v, now, there)
            came_next = decayed(next_sum, next_time, entry, now, time_scale, count > 0)
            chance = tl.log((came_next + base) / (followed + 1.0)) / LOG_SCALE
            tl.store(at + 2 + k, tl.where(there, chance, 0.0).to(tl.float32), mask=inside)
