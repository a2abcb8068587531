"""Features of pairs from the recent links of both ends; see `cawn.index.features`, which defines them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from cawn.checks import Array
from cawn.index.kernels.lists import Lists, all_decayed, count_before, decayed, entries_before, find_list, find_row
from cawn.index.kernels.rates import Common, Pairs
from cawn.index.kinds import TOTAL_BITS
from cawn.kernels.cpu.logarithms import exp, log1p
from cawn.kernels.jit import njit_fused, reader_fused
from cawn.kernels.keys import pair_key

SINCE_SCALE = 3.0  # logarithms of numbers of links are divided by it, which makes features of order one
LOG_SCALE = 3.0  # the same for logarithms of probabilities
STRIDE = 2  # two-step counts use every second decay


Kinds = tuple[Lists, Lists, Lists, Lists, Lists]
Parts = tuple[bool, int, int]


class Recent(NamedTuple):
    """What depends on one end and the time alone; consecutive pairs with the same end and time share it."""

    partner: Array  # [P] int64, the distinct partners of its recent links
    links: Array  # [P] int64, number of recent links with each
    weight: Array  # [P, decays], the sum of their weights
    root: Array  # [P, decays], the sum of the square roots of their weights
    sums: Array  # [4, decays], for sums over the partners
    followed: Array  # [depth] decayed count of the links after each of the last partners


class End(NamedTuple):
    """The links of one end before a time."""

    start: int  # its first entry among those of nodes
    partners: int  # and among those in canonical order
    seen: int


@njit_fused
def sequence_features(
    common: Common, lists: Kinds, decays: Array, parts: Parts, asked: Pairs, out: Array, column: int, lo: int, hi: int
) -> None:
    """Fill out[lo:hi], from a column on: the features of one end of each pair.

    Args:
        lists: Those of nodes, pairs, partners, next and origins.
        decays: Those of two-step counts.
        parts: Whether to count links since the pair's last one; the number of recent links whose partners' counts with
            the other end are summed, 0 for no two-step counts; and the number of recent partners for which transitions
            are computed, 0 for none.
        asked: The end, int64, the other end, and the time.
    """
    nodes, pairs, partners, following, origins = lists
    since, num_recent, depth = parts
    owner, other, t = asked
    recent = Recent(
        np.empty(num_recent, np.int64),
        np.empty(num_recent, np.int64),
        np.empty((num_recent, decays.size)),
        np.empty((num_recent, decays.size)),
        np.empty((4, decays.size)),
        np.empty(depth),
    )
    times, decay = common.t, 0.0
    if depth > 0:
        decay = nodes.decays[0]
    end = End(0, 0, 0)
    visible = size = 0
    own = num_links = num_known = 0.0
    for q in range(lo, hi):
        u, v, now, row = owner[q], other[q], t[q], out[q, column:]
        same_time = q > lo and now == t[q - 1]
        if not same_time:
            visible = count_before(times, 0, times.size, now)
            if depth > 0:
                num_links, num_known = _all_before(times, common.totals, common.firsts, decay, visible, now)
        if not (same_time and u == owner[q - 1]):
            end = _find_end(nodes, partners, u, visible)
            if num_recent > 0:
                size = _find_recent(common.partner, common.time, decays, end, now, num_recent, recent)
            if depth > 0:
                own = decayed(nodes, times, end.start, end.seen, now)
                _count_followers(common.partner, origins, times, end, visible, now, recent.followed)
        pair_start, pair_seen = pair_before(pairs, min(u, v), max(u, v), visible)
        width = 0
        if since:
            newest = times[pairs.link[pair_start + pair_seen - 1] >> 1] if pair_seen > 0 else now
            _fill_since(common.time, end, newest, pair_seen, row)
            width = 2
        if num_recent > 0:
            _fill_two_steps(times, pairs, decays, recent, size, v, visible, now, row[width:])
            width += 2 * decays.size + 1
        if depth > 0:
            start, seen = entries_before(nodes, v, visible)
            base = (decayed(nodes, times, start, seen, now) + 1.0) / (2.0 * num_links + num_known)
            together = decayed(pairs, times, pair_start, pair_seen, now)
            row[width] = math.log(base) / LOG_SCALE
            row[width + 1] = math.log((together + base) / (own + 1.0)) / LOG_SCALE
            to = row[width + 2 :]
            _fill_transitions(common, following, end, v, visible, now, base, recent.followed, to)


# Reading lists; as functions of their own, so that no references to the arrays are counted in loops.


@reader_fused
def pair_before(lists: Lists, u: Any, v: Any, visible: Any) -> tuple[Any, Any]:
    """`list_before` of the pair (u, v)."""
    row = find_row(lists.keys, lists.slots, pair_key(u, v))
    return entries_before(lists, np.int64(row), visible)


@reader_fused
def _find_end(nodes: Lists, partners: Lists, node: Any, visible: Any) -> End:
    start, seen = entries_before(nodes, node, visible)
    return End(start, find_list(partners.span, partners.link, partners.chain, partners.version, node)[0], seen)


# The parts of a row of features.


@reader_fused
def _fill_since(time: Array, end: End, newest: Any, pair_seen: int, row: Array) -> None:
    row[0], row[1] = -1.0, 0.0
    if pair_seen > 0:
        links = max(end.seen - count_before(time, end.start, end.start + end.seen, newest), 1)
        row[0], row[1] = math.log1p(links) / SINCE_SCALE, 1.0 / links


@reader_fused
def _fill_two_steps(
    t: Array, pairs: Lists, decays: Array, recent: Recent, size: int, v: int, visible: int, now: Any, row: Array
) -> None:
    hits = 0
    recent.sums[:3] = 0.0
    total, affinity, roots, rates = recent.sums[0], recent.sums[1], recent.sums[2], recent.sums[3]
    link, sums, bits, partner, links = pairs.link, pairs.sums, pairs.bits, recent.partner, recent.links
    weight, root = recent.weight, recent.root
    for k in range(size):
        w = partner[k]
        if w == v:
            continue
        for a in range(decays.size):
            total[a] += weight[k, a]
        start, seen = pair_before(pairs, min(v, w), max(v, w), visible)
        if seen > 0:
            hits += links[k]
            all_decayed(link, sums, bits, decays, np.int64(STRIDE), t, start, seen, now, rates)
            for a in range(decays.size):
                affinity[a] += weight[k, a] * rates[a] / (1.0 + rates[a])
                roots[a] += root[k, a] * math.sqrt(rates[a])
    for a in range(decays.size):
        row[a] = affinity[a] / (total[a] + 1e-6)
        row[decays.size + a] = log1p(roots[a])
    row[2 * decays.size] = math.log1p(hits)


@reader_fused
def _fill_transitions(
    common: Common, following: Lists, end: End, v: int, visible: int, now: Any, base: float, followed: Array, row: Array
) -> None:
    """log P(v | w) for each of the last partners w; 0 where there is none."""
    for k in range(followed.size):
        if k >= end.seen:
            row[k] = 0.0
            continue
        together = 0.0
        if followed[k] > 0.0:
            w = np.int64(common.partner[end.partners + end.seen - 1 - k])
            start, seen = pair_before(following, w, v, visible)
            together = decayed(following, common.t, start, seen, now)
        row[k] = math.log((together + base) / (followed[k] + 1.0)) / LOG_SCALE


# What depends on one end alone.


@reader_fused
def _find_recent(
    partner: Array, time: Array, decays: Array, end: End, now: Any, num_recent: int, recent: Recent
) -> int:
    """Fill `recent` from the last links of a node; returns the number of distinct partners."""
    size, partners, links, weight, root = 0, recent.partner, recent.links, recent.weight, recent.root
    for i in range(max(end.seen - num_recent, 0), end.seen):
        w = np.int64(partner[end.partners + i])
        k = 0
        while k < size and partners[k] != w:
            k += 1
        if k == size:
            partners[k], links[k] = w, 0
            for a in range(decays.size):
                weight[k, a], root[k, a] = 0.0, 0.0
            size += 1
        links[k] += 1
        age = float(now - time[end.start + i])
        for a in range(decays.size):
            x = exp(-decays[a] * age)
            weight[k, a] += x
            root[k, a] += math.sqrt(x)
    return size


@reader_fused
def _count_followers(
    partner: Array, origins: Lists, t: Array, end: End, visible: int, now: Any, followed: Array
) -> None:
    for k in range(min(followed.size, end.seen)):
        start, seen = entries_before(origins, np.int64(partner[end.partners + end.seen - 1 - k]), visible)
        followed[k] = decayed(origins, t, start, seen, now)


@reader_fused
def _all_before(t: Array, totals: Array, firsts: Array, decay: float, visible: int, now: Any) -> tuple[float, float]:
    """The decayed count of all links before a time, and the number of nodes they have, at least 1."""
    blocks, total = visible >> TOTAL_BITS, 0.0
    if blocks > 0:
        total = totals[blocks - 1] * exp(-decay * float(now - t[(blocks << TOTAL_BITS) - 1]))
    for e in range(blocks << TOTAL_BITS, visible):
        total += exp(-decay * float(now - t[e]))
    known = count_before(firsts, 0, firsts.size, 2 * visible)
    return total, max(float(known), 1.0)
