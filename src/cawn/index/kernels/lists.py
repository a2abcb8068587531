"""How the lists of an index lie in memory, and how they are read.

A *list* holds the links of one row (a node, a pair, ...), oldest first. All lists of a kind share arrays with one place
for each entry; `span[row]` says where the list of a row is. An entry is 2 * link + side: side 0 if it is that of
the source, 1 from the destination. Links are numbered in the order of time, so "before time t" is "below a number", and
the time of an entry is t[link]: lists hold no times of their own.

The sum of exp(-decay * age) over the entries of a list is stored after every 2 ** bits entries only; the rest of a
block is added when it is needed.

One thread may extend lists while others read them. A reader has a version: it sees no link that is newer, and where
entries that it sees were replaced, `chain` leads it back to those of its time (see `kernels.growth`).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba.extending import register_jitable

from cawn.checks import Array
from cawn.kernels.cpu.logarithms import exp
from cawn.kernels.jit import inline, njit, reader, reader_fused
from cawn.kernels.rng import GOLDEN_64

START_BITS = 32  # a span is start << START_BITS | flags | length
EXACT = 1 << 31  # the place of the list ends with its last entry
CHAINED = 1 << 30  # the entry before the first is a position in `chain`
LENGTH = CHAINED - 1
SINCE, BEFORE = 0, 1  # columns of `chain`
FREE = -1

_HALF_WORD = np.uint64(32)


class Lists(NamedTuple):
    """The lists of one kind, as one version sees them."""

    span: Array  # [rows or more] int64
    link: Array  # [entries] int32
    sums: Array  # [blocks, decays] float64, at the end of every full block of a list
    decays: Array  # [decays] float64
    keys: Array  # [rows or more] int64, of rows that are found by key
    slots: Array  # [a power of two] int32, hash table of the keys: their rows, FREE where there is none
    chain: Array  # [replaced lists, 2] int64: the first version that sees the new list, and the span of the old one
    bits: int
    version: int


def constant(array: Array) -> Array:
    """A read-only view. A stored index is read-only; if all arrays are, kernels are compiled only once."""
    view = array.view()
    view.flags.writeable = False
    return view


@reader
def replaced(link: Array, chain: Array, version: Any, packed: Any) -> Any:
    """The span that a version sees of a list that was replaced."""
    while packed & CHAINED:
        at = link[np.uint64((packed >> START_BITS) - 1)]
        if chain[at, SINCE] <= version:
            break
        packed = chain[at, BEFORE]
    return packed


@inline
def find_list(span: Array, link: Array, chain: Array, version: Any, row: Any) -> tuple[Any, Any]:
    """The first entry of a row's list, and the number of its entries, newer links included; 0, 0 for an unknown row."""
    packed = span[np.uint64(row)] if 0 <= row < span.size else 0
    if packed & CHAINED:
        packed = replaced(link, chain, version, packed)
    return packed >> START_BITS, packed & LENGTH


@inline
def count_below(link: Array, start: Any, size: Any, num_links: Any) -> Any:
    """How many of the entries start..start + size belong to the first `num_links` links."""
    limit = 2 * num_links
    if size == 0 or link[np.uint64(start + size - 1)] < limit:
        return size
    at = start
    while size > 1:  # without branches that depend on the entries, which cannot be predicted
        half = size >> 1
        at = at + half if link[np.uint64(at + half - 1)] < limit else at
        size -= half
    return at - start + (link[np.uint64(at)] < limit)


@reader
def entries_before(lists: Lists, row: Any, num_links: Any) -> tuple[Any, Any]:
    """The first entry of a row's list, and how many of its entries belong to the first `num_links` links."""
    start, size = find_list(lists.span, lists.link, lists.chain, lists.version, row)
    return start, count_below(lists.link, start, size, num_links)


@njit
def visible_lists(lists: Lists, rows: Array, num_links: int) -> tuple[Array, Array]:
    """`entries_before` of each row: [n] each."""
    start, size = np.empty((2, rows.size), np.int64)
    for i in range(rows.size):
        start[i], size[i] = entries_before(lists, rows[i], num_links)
    return start, size


@njit
def last_links(lists: Lists, rows: Array, num_links: Array) -> Array:
    """The last link in the list of each row [n] among the first `num_links` [n]; -1 if there is none."""
    found = np.empty(rows.size, np.int64)
    for i in range(rows.size):
        start, size = entries_before(lists, rows[i], num_links[i])
        found[i] = lists.link[start + size - 1] >> 1 if size > 0 else -1
    return found


@inline
def count_before(time: Array, start: Any, stop: Any, t: Any) -> Any:
    """How many of the sorted time[start:stop] are strictly earlier than t."""
    lo, hi = start, stop
    while lo < hi:
        mid = (lo + hi) >> 1
        if time[np.uint64(mid)] < t:
            lo = mid + 1
        else:
            hi = mid
    return lo - start


