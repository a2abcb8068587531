"""Exact decayed counts of pairs on the CPU; `kernels.reference.rates` defines the features in plain NumPy.

A row of features has these parts, each written by one small function from the column where it starts:

    PAIR                    the links of the pair, in either direction
    SOURCE, DESTINATION     those of each end
    DIRECTED_PAIR           with directed counts: those from the source to the destination,
    AS_SOURCE               those of which the source is the source,
    AS_DESTINATION          those of which the destination is the destination

Consecutive pairs with the same source and time, as in ranking, share the parts of the source.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cawn.kernels.cpu.logarithms import exp, log1p
from cawn.kernels.cpu.spans import Spans, span
from cawn.kernels.jit import inline, njit_fused
from cawn.kernels.rng import GOLDEN_64
from cawn.kernels.threads import even_bounds, in_parallel

Array = npt.NDArray[Any]

AGES = 3  # of the newest links of a pair
LONGEST = 1e30  # units of time; longer spans are cut to this, so that features stay finite
CLOSENESS_SCALE = 14.0  # log(1 + age in units) of a long time ago, so that features are of order one

PAIR, SOURCE, DESTINATION, DIRECTED_PAIR, AS_SOURCE, AS_DESTINATION = range(6)
SAME = -2  # instead of a row: all links of the pair or node have this direction

_TINY = float(np.finfo(np.float64).tiny)
_HALF_WORD = np.uint64(32)
_PAIRS_PER_TASK = 2048
_BLOCK = 64


class Lists(NamedTuple):
    """The times of each key's links, in order, and the running log-sums of their weights."""

    spans: Spans  # of K rows
    time: Array  # [n]
    logsum: Array  # [decays, n]


class RateTables(NamedTuple):
    """What `fill_rates` reads. Row -1 of any lists is empty."""

    lists: tuple[Lists, ...]  # of each part; without directed counts, the last three are not read
    alphas: Array  # [decays]
    keys: Array  # [K or more] int64, of the pairs
    slots: Array  # [a power of two] int32, hash table of the keys: their rows, -1 where it is free
    directed_rows: Array  # [K, 2] int32, rows of directed pairs: from the smaller node to the larger, and back
    source_rows: Array  # [N] int32, rows of nodes as sources
    destination_rows: Array  # [N] int32, rows of nodes as destinations


def rate_features(
    tables: RateTables, columns: Array, src: Array, dst: Array, t: Array, unit: float, threads: int | None
) -> npt.NDArray[np.float32]:
    """The features [B, R] of pairs.

    Args:
        columns: Where each part starts, and R.
        src, dst: [B] int64
        t: [B], the dtype of the lists' times.
    """
    out = np.empty((len(src), columns[-1]), np.float32)
    work = partial(fill_rates, tables, columns, src, dst, t, unit, out)
    in_parallel(work, even_bounds(len(src), _PAIRS_PER_TASK), threads)
    return out


class Block(NamedTuple):
    """Consecutive pairs, and what was found in the lists they were last looked up in."""

    now: Array  # [n]
    unit: float
    alphas: Array  # [decays]
    out: Array  # [n, R]
    newest: Array  # [n] int64, the newest entry before `now`, -1 if there is none
    seen: Array  # [n] int64, number of entries before `now`


@njit_fused
def fill_rates(
    tables: RateTables, columns: Array, src: Array, dst: Array, t: Array, unit: float, out: Array, lo: int, hi: int
) -> None:
    """Rows lo..hi of `rate_features`, a block at a time: its loops are vectorized, and its cache misses overlap."""
    num_parts = columns.size - 1
    rows = np.empty((AS_DESTINATION + 1, _BLOCK), np.int64)  # of the lists of each part
    rates = np.empty((AS_DESTINATION + 1, _BLOCK, tables.alphas.size))  # decayed counts
    newest, seen = np.empty((2, _BLOCK), np.int64)
    for first in range(lo, hi, _BLOCK):
        last = min(first + _BLOCK, hi)
        u, v, now = src[first:last], dst[first:last], t[first:last]
        block = Block(now, unit, tables.alphas, out[first:last], newest, seen)
        find_rows(tables, u, v, rows)
        for part in range(num_parts):
            find_newest(block, tables.lists[part], rows[part])
            fill_decayed(block, tables.lists[part], rates[part], columns[part])
            if part == PAIR:
                fill_pair(block, tables.lists[part].time, columns[part] + tables.alphas.size)
            else:
                fill_closeness(block, tables.lists[part].time, 0, columns[part] + tables.alphas.size)
            if part >= DIRECTED_PAIR:
                like = part - DIRECTED_PAIR
                copy_same(block, rows[part], columns[like], like == PAIR, columns[part])
            elif part != PAIR:
                fill_shares(block, rates[PAIR], rates[part], columns[part] + tables.alphas.size + 1)


@njit_fused
def find_rows(tables: RateTables, u: Array, v: Array, rows: Array) -> None:
    """The row of each pair in the lists of each part."""
    for i in range(u.size):
        pair = min(u[i], v[i]) << 32 | max(u[i], v[i])
        key = find_key(tables.keys, tables.slots, tables.lists[PAIR].spans.size, pair)
        rows[PAIR, i], rows[SOURCE, i], rows[DESTINATION, i] = key, u[i], v[i]
        known = key >= 0 and tables.directed_rows.size > 0
        rows[DIRECTED_PAIR, i] = tables.directed_rows[key, 1 if u[i] > v[i] else 0] if known else -1
        rows[AS_SOURCE, i] = tables.source_rows[u[i]] if 0 <= u[i] < tables.source_rows.size else -1
        known = 0 <= v[i] < tables.destination_rows.size
        rows[AS_DESTINATION, i] = tables.destination_rows[v[i]] if known else -1


