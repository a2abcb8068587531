"""GrowingIndex: an index that links are appended to while other threads read earlier versions of it.

Every version equals, bit for bit, an index built from scratch from the same links. Appending n links takes time
proportional to n, on average; a query takes as long as with an index built from scratch. Late links take time
proportional to the number of links after them, and to the lists of their nodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.data.columns import GrowingArray
from cawn.data.events import Events
from cawn.index.canonical import CanonicalOrder
from cawn.index.growing_lists import Added, GrowingLists
from cawn.index.index import Index
from cawn.index.kernels import building, canonical, growth
from cawn.index.kernels.lists import LENGTH, constant
from cawn.index.kinds import DESTINATIONS, KINDS, NEXT, NODES, ORIGINS, PAIRS, PARTNERS, SOURCES, TOTAL_BITS, WAYS, Kind
from cawn.kernels.keys import pair_key
from cawn.kernels.threads import even_bounds, in_parallel

Array = npt.NDArray[Any]


_NO_ROWS = np.empty(0, np.int64)


class GrowingIndex:
    """The writer of an index. Only one thread may use it; any number may read the versions it returns.

    Args:
        events: The links so far.
        index: Their index.
        attributes: Whether attributes may order simultaneous links.
    """

    def __init__(self, events: Events, index: Index, *, attributes: bool = True) -> None:
        flat = index.flat()
        self._lists = {kind: GrowingLists(kind, flat) for kind in KINDS if kind.name in flat.kinds}
        self._tails = _tails(self._lists[NODES], flat.alphas)
        self._totals, self._firsts = GrowingArray(flat.totals), GrowingArray(flat.firsts)
        self._order = CanonicalOrder(events, attributes=attributes) if PARTNERS in self._lists else None
        self._events = self._extended = events
        self._new_totals, self._new_firsts = (flat.totals[:0], 0), (flat.firsts[:0], 0)
        self.version = index  # published last
        self.num_appended = 0  # links since it was made

    def append(self, events: Events, kept: int | None = None) -> Index:
        """`extend`, then `publish`."""
        try:
            self.extend(events, kept)
            return self.publish()
        except BaseException:
            self.abandon()
            raise

    def extend(self, events: Events, kept: int | None = None) -> None:
        """Prepare the index of all of `events`, the first `kept` of which it already has (by default, all its links).

        No reader sees anything of it, and it has no effect, unless it is published.
        """
        first = len(self._events) if kept is None else min(kept, len(self._events))
        self._extended, number = events, self.version.version + 1
        links = np.arange(first, len(events), dtype=np.int32)
        added = self._add_nodes(events, links, first, number)
        if PAIRS in self._lists:
            self._add_pairs(events, links, first, number)
        if self._order is not None:
            self._add_partners(events, first, number)
            self._add_firsts(events, added, first)

    def publish(self) -> Index:
        """Let readers see the prepared index."""
        kinds = {kind.name: lists.publish(len(self._extended)) for kind, lists in self._lists.items()}
        extension, tails = self._new_tails
        self._tails = _with_rows(self._tails, self._lists[NODES].size)
        self._tails[extension.row] = tails
        if self._order is not None:
            self._order.publish()
        held, events = self.version, self._extended
        self.num_appended += max(len(events) - len(self._events), 0)
        self._events = events
        self._totals.append(*self._new_totals)
        self._firsts.append(*self._new_firsts)
        self.version = Index(
            events.t,
            events.num_nodes,
            held.alphas,
            held.decay,
            kinds,
            self._totals.view(),
            self._firsts.view(),
            held.version + 1,
        )
        return self.version

    def abandon(self) -> None:
        """Forget what was prepared."""
        for lists in self._lists.values():
            lists.abandon()
        if self._order is not None:
            self._order.abandon()
        self._extended = self._events

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()  # versions are pickled without it

    @property
    def nbytes(self) -> int:
        """Memory in use, without room that was never used."""
        rest = self._totals.view().nbytes + self._firsts.view().nbytes + self._tails.nbytes
        return sum(lists.nbytes for lists in self._lists.values()) + int(rest)

    def _add_nodes(self, events: Events, links: Array, first: int, number: int) -> Added:
        lists, alphas = self._lists[NODES], self.version.alphas
        nodes, entries = building.both_ends(events.src, events.dst, links)
        added = lists.extend(nodes, first, number)
        time, hop, logsum = (lists.columns[name] for name in NODES.columns)
        growth.extend_nodes(
            entries, added.which, added.position, events.src, events.dst, events.t, time, hop, added.extension
        )
        tails = np.empty((len(added.extension.row), len(alphas)))
        growth.extend_logsums(time, alphas, logsum, self._tails, lists.span, added.extension, tails)
        lists.fill_sums(events.t)
        self._new_tails = added.extension, tails
        return added

    def _add_pairs(self, events: Events, links: Array, first: int, number: int) -> None:
        """Add to the lists that features of rates are computed from."""
        src, dst = (ends[first:].astype(np.int64) for ends in (events.src, events.dst))
        of_source, backwards = 2 * links, (src > dst).astype(np.int32)
        pairs = self._lists[PAIRS].rows_of(pair_key(np.minimum(src, dst), np.maximum(src, dst)))
        rows = {
            PAIRS: (pairs, of_source + backwards),
            WAYS: (2 * pairs + backwards, of_source + backwards),
            SOURCES: (src, of_source),
            DESTINATIONS: (dst, of_source + 1),
        }
        for kind, (which, entries) in rows.items():
            if kind in self._lists:
                self._lists[kind].extend_links(which, entries, events.t, first, number)

    def _add_partners(self, events: Events, first: int, number: int) -> None:
        """Add to the lists in canonical order, and count the transitions that change."""
        assert self._order is not None
        lists = self._lists[PARTNERS]
        begin, keys = self._order.extend(events, first)
        keys = constant(keys)
        times = events.t[first:]
        order = first + np.lexsort((keys[first - begin :], times))
        nodes, entries = building.both_ends(events.src, events.dst, order)
        keep = _NO_ROWS
        if begin < first:  # the first new links are at the newest time so far
            tied = len(
                building.both_ends(events.src, events.dst, order[: np.searchsorted(times, times[0], "right")])[0]
            )
            merged, keep = self._merged(nodes[:tied], entries[:tied], begin, keys)
            nodes, entries = (np.append(a, b[tied:]) for a, b in zip(merged, (nodes, entries), strict=True))
        added = lists.extend(nodes, first, number, keep=keep)
        link, partner = lists.columns["link"], lists.columns["partner"]
        link[added.position] = entries
        partner[added.position] = building.other_ends(events.src, events.dst, entries)
        new, old = np.empty((2, len(entries), 3), np.int64)
        counts = canonical.changed_transitions(entries, *added, link, partner, first, new, old)
        new, old = new[: counts[0]], old[: counts[1]]
        if first < len(self._events):
            old = self._dropped(added)
        for kind in (NEXT, ORIGINS):
            self._count_transitions(kind, events.t, new, old, (begin, first), number)

    def _merged(self, nodes: Array, entries: Array, begin: int, keys: Array) -> tuple[tuple[Array, Array], Array]:
        """The entries of nodes at the newest time from the first new one on, in order, and how many come before."""
        lists = self._lists[PARTNERS]
        which, order, row, more = np.empty((4, len(nodes)), np.int64)
        num = growth.distinct_rows(nodes.astype(np.int64), len(nodes), which, order, row, more)
        row, more, keep = row[:num], more[:num], np.empty(num, np.int64)
        lists.make_rows(int(row.max(initial=-1)) + 1)
        growth.entries_kept(lists.span, lists.link, row, begin, keep)
        room = int((lists.span[row] & LENGTH).sum() - keep.sum()) + len(nodes)
        found = np.empty(room, np.int32), np.empty(room, np.int32)
        size = canonical.insert_into_runs(entries, which, more, begin, keys, lists.span, lists.link, row, keep, *found)
        return (found[0][:size], found[1][:size]), keep

    def _dropped(self, added: Added) -> Array:
        """The transitions to entries of partners that are removed: [n, 3]."""
        lists = self._lists[PARTNERS]
        removed = np.empty((int((lists.span[added.extension.row] & LENGTH).sum()), 3), np.int64)
        columns = lists.columns["link"], lists.columns["partner"]
        return removed[: canonical.dropped_transitions(added.extension, lists.span, *columns, removed)]

    def _count_transitions(
        self, kind: Kind, t: Array, new: Array, old: Array, known: tuple[int, int], number: int
    ) -> None:
        """Add and remove transitions: the two partners and the entry of the later one [n, 3].

        Args:
            known: The first link at the time of the first new one, and the first new one.
        """
        lists, (begin, first) = self._lists[kind], known
        both = np.concatenate([new, old])
        rows = lists.rows_of(pair_key(both[:, 0], both[:, 1])) if kind.keyed else both[:, 0]
        rows, gone = rows[: len(new)], rows[len(new) :]
        entries = new[:, 2].astype(np.int32)
        if begin == first:
            lists.extend_links(rows, entries, t, first, number, shortened=gone)
            return
        affected = np.unique(np.concatenate([gone, rows[entries < 2 * first]]))
        size = 1
        while True:
            of, held = np.empty(size, np.int64), np.empty(size, np.int32)
            lists.make_rows(int(affected.max(initial=-1)) + 1)
            count = canonical.entries_from(affected, lists.span, lists.link, begin, of, held)
            if count <= size:
                break
            size = count
        stay = ~np.isin(held[:count], old[:, 2])
        rows, entries = np.append(of[:count][stay], rows), np.append(held[:count][stay], entries)
        lists.extend_links(rows, entries, t, first, number, rewritten=(affected, begin), shortened=gone)

    def _add_firsts(self, events: Events, added: Added, first: int) -> None:
        """Count the links of all nodes, and the nodes that have any."""
        start, hop = added.extension.start, self._lists[NODES].columns["hop"]
        new = (added.extension.keep == 0) & (added.extension.more > 0)
        firsts = np.sort(hop[start[new], building.LINK] & ~1)
        kept = first >> TOTAL_BITS
        offset = max(kept - 1, 0)
        totals = np.empty((len(events) >> TOTAL_BITS) - offset)
        totals[: kept - offset] = self._totals.view()[offset:kept]
        building.fill_totals(events.t, self.version.decay, TOTAL_BITS, totals, kept, offset)
        known = int(np.searchsorted(self._firsts.view(), 2 * first))
        self._new_totals, self._new_firsts = (totals[kept - offset :], kept), (firsts, known)


def _tails(nodes: GrowingLists, alphas: Array) -> Array:
    """P of Algorithm 2 at the newest entry of every node."""
    tails = np.zeros((nodes.size, len(alphas)))
    span, time = nodes.span, nodes.columns["time"]
    in_parallel(
        lambda lo, hi: growth.newest_sums(span, time, alphas, tails, lo, hi), even_bounds(nodes.size, 1 << 10), None
    )
    return tails


def _with_rows(array: Array, size: int) -> Array:
    """The array itself if it has this many rows, else a copy of half as many again."""
    if len(array) >= size:
        return array
    larger = np.zeros((size + size // 2, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


def growing_index(held: GrowingIndex | None, events: Events, index: Index, *, attributes: bool) -> GrowingIndex:
    """The index that can extend a version: its own, or a new one if its own has newer links."""
    if held is not None and held.version is index:
        return held
    return GrowingIndex(events, index, attributes=attributes)
