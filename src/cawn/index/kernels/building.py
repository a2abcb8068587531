"""Laying lists out one after the other: counting sorts, and the sums along each list."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.index.kernels.lists import EXACT, LENGTH, START_BITS, block_row
from cawn.kernels.cpu.logarithms import exp
from cawn.kernels.jit import inner_fused, njit
from cawn.kernels.keys import pair_key

Array = npt.NDArray[Any]

NODE, LINK, CUT = 0, 1, 2  # columns of `hop`


@njit
def lay_out(rows: Array, num_rows: int) -> tuple[Array, Array]:
    """The spans of lists that have an entry for each of `rows` [n], and where each of these entries is."""
    span, position = np.zeros(num_rows, np.int64), np.empty(rows.size, np.int64)
    for i in range(rows.size):
        span[rows[i]] += 1
    start = 0
    for row in range(num_rows):
        length, span[row] = span[row], start
        start += length
    for i in range(rows.size):
        position[i] = span[rows[i]]
        span[rows[i]] += 1
    start = 0
    for row in range(num_rows):
        length = span[row] - start
        span[row] = start << START_BITS | EXACT | length
        start += length
    return span, position


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
def number_pairs(a: Array, b: Array, num_nodes: int) -> tuple[Array, Array]:
    """Number the pairs (a, b) [n] in ascending order: the distinct ones as keys [K], and the row of each [n]."""
    at, by_b, order = np.zeros(num_nodes + 1, np.int64), np.empty(a.size, np.int32), np.empty(a.size, np.int32)
    for i in range(a.size):
        at[b[i] + 1] += 1
    for node in range(num_nodes):
        at[node + 1] += at[node]
    for i in range(a.size):
        by_b[at[b[i]]] = i
        at[b[i]] += 1
    at[:] = 0
    for i in range(a.size):
        at[a[i] + 1] += 1
    for node in range(num_nodes):
        at[node + 1] += at[node]
    for k in range(a.size):
        i = by_b[k]
        order[at[a[i]]] = i
        at[a[i]] += 1
    keys, rows, size = np.empty(a.size, np.int64), np.empty(a.size, np.int32), 0
    for k in range(a.size):
        key = pair_key(a[order[k]], b[order[k]])
        if size == 0 or keys[size - 1] != key:
            keys[size] = key
            size += 1
        rows[order[k]] = size - 1
    return keys[:size].copy(), rows


@njit
def fill_hops(src: Array, dst: Array, t: Array, span: Array, time: Array, hop: Array) -> None:
    """Write the entries of nodes, in one pass in the order of time.

    `cut` is the number of entries in the list of the other end that are strictly earlier.
    """
    newest = np.empty(span.size, t.dtype)
    count = np.zeros((span.size, 2), np.int32)  # entries so far, and those strictly before `newest`
    for e in range(src.size):
        u, v, now = src[e], dst[e], t[e]
        if count[u, 0] == 0 or newest[u] < now:
            newest[u] = now
            count[u, 1] = count[u, 0]
        if count[v, 0] == 0 or newest[v] < now:
            newest[v] = now
            count[v, 1] = count[v, 0]
        i = (span[u] >> START_BITS) + count[u, 0]
        count[u, 0] += 1
        time[i] = now
        hop[i, NODE], hop[i, LINK], hop[i, CUT] = v, 2 * e, count[v, 1]
        if u != v:
            i = (span[v] >> START_BITS) + count[v, 0]
            count[v, 0] += 1
            time[i] = now
            hop[i, NODE], hop[i, LINK], hop[i, CUT] = u, 2 * e + 1, count[u, 1]


@njit
def fill_logsums(span: Array, time: Array, alphas: Array, logsum: Array, first: int, last: int) -> None:
    """Algorithm 2 along the lists of rows first..last: P <- P exp(-alpha dt) + 1."""
    for a in range(alphas.size):
        for row in range(first, last):
            start, P = span[row] >> START_BITS, 0.0
            for i in range(start, start + (span[row] & LENGTH)):
                if P > 0.0:
                    P *= math.exp(-alphas[a] * (time[i] - time[i - 1]))
                P += 1.0
                logsum[a, i] = math.log(P)


@inner_fused
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
def fill_sums(span: Array, link: Array, t: Array, decays: Array, bits: int, sums: Array, first: int, last: int) -> None:
    """The sums of all full blocks of rows first..last."""
    for row in range(first, last):
        start = span[row] >> START_BITS
        for block in range((span[row] & LENGTH) >> bits):
            fill_block(link, t, decays, bits, start, block, sums)


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
def fill_totals(t: Array, decay: float, bits: int, sums: Array, first: int, offset: int) -> None:
    """The decayed count of all links at the end of every full block of them from `first` on, in sums[block - offset].

    Those of blocks `offset`..`first` are there already.
    """
    for block in range(first, t.size >> bits):
        at, i = block << bits, block - offset
        now = t[at + (1 << bits) - 1]
        sums[i] = sums[i - 1] * math.exp(-decay * float(now - t[at - 1])) if block > 0 else 0.0
        for e in range(at, at + (1 << bits)):
            sums[i] += math.exp(-decay * float(now - t[e]))
