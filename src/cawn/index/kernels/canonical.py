"""The partners of nodes in canonical order, and the transitions between them, where links are added.

A *run* is the entries of a node at the newest time, which come in the order of the keys of their links.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.index.kernels.growth import Extension
from cawn.index.kernels.lists import LENGTH, START_BITS, count_below
from cawn.kernels.jit import njit

Array = npt.NDArray[Any]


@njit
def insert_into_runs(
    entries: Array,
    which: Array,
    more: Array,
    first_link: int,
    keys: Array,
    span: Array,
    link: Array,
    distinct: Array,
    keep: Array,
    rows: Array,
    merged: Array,
) -> int:
    """Merge new entries [n], in the order of keys, into the runs of their nodes; returns the number of entries.

    Args:
        which: The position of each entry's node in `distinct`.
        more: The number of new entries of each distinct node [m].
        first_link: The first link at this time; `keys` are those of the links from it on.
        span, link: The partners of nodes.
        keep: Written: the number of entries before the first new one [m].
        rows: Written: nodes and, in `merged`, entries that come after those, with room for all.
    """
    ends = np.cumsum(more)
    sorted_entries, at = np.empty(entries.size, np.int32), ends - more
    for i in range(entries.size):
        sorted_entries[at[which[i]]] = entries[i]
        at[which[i]] += 1
    size = 0
    for d in range(distinct.size):
        packed = np.int64(0) if distinct[d] >= span.size else span[distinct[d]]
        old, stop = packed >> START_BITS, (packed >> START_BITS) + (packed & LENGTH)
        i = old + count_below(link, old, stop - old, first_link)
        for k in range(ends[d] - more[d], ends[d]):
            key, before, hi = keys[(sorted_entries[k] >> 1) - first_link], i, stop
            while i < hi:  # past all entries with at most this key
                mid = (i + hi) >> 1
                if keys[(link[mid] >> 1) - first_link] <= key:
                    i = mid + 1
                else:
                    hi = mid
            if k == ends[d] - more[d]:
                keep[d], before = i - old, i
            for j in range(before, i):
                rows[size], merged[size] = distinct[d], link[j]
                size += 1
            rows[size], merged[size] = distinct[d], sorted_entries[k]
            size += 1
        for j in range(i, stop):
            rows[size], merged[size] = distinct[d], link[j]
            size += 1
    return size


@njit
def changed_transitions(
    entries: Array,
    which: Array,
    position: Array,
    extension: Extension,
    link: Array,
    partner: Array,
    num_links: int,
    added: Array,
    removed: Array,
) -> tuple[int, int]:
    """The transitions that new entries of partners [n] add and remove; returns the numbers of both.

    Args:
        num_links: Entries of these links were there before.
        added, removed: Written: the two partners and the entry of the later one, [n, 3] each.
    """
    num = gone = 0
    for i in range(entries.size):
        d, at = which[i], position[i]
        is_first, is_old = at == extension.start[d], entries[i] < 2 * num_links
        if is_old and not is_first and link[at - 1] < 2 * num_links:
            continue  # it came after the same entry before
        if not is_first:
            added[num, 0], added[num, 1], added[num, 2] = partner[at - 1], partner[at], entries[i]
            num += 1
        if is_old:
            k = at - 1
            while k >= extension.start[d] and link[k] >= 2 * num_links:
                k -= 1
            if k >= extension.start[d]:
                removed[gone, 0], removed[gone, 1], removed[gone, 2] = partner[k], partner[at], entries[i]
                gone += 1
    return num, gone


@njit
def dropped_transitions(extension: Extension, span: Array, link: Array, partner: Array, removed: Array) -> int:
    """The transitions to entries that lists do not keep, as `removed` above; returns their number."""
    gone = 0
    for d in range(extension.row.size):
        packed = span[extension.row[d]]
        start, size = packed >> START_BITS, packed & LENGTH
        for i in range(start + max(extension.keep[d], 1), start + size):
            removed[gone, 0], removed[gone, 1], removed[gone, 2] = partner[i - 1], partner[i], link[i]
            gone += 1
    return gone


@njit
def entries_from(rows: Array, span: Array, link: Array, num_links: int, of: Array, found: Array) -> int:
    """The entries of rows that do not belong to the first `num_links` links; returns their number.

    Args:
        of, found: Written: the row and the entry of each; not filled if they have no room.
    """
    n = 0
    for row in rows:
        packed = span[row]
        start, size = packed >> START_BITS, packed & LENGTH
        for i in range(start + count_below(link, start, size, num_links), start + size):
            if n < found.size:
                of[n], found[n] = row, link[i]
            n += 1
    return n
