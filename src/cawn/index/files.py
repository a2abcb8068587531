"""Writing the index of links to files, which may take more memory than there is.

An index that fits into memory is built there. Else each kind of lists is written in two passes. First its entries are
read in the order of the lists, and sorted by row, or by key, in *runs* that fit into memory, which go to temporary
files. Then ranges of rows, *groups*, are read from all runs, laid out and appended to the files of the kind. The files
hold, byte for byte, the arrays that would be in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.data.columns import ArrayFile, ColumnFile, blocks, write_array
from cawn.data.events import Events
from cawn.data.ties import hash_rows
from cawn.devices import release_freed_memory
from cawn.errors import QueryError
from cawn.files import storing, temporary_name
from cawn.index.features import PairParts
from cawn.index.index import Index, check_size
from cawn.index.kernels import building, pieces
from cawn.index.kernels.lists import num_slots
from cawn.index.kind_files import KindFiles, write_group
from cawn.index.kinds import NEXT, PAIRS, PARTNERS, TOTAL_BITS, WAYS, Kind
from cawn.index.runs import Runs, in_order
from cawn.index.sizes import Counts, memory_to_build
from cawn.index.stored import array_names, named_arrays
from cawn.kernels.cpu.ties import link_keys
from cawn.kernels.threads import num_threads
from cawn.progress import ShowProgress, progress

Array = npt.NDArray[Any]

_RUN, _GROUP = 1 << 20, 1 << 21  # entries of a run and of a group, if memory allows for more
_LEAST = 1 << 10
_PER_NODE = 24  # bytes, of what is known about each node while links are read
_SHARE = 0.8  # of the memory; the rest is lost to fragments
_COLUMNS = {"nodes": ("link", "time", "other", "cut"), "partners": ("link", "partner")}  # of entries; else link, time


def write_index(
    events: Events,
    alphas: tuple[float, ...],
    unit: float,
    parts: PairParts,
    folder: Path,
    *,
    memory: int,
    attributes: bool = True,
    threads: int | None = None,
    report: ShowProgress = progress,
) -> list[str]:
    """Write one .npy file for each array of the index to an existing folder; returns the names of the arrays.

    Args:
        events: Links, memory-mapped if there are more than fit into memory.
        alphas: The decays.
        unit: The unit of time of the model.
        parts: The features of pairs whose lists are needed.
        memory: Bytes of memory that may be used, besides what the process has in use already.
        attributes: Whether attributes of links may order simultaneous ones.
        report: Shows the progress of each stage.
    """
    check_size(events)
    decays, decay = np.array(alphas), parts.decay(unit)
    with storing(folder):
        if memory_to_build(Counts.at_most(len(events), events.num_nodes), len(alphas), parts) > memory:
            _Writer(events, decays, decay, folder, memory, attributes, num_threads(threads), report).write(parts.kinds)
            return array_names(parts.kinds)
        arrays = named_arrays(Index.of(events, decays, parts.kinds, decay, attributes=attributes, threads=threads))
        done = 0
        with report("writing the index", sum(array.nbytes for array in arrays.values()), unit="bytes") as show:
            for name, array in arrays.items():
                write_array(folder / f"{name}.npy", array)
                done += array.nbytes
                show(done)
    return list(arrays)


class _Writer:
    """Writes the kinds of an index one after the other."""

    def __init__(
        self,
        events: Events,
        alphas: Array,
        decay: float,
        folder: Path,
        memory: int,
        attributes: bool,
        threads: int,
        report: ShowProgress,
    ) -> None:
        self._events, self._alphas, self._decay = events, alphas, decay
        self._folder, self._threads, self._report, self._attributes = folder, threads, report, attributes
        self._left = int(_SHARE * (memory - _PER_NODE * events.num_nodes))
        needed = _LEAST * (threads + 1) * 256
        if self._left < needed:
            missing = (needed - self._left) / _SHARE / 2**20
            raise QueryError(
                f"an index of {events.num_nodes:,} nodes needs {missing:,.1f} MiB more than the memory limit; "
                "give more memory"
            )

    def write(self, kinds: tuple[Kind, ...]) -> None:
        """Write all arrays of these kinds."""
        streams = _Streams(self._events, min(_RUN, self._left // (8 * _LEAST) * 128), self._folder)
        if PARTNERS in kinds:
            with self._report("ordering simultaneous links", len(self._events)) as show:
                streams.find_order(self._attributes, show)
        for kind in kinds:
            if kind is not WAYS:  # which is written with the pairs
                self._write_kind(streams, [kind, WAYS] if kind is PAIRS and WAYS in kinds else [kind])
        streams.close()
        if NEXT in kinds:
            self._write_totals()

    def _write_kind(self, streams: _Streams, kinds: list[Kind]) -> None:
        """Write kinds whose entries are the same."""
        release_freed_memory()
        kind, t = kinds[0], self._events.t
        num_rows, columns = self._events.num_nodes, _COLUMNS.get(kind.name, ("link", "time"))
        types = [np.dtype(np.int64 if kind.keyed else np.int32)]
        types += [t.dtype if name == "time" else np.dtype(np.int32) for name in columns]
        with self._runs(types, 2 * len(t)) as runs:
            with self._report(f"dividing {kind.name}", len(t)) as show:
                for done in in_order(runs.write, runs.numbered(getattr(streams, kind.name)()), self._threads):
                    show(min(done, len(t)))
            groups, done = runs.groups(1 << 62 if kind.keyed else num_rows), 0
            with self._report(f"sorting {kind.name}", runs.size) as show, ExitStack() as stack:
                sizes = runs.size, t.dtype, self._alphas, self._decay
                files = [KindFiles(stack, self._folder, each, *sizes) for each in kinds]
                tasks = ((runs, group, columns, files) for group in groups)
                for size, spans, keys in in_order(write_group, tasks, self._threads):
                    for file, span in zip(files, spans, strict=True):
                        file.append(span, keys)
                    done += size
                    show(done)
                for file in files:
                    file.finish()
        if kind.keyed:
            self._write_slots(kind)

    def _runs(self, types: list[np.dtype[Any]], most: int) -> Runs:
        """Runs of as many entries as memory allows for."""
        row = sum(dtype.itemsize for dtype in types)
        run = min(_RUN, self._left // ((self._threads + 1) * (2 * row + 40)))
        group = min(_GROUP, self._left // (self._threads * (2 * row + 64 + 2 * len(self._alphas))))
        return Runs(self._folder, types, run, group, -(-most // run))

    def _write_slots(self, kind: Kind) -> None:
        """Write the hash table of the keys in parts; a row whose home is full may belong to the part after."""
        keys: Array = np.load(self._folder / f"{kind.name}.keys.npy", mmap_mode="r")
        size = num_slots(len(keys))
        with (
            self._runs([np.dtype(np.int32)] * 2, len(keys)) as runs,
            ArrayFile(self._folder / f"{kind.name}.slots.npy", (size,), np.int32) as slots,
            self._report(f"numbering {kind.name}", len(keys)) as show,
        ):
            entries = (
                [pieces.home_slots(some, size - 1), np.arange(first, first + len(some), dtype=np.int32)]
                for first, (some,) in blocks(runs.run, keys)
            )
            for done in in_order(runs.write, runs.numbered(entries), self._threads):
                show(done)
            groups, given = runs.groups(size), list[Array]()  # what the part before has left to each part
            spilled, turn = np.empty(0, np.int32), 0
            while turn < len(groups) or not np.array_equal(spilled, given[turn - len(groups)]):
                group = groups[turn % len(groups)]
                homes, rows = runs.read(group)
                order, part = pieces.sort_keys(rows)[1], np.empty(group.last - group.first, np.int32)
                given.append(spilled)
                spilled = pieces.fill_slots(homes - np.int32(group.first), rows, order, spilled, part)
                slots.write(part, group.first)
                turn += 1

    def _write_totals(self) -> None:
        """The arrays of all links: decayed counts, and the first links of nodes."""
        events, last, block = self._events, 0.0, _RUN
        with ArrayFile(self._folder / "all.totals.npy", (len(events) >> TOTAL_BITS,), np.float64) as file:
            for first, (some,) in blocks(block, events.t):
                begin, stop = first >> TOTAL_BITS, (first + len(some)) >> TOTAL_BITS
                totals = np.full(stop - begin + 1, last)
                before = events.t[: stop << TOTAL_BITS]
                building.fill_totals(before, self._decay, TOTAL_BITS, totals, begin, begin - 1)
                file.write(totals[1:], begin)
                last = float(totals[-1])
        seen = np.zeros(events.num_nodes, np.bool_)
        found = [
            building.first_links(src, dst, first, seen) for first, (src, dst) in blocks(block, events.src, events.dst)
        ]
        write_array(self._folder / "all.firsts.npy", np.concatenate([np.empty(0, np.int32), *found]))


class _Streams:
    """The entries of each kind in the order of its lists, in blocks: row or key, and the columns of `_COLUMNS`."""

    def __init__(self, events: Events, block: int, folder: Path) -> None:
        self._events, self._block, self._path = events, max(block // 2, _LEAST), folder / temporary_name()
        self._order: ColumnFile | None = None  # the canonical order of links, if some are simultaneous

    def close(self) -> None:
        """Remove the temporary file."""
        if self._order is not None:
            self._order.discard()

    def find_order(self, attributes: bool, show: Callable[[int], object]) -> None:
        """Write `ties.canonical_order` to a temporary file."""
        events, last, is_tied = self._events, None, False
        for _, (t,) in blocks(self._block, events.t):
            is_tied = is_tied or t[0] == last or bool((t[1:] == t[:-1]).any())
            last = t[-1]
        if not is_tied:
            return
        self._order, moment = ColumnFile(self._path, np.int32), 0
        msg, x = (events.msg, events.x) if attributes else (None, None)
        colours = hash_rows(x, events.num_nodes)
        sums = np.zeros_like(colours)
        for first, (src, dst, t, values) in self._links(msg):
            moments, keys = moment + np.cumsum(np.append(False, t[1:] != t[:-1])), np.empty(len(t), np.uint64)
            link_keys(src, dst, moments.view(np.uint64), hash_rows(values, len(t)), colours, sums, keys)
            self._order.append(first + np.lexsort((keys, moments)))
            moment = int(moments[-1]) + 1
            show(first + len(t))

    def nodes(self) -> Iterator[tuple[Array, ...]]:
        events = self._events
        newest, count = np.empty(events.num_nodes, events.t.dtype), np.zeros((events.num_nodes, 2), np.int32)
        for first, (src, dst, t, _) in self._links():
            yield pieces.node_entries(src, dst, t, first, newest, count)

    def pairs(self) -> Iterator[tuple[Array, ...]]:
        for first, (src, dst, t, _) in self._links():
            keys = np.minimum(src, dst).astype(np.int64) << 32 | np.maximum(src, dst)
            yield keys, _sources(first, len(t)) + (src > dst), t.copy()

    def sources(self) -> Iterator[tuple[Array, ...]]:
        for first, (src, _, t, _) in self._links():
            yield src.copy(), _sources(first, len(t)), t.copy()

    def destinations(self) -> Iterator[tuple[Array, ...]]:
        for first, (_, dst, t, _) in self._links():
            yield dst.copy(), _sources(first, len(t)) + 1, t.copy()

    def partners(self) -> Iterator[tuple[Array, ...]]:
        for first, nodes, link, partner, _ in self._ends():
            yield nodes, link + np.int32(2 * first), partner

    def next(self) -> Iterator[tuple[Array, ...]]:
        for before, after, link, time in self._transitions():
            yield before.astype(np.int64) << 32 | after, link, time

    def origins(self) -> Iterator[tuple[Array, ...]]:
        for before, _, link, time in self._transitions():
            yield before, link, time

    def _transitions(self) -> Iterator[tuple[Array, Array, Array, Array]]:
        last = np.full(self._events.num_nodes, -1, np.int32)
        for first, nodes, link, partner, t in self._ends():
            before, after, later = building.transitions(nodes, partner, link, last)
            yield before, after, later + np.int32(2 * first), t[later >> 1]

    def _ends(self) -> Iterator[tuple[int, Array, Array, Array, Array]]:
        """Entries of nodes in canonical order: the first link, nodes, entries and partners, and the times of links."""
        for first, (src, dst, t, _) in self._links():
            order = np.arange(len(t)) if self._order is None else self._order.read(first, len(t)) - first
            nodes, link = building.both_ends(src, dst, order)
            yield first, nodes, link, building.other_ends(src, dst, link), t

    def _links(self, msg: Array | None = None) -> Iterator[tuple[int, list[Any]]]:
        """Blocks of links; those that are ordered end where the time changes."""
        t, first = self._events.t, 0
        while first < len(t):
            last = min(first + self._block, len(t))
            if self._order is not None and last < len(t):
                begin = int(np.searchsorted(t, t[last]))  # of the links at the time of the next one
                last = begin if begin > first else int(np.searchsorted(t, t[last], side="right"))
            some = (self._events.src, self._events.dst, t, msg)
            for _, columns in blocks(last - first, *(None if each is None else each[first:last] for each in some)):
                yield first, columns
            first = last


def _sources(first: int, count: int) -> Array:
    """Entries of consecutive links as their sources see them."""
    return np.arange(2 * first, 2 * (first + count), 2, dtype=np.int32)
