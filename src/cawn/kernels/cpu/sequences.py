"""Features of pairs from the recent links of both ends; see `cawn.walks.sequences`, which defines them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cawn.kernels.cpu.logarithms import exp, log1p
from cawn.kernels.cpu.rates import find_key
from cawn.kernels.cpu.spans import Spans, span
from cawn.kernels.cpu.walks import count_before
from cawn.kernels.jit import inline, njit, njit_fused

Array = npt.NDArray[Any]

SINCE_SCALE = 3.0  # logarithms of numbers of links are divided by it, which makes features of order one
LOG_SCALE = 3.0  # the same for logarithms of probabilities


class Lists(NamedTuple):
    """Lists of times for nodes, pairs and transitions, as the kernel reads them; sums are decayed counts."""

    nodes: Spans  # of the links of each node
    time: Array  # [n]
    activity: Array  # [n] decayed count of the node's links, up to each
    partners: Spans  # of the same links in canonical order
    partner: Array  # [n] int32, the other end
    pairs: Spans
    pair_keys: Array  # [K]
    pair_slots: Array  # hash table of the keys
    pair_time: Array  # [E]
    pair_logsum: Array  # [decays, E]
    pair_sum: Array  # [E]
    next: Spans  # of pairs (node, next partner)
    next_keys: Array  # [J]
    next_slots: Array
    next_time: Array  # [s]
    next_sum: Array  # [s]
    origins: Spans  # of the transitions from each node
    from_time: Array  # [s]
    from_sum: Array  # [s]
    all_time: Array  # [E] of all links
    all_sum: Array  # [E]
    first_time: Array  # of each node with links, ascending
    alphas: Array  # [decays] of `pair_logsum`
    scale: float  # time after which a link counts 1 / e in the sums


class FlatLists(NamedTuple):
    """The whole index with lists one after the other, as run folders and GPUs have it; sums are decayed counts."""

    starts: Array  # [N + 1] where the links of each node start
    time: Array  # [n]
    partner: Array  # [n] int32, the other end
    activity: Array  # [n] decayed count of the node's links, up to each
    pair_rows: Array  # [N + 1] where the pairs of each smaller end start in `pair_keys`
    pair_keys: Array  # [K] sorted
    pair_starts: Array  # [K + 1]
    pair_time: Array  # [E]
    pair_logsum: Array  # [decays, E]
    pair_sum: Array  # [E]
    next_rows: Array  # [N + 1] where the pairs (node, next partner) start in `next_keys`
    next_keys: Array  # [J] sorted
    next_starts: Array  # [J + 1]
    next_time: Array  # [s]
    next_sum: Array  # [s]
    from_starts: Array  # [N + 1] where the transitions from each node start
    from_time: Array  # [s]
    from_sum: Array  # [s]
    all_time: Array  # [E] of all links
    all_sum: Array  # [E]
    first_time: Array  # of each node with links, ascending
    alphas: Array  # [decays] of `pair_logsum`
    scale: float  # time after which a link counts 1 / e in the sums


class Recent(NamedTuple):
    """What depends on one end and the time alone; consecutive pairs with the same end and time share it."""

    partner: Array  # [P] int64, the distinct partners of its recent links
    links: Array  # [P] int64, number of recent links with each
    weight: Array  # [P, decays], the sum of their weights
    root: Array  # [P, decays], the sum of the square roots of their weights
    sums: Array  # [3, decays], for sums over the partners
    followed: Array  # [depth] decayed count of the links after each of the last partners


@njit_fused
def sequence_features(
    owner: Array,
    other: Array,
    t: Array,
    index: Lists,
    since: bool,
    partners: int,
    stride: int,
    depth: int,
    out: Array,
    first: int,
    last: int,
) -> None:
    """Fill out[first:last], the features of one end of each pair.

    Args:
        owner: The end, [B] int64.
        other: The other end.
        since: Whether to count links since the pair's last one.
        partners: Number of recent links whose partners' counts with the other end are summed; 0 for no two-step counts.
        stride: Two-step counts use every stride-th decay.
        depth: Number of recent partners for which transitions are computed; 0 for none.
    """
    num_decays = (index.alphas.size + stride - 1) // stride if partners > 0 else 0
    alphas = np.ascontiguousarray(index.alphas[::stride])[:num_decays]
    recent = Recent(
        np.empty(partners, np.int64),
        np.empty(partners, np.int64),
        np.empty((partners, num_decays)),
        np.empty((partners, num_decays)),
        np.empty((3, num_decays)),
        np.empty(depth),
    )
    start = end = shift = size = 0
    num_links = num_known = 0.0
    for q in range(first, last):
        u, v, now, row = owner[q], other[q], t[q], out[q]
        same_time = q > first and now == t[q - 1]
        if not (same_time and u == owner[q - 1]):
            start, end = _links_before(index, u, now)
            shift = span(index.partners, u)[0] - start  # from a link in `time` to its place in `partner`
            size = _find_recent(index, alphas, start, end, shift, now, partners, recent)
            _count_followers(index, start, end, shift, now, recent.followed)
        newest, pair_count = _newest_pair(index, u, v, now)
        width = 0
        if since:
            _fill_since(index, start, end, newest, pair_count, row)
            width = 2
        if partners > 0:
            _fill_two_steps(index, alphas, stride, recent, size, v, now, row[width:])
            width += 2 * num_decays + 1
        if depth > 0:
            if not same_time:
                num_links, num_known = _all_before(index, now)
            base = (_activity(index, *_links_before(index, v, now), now) + 1.0) / (2.0 * num_links + num_known)
            pair = _decayed(index.pair_sum, index.pair_time, newest, now, index.scale) if pair_count > 0 else 0.0
            row[width] = math.log(base) / LOG_SCALE
            row[width + 1] = math.log((pair + base) / (_activity(index, start, end, now) + 1.0)) / LOG_SCALE
            _fill_transitions(index, start, end, shift, v, now, base, recent.followed, row[width + 2 :])


# The parts of a row of features.


@njit_fused
def _fill_since(index: Lists, start: int, end: int, newest: int, pair_count: int, row: Array) -> None:
    row[0], row[1] = -1.0, 0.0
    if pair_count > 0:
        earlier = count_before(index.time, start, end, index.pair_time[newest])
        links = max(end - start - earlier, 1)
        row[0], row[1] = math.log1p(links) / SINCE_SCALE, 1.0 / links


@njit_fused
def _fill_two_steps(
    index: Lists,
    alphas: Array,
    stride: int,
    recent: Recent,
    size: int,
    v: int,
    now: Any,
    row: Array,
) -> None:
    num_decays, hits = alphas.size, 0
    recent.sums[:] = 0.0
    total, affinity, roots = recent.sums[0], recent.sums[1], recent.sums[2]
    for k in range(size):
        w = recent.partner[k]
        if w == v:
            continue
        weight, root = recent.weight[k], recent.root[k]
        for a in range(num_decays):
            total[a] += weight[a]
        at, count = _newest_pair(index, w, v, now)
        if count > 0:
            hits += recent.links[k]
            age = float(now - index.pair_time[at])
            for a in range(num_decays):
                rate = exp(index.pair_logsum[a * stride, at] - alphas[a] * age)
                affinity[a] += weight[a] * rate / (1.0 + rate)
                roots[a] += root[a] * math.sqrt(rate)
    for a in range(num_decays):
        row[a] = affinity[a] / (total[a] + 1e-6)
        row[num_decays + a] = log1p(roots[a])
    row[2 * num_decays] = math.log1p(hits)


@njit_fused
def _fill_transitions(
    index: Lists,
    start: int,
    end: int,
    shift: int,
    v: int,
    now: Any,
    base: float,
    followed: Array,
    row: Array,
) -> None:
    """log P(v | w) for each of the last partners w; 0 where there is none."""
    for k in range(followed.size):
        i = end - 1 - k
        if i < start:
            row[k] = 0.0
            continue
        together = 0.0
        if followed[k] > 0.0:
            key = np.int64(index.partner[i + shift]) << 32 | v
            first, stop = span(index.next, find_key(index.next_keys, index.next_slots, index.next.size, key))
            count = count_before(index.next_time, first, stop, now)
            if count > 0:
                together = _decayed(index.next_sum, index.next_time, first + count - 1, now, index.scale)
        row[k] = math.log((together + base) / (followed[k] + 1.0)) / LOG_SCALE


# What depends on one end alone.


@njit_fused
def _links_before(index: Lists, node: int, now: Any) -> tuple[int, int]:
    """The range of a node's links before a time."""
    start, stop = span(index.nodes, node)
    return start, start + count_before(index.time, start, stop, now)


