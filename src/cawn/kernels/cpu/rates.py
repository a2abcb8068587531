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
from cawn.kernels.cpu.walks import count_before
from cawn.kernels.jit import inline, njit_fused
from cawn.kernels.rng import GOLDEN_64
from cawn.kernels.threads import even_bounds, in_parallel

Array = npt.NDArray[Any]

AGES = 3  # of the newest links of a pair
LONGEST = 1e30  # units of time; longer spans are cut to this, so that features stay finite
CLOSENESS_SCALE = 14.0  # log(1 + age in units) of a long time ago, so that features are of order one

PAIR, SOURCE, DESTINATION, DIRECTED_PAIR, AS_SOURCE, AS_DESTINATION = range(6)

_TINY = float(np.finfo(np.float64).tiny)
_HALF_WORD = np.uint64(32)
_PAIRS_PER_TASK = 4096
_BLOCK = 64


class Lists(NamedTuple):
    """The times of each key's links, in order, and the running log-sums of their weights."""

    starts: Array  # [K + 1]
    time: Array  # [n]
    logsum: Array  # [n, decays]: an entry's are in one cache line


class RateTables(NamedTuple):
    """What `fill_rates` reads. Row -1 of any lists is empty."""

    alphas: Array  # [decays]
    keys: Array  # [K] int64, of the pairs
    slots: Array  # [a power of two] int32, hash table of the keys: their rows, -1 where it is free
    pairs: Lists  # of K keys
    nodes: Lists  # of N nodes
    directed_rows: Array  # [K, 2] int32, rows of `directed_pairs`: from the smaller node to the larger, and back
    source_rows: Array  # [N] int32, rows of `sources`
    destination_rows: Array  # [N] int32, rows of `destinations`
    directed_pairs: Lists
    sources: Lists
    destinations: Lists


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
    rates: Array  # [n, decays], sums of exp(-alpha age) over these entries


@njit_fused
def fill_rates(
    tables: RateTables, columns: Array, src: Array, dst: Array, t: Array, unit: float, out: Array, lo: int, hi: int
) -> None:
    """Rows lo..hi of `rate_features`, a block at a time: its loops are vectorized, and its cache misses overlap."""
    directed = columns.size > AS_DESTINATION + 1
    alphas = tables.alphas
    pair_rates, rates = np.empty((_BLOCK, alphas.size)), np.empty((_BLOCK, alphas.size))
    newest, seen, key, row = np.empty((4, _BLOCK), np.int64)
    for first in range(lo, hi, _BLOCK):
        last = min(first + _BLOCK, hi)
        u, v, now, to = src[first:last], dst[first:last], t[first:last], out[first:last]
        find_pairs(tables, u, v, key)
        fill_pair(Block(now, unit, alphas, to, newest, seen, pair_rates), tables.pairs, key, columns[PAIR])
        block = Block(now, unit, alphas, to, newest, seen, rates)
        fill_end(block, tables.nodes, u, pair_rates, columns[SOURCE])
        fill_end(block, tables.nodes, v, pair_rates, columns[DESTINATION])
        if directed:
            find_directions(tables, u, v, key, row)
            fill_list(block, tables.directed_pairs, row, columns[DIRECTED_PAIR])
            find_rows(tables.source_rows, u, row)
            fill_list(block, tables.sources, row, columns[AS_SOURCE])
            find_rows(tables.destination_rows, v, row)
            fill_list(block, tables.destinations, row, columns[AS_DESTINATION])


# The parts: each looks up its lists and fills the columns of `block.out` from `column` on.


@njit_fused
def fill_pair(block: Block, pairs: Lists, key: Array, column: int) -> None:
    """Decayed counts and number of the pairs' links, and closeness of the newest."""
    find_newest(block, pairs, key)
    fill_decayed(block, pairs, column)
    column += block.alphas.size
    for i in range(block.now.size):
        block.out[i, column] = log1p(float(block.seen[i]))
    for r in range(AGES):
        fill_closeness(block, pairs.time, r, column + 1 + r)


