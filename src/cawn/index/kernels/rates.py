"""Exact decayed counts of pairs; `cawn.index.features` says what they are for.

A row of features has these parts, each starting at a column of its own:

    PAIR                    the links of the pair, in either direction
    SOURCE, DESTINATION     those of each end
    DIRECTED_PAIR           with directed counts: those from the source to the destination,
    AS_SOURCE               those of which the source is the source,
    AS_DESTINATION          those of which the destination is the destination

Consecutive pairs with the same source and time, as in ranking, share the parts of the source.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cawn.checks import Array
from cawn.index.kernels.lists import Lists, all_decayed, count_before, entries_before, find_row
from cawn.kernels.cpu.logarithms import exp, log1p
from cawn.kernels.jit import njit_fused, reader_fused
from cawn.kernels.keys import pair_key

AGES = 3  # of the newest links of a pair
LONGEST = 1e30  # units of time; longer spans are cut to this, so that features stay finite
CLOSENESS_SCALE = 14.0  # log(1 + age in units) of a long time ago, so that features are of order one

PAIR, SOURCE, DESTINATION, DIRECTED_PAIR, AS_SOURCE, AS_DESTINATION = range(6)

_TINY = float(np.finfo(np.float64).tiny)
_BLOCK = 64


class Common(NamedTuple):
    """What features of pairs need beside lists."""

    t: Array  # [E] times of all links
    alphas: Array  # [decays]
    time: Array  # [entries of nodes]
    logsum: Array  # [decays, entries of nodes]
    partner: Array  # [entries of partners] int32, the other end
    totals: Array  # [blocks] decayed count of all links, at the end of every full block
    firsts: Array  # first entry of each node, ascending


Pairs = tuple[Array, Array, Array]  # sources, destinations and times, [B] each


class Found(NamedTuple):
    """What one part finds for the pairs of a block."""

    row: Array  # [n] int64
    start: Array  # [n] int64, the first entry of its list
    seen: Array  # [n] int64, number of entries before the time of the pair
    when: Array  # [AGES, n] times of the newest entries, where there are any
    rates: Array  # [n, decays], decayed counts


@njit_fused
def fill_rates(
    common: Common, lists: tuple[Lists, ...], columns: Array, asked: Pairs, unit: float, out: Array, lo: int, hi: int
) -> None:
    """Rows lo..hi of the features [B, R] of pairs, a block at a time: loops are vectorized, and cache misses overlap.

    Args:
        lists: Those of nodes, pairs, ways, sources and destinations.
        columns: Where each part starts, and R.
    """
    nodes, rest, (src, dst, t) = lists[0], lists[1:], asked
    pairs = rest[0]
    D, num_parts = common.alphas.size, columns.size - 1
    rows, starts, seen = np.empty((3, 6, _BLOCK), np.int64)
    when, rates = np.empty((6, AGES, _BLOCK), t.dtype), np.empty((6, _BLOCK, D))
    visible = np.empty(_BLOCK, np.int64)
    for first in range(lo, hi, _BLOCK):
        last = min(first + _BLOCK, hi)
        u, v, now, to = src[first:last], dst[first:last], t[first:last], out[first:last]
        links_before(common.t, now, visible)
        find_rows(pairs.keys, pairs.slots, u, v, rows)
        seen[DIRECTED_PAIR:] = -1
        for part in range(num_parts):
            found = Found(rows[part], starts[part], seen[part], when[part], rates[part])
            like = max(part - DIRECTED_PAIR, 0)
            whole = Found(rows[like], starts[like], seen[like], when[like], rates[like])
            ages = AGES if part == PAIR else 1
            if PAIR < part <= DESTINATION:
                find_end(common, nodes, now, visible, found)
            else:
                find_part(rest[0 if part == PAIR else 1 + like], common, now, visible, ages, found, part > PAIR, whole)
            fill_logarithms(found.rates, to, columns[part])
            column = columns[part] + D
            if part == PAIR:
                for i in range(now.size):
                    to[i, column] = log1p(float(found.seen[i]))
                column += 1
            for r in range(ages):
                fill_closeness(found, now, unit, r, to, column + r)
            if PAIR < part <= DESTINATION:
                fill_shares(rates[PAIR], found.rates, to, column + 1)


@reader_fused
def links_before(times: Array, now: Array, visible: Array) -> None:
    """The number of links before each time."""
    for i in range(now.size):
        same = i > 0 and now[i] == now[i - 1]
        visible[i] = visible[i - 1] if same else count_before(times, 0, times.size, now[i])


@reader_fused
def find_rows(keys: Array, slots: Array, u: Array, v: Array, rows: Array) -> None:
    """The row of each pair in the lists of each part; unknown ones are -1."""
    for i in range(u.size):
        pair = find_row(keys, slots, pair_key(min(u[i], v[i]), max(u[i], v[i])))
        rows[PAIR, i], rows[SOURCE, i], rows[DESTINATION, i] = pair, u[i], v[i]
        rows[DIRECTED_PAIR, i] = 2 * pair + (u[i] > v[i]) if pair >= 0 else -1
        rows[AS_SOURCE, i], rows[AS_DESTINATION, i] = u[i], v[i]


@reader_fused
def find_newest(lists: Lists, t: Array, now: Array, visible: Array, ages: int, found: Found) -> None:
    """Fills `start`, `seen` and `when`."""
    row, start, seen, when, _ = found
    link = lists.link
    for i in range(now.size):
        if i > 0 and row[i] == row[i - 1] and visible[i] == visible[i - 1]:
            start[i], seen[i] = start[i - 1], seen[i - 1]
        else:
            start[i], seen[i] = entries_before(lists, row[i], visible[i])
        for r in range(min(ages, seen[i])):
            when[r, i] = t[np.uint64(link[np.uint64(start[i] + seen[i] - 1 - r)] >> 1)]


@reader_fused
def find_part(
    lists: Lists, common: Common, now: Array, visible: Array, ages: int, found: Found, is_directed: bool, whole: Found
) -> None:
    """Look up one part. If it has as many links as the same part in both directions, `whole`, they are the same."""
    find_newest(lists, common.t, now, visible, ages, found)
    row, start, seen, _, rates = found
    alphas, t = common.alphas, common.t
    link, sums, bits, whole_seen, whole_rates = lists.link, lists.sums, lists.bits, whole.seen, whole.rates
    for i in range(now.size):
        if i > 0 and row[i] == row[i - 1] and now[i] == now[i - 1]:
            copy_row(rates, i - 1, rates, i)
        elif is_directed and whole_seen[i] == seen[i]:
            copy_row(whole_rates, i, rates, i)
        else:
            all_decayed(link, sums, bits, alphas, np.int64(1), t, start[i], seen[i], now[i], rates[i])


@reader_fused
def copy_row(before: Array, i: int, after: Array, j: int) -> None:
    for a in range(before.shape[1]):
        after[j, a] = before[i, a]


@reader_fused
def find_end(common: Common, nodes: Lists, now: Array, visible: Array, found: Found) -> None:
    """Look up an end of each pair; the lists of nodes have the logarithm of every sum."""
    find_newest(nodes, common.t, now, visible, 1, found)
    row, start, seen, when, rates = found
    alphas, logsum = common.alphas, common.logsum
    for i in range(now.size):
        if i > 0 and row[i] == row[i - 1] and now[i] == now[i - 1]:
            copy_row(rates, i - 1, rates, i)
        elif seen[i] == 0:
            for a in range(alphas.size):
                rates[i, a] = 0.0
        else:
            age, at = float(now[i] - when[0, i]), start[i] + seen[i] - 1
            for a in range(alphas.size):
                rates[i, a] = exp(logsum[a, at] - alphas[a] * age)


# What the parts consist of. Functions that fill columns of `out` start at `column`.


@reader_fused
def fill_logarithms(rates: Array, out: Array, column: int) -> None:
    for i in range(len(out)):
        for a in range(rates.shape[1]):
            out[i, column + a] = log1p(rates[i, a])


@reader_fused
def fill_shares(pair: Array, end: Array, out: Array, column: int) -> None:
    """The probability of a step from an end to the other one, at each decay."""
    for i in range(len(out)):
        for a in range(pair.shape[1]):
            out[i, column + a] = pair[i, a] / max(end[i, a], _TINY)


@njit_fused
def fill_closeness(found: Found, now: Array, unit: float, r: int, out: Array, column: int) -> None:
    """Of the r-th newest entry: 1 for age 0, decreasing with the logarithm of the age to about 0; -1 for never."""
    value = np.empty(now.size)
    for i in range(now.size):
        value[i] = min(float(now[i] - found.when[r, i]) / unit, LONGEST) if found.seen[i] > r else 0.0
    for i in range(now.size):
        value[i] = 1.0 - log1p(value[i]) / CLOSENESS_SCALE
    for i in range(now.size):
        out[i, column] = value[i] if found.seen[i] > r else -1.0
