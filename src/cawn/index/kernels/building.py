"""Laying lists out one after the other: counting sorts, and the sums along each list."""

from __future__ import annotations

import math

import numpy as np

from cawn.checks import Array
from cawn.index.kernels.lists import EXACT, LENGTH, START_BITS, block_row, room_for
from cawn.kernels.cpu.logarithms import exp
from cawn.kernels.jit import njit, prefetch, reader_fused

NODE, LINK, CUT = 0, 1, 2  # columns of `hop`
IN_PLACE = -1

_DIGIT = 11  # bits


@njit
def lay_out(rows: Array, num_rows: int, room: bool) -> tuple[Array, Array, int]:
    """The spans of lists that have an entry for each of `rows` [n], where each of these entries is, and the number of
    places; with `room`, there are more of these than entries, for lists that grow."""
    flag = 0 if room else EXACT
    span, position = np.zeros(num_rows, np.int64), np.empty(rows.size, np.int64)
    for i in range(rows.size):
        span[rows[i]] += 1
    start = 0
    for row in range(num_rows):
        length, span[row] = span[row], start
        start += room_for(length) if room else length
    for i in range(rows.size):
        position[i] = span[rows[i]]
        span[rows[i]] += 1
    start = 0
    for row in range(num_rows):
        length = span[row] - start
        span[row] = start << START_BITS | flag | length
        start += room_for(length) if room else length
    return span, position, start


@njit
def move_rows(
    before: Array, after: Array, width: int, bits: int, moved_from: Array, start: Array, count: Array
) -> None:
    """Copy what tables have for the full blocks of the first `count` entries of lists to where they start now.

    Args:
        before, after: Tables, each with rows of `width` numbers, one after the other.
        moved_from: The first entry before, or IN_PLACE [n].
    """
    for table in range(len(before)):
        old, new = before[table], after[table]
        for d in range(start.size):
            size, to = width * (count[d] >> bits), width * block_row(start[d], 0, bits)
            prefetch(new, to + size)  # where new entries will be written
            source = width * block_row(moved_from[d], 0, bits)
            for i in range(0 if moved_from[d] == IN_PLACE else size):
                new[np.uint64(to + i)] = old[np.uint64(source + i)]


@njit
def both_ends(src: Array, dst: Array, links: Array) -> tuple[Array, Array]:
    """Links [n] as their sources and as their destinations see them: nodes and entries; a self-loop once."""
    nodes, entries, n = np.empty(2 * links.size, np.int32), np.empty(2 * links.size, np.int32), 0
    for e in links:
        nodes[n], entries[n] = src[e], 2 * e
        n += 1
        if src[e] != dst[e]:
            nodes[n], entries[n] = dst[e], 2 * e + 1
            n += 1
    return nodes[:n].copy(), entries[:n].copy()


@njit
def other_ends(src: Array, dst: Array, entries: Array) -> Array:
    """The other end of the link of each entry."""
    found = np.empty(entries.size, np.int32)
    for i in range(entries.size):
        found[i] = src[entries[i] >> 1] if entries[i] & 1 else dst[entries[i] >> 1]
    return found


@njit
def transitions(nodes: Array, partners: Array, entries: Array, last: Array) -> tuple[Array, Array, Array]:
    """Each two consecutive partners of a node, and the entry of the later one, given the next entries in order.

    `last` is the last partner of each node so far, -1 if it has none; updated.
    """
    before, after, later = np.empty((3, nodes.size), np.int32)
    n = 0
    for i in range(nodes.size):
        if last[nodes[i]] >= 0:
            before[n], after[n], later[n] = last[nodes[i]], partners[i], entries[i]
            n += 1
        last[nodes[i]] = partners[i]
    return before[:n].copy(), after[:n].copy(), later[:n].copy()


@njit
def sort_keys(keys: Array) -> tuple[Array, Array]:
    """The keys [n], at least 0, in ascending order, and the position of each before; a stable radix sort."""
    n, most, mask = keys.size, 0, (1 << _DIGIT) - 1
    keys, order = keys.copy(), np.empty(n, np.int32)
    for i in range(n):
        most, order[i] = max(most, keys[i]), i
    to_keys, to_order, ends, shift = np.empty_like(keys), np.empty_like(order), np.empty(mask + 2, np.int64), 0
    while shift < 63 and most >> shift > 0:
        ends[:] = 0
        for key in keys:
            ends[((key >> shift) & mask) + 1] += 1
        if ends[((keys[0] >> shift) & mask) + 1] < n:  # else all have the same digit
            for digit in range(mask):
                ends[digit + 1] += ends[digit]
            for i in range(n):
                digit = (keys[i] >> shift) & mask
                to_keys[ends[digit]], to_order[ends[digit]] = keys[i], order[i]
                ends[digit] += 1
            keys, to_keys, order, to_order = to_keys, keys, to_order, order
        shift += _DIGIT
    return keys, order


