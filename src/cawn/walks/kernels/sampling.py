"""Walk sampling on the CPU; `reference.walks` in the tests defines in plain Python what it computes."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from cawn.checks import Array
from cawn.index.kernels.building import CUT, LINK, NODE
from cawn.index.kernels.lists import find_list
from cawn.index.kernels.nodes import Nodes, entries_of
from cawn.kernels.cpu.logarithms import exp
from cawn.kernels.jit import inline, njit, reader
from cawn.kernels.rng import query_key, uniform
from cawn.kernels.threads import even_bounds, in_parallel, total_memory

_QUERIES_PER_TASK = 256
_DRAWS = 512  # made together
_DRAW = np.dtype(
    [
        ("query", np.int64),  # among those sampled together
        ("number", np.int64),  # among the draws of the query
        ("low", np.int64),  # the entry drawn is after this one, at first the one before the list
        ("high", np.int64),  # and not after this one, which at first is the newest
        ("guess", np.int64),  # an entry between them
        ("row", np.int64),  # where the log-sums of the decay begin
        ("alpha", np.float64),
        ("target", np.float64),  # log(u P_newest), see `find_entry`
    ],
    align=True,
)


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


Kernel = Callable[[Any, WalkRequest, int, int], object]


def run_walks(
    kernel: Kernel, index: Any, nodes: Array, t: Array, widths: tuple[int, ...], seed: int, threads: int | None
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


class Scratch(NamedTuple):
    """What `sample_walks` works with: Q queries at a time, and n draws at a time."""

    logsum: Array  # [decays * entries], those of the index in one row
    start: Array  # [Q] int64, the first entry of each node
    seen: Array  # [Q] int64, how many of its entries are before the query
    keys: Array  # [Q] uint64
    at: Array  # [Q, M] int64, the entry each walk stands at, -1 where it has ended
    draws: Array  # [n] of `_DRAW`
    now: Array  # [n] times of the newest entries
    weight: Array  # [n] logarithms of the weight up to the guesses
    link: Array  # [n] int32, the links drawn


@njit
def sample_walks(index: Nodes, request: WalkRequest, first: int, last: int) -> None:
    """Algorithm 1 for queries first..last. Step s draws widths[s - 1] links, each shared by M / width walks.

    Each loop does one part of many draws: the processor then waits for many reads of a large index at once, where a
    loop over walks would wait for one after the other. The shorter the loop, the more reads it waits for.
    """
    M, logsum = request.out_nodes.shape[1], index.logsum.reshape(-1)
    size = max(_DRAWS // M, 1)
    start, seen, keys = np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size, np.uint64)
    at, draws = np.empty((size, M), np.int64), np.empty(_DRAWS, _DRAW)
    now, weight, link = np.empty(_DRAWS, index.time.dtype), np.empty(_DRAWS), np.empty(_DRAWS, np.int32)
    scratch = Scratch(logsum, start, seen, keys, at, draws, now, weight, link)
    for q in range(first, last, size):
        stop = min(q + size, last)
        begin_walks(index, request, q, stop, scratch)
        for s in range(1, request.widths.size + 1):
            take_step(index, request, s, q, stop, scratch)


@inline
def write_position(request: WalkRequest, q: int, w: int, s: int, node: Any, t: Any, event: Any) -> None:
    request.out_nodes[q, w, s], request.out_t[q, w, s], request.out_events[q, w, s] = node, t, event


@reader
def begin_walks(index: Nodes, request: WalkRequest, first: int, last: int, scratch: Scratch) -> None:
    """Position 0 of the walks of queries first..last, and what each query sees."""
    link = index.hop[:, LINK]
    for q in range(first, last):
        node, t = request.nodes[q], request.t[q]
        start, seen = entries_of(index, link, node, t)
        newest = link[start + seen - 1] if seen > 0 else 0
        scratch.start[q - first], scratch.seen[q - first] = start, seen
        scratch.keys[q - first] = query_key(request.seed, request.t_bits[q], newest)
        for w in range(scratch.at.shape[1]):
            write_position(request, q, w, 0, node, t, -1)


@reader
def take_step(index: Nodes, request: WalkRequest, s: int, first: int, last: int, scratch: Scratch) -> None:
    """Step s of the walks of queries first..last."""
    hop, link, at, draws = index.hop, index.hop[:, LINK], scratch.at, scratch.draws
    width, num_decays, n = request.widths[s - 1], index.alphas.size, np.uint64(0)
    shared, share = at.shape[1] // width, width // num_decays
    for q in range(last - first):
        start, seen, a = scratch.start[q], scratch.seen[q], 0
        for k in range(width):
            if s > 1:
                i, seen = at[np.uint64(q), np.uint64(k * shared)], 0
                if i >= 0:
                    start, _ = find_list(index.span, link, index.chain, index.version, hop[np.uint64(i), NODE])
                    seen = np.int64(hop[np.uint64(i), CUT])
            a += (a + 1) * share <= k  # decays have equal shares of the walks
            if seen > 0:
                draw = draws[n]
                draw.query, draw.number, draw.low, draw.high = q, k, start - 1, start + seen - 1
                draw.row, draw.alpha = a * index.logsum.shape[1], index.alphas[a]
                n += np.uint64(1)
            else:
                for w in range(k * shared, (k + 1) * shared):
                    at[q, w] = -1
                    write_position(request, first + q, w, s, -1, -1, -1)
            if n == draws.size:
                make_draws(index, request, s, first, n, scratch)
                n = np.uint64(0)
    make_draws(index, request, s, first, n, scratch)


@reader
def make_draws(index: Nodes, request: WalkRequest, s: int, first: int, n: Any, scratch: Scratch) -> None:
    """Make the first n draws, for step s, and write the links that were drawn."""
    time, hop = index.time, index.hop
    logsum, _, _, keys, at, draws, now, weight, link = scratch
    shared = at.shape[1] // request.widths[s - 1]
    for j in range(n):
        draw = draws[j]
        now[j], weight[j] = time[np.uint64(draw.high)], logsum[np.uint64(draw.row + draw.high)]
        draw.target = weight[j]
    for j in range(n):
        weight[j] = exp(weight[j])
    for j in range(n):
        draw = draws[j]
        u = uniform(keys[draw.query], draw.number, s)
        draw.guess = guess_entry(draw.low, draw.high, weight[j], u)
        draw.target += math.log(u)
    for j in range(n):
        weight[j] = weight_until(time, logsum, draws[j], now[j], draws[j].guess)
    for j in range(n):
        find_entry(time, logsum, draws[j], now[j], weight[j])
    for j in range(n):
        link[j] = hop[np.uint64(draws[j].high), LINK]
    for j in range(n):
        draw = draws[j]
        i = np.uint64(draw.high)
        node, t, event = hop[i, NODE], time[i], link[j] >> 1
        for w in range(draw.number * shared, (draw.number + 1) * shared):
            at[draw.query, w] = i
            write_position(request, first + draw.query, w, s, node, t, event)


@inline
def guess_entry(low: Any, high: Any, P: float, u: float) -> Any:
    """The entry before the one that a uniform u draws, if links are equally frequent: going back by k entries leaves
    a share 1 - k / P of the weight in a short list, exp(-k / P) in a long one, where P is that of the newest entry."""
    rest = 1.0 - u
    back = (P - 1.0) * rest * (1.0 + rest * (1.0 - P / (high - low)))
    return max(high - 1 - np.int64(back), low + 1)


@inline
def weight_until(time: Array, logsum: Array, draw: Any, now: Any, i: Any) -> Any:
    """The logarithm of P_i exp(-alpha (t_newest - t_i))."""
    return logsum[np.uint64(draw.row + i)] - draw.alpha * (now - time[np.uint64(i)])


@inline
def find_entry(time: Array, logsum: Array, draw: Any, now: Any, weight: float) -> None:
    """The first entry i of a list with P_i exp(-alpha (t_newest - t_i)) >= u P_newest, as `high`.

    Entries up to i hold this much of the list's weight, so a uniform u draws i with probability proportional to
    exp(alpha t_i). The search gallops from the guess, up to which there is `weight`, then halves what is left.
    """
    low, high, i, stride, target = draw.low, draw.high, draw.guess, 1, draw.target
    if weight < target:
        low, i = i, i + 1
        while i < high and weight_until(time, logsum, draw, now, i) < target:
            stride += stride
            low, i = i, i + stride
        high = min(high, i)
    else:
        high, i = i, i - 1
        while i > low and weight_until(time, logsum, draw, now, i) >= target:
            stride += stride
            high, i = i, i - stride
        low = max(low, i)
    while high - low > 1:
        i = (low + high) >> 1
        if weight_until(time, logsum, draw, now, i) < target:
            low = i
        else:
            high = i
    draw.high = high
