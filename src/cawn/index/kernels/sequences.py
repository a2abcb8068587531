"""Features of pairs from the recent links of both ends; see `cawn.index.features`, which defines them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cawn.index.kernels.lists import all_decayed, count_before, count_below, decayed, entries_before, find_list, find_row
from cawn.index.kernels.rates import Tables
from cawn.index.kinds import TOTAL_BITS
from cawn.kernels.cpu.logarithms import exp, log1p
from cawn.kernels.jit import inner_fused, njit_fused
from cawn.kernels.keys import pair_key

Array = npt.NDArray[Any]

SINCE_SCALE = 3.0  # logarithms of numbers of links are divided by it, which makes features of order one
LOG_SCALE = 3.0  # the same for logarithms of probabilities
STRIDE = 2  # two-step counts use every second decay


class Recent(NamedTuple):
    """What depends on one end and the time alone; consecutive pairs with the same end and time share it."""

    partner: Array  # [P] int64, the distinct partners of its recent links
    links: Array  # [P] int64, number of recent links with each
    weight: Array  # [P, decays], the sum of their weights
    root: Array  # [P, decays], the sum of the square roots of their weights
    sums: Array  # [3, decays], for sums over the partners
    followed: Array  # [depth] decayed count of the links after each of the last partners


class End(NamedTuple):
    """The links of one end before a time."""

    start: int  # its first entry among those of nodes
    partners: int  # and among those in canonical order
    seen: int


@njit_fused
def sequence_features(
    owner: Array,
    other: Array,
    t: Array,
    tables: Tables,
    decays: Array,
    since: bool,
    partners: int,
    depth: int,
    out: Array,
    column: int,
    first: int,
    last: int,
) -> None:
    """Fill out[first:last], from a column on: the features of one end of each pair.

    Args:
        owner: The end, [B] int64.
        other: The other end.
        decays: Those of two-step counts.
        since: Whether to count links since the pair's last one.
        partners: Number of recent links whose partners' counts with the other end are summed; 0 for no two-step counts.
        depth: Number of recent partners for which transitions are computed; 0 for none.
    """
    recent = Recent(
        np.empty(partners, np.int64),
        np.empty(partners, np.int64),
        np.empty((partners, decays.size)),
        np.empty((partners, decays.size)),
        np.empty((3, decays.size)),
        np.empty(depth),
    )
    pairs, scale_column = tables.pairs, tables.alphas.size
    end = End(0, 0, 0)
    visible = size = 0
    own = num_links = num_known = 0.0
    for q in range(first, last):
        u, v, now, row = owner[q], other[q], t[q], out[q, column:]
        same_time = q > first and now == t[q - 1]
        if not same_time:
            visible = count_before(tables.t, 0, tables.t.size, now)
            if depth > 0:
                num_links, num_known = _all_before(tables, visible, now)
        if not (same_time and u == owner[q - 1]):
            start, seen = entries_before(tables.nodes, u, visible)
            same = tables.partners
            end = End(start, find_list(same.span, same.link, same.chain, same.version, u)[0], seen)
            if partners > 0:
                size = _find_recent(tables, decays, end, now, partners, recent)
            if depth > 0:
                own = decayed(tables.nodes, tables.t, 0, start, seen, now)
                _count_followers(tables, end, visible, now, recent.followed)
        pair = find_row(pairs.keys, pairs.slots, pair_key(min(u, v), max(u, v)))
        pair_start, pair_seen = entries_before(pairs, pair, visible)
        width = 0
        if since:
            newest = tables.t[pairs.link[pair_start + pair_seen - 1] >> 1] if pair_seen > 0 else now
            _fill_since(tables.time, end, newest, pair_seen, row)
            width = 2
        if partners > 0:
            _fill_two_steps(tables, decays, recent, size, v, visible, now, row[width:])
            width += 2 * decays.size + 1
        if depth > 0:
            start, seen = entries_before(tables.nodes, v, visible)
            base = (decayed(tables.nodes, tables.t, 0, start, seen, now) + 1.0) / (2.0 * num_links + num_known)
            together = decayed(pairs, tables.t, scale_column, pair_start, pair_seen, now)
            row[width] = math.log(base) / LOG_SCALE
            row[width + 1] = math.log((together + base) / (own + 1.0)) / LOG_SCALE
            _fill_transitions(tables, end, v, visible, now, base, recent.followed, row[width + 2 :])


# The parts of a row of features.


@inner_fused
def _fill_since(time: Array, end: End, newest: Any, pair_seen: int, row: Array) -> None:
    row[0], row[1] = -1.0, 0.0
    if pair_seen > 0:
        links = max(end.seen - count_before(time, end.start, end.start + end.seen, newest), 1)
        row[0], row[1] = math.log1p(links) / SINCE_SCALE, 1.0 / links


@inner_fused
def _fill_two_steps(
    tables: Tables, decays: Array, recent: Recent, size: int, v: int, visible: int, now: Any, row: Array
) -> None:
    num_decays, hits = decays.size, 0
    span, link, sums, _, keys, slots, chain, bits, version = tables.pairs
    recent.sums[:] = 0.0
    total, affinity, roots = recent.sums[0], recent.sums[1], recent.sums[2]
    rates = np.empty(num_decays)
    for k in range(size):
        w = recent.partner[k]
        if w == v:
            continue
        weight, root = recent.weight[k], recent.root[k]
        for a in range(num_decays):
            total[a] += weight[a]
        pair = find_row(keys, slots, pair_key(min(v, w), max(v, w)))
        if pair < 0:
            continue
        start, whole = find_list(span, link, chain, version, pair)
        seen = count_below(link, start, whole, visible)
        if seen > 0:
            hits += recent.links[k]
            all_decayed(link, sums, bits, decays, STRIDE, tables.t, start, seen, now, rates)
            for a in range(num_decays):
                affinity[a] += weight[a] * rates[a] / (1.0 + rates[a])
                roots[a] += root[a] * math.sqrt(rates[a])
    for a in range(num_decays):
        row[a] = affinity[a] / (total[a] + 1e-6)
        row[num_decays + a] = log1p(roots[a])
    row[2 * num_decays] = math.log1p(hits)


@inner_fused
def _fill_transitions(
    tables: Tables, end: End, v: int, visible: int, now: Any, base: float, followed: Array, row: Array
) -> None:
    """log P(v | w) for each of the last partners w; 0 where there is none."""
    for k in range(followed.size):
        if k >= end.seen:
            row[k] = 0.0
            continue
        together = 0.0
        if followed[k] > 0.0:
            w = np.int64(tables.partner[end.partners + end.seen - 1 - k])
            found = find_row(tables.next.keys, tables.next.slots, pair_key(w, v))
            start, seen = entries_before(tables.next, found, visible)
            together = decayed(tables.next, tables.t, 0, start, seen, now)
        row[k] = math.log((together + base) / (followed[k] + 1.0)) / LOG_SCALE


# What depends on one end alone.


@inner_fused
def _find_recent(tables: Tables, decays: Array, end: End, now: Any, partners: int, recent: Recent) -> int:
    """Fill `recent` from the last links of a node; returns the number of distinct partners."""
    size = 0
    for i in range(max(end.seen - partners, 0), end.seen):
        w = np.int64(tables.partner[end.partners + i])
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
        age = float(now - tables.time[end.start + i])
        for a in range(decays.size):
            x = exp(-decays[a] * age)
            weight[a] += x
            root[a] += math.sqrt(x)
    return size


@inner_fused
def _count_followers(tables: Tables, end: End, visible: int, now: Any, followed: Array) -> None:
    for k in range(min(followed.size, end.seen)):
        w = np.int64(tables.partner[end.partners + end.seen - 1 - k])
        start, seen = entries_before(tables.origins, w, visible)
        followed[k] = decayed(tables.origins, tables.t, 0, start, seen, now)


@inner_fused
def _all_before(tables: Tables, visible: int, now: Any) -> tuple[float, float]:
    """The decayed count of all links before a time, and the number of nodes they have, at least 1."""
    blocks, decay, total = visible >> TOTAL_BITS, tables.nodes.decays[0], 0.0
    if blocks > 0:
        age = float(now - tables.t[(blocks << TOTAL_BITS) - 1])
        total = tables.totals[blocks - 1] * exp(-decay * age)
    for e in range(blocks << TOTAL_BITS, visible):
        total += exp(-decay * float(now - tables.t[e]))
    known = 0
    size = tables.firsts.size
    while known < size:  # the first links are sorted
        mid = (known + size) >> 1
        if tables.firsts[mid] < 2 * visible:
            known = mid + 1
        else:
            size = mid
    return total, max(float(known), 1.0)
