"""Appending to lists while other threads read earlier versions of them; `cawn.walks.lists` explains the layout.

Nothing that an earlier version can see is ever overwritten: a full list moves to a larger block, a page of
spans is copied before it changes, and blocks and pages are reused only once no version refers to them.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cawn.kernels.cpu.rates import first_slot
from cawn.kernels.cpu.spans import LENGTH_BITS, LENGTH_MASK, PAGE, PAGE_BITS
from cawn.kernels.cpu.walks import CUT, LINK, NODE, count_before
from cawn.kernels.jit import inline, njit

Array = npt.NDArray[Any]

EXACT = -1  # the size class of a block without free entries
CLASSES = 31  # a block of class c has 2**c entries
WITH_TOTALS = 4  # the last entry of blocks from this class on holds the running sums of their list
STAMPED = 7  # blocks from this class on record the version they were made for
FREE_PAGE = CLASSES  # position in `heads`
ENTRIES, PAGES = 0, 1  # positions in `used`
NONE = -1


class Blocks(NamedTuple):
    """Data that only the writer uses."""

    classes: Array  # [rows] int8, the size class of each row's block
    added: Array  # [rows] int32, scratch, all 0 between calls
    stamps: Array  # [pages] int64, the version that each page was made for
    heads: Array  # [CLASSES + 1] int64, the first free block of each class and the first free page, or NONE
    used: Array  # [2] int64, entries and pages that were ever used


class Distinct(NamedTuple):
    """For each row that a call of `reserve` extends, [n] int64 each."""

    row: Array
    first: Array  # entry of its list, after it moved
    before: Array  # number of its entries before the call
    more: Array  # number of new entries
    moved_from: Array  # the first entry before it moved, NONE if it did not
    totals_from: Array  # the entry that held the running sums, NONE if none did
    totals: Array  # the entry to hold them now, NONE if there is none


@inline
def room(size_class: int) -> int:
    """The number of entries that a list in a block of this class may have."""
    return (1 << size_class) - (size_class >= WITH_TOTALS)


@inline
def class_for(length: int) -> int:
    """The smallest class with room for a list."""
    size_class = 0
    while room(size_class) < length:
        size_class += 1
    return size_class


@inline
def class_within(length: int) -> int:
    """The largest class that fits into this many entries, at least 1."""
    size_class = 0
    while np.int64(2) << size_class <= length:
        size_class += 1
    return size_class


@njit
def classes_for(length: Array, classes: Array) -> None:
    """Write the size classes of long lists; short ones stay EXACT."""
    for row in range(length.size):
        if length[row] >= 1 << (WITH_TOTALS - 1):
            classes[row] = class_for(length[row] + 1)


@njit
def place_lists(column: Array, starts: Array, first: Array, out: Array, lo: int, hi: int) -> None:
    """Copy lists lo..hi, which are one after the other, to the places where they start now."""
    for row in range(lo, hi):
        to = first[row] - starts[row]
        for i in range(starts[row], starts[row + 1]):
            out[i + to] = column[i]


@njit
def find_totals(
    first: Array, length: Array, classes: Array, time: Array, alphas: Array, logsum: Array, lo: int, hi: int
) -> None:
    """Compute the running sums of lists lo..hi, for those whose blocks hold them."""
    for row in range(lo, hi):
        if classes[row] >= WITH_TOTALS:
            last = first[row] + length[row]
            for a in range(alphas.size):
                P = total(time, alphas[a], first[row], last)
                logsum[first[row] + (np.int64(1) << classes[row]) - 1, a] = P


@inline
def total(time: Array, alpha: float, first: int, last: int) -> float:
    """The recurrence of `fill_logsums` over a list."""
    P = 0.0
    for i in range(first, last):
        if P > 0.0:
            P *= math.exp(-alpha * (time[i] - time[i - 1]))
        P += 1.0
    return P


@njit
def extend_table(table: Array, pages: Array, version: int, blocks: Blocks, first: int) -> None:
    """Give rows that are new in this version empty lists: fill table[first:]."""
    for i in range(first, table.size):
        page = _new_page(pages, version, blocks)
        pages[page << PAGE_BITS : (page + 1) << PAGE_BITS] = 0
        table[i] = page


@njit
def reserve(
    rows: Array,
    forced: Array,
    table: Array,
    pages: Array,
    version: int,
    blocks: Blocks,
    next_free: Array,
    distinct: Distinct,
    which: Array,
    position: Array,
    freed_blocks: Array,
    freed_pages: Array,
) -> tuple[int, int, int]:
    """Extend the lists of `rows` [n] by an entry each; a row may occur several times.

    Args:
        forced: Whether the list must move even if its block has room, because the caller overwrites its entries.
        next_free: [entries] int64; of a free block, the first entry holds the next free block of its class; of a large
            one in use (STAMPED), the version it was made for.
        which: Written: the position in `distinct` of each entry's row [n].
        position: Written: where each new entry is [n].
        freed_blocks: Written: blocks that only earlier versions use: first entry, class, the version they were made
            for (0 if it is not known).
        freed_pages: Written: pages that only earlier versions use.

    Returns the numbers of distinct rows, freed blocks and freed pages; if there are not enough entries, nothing changes
    and it returns the number of missing ones, then NONE.
    """
    num = 0
    for i in range(rows.size):
        row = rows[i]
        if blocks.added[row] == 0:
            distinct.row[num], distinct.more[num] = row, 0
            distinct.moved_from[num] = NONE
            num += 1
            blocks.added[row] = num
        d = blocks.added[row] - 1
        which[i], position[i] = d, distinct.more[d]
        distinct.more[d] += 1
        if forced.size > 0 and forced[i]:
            distinct.moved_from[d] = 0
    needed = 0
    for d in range(num):
        row = distinct.row[d]
        blocks.added[row] = 0
        packed = pages[(np.int64(table[row >> PAGE_BITS]) << PAGE_BITS) | (row & (PAGE - 1))]
        length = packed & LENGTH_MASK
        distinct.first[d], distinct.before[d] = packed >> LENGTH_BITS, length
        size_class = blocks.classes[row]
        full = length == 0 or size_class == EXACT or length + distinct.more[d] > room(size_class)
        if full or distinct.moved_from[d] == 0:
            distinct.moved_from[d] = distinct.first[d]
            needed += 1 << class_for(length + distinct.more[d])
    if blocks.used[ENTRIES] + needed > next_free.size:
        return blocks.used[ENTRIES] + needed - next_free.size, NONE, 0
    num_blocks = num_pages = 0
    for d in range(num):
        row, before = distinct.row[d], distinct.before[d]
        distinct.totals_from[d] = distinct.totals[d] = NONE
        size_class = blocks.classes[row]
        if before > 0 and size_class >= WITH_TOTALS:
            distinct.totals_from[d] = distinct.first[d] + (np.int64(1) << size_class) - 1
        if distinct.moved_from[d] != NONE:
            if before > 0:
                freed_blocks[num_blocks, 0] = distinct.first[d]
                freed_blocks[num_blocks, 1] = class_within(before) if size_class == EXACT else size_class
                freed_blocks[num_blocks, 2] = next_free[distinct.first[d]] if size_class >= STAMPED else 0
                num_blocks += 1
            size_class = class_for(before + distinct.more[d])
            blocks.classes[row] = size_class
            distinct.first[d] = _new_block(size_class, version, blocks, next_free)
        if size_class >= WITH_TOTALS:
            distinct.totals[d] = distinct.first[d] + (np.int64(1) << size_class) - 1
        num_pages += set_span(
            table, pages, version, blocks, row, distinct.first[d], before + distinct.more[d], freed_pages, num_pages
        )
    for i in range(rows.size):
        position[i] += distinct.first[which[i]] + distinct.before[which[i]]
    return num, num_blocks, num_pages


@inline
def set_span(
    table: Array,
    pages: Array,
    version: int,
    blocks: Blocks,
    row: int,
    first: int,
    length: int,
    freed_pages: Array,
    num_freed: int,
) -> int:
    """Change the span of a row, in a copy of its page if an earlier version uses it; returns pages freed, 0 or 1."""
    page, freed = int(table[row >> PAGE_BITS]), 0
    if blocks.stamps[page] != version:
        copy = _new_page(pages, version, blocks)
        pages[copy << PAGE_BITS : (copy + 1) << PAGE_BITS] = pages[page << PAGE_BITS : (page + 1) << PAGE_BITS]
        table[row >> PAGE_BITS] = copy
        freed_pages[num_freed] = page
        page, freed = copy, 1
    pages[(page << PAGE_BITS) | (row & (PAGE - 1))] = first << LENGTH_BITS | length
    return freed


@inline
def _new_page(pages: Array, version: int, blocks: Blocks) -> Any:
    page = blocks.heads[FREE_PAGE]
    if page == NONE:
        page = blocks.used[PAGES]
        blocks.used[PAGES] += 1
    else:
        blocks.heads[FREE_PAGE] = pages[page << PAGE_BITS]
    blocks.stamps[page] = version
    return page


@inline
def _new_block(size_class: int, version: int, blocks: Blocks, next_free: Array) -> Any:
    first = blocks.heads[size_class]
    if first == NONE:
        first = blocks.used[ENTRIES]
        blocks.used[ENTRIES] += np.int64(1) << size_class
    else:
        blocks.heads[size_class] = next_free[first]
    if size_class >= STAMPED:
        next_free[first] = version
    return first


@njit
def shorten(
    rows: Array,
    by: Array,
    table: Array,
    pages: Array,
    version: int,
    blocks: Blocks,
    next_free: Array,
    moves: Array,
    freed_blocks: Array,
    freed_pages: Array,
) -> int:
    """Remove the last by[i] entries of the lists of distinct rows [n], which move to other blocks.

    Args:
        moves: Written: for each row the first entry before and after, and the number of entries [n, 3].

    Returns the number of freed pages; the caller has made sure that there are enough entries.
    """
    num_pages = 0
    for i in range(rows.size):
        row = rows[i]
        packed = pages[(np.int64(table[row >> PAGE_BITS]) << PAGE_BITS) | (row & (PAGE - 1))]
        first, before, size_class = packed >> LENGTH_BITS, packed & LENGTH_MASK, np.int64(blocks.classes[row])
        length = before - by[i]
        freed_blocks[i, 0] = first
        freed_blocks[i, 1] = class_within(before) if size_class == EXACT else size_class
        freed_blocks[i, 2] = next_free[first] if size_class >= STAMPED else 0
        to = 0
        if length == 0:
            blocks.classes[row] = EXACT  # no block, as for a new row
        else:
            blocks.classes[row] = class_for(length + 1)
            to = _new_block(blocks.classes[row], version, blocks, next_free)
        moves[i, 0], moves[i, 1], moves[i, 2] = first, to, length
        num_pages += set_span(table, pages, version, blocks, row, to, length, freed_pages, num_pages)
    return num_pages


@njit
def release(freed_blocks: Array, freed_pages: Array, pages: Array, blocks: Blocks, next_free: Array) -> None:
    """Make blocks and pages that no version refers to available again."""
    for i in range(len(freed_blocks)):
        first, size_class = freed_blocks[i, 0], freed_blocks[i, 1]
        next_free[first] = blocks.heads[size_class]
        blocks.heads[size_class] = first
    for page in freed_pages[:, 0]:
        pages[page << PAGE_BITS] = blocks.heads[FREE_PAGE]
        blocks.heads[FREE_PAGE] = page


@njit
def move_entries(column: Array, before: Array, after: Array, length: Array) -> None:
    """Copy lists of a column [entries] to other places."""
    for i in range(before.size):
        if before[i] != NONE and before[i] != after[i]:
            for j in range(length[i]):
                column[after[i] + j] = column[before[i] + j]


@njit
def move_wide_entries(column: Array, before: Array, after: Array, length: Array) -> None:
    """The same for a column [entries, width]."""
    for i in range(before.size):
        if before[i] != NONE and before[i] != after[i]:
            column[after[i] : after[i] + length[i]] = column[before[i] : before[i] + length[i]]


@njit
def rows_of(wanted: Array, keys: Array, slots: Array, size: int, rows: Array) -> int:
    """Write the row of each key; new keys get rows from `size` on. Returns the new number of rows.

    `keys` and `slots` must have room for all. A reader of the first `size` rows may search at the same time.
    """
    mask = slots.size - 1
    for i in range(wanted.size):
        slot = first_slot(wanted[i], mask)
        while slots[slot] >= 0 and keys[slots[slot]] != wanted[i]:
            slot = (slot + 1) & mask
        if slots[slot] < 0:
            keys[size] = wanted[i]
            slots[slot] = size
            size += 1
        rows[i] = slots[slot]
    return size


# The contents of entries.


@njit
def append_logsums(
    which: Array, position: Array, distinct: Distinct, num: int, time: Array, alphas: Array, logsum: Array
) -> None:
    """Continue the recurrence of `fill_logsums` for new entries, whose times are set; logsum is [entries, decays]."""
    totals = np.empty((num, alphas.size))
    for d in range(num):
        first, before = distinct.first[d], distinct.before[d]
        for a in range(alphas.size):
            if distinct.totals_from[d] != NONE:
                totals[d, a] = logsum[distinct.totals_from[d], a]
            else:
                totals[d, a] = total(time, alphas[a], first, first + before)
    for k in range(position.size):
        i, sums = position[k], totals[which[k]]
        for a in range(alphas.size):
            P = sums[a]
            if P > 0.0:
                P *= math.exp(-alphas[a] * (time[i] - time[i - 1]))
            P += 1.0
            logsum[i, a] = math.log(P)
            sums[a] = P
    for d in range(num):
        if distinct.totals[d] != NONE:
            logsum[distinct.totals[d]] = totals[d]


@njit
def append_sums(which: Array, position: Array, distinct: Distinct, time: Array, scale: float, sums: Array) -> None:
    """Continue `decayed_counts` for new entries, whose times are set."""
    for k in range(position.size):
        i = position[k]
        sums[i] = 1.0
        if i > distinct.first[which[k]]:
            sums[i] += sums[i - 1] * math.exp(-(time[i] - time[i - 1]) / scale)


@njit
def append_links(
    src: Array, dst: Array, t: Array, first: int, reserved: tuple[Array, Array, Distinct], time: Array, hop: Array
) -> None:
    """Write the entries of consecutive links, from link `first` on: that of the source, then of the destination.

    The layout is that of `fill_lists`.
    """
    position, which, distinct = reserved
    k = 0
    for e in range(src.size):
        for side in range(1 if src[e] == dst[e] else 2):
            i = position[k]
            time[i] = t[e]
            hop[i, NODE], hop[i, LINK] = (dst[e] if side == 0 else src[e]), 2 * (first + e) + side
            k += 1
    k = 0
    for e in range(src.size):
        sides = 1 if src[e] == dst[e] else 2
        for side in range(sides):
            d = which[k + sides - 1 - side]  # the other end
            hop[position[k + side], CUT] = count_before(
                time, distinct.first[d], distinct.first[d] + distinct.before[d] + distinct.more[d], t[e]
            )
        k += sides


# The order of each node's partners: simultaneous links are sorted by key, then by row.


@njit
def first_tied(distinct: Distinct, time: Array, tied: Array) -> None:
    """For each extended list, write the number of entries before the time of its first new one: tied [m]."""
    for d in range(distinct.row.size):
        first, j = distinct.first[d], distinct.before[d]
        while j > 0 and time[first + j - 1] == time[first + distinct.before[d]]:
            j -= 1
        tied[d] = j


@njit
def order_partners(
    distinct: Distinct,
    tied: Array,
    time: Array,
    hop: Array,
    keys: Array,
    first_link: int,
    ends: Array,
    old_first: Array,
    old_partner: Array,
    partner: Array,
    same: Array,
) -> None:
    """Write the partners of each extended list from entry tied[d] on, in canonical order.

    Args:
        keys: Of links, from link `first_link` on.
        ends: [m + 1] where the partners of each list are in `partner`, which is written.
        old_first: [m] where each list was in `old_partner`.
        same: Written: the number of entries of each list up to which nothing changed [m].
    """
    for d in range(distinct.row.size):
        size = distinct.before[d] + distinct.more[d]
        j = tied[d]
        while j < size:
            i = distinct.first[d] + j
            run = 1
            while j + run < size and time[i + run] == time[i]:
                run += 1
            at = ends[d] + j - tied[d]
            if run == 1:
                partner[at] = hop[i, NODE]
            else:
                of_links = np.empty(run, np.uint64)
                for k in range(run):
                    of_links[k] = keys[(hop[i + k, LINK] >> 1) - first_link]
                order = np.argsort(of_links, kind="mergesort")
                for k in range(run):
                    partner[at + k] = hop[i + order[k], NODE]
            j += run
        same[d], start = tied[d], ends[d] - tied[d]
        while same[d] < distinct.before[d] and partner[start + same[d]] == old_partner[old_first[d] + same[d]]:
            same[d] += 1


@njit
def find_transitions(
    lists: tuple[Distinct, Distinct],
    same: Array,
    time: Array,
    partner: Array,
    added: Array,
    added_time: Array,
    is_origin: Array,
    removed: Array,
) -> tuple[int, int]:
    """The pairs of consecutive partners that new links add, and those that simultaneous new links separate.

    Args:
        lists: The extended lists of links, and the same lists of partners, which are written already.
        added: Written: key of each transition [n] and, beside it, its time and whether the number of transitions from
            its first node grows.
        removed: Written: keys [n].

    Returns the numbers of both.
    """
    links, partners = lists
    num = num_removed = 0
    for d in range(same.size):
        first, now_at = partners.first[d], links.first[d]
        before, size = links.before[d], links.before[d] + links.more[d]
        j = max(same[d], 1)
        old, earlier = j, partners.moved_from[d]
        for i in range(j, before):
            removed[num_removed] = np.int64(partner[earlier + i - 1]) << 32 | partner[earlier + i]
            num_removed += 1
        for i in range(j, size):
            a, b = partner[first + i - 1], partner[first + i]
            added[num], added_time[num] = np.int64(a) << 32 | b, time[now_at + i]
            is_origin[num] = not (old < before and partner[earlier + old - 1] == a)
            old += not is_origin[num]
            num += 1
    return num, num_removed


@njit
def continue_sums(total: float, newest: Any, t: Array, scale: float, sums: Array) -> None:
    """Continue `decayed_counts` of a single list: `total` at time `newest` is followed by entries at times t [n]."""
    for i in range(t.size):
        sums[i] = 1.0
        if total > 0.0:
            sums[i] += total * math.exp(-(t[i] - newest) / scale)
        total, newest = sums[i], t[i]


@njit
def find_spans(rows: Array, table: Array, pages: Array, first: Array, length: Array) -> None:
    """Write where the list of each row starts, and its length."""
    for i in range(rows.size):
        row = rows[i]
        packed = pages[(np.int64(table[row >> PAGE_BITS]) << PAGE_BITS) | (row & (PAGE - 1))]
        first[i], length[i] = packed >> LENGTH_BITS, packed & LENGTH_MASK


@njit
def transitions_between(first: Array, start: Array, stop: Array, partner: Array, keys: Array) -> None:
    """Write the transitions to entries start[d]..stop[d] of lists of partners."""
    num = 0
    for d in range(first.size):
        for i in range(first[d] + start[d], first[d] + stop[d]):
            keys[num] = np.int64(partner[i - 1]) << 32 | partner[i]
            num += 1
