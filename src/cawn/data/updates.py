"""Links that are added to a history: which of them are new, which cannot be, and the history with them."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cawn.checks import Array
from cawn.data.columns import GrowingArray
from cawn.data.events import NO_LINK_ID, Events
from cawn.data.forms import Arrivals, Form, NameForm
from cawn.data.names import UNKNOWN, Name, NameIndex
from cawn.data.times import PER_SECOND, SPANS, TimeForm, check_bounds, likely_unit
from cawn.errors import CawnError, DataError, QueryError, brief

DAY = 86_400.0  # seconds that a link may be ahead of the clock


class LateLinks(CawnError):  # noqa: N818
    """Links older than the newest one, where such links are refused."""


class Update(NamedTuple):
    """The result of an update: links added, known links skipped, and nodes added."""

    added: int
    skipped: int
    nodes_added: int


@dataclass(frozen=True, slots=True)
class UpdateRules:
    """Which links are accepted.

    Links may be ahead of the clock, in seconds, where the data has dates (by default a day); else of the newest link,
    in the data's unit (by default ten times the span of the links).
    """

    late: bool = True  # whether links may be older than the newest one
    max_ahead: float | None = None
    once: bool = False  # whether a link that the history has, with the same ends, time and attributes, is skipped


class NewLinks(NamedTuple):
    """Links to add to a history, in time order, with its node ids."""

    src: Array  # [n]
    dst: Array  # [n]
    t: Array  # [n] in its unit of time
    msg: Array | None  # [n, d]
    link_id: npt.NDArray[np.uint64] | None  # [n]
    names: NameIndex  # of all nodes, old and new
    attributes: list[tuple[Array, Array]]  # ids and rows of node attributes

    def __len__(self) -> int:
        return len(self.t)


class KnownIds:
    """The ids of the links of a history. Not thread-safe."""

    def __init__(self, ids: npt.NDArray[np.uint64] | None = None) -> None:
        given = np.empty(0, np.uint64) if ids is None else np.unique(ids)
        self._index = NameIndex({"names": given[given != NO_LINK_ID].view(np.int64)})

    def contains(self, ids: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Which of these are known: [n]."""
        return np.asarray(self._index.ids(ids.view(np.int64).tolist()) != UNKNOWN)

    def add(self, ids: npt.NDArray[np.uint64]) -> None:
        """Add the ids of links, none of which is known."""
        _, self._index = self._index.extended(ids[ids != NO_LINK_ID].view(np.int64).tolist())


