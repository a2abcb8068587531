"""Updates of a history: which links are new, and the history with them added."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cawn.data.columns import GrowingArray
from cawn.data.events import NO_LINK_ID, Events
from cawn.data.hashing import digest, hash_ids
from cawn.data.names import UNKNOWN, Name, NameIndex, Spelling
from cawn.data.reading import Reading
from cawn.data.times import cast_times, dates_in_unit, has_dates, numbers_to_dates
from cawn.errors import DataError

Array = npt.NDArray[Any]


class Update(NamedTuple):
    """The result of an update: links added, known links skipped, and nodes added."""

    added: int
    skipped: int
    nodes_added: int


class KnownLinks:
    """The ids of links and the digests of batches that a history has. Not thread-safe."""

    def __init__(self, digests: Sequence[str] = ()) -> None:
        self.digests = list(digests)
        self._ids: NameIndex | None = None  # of the history and of all links added since, as int64

    def has_ids(self, held: Events, ids: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]:
        """Which of these ids a known link has; `held` is the history at the first call: [n]."""
        if self._ids is None:
            given = np.unique(_link_ids(held))
            self._ids = NameIndex({"names": given[given != NO_LINK_ID].view(np.int64)})
        return np.asarray(self._ids.ids(ids.view(np.int64).tolist()) != UNKNOWN)

    def is_unknown(self, held: Events, new: Events) -> npt.NDArray[np.bool_]:
        """Which new links have no id, or one that no known link and no earlier new link has: [E]."""
        if new.link_id is None:
            return np.ones(len(new), bool)
        ids = new.link_id
        is_first = np.zeros(len(ids), bool)
        is_first[np.unique(ids, return_index=True)[1]] = True
        return np.asarray((~self.has_ids(held, ids) & is_first) | (ids == NO_LINK_ID))

    @contextmanager
    def adding(self) -> Iterator[None]:
        """If this context fails, what `add` recorded in it is forgotten."""
        digests, ids = len(self.digests), self._ids
        try:
            yield
        except BaseException:
            del self.digests[digests:]
            self._ids = ids
            raise

    def add(self, new: Events, batch: str | None = None) -> None:
        """Record added links, which `is_unknown` has checked, and the digest of their batch."""
        if new.link_id is not None and self._ids is not None:
            self._ids = self._ids.extended(new.link_id[new.link_id != NO_LINK_ID].view(np.int64).tolist())
        if batch is not None and batch not in self.digests:
            self.digests.append(batch)


def batch_digest(links: Events, names: Sequence[Sequence[Name]], held: Events) -> str:
    """Identifies a batch by its links, regardless of their order and of node ids.

    Args:
        names: The names of the distinct sources and of the distinct destinations, in the order of their ids.
        held: Links whose unit of time is used.
    """
    sides = zip((links.src, links.dst), names, strict=True)
    ends = [hash_ids(distinct)[np.unique(side, return_inverse=True)[1]] for side, distinct in sides]
    t = convert_link_times(links, held)
    order = np.lexsort((ends[1], ends[0], t))
    columns = (*ends, t, *(column for column in (links.msg, links.link_id) if column is not None))
    return digest(*(column[order] for column in columns))


class ExtendedNames:
    """Ids of the nodes of a history and of those that updates add."""

    def __init__(self, index: NameIndex, spelling: Spelling) -> None:
        self._index, self._spelling = index, spelling
        self.added: dict[str, int] = {}

    def ids(self, given: list[Any], side: int) -> npt.NDArray[np.int64]:
        """Ids of names; new names get the next free ids."""
        ids = self._spelling.ids(self._index, given, side)
        for i in np.flatnonzero(ids >= len(self._index)).tolist():
            spelled, plain = (self._index.canonical(n) for n in (self._spelling.spelled(given[i], side), given[i]))
            known = spelled if spelled in self.added or plain not in self.added else plain
            ids[i] = self.added.setdefault(known, len(self._index) + len(self.added))
        return ids

    def __len__(self) -> int:
        return len(self._index) + len(self.added)

    def index(self) -> NameIndex:
        """An index of all names, old and new."""
        return self._index.extended(list(self.added)) if self.added else self._index


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


def new_links(
    held: Events, names: NameIndex, batches: Sequence[Events], spelling: Spelling
) -> tuple[NewLinks, list[int]]:
    """The links of all batches, and the number of nodes that each adds.

    Weights and negatives, which only training uses, are dropped.
    """
    everyone, attributes, sizes = ExtendedNames(names, spelling), [], [0]
    ends: tuple[list[Array], list[Array]] = [], []
    for new in batches:
        for side, nodes in enumerate((new.src, new.dst)):
            distinct, at = np.unique(nodes, return_inverse=True)
            ids = everyone.ids(new.labels[distinct].tolist(), side)
            ends[side].append(ids[at])
            if new.x is not None:
                attributes.append((ids, new.x[distinct]))
        sizes.append(len(everyone.added))
    src, dst = map(np.concatenate, ends)
    t = np.concatenate([convert_link_times(new, held) for new in batches])
    msg = None if held.msg is None else np.concatenate([new.msg for new in batches if new.msg is not None])
    has_ids = any(links.link_id is not None for links in (held, *batches))
    link_id = np.concatenate([_link_ids(links) for links in batches]) if has_ids else None
    order = slice(None) if len(batches) == 1 else np.argsort(t, kind="stable")
    msg, link_id = (None if column is None else column[order] for column in (msg, link_id))
    links = NewLinks(src[order], dst[order], t[order], msg, link_id, everyone.index(), attributes)
    return links, np.diff(sizes).tolist()


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
            columns["link_id"] = GrowingArray(_link_ids(held))
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
        if "x" in columns:
            zeros = np.zeros((len(new.names) - held.num_nodes, *columns["x"].values.shape[1:]), np.float32)
            columns["x"].append(zeros, held.num_nodes)
        self.events = held.grown({name: column.view() for name, column in columns.items()}, len(new.names))
        return self.events, kept


def merged(held: Events, new: NewLinks) -> Events:
    """The history with the new links and attributes of nodes, copied; a row that marks an absent node is ignored."""
    events, _ = GrowingEvents(held).add(new)
    if events.x is None:
        return events
    x, marks_presence = events.x.copy(), held.encoder is not None and held.encoder.marks_presence
    for ids, rows in new.attributes:
        given = rows.any(axis=1) if marks_presence else np.ones(len(rows), bool)
        x[ids[given]] = rows[given]
    return events.replace(x=x)


def _link_ids(events: Events) -> npt.NDArray[np.uint64]:
    return np.full(len(events), NO_LINK_ID, np.uint64) if events.link_id is None else events.link_id


def convert_link_times(new: Events, held: Events) -> Array:
    """The times of new links in the type and unit of the links that are held."""
    mine, theirs = new.reading or Reading(), held.reading or Reading()
    if mine.dates and len(new) and not has_dates(held.t, theirs):
        raise DataError("the new links have dates, but the data's times are plain numbers; give numbers")
    if not mine.dates or mine.unit == theirs.unit:
        return cast_times(new.t, held.t.dtype)
    return dates_in_unit(numbers_to_dates(new.t, mine.unit), theirs.unit, held.t.dtype)
