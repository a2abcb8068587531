"""GrowingIndex: an index that links are appended to while other threads read earlier versions of it.

Every version equals, bit for bit, an index built from scratch from the same links. Appending n links takes time
proportional to n, on average; a query takes as long as with an index built from scratch. Late links take time
proportional to the number of links after them, and to the lists of their nodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cawn.checks import Array
from cawn.data.columns import GrowingArray, with_room
from cawn.data.events import Events
from cawn.index.building import TAILS, build_logsums
from cawn.index.canonical import CanonicalOrder, in_order
from cawn.index.growing_lists import GrowingLists
from cawn.index.index import Index
from cawn.index.kernels import building, growth
from cawn.index.kernels.lists import LENGTH, START_BITS, constant
from cawn.index.kinds import ALL, DESTINATIONS, KINDS, NEXT, NODES, ORIGINS, PAIRS, PARTNERS, SOURCES, TOTAL_BITS, WAYS
from cawn.kernels.keys import pair_key


class GrowingIndex:
    """The writer of an index. Only one thread may use it; any number may read the versions it returns."""

    def __init__(self, events: Events, index: Index, *, attributes: bool = True, own: bool = False) -> None:
        """Of the links so far; `attributes` may order simultaneous ones.

        `own`: whether the index has room to grow and nobody else extends it; else it is copied.
        """
        held = index if own else index.flat()
        self._lists = {kind: GrowingLists(kind, held) for kind in KINDS if kind.name in held.kinds}
        nodes = self._lists[NODES]
        if own:
            self._tails = held.kinds[NODES.name][TAILS]
        else:
            self._tails = np.zeros((nodes.size, len(held.alphas)))
            span, time = nodes.span[: nodes.size], nodes.columns["time"]
            build_logsums(span, time, held.alphas, np.empty((0, 0)), None, self._tails)
        self._all = {name: GrowingArray(array) for name, array in held.kinds.get(ALL, {}).items()}
        self._order = CanonicalOrder(events, attributes=attributes) if PARTNERS in self._lists else None
        self._events = self._extended = events
        self._new: dict[str, tuple[Array, int]] = {}  # of `ALL`, and how many are kept before
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

        No reader sees anything of it, and it has no effect, unless it is published. If links are late, all links at the
        time of the first of them are given as new.
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
        row, tails = self._new_tails
        self._tails[row] = tails
        if self._order is not None:
            self._order.publish()
        held, events = self.version, self._extended
        self.num_appended += max(len(events) - len(self._events), 0)
        self._events = events
        for name, new in self._new.items():
            self._all[name].append(*new)
        if self._all:
            kinds[ALL] = {name: array.view() for name, array in self._all.items()}
        self.version = Index(events.t, events.num_nodes, held.alphas, held.decay, kinds, held.version + 1)
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
        rest = self._tails.nbytes + sum(array.view().nbytes for array in self._all.values())
        return sum(lists.nbytes for lists in self._lists.values()) + int(rest)

    def _add_nodes(self, events: Events, links: Array, first: int, number: int) -> growth.Added:
        lists, alphas = self._lists[NODES], self.version.alphas
        nodes, entries = building.both_ends(events.src, events.dst, links)
        added = lists.extend(nodes, first, number)
        extension = added.extension
        row, keep = extension.row, extension.keep
        time, hop, logsum = (lists.columns[name] for name in NODES.columns)
        growth.extend_nodes(entries, added, events.src, events.dst, events.t, time, hop)
        self._tails = with_room(self._tails, len(lists.span))
        cut = np.flatnonzero(keep < lists.span[row] & LENGTH)  # P is known at the newest entry alone
        tails, P = self._tails[row], np.zeros((len(cut), len(alphas)))
        kept = extension.start[cut] << START_BITS | keep[cut]
        building.fill_logsums(kept, np.zeros_like(kept), time, alphas, P, np.empty((0, 0)))
        tails[cut] = P
        building.fill_logsums(extension.span, keep, time, alphas, tails, logsum)
        lists.fill_sums(events.t)
        self._new_tails = row, tails
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
        lists, is_late = self._lists[PARTNERS], first < len(self._events)
        begin, keys = self._order.extend(events, first)
        times = events.t[first:]
        order = first + in_order(times, keys[first - begin :])
        nodes, entries = building.both_ends(events.src, events.dst, order)
        tied = np.searchsorted(events.t[entries >> 1], times[0], "right") if begin < first else 0
        ties = growth.Ties(entries[:tied], begin, constant(keys))
        added = lists.extend(nodes, first, number, ties=ties)
        row, _, keep, *_ = added.extension
        link, partner = lists.columns["link"], lists.columns["partner"]
        start, gone = lists.span[row] >> START_BITS, (lists.span[row] & LENGTH) - keep
        new, old = np.empty((2, 2 * len(entries)), np.int64), np.empty((2, len(entries)), np.int64)
        found = entries, building.other_ends(events.src, events.dst, entries)
        tail = np.zeros_like(gone) if is_late else gone
        sizes = growth.extend_partners(found, added, ties, tail, (link, partner), (new, old))
        (pairs, later), (parted, again) = new[:, : sizes[0]], old[:, : sizes[1]]
        if is_late:
            dropped = _positions(start + np.maximum(keep, 1), gone - (keep == 0))
            parted = pair_key(partner[dropped - 1], partner[dropped])
        following = self._lists[NEXT]
        rows = following.rows_of(np.append(pairs, parted))
        following.extend_links(rows[: len(pairs)], later, events.t, first, number, removed=rows[len(pairs) :])
        origins, later = np.delete(pairs, again) >> 32, np.delete(later, again)
        removed = parted >> 32 if is_late else parted[:0]
        self._lists[ORIGINS].extend_links(origins, later, events.t, first, number, removed=removed)

    def _add_firsts(self, events: Events, added: growth.Added, first: int) -> None:
        """Count the links of all nodes, and the nodes that have any."""
        start, hop = added.extension.start, self._lists[NODES].columns["hop"]
        new = (added.extension.keep == 0) & (added.extension.more > 0)
        firsts = np.sort(hop[start[new], building.LINK] & ~1)
        kept = first >> TOTAL_BITS
        last = float(self._all["totals"].view()[kept - 1]) if kept else 0.0
        totals = building.totals_from(events.t, self.version.decay, TOTAL_BITS, kept, last)
        known = int(np.searchsorted(self._all["firsts"].view(), np.int32(2 * first)))
        self._new = {"totals": (totals, kept), "firsts": (firsts, known)}


def _positions(start: Array, count: Array) -> Array:
    """The positions of `count` entries from each `start` on."""
    count = np.maximum(count, 0)
    return np.repeat(start - np.cumsum(count) + count, count) + np.arange(count.sum())


def growing_index(held: GrowingIndex | None, events: Events, index: Index, *, attributes: bool) -> GrowingIndex:
    """The index that can extend a version: its own, or a new one if its own has newer links."""
    if held is not None and held.version is index:
        return held
    return GrowingIndex(events, index, attributes=attributes)
