"""Walk sampling on the CPU; `reference.walks` in the tests defines in plain Python what it computes."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cawn.index.kernels.building import CUT, LINK, NODE
from cawn.index.kernels.lists import find_list
from cawn.index.kernels.nodes import Nodes, entries_of
from cawn.kernels.jit import inline, njit, reader
from cawn.kernels.rng import query_key, uniform
from cawn.kernels.threads import even_bounds, in_parallel, total_memory

Array = npt.NDArray[Any]

_QUERIES_PER_TASK = 256


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
def draw_entry(time: Array, logsum: Array, alpha: float, start: Any, newest: Any, u: float) -> Any:
    """The first entry i of start..newest with P_i exp(-alpha (t_newest - t_i)) >= u P_newest.

    Entries up to i hold this much of the list's weight, so a uniform u draws i with probability proportional to
    exp(alpha t_i). The search gallops back from the newest entry, where the weight is.
    """
    now = time[np.uint64(newest)]
    target = logsum[np.uint64(newest)] + math.log(u)
    hi, lo, stride = newest, newest - 1, 1
    while lo >= start and logsum[np.uint64(lo)] - alpha * (now - time[np.uint64(lo)]) >= target:
        hi = lo
        stride += stride
        lo -= stride
    lo = max(lo, start - 1)
    while hi - lo > 1:
        mid = (lo + hi) >> 1
        if logsum[np.uint64(mid)] - alpha * (now - time[np.uint64(mid)]) >= target:
            hi = mid
        else:
            lo = mid
    return hi


@njit
def sample_walks(index: Nodes, request: WalkRequest, first: int, last: int) -> None:
    """Algorithm 1 for queries first..last. Step s draws widths[s - 1] links, each shared by M / width walks."""
    at = np.empty(request.out_nodes.shape[1], np.int64)  # the entry each walk stands at, -1 where it has ended
    link = index.hop[:, LINK]
    for q in range(first, last):
        sample_query(index, request, link, q, at)


@reader
def sample_query(index: Nodes, request: WalkRequest, link: Array, q: int, at: Array) -> None:
    """The walks of one query."""
    span, time, hop, logsum, alphas, chain, _, version = index
    nodes, t, t_bits, widths, seed, out_nodes, out_t, out_events = request
    M, length, num_decays = out_nodes.shape[1], out_nodes.shape[2] - 1, alphas.size
    start, seen = entries_of(index, link, nodes[q], t[q])
    key = query_key(seed, t_bits[q], link[start + seen - 1] if seen > 0 else 0)
    walked, when, links = out_nodes[q], out_t[q], out_events[q]
    for w in range(M):
        walked[w, 0], when[w, 0], links[w, 0] = nodes[q], t[q], -1
    for s in range(1, length + 1):
        width = widths[s - 1]
        shared, a = M // width, 0
        for k in range(width):
            w = k * shared
            if s > 1:
                seen = 0
                if at[np.uint64(w)] >= 0:
                    i = np.uint64(at[np.uint64(w)])
                    start, _ = find_list(span, link, chain, version, hop[i, NODE])
                    seen = np.int64(hop[i, CUT])
            if seen > 0:
                while (a + 1) * width <= k * num_decays:  # decays have equal shares of the walks
                    a += 1
                i = np.uint64(draw_entry(time, logsum[a], alphas[a], start, start + seen - 1, uniform(key, k, s)))
                node, now, event = hop[i, NODE], time[i], hop[i, LINK] >> 1
                for j in range(w, w + shared):
                    at[j] = i
                    walked[j, s], when[j, s], links[j, s] = node, now, event
            else:
                for j in range(w, w + shared):
                    at[j] = -1
                    walked[j, s], when[j, s], links[j, s] = -1, -1, -1
