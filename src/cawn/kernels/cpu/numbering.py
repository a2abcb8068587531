"""Numbers for names in the order in which they are seen: hash tables in arrays that the caller enlarges.

A slot holds the upper half of a name's hash and its number plus 1; 0 is an empty slot. Every name has a role, the
least of those it was seen in, and its rank among the names that got this role.

Almost every lookup of a large table misses the cache, several times one after the other. Names are therefore looked up
in blocks: loops without dependencies first read what the lookups of a block are going to need, so that the processor
waits for many of these reads at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.kernels.jit import inline, njit
from cawn.kernels.rng import mix64

Array = npt.NDArray[Any]

ROLES = 3
NO_ROLE = ROLES  # of a name that was not seen yet

_UPPER, _LOWER = np.uint64(0xFFFFFFFF00000000), np.uint64(0x00000000FFFFFFFF)
_ONE, _EMPTY = np.uint64(1), np.uint64(0)
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_S32 = np.uint64(32)
_BLOCK = 256  # names that are looked up together


@inline
def _hash_string(text: Array, lo: int, hi: int) -> np.uint64:
    found = np.uint64(hi - lo) * _MULTIPLIER
    at = lo
    while at + 8 <= hi:
        word = np.uint64(0)
        for j in range(8):
            word |= np.uint64(text[at + j]) << np.uint64(8 * j)
        found = (found ^ word) * _MULTIPLIER
        found ^= found >> _S32
        at += 8
    word = np.uint64(0)
    for j in range(hi - at):
        word |= np.uint64(text[at + j]) << np.uint64(8 * j)
    return mix64(found ^ word)


@inline
def _equal(text: Array, lo: int, hi: int, held: Array, first: int, last: int) -> bool:
    if hi - lo != last - first:
        return False
    for j in range(hi - lo):  # noqa: SIM110 - numba compiles the loop
        if text[lo + j] != held[first + j]:
            return False
    return True


@inline
def _see(node: int, role: int, roles: Array, ranks: Array, counts: Array) -> None:
    """Record that a name was seen in a role."""
    if role < roles[node]:
        roles[node] = role
        ranks[node] = counts[role]
        counts[role] += 1


@inline
def _first_names(keys: Array, slots: Array, mask: np.uint64, nodes: Array) -> None:
    """The number of the name in the first slot of each key, if its tag is that of the key, else 0."""
    for j in range(keys.size):
        slot = slots[keys[j] & mask]
        nodes[j] = np.int64((slot & _LOWER) - _ONE) if slot != _EMPTY and slot & _UPPER == keys[j] & _UPPER else 0


@njit
def number_strings(
    ends: Array,
    text: Array,
    role: int,
    held_ends: Array,
    held_text: Array,
    slots: Array,
    roles: Array,
    ranks: Array,
    counts: Array,
    ids: Array,
    first: int,
) -> int:
    """Number the names from position `first` on; returns the position of the first name that did not fit.

    Args:
        ends, text: Name i is text[ends[i] : ends[i + 1]].
        held_ends, held_text: The names that have numbers, likewise.
        roles, ranks: Of these names; `roles` of further ones are NO_ROLE.
        counts: The number of names of each role, followed by the total number of names.
        ids: The numbers of the names, [n].
    """
    mask, most = np.uint64(slots.size - 1), min(roles.size, slots.size // 4 * 3)
    size = counts[ROLES]
    keys, nodes, begins = np.empty(_BLOCK, np.uint64), np.empty(_BLOCK, np.int64), np.empty(_BLOCK, np.int64)
    for i in range(first, ids.size):
        block = (i - first) % _BLOCK
        if block == 0:
            count = min(_BLOCK, ids.size - i)
            for j in range(count):
                keys[j] = _hash_string(text, ends[i + j], ends[i + j + 1])
            _first_names(keys[:count], slots, mask, nodes)
            for j in range(count):
                begins[j] = held_ends[nodes[j]]
            for j in range(count):  # what is read here is not used, but it is in the cache afterwards
                begins[j] = held_text[min(begins[j], held_text.size - 1)] if held_text.size else 0
                nodes[j] = roles[nodes[j]]
        lo, hi = ends[i], ends[i + 1]
        key = keys[block]
        at, tag = key & mask, key & _UPPER
        while True:
            slot = slots[at]
            if slot == _EMPTY:
                if size >= most or held_ends[size] + hi - lo > held_text.size:
                    counts[ROLES] = size
                    return i
                node, begin = size, held_ends[size]
                held_text[begin : begin + hi - lo] = text[lo:hi]
                size += 1
                held_ends[size] = begin + hi - lo
                slots[at] = tag | np.uint64(size)
                break
            node = np.int64((slot & _LOWER) - _ONE)
            if slot & _UPPER == tag and _equal(text, lo, hi, held_text, held_ends[node], held_ends[node + 1]):
                break
            at = (at + _ONE) & mask
        ids[i] = node
        _see(node, role, roles, ranks, counts)
    counts[ROLES] = size
    return ids.size


@njit
def number_integers(
    names: Array,
    role: int,
    held: Array,
    slots: Array,
    roles: Array,
    ranks: Array,
    counts: Array,
    ids: Array,
    first: int,
) -> int:
    """`number_strings` for names that are integers; `held` are those that have numbers."""
    mask, most = np.uint64(slots.size - 1), min(roles.size, slots.size // 4 * 3)
    size = counts[ROLES]
    keys, nodes, values = np.empty(_BLOCK, np.uint64), np.empty(_BLOCK, np.int64), np.empty(_BLOCK, np.int64)
    for i in range(first, ids.size):
        block = (i - first) % _BLOCK
        if block == 0:
            count = min(_BLOCK, ids.size - i)
            for j in range(count):
                keys[j] = mix64(np.uint64(names[i + j]))
            _first_names(keys[:count], slots, mask, nodes)
            for j in range(count):  # as above
                values[j] = held[nodes[j]]
                nodes[j] = roles[nodes[j]]
        key = keys[block]
        at, tag = key & mask, key & _UPPER
        while True:
            slot = slots[at]
            if slot == _EMPTY:
                if size >= most:
                    counts[ROLES] = size
                    return i
                node = size
                held[node] = names[i]
                size += 1
                slots[at] = tag | np.uint64(size)
                break
            node = np.int64((slot & _LOWER) - _ONE)
            if slot & _UPPER == tag and held[node] == names[i]:
                break
            at = (at + _ONE) & mask
        ids[i] = node
        _see(node, role, roles, ranks, counts)
    counts[ROLES] = size
    return ids.size


@njit
def fill_slots_strings(ends: Array, text: Array, size: int, slots: Array) -> None:
    """Put names with the numbers 0 to size - 1 into empty slots."""
    mask = np.uint64(slots.size - 1)
    for node in range(size):
        _put(_hash_string(text, ends[node], ends[node + 1]), node, slots, mask)


@njit
def fill_slots_integers(names: Array, size: int, slots: Array) -> None:
    """Put names with the numbers 0 to size - 1 into empty slots."""
    mask = np.uint64(slots.size - 1)
    for node in range(size):
        _put(mix64(np.uint64(names[node])), node, slots, mask)


@inline
def _put(key: np.uint64, node: int, slots: Array, mask: np.uint64) -> None:
    at = key & mask
    while slots[at] != _EMPTY:
        at = (at + _ONE) & mask
    slots[at] = (key & _UPPER) | np.uint64(node + 1)


@njit
def gather_strings(order: Array, ends: Array, text: Array, found_ends: Array, found_text: Array) -> None:
    """Copy the names `order` one after the other; `found_ends` are their places, [n + 1]."""
    for i in range(order.size):
        lo, hi = ends[order[i]], ends[order[i] + 1]
        found_text[found_ends[i] : found_ends[i + 1]] = text[lo:hi]
