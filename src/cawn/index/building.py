"""Building the lists of an index in memory."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.data.columns import GrowingArray
from cawn.data.events import Events
from cawn.index.entries import Streams
from cawn.index.kernels import building as kernels
from cawn.index.kernels.lists import LENGTH, Lists, add_keys, constant, slots_for
from cawn.index.kinds import NODES, ORIGINS, PARTNERS, WAYS, Kind
from cawn.kernels.threads import even_bounds, in_parallel

Array = npt.NDArray[Any]
Columns = dict[str, Array]  # of one kind, by name

_PER_TASK = 1 << 16  # entries
_EMPTY: Columns = {
    "span": np.empty(0, np.int64),
    "link": np.empty(0, np.int32),
    "sums": np.empty((0, 0)),
    "keys": np.empty(0, np.int64),
    "slots": slots_for(0),
    "chain": np.empty((0, 2), np.int64),
}


def link_column(columns: Columns) -> Array:
    """The link of each entry."""
    return columns["hop"][:, kernels.LINK] if "hop" in columns else columns["link"]


def as_lists(kind: Kind, columns: Columns, decays: Array, version: int) -> Lists:
    """Lists as kernels read them; empty without columns."""
    named = _EMPTY | columns
    arrays = named["span"], link_column(named), named["sums"], decays, named["keys"], named["slots"], named["chain"]
    return Lists._make([*map(constant, arrays), kind.bits, version])


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
    streams, found = Streams(events, max(len(events), 1), GrowingArray(np.empty(0, np.int32))), dict[str, Columns]()
    keys, rows, link = np.empty(0, np.int64), *np.empty((2, 0), np.int32)
    for kind in kinds:
        if kind is PARTNERS:
            streams.find_order(attributes, lambda _: None)
        if kind is NODES:
            found[kind.name] = _build_nodes(events, alphas, decay, threads)
            continue
        rest: list[Array] = []
        if kind is WAYS:  # the entries are those of pairs, which come before
            rows, num_rows = 2 * rows + (link & 1), 2 * len(keys)
        elif kind is ORIGINS:  # and these those of `next`
            rows, num_rows = (keys >> 32).astype(np.int32)[rows], events.num_nodes
        else:
            ((rows, link, *rest),) = streams.of(kind)
            num_rows = events.num_nodes
        if kind.keyed:
            keys, rows = number_keys(rows)
            num_rows = len(keys)
        span, position = kernels.lay_out(constant(rows), num_rows)
        columns: Columns = {"span": span}
        for name, values in zip(kind.columns, (link, *rest), strict=True):
            columns[name] = np.empty(len(position), np.int32)
            columns[name][position] = values
        columns["sums"] = build_sums(kind, span, columns["link"], events.t, kind.decays(alphas, decay), threads)
        if kind.keyed:
            columns["keys"], columns["slots"] = keys, hash_table(keys)
        found[kind.name] = columns
    return found


def _build_nodes(events: Events, alphas: Array, decay: float, threads: int | None) -> Columns:
    num_nodes = events.num_nodes
    nodes, _ = kernels.both_ends(events.src, events.dst, np.arange(len(events), dtype=np.int32))
    span, position = kernels.lay_out(constant(nodes), num_nodes)
    size, newest, count = len(nodes), np.empty(num_nodes, events.t.dtype), np.zeros((num_nodes, 2), np.int32)
    time, hop, logsum = np.empty(size, events.t.dtype), np.empty((size, 3), np.int32), np.empty((len(alphas), size))
    kernels.fill_nodes(events.src, events.dst, events.t, 0, newest, count, position, time, hop)
    del nodes, position
    build_logsums(span, time, alphas, logsum, threads)
    link = np.ascontiguousarray(hop[:, kernels.LINK])
    sums = build_sums(NODES, span, link, events.t, NODES.decays(alphas, decay), threads)
    return {"span": span, "time": time, "hop": hop, "logsum": logsum, "sums": sums}


def number_keys(keys: Array) -> tuple[Array, Array]:
    """The distinct keys in ascending order, and the row of each key [n]."""
    ascending, order = kernels.sort_keys(keys)
    distinct, of_sorted = kernels.number_sorted(ascending)
    rows = np.empty_like(of_sorted)
    rows[order] = of_sorted
    return distinct, rows


def build_logsums(
    span: Array, time: Array, alphas: Array, logsum: Array, threads: int | None, newest: Array | None = None
) -> None:
    """The logarithm of P at every entry of nodes; and P itself, at the newest one [rows, decays], if it is wanted."""
    known = np.zeros(len(span), np.int64)

    def fill(first: int, last: int) -> None:
        P = np.zeros((last - first, len(alphas))) if newest is None else newest[first:last]
        kernels.fill_logsums(span[first:last], known[first:last], time, alphas, P, logsum)

    in_parallel(fill, _tasks(span), threads)


def build_sums(kind: Kind, span: Array, link: Array, t: Array, decays: Array, threads: int | None) -> Array:
    """The sums of lists at the end of their blocks."""
    known = np.zeros(len(span), np.int64)
    sums: Array = np.zeros(*kind.arrays(len(link), 0, 0, len(decays))["sums"])

    def fill(first: int, last: int) -> None:
        kernels.fill_sums(span[first:last], known[first:last], link, t, decays, kind.bits, sums)

    if len(decays):
        in_parallel(fill, _tasks(span), threads)
    return sums


def hash_table(keys: Array, size: int = 0) -> Array:
    """The slots in which rows are found by their distinct keys, with room for `size` keys."""
    slots: Array = slots_for(max(len(keys), size))
    add_keys(keys, 0, len(keys), slots)
    return slots


def move_lists(kind: Kind, before: Columns, after: Columns, moved_from: Array, start: Array, count: Array) -> None:
    """Copy the first `count` entries of lists, and the sums of their full blocks, to where they start now [n]."""
    for name in (*kind.columns, "sums"):
        bits, old, new = kind.bits if name == "sums" else 0, constant(before[name]), after[name]
        tables, width = (len(old), 1) if name == "logsum" else (1, math.prod(old.shape[1:]))
        kernels.move_rows(old.reshape(tables, -1), new.reshape(tables, -1), width, bits, moved_from, start, count)


def _tasks(span: Array) -> list[int]:
    """Ranges of rows with about the same number of entries, however uneven their lengths are."""
    ends = np.cumsum(span & LENGTH)
    size = int(ends[-1]) if len(ends) else 0
    return [0, *np.searchsorted(ends, even_bounds(size, _PER_TASK)[1:-1]).tolist(), len(span)]
