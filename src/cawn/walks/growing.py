"""GrowingIndex: an index that links are appended to while other threads read earlier versions of it.

Every version equals, bit for bit, an index built from scratch from the same links. Appending n links takes time
proportional to n, on average; a query takes as long as with an index built from scratch. More links may arrive at the
newest time; simultaneous links are ordered by their keys (see `cawn.data.ties`).
"""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cawn.data.events import Events
from cawn.data.growing import GrowingArray
from cawn.data.ties import hash_rows
from cawn.kernels.cpu import growing
from cawn.kernels.cpu.sequences import FlatLists, Lists
from cawn.kernels.cpu.spans import constant
from cawn.kernels.cpu.ties import link_keys, simultaneous_keys
from cawn.walks.history import History
from cawn.walks.lists import GrowingLists, ListsVersion, Reserved, Versions
from cawn.walks.pairs import PairFeatures
from cawn.walks.rates import Rates
from cawn.walks.sequences import Sequences

Array = npt.NDArray[Any]

_CHECKPOINT = 1 << 16  # links after which the colours of nodes are recorded, for links that arrive late


class Token:
    """Held by everything that reads one version of the index."""


class IndexVersion(NamedTuple):
    """An immutable version of the index."""

    history: History
    pair_features: PairFeatures | None


class GrowingIndex:
    """The index of a growing network. Only one thread may append; any number may read the versions.

    Args:
        events: The links so far.
        history: Their index.
        pair_features: The features of pairs, if they are used.
        attributes: Whether attributes may order simultaneous links.
    """

    def __init__(
        self, events: Events, history: History, pair_features: PairFeatures | None, *, attributes: bool = True
    ) -> None:
        self._versions, self._token = Versions(), Token()
        self._alphas, self._attributes = history.index.alphas, attributes
        arrays = dict(history.arrays)
        starts = arrays.pop("starts")
        del arrays["alphas"]
        self._events, self._pairs, self._sequences = events, None, None
        if pair_features is not None:
            self._parts, self._unit = pair_features.parts, pair_features.unit
            rates, sequences = pair_features.rates, pair_features.sequences
            more = {} if sequences is None else {"pair_sum": sequences.flat.pair_sum}
            self._pairs = _GrowingRates(self._versions, rates, more, history.num_nodes)
            if sequences is not None:
                arrays["activity"] = sequences.flat.activity
                self._sequences = _GrowingSequences(self._versions, events, sequences.flat, attributes)
        self._nodes = GrowingLists(self._versions, starts, arrays, alphas=self._alphas)
        self.num_appended = 0  # links since it was made
        self.version: IndexVersion | None = self._publish(events)  # None if an append failed

    def append(self, events: Events, kept: int | None = None) -> IndexVersion:
        """Extend the index to all of `events`, the first `kept` of which it already has (by default, all its links).

        Its other links are removed first, which takes time proportional to the lists of their nodes; all of them must
        be newer than the links that are kept.
        """
        self.version = None
        if kept is not None and kept < len(self._events):
            self._remove_after(kept)
        first, self._versions.current = len(self._events), self._versions.current + 1
        src, dst = (ends[first:].astype(np.int64) for ends in (events.src, events.dst))
        t = events.t[first:]
        once = np.stack([np.ones(len(src), np.bool_), src != dst], axis=1).ravel()
        owners = np.stack([src, dst], axis=1).ravel()[once]
        nodes = self._nodes
        nodes.begin(events.num_nodes)
        reserved = nodes.reserve(owners)
        entries = reserved.position, reserved.which, reserved.distinct
        growing.append_links(src, dst, t, first, entries, nodes.columns["time"], nodes.columns["hop"])
        _append_logsums(nodes, reserved, self._alphas)
        if self._pairs is not None:
            self._pairs.append(src, dst, t, events.num_nodes, self._alphas, self._scale)
        if self._sequences is not None:
            growing.append_sums(
                reserved.which,
                reserved.position,
                reserved.distinct,
                nodes.columns["time"],
                self._sequences.scale,
                nodes.columns["activity"],
            )
            self._sequences.append(events, first, owners, reserved, nodes)
        self._events = events
        self.num_appended += len(src)
        self.version = self._publish(events)
        return self.version

    def _remove_after(self, kept: int) -> None:
        """Remove all links after the first `kept`."""
        self._versions.current += 1
        held, self._events = self._events, self._events[:kept]
        src, dst = (ends[kept:].astype(np.int64) for ends in (held.src, held.dst))
        rows, counts = np.unique(np.concatenate([src, dst[src != dst]]), return_counts=True)
        self._nodes.begin(0)
        if self._sequences is not None:
            self._sequences.remove(self._events, rows, counts, held.t[kept])
        self._nodes.shorten(rows, counts)
        if self._pairs is not None:
            self._pairs.remove(src, dst)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(None), ()  # versions are pickled without it

    @property
    def _scale(self) -> float | None:
        return None if self._sequences is None else self._sequences.scale

    @property
    def nbytes(self) -> int:
        """Memory in use, without the room to grow."""
        lists = [self._nodes, *([] if self._pairs is None else self._pairs.lists)]
        return sum(one.nbytes for one in lists) + (0 if self._sequences is None else self._sequences.nbytes)

    def _publish(self, events: Events) -> IndexVersion:
        self._token = Token()
        self._versions.publish(self._token)
        nodes = self._nodes.version()
        history, pair_features = History.of_version(nodes, self._alphas, self._token), None
        if self._pairs is not None:
            lists = [one.version() for one in self._pairs.lists]
            rates, sequences = self._pairs.version(lists, history), None
            if self._sequences is not None:
                sequences = self._sequences.version(events, nodes, lists[0], rates, history)
            pair_features = PairFeatures(self._parts, rates, sequences, self._unit)
        return IndexVersion(history, pair_features)