@njit_fused
def _find_recent(
    index: Lists, alphas: Array, start: int, end: int, shift: int, now: Any, partners: int, recent: Recent
) -> int:
    """Fill `recent` from the last links of a node; returns the number of distinct partners."""
    size = 0
    for i in range(max(start, end - partners), end):
        w = np.int64(index.partner[i + shift])
        k = 0
        while k < size and recent.partner[k] != w:
            k += 1
        weight, root = recent.weight[k], recent.root[k]
        if k == size:
            recent.partner[k], recent.links[k] = w, 0
            weight[:] = 0.0
            root[:] = 0.0
            size += 1
        recent.links[k] += 1
        age = float(now - index.time[i])
        for a in range(alphas.size):
            x = exp(-alphas[a] * age)
            weight[a] += x
            root[a] += math.sqrt(x)
    return size


@njit_fused
def _count_followers(index: Lists, start: int, end: int, shift: int, now: Any, followed: Array) -> None:
    for k in range(min(followed.size, end - start)):
        first, stop = span(index.origins, np.int64(index.partner[end - 1 - k + shift]))
        count = count_before(index.from_time, first, stop, now)
        at = first + count - 1
        followed[k] = _decayed(index.from_sum, index.from_time, at, now, index.scale) if count > 0 else 0.0


