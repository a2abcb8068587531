"""Walk sampling on the CPU. `reference.walks` defines in plain Python what each function computes.

The index lists the links of every node in the order of time. A link in the list of one of its ends is an *entry*:

    time[i]                 time of the link
    hop[i] = (node, link, cut)
        node                the other end
        link                2 * event id + side, side 0 if the list is that of the source
        cut                 number of entries in the list of `node` that are strictly earlier than time[i]
    logsum[a, i]            log of P_i = sum over the entries j <= i of the list of exp(-alpha_a (t_i - t_j))

P is between 1 and the number of entries for any alpha and time unit, and times are subtracted before anything else:
nothing overflows, and no weight is lost that a 52-bit random number could resolve.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cawn.kernels.cpu.spans import Spans, span
from cawn.kernels.jit import inline, njit
from cawn.kernels.rng import query_key, uniform
from cawn.kernels.threads import even_bounds, in_parallel, total_memory

Array = npt.NDArray[Any]

NODE, LINK, CUT = 0, 1, 2
_QUERIES_PER_TASK = 256


class Index(NamedTuple):
    """The lists of all nodes; see above. `spans` says where in the arrays the list of each node is."""

    spans: Spans
    time: Array  # [entries] int64 or float64
    hop: Array  # [entries, 3] int32
    logsum: Array  # [decays, entries] float64
    alphas: Array  # [decays] float64


class WalkRequest(NamedTuple):
    """B queries, already checked, and the output arrays for their walks."""

    nodes: Array  # [B] int64
    t: Array  # [B], the dtype of the index's times
    t_bits: Array  # [B] uint64, the same bits
    widths: Array  # [m] int64, links drawn at each step
    seed: np.uint64
    out_nodes: Array  # [B, M, m + 1] int32
    out_t: Array  # [B, M, m + 1]
    out_events: Array  # [B, M, m + 1] int64


def run_walks(
    kernel: Callable[[Any, WalkRequest, int, int], object],
    index: Any,
    nodes: Array,
    t: Array,
    widths: tuple[int, ...],
    seed: int,
    threads: int | None,
) -> tuple[Array, Array, Array]:
    """The walks of B queries that have been checked: nodes, times and events, [B, M, m + 1] each.

    Raises MemoryError where the walks do not fit in memory; some systems would allocate it, then kill the process.
    """
    shape = (len(nodes), widths[-1], len(widths) + 1)
    if math.prod(shape) * (4 + 2 * 8) > total_memory():
        raise MemoryError
    out = np.empty(shape, np.int32), np.empty(shape, t.dtype), np.empty(shape, np.int64)
    request = WalkRequest(nodes, t, t.view(np.uint64), np.array(widths, np.int64), np.uint64(seed), *out)
    in_parallel(partial(kernel, index, request), even_bounds(len(nodes), _QUERIES_PER_TASK), threads)
    return out


@inline
def count_before(time: Array, start: int, stop: int, t: float) -> int:
    """How many of the sorted time[start:stop] are strictly earlier than t."""
    lo, hi = start, stop
    while lo < hi:
        mid = (lo + hi) >> 1
        if time[mid] < t:
            lo = mid + 1
        else:
            hi = mid
    return lo - start


@njit
def degrees(index: Index, nodes: Array, t: Array) -> Array:
    """How many links each node has strictly before t; none where the node is not known."""
    out = np.zeros(nodes.size, np.int64)
    for q in range(nodes.size):
        start, stop = span(index.spans, nodes[q])
        out[q] = count_before(index.time, start, stop, t[q])
    return out


@njit
def recent_links(index: Index, nodes: Array, t: Array, out_nodes: Array, out_t: Array, out_events: Array) -> None:
    """Write the last links of each node strictly before t, newest first: [B, k] each."""
    for q in range(nodes.size):
        start, stop = span(index.spans, nodes[q])
        seen = count_before(index.time, start, stop, t[q])
        for k in range(min(seen, out_nodes.shape[1])):
            i = start + seen - 1 - k
            out_nodes[q, k], out_t[q, k] = index.hop[i, NODE], index.time[i]
            out_events[q, k] = index.hop[i, LINK] >> 1


@inline
def draw_entry(time: Array, logsum: Array, a: int, alpha: float, start: int, newest: int, u: float) -> int:
    """The first entry i of start..newest with P_i exp(-alpha (t_newest - t_i)) >= u P_newest.

    Entries up to i hold this much of the list's weight, so a uniform u draws i with probability proportional to
    exp(alpha t_i). The search gallops back from the newest entry, where the weight is.
    """
    now = time[newest]
    target = logsum[a, newest] + math.log(u)
    hi, lo, stride = newest, newest - 1, 1
    while lo >= start and logsum[a, lo] - alpha * (now - time[lo]) >= target:
        hi = lo
        stride += stride
        lo -= stride
    lo = max(lo, start - 1)
    while hi - lo > 1:
        mid = (lo + hi) >> 1
        if logsum[a, mid] - alpha * (now - time[mid]) >= target:
            hi = mid
        else:
            lo = mid
    return hi


@njit
def sample_walks(index: Index, request: WalkRequest, first: int, last: int) -> None:
    """Algorithm 1 for queries first..last. Step s draws widths[s - 1] links, each shared by M / width walks."""
    spans, time, hop, logsum, alphas = index
    nodes, t, t_bits, widths, seed, out_nodes, out_t, out_events = request
    M, length = out_nodes.shape[1], out_nodes.shape[2] - 1
    num_decays = alphas.size
    at = np.empty(M, np.int64)  # the entry each walk stands at, -1 where it has ended
    for q in range(first, last):
        root = nodes[q]
        start, stop = span(spans, root)
        seen = count_before(time, start, stop, t[q])
        key = query_key(seed, t_bits[q], hop[start + seen - 1, LINK] if seen > 0 else 0)
        for w in range(M):
            out_nodes[q, w, 0], out_t[q, w, 0], out_events[q, w, 0] = root, t[q], -1
        for s in range(1, length + 1):
            width = widths[s - 1]
            shared = M // width
            for k in range(width):
                w = k * shared
                if s > 1:
                    seen = 0
                    if at[w] >= 0:
                        start, _ = span(spans, hop[at[w], NODE])
                        seen = hop[at[w], CUT]
                if seen > 0:
                    a = k * num_decays // width
                    i = draw_entry(time, logsum, a, alphas[a], start, start + seen - 1, uniform(key, k, s))
                    for j in range(w, w + shared):
                        at[j] = i
                        out_nodes[q, j, s], out_t[q, j, s], out_events[q, j, s] = (
                            hop[i, NODE],
                            time[i],
                            hop[i, LINK] >> 1,
                        )
                else:
                    for j in range(w, w + shared):
                        at[j] = -1
                        out_nodes[q, j, s], out_t[q, j, s], out_events[q, j, s] = -1, -1, -1