def growing_index(
    held: GrowingIndex | None,
    events: Events,
    history: History,
    pair_features: PairFeatures | None,
    attributes: bool,
) -> GrowingIndex:
    """The index that can extend a version: its own, or a new one if its own has newer links or has failed."""
    if held is not None and held.version is not None and held.version.history is history:
        return held
    return GrowingIndex(events, history, pair_features, attributes=attributes)


class _GrowingRates:
    """The lists of `Rates`: pairs and, if directed, directed pairs, sources and destinations."""

    def __init__(self, versions: Versions, rates: Rates, more: dict[str, Array], num_nodes: int) -> None:
        pairs, _, *directed = rates.counts
        columns, alphas = {"time": pairs.time, "logsum": pairs.logsum} | more, constant(pairs.alphas)
        self.lists = [GrowingLists(versions, pairs.starts, columns, keys=pairs.keys, alphas=alphas)]
        self._directed_rows = GrowingArray(np.empty((0, 2), np.int32))
        self._node_rows = GrowingArray(np.empty(0, np.int32))
        if directed:
            ways, *ends = directed
            columns = {"time": ways.time, "logsum": ways.logsum}
            self.lists.append(GrowingLists(versions, ways.starts, columns, keys=ways.keys, alphas=alphas))
            for one in ends:
                starts = np.searchsorted(one.keys, np.arange(num_nodes + 1))
                columns = {"time": one.time, "logsum": one.logsum}
                self.lists.append(GrowingLists(versions, one.starts[starts], columns, alphas=alphas))
            low, high = pairs.keys >> 32, pairs.keys & 0xFFFFFFFF
            rows = np.full((len(pairs.keys), 2), -1, np.int32)
            for way, keys in enumerate((low << 32 | high, high << 32 | low)):
                at = np.minimum(np.searchsorted(ways.keys, keys), max(len(ways.keys) - 1, 0))
                rows[:, way] = np.where(ways.keys[at] == keys, at, -1) if len(at) else -1
            self._directed_rows.append(rows)
            self._node_rows.append(np.arange(num_nodes, dtype=np.int32))

    def append(self, src: Array, dst: Array, t: Array, num_nodes: int, alphas: Array, scale: float | None) -> None:
        pairs, *directed = self.lists
        pairs.begin(0)
        before, rows = pairs.size, pairs.rows_of(np.minimum(src, dst) << 32 | np.maximum(src, dst))
        reserved = _extend(pairs, rows, t, alphas)
        if scale is not None:
            growing.append_sums(
                reserved.which,
                reserved.position,
                reserved.distinct,
                pairs.columns["time"],
                scale,
                pairs.columns["pair_sum"],
            )
        if directed:
            ways, *ends = directed
            self._directed_rows.append(np.full((pairs.size - before, 2), -1, np.int32))
            ways.begin(0)
            row_of_way = ways.rows_of(src << 32 | dst)
            self._directed_rows.values[rows, (src > dst).astype(np.int64)] = row_of_way
            _extend(ways, row_of_way, t, alphas)
            for lists, nodes in zip(ends, (src, dst), strict=True):
                lists.begin(num_nodes)
                _extend(lists, nodes, t, alphas)
            self._node_rows.append(np.arange(len(self._node_rows), num_nodes, dtype=np.int32))

    def remove(self, src: Array, dst: Array) -> None:
        """Remove the newest links."""
        pairs, *directed = self.lists
        keys = [np.minimum(src, dst) << 32 | np.maximum(src, dst), *((src << 32 | dst, src, dst) if directed else ())]
        for lists, some in zip(self.lists, keys, strict=True):
            lists.begin(0)
            distinct, counts = np.unique(some, return_counts=True)
            lists.shorten(lists.rows_of(distinct) if lists in (pairs, *directed[:1]) else distinct, counts)

    def version(self, lists: list[ListsVersion], history: History) -> Rates:
        return Rates.of_versions(lists, (self._directed_rows.values, self._node_rows.view()), history)