@njit_fused
def _activity(index: Lists, start: int, end: int, now: Any) -> float:
    """The decayed count of a node's links."""
    return _decayed(index.activity, index.time, end - 1, now, index.scale) if end > start else 0.0


@njit_fused
def _all_before(index: Lists, now: Any) -> tuple[float, float]:
    """The decayed count of all links before a time, and the number of nodes they have, at least 1."""
    links = count_before(index.all_time, 0, index.all_time.size, now)
    total = _decayed(index.all_sum, index.all_time, links - 1, now, index.scale) if links > 0 else 0.0
    return total, max(float(count_before(index.first_time, 0, index.first_time.size, now)), 1.0)


@inline
def _decayed(sums: Array, time: Array, at: int, now: Any, scale: float) -> Any:
    return sums[at] * math.exp(-(now - time[at]) / scale)


@njit_fused
def _newest_pair(index: Lists, u: int, v: int, now: Any) -> tuple[int, int]:
    """The position of the newest link of a pair before a time, and the number of its links."""
    key = min(u, v) << 32 | max(u, v)
    first, stop = span(index.pairs, find_key(index.pair_keys, index.pair_slots, index.pairs.size, key))
    count = count_before(index.pair_time, first, stop, now)
    return first + count - 1, count


@njit
def decayed_counts(starts: Array, t: Array, scale: float) -> Array:
    """The sum of exp(-age / scale) over the entries of its list so far, at the time of each entry: [n]."""
    sums = np.ones(t.size)
    for row in range(starts.size - 1):
        for i in range(starts[row] + 1, starts[row + 1]):
            sums[i] += sums[i - 1] * math.exp(-(t[i] - t[i - 1]) / scale)
    return sums
