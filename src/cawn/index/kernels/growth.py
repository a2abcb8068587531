"""Extending lists while other threads read earlier versions of them.

The writer fills places that no version sees: after the last entry of a list, or a new place where the list has twice
the room, at the end of the arrays. Then it publishes: it stores the new spans, one word each. Earlier versions find
their entries through either span, and ignore entries of newer links. Only where entries change that they see (a late
link, another order of simultaneous links) does the new place refer to the old span, in `chain`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba.core import types
from numba.extending import intrinsic

from cawn.checks import Array
from cawn.index.kernels import lists
from cawn.index.kernels.building import CUT, IN_PLACE, LINK, NODE
from cawn.kernels.jit import inline, njit
from cawn.kernels.keys import pair_key

_OLD, _NONE = -1, -2  # in `extend_partners`: the last entry is not new, or the new ones come after none
Two = tuple[Array, Array]
ENTRIES, CHAIN, UNUSED = 0, 1, 2  # positions in `used`: entries and chained lists so far, and entries that no list uses


class Extension(NamedTuple):
    """The rows that are extended, [m] int64 each."""

    row: Array
    more: Array  # number of new entries
    keep: Array  # number of entries that stay
    start: Array  # first entry, after it moved
    moved_from: Array  # first entry before, or IN_PLACE
    span: Array  # to be published


class Added(NamedTuple):
    """Where new entries are: their positions in `extension` and in the columns, [n] each."""

    which: Array
    position: Array
    extension: Extension


class Ties(NamedTuple):
    """New entries that belong among others at the newest time so far, in the order of the keys of their links."""

    entries: Array  # [n], the first ones of those that are added
    begin: int  # the first link at this time
    keys: Array  # of the links from there on


@intrinsic  # type: ignore[untyped-decorator]
def memory_barrier(typing_context: Any) -> Any:
    """Whoever sees what is stored after it also sees what was stored before."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.fence("seq_cst")
        return context.get_dummy_value()

    return types.void(), generate


@njit
def number_keys(wanted: Array, keys: Array, slots: Array, size: int, rows: Array) -> int:
    """Write the row of each key; new ones get rows from `size` on, and are written to `keys`. Returns the new size."""
    known, new = keys[:size], lists.slots_for(wanted.size)
    for i in range(wanted.size):  # brings the slots into the cache: these reads need not wait for each other
        rows[i] = slots[lists.first_slot(wanted[i], slots.size - 1)]
    for i in range(wanted.size):
        rows[i] = lists.find_row(known, slots, wanted[i])
        if rows[i] < 0:
            slot = lists.find_slot(keys, new, wanted[i])
            if new[slot] < 0:
                new[slot], keys[size] = size, wanted[i]
                size += 1
            rows[i] = new[slot]
    return size


@njit
def plan(rows: Array, count: int, span: Array) -> tuple[Array, ...]:
    """How lists become longer by an entry of each of the first `count` rows, and shorter by one of each of the others.

    Returns the list of each new entry [count], how many new ones of its list come before it [count], and the fields
    of an `Extension`.
    """
    row, which = np.empty((2, rows.size), np.int64)
    m, order = number_keys(rows, row, lists.slots_for(0), 0, which), np.empty(count, np.int64)
    more, keep, start = np.zeros(m, np.int64), span[row[:m]] & lists.LENGTH, span[row[:m]] >> lists.START_BITS
    for i in range(count):
        order[i] = more[which[i]]
        more[which[i]] += 1
    for i in range(count, rows.size):
        keep[which[i]] -= 1
    moved_from, new_span = np.empty((2, m), np.int64)
    return which[:count], order, row[:m], more, keep, start, moved_from, new_span


@njit
def find_places(ties: Ties, which: Array, link: Array, start: Array, keep: Array, more: Array) -> None:
    """For lists with new entries among simultaneous ones: those before the first of them stay, others are added again.

    `which` is the list of each entry [n], of those that start at `start` and have `keep` entries [m].
    """
    entries, begin, keys = ties
    for i in range(entries.size - 1, -1, -1):  # the first one of each list comes last
        d, key = which[i], keys[(entries[i] >> 1) - begin]
        size = keep[d]
        lo, hi = lists.count_below(link, start[d], size, begin), size
        while lo < hi:  # past all entries with at most this key
            mid = (lo + hi) >> 1
            if keys[(link[start[d] + mid] >> 1) - begin] <= key:
                lo = mid + 1
            else:
                hi = mid
        keep[d], more[d] = lo, more[d] + size - lo


