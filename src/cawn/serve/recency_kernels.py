"""Last links of pairs and of destinations, kept up to date link by link.

Times are replaced by *ranks*: the rank of a link is the number of links strictly before its time. A table holds the
ranks of the last two distinct times of each key, plus 1; 0 stands for none. A query at rank V must only see ranks below
V: the newest one, or the one before it if the newest belongs to the query's own time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cawn.kernels.jit import inline, njit, reader
from cawn.kernels.keys import pair_key
from cawn.kernels.rng import GOLDEN_64

Array = npt.NDArray[Any]

EMPTY = -1


class Pairs(NamedTuple):
    """A hash table of pairs with open addressing; its size is a power of two."""

    keys: Array  # [C] int64, EMPTY where unused
    last: Array  # [C] uint32
    before: Array  # [C] uint32, the rank of the last link at an earlier time


class Nodes(NamedTuple):
    """The same for destinations, by node id, and when each node first occurred."""

    last: Array  # [N] uint32, as a destination
    before: Array  # [N] uint32
    first: Array  # [N] uint32, at either end
    order: Array  # [N] int32, destinations in the order of their first link
    order_first: Array  # [N] uint32, the rank of that link, plus 1
    place: Array  # [N] int32, of each destination in `order`; -1 for none


class Questions(NamedTuple):
    """What to find out about some of the links, before they are added."""

    row: Array  # [n] the row of each link in the other arrays; -1 if nothing is asked
    uniform: Array  # [m, K] random numbers in [0, 1), which choose the negatives
    negatives: Array  # [m, K] int64, filled in: earlier destinations except the link's own; -1 if there is none
    pair: Array  # [m, 1 + K] int64, filled in: rank of the last link of each pair, the link's own first; -1 for none
    destination: Array  # [m, 1 + K] int64, filled in: rank of the last link to each destination


@inline
def _visible(last: Any, before: Any, rank: Any) -> Any:
    """The newest of two ranks that a query at `rank` may see, or -1."""
    newest = np.int64(last) - 1
    return newest if newest < rank else np.int64(before) - 1


@njit
def find(keys: Array, key: int) -> int:
    """The slot of a key, or the empty slot where it belongs."""
    mask = np.uint64(keys.size - 1)
    mixed = np.uint64(key) * GOLDEN_64
    slot = (mixed ^ (mixed >> np.uint64(29))) & mask
    while keys[slot] != EMPTY and keys[slot] != key:
        slot = (slot + np.uint64(1)) & mask
    return int(slot)


@njit
def rehash(old: Pairs, new: Pairs) -> None:
    """Copy all pairs to a larger table."""
    for i in range(old.keys.size):
        if old.keys[i] != EMPTY:
            slot = find(new.keys, old.keys[i])
            new.keys[slot], new.last[slot], new.before[slot] = old.keys[i], old.last[i], old.before[i]


@njit
def follow(
    src: Array,
    dst: Array,
    rank: Array,
    pairs: Pairs,
    nodes: Nodes,
    counts: Array,
    new_pair: Array,
    new_node: Array,
    questions: Questions,
) -> None:
    """Answer the questions about each link, then add it; links are in the order of time.

    Args:
        counts: Number of pairs, of destinations, and of destinations before the current time; updated.
        new_pair: [n] filled in: whether the pair has no earlier link.
        new_node: [n] filled in: whether one of its nodes has no earlier link.
    """
    for i in range(src.size):
        u, v, now = src[i], dst[i], rank[i]
        while counts[2] < counts[1] and nodes.order_first[counts[2]] <= now:
            counts[2] += 1
        row = questions.row[i]
        if row >= 0:
            _answer(u, v, now, row, counts[2], pairs, nodes, questions)
        slot = find(pairs.keys, pair_key(min(u, v), max(u, v)))
        if pairs.keys[slot] == EMPTY:
            pairs.keys[slot] = pair_key(min(u, v), max(u, v))
            counts[0] += 1
        new_pair[i] = _visible(pairs.last[slot], pairs.before[slot], now) < 0
        new_node[i] = not (0 < nodes.first[u] <= now and 0 < nodes.first[v] <= now)
        if np.int64(pairs.last[slot]) != now + 1:
            pairs.before[slot], pairs.last[slot] = pairs.last[slot], now + 1
        _add_nodes(u, v, now, nodes, counts)


@inline
def _add_nodes(u: Any, v: Any, now: Any, nodes: Any, counts: Any) -> None:
    if np.int64(nodes.last[v]) != now + 1:
        nodes.before[v], nodes.last[v] = nodes.last[v], now + 1
    if nodes.first[u] == 0:
        nodes.first[u] = now + 1
    if nodes.first[v] == 0:
        nodes.first[v] = now + 1
    if nodes.place[v] < 0:
        nodes.place[v], nodes.order[counts[1]], nodes.order_first[counts[1]] = counts[1], v, now + 1
        counts[1] += 1


@reader
def _answer(u: int, v: int, now: int, row: int, known: int, pairs: Pairs, nodes: Nodes, questions: Questions) -> None:
    """Draw the negatives of a link among the `known` destinations, and look up the last links of all its pairs."""
    own = nodes.place[v]
    skips = 0 <= own < known
    choices = known - skips
    for k in range(questions.negatives.shape[1] + 1):
        other = v
        if k > 0:
            if choices <= 0:
                questions.negatives[row, k - 1] = -1
                continue
            at = min(np.int64(questions.uniform[row, k - 1] * choices), choices - 1)
            other = nodes.order[at + (skips and at >= own)]
            questions.negatives[row, k - 1] = other
        slot = find(pairs.keys, pair_key(min(u, other), max(u, other)))
        linked = pairs.keys[slot] != EMPTY
        questions.pair[row, k] = _visible(pairs.last[slot], pairs.before[slot], now) if linked else -1
        questions.destination[row, k] = _visible(nodes.last[other], nodes.before[other], now)


@njit
def insert_late(src: Array, dst: Array, rank: Array, pairs: Pairs, nodes: Nodes, counts: Array) -> None:
    """Add links that are older than others already added."""
    for i in range(src.size):
        u, v, held = src[i], dst[i], rank[i] + 1
        slot = find(pairs.keys, pair_key(min(u, v), max(u, v)))
        if pairs.keys[slot] == EMPTY:
            pairs.keys[slot] = pair_key(min(u, v), max(u, v))
            counts[0] += 1
        _insert(pairs.last, pairs.before, slot, held)
        _insert(nodes.last, nodes.before, v, held)
        for node in (u, v):
            if nodes.first[node] == 0 or nodes.first[node] > held:
                nodes.first[node] = held
        if nodes.place[v] < 0:
            nodes.place[v], nodes.order[counts[1]], nodes.order_first[counts[1]] = counts[1], v, held
            counts[1] += 1


@reader
def _insert(last: Array, before: Array, at: int, held: int) -> None:
    """Keep the newest two of three ranks."""
    if np.int64(last[at]) < held:
        before[at], last[at] = last[at], held
    elif np.int64(last[at]) > held and np.int64(before[at]) < held:
        before[at] = held