class _GrowingSequences:
    """The lists of `Sequences`, besides those of `Rates` and `History`."""

    def __init__(self, versions: Versions, events: Events, flat: FlatLists, attributes: bool) -> None:
        self.scale, self._attributes = float(flat.scale), attributes
        self._partners = GrowingLists(versions, flat.starts, {"partner": flat.partner})
        self._next = GrowingLists(
            versions, flat.next_starts, {"time": flat.next_time, "sum": flat.next_sum}, keys=flat.next_keys
        )
        self._origins = GrowingLists(versions, flat.from_starts, {"time": flat.from_time, "sum": flat.from_sum})
        self._all_sum, self._first_time = GrowingArray(flat.all_sum), GrowingArray(flat.first_time)
        # The colours of nodes before the newest time, and which links have that time.
        self._colours = GrowingArray(self._first_colours(events, 0))
        self._scratch = GrowingArray(np.zeros(events.num_nodes, np.uint64))
        self._newest, self._moment = 0, 0
        self._checkpoints: list[tuple[int, int, Array]] = []  # earlier states of the three
        self._find_keys(events)

    def _first_colours(self, events: Events, first: int) -> Array:
        """The colours of nodes without links, from node `first` on."""
        x = events.x[first:] if self._attributes and events.x is not None else None
        return hash_rows(x, events.num_nodes - first)

    def _find_keys(self, events: Events) -> Array:
        """The keys of all links from the newest time of the last call on."""
        start, t = self._newest, events.t[self._newest :]
        src, dst = events.src[start:], events.dst[start:]
        msg = events.msg[start:] if self._attributes and events.msg is not None else None
        attributes, keys = hash_rows(msg, len(t)), np.empty(len(t), np.uint64)
        if len(t) == 0:
            return keys
        moments = self._moment + np.append(0, np.cumsum(t[1:] != t[:-1]))
        last = int(np.searchsorted(moments, moments[-1]))
        past, now = slice(None, last), slice(last, None)
        colours, scratch = self._colours.values, self._scratch.values
        bits = moments[past].view(np.uint64)
        link_keys(src[past], dst[past], bits, attributes[past], colours, scratch, keys[past])
        simultaneous_keys(src[now], dst[now], attributes[now], colours, keys[now])
        self._newest, self._moment = start + last, int(moments[-1])
        if self._newest - (self._checkpoints[-1][0] if self._checkpoints else 0) >= _CHECKPOINT:
            state = self._newest, self._moment, np.array(self._colours.view())
            self._checkpoints = [*self._checkpoints[-1:], state]
        return keys

    def remove(self, events: Events, rows: Array, counts: Array, oldest: Any) -> None:
        """Remove the newest counts[i] links of nodes rows[i], all at time `oldest` or later; `events` are the rest."""
        first, lengths = self._partners.spans_of(rows)
        start = np.maximum(lengths - counts, 1)
        removed = np.empty(int(np.maximum(lengths - start, 0).sum()), np.int64)
        growing.transitions_between(first, start, lengths, self._partners.columns["partner"], removed)
        for lists, keys in ((self._next, removed), (self._origins, removed >> 32)):
            lists.begin(0)
            distinct, times = np.unique(keys, return_counts=True)
            lists.shorten(lists.rows_of(distinct) if lists is self._next else distinct, times)
        self._partners.begin(0)
        self._partners.shorten(rows, counts)
        nothing = np.empty(0)
        self._all_sum.append(nothing, len(events))
        first_time = self._first_time
        first_time.append(nothing, int(np.searchsorted(first_time.view(), oldest)))
        self._restore_colours(events)

    def _restore_colours(self, events: Events) -> None:
        """Recompute the colours before the newest time, after events were removed."""
        self._checkpoints = [state for state in self._checkpoints if state[0] < len(events)]
        self._newest, self._moment, colours = 0, 0, self._first_colours(events, 0)
        if self._checkpoints:
            self._newest, self._moment, held = self._checkpoints[-1]
            colours[: len(held)] = held
        self._colours = GrowingArray(colours)
        self._find_keys(events)

    def append(self, events: Events, first: int, owners: Array, links: Reserved, nodes: GrowingLists) -> None:
        """Add the links from `first` on; `links` are their entries in the lists of nodes."""
        t, num_nodes = events.t[first:], events.num_nodes
        self._all_sum.append(_continued_sums(self._all_sum.view(), events.t, first, self.scale))
        is_first = (links.position == links.distinct.first[links.which]) & (links.distinct.before[links.which] == 0)
        times = nodes.columns["time"]
        self._first_time.append(times[links.position[is_first]])
        self._colours.append(self._first_colours(events, len(self._colours)))
        self._scratch.append(np.zeros(num_nodes - len(self._scratch), np.uint64))
        first_link = self._newest
        keys = self._find_keys(events)
        moved = self._order(owners, links.distinct, nodes, keys, first_link)
        self._count_transitions(links.distinct, *moved, times, t[0] if len(t) else None, num_nodes)

    def _order(
        self, owners: Array, links: growing.Distinct, nodes: GrowingLists, keys: Array, first_link: int
    ) -> tuple[growing.Distinct, Array]:
        """Write the partners in canonical order; returns their lists, and the length of the unchanged part of each."""
        time, hop = nodes.columns["time"], nodes.columns["hop"]
        partners, num = self._partners, len(links.row)
        partners.begin(nodes.size)
        tied, same = np.empty((2, num), np.int64)
        growing.first_tied(links, time, tied)
        sizes = links.before + links.more
        ends = np.append(0, np.cumsum(sizes - tied))
        ordered = np.empty(int(ends[-1]), np.int32)
        held, _ = partners.spans_of(links.row)
        growing.order_partners(
            links, tied, time, hop, keys, first_link, ends, held, partners.columns["partner"], ordered, same
        )
        which = np.empty(int(links.row.max()) + 1 if num else 0, np.int64)
        which[links.row] = np.arange(num)
        forced = (same < links.before)[which[owners]]
        reserved = partners.reserve(owners, forced)
        to = np.repeat(reserved.distinct.first + tied - ends[:-1], sizes - tied) + np.arange(len(ordered))
        changed = np.arange(len(ordered)) >= np.repeat(ends[:-1] + same - tied, sizes - tied)
        partners.columns["partner"][to[changed]] = ordered[changed]
        return reserved.distinct, same

    def _count_transitions(
        self, links: growing.Distinct, partners: growing.Distinct, same: Array, time: Array, oldest: Any, num_nodes: int
    ) -> None:
        sizes = links.before + links.more
        start = np.maximum(same, 1)
        most = int(np.maximum(sizes - start, 0).sum()), int(np.maximum(links.before - start, 0).sum())
        added, removed = np.empty(most[0], np.int64), np.empty(most[1], np.int64)
        added_time, is_origin = np.empty(most[0], time.dtype), np.empty(most[0], np.bool_)
        growing.find_transitions(
            (links, partners), same, time, self._partners.columns["partner"], added, added_time, is_origin, removed
        )
        order = np.argsort(added_time, kind="stable")
        added, added_time, is_origin = added[order], added_time[order], is_origin[order]
        self._origins.begin(num_nodes)
        _extend_sums(self._origins, (added >> 32)[is_origin], added_time[is_origin], self.scale)
        self._next.begin(0)
        if len(removed):
            added, added_time = self._remove(removed, added, added_time, oldest)
        _extend_sums(self._next, self._next.rows_of(added), added_time, self.scale)

    def _remove(self, removed: Array, added: Array, added_time: Array, oldest: Any) -> tuple[Array, Array]:
        """Remove transitions, all at the oldest time; returns those to add that do not replace a removed one."""
        gone, kept = Counter(removed.tolist()), np.ones(len(added), np.bool_)
        for i in np.flatnonzero(added_time == oldest).tolist():
            if gone[key := int(added[i])] > 0:
                gone[key] -= 1
                kept[i] = False
        left = {key: count for key, count in gone.items() if count}
        if left:
            rows = self._next.rows_of(np.array(list(left), np.int64))
            self._next.shorten(rows, np.array(list(left.values()), np.int64))
        return added[kept], added_time[kept]

    @property
    def nbytes(self) -> int:
        arrays = self._all_sum, self._first_time, self._colours, self._scratch
        lists = self._partners, self._next, self._origins
        return sum(one.nbytes for one in lists) + sum(int(array.view().nbytes) for array in arrays)

    def version(
        self, events: Events, nodes: ListsVersion, pairs: ListsVersion, rates: Rates, history: History
    ) -> Sequences:
        partners, following, origins = (one.version() for one in (self._partners, self._next, self._origins))
        lists = Lists(
            nodes=nodes.spans,
            time=nodes.columns["time"],
            activity=nodes.columns["activity"],
            partners=partners.spans,
            partner=partners.columns["partner"],
            pairs=pairs.spans,
            pair_keys=pairs.keys,
            pair_slots=pairs.slots,
            pair_time=pairs.columns["time"],
            pair_logsum=pairs.columns["logsum"],
            pair_sum=pairs.columns["pair_sum"],
            next=following.spans,
            next_keys=following.keys,
            next_slots=following.slots,
            next_time=following.columns["time"],
            next_sum=following.columns["sum"],
            origins=origins.spans,
            from_time=origins.columns["time"],
            from_sum=origins.columns["sum"],
            all_time=constant(events.t),
            all_sum=self._all_sum.view(),
            first_time=self._first_time.view(),
            alphas=history.index.alphas,
            scale=self.scale,
        )
        return Sequences.of_version(lists, lambda: _flatten(lists, (nodes, partners, pairs, following, origins), rates))


