"""The lists of nodes: what walks are sampled from.

They have, beside what all lists have (see `cawn.index.kernels.lists`), for each entry:

    time[i]                 time of the link
    hop[i] = (node, link, cut)
        node                the other end
        link                2 * link + side, side 0 if the list is that of the source
        cut                 number of entries in the list of `node` that are strictly earlier than time[i]
    logsum[a, i]            log of P_i = sum over the entries j <= i of the list of exp(-alpha_a (t_i - t_j))

P is between 1 and the number of entries for any alpha and time unit, and times are subtracted before anything else:
nothing overflows, and no weight is lost that a 52-bit random number could resolve.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cawn.checks import Array
from cawn.index.kernels.building import CUT, LINK, NODE
from cawn.index.kernels.lists import LENGTH, count_before, count_below, find_list
from cawn.kernels.jit import njit, reader


class Nodes(NamedTuple):
    """The lists of all nodes, as one version of an index sees them."""

    span: Array  # [N or more] int64
    time: Array  # [entries] int64 or float64
    hop: Array  # [entries, 3] int32
    logsum: Array  # [decays, entries] float64
    alphas: Array  # [decays] float64
    chain: Array  # [replaced lists, 2] int64
    num_links: int
    version: int


@reader
def entries_of(nodes: Nodes, link: Array, node: Any, t: Any) -> tuple[Any, Any]:
    """The first entry of a node, and how many of its entries are strictly before t; `link` is a column of `hop`."""
    start, size = find_list(nodes.span, link, nodes.chain, nodes.version, node)
    seen = count_before(nodes.time, start, start + size, t)
    return start, count_below(link, start, seen, nodes.num_links)


@njit
def degrees(index: Nodes, nodes: Array, t: Array) -> Array:
    """How many links each node has strictly before t; none where the node is not known."""
    out, link = np.zeros(nodes.size, np.int64), index.hop[:, LINK]
    for q in range(nodes.size):
        _, out[q] = entries_of(index, link, nodes[q], t[q])
    return out


@njit
def recent_links(index: Nodes, nodes: Array, t: Array, out_nodes: Array, out_t: Array, out_events: Array) -> None:
    """Write the last links of each node strictly before t, newest first: [B, k] each."""
    link = index.hop[:, LINK]
    for q in range(nodes.size):
        start, seen = entries_of(index, link, nodes[q], t[q])
        for k in range(min(seen, out_nodes.shape[1])):
            i = start + seen - 1 - k
            out_nodes[q, k], out_t[q, k] = index.hop[i, NODE], index.time[i]
            out_events[q, k] = link[i] >> 1


@njit
def hops_are_sound(span: Array, hop: Array, time: Array, t: Array) -> bool:
    """Whether every hop leads to a node, to no more entries than its list has, and has the time of its link."""
    for i in range(len(hop)):
        node, link, cut = hop[i, NODE], hop[i, LINK], hop[i, CUT]
        if not (0 <= node < span.size and 0 <= link < 2 * t.size and 0 <= cut <= span[node] & LENGTH):
            return False
        if time[i] != t[link >> 1]:
            return False
    return True
