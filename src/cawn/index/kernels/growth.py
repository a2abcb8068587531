"""Extending lists while other threads read earlier versions of them.

The writer fills places that no version sees: after the last entry of a list, or a new place where the list has twice
the room, at the end of the arrays. Then it publishes: it stores the new spans, one word each. Earlier versions find
their entries through either span, and ignore entries of newer links. Only where entries change that they see (a late
link, another order of simultaneous links) does the new place refer to the old span, in `chain`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba.core import types
from numba.extending import intrinsic

from cawn.index.kernels.building import CUT, LINK, NODE, fill_block
from cawn.index.kernels.lists import (
    BEFORE,
    CHAINED,
    EXACT,
    FREE,
    LENGTH,
    SINCE,
    START_BITS,
    add_keys,
    block_row,
    count_before,
    count_below,
    find_row,
    first_slot,
)
from cawn.kernels.jit import inline, njit

Array = npt.NDArray[Any]

IN_PLACE = -1
ENTRIES, CHAIN, UNUSED = 0, 1, 2  # positions in `used`: entries and chained lists so far, and entries that no list uses


class Extension(NamedTuple):
    """The rows that are extended, [m] int64 each."""

    row: Array
    more: Array  # number of new entries
    keep: Array  # number of entries that stay
    start: Array  # first entry, after it moved
    moved_from: Array  # first entry before, or IN_PLACE
    span: Array  # to be published


@intrinsic  # type: ignore[untyped-decorator]
def memory_barrier(typing_context: Any) -> Any:
    """Whoever sees what is stored after it also sees what was stored before."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate


@inline
def room_for(size: Any) -> Any:
    """The number of entries that a place for this many has room for: the next power of two."""
    room = np.int64(size > 0)
    while room < size:
        room += room
    return room


@njit
def distinct_rows(rows: Array, count: int, which: Array, order: Array, row: Array, more: Array) -> int:
    """The distinct rows of entries [n], the last of which, from `count` on, are none; returns their number.

    Args:
        which: Written: the position of each entry's row in `row` [n].
        order: Written: how many entries of its row come before each entry [n].
        more: Written: the number of entries of each distinct row.
    """
    mask = 1
    while mask < 2 * rows.size:
        mask += mask
    slots, num = np.full(mask, FREE, np.int32), 0
    mask -= 1
    for i in range(rows.size):
        slot = first_slot(rows[i], mask)
        while slots[slot] >= 0 and row[slots[slot]] != rows[i]:
            slot = (slot + 1) & mask
        if slots[slot] < 0:
            slots[slot] = num
            row[num], more[num] = rows[i], 0
            num += 1
        which[i] = slots[slot]
        order[i] = more[which[i]]
        more[which[i]] += i < count
    return num


@njit
def entries_kept(span: Array, link: Array, rows: Array, num_links: int, keep: Array) -> None:
    """How many entries of each row belong to the first `num_links` links; all of them, if that is negative."""
    for d in range(rows.size):
        packed = span[rows[d]]
        keep[d] = packed & LENGTH
        if num_links >= 0:
            keep[d] = count_below(link, packed >> START_BITS, keep[d], num_links)


@njit
def reserve(
    span: Array, link: Array, chain: Array, used: Array, version: int, forced: Array, extension: Extension
) -> int:
    """Find a place for each extended list; returns how many entries are missing, and changes nothing if any are.

    Args:
        forced: Whether earlier versions must not see the new entries although their links are old [m].
    """
    row, more, keep, start, moved_from, new_span = extension
    needed = used[ENTRIES]
    for d in range(row.size):
        packed = span[row[d]]
        size = packed & LENGTH
        replaced = forced[d] or keep[d] < size
        room = size if packed & EXACT else room_for(size)
        moved_from[d], start[d] = IN_PLACE, packed >> START_BITS
        if replaced or keep[d] + more[d] > room:
            header = 1 if replaced or packed & CHAINED else 0
            moved_from[d], start[d] = start[d], needed + header
            needed += header + room_for(keep[d] + more[d])
    if needed > link.size:
        return int(needed - link.size)
    used[ENTRIES] = needed
    for d in range(row.size):
        packed = span[row[d]]
        size, flags = packed & LENGTH, packed & CHAINED
        if moved_from[d] == IN_PLACE:
            flags |= packed & EXACT  # where there is room for none
        else:
            used[UNUSED] += size if packed & EXACT else room_for(size)
            if forced[d] or keep[d] < size:
                chain[used[CHAIN], SINCE], chain[used[CHAIN], BEFORE] = version, packed
                link[start[d] - 1], flags = used[CHAIN], CHAINED
                used[CHAIN] += 1
            elif flags:
                link[start[d] - 1] = link[moved_from[d] - 1]
        new_span[d] = start[d] << START_BITS | flags | (keep[d] + more[d])
    return 0


@njit
def move_entries(before: Array, after: Array, moved_from: Array, start: Array, count: Array) -> None:
    """Copy the first `count` entries of lists to where they start now, from a column [entries] to another."""
    for d in range(start.size):
        if moved_from[d] != IN_PLACE:
            for i in range(count[d]):
                after[start[d] + i] = before[moved_from[d] + i]


