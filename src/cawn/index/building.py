"""Building the lists of an index in memory."""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np

from cawn.checks import Array
from cawn.data.columns import GrowingArray
from cawn.data.events import Events
from cawn.index.entries import Streams
from cawn.index.kernels import building as kernels
from cawn.index.kernels.lists import LENGTH, Lists, constant, enter_rows, home_slots, slots_for
from cawn.index.kinds import DIRECTED, NODES, ORIGINS, PARTNERS, RATES, SEQUENCES, WAYS, Kind
from cawn.kernels.threads import even_bounds, in_parallel, num_threads

Columns = dict[str, Array]  # of one kind, by name

TAILS = "tails"  # of nodes that have room to grow: P of Algorithm 2 at their newest entry [rows, decays]
ROOM, LEAST = 4, 1 << 10  # times as many entries as there are, or at least so many, for which there is room
_PER_TASK = 1 << 16  # entries
_CHAINS = ("",), (RATES, DIRECTED), (SEQUENCES,)  # what the kinds are needed for that are built one after the other
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
    kinds: Sequence[Kind],
    *,
    attributes: bool,
    threads: int | None,
    room: bool,
) -> dict[str, Columns]:
    """The arrays of each kind by name, lists one after the other, or with room to grow, as `GrowingLists` has them;
    `attributes` may order simultaneous links."""
    chains = [[kind for kind in kinds if kind.needed_for in needs] for needs in _CHAINS]
    build = partial(_build_chain, events, alphas, decay, attributes, threads, room)
    if room and num_threads(threads) > 1:
        with ThreadPoolExecutor(len(chains)) as pool:
            built = list(pool.map(build, chains))
    else:  # one after the other, in less memory
        built = list(map(build, chains))
    chain = {"chain": np.empty((LEAST, 2), np.int64)} if room else {}
    return {name: columns | chain for each in built for name, columns in each.items()}


def _build_chain(
    events: Events,
    alphas: Array,
    decay: float,
    attributes: bool,
    threads: int | None,
    room: bool,
    kinds: list[Kind],
) -> dict[str, Columns]:
    """The arrays of kinds, some of which are built from those before them."""
    streams, found = Streams(events, max(len(events), 1), GrowingArray(np.empty(0, np.int32))), dict[str, Columns]()
    keys, rows, link = np.empty(0, np.int64), *np.empty((2, 0), np.int32)
    for kind in kinds:
        if kind is PARTNERS:
            streams.find_order(attributes, lambda _: None)
        if kind is NODES:
            found[kind.name] = _build_nodes(events, alphas, decay, threads, room)
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
        span, position, size = kernels.lay_out(constant(rows), num_rows, room)
        columns = empty_columns(kind, size, 0, len(kind.decays(alphas, decay)), room=room)
        for name, values in zip(kind.columns, (link, *rest), strict=True):
            columns[name][position] = values
        build_sums(kind, span, columns, size, events.t, kind.decays(alphas, decay), threads)
        if kind.keyed:
            columns["keys"], columns["slots"] = keys, hash_table(keys, 2 * len(keys) if room else 0)
        found[kind.name] = {"span": span} | columns
    return found


def empty_columns(
    kind: Kind, size: int, num_decays: int, num_sums: int, times: Any = np.int64, *, room: bool
) -> Columns:
    """The columns of `size` entries, and their sums; with `room` for more, memory that is not taken before it is
    written to."""
    shapes = kind.arrays(max(ROOM * size, LEAST) if room else size, 0, num_decays, num_sums, times)
    found: Columns = {name: np.empty(*shapes[name]) for name in kind.columns}
    found["sums"] = np.zeros(*shapes["sums"])
    return found


def _build_nodes(events: Events, alphas: Array, decay: float, threads: int | None, room: bool) -> Columns:
    num_nodes, decays = events.num_nodes, NODES.decays(alphas, decay)
    nodes, _ = kernels.both_ends(events.src, events.dst, np.arange(len(events), dtype=np.int32))
    span, position, size = kernels.lay_out(constant(nodes), num_nodes, room)
    newest, count = np.empty(num_nodes, events.t.dtype), np.zeros((num_nodes, 2), np.int32)
    columns = empty_columns(NODES, size, len(alphas), len(decays), events.t.dtype, room=room)
    time, hop, logsum = (columns[name] for name in NODES.columns)
    kernels.fill_nodes(events.src, events.dst, events.t, 0, newest, count, position, time, hop)
    del nodes, position
    if room:
        columns[TAILS] = np.zeros((num_nodes, len(alphas)))
    build_logsums(span, time, alphas, logsum, threads, columns.get(TAILS))
    build_sums(NODES, span, columns, size, events.t, decays, threads)
    return {"span": span} | columns


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


def build_sums(
    kind: Kind, span: Array, columns: Columns, size: int, t: Array, decays: Array, threads: int | None
) -> None:
    """Compute the sums of lists, which have `size` entries, at the end of their blocks."""
    known, sums = np.zeros(len(span), np.int64), columns["sums"]
    link = np.ascontiguousarray(link_column(columns)[:size])  # contiguous in all kinds: compiled once

    def fill(first: int, last: int) -> None:
        kernels.fill_sums(span[first:last], known[first:last], link, t, decays, kind.bits, sums)

    if len(decays):
        in_parallel(fill, _tasks(span), threads)


def hash_table(keys: Array, size: int = 0) -> Array:
    """The slots in which rows are found by their distinct keys, with room for `size` keys."""
    slots: Array = slots_for(max(len(keys), size))
    enter_rows(*kernels.sort_keys(home_slots(keys, len(slots) - 1)), slots)
    return slots


def move_lists(kind: Kind, before: Columns, after: Columns, moved_from: Array, start: Array, count: Array) -> None:
    """Copy the first `count` entries of lists, and the sums of their full blocks, to where they start now [n]."""
    for name in (*kind.columns, "sums"):
        bits, old, new = kind.bits if name == "sums" else 0, constant(before[name]), after[name]
        tables, width = (len(old), 1) if name == "logsum" else (1, math.prod(old.shape[1:]))
        kernels.move_rows(old.reshape(tables, -1), new.reshape(tables, -1), width, bits, moved_from, start, count)


def moved_lists(
    kind: Kind, before: Columns, moved_from: Array, start: Array, count: Array, size: int, *, room: bool = False
) -> Columns:
    """`move_lists` to new columns with places for `size` entries."""
    times = before["time"].dtype if "time" in before else np.int64
    shape = size, len(before.get("logsum", ())), before["sums"].shape[1]
    after = empty_columns(kind, *shape, times, room=room)
    move_lists(kind, before, after, moved_from, start, count)
    return after


def _tasks(span: Array) -> list[int]:
    """Ranges of rows with about the same number of entries, however uneven their lengths are."""
    ends = np.cumsum(span & LENGTH)
    size = int(ends[-1]) if len(ends) else 0
    return [0, *np.searchsorted(ends, even_bounds(size, _PER_TASK)[1:-1]).tolist(), len(span)]