class Draft:
    """Links to add to a history, batch after batch.

    A batch is accepted or refused as if those before it had been added already; a batch that is refused leaves no
    trace. So batches that are added together have the effect of the same batches added one by one. Entries of a stream
    are accepted together only if each of them would be accepted one by one, and judged by the clock of the stream.
    """

    def __init__(self, held: Events, names: NameIndex, form: Form, known: KnownIds, rules: UpdateRules) -> None:
        self._held, self._names, self._form, self._known, self._rules = held, names, form, known, rules
        self._range = (held.t[0].item(), held.t[-1].item()) if len(held) else None
        self._ids = set[int]()  # of the links in this draft
        self._batches: list[Arrivals] = []
        self._skipped: list[int] = []

    def add(self, batch: Arrivals) -> None:
        """Accept a batch, without the links whose id is known; DataError or LateLinks if it cannot be added."""
        plain = batch.link_id is None and not self._rules.once
        new = batch if plain or (unknown := self._is_unknown(batch)).all() else batch.where(unknown)
        if len(new):
            self._range = self._extended_range(new)
        if new.link_id is not None:
            self._ids.update(new.link_id[new.link_id != NO_LINK_ID].tolist())
        self._batches.append(new)
        self._skipped.append(len(batch) - len(new))

    def finish(self) -> tuple[NewLinks, list[Update]]:
        """All links, and what each batch adds."""
        batches, before = self._batches, len(self._names)
        ids, names = self._names.extended([name for batch in batches for name in batch.names])
        starts = np.cumsum([0, *(len(batch.names) for batch in batches)])
        of = [ids[first:last] for first, last in pairwise(starts.tolist())]
        seen = np.maximum.accumulate(np.append(before, ids + 1))[starts]
        updates = [
            Update(len(batch), skipped, nodes)
            for batch, skipped, nodes in zip(batches, self._skipped, np.diff(seen).tolist(), strict=True)
        ]
        ends = (each[np.stack([batch.src, batch.dst])] for each, batch in zip(of, batches, strict=True))
        src, dst = np.concatenate([np.empty((2, 0), np.int64), *ends], axis=1)
        t = np.concatenate([self._held.t[:0], *(batch.t for batch in batches)])
        order = np.argsort(t, kind="stable")
        msg, link_id = (self._joined(name, order) for name in ("msg", "link_id"))
        attributes = [(each, batch.x) for each, batch in zip(of, batches, strict=True) if batch.x is not None]
        return NewLinks(src[order], dst[order], t[order], msg, link_id, names, attributes), updates

    def _joined(self, name: str, order: Array) -> Array | None:
        """A column of all links; None if neither they nor the history have it."""
        columns = [getattr(batch, name) for batch in self._batches]
        held = getattr(self._held, name)
        if held is None and all(column is None for column in columns):
            return None
        given = [
            np.full(len(batch), NO_LINK_ID, np.uint64) if column is None else column
            for batch, column in zip(self._batches, columns, strict=True)
        ]
        return np.concatenate(given if held is None else [held[:0], *given])[order]

    def _is_unknown(self, batch: Arrivals) -> npt.NDArray[np.bool_]:
        """Which links have no id, or one that no known link and no earlier new link has: [n]."""
        unknown = np.ones(len(batch), bool)
        if batch.link_id is not None:
            ids = batch.link_id
            unknown[:] = False
            unknown[np.unique(ids, return_index=True)[1]] = True
            unknown &= ~self._known.contains(ids) & [each not in self._ids for each in ids.tolist()]
            unknown |= ids == NO_LINK_ID
        if self._rules.once:
            unknown &= ~self.is_repeated(batch)
        return unknown

    def is_repeated(self, batch: Arrivals) -> npt.NDArray[np.bool_]:
        """Which links the history has already, with the same ends, time and attributes; of n equal ones, as many as
        it has: [n]."""
        held, repeated = self._held, np.zeros(len(batch), bool)
        ids = self._names.ids(batch.names)
        known = np.flatnonzero((ids[batch.src] != UNKNOWN) & (ids[batch.dst] != UNKNOWN))
        if not len(known):
            return repeated
        t = batch.t[known]
        near = slice(int(np.searchsorted(held.t, t.min())), int(np.searchsorted(held.t, t.max(), side="right")))
        if near.start == near.stop:
            return repeated
        mine = _rows(held.src[near], held.dst[near], held.t[near], None if held.msg is None else held.msg[near])
        msg = None if batch.msg is None else batch.msg[known]
        theirs = _rows(ids[batch.src[known]], ids[batch.dst[known]], batch.t[known], msg)
        _, at = np.unique(np.concatenate([mine, theirs]), return_inverse=True)
        counts, at = np.bincount(at[: len(mine)], minlength=at.max() + 1), at[len(mine) :]
        order = np.argsort(at, kind="stable")
        nth = np.arange(len(at)) - np.searchsorted(at[order], at[order])  # among equal ones
        repeated[known[order]] = nth < counts[at[order]]
        return repeated

    def _extended_range(self, new: Arrivals) -> tuple[Any, Any]:
        """The first and the last time with these links; DataError or LateLinks if they cannot be added."""
        low, high = new.t.min().item(), new.t.max().item()
        form, limits = self._form.times, self._range
        first, last = (low, high) if limits is None else (min(low, limits[0]), max(high, limits[1]))
        check_bounds(first, last, new.t.dtype)
        is_usual = limits is not None and 0 < limits[1] - limits[0] >= limits[0] - low
        if new.clock is not None and len(new) > 1 and not is_usual:
            raise DataError("entries that are long before all links can only be added one by one")
        if limits is None:
            return low, high
        if not self._rules.late:  # in a stream, links must not be older than the entries before them either
            before = np.maximum.accumulate(np.append(limits[1], new.t[:-1])) if new.clock is not None else limits[1]
            if late := int((new.t < before).sum()):
                raise LateLinks(f"{late:,} links are older than the newest one ({limits[1]}); such links are refused")
        _refuse_impossible(low, high, limits, form, self._rules.max_ahead, new.clock)
        return first, last


def _rows(src: Array, dst: Array, t: Array, msg: Array | None) -> Array:
    """Links as single values that are equal if the links are."""
    columns = [src.astype(np.int64), dst.astype(np.int64), t]
    parts = [np.ascontiguousarray(column).view(np.uint8).reshape(len(t), -1) for column in columns]
    if msg is not None:
        parts.append(np.ascontiguousarray(msg + np.float32(0)).view(np.uint8).reshape(len(t), -1))
    rows = np.ascontiguousarray(np.concatenate(parts, axis=1))
    return rows.view(f"V{rows.shape[1]}").reshape(-1)


def _refuse_impossible(
    low: Any, high: Any, held: tuple[Any, Any], form: TimeForm, max_ahead: float | None, clock: float | None
) -> None:
    """Refuse times that cannot be: far ahead, or in another unit."""
    first, last = held
    remedy = "nothing was added; if the time is right, allow it with max_ahead"
    if high > _limit(first, last, form, max_ahead, time.time() if clock is None else clock):
        cause = likely_unit(high, first, last) or f"; the newest link is at {form.shown(last)}"
        raise DataError(f"t is {form.shown(high)}: too far ahead{cause}; {remedy}")
    if max_ahead is None and first - low > last - first and (cause := likely_unit(low, first, last)):
        raise DataError(f"t is {form.shown(low)}: long before the first link ({form.shown(first)}){cause}; {remedy}")


