"""The kernels of `Stream` on the CPU: a ring buffer of the latest links of each node, with Algorithms 2 and 3.

Link i of a node, counted from its first, is in slot i % C while it is one of the last C.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cawn.checks import Array
from cawn.kernels.jit import inline, njit
from cawn.kernels.rng import query_key, uniform
from cawn.walks.kernels.sampling import WalkRequest, write_position


class Rings(NamedTuple):
    """The state of a stream: N nodes with C slots each, k decays."""

    alphas: Array  # [k]
    total: Array  # [N], number of links so far
    first: Array  # [N], time of the first
    running: Array  # [N, k], P of Algorithm 2 at the newest
    time: Array  # [N, C]
    node: Array  # [N, C], the other end
    link: Array  # [N, C], 2 * event id + side, side 0 if the node is the source
    p: Array  # [N, k, C], 1 / P: the probability of this link rather than an older one


@inline
def _put(rings: Rings, v: int, other: int, t: float, link: int) -> None:
    """Algorithm 2 for one end of one link: P <- P exp(-alpha dt) + 1, p = 1 / P."""
    capacity = rings.time.shape[1]
    n = rings.total[v]
    slot = n % capacity
    if n == 0:
        rings.first[v] = t
    else:
        elapsed = t - rings.time[v, (n - 1) % capacity]
        for a in range(rings.alphas.size):
            rings.running[v, a] *= math.exp(-rings.alphas[a] * elapsed)
    for a in range(rings.alphas.size):
        rings.running[v, a] += 1.0
        rings.p[v, a, slot] = 1.0 / rings.running[v, a]
    rings.time[v, slot], rings.node[v, slot], rings.link[v, slot] = t, other, link
    rings.total[v] = n + 1


@njit
def append_links(rings: Rings, src: Array, dst: Array, t: Array, next_event: int) -> None:
    """Append links in the order of time, the first with event id `next_event`. A self-loop is one link."""
    for e in range(src.size):
        u, v, now, link = src[e], dst[e], t[e], 2 * (next_event + e)
        _put(rings, u, v, now, link)
        if u != v:
            _put(rings, v, u, now, link + 1)


@inline
def _seen(rings: Rings, v: int, t: float) -> np.int64:
    """How many links of v, counted from its first, are strictly before t.

    A dropped link is no later than any stored one, so it counts once a stored link is before t. If none is, the result
    is the number of dropped links, although some of them may not be before t.
    """
    capacity = rings.time.shape[1]
    hi = rings.total[v]
    lo = max(hi - capacity, 0)
    while lo < hi:
        mid = (lo + hi) >> 1
        if rings.time[v, mid % capacity] < t:
            lo = mid + 1
        else:
            hi = mid
    return np.int64(lo)


@inline
def _draw(rings: Rings, v: int, a: int, newest: np.int64, oldest: np.int64, u: float) -> int:
    """Algorithm 3: from newest to oldest, take a link with probability p; -1 past the oldest stored link.

    One uniform number u replaces the Bernoulli draws: it is compared with the product of the factors (1 - p), the
    probability of taking none so far. The result is the link that `find_entry` draws from the full history.
    """
    capacity = rings.p.shape[2]
    passed = 1.0
    slot = newest % capacity
    for i in range(newest, oldest - 1, -1):
        passed *= 1.0 - rings.p[v, a, slot]
        if passed < u:
            return i
        slot = slot - 1 if slot > 0 else capacity - 1
    return -1


@njit
def sample_walks(rings: Rings, request: WalkRequest, from_query: int, to_query: int) -> int:
    """Algorithm 1 on the rings, as `walks.sample_walks` on the index; returns the iterations of Algorithm 3."""
    nodes, t, t_bits, widths, seed, out_nodes, out_t, _ = request
    M, length = out_nodes.shape[1], out_nodes.shape[2] - 1
    num_nodes, num_decays, capacity = rings.total.size, rings.alphas.size, rings.time.shape[1]
    looked = 0
    for q in range(from_query, to_query):
        for w in range(M):
            write_position(request, q, w, 0, nodes[q], t[q], -1)
        key = np.uint64(0)
        if nodes[q] < num_nodes:
            seen = _seen(rings, nodes[q], t[q])
            if seen > max(rings.total[nodes[q]] - capacity, 0):
                key = query_key(seed, t_bits[q], rings.link[nodes[q], (seen - 1) % capacity])
        for s in range(1, length + 1):
            width = widths[s - 1]
            shared = M // width
            for k in range(width):
                w = k * shared
                v = out_nodes[q, w, s - 1]
                i = -1
                if 0 <= v < num_nodes:
                    oldest = max(rings.total[v] - capacity, 0)
                    seen = _seen(rings, v, out_t[q, w, s - 1])
                    if seen > oldest:
                        i = _draw(rings, v, k * num_decays // width, seen - 1, oldest, uniform(key, k, s))
                        looked += seen - max(i, oldest)
                node, when, event = -1, -1, -1
                if i >= 0:
                    c = i % capacity
                    node, when, event = rings.node[v, c], rings.time[v, c], rings.link[v, c] >> 1
                for j in range(w, w + shared):
                    write_position(request, q, j, s, node, when, event)
    return looked


@njit
def missing_mass(rings: Rings, nodes: Array, t: Array) -> Array:
    """The probability that Algorithm 3 runs past the oldest stored link, mean over the decays: [B]."""
    capacity = rings.time.shape[1]
    missing = np.zeros(nodes.size)
    for q in range(nodes.size):
        v = nodes[q]
        if v >= rings.total.size or rings.total[v] == 0 or not rings.first[v] < t[q]:
            continue
        oldest = max(rings.total[v] - capacity, 0)
        seen = _seen(rings, v, t[q])
        for a in range(rings.alphas.size):
            passed = 1.0
            for i in range(oldest, seen):
                passed *= 1.0 - rings.p[v, a, i % capacity]
            missing[q] += passed / rings.alphas.size
    return missing
