"""The different walks behind a batch: where each went, how many took it, and its shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.systems.cawn.features import Batch
from cawn.walks.identities import anonymize_each
from cawn.walks.sampling import Walks

Array = npt.NDArray[Any]

ENDED = -1  # in shapes: there is no node any more


@dataclass(frozen=True, slots=True)
class Leaves:
    """The n different walks of B pairs. A walk that took other links is another one, even to the same nodes."""

    pair: Array  # [n]
    side: Array  # [n] 0: from u, 1: from v
    level: Array  # [n] its last position, which is also the depth of its prefix
    row: Array  # [n] and the place of that prefix in the level
    count: Array  # [n] how many of the M walks took it
    nodes: Array  # [n, L], -1 where it has ended, as in the next two
    events: Array  # [n, L], also -1 at position 0
    t: Array  # [n, L]
    shapes: Array  # [n, L, 2] int16, coordinates (d_uw, d_vw): L where no walk from there has the node, -1 once ended
    orders: Array  # [n, L] int16, I_AW: from 1, and 0 once ended


def leaves_of(batch: Batch) -> Leaves:
    """The leaves of the trees of prefixes of a traced batch, level by level."""
    L = len(batch.levels)
    first = np.where(batch.vectors > 0, np.arange(L), L).min(axis=1)  # [K] the first position with a hit
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
    return Leaves(*joined)


def shape_text(shape: Array, length: int) -> str:
    """As the paper writes it: (0,∞) → (1,2)."""
    kept = [f"({_distance(u, length)},{_distance(v, length)})" for u, v in shape.tolist() if u != ENDED]
    return " → ".join(kept)


def shape_words(shape: Array, length: int) -> str:
    """The same in words: destination → common node → source."""

    def named(u: int, v: int) -> str:
        if 0 in (u, v):
            return "source" if u == 0 else "destination"
        return "common node" if max(u, v) <= length else "other node"

    return " → ".join(named(u, v) for u, v in shape.tolist() if u != ENDED)


def order_text(order: Array) -> str:
    """Likewise for I_AW, from 0 as the paper's Figure 9: 0 → 1 → 0."""
    return " → ".join(str(number - 1) for number in order.tolist() if number > 0)


def _distance(d: int, length: int) -> str:
    return "∞" if d > length else str(d)