def number_sorted(keys: Array) -> tuple[Array, Array]:
    """The distinct ones of sorted keys [n], and the row of each key [n]."""
    new = np.ones(keys.size, np.bool_)
    new[1:] = keys[1:] != keys[:-1]
    return keys[new], np.cumsum(new, dtype=np.int32) - np.int32(1)


@njit
def fill_nodes(
    src: Array, dst: Array, t: Array, first: int, newest: Array, count: Array, position: Array, time: Array, hop: Array
) -> None:
    """Write the next entries of nodes, in the order of `both_ends`, each to a position [n].

    `cut` is the number of entries in the list of the other end that are strictly earlier.

    Args:
        first: The number of the first of these links.
        newest, count: The time of each node's newest entry [nodes], and how many entries it has, and has before that
            time [nodes, 2], so far; updated.
    """
    n = 0
    for e in range(src.size):
        u, v, now = src[e], dst[e], t[e]
        for end in (u, v):
            if count[end, 0] == 0 or newest[end] < now:
                newest[end] = now
                count[end, 1] = count[end, 0]
        count[u, 0] += 1
        i = position[n]
        time[i], hop[i, NODE], hop[i, LINK], hop[i, CUT] = now, v, 2 * (first + e), count[v, 1]
        n += 1
        if u != v:
            count[v, 0] += 1
            i = position[n]
            time[i], hop[i, NODE], hop[i, LINK], hop[i, CUT] = now, u, 2 * (first + e) + 1, count[u, 1]
            n += 1


@njit
def fill_logsums(span: Array, known: Array, time: Array, alphas: Array, P: Array, logsum: Array) -> None:
    """Algorithm 2 along lists [m]: P <- P exp(-alpha dt) + 1.

    Args:
        known: How many entries of each list are done [m].
        P: That of the last one of these [m, decays], 0 without any; updated.
        logsum: Written [decays, entries], if it is not empty.
    """
    for a in range(alphas.size):
        for d in range(span.size):
            start, total = span[d] >> START_BITS, P[d, a]
            for i in range(start + known[d], start + (span[d] & LENGTH)):
                if total > 0.0:
                    total *= math.exp(-alphas[a] * (time[i] - time[i - 1]))
                total += 1.0
                if logsum.size:
                    logsum[a, i] = math.log(total)
            P[d, a] = total


@reader_fused
def fill_block(link: Array, t: Array, decays: Array, bits: int, start: int, block: int, sums: Array) -> None:
    """The sums at the end of a block of a list, from those at the end of the block before."""
    first, row = start + (block << bits), block_row(start, block, bits)
    last = first + (1 << bits) - 1
    now = t[link[last] >> 1]
    for a in range(decays.size):
        sums[row, a] = 0.0
    if block > 0:
        age = float(now - t[link[first - 1] >> 1])
        for a in range(decays.size):
            sums[row, a] = sums[row - 1, a] * math.exp(-decays[a] * age)  # errors would add up
    for i in range(first, last + 1):
        age = float(now - t[link[i] >> 1])
        for a in range(decays.size):
            sums[row, a] += exp(-decays[a] * age)


@njit
def fill_sums(span: Array, known: Array, link: Array, t: Array, decays: Array, bits: int, sums: Array) -> None:
    """The sums of blocks that are full, but for those of the `known` first entries of each list [m]."""
    for d in range(span.size):  # brings the times that are not of new links into the cache
        start, first = span[d] >> START_BITS, known[d] >> bits
        if first < (span[d] & LENGTH) >> bits:
            for i in range(start + max((first << bits) - 1, 0), start + known[d]):
                prefetch(t, link[i] >> 1)
    for d in range(span.size):
        for block in range(known[d] >> bits, (span[d] & LENGTH) >> bits):
            fill_block(link, t, decays, bits, span[d] >> START_BITS, block, sums)


@njit
def first_links(src: Array, dst: Array, first: int, seen: Array) -> Array:
    """The first links of nodes, as entries, among the links from `first` on; `seen` [nodes] bool is updated."""
    found, n = np.empty(min(2 * src.size, seen.size), np.int32), 0
    for e in range(src.size):
        for node in (src[e], dst[e]):
            if not seen[node]:
                seen[node] = True
                found[n] = 2 * (first + e)
                n += 1
    return found[:n].copy()


@njit
def totals_from(t: Array, decay: float, bits: int, first: int, before: float) -> Array:
    """The decayed count of all links at the end of every full block from `first` on; `before` is that of the last."""
    found = np.empty((t.size >> bits) - first)
    for i in range(found.size):
        at = (first + i) << bits
        now = t[at + (1 << bits) - 1]
        total = before * math.exp(-decay * float(now - t[at - 1])) if at > 0 else 0.0
        for e in range(at, at + (1 << bits)):
            total += math.exp(-decay * float(now - t[e]))
        found[i] = before = total
    return found