def _limit(first: Any, last: Any, form: TimeForm, max_ahead: float | None, now: float) -> float:
    """The last time that a link may have."""
    tick = PER_SECOND[form.unit] if form.dates else 1
    if form.dates:
        clock = (now + (DAY if max_ahead is None else max_ahead)) * tick
        if form.last is None or form.last <= clock:
            return float(max(clock, last))
    if max_ahead is not None:
        return float(last + max_ahead * tick)
    return float(last + SPANS * (last - first)) if last > first else math.inf


class GrowingEvents:
    """The links of a history, to which links are added without copying the earlier ones. Only one thread may add."""

    def __init__(self, events: Events) -> None:
        self.events = events
        columns = {name: getattr(events, name) for name in ("src", "dst", "t", "msg", "link_id", "x")}
        self._columns = {name: GrowingArray(column) for name, column in columns.items() if column is not None}

    def add(self, new: NewLinks) -> tuple[Events, int]:
        """All links, and how many of the first kept their positions: all earlier ones, unless new links are late."""
        held, columns = self.events, self._columns
        if new.link_id is not None and "link_id" not in columns:
            columns["link_id"] = GrowingArray(np.full(len(held), NO_LINK_ID, np.uint64))
        given = {name: getattr(new, name) for name in ("src", "dst", "t", "msg", "link_id")}
        added = {name: column for name, column in given.items() if column is not None}
        kept = len(held)
        if kept and len(new) and new.t[0] < held.t[-1]:
            kept = int(np.searchsorted(held.t, new.t[0]))
            added = {name: np.concatenate([columns[name].view()[kept:], value]) for name, value in added.items()}
            order = np.argsort(added["t"], kind="stable")
            added = {name: value[order] for name, value in added.items()}
        for name, value in added.items():
            columns[name].append(value, kept)
        self._add_nodes(new)
        self.events = held.grown({name: column.view() for name, column in columns.items()}, len(new.names))
        return self.events, kept

    def _add_nodes(self, new: NewLinks) -> None:
        """The attributes of nodes: zeros for those without. A row that marks an absent node replaces nothing."""
        if (held := self._columns.get("x")) is None:
            return
        held.append(np.zeros((len(new.names) - held.rows, *held.values.shape[1:]), np.float32))
        if not new.attributes:
            return
        encoder, x = self.events.encoder, held.view().copy()
        for ids, rows in new.attributes:
            marked = encoder is not None and encoder.marks_presence
            given = rows.any(axis=1) if marked else np.ones(len(rows), bool)
            x[ids[given]] = rows[given]
        held.append(x, 0)


def named(name: Name, names: NameIndex, form: NameForm) -> list[int]:
    """The nodes of this name, a source and a destination in a bipartite network; QueryError if there is none."""
    found = {int(form.ids(names, [name], side)[0]) for side in (0, 1)}
    if nodes := sorted(node for node in found if node < len(names)):
        return nodes
    raise QueryError(f"{brief(name)} is not in the network")


def is_apart(events: Events, nodes: Sequence[int]) -> npt.NDArray[np.bool_]:
    """Which links are of none of these nodes: [E]."""
    return ~(np.isin(events.src, nodes) | np.isin(events.dst, nodes))


def without(
    events: Events, names: NameIndex, form: NameForm, keep: npt.NDArray[np.bool_], gone: Sequence[int] = ()
) -> tuple[Events, NameIndex]:
    """The links to keep [E] among the nodes that remain, and their names.

    The nodes in `gone` are left out, and those whose last links are.
    """
    left = events[keep]
    used, was_used = np.zeros((2, events.num_nodes), bool)
    used[left.src] = used[left.dst] = True
    was_used[events.src] = was_used[events.dst] = True
    stays = used | ~was_used
    stays[list(gone)] = False
    number = np.cumsum(stays) - 1
    columns = {"src": number[left.src].astype(np.int32), "dst": number[left.dst].astype(np.int32), "t": left.t}
    columns |= {name: column for name in ("msg", "link_id") if (column := getattr(left, name)) is not None}
    if events.x is not None:
        columns["x"] = events.x[stays]
    shown = [form.shown(names.name(node)) for node in np.flatnonzero(stays).tolist()]
    are_integers = form.integers and all(isinstance(name, int) for name in shown)
    labels = np.array(shown if are_integers else list(map(str, shown)), np.int64 if are_integers else object)
    copied = {name: np.array(column) for name, column in columns.items()}
    return events.grown(copied, len(labels)), NameIndex.of(labels)
