"""Building the lists of an index in memory."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cawn.data.events import Events
from cawn.data.ties import canonical_order
from cawn.index.kernels import building as kernels
from cawn.index.kernels.lists import LENGTH, add_keys, block_rows, slots_for
from cawn.index.kinds import NODES, PARTNERS, TOTAL_BITS, Kind
from cawn.kernels.threads import even_bounds, in_parallel

Array = npt.NDArray[Any]
Columns = dict[str, Array]  # of one kind, by name

_PER_TASK = 1 << 16  # entries


class Entries(NamedTuple):
    """What the lists of one kind are made of; the entries of a list are in this order."""

    rows: Array  # [n]
    num_rows: int
    link: Array  # [n] int32, see `kernels.lists`
    keys: Array = np.empty(0, np.int64)  # [num_rows], if rows are found by key


class _Network:
    """The entries of each kind, by its name."""

    def __init__(self, events: Events, attributes: bool) -> None:
        self.events, self.num_nodes = events, events.num_nodes
        self._plain = events if attributes else events.replace(msg=None, x=None)
        self._source = 2 * np.arange(len(events), dtype=np.int32)  # each link as its source sees it

    @cached_property
    def nodes(self) -> Entries:
        return self._ends(np.arange(len(self.events)))

    @cached_property
    def partners(self) -> Entries:
        return self._ends(canonical_order(self._plain))

    @cached_property
    def pairs(self) -> Entries:
        src, dst = self.events.src, self.events.dst
        keys, rows = kernels.number_pairs(np.minimum(src, dst), np.maximum(src, dst), self.num_nodes)
        return Entries(rows, len(keys), self._source + (src > dst), keys)

    @property
    def ways(self) -> Entries:
        pairs = self.pairs
        return Entries(2 * pairs.rows + (pairs.link & 1), 2 * pairs.num_rows, pairs.link)

    @property
    def sources(self) -> Entries:
        return Entries(self.events.src, self.num_nodes, self._source)

    @property
    def destinations(self) -> Entries:
        return Entries(self.events.dst, self.num_nodes, self._source + 1)

    @property
    def next(self) -> Entries:
        before, after, link = self._transitions
        keys, rows = kernels.number_pairs(before, after, self.num_nodes)
        return Entries(rows, len(keys), link, keys)

    @property
    def origins(self) -> Entries:
        before, _, link = self._transitions
        return Entries(before, self.num_nodes, link)

    def _ends(self, links: Array) -> Entries:
        nodes, link = kernels.both_ends(self.events.src, self.events.dst, links)
        return Entries(nodes, self.num_nodes, link)

    @cached_property
    def _transitions(self) -> tuple[Array, Array, Array]:
        nodes, _, link, _ = self.partners
        partner = kernels.other_ends(self.events.src, self.events.dst, link)
        return kernels.transitions(nodes, partner, link, np.full(self.num_nodes, -1, np.int32))


def build_lists(
    events: Events,
    alphas: Array,
    decay: float,
    kinds: Iterable[Kind],
    *,
    attributes: bool = True,
    threads: int | None = None,
) -> dict[str, Columns]:
    """The arrays of each kind by name, lists one after the other; `attributes` may order simultaneous links."""
    network, found = _Network(events, attributes), {}
    for kind in kinds:
        entries: Entries = getattr(network, kind.name)
        span, position = kernels.lay_out(entries.rows, entries.num_rows)
        columns: Columns = {"span": span}
        if kind is NODES:
            columns |= _walk_columns(events, span, len(position), alphas, threads)
        else:
            columns["link"] = np.empty(len(position), np.int32)
            columns["link"][position] = entries.link
        if kind is PARTNERS:
            columns["partner"] = kernels.other_ends(events.src, events.dst, columns["link"])
        link = columns["hop"][:, kernels.LINK] if kind is NODES else columns["link"]
        columns["sums"] = build_sums(kind, span, link, events.t, kind.decays(alphas, decay), threads)
        if kind.keyed:
            columns["keys"], columns["slots"] = entries.keys, hash_table(entries.keys)
        found[kind.name] = columns
    return found


def build_sums(kind: Kind, span: Array, link: Array, t: Array, decays: Array, threads: int | None) -> Array:
    """The sums of lists at the end of their blocks."""
    sums = np.zeros((block_rows(len(link), kind.bits), len(decays)))
    if len(decays):
        fill = partial(kernels.fill_sums, span, link, t, decays, kind.bits, sums)
        in_parallel(fill, _tasks(span), threads)
    return sums


def hash_table(keys: Array, size: int = 0) -> Array:
    """The slots in which rows are found by their distinct keys, with room for `size` keys."""
    slots = slots_for(max(len(keys), size))
    add_keys(keys, 0, len(keys), slots)
    return slots


def build_totals(t: Array, decay: float) -> Array:
    """The decayed count of all links at the end of every block of them."""
    totals = np.empty(len(t) >> TOTAL_BITS)
    kernels.fill_totals(t, decay, TOTAL_BITS, totals, 0, 0)
    return totals


def _walk_columns(events: Events, span: Array, size: int, alphas: Array, threads: int | None) -> Columns:
    """What entries of nodes have beside the link."""
    time, hop, logsum = np.empty(size, events.t.dtype), np.empty((size, 3), np.int32), np.empty((len(alphas), size))
    kernels.fill_hops(events.src, events.dst, events.t, span, time, hop)
    in_parallel(partial(kernels.fill_logsums, span, time, alphas, logsum), _tasks(span), threads)
    return {"time": time, "hop": hop, "logsum": logsum}


def _tasks(span: Array) -> list[int]:
    """Ranges of rows with about the same number of entries, however uneven their lengths are."""
    ends = np.cumsum(span & LENGTH)
    size = int(ends[-1]) if len(ends) else 0
    return [0, *np.searchsorted(ends, even_bounds(size, _PER_TASK)[1:-1]).tolist(), len(span)]