@njit
def reserve(
    span: Array, link: Array, chain: Array, used: Array, version: int, is_late: bool, extension: Extension
) -> int:
    """Find a place for each extended list; returns 0, or the number of entries needed if there is no room for them.

    If links are late, earlier versions know their numbers, and must not see them in any list.
    """
    row, more, keep, start, moved_from, new_span = extension
    needed = used[ENTRIES]
    for d in range(row.size):
        packed = span[row[d]]
        size = packed & lists.LENGTH
        replaced = is_late or keep[d] < size
        room = size if packed & lists.EXACT else lists.room_for(size)
        moved_from[d], start[d] = IN_PLACE, packed >> lists.START_BITS
        if replaced or keep[d] + more[d] > room:
            header = 1 if replaced or packed & lists.CHAINED else 0
            moved_from[d], start[d] = start[d], needed + header
            needed += header + lists.room_for(keep[d] + more[d])
    if needed > link.size:
        return int(needed)
    used[ENTRIES] = needed
    for d in range(row.size):
        packed = span[row[d]]
        size, flags = packed & lists.LENGTH, packed & lists.CHAINED
        if moved_from[d] == IN_PLACE:
            flags |= packed & lists.EXACT  # where there is room for none
        else:
            used[UNUSED] += size if packed & lists.EXACT else lists.room_for(size)
            if is_late or keep[d] < size:
                chain[used[CHAIN], lists.SINCE], chain[used[CHAIN], lists.BEFORE] = version, packed
                link[start[d] - 1], flags = used[CHAIN], lists.CHAINED
                used[CHAIN] += 1
            elif flags:
                link[start[d] - 1] = link[moved_from[d] - 1]
        new_span[d] = start[d] << lists.START_BITS | flags | (keep[d] + more[d])
    return 0


@njit
def extend_nodes(entries: Array, added: Added, src: Array, dst: Array, t: Array, time: Array, hop: Array) -> None:
    """Write the times and hops of new entries of nodes: those of each link's source, then of its destination."""
    which, position, extension = added
    for i in range(entries.size):
        e = entries[i] >> 1
        at = position[i]
        time[at] = t[e]
        hop[at, NODE], hop[at, LINK] = (src[e] if entries[i] & 1 else dst[e]), entries[i]
    for i in range(entries.size):
        e = entries[i] >> 1
        other = which[i] if src[e] == dst[e] else which[i - 1 if entries[i] & 1 else i + 1]
        start, keep = extension.start[other], extension.keep[other]
        earlier = keep if keep > 0 and time[start + keep - 1] < t[e] else 0  # at least
        stop = start + keep + extension.more[other]
        hop[position[i], CUT] = earlier + lists.count_before(time, start + earlier, stop, t[e])


@njit
def extend_partners(new: Two, place: Added, ties: Ties, tail: Array, columns: Two, changed: Two) -> tuple[int, int]:
    """Write new entries of partners, and again those among which they belong; returns the numbers of transitions.

    Args:
        new: The entries and their partners.
        tail: How many entries of each list are written again, between and after its tied ones [m].
        columns: `link` and `partner`.
        changed: Written: `added`, keys of two consecutive partners, and entries of new links at the time of the later
            one [2, n]; `removed`, keys of two partners that are not consecutive any more, and the positions of the
            former one's new transitions in `added` [2, n].
    """
    (entries, partners), (link, partner), (added, removed) = new, columns, changed
    which, _, extension = place
    m, num, gone = tail.size, 0, 0
    at, old = extension.start + extension.keep, extension.moved_from + extension.keep
    stop, gap = old + tail, np.full(m, _OLD)
    for k in range(entries.size + m):  # tied entries, what comes after them in each list, and entries of later times
        i = k if k < ties.entries.size else k - m
        is_new = i >= ties.entries.size or k < ties.entries.size
        d = which[i] if is_new else k - ties.entries.size
        while old[d] < stop[d] and not (is_new and _comes_first(ties, entries[i], link[old[d]])):
            if gap[d] != _OLD:  # the entry before is new
                added[0, num], added[1, num] = pair_key(partner[at[d] - 1], partner[old[d]]), link[at[d] - 1]
                num += 1
                if gap[d] != _NONE:
                    removed[0, gone], removed[1, gone] = pair_key(added[0, gap[d]] >> 32, partner[old[d]]), gap[d]
                    gone += 1
                gap[d] = _OLD
            link[at[d]], partner[at[d]] = link[old[d]], partner[old[d]]
            at[d] += 1
            old[d] += 1
        if is_new:
            is_first = at[d] == extension.start[d]
            if gap[d] == _OLD:
                gap[d] = _NONE if is_first else num
            link[at[d]], partner[at[d]] = entries[i], partners[i]
            if not is_first:
                added[0, num], added[1, num] = pair_key(partner[at[d] - 1], partners[i]), entries[i]
                num += 1
            at[d] += 1
    return num, gone


@inline
def _comes_first(ties: Ties, new: Any, old: Any) -> Any:
    return ties.keys[(new >> 1) - ties.begin] < ties.keys[(old >> 1) - ties.begin]


@njit
def publish(span: Array, keys: Array, slots: Array, first_key: int, num_keys: int, extension: Extension) -> None:
    """Let readers see the extended lists, and the keys of rows first_key..num_keys."""
    memory_barrier()
    for d in range(extension.row.size):
        span[extension.row[d]] = extension.span[d]
    lists.add_keys(keys, first_key, num_keys, slots)
    memory_barrier()