@register_jitable  # type: ignore[untyped-decorator]
def block_row(start: Any, block: Any, bits: Any) -> Any:
    """Where the sums at the end of a list's block are; no two lists share a row."""
    return ((start + (1 << bits) - 1) >> bits) + block


@reader_fused
def decayed(lists: Lists, t: Array, start: Any, seen: Any, now: Any) -> float:
    """The sum of exp(-decay * age) over the first `seen` entries of a list, for the last decay."""
    column, blocks, total = lists.decays.size - 1, seen >> lists.bits, 0.0
    decay, first = lists.decays[column], start + (blocks << lists.bits)
    if blocks > 0:
        age = now - t[lists.link[np.uint64(first - 1)] >> 1]
        total = lists.sums[block_row(start, blocks - 1, lists.bits), column] * exp(-decay * age)
    for i in range(first, start + seen):
        total += exp(-decay * (now - t[np.uint64(lists.link[np.uint64(i)] >> 1)]))
    return total


@reader_fused
def all_decayed(
    link: Array,
    sums: Array,
    bits: Any,
    decays: Array,
    stride: Any,
    t: Array,
    start: Any,
    seen: Any,
    now: Any,
    out: Array,
) -> None:
    """`decayed` for every stride-th decay of the lists, which are `decays`: [decays].

    Numba would compile it again for a stride that is a literal number.
    """
    blocks = seen >> bits
    first = start + (blocks << bits)
    for a in range(out.size):
        out[a] = 0.0
    if blocks > 0:
        age = float(now - t[np.uint64(link[np.uint64(first - 1)] >> 1)])
        row = block_row(start, blocks - 1, bits)
        for a in range(out.size):
            out[a] = sums[row, a * stride] * exp(-decays[a] * age)
    for i in range(first, start + seen):
        age = float(now - t[np.uint64(link[np.uint64(i)] >> 1)])
        for a in range(out.size):
            out[a] += exp(-decays[a] * age)


@inline
def room_for(size: Any) -> Any:
    """The number of entries that a place for this many has room for, where lists grow: the next power of two."""
    room = np.int64(size > 0)
    while room < size:
        room += room
    return room


def block_rows(entries: int, bits: int) -> int:
    """The number of rows of sums for this many entries."""
    return (entries >> bits) + 2


@njit
def spans_are_inside(span: Array, size: int) -> bool:
    """Whether spans are those of lists one after the other that fill `size` entries."""
    start = 0
    for row in range(span.size):
        length = span[row] & LENGTH
        if span[row] != (start << START_BITS | EXACT | length):
            return False
        start += length
    return start == size


# The hash table of keys. Linear probing; entries are never removed.


@inline
def first_slot(key: Any, mask: Any) -> Any:
    return np.int64((np.uint64(key) * GOLDEN_64) >> _HALF_WORD) & mask


@inline
def find_slot(keys: Array, slots: Array, key: Any) -> Any:
    """The slot of a key, or the free one where it belongs; rows beyond `keys` are of later versions."""
    mask = slots.size - 1
    slot = first_slot(key, mask)
    while slots[slot] >= 0 and (slots[slot] >= keys.size or keys[slots[slot]] != key):
        slot = (slot + 1) & mask
    return slot


@inline
def find_row(keys: Array, slots: Array, key: Any) -> Any:
    """The row of a key, -1 if it has none."""
    return slots[find_slot(keys, slots, key)]


@njit
def rows_of_keys(lists: Lists, keys: Array) -> Array:
    """The row of each key, -1 for those that have none."""
    found = np.empty(keys.size, np.int64)
    for i in range(keys.size):
        found[i] = find_row(lists.keys, lists.slots, keys[i])
    return found


@njit
def add_keys(keys: Array, first: int, stop: int, slots: Array) -> None:
    """Enter the distinct keys of rows first..stop."""
    for row in range(first, stop):
        slots[find_slot(keys, slots, keys[row])] = row


@register_jitable  # type: ignore[untyped-decorator]
def num_slots(size: int) -> int:
    """The size of a hash table for this many keys: a power of two, of which they take at most 0.8."""
    slots = 4
    while slots <= math.ceil(1.25 * size):
        slots += slots
    return slots


@register_jitable  # type: ignore[untyped-decorator]
def slots_for(size: int) -> Array:
    """An empty hash table for this many keys."""
    return np.full(num_slots(size), FREE, np.int32)


@njit
def home_slots(keys: Array, mask: int) -> Array:
    """The slot of each key in a hash table without others."""
    found = np.empty(keys.size, np.int64)
    for i in range(keys.size):
        found[i] = first_slot(keys[i], mask)
    return found


@njit
def enter_rows(homes: Array, rows: Array, slots: Array) -> None:
    """Enter rows [n] with new keys into a hash table, in ascending order of their homes: in one pass over it."""
    mask = slots.size - 1
    for i in range(rows.size):
        slot = homes[i]
        while slots[slot] >= 0:
            slot = (slot + 1) & mask
        slots[slot] = rows[i]
