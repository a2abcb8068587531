"""Features of pairs on a GPU, from the lists of an index: those of `kernels.rates` and `kernels.sequences`.

Each lane looks up the lists of one pair. Constants of the definitions are compile-time arguments: Triton would round
them to float32 otherwise.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import triton
import triton.language as tl
from torch import Tensor

from cawn.index.kernels import lists
from cawn.index.kernels.rates import CLOSENESS_SCALE, LONGEST
from cawn.index.kernels.sequences import LOG_SCALE, SINCE_SCALE
from cawn.index.kinds import TOTAL_BITS
from cawn.kernels.cuda.functions import GOLDEN, log1p

_START_BITS, _LENGTH, _TOTAL_BITS = tl.constexpr(lists.START_BITS), tl.constexpr(lists.LENGTH), tl.constexpr(TOTAL_BITS)
_CLOSENESS_SCALE, _LONGEST = tl.constexpr(CLOSENESS_SCALE), tl.constexpr(LONGEST)
_SINCE_SCALE, _LOG_SCALE = tl.constexpr(SINCE_SCALE), tl.constexpr(LOG_SCALE)
_TINY = tl.constexpr(2.2250738585072014e-308)  # the smallest normal float64


class DeviceLists(NamedTuple):
    """The lists of one kind, one after the other; see `kernels.lists.Lists`. Fields that are not read may be None."""

    span: Any
    link: Any
    sums: Any
    stride: Any  # that of `link`, which is a column of `hop` for nodes
    num_sums: Any  # columns of `sums`
    bits: Any
    keys: Any = None
    slots: Any = None
    num_slots: Any = 0


class DeviceIndex(NamedTuple):
    """All lists of an index; see `kernels.rates.Tables`."""

    t: Tensor
    alphas: Tensor
    decay: Tensor  # [1] float64, that of transitions
    time: Tensor
    hop: Tensor
    logsum: Tensor
    partner: Tensor  # of lists like those of nodes
    totals: Tensor
    firsts: Tensor
    nodes: DeviceLists
    pairs: DeviceLists
    ways: DeviceLists
    sources: DeviceLists
    destinations: DeviceLists
    next: DeviceLists
    origins: DeviceLists

    @property
    def walks(self) -> list[Tensor]:
        """What `walks.kernels.cuda.sample_walks` reads."""
        return [self.nodes.span, self.time, self.hop, self.logsum, self.alphas]


@triton.jit
def count_below(values, stride, first, size, limit, inside):
    """How many of `size` ascending values, the first being values[first * stride], are below a limit; 0 outside."""
    lo, hi = first, first + size
    going = inside & (lo < hi)
    while tl.max(going.to(tl.int32), axis=0) > 0:
        mid = (lo + hi) >> 1
        below = tl.load(values + mid * stride, mask=going, other=0) < limit
        lo = tl.where(going & below, mid + 1, lo)
        hi = tl.where(going & (below == 0), mid, hi)
        going = inside & (lo < hi)
    return tl.where(inside, lo - first, 0)


@triton.jit
def find_row(lists, a, b, inside):
    """The row of each key (a, b), -1 if it has none."""
    key, mask = (a << 32) | b, lists.num_slots - 1
    slot = ((key.to(tl.uint64, bitcast=True) * GOLDEN) >> 32).to(tl.int64) & mask
    row = tl.full(key.shape, -1, tl.int32)
    going = inside
    while tl.max(going.to(tl.int32), axis=0) > 0:
        row = tl.where(going, tl.load(lists.slots + slot, mask=going, other=-1), row)
        going = going & (row >= 0)
        going = going & (tl.load(lists.keys + row, mask=going, other=0) != key)
        slot = (slot + 1) & mask
    return row.to(tl.int64)


@triton.jit
def entries_before(lists, row, visible, known):
    """The first entry of each list, and how many of its entries belong to the first `visible` links; 0 if unknown."""
    packed = tl.load(lists.span + row, mask=known, other=0)
    start = packed >> _START_BITS
    return start, count_below(lists.link, lists.stride, start, packed & _LENGTH, 2 * visible, known)


@triton.jit
def pair_before(lists, a, b, visible, inside):
    """`entries_before` of the key (a, b)."""
    row = find_row(lists, a, b, inside)
    return entries_before(lists, row, visible, row >= 0)


@triton.jit
def age_of(link, stride, t, at, now, there):
    """The age of entries in float64; without `link`, entries are links."""
    event = at if link is None else tl.load(link + at * stride, mask=there, other=0) >> 1
    return (now - tl.load(t + event, mask=there, other=0)).to(tl.float64)


@triton.jit
def all_decayed(lists, column, decay, t, start, seen, now):
    """The sums of exp(-decay * age) over the first `seen` entries of lists, for several decays: [BLOCK, DECAYS].

    Args:
        column: Of each decay in the sums [DECAYS]; that of a decay that is not used may lie beyond.
    """
    blocks = seen >> lists.bits
    first, some = start + (blocks << lists.bits), blocks > 0  # of the rest
    age = age_of(lists.link, lists.stride, t, first - 1, now, some)
    at = (blocks - 1 - ((-start) >> lists.bits)) * lists.num_sums  # see `lists.block_row`
    there = some[:, None] & (column < lists.num_sums)[None, :]
    past = tl.load(lists.sums + at[:, None] + column[None, :], mask=there, other=0.0)
    total = past * tl.exp(-decay[None, :] * age[:, None])
    rest = start + seen - first
    for i in range(tl.max(rest, axis=0)):  # fewer than 2 ** bits
        more = i < rest
        age = age_of(lists.link, lists.stride, t, first + i, now, more)
        total += tl.where(more[:, None], tl.exp(-decay[None, :] * age[:, None]), 0.0)
    return total


@triton.jit
def decayed(lists, decay, t, start, seen, now):
    """`all_decayed` for the last decay of the lists, which `decay` points to: [BLOCK]."""
    one = tl.arange(0, 1)
    return tl.sum(all_decayed(lists, lists.num_sums - 1 + one, tl.load(decay + one), t, start, seen, now), axis=1)


@triton.jit
def closeness(lists, t, start, seen, r, now, unit):
    """Of the r-th newest entry, float32."""
    ever = seen > r
    age = age_of(lists.link, lists.stride, t, start + seen - 1 - r, now, ever)
    return tl.where(ever, 1.0 - log1p(tl.minimum(age / unit, _LONGEST)) / _CLOSENESS_SCALE, -1.0).to(tl.float32)


@triton.jit
def of_part(part, pair, node, way, source, destination):
    """What belongs to a part of the rates; see `rate_features_kernel`."""
    others = tl.where(part == 3, way, tl.where(part == 4, source, destination))
    return tl.where(part == 0, pair, tl.where(part < 3, node, others))


@triton.jit(do_not_specialize=["num_pairs", "num_links", "num_nodes", "num_entries"])
def rate_features_kernel(
    index,  # a `DeviceIndex`
    src,  # [B] int64
    dst,
    t,  # [B]
    unit,  # [1] float64
    out,  # [B, width] float32
    num_pairs,
    num_links,
    num_nodes,
    num_entries,  # of the lists of nodes
    width,
    D: tl.constexpr,
    AGES: tl.constexpr,
    PAIR: tl.constexpr,  # number of features of a pair
    END: tl.constexpr,  # and of an end
    BLOCK: tl.constexpr,
    DECAYS: tl.constexpr,  # a power of two >= D
):
    """One program computes one part of the features of a block of pairs.

    Parts: 0 the pair, 1 and 2 its ends, 3 the directed pair, 4 the source as a source, 5 the destination as one.
    """
    times, pairs, nodes = index.t, index.pairs, index.nodes
    ways, sources, destinations = index.ways, index.sources, index.destinations
    part = tl.program_id(1)
    b = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = b < num_pairs
    u, v = tl.load(src + b, mask=inside, other=0), tl.load(dst + b, mask=inside, other=0)
    now = tl.load(t + b, mask=inside, other=0)
    a = tl.arange(0, DECAYS)
    used = a < D
    alpha, scale = tl.load(index.alphas + a, mask=used, other=0.0), tl.load(unit)
    zero = tl.zeros([BLOCK], tl.int64)
    visible = count_below(times, 1, zero, zero + num_links, now, inside)
    pair = find_row(pairs, tl.minimum(u, v), tl.maximum(u, v), inside)

    end = tl.where((part == 1) | (part == 4), u, v)
    row = of_part(part, pair, end, 2 * pair + (u > v), end, end)
    lists = DeviceLists(
        of_part(part, pairs.span, nodes.span, ways.span, sources.span, destinations.span),
        of_part(part, pairs.link, nodes.link, ways.link, sources.link, destinations.link),
        of_part(part, pairs.sums, nodes.sums, ways.sums, sources.sums, destinations.sums),
        of_part(part, pairs.stride, nodes.stride, ways.stride, sources.stride, destinations.stride),
        of_part(part, pairs.num_sums, nodes.num_sums, ways.num_sums, sources.num_sums, destinations.num_sums),
        of_part(part, pairs.bits, nodes.bits, ways.bits, sources.bits, destinations.bits),
    )
    known = inside & (row >= 0) & ((row < num_nodes) | (part == 0) | (part == 3))
    start, seen = entries_before(lists, row, visible, known)
    first = tl.where(part == 0, 0, tl.where(part < 3, PAIR + (part - 1) * END, PAIR + 2 * END + (part - 3) * (D + 1)))
    at = out + b.to(tl.int64) * width + first
    both = inside[:, None] & used[None, :]
    if (part == 1) | (part == 2):  # the lists of nodes have the logarithm of every sum
        newest, there = start + seen - 1, (seen > 0)[:, None] & used[None, :]
        age = age_of(lists.link, lists.stride, times, newest, now, seen > 0)
        past = tl.load(index.logsum + a.to(tl.int64)[None, :] * num_entries + newest[:, None], mask=there, other=0.0)
        rate = tl.where(there, tl.exp(past - alpha[None, :] * age[:, None]), 0.0)
        pair_start, together = entries_before(pairs, pair, visible, pair >= 0)
        one_step = all_decayed(pairs, a, alpha, times, pair_start, together, now) / tl.maximum(rate, _TINY)
        tl.store(at[:, None] + D + 1 + a[None, :], one_step.to(tl.float32), mask=both)
    else:
        rate = all_decayed(lists, a, alpha, times, start, seen, now)
    tl.store(at[:, None] + a[None, :], log1p(rate).to(tl.float32), mask=both)
    if part == 0:
        tl.store(at + D, log1p(seen.to(tl.float64)).to(tl.float32), mask=inside)
        at += 1
    for r in range(tl.where(part == 0, AGES, 1)):
        tl.store(at + D + r, closeness(lists, times, start, seen, r, now, scale), mask=inside)


@triton.jit(do_not_specialize=["num_pairs", "num_links", "num_nodes", "num_firsts"])
def sequence_features_kernel(
    index,  # a `DeviceIndex`
    src,  # [B] int64
    dst,
    t,  # [B]
    out,  # [B, width] float32
    num_pairs,
    num_links,
    num_nodes,
    num_firsts,
    width,
    column,
    SINCE: tl.constexpr,
    PARTNERS: tl.constexpr,
    STRIDE: tl.constexpr,
    DEPTH: tl.constexpr,
    D: tl.constexpr,  # number of decays that are used
    DECAYS: tl.constexpr,  # a power of two >= D
    BLOCK: tl.constexpr,
):
    """One program computes the features of one end of a block of pairs."""
    times, nodes, pairs, decay = index.t, index.nodes, index.pairs, index.decay
    side = tl.program_id(1)
    b = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = b < num_pairs
    source, destination = tl.load(src + b, mask=inside, other=0), tl.load(dst + b, mask=inside, other=0)
    u, v = tl.where(side == 0, source, destination), tl.where(side == 0, destination, source)
    now, zero = tl.load(t + b, mask=inside, other=0), tl.zeros([BLOCK], tl.int64)
    visible = count_below(times, 1, zero, zero + num_links, now, inside)
    known = inside & (u >= 0) & (u < num_nodes)
    start, seen = entries_before(nodes, u, visible, known)
    end = start + seen
    first, together = pair_before(pairs, tl.minimum(u, v), tl.maximum(u, v), visible, inside)
    linked = together > 0
    SEQUENCE: tl.constexpr = 2 * SINCE + (2 * D + 1) * (PARTNERS > 0) + (2 + DEPTH) * (DEPTH > 0)
    at = out + b.to(tl.int64) * width + column + side * SEQUENCE
    if SINCE:
        newest = tl.load(pairs.link + first + together - 1, mask=linked, other=0) >> 1
        last = tl.load(times + newest, mask=linked, other=0)
        passed = tl.maximum(seen - count_below(index.time, 1, start, seen, last, linked), 1).to(tl.float64)
        tl.store(at, tl.where(linked, log1p(passed) / _SINCE_SCALE, -1.0).to(tl.float32), mask=inside)
        tl.store(at + 1, tl.where(linked, 1.0 / passed, 0.0).to(tl.float32), mask=inside)
        at += 2
    if PARTNERS > 0:
        a = tl.arange(0, DECAYS)
        used = a < D
        alpha = tl.load(index.alphas + a * STRIDE, mask=used, other=0.0)
        total_weight = tl.zeros([BLOCK, DECAYS], tl.float64)
        affinity = tl.zeros([BLOCK, DECAYS], tl.float64)
        root_sum = tl.zeros([BLOCK, DECAYS], tl.float64)
        hits = tl.zeros([BLOCK], tl.int64)
        for k in range(PARTNERS):
            i = end - PARTNERS + k  # in the order of time, as on the CPU
            there = known & (i >= start)
            w = tl.load(index.partner + i, mask=there, other=0).to(tl.int64)
            there = there & (w != v)
            age = (now - tl.load(index.time + i, mask=there, other=0)).to(tl.float64)
            weight = tl.where(there[:, None], tl.exp(-alpha[None, :] * age[:, None]), 0.0)
            total_weight += weight
            entry, count = pair_before(pairs, tl.minimum(w, v), tl.maximum(w, v), visible, there)
            hits += (count > 0).to(tl.int64)
            rate = all_decayed(pairs, a * STRIDE, alpha, times, entry, count, now)
            affinity += weight * rate / (1.0 + rate)
            root_sum += tl.sqrt(weight * rate)
        written = inside[:, None] & used[None, :]
        tl.store(at[:, None] + a[None, :], (affinity / (total_weight + 1e-6)).to(tl.float32), mask=written)
        tl.store(at[:, None] + D + a[None, :], log1p(root_sum).to(tl.float32), mask=written)
        tl.store(at + 2 * D, log1p(hits.to(tl.float64)).to(tl.float32), mask=inside)
        at += 2 * D + 1
    if DEPTH > 0:
        every = DeviceLists(None, None, index.totals, 1, 1, _TOTAL_BITS)  # one list of all links
        total = decayed(every, decay, times, zero, visible, now)
        num_known = tl.maximum(count_below(index.firsts, 1, zero, zero + num_firsts, 2 * visible, inside), 1)
        entry, count = entries_before(nodes, v, visible, inside & (v >= 0) & (v < num_nodes))
        base = (decayed(nodes, decay, times, entry, count, now) + 1.0) / (2.0 * total + num_known.to(tl.float64))
        own = decayed(nodes, decay, times, start, seen, now)
        both = decayed(pairs, decay, times, first, together, now)
        tl.store(at, (tl.log(base) / _LOG_SCALE).to(tl.float32), mask=inside)
        tl.store(at + 1, (tl.log((both + base) / (own + 1.0)) / _LOG_SCALE).to(tl.float32), mask=inside)
        for k in range(DEPTH):
            i = end - 1 - k
            there = known & (i >= start)
            w = tl.load(index.partner + i, mask=there, other=0).to(tl.int64)
            entry, count = entries_before(index.origins, w, visible, there)
            followed = decayed(index.origins, decay, times, entry, count, now)
            entry, count = pair_before(index.next, w, v, visible, there)
            came_next = decayed(index.next, decay, times, entry, count, now)
            chance = tl.log((came_next + base) / (followed + 1.0)) / _LOG_SCALE
            tl.store(at + 2 + k, tl.where(there, chance, 0.0).to(tl.float32), mask=inside)
