"""The distinct walks of a batch: their nodes and links, how often each was sampled, and its shape."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cawn.caw.features import Batch
from cawn.checks import Array
from cawn.walks.identities import anonymize_each
from cawn.walks.sampling import Walks

ENDED = -1  # in shapes: the walk has ended before this position


@dataclass(frozen=True, slots=True)
class DistinctWalks:
    """The n distinct walks of B pairs. Walks over different links are distinct even if they visit the same nodes."""

    pair: Array  # [n]
    side: Array  # [n] 0: from u, 1: from v
    level: Array  # [n] the last position, which is also the depth of the walk's prefix
    row: Array  # [n] the row of that prefix in its level
    count: Array  # [n] how many of the M walks are this one
    nodes: Array  # [n, L], -1 after the end, as in the next two
    events: Array  # [n, L], also -1 at position 0
    t: Array  # [n, L]
    shapes: Array  # [n, L, 2] int16, (d_uw, d_vw): L if no walk from there has the node, ENDED after the end
    orders: Array  # [n, L] int16, I_AW: from 1, and 0 after the end


def distinct_walks(batch: Batch) -> DistinctWalks:
    """The leaves of the prefix trees of a traced batch, level by level."""
    L = len(batch.levels)
    first = np.where(batch.vectors > 0, np.arange(L), L).min(axis=1)  # [K] the first position with a count
    parts = []
    for depth, ending in enumerate(batch.levels):
        at = np.flatnonzero(ending.weight)
        n = len(at)
        owner, count = ending.owner[at], np.rint(ending.weight[at] * batch.num_walks).astype(np.int64)
        nodes, events = np.full((n, L), -1, np.int64), np.full((n, L), -1, np.int64)
        t = np.full((n, L), -1, ending.t.dtype)
        shapes = np.full((n, L, 2), ENDED, np.int16)
        row = at
        for i in range(depth, -1, -1):
            level = batch.levels[i]
            nodes[:, i], events[:, i], t[:, i] = level.node[row], level.event[row], level.t[row]
            side = level.owner[row] & 1
            distances = np.stack([first[level.own[row]], first[level.other[row]]], axis=1)
            shapes[:, i] = np.where(side[:, None] == 0, distances, distances[:, ::-1])
            row = level.parent[row]
        parts.append((owner >> 1, owner & 1, np.full(n, depth), at, count, nodes, events, t, shapes))
    joined = [np.concatenate(column) for column in zip(*parts, strict=True)]
    walks = joined[5][:, None].astype(np.int32)
    joined.append(anonymize_each(Walks(walks, walks, walks))[:, 0].astype(np.int16))
    return DistinctWalks(*joined)


def format_shape(shape: Array, length: int) -> str:
    """A shape in the paper's notation: (0,∞) → (1,2)."""
    pairs = [["∞" if d > length else str(d) for d in pair] for pair in shape.tolist() if pair[0] != ENDED]
    return " → ".join(f"({u},{v})" for u, v in pairs)


def describe_shape(shape: Array, length: int) -> str:
    """A shape in words: destination → common node → source."""

    def describe(u: int, v: int) -> str:
        if 0 in (u, v):
            return "source" if u == 0 else "destination"
        return "common node" if max(u, v) <= length else "other node"

    return " → ".join(describe(u, v) for u, v in shape.tolist() if u != ENDED)


def format_order(order: Array) -> str:
    """The order of an anonymous walk, from 0 as in the paper's Figure 9: 0 → 1 → 0."""
    return " → ".join(str(number - 1) for number in order.tolist() if number > 0)
