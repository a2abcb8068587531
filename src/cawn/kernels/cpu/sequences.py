"""Features of pairs from the recent links of both ends; see `cawn.walks.sequences`, which defines them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cawn.kernels.cpu.walks import count_before
from cawn.kernels.jit import njit

Array = npt.NDArray[Any]

SINCE_SCALE = 3.0  # the logarithm of a number of links is divided by it, which makes features of order one
LOG_SCALE = 3.0  # likewise, the logarithm of a probability


class Lists(NamedTuple):
    """The index of `Sequences`. Rows of a table are its entries for one node; sums are decayed counts."""

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
    from_starts: Array  # [N + 1] where the successions from each node start
    from_time: Array  # [s]
    from_sum: Array  # [s]
    all_time: Array  # [E] of all links
    all_sum: Array  # [E]
    first_time: Array  # of each node with links, ascending
    alphas: Array  # [decays] of `pair_logsum`
    scale: float  # time after which a link counts 1 / e in the sums


@njit
def sequence_features(
    owner: Array,
    other: Array,
    t: Array,
    lists: Lists,
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
        partners: Recent links whose partners' counts with the other end are summed; 0 for no two-step counts.
        stride: Every so many decays are used for them.
        depth: Recent links whose successors are counted; 0 for none.
    """
    width = 0
    num_nodes = lists.starts.size - 1
    num_decays = (lists.alphas.size + stride - 1) // stride if partners > 0 else 0
    weight, total_weight = np.empty(num_decays), np.empty(num_decays)
    affinity, log_sum = np.empty(num_decays), np.empty(num_decays)
    for q in range(first, last):
        u, v, now = owner[q], other[q], t[q]
        row = out[q]
        width = 0
        start = lists.starts[u] if 0 <= u < num_nodes else 0
        end = start + count_before(lists.time, start, lists.starts[u + 1], now) if 0 <= u < num_nodes else 0
        newest, pair_count = _newest_pair(lists, min(u, v), max(u, v), now)
        if since:
            row[0], row[1] = -1.0, 0.0
            if pair_count > 0:
                earlier = count_before(lists.time, start, end, lists.pair_time[newest])
                links = max(end - start - earlier, 1)
                row[0], row[1] = math.log1p(links) / SINCE_SCALE, 1.0 / links
            width = 2
        if partners > 0:
            total_weight[:] = 0.0
            affinity[:] = 0.0
            log_sum[:] = 0.0
            hits = 0
            for i in range(max(start, end - partners), end):
                w = np.int64(lists.partner[i])
                if w == v:
                    continue
                for a in range(num_decays):
                    weight[a] = math.exp(-lists.alphas[a * stride] * (now - lists.time[i]))
                    total_weight[a] += weight[a]
                at, count = _newest_pair(lists, min(w, v), max(w, v), now)
                if count > 0:
                    hits += 1
                    age = now - lists.pair_time[at]
                    for a in range(num_decays):
                        rate = math.exp(lists.pair_logsum[a * stride, at] - lists.alphas[a * stride] * age)
                        affinity[a] += weight[a] * rate / (1.0 + rate)
                        log_sum[a] += math.sqrt(weight[a] * rate)
            for a in range(num_decays):
                row[width + a] = affinity[a] / (total_weight[a] + 1e-6)
                row[width + num_decays + a] = math.log1p(log_sum[a])
            row[width + 2 * num_decays] = math.log1p(hits)
            width += 2 * num_decays + 1
        if depth > 0:
            _successions(lists, u, v, now, start, end, newest, pair_count, depth, row[width:])


@njit
def _successions(
    lists: Lists,
    u: int,
    v: int,
    now: Any,
    start: int,
    end: int,
    newest: int,
    pair_count: int,
    depth: int,
    row: Array,
) -> None:
    """log P(v), log P(v | u), log P(v | w) for each of the last partners w of u; 0 where there is none."""
    num_nodes = lists.starts.size - 1
    popularity = 0.0
    if 0 <= v < num_nodes:
        links = count_before(lists.time, lists.starts[v], lists.starts[v + 1], now)
        if links > 0:
            at = lists.starts[v] + links - 1
            popularity = lists.activity[at] * math.exp(-(now - lists.time[at]) / lists.scale)
    links = count_before(lists.all_time, 0, lists.all_time.size, now)
    total = lists.all_sum[links - 1] * math.exp(-(now - lists.all_time[links - 1]) / lists.scale) if links > 0 else 0.0
    nodes = max(count_before(lists.first_time, 0, lists.first_time.size, now), 1)
    base = (popularity + 1.0) / (2.0 * total + nodes)
    activity = lists.activity[end - 1] * math.exp(-(now - lists.time[end - 1]) / lists.scale) if end > start else 0.0
    pair = lists.pair_sum[newest] * math.exp(-(now - lists.pair_time[newest]) / lists.scale) if pair_count > 0 else 0.0
    row[0] = math.log(base) / LOG_SCALE
    row[1] = math.log((pair + base) / (activity + 1.0)) / LOG_SCALE
    for k in range(depth):
        i = end - 1 - k
        if i < start:
            row[2 + k] = 0.0
            continue
        w = np.int64(lists.partner[i])
        followed = together = 0.0
        first = lists.from_starts[w]
        count = count_before(lists.from_time, first, lists.from_starts[w + 1], now)
        if count > 0:
            at = first + count - 1
            followed = lists.from_sum[at] * math.exp(-(now - lists.from_time[at]) / lists.scale)
            key = find_key(lists.next_keys, lists.next_rows[w], lists.next_rows[w + 1], w << 32 | v)
            if key >= 0:
                first = lists.next_starts[key]
                count = count_before(lists.next_time, first, lists.next_starts[key + 1], now)
                if count > 0:
                    at = first + count - 1
                    together = lists.next_sum[at] * math.exp(-(now - lists.next_time[at]) / lists.scale)
        row[2 + k] = math.log((together + base) / (followed + 1.0)) / LOG_SCALE


@njit
def find_key(keys: Array, low: int, high: int, key: Any) -> int:
    """The index of a key in the sorted keys[low:high]; -1 if it is not there."""
    end = high
    while low < high:
        middle = (low + high) >> 1
        if keys[middle] < key:
            low = middle + 1
        else:
            high = middle
    return low if low < end and keys[low] == key else -1


@njit
def _newest_pair(lists: Lists, a: int, b: int, now: Any) -> tuple[int, int]:
    """The position of the newest link of a pair a <= b before a time, and the number of its links."""
    if a < 0 or a >= lists.pair_rows.size - 1:
        return -1, 0
    key = find_key(lists.pair_keys, lists.pair_rows[a], lists.pair_rows[a + 1], a << 32 | b)
    if key < 0:
        return -1, 0
    first = lists.pair_starts[key]
    count = count_before(lists.pair_time, first, lists.pair_starts[key + 1], now)
    return first + count - 1, count


@njit
def decayed_counts(starts: Array, t: Array, scale: float) -> Array:
    """The sum of exp(-age / scale) over the entries of its list so far, at the time of each entry: [n]."""
    sums = np.ones(t.size)
    for row in range(starts.size - 1):
        for i in range(starts[row] + 1, starts[row + 1]):
            sums[i] += sums[i - 1] * math.exp(-(t[i] - t[i - 1]) / scale)
    return sums
