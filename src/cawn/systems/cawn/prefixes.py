"""Encode once: the walks of pairs as trees of distinct prefixes, with how many walks end where.

Walks that begin with the same links have the same encodings up to there. On UCI with M=64, m=2 only 72 of 192 positions
differ, and the count vectors of all nodes in a batch take a few hundred different values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.kernels.cpu.merge import merge_rows
from cawn.kernels.cpu.prefixes import Room, find_prefixes
from cawn.kernels.jit import in_parallel, num_threads
from cawn.walks.sampling import Walks

Array = npt.NDArray[Any]

_PAIRS_PER_TASK = 16


@dataclass(frozen=True, slots=True)
class Prefixes:
    """The walks of B pairs, each distinct prefix once."""

    num_pairs: int
    num_walks: int
    vectors: Array  # [K, m + 1] int32, the distinct count vectors
    levels: list[Room]  # m + 1 of them, the fields [n] each


def share_prefixes(walks_u: Walks, walks_v: Walks, *, threads: int | None = None) -> Prefixes:
    """The distinct prefixes of both walk sets of each pair."""
    B, M, _ = walks_u.nodes.shape
    pieces = max(1, min(num_threads(threads), B // _PAIRS_PER_TASK))
    bounds = np.linspace(0, B, pieces + 1).astype(int).tolist()
    parts: list[tuple[Array, list[Room]]] = [(np.empty(0), [])] * pieces

    def work(piece: int, _: int) -> None:
        parts[piece] = _share(walks_u, walks_v, bounds[piece], bounds[piece + 1])

    in_parallel(work, list(range(pieces + 1)), threads)
    if pieces == 1:
        return Prefixes(B, M, *parts[0])
    return Prefixes(B, M, np.concatenate([vectors for vectors, _ in parts]), _joined(parts, bounds))


def merge_prefixes(shared: Prefixes, roots: Array) -> tuple[Prefixes, list[Array]]:
    """Equal prefixes of different pairs once, and for each depth which of them each prefix is: [n_i].

    Prefixes are equal if they begin at the same root, take the same links, and meet nodes of the same counts. `owner`
    and `ended` of what is returned are those of one pair only.

    Args:
        roots: The number of the walk set of each side of each pair, by its node and time: [B, 2].
    """
    vectors, number = np.unique(shared.vectors, axis=0, return_inverse=True)
    number = number.reshape(-1)
    levels: list[Room] = []
    rows: list[Array] = []
    for room in shared.levels:
        own, other = number[room.own], number[room.other]
        parent = rows[-1][room.parent] if rows else room.parent
        step = room.event if rows else roots.reshape(-1)[room.owner]
        row, first = np.empty(len(step), np.int64), np.empty(len(step), np.int64)
        table = np.full(1 << (2 * len(step)).bit_length(), -1, np.int64)
        count = merge_rows(parent, step, own, other, table, row, first)
        some = first[:count]
        levels.append(Room(*(field[some] for field in room._replace(parent=parent, own=own, other=other))))
        rows.append(row)
    return Prefixes(shared.num_pairs, shared.num_walks, vectors, levels), rows


def _share(walks_u: Walks, walks_v: Walks, first: int, last: int) -> tuple[Array, list[Room]]:
    _, M, L = walks_u.nodes.shape
    pairs = max(last - first, 1)
    size = (L, 2 * M * pairs)
    room = Room(
        *(np.empty(size, np.int64) for _ in range(5)),
        *(np.empty(size, dtype) for dtype in (np.int32, np.int64, walks_u.t.dtype, np.float64, np.float64)),
    )
    # All walks of a set begin at its root, so the first count is 0 or M; the others are 0 to M.
    vectors = np.empty((min(4 * M * L * pairs, 2 * (M + 1) ** (L - 1)), L), np.int32)
    table = np.full(1 << (2 * len(vectors) - 1).bit_length(), -1, np.int64)
    set_u, set_v = ((walks.nodes, walks.t, walks.events) for walks in (walks_u, walks_v))
    sizes, num_vectors = find_prefixes(set_u, set_v, room, vectors, table, first, last)
    levels = [Room(*(field[i, :n] for field in room)) for i, n in enumerate(sizes.tolist())]
    return vectors[:num_vectors], levels


def _joined(parts: list[tuple[Array, list[Room]]], bounds: list[int]) -> list[Room]:
    """Levels of consecutive pairs one after the other, what they refer to moved along."""
    vectors_before = np.cumsum([0, *(len(vectors) for vectors, _ in parts)])
    joined = []
    for i in range(len(parts[0][1])):
        before = (
            np.cumsum([0, *(len(levels[i - 1].parent) for _, levels in parts)]) if i > 0 else np.zeros(len(parts), int)
        )
        moved = [
            levels[i]._replace(
                parent=levels[i].parent + before[k],
                owner=levels[i].owner + 2 * bounds[k],
                own=levels[i].own + vectors_before[k],
                other=levels[i].other + vectors_before[k],
            )
            for k, (_, levels) in enumerate(parts)
        ]
        joined.append(Room(*(np.concatenate(fields) for fields in zip(*moved, strict=True))))
    return joined
