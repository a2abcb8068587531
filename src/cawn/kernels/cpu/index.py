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


# The same in pieces, for lists that do not fit into memory; see `cawn.walks.external`. The lists of a range of nodes
# form a group: `group` says of each node to which one it belongs.


@njit
def count_entries(src: Array, dst: Array, counts: Array) -> None:
    """Add the entries of some events to those counted for each node so far."""
    for e in range(src.size):
        counts[src[e]] += 1
        if src[e] != dst[e]:
            counts[dst[e]] += 1


@njit
def group_nodes(starts: Array, most: int, group: Array) -> int:
    """Divide the nodes into ranges of at most `most` entries, or of one node; returns the number of groups."""
    current = entries = 0
    for v in range(group.size):
        length = starts[v + 1] - starts[v]
        if entries > 0 and entries + length > most:
            current += 1
            entries = 0
        entries += length
        group[v] = current
    return current + 1 if group.size > 0 else 0


@njit
def entries_by_group(
    src: Array,
    dst: Array,
    t: Array,
    first: int,
    group: Array,
    newest: Array,
    count: Array,
    ends: Array,
    owner: Array,
    time: Array,
    hop: Array,
) -> None:
    """The entries of consecutive events, grouped; within a group in time order.

    Args:
        first: The id of the first of these events.
        newest: [N] the time of each node's last entry so far; updated.
        count: [N, 2] int32, each node's entries so far, and those strictly before `newest`; updated.
        ends: [groups] where the entries of each group end in the three arrays that are filled.
    """
    at = np.zeros(ends.size, np.int64)
    for e in range(src.size):
        at[group[src[e]]] += 1
        if src[e] != dst[e]:
            at[group[dst[e]]] += 1
    total = 0
    for g in range(ends.size):
        total += at[g]
        ends[g] = total
        at[g] = total - at[g]
    for e in range(src.size):
        u, v, now = src[e], dst[e], t[e]
        if count[u, 0] == 0 or newest[u] < now:
            newest[u] = now
            count[u, 1] = count[u, 0]
        if count[v, 0] == 0 or newest[v] < now:
            newest[v] = now
            count[v, 1] = count[v, 0]
        i = at[group[u]]
        at[group[u]] += 1
        count[u, 0] += 1
        owner[i], time[i] = u, now
        hop[i, NODE], hop[i, LINK], hop[i, CUT] = v, 2 * (first + e), count[v, 1]
        if u != v:
            i = at[group[v]]
            at[group[v]] += 1
            count[v, 0] += 1
            owner[i], time[i] = v, now
            hop[i, NODE], hop[i, LINK], hop[i, CUT] = u, 2 * (first + e) + 1, count[u, 1]


@njit
def place_entries(
    owner: Array, time: Array, hop: Array, first: int, at: Array, time_out: Array, hop_out: Array
) -> None:
    """Move the entries of a group into the lists of its nodes, which start with node `first`.

    Args:
        at: [nodes of the group] where the list of each starts in the output; overwritten.
    """
    for j in range(owner.size):
        v = owner[j] - first
        i = at[v]
        at[v] += 1
        time_out[i] = time[j]
        for k in range(3):
            hop_out[i, k] = hop[j, k]


@njit
def continue_logsums(first: Array, time: Array, before: Array, alpha: float, P: float, logsum: Array) -> float:
    """`fill_logsums` along consecutive entries of any lists; returns the last P.

    Args:
        first: Whether each entry is the first of its list.
        before: [1] the time of the entry before these; not read if P is 0, which it is before the first entry.
        P: The value at the entry before these.
    """
    last = before[0]
    for i in range(time.size):
        if first[i]:
            P = 0.0
        if P > 0.0:
            P *= math.exp(-alpha * (time[i] - last))
        P += 1.0
        last = time[i]
        logsum[i] = math.log(P)
    return P


@njit
def continue_counts(first: Array, time: Array, before: Array, scale: float, count: float, sums: Array) -> float:
    """`decayed_counts` along consecutive entries of any lists; returns the last count, and takes that of the entry
    before these, 0 if there is none."""
    last = before[0]
    for i in range(time.size):
        sums[i] = 1.0
        if not first[i] and count > 0.0:
            sums[i] += count * math.exp(-(time[i] - last) / scale)
        count, last = sums[i], time[i]
    return count


@njit
def transitions(owner: Array, partner: Array, time: Array, last: Array, out: Array, when: Array) -> int:
    """Write the partners of each two consecutive entries of a node, [n, 2], and the time of the later one.

    Returns their number.

    Args:
        owner, partner, time: Entries in time order.
        last: [N] int32, the last partner of each node so far, -1 for none; updated.
    """
    count = 0
    for i in range(owner.size):
        if last[owner[i]] >= 0:
            out[count, 0], out[count, 1], when[count] = last[owner[i]], partner[i], time[i]
            count += 1
        last[owner[i]] = partner[i]
    return count