@njit
def move_rows(before: Array, after: Array, moved_from: Array, start: Array, count: Array) -> None:
    """The same for columns [entries, width]."""
    for d in range(start.size):
        if moved_from[d] != IN_PLACE:
            for i in range(count[d]):
                for k in range(before.shape[1]):
                    after[start[d] + i, k] = before[moved_from[d] + i, k]


@njit
def move_sums(before: Array, after: Array, bits: int, moved_from: Array, start: Array, count: Array) -> None:
    """The same for the sums of full blocks."""
    for d in range(start.size):
        if moved_from[d] != IN_PLACE:
            old, new = block_row(moved_from[d], 0, bits), block_row(start[d], 0, bits)
            for block in range(count[d] >> bits):
                for a in range(before.shape[1]):
                    after[new + block, a] = before[old + block, a]


@njit
def extend_sums(link: Array, t: Array, decays: Array, bits: int, sums: Array, extension: Extension) -> None:
    """Compute the sums of blocks that are full now."""
    for d in range(extension.row.size):
        keep = extension.keep[d]
        for block in range(keep >> bits, (keep + extension.more[d]) >> bits):
            fill_block(link, t, decays, bits, extension.start[d], block, sums)


@njit
def extend_nodes(
    entries: Array,
    which: Array,
    position: Array,
    src: Array,
    dst: Array,
    t: Array,
    time: Array,
    hop: Array,
    extension: Extension,
) -> None:
    """Write the times and hops of new entries of nodes: those of each link's source, then of its destination."""
    for i in range(entries.size):
        e = entries[i] >> 1
        at = position[i]
        time[at] = t[e]
        hop[at, NODE], hop[at, LINK] = (src[e] if entries[i] & 1 else dst[e]), entries[i]
    for i in range(entries.size):
        e = entries[i] >> 1
        other = which[i] if src[e] == dst[e] else which[i - 1 if entries[i] & 1 else i + 1]
        start, size = extension.start[other], extension.keep[other] + extension.more[other]
        hop[position[i], CUT] = count_before(time, start, start + size, t[e])


@njit
def extend_logsums(
    time: Array,
    alphas: Array,
    logsum: Array,
    tails: Array,
    span: Array,
    extension: Extension,
    new_tails: Array,
) -> None:
    """Continue Algorithm 2; `tails` are P at the newest entry of each node, `new_tails` of each extended one after."""
    row, more, keep, start, _, _ = extension
    for d in range(row.size):
        first, last = start[d], start[d] + keep[d] + more[d]
        P = new_tails[d]
        P[:] = 0.0
        if keep[d] > 0 and keep[d] == span[row[d]] & LENGTH:
            P[:] = tails[row[d]]
            first += keep[d]
        for i in range(first, last):
            elapsed = time[i] - time[i - 1] if i > start[d] else time[i] - time[i]
            for a in range(alphas.size):
                if P[a] > 0.0:
                    P[a] *= math.exp(-alphas[a] * elapsed)
                P[a] += 1.0
                if i >= start[d] + keep[d]:
                    logsum[a, i] = math.log(P[a])


@njit
def newest_sums(span: Array, time: Array, alphas: Array, tails: Array, first: int, last: int) -> None:
    """P of Algorithm 2 at the newest entry of nodes first..last."""
    for row in range(first, last):
        start, size = span[row] >> START_BITS, span[row] & LENGTH
        for a in range(alphas.size):
            P = 0.0
            for i in range(start, start + size):
                if P > 0.0:
                    P *= math.exp(-alphas[a] * (time[i] - time[i - 1]))
                P += 1.0
            tails[row, a] = P


@njit
def rooms_for(size: Array) -> Array:
    """`room_for` of each size."""
    rooms = np.empty(size.size, np.int64)
    for i in range(size.size):
        rooms[i] = room_for(size[i])
    return rooms


@njit
def publish(span: Array, keys: Array, slots: Array, first_key: int, num_keys: int, extension: Extension) -> None:
    """Let readers see the extended lists, and the keys of rows first_key..num_keys."""
    memory_barrier()
    for d in range(extension.row.size):
        span[extension.row[d]] = extension.span[d]
    add_keys(keys, first_key, num_keys, slots)
    memory_barrier()


@njit
def number_keys(wanted: Array, keys: Array, slots: Array, size: int, rows: Array) -> int:
    """Write the row of each key; new ones get rows from `size` on, and are written to `keys`. Returns the new size."""
    mask = 1
    while mask < 2 * wanted.size:
        mask += mask
    new = np.full(mask, FREE, np.int32)
    mask -= 1
    for i in range(wanted.size):
        rows[i] = find_row(keys[:size], slots, wanted[i])
        if rows[i] < 0:
            slot = first_slot(wanted[i], mask)
            while new[slot] >= 0 and keys[new[slot]] != wanted[i]:
                slot = (slot + 1) & mask
            if new[slot] < 0:
                new[slot], keys[size] = size, wanted[i]
                size += 1
            rows[i] = new[slot]
    return size