# What the parts consist of. Functions that fill columns of `block.out` start at `column`.


@njit_fused
def fill_pair(block: Block, time: Array, column: int) -> None:
    """Number of the pairs' links, and closeness of the newest."""
    for i in range(block.now.size):
        block.out[i, column] = log1p(float(block.seen[i]))
    for r in range(AGES):
        fill_closeness(block, time, r, column + 1 + r)


@njit_fused
def fill_shares(block: Block, pair: Array, end: Array, column: int) -> None:
    """The probability of a step from an end to the other one, at each decay."""
    for i in range(block.now.size):
        share, of_pair, of_end = block.out[i, column : column + block.alphas.size], pair[i], end[i]
        for a in range(share.size):
            share[a] = of_pair[a] / max(of_end[a], _TINY)


@njit_fused
def copy_same(block: Block, row: Array, from_column: int, is_pair: bool, column: int) -> None:
    """Overwrite what was computed for rows that are SAME with the features of the lists without direction."""
    D, out = block.alphas.size, block.out
    for i in range(block.now.size):
        if row[i] == SAME:
            for a in range(D):
                out[i, column + a] = out[i, from_column + a]
            out[i, column + D] = out[i, from_column + D + is_pair]  # the number of a pair's links precedes


@njit_fused
def find_newest(block: Block, lists: Lists, row: Array) -> None:
    """Fills `newest` and `seen`."""
    time = lists.time
    now, newest, seen = block.now, block.newest, block.seen
    for i in range(now.size):
        if i > 0 and row[i] == row[i - 1] and now[i] == now[i - 1]:
            newest[i], seen[i] = newest[i - 1], seen[i - 1]
            continue
        newest[i], seen[i] = -1, 0
        start, stop = span(lists.spans, row[i])
        if start == stop:
            continue
        size, at = stop - start, start
        while size > 1:  # without branches that depend on times, which cannot be predicted
            half = size >> 1
            at = at + half if time[at + half - 1] < now[i] else at
            size -= half
        seen[i] = at - start + (time[at] < now[i])
        newest[i] = start + seen[i] - 1 if seen[i] > 0 else -1


@njit_fused
def fill_decayed(block: Block, lists: Lists, rates: Array, column: int) -> None:
    """Sums of exp(-alpha age) over the entries before `now`, and columns with their logarithms.

    Consecutive pairs with the same list and time share them.
    """
    now, newest, D = block.now, block.newest, block.alphas.size
    start = np.empty(now.size, np.int64)  # of the decayed counts of each pair in `values`
    values = np.empty(now.size * D)
    size = 0
    for i in range(now.size):
        if i == 0 or newest[i] != newest[i - 1] or (now[i] != now[i - 1] and newest[i] >= 0):
            x = values[size : size + D]
            if newest[i] >= 0:
                age, logsum = float(now[i] - lists.time[newest[i]]), lists.logsum[:, newest[i]]
                for a in range(D):
                    x[a] = logsum[a] - block.alphas[a] * age
            else:
                x[:] = -np.inf
            size += D
        start[i] = size - D
    logarithms = np.empty(size)
    for j in range(size):
        values[j] = exp(values[j])
    for j in range(size):
        logarithms[j] = log1p(values[j])
    for i in range(now.size):
        rate, out = rates[i], block.out[i, column : column + D]
        for a in range(D):
            rate[a], out[a] = values[start[i] + a], logarithms[start[i] + a]


@njit_fused
def fill_closeness(block: Block, time: Array, r: int, column: int) -> None:
    """Of the r-th newest entry: 1 for age 0, decreasing with the logarithm of the age to about 0; -1 for never."""
    now, newest, seen = block.now, block.newest, block.seen
    value = np.empty(now.size)
    for i in range(now.size):
        value[i] = min(float(now[i] - time[newest[i] - r]) / block.unit, LONGEST) if seen[i] > r else 0.0
    for i in range(now.size):
        value[i] = 1.0 - log1p(value[i]) / CLOSENESS_SCALE
    for i in range(now.size):
        block.out[i, column] = value[i] if seen[i] > r else -1.0


@njit_fused
def find_key(keys: Array, slots: Array, size: int, key: Any) -> Any:
    """The row of a key, -1 if it is not among the first `size`; another thread may be adding keys after these."""
    mask = slots.size - 1
    slot = first_slot(key, mask)
    row = slots[slot]
    while row >= 0 and (row >= size or keys[row] != key):
        slot = (slot + 1) & mask
        row = slots[slot]
    return row


def hash_table(keys: Array) -> npt.NDArray[np.int32]:
    """The slots in which `find_key` looks distinct keys up."""
    slots = np.full(1 << (2 * len(keys)).bit_length(), -1, np.int32)
    fill_slots(keys, slots)
    return slots


@njit_fused
def fill_slots(keys: Array, slots: Array) -> None:
    """Build the hash table of distinct keys; `slots` is -1 everywhere, and longer than `keys`."""
    mask = slots.size - 1
    for row in range(keys.size):
        slot = first_slot(keys[row], mask)
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = row


@inline
def first_slot(key: Any, mask: int) -> Any:
    return np.int64((np.uint64(key) * GOLDEN_64) >> _HALF_WORD) & mask
