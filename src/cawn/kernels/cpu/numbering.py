"""A hash table of names, in arrays that the caller enlarges.

A slot holds the upper half of a name's hash and its number plus 1; 0 is an empty slot. Names are either integers or
strings: each kernel takes them as a tuple (integers, ends, text), of which one side is empty. String i is
text[ends[i] : ends[i + 1]].

Almost every lookup of a large table misses the cache, several times one after the other. Names are therefore looked up
in blocks: loops without dependencies first read what the lookups of a block are going to need, so that the processor
waits for many of these reads at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cawn.checks import Array
from cawn.kernels.jit import inline, njit, reader
from cawn.kernels.rng import GOLDEN_64, mix64

Names = tuple[Array, Array, Array]

ABSENT = -1
NOT_INTEGERS, INTEGERS, INTEGERS_WITH_POINT = range(3)  # what `parse_integers` finds

_UPPER, _LOWER = np.uint64(0xFFFFFFFF00000000), np.uint64(0x00000000FFFFFFFF)
_ONE, _EMPTY = np.uint64(1), np.uint64(0)
_S32 = np.uint64(32)
_BLOCK = 256  # names that are looked up together


@inline
def _hash_string(text: Array, lo: int, hi: int) -> Any:
    found = np.uint64(hi - lo) * GOLDEN_64
    at = lo
    while at + 8 <= hi:
        word = np.uint64(0)
        for j in range(8):
            word |= np.uint64(text[at + j]) << np.uint64(8 * j)
        found = (found ^ word) * GOLDEN_64
        found ^= found >> _S32
        at += 8
    word = np.uint64(0)
    for j in range(hi - at):
        word |= np.uint64(text[at + j]) << np.uint64(8 * j)
    return mix64(found ^ word)


@inline
def _hash(names: Names, i: int) -> Any:
    integers, ends, text = names
    if integers.size:
        return mix64(np.uint64(integers[i]))
    return _hash_string(text, ends[i], ends[i + 1])


@inline
def _equal(names: Names, i: int, held: Names, node: np.int64) -> bool:
    if names[0].size:
        return bool(names[0][i] == held[0][node])
    lo, first = names[1][i], held[1][node]
    length = names[1][i + 1] - lo
    if length != held[1][node + 1] - first:
        return False
    for j in range(length):  # noqa: SIM110 - numba compiles the loop
        if names[2][lo + j] != held[2][first + j]:
            return False
    return True


@inline
def _number_in(slot: Any) -> Any:
    """The number in a slot; ABSENT in an empty one."""
    return np.int64((slot & _LOWER) - _ONE)


@reader
def _find_slot(names: Names, i: int, key: Any, held: Names, slots: Array, size: int) -> Any:
    """The slot of name i among the first `size` names that are held, or the empty one where it belongs."""
    mask = np.uint64(slots.size - 1)
    at = key & mask
    while slots[at] != _EMPTY:
        node = _number_in(slots[at])
        if slots[at] & _UPPER == key & _UPPER and node < size and _equal(names, i, held, node):
            break
        at = (at + _ONE) & mask
    return at


@inline
def _read_ahead(keys: Array, slots: Array, held: Names, nodes: Array) -> None:
    """Read what the lookups of these keys need, so that it is in the cache."""
    mask = np.uint64(slots.size - 1)
    integers, ends, text = held
    for j in range(keys.size):
        slot = slots[keys[j] & mask]
        nodes[j] = _number_in(slot) if slot != _EMPTY and slot & _UPPER == keys[j] & _UPPER else 0
    if integers.size:
        for j in range(keys.size):
            nodes[j] = integers[min(nodes[j], integers.size - 1)]
    elif text.size:
        for j in range(keys.size):
            nodes[j] = ends[min(nodes[j], ends.size - 1)]
        for j in range(keys.size):
            nodes[j] = text[min(nodes[j], text.size - 1)]


@inline
def _fits(names: Names, i: int, held: Names, size: int) -> bool:
    """Whether there is room for one more name."""
    if names[0].size:
        return bool(size < held[0].size)
    return bool(size + 1 < held[1].size and held[1][size] + names[1][i + 1] - names[1][i] <= held[2].size)


@inline
def _store(names: Names, i: int, held: Names, size: int) -> None:
    if names[0].size:
        held[0][size] = names[0][i]
    else:
        lo, hi, begin = names[1][i], names[1][i + 1], held[1][size]
        for j in range(hi - lo):  # numba compiles a loop in a fraction of the time of an assigned slice
            held[2][begin + j] = names[2][lo + j]
        held[1][size + 1] = begin + hi - lo


@inline
def _look_up_small(names: Names, first: int, count: int, small: Array, ids: Array, others: Array) -> int:
    """Number the names that are known small integers; returns how many others there are, and puts their positions."""
    missed = 0
    for i in range(first, first + count):
        if names[0].size and np.uint64(names[0][i]) < np.uint64(small.size) and small[names[0][i]] > 0:
            ids[i] = small[names[0][i]] - 1
        else:
            others[missed] = i
            missed += 1
    return missed


@njit
def number(names: Names, held: Names, slots: Array, small: Array, size: int, ids: Array, first: int) -> tuple[int, int]:
    """Number names from position `first` on; new names are added to those held.

    Args:
        held: The names that have numbers, with room for more.
        slots: A power of two of them.
        small: The number plus 1 of each integer from 0 that is known, which is found faster here; else 0.
        size: How many names are held.

    Returns:
        The position of the first name for which there is no room, or n, and how many names are held now.
    """
    most = slots.size // 4 * 3
    keys, nodes, others = np.empty(_BLOCK, np.uint64), np.empty(_BLOCK, np.int64), np.empty(_BLOCK, np.int64)
    for begin in range(first, ids.size, _BLOCK):
        count = _look_up_small(names, begin, min(_BLOCK, ids.size - begin), small, ids, others)
        for j in range(count):
            keys[j] = _hash(names, others[j])
        _read_ahead(keys[:count], slots, held, nodes)
        for j in range(count):
            i = others[j]
            at = _find_slot(names, i, keys[j], held, slots, size)
            if slots[at] == _EMPTY:
                if size >= most or not _fits(names, i, held, size):
                    return i, size
                _store(names, i, held, size)
                size += 1
                slots[at] = (keys[j] & _UPPER) | np.uint64(size)
            ids[i] = _number_in(slots[at])
            if names[0].size and np.uint64(names[0][i]) < np.uint64(small.size):
                small[names[0][i]] = ids[i] + 1
    return ids.size, size


@njit
def find(names: Names, held: Names, slots: Array, size: int, ids: Array) -> None:
    """The numbers of names, [n], or ABSENT; only the first `size` names that are held are seen."""
    for i in range(ids.size):
        ids[i] = _number_in(slots[_find_slot(names, i, _hash(names, i), held, slots, size)])


@njit
def fill_slots(held: Names, size: int, slots: Array) -> None:
    """Put the first `size` names into empty slots."""
    for node in range(size):
        key = _hash(held, node)
        slots[_find_slot(held, node, key, held, slots, node)] = (key & _UPPER) | np.uint64(node + 1)


@njit
def rank_by_appearance(ids: Array, ranks: Array, count: int) -> int:
    """Rank ids (or -1 for none) that have no rank yet (-1) in the order of appearance; returns the number of ranks."""
    for i in range(ids.size):
        node = ids[i]
        if node >= 0 and ranks[node] < 0:
            ranks[node] = count
            count += 1
    return count


@njit
def parse_integers(ends: Array, text: Array, values: Array) -> int:
    """Parse -?(0|[1-9][0-9]{0,17})(.0)? in every field; says whether all fields are integers, and if one has '.0'."""
    zero, minus, point = np.uint8(48), np.uint8(45), np.uint8(46)
    found = INTEGERS
    for i in range(values.size):
        lo, hi = ends[i], ends[i + 1]
        if hi - lo > 2 and text[hi - 1] == zero and text[hi - 2] == point:
            hi -= 2
            found = INTEGERS_WITH_POINT
        negative = hi > lo and text[lo] == minus
        lo += negative
        digits = hi - lo
        if digits < 1 or digits > 18 or (text[lo] == zero and (digits > 1 or negative)):
            return NOT_INTEGERS
        value = np.int64(0)
        for j in range(lo, hi):
            digit = np.int64(text[j]) - 48
            if digit < 0 or digit > 9:
                return NOT_INTEGERS
            value = 10 * value + digit
        values[i] = -value if negative else value
    return found
