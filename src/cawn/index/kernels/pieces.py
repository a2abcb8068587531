"""Building lists a piece at a time; see `cawn.index.files`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.index.kernels.building import fill_block
from cawn.index.kernels.lists import FREE, first_slot
from cawn.kernels.jit import njit

Array = npt.NDArray[Any]

_DIGIT = 11  # bits


@njit
def sort_keys(keys: Array) -> tuple[Array, Array]:
    """The keys [n], at least 0, in ascending order, and the position of each before; a stable radix sort."""
    n, most = keys.size, 0
    for key in keys:
        most = max(most, key)
    keys, order = keys.copy(), np.arange(n).astype(np.int32)
    to_keys, to_order, ends = np.empty_like(keys), np.empty_like(order), np.empty((1 << _DIGIT) + 1, np.int64)
    shift = 0
    while shift < 63 and most >> shift > 0:
        ends[:] = 0
        for key in keys:
            ends[((key >> shift) & ((1 << _DIGIT) - 1)) + 1] += 1
        if ends.max() < n:  # else all have the same digit
            ends = np.cumsum(ends)
            for i in range(n):
                digit = (keys[i] >> shift) & ((1 << _DIGIT) - 1)
                to_keys[ends[digit]], to_order[ends[digit]] = keys[i], order[i]
                ends[digit] += 1
            keys, to_keys, order, to_order = to_keys, keys, to_order, order
        shift += _DIGIT
    return keys, order


@njit
def number_sorted(keys: Array) -> tuple[Array, Array]:
    """The distinct ones of sorted keys [n], and the row of each key [n]."""
    distinct, rows, size = np.empty(keys.size, np.int64), np.empty(keys.size, np.int32), 0
    for i in range(keys.size):
        if size == 0 or distinct[size - 1] != keys[i]:
            distinct[size] = keys[i]
            size += 1
        rows[i] = size - 1
    return distinct[:size].copy(), rows


@njit
def node_entries(
    src: Array, dst: Array, t: Array, first: int, newest: Array, count: Array
) -> tuple[Array, Array, Array, Array, Array]:
    """Links as both ends see them, see `building.fill_hops`: the node, link, time, other end and cut of each entry.

    Args:
        first: The number of the first of these links.
        newest, count: The state after the links before [nodes], [nodes, 2]; updated.
    """
    size = 2 * src.size
    node, link, other, cut = np.empty((4, size), np.int32)
    time, n = np.empty(size, t.dtype), 0
    for e in range(src.size):
        u, v, now = src[e], dst[e], t[e]
        for end in (u, v):
            if count[end, 0] == 0 or newest[end] < now:
                newest[end] = now
                count[end, 1] = count[end, 0]
        count[u, 0] += 1
        node[n], link[n], time[n], other[n], cut[n] = u, 2 * (first + e), now, v, count[v, 1]
        n += 1
        if u != v:
            count[v, 0] += 1
            node[n], link[n], time[n], other[n], cut[n] = v, 2 * (first + e) + 1, now, u, count[u, 1]
            n += 1
    return node[:n], link[:n], time[:n], other[:n], cut[:n]


@njit
def continue_logsums(time: Array, before: Any, alphas: Array, P: Array, logsum: Array) -> None:
    """`building.fill_logsums` along the next entries of one list; P [decays] and `before` are of the entry before."""
    for a in range(alphas.size):
        last = before
        for i in range(time.size):
            if P[a] > 0.0:
                P[a] *= math.exp(-alphas[a] * (time[i] - last))
            P[a] += 1.0
            logsum[a, i] = math.log(P[a])
            last = time[i]


@njit
def continue_sums(time: Array, decays: Array, bits: int, first: int, sums: Array) -> None:
    """The sums of full blocks from `first` on of the entries at these times; those of the block before are there."""
    link = (2 * np.arange(time.size)).astype(np.int32)
    for block in range(first, time.size >> bits):
        fill_block(link, time, decays, bits, 0, block, sums)


@njit
def home_slots(keys: Array, mask: int) -> Array:
    """The slot of each key in a hash table without others."""
    found = np.empty(keys.size, np.int32)
    for i in range(keys.size):
        found[i] = first_slot(keys[i], mask)
    return found


@njit
def fill_slots(homes: Array, rows: Array, order: Array, spilled: Array, slots: Array) -> Array:
    """Enter rows into a part of a hash table, as `lists.add_keys` does; returns those that belong after the part.

    Args:
        homes, rows: The home of each row, as a position in the part, and `order`: that of the rows.
        spilled: Rows that belong after the part before, ascending.
        slots: Written [slots of the part].
    """
    slots[:] = FREE
    left, size, i, k = np.empty(homes.size + spilled.size, np.int32), 0, 0, 0
    while i < order.size or k < spilled.size:
        if k == spilled.size or (i < order.size and rows[order[i]] < spilled[k]):
            row, at = rows[order[i]], homes[order[i]]
            i += 1
        else:
            row, at = spilled[k], 0
            k += 1
        while at < slots.size and slots[at] != FREE:
            at += 1
        if at < slots.size:
            slots[at] = row
        else:
            left[size] = row
            size += 1
    return left[:size].copy()
