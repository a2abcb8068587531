"""Building the index that walks are sampled from; see `kernels.cpu.walks` for its layout."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.kernels.cpu.walks import CUT, LINK, NODE
from cawn.kernels.jit import njit

Array = npt.NDArray[Any]


@njit
def list_starts(src: Array, dst: Array, num_nodes: int) -> Array:
    """Where each node's list starts: [num_nodes + 1]. A self-loop has one entry."""
    starts = np.zeros(num_nodes + 1, np.int64)
    for e in range(src.size):
        starts[src[e] + 1] += 1
        if src[e] != dst[e]:
            starts[dst[e] + 1] += 1
    for v in range(num_nodes):
        starts[v + 1] += starts[v]
    return starts


@njit
def fill_lists(src: Array, dst: Array, t: Array, starts: Array, time: Array, hop: Array) -> None:
    """Write both entries of each event, in one pass in time order."""
    num_nodes = starts.size - 1
    newest = np.empty(num_nodes, t.dtype)
    count = np.zeros((num_nodes, 2), np.int32)  # entries so far, and those strictly before `newest`
    for e in range(src.size):
        u, v, now = src[e], dst[e], t[e]
        if count[u, 0] == 0 or newest[u] < now:
            newest[u] = now
            count[u, 1] = count[u, 0]
        if count[v, 0] == 0 or newest[v] < now:
            newest[v] = now
            count[v, 1] = count[v, 0]
        i = starts[u] + count[u, 0]
        count[u, 0] += 1
        time[i] = now
        hop[i, NODE], hop[i, LINK], hop[i, CUT] = v, 2 * e, count[v, 1]
        if u != v:
            i = starts[v] + count[v, 0]
            count[v, 0] += 1
            time[i] = now
            hop[i, NODE], hop[i, LINK], hop[i, CUT] = u, 2 * e + 1, count[u, 1]


@njit
def fill_logsums(starts: Array, time: Array, alpha: float, logsum: Array, lo: int, hi: int) -> None:
    """Algorithm 2 along the lists of nodes lo..hi: P <- P exp(-alpha dt) + 1."""
    for v in range(lo, hi):
        P = 0.0
        for i in range(starts[v], starts[v + 1]):
            if P > 0.0:
                P *= math.exp(-alpha * (time[i] - time[i - 1]))
            P += 1.0
            logsum[i] = math.log(P)
