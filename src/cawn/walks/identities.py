"""Relative identities: a node is replaced by how often it occurs at each position of both walk sets of a pair."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.checks import check_threads
from cawn.errors import QueryError, brief, enough_memory
from cawn.kernels.threads import even_bounds, in_parallel
from cawn.walks.kernels.counts import count_positions, empty_counts
from cawn.walks.kernels.prefixes import Level
from cawn.walks.sampling import Walks

_PAIRS_PER_TASK = 256


def anonymize(walks_u: Walks, walks_v: Walks, *, threads: int | None = None) -> Any:
    """I_CAW of every position of the walks of B pairs (u, v): [B, 2, M, m + 1, 2, m + 1].

    `counts[b, s, k, i, r, j]` is the number of walks of side r (0: from u, 1: from v) whose node at position j is the
    node at position i of walk k of side s; 0 where a walk has ended. An int32 array, or a tensor for walks on a GPU.
    """
    _check(walks_u, walks_v)
    if isinstance(walks_u.nodes, np.ndarray) != isinstance(walks_v.nodes, np.ndarray):
        raise QueryError("one walk set is on the CPU, the other is not: sample both from the same history")
    if walks_u.nodes.shape != walks_v.nodes.shape:
        raise QueryError(
            f"the two walk sets have shapes {walks_u.nodes.shape} and {walks_v.nodes.shape}: sample both alike, "
            "as many queries, walks and steps"
        )
    if not isinstance(walks_u.nodes, np.ndarray):
        from cawn.kernels.cuda.launch import require_triton

        require_triton(walks_u.nodes.device)
        from cawn.walks import cuda

        return cuda.anonymize(walks_u.nodes, walks_v.nodes)
    check_threads(threads)
    B, M, L = walks_u.nodes.shape
    with enough_memory("counting positions", "ask for fewer walks at once"):
        counts = np.empty((B, 2, M, L, 2, L), np.int32)

    def count(first: int, last: int) -> None:
        count_positions(empty_counts(walks_u.nodes), walks_u.nodes, walks_v.nodes, counts, first, last)

    in_parallel(count, even_bounds(B, _PAIRS_PER_TASK), threads)
    return counts


def anonymize_each(walks: Walks) -> Any:
    """I_AW: each node replaced by the order of its first occurrence in its own walk, from 1; 0 after a walk's end.

    [B, M, m + 1] int32. It ignores which nodes walks have in common; used by the ablation in the paper's Table 3.
    """
    _check(walks)
    order = first_occurrences(walks.nodes)
    return order.astype(np.int32) if isinstance(order, np.ndarray) else order.int()


def first_occurrences(nodes: Any) -> Any:
    """`anonymize_each` of nodes [..., L], an array or a tensor: int64."""
    same = nodes[..., :, None] == nodes[..., None, :]  # [..., L, L]
    is_new = same.cumsum(-1).diagonal(0, -2, -1) == 1  # [..., L], no earlier position has the same node
    order = ((same & is_new[..., None, :]) * is_new.cumsum(-1)[..., None, :]).sum(-1)  # [..., L]
    return order * (nodes >= 0)


def walk_shapes(counts: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
    """The shape of every walk: the coordinates (d_uw, d_vw) of its nodes, [B, 2, M, m + 1, 2].

    d_uw is the first position at which a walk from u has the node, or infinity; both are -1 after a walk's end.
    """
    if not isinstance(counts, np.ndarray) or counts.ndim != 6 or counts.dtype.kind not in "iu":
        raise QueryError(f"counts is {brief(counts)}: give the integer array returned by `anonymize`")
    hit = counts > 0  # [B, 2, M, L, 2, L]
    occurs = hit.any(axis=-1)  # [B, 2, M, L, 2]
    distance = np.where(occurs, hit.argmax(axis=-1), np.inf).astype(np.float32)
    distance[~occurs.any(axis=-1)] = -1
    return distance


def _check(*sets: Walks) -> None:
    for walks in sets:
        if not isinstance(walks, Walks):
            raise QueryError(f"found a {type(walks).__name__}, expected Walks as returned by `sample`")
        shape, kind = (getattr(walks.nodes, name, None) for name in ("shape", "dtype"))
        if shape is None or len(shape) != 3 or str(kind).removeprefix("torch.") != "int32":
            raise QueryError(f"walks.nodes is {kind} of shape {shape}, expected an int32 array [B, M, m + 1]")


def path_orders(levels: list[Level]) -> npt.NDArray[np.int64]:
    """I_AW of the last node of each prefix of the last level: the order of its first appearance on the path, from 1."""
    path = [levels[-1].node]
    at = np.arange(len(path[0]))
    for level, above in zip(levels[:0:-1], levels[-2::-1], strict=True):
        at = level.parent[at]
        path.insert(0, above.node[at])
    nodes = np.stack(path, axis=1)  # [n, depth + 1]
    return np.asarray(first_occurrences(nodes)[:, -1])