def _flatten(lists: Lists, versions: tuple[ListsVersion, ...], rates: Rates) -> FlatLists:
    """The same lists one after the other, in the order of their keys; `rates` keeps the version alive."""
    nodes, partners, pairs, following, origins = versions
    starts, of_nodes = nodes.flat()
    _, pair_rows = pairs.sorted_keys()
    pair_starts, of_pairs = pairs.flat(pair_rows)
    next_keys, next_rows = following.sorted_keys()
    next_starts, of_next = following.flat(next_rows)
    from_starts, of_origins = origins.flat()
    boundaries = np.arange(nodes.spans.size + 1) << 32
    return FlatLists(
        starts=starts,
        time=of_nodes["time"],
        partner=partners.flat()[1]["partner"],
        activity=of_nodes["activity"],
        pair_rows=np.searchsorted(rates.pairs.keys, boundaries),
        pair_keys=rates.pairs.keys,
        pair_starts=pair_starts,
        pair_time=of_pairs["time"],
        pair_logsum=of_pairs["logsum"],
        pair_sum=of_pairs["pair_sum"],
        next_rows=np.searchsorted(next_keys, boundaries),
        next_keys=next_keys,
        next_starts=next_starts,
        next_time=of_next["time"],
        next_sum=of_next["sum"],
        from_starts=from_starts,
        from_time=of_origins["time"],
        from_sum=of_origins["sum"],
        all_time=lists.all_time,
        all_sum=lists.all_sum,
        first_time=lists.first_time,
        alphas=lists.alphas,
        scale=lists.scale,
    )


def _extend(lists: GrowingLists, rows: Array, t: Array, alphas: Array) -> Reserved:
    """Append a time to the list of each row."""
    reserved = lists.reserve(rows)
    lists.columns["time"][reserved.position] = t
    _append_logsums(lists, reserved, alphas)
    return reserved


def _append_logsums(lists: GrowingLists, reserved: Reserved, alphas: Array) -> None:
    position, which, distinct = reserved
    columns = lists.columns
    growing.append_logsums(which, position, distinct, len(distinct.row), columns["time"], alphas, columns["logsum"])


def _extend_sums(lists: GrowingLists, rows: Array, t: Array, scale: float) -> None:
    reserved = lists.reserve(rows)
    lists.columns["time"][reserved.position] = t
    growing.append_sums(
        reserved.which, reserved.position, reserved.distinct, lists.columns["time"], scale, lists.columns["sum"]
    )


def _continued_sums(sums: Array, t: Array, first: int, scale: float) -> Array:
    """The decayed counts of all links from `first` on, given those before."""
    new = np.empty(len(t) - first)
    before = (sums[-1], t[first - 1]) if first else (0.0, t[0] if len(t) else 0)
    growing.continue_sums(before[0], before[1], t[first:], scale, new)
    return new