@njit_fused
def fill_end(block: Block, nodes: Lists, ends: Array, pair_rates: Array, column: int) -> None:
    """`fill_list` of the nodes, and the probability of a step to the other end at each decay."""
    fill_list(block, nodes, ends, column)
    column += block.alphas.size + 1
    for i in range(block.now.size):
        share, pair, end = block.out[i, column : column + block.alphas.size], pair_rates[i], block.rates[i]
        for a in range(share.size):
            share[a] = pair[a] / max(end[a], _TINY)


@njit_fused
def fill_list(block: Block, lists: Lists, row: Array, column: int) -> None:
    """Decayed counts, and closeness of the newest link."""
    find_newest(block, lists, row)
    fill_decayed(block, lists, column)
    fill_closeness(block, lists.time, 0, column + block.alphas.size)


# What the parts consist of.


@njit_fused
def find_newest(block: Block, lists: Lists, row: Array) -> None:
    """Fills `newest` and `seen`."""
    starts, time = lists.starts, lists.time
    now, newest, seen = block.now, block.newest, block.seen
    for i in range(now.size):
        if i > 0 and row[i] == row[i - 1] and now[i] == now[i - 1]:
            newest[i], seen[i] = newest[i - 1], seen[i - 1]
            continue
        newest[i], seen[i] = -1, 0
        if 0 <= row[i] < starts.size - 1:
            start, stop = starts[row[i]], starts[row[i] + 1]
            if start < stop and not time[stop - 1] < now[i]:  # otherwise all of the list, as usual when predicting
                stop = start + count_before(time, start, stop, now[i])
            if start < stop:
                newest[i], seen[i] = stop - 1, stop - start


@njit_fused
def fill_decayed(block: Block, lists: Lists, column: int) -> None:
    """Fills `rates`, and columns with their logarithms; equal consecutive entries are computed once."""
    now, newest, D = block.now, block.newest, block.alphas.size
    start = np.empty(now.size, np.int64)  # of the decayed counts of each pair in `values`
    values = np.empty(now.size * D)
    size = 0
    for i in range(now.size):
        if i == 0 or newest[i] != newest[i - 1] or (now[i] != now[i - 1] and newest[i] >= 0):
            x = values[size : size + D]
            if newest[i] >= 0:
                age, logsum = float(now[i] - lists.time[newest[i]]), lists.logsum[newest[i]]
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
        rate, out = block.rates[i], block.out[i, column : column + D]
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


# Rows of lists.


@njit_fused
def find_pairs(tables: RateTables, u: Array, v: Array, key: Array) -> None:
    """The row of each pair in `tables.pairs`."""
    for i in range(u.size):
        key[i] = find_key(tables.keys, tables.slots, min(u[i], v[i]) << 32 | max(u[i], v[i]))


@njit_fused
def find_directions(tables: RateTables, u: Array, v: Array, key: Array, row: Array) -> None:
    """The row of each pair in `tables.directed_pairs`, given that in `tables.pairs`."""
    for i in range(u.size):
        row[i] = tables.directed_rows[key[i], 1 if u[i] > v[i] else 0] if key[i] >= 0 else -1


@njit_fused
def find_rows(rows: Array, nodes: Array, row: Array) -> None:
    """rows[nodes], -1 for unknown nodes."""
    for i in range(nodes.size):
        row[i] = rows[nodes[i]] if 0 <= nodes[i] < rows.size else -1


@njit_fused
def find_key(keys: Array, slots: Array, key: Any) -> Any:
    """The row of a key, -1 if it is not there."""
    mask = slots.size - 1
    slot = first_slot(key, mask)
    while slots[slot] >= 0 and keys[slots[slot]] != key:
        slot = (slot + 1) & mask
    return slots[slot]


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
