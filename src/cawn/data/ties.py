"""An order of simultaneous links that does not depend on the order of rows.

Simultaneous links do not see each other, but a system that keeps only the last k links of a node, or that reads them
in sequence, still has to list them in some order. Here they are sorted by a hash of the entire past of their nodes,
which depends neither on the order of rows nor on node ids. Only links with equal hashes are sorted by node id or, if
asked for, kept in the order of rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.checks import Array
from cawn.data.events import Events
from cawn.kernels.cpu.ties import link_keys
from cawn.kernels.rng import mix64


def in_canonical_order(events: Events) -> Events:
    """The same links, simultaneous ones in an order that does not depend on rows; `events` itself without ties."""
    if not (events.t[1:] == events.t[:-1]).any():
        return events
    bits = np.ascontiguousarray(events.t + 0).view(np.uint64)  # + 0 turns -0.0 into 0.0
    attributes, colours = hash_rows(events.msg, len(events)), hash_rows(events.x, events.num_nodes)
    keys = np.empty(len(events), np.uint64)
    link_keys(events.src, events.dst, bits, attributes, colours, np.zeros_like(colours), keys)
    return events.reordered(np.lexsort((events.dst, events.src, keys, events.t)))


def batch_ends(t: Array, batch_size: int) -> npt.NDArray[np.int64]:
    """Where each complete batch of links at times t [E] ends: at the first change of time after `batch_size` links.

    So a batch never splits a tie, and whether it is complete before a time depends only on the links before that time.
    Links after the last complete batch are in no batch.
    """
    changes = np.append(np.flatnonzero(t[1:] != t[:-1]) + 1, len(t))
    ends, end = [], 0
    while (at := int(np.searchsorted(changes, end + batch_size))) < len(changes):
        end = int(changes[at])
        ends.append(end)
    return np.array(ends, np.int64)


def hash_rows(values: npt.NDArray[np.float32] | None, count: int) -> npt.NDArray[np.uint64]:
    """A hash of each row of a table: [count]; zeros without a table."""
    found = np.zeros(count, np.uint64)
    if values is not None:
        words: Any = np.ascontiguousarray(values + np.float32(0)).view(np.uint32).astype(np.uint64)
        for column in words.T:
            found = mix64(found * np.uint64(31) + column)
    return found
