"""Writing the index of links to files, which may take more memory than there is.

An index that fits into memory is built there. Else each kind of lists is written in two passes. First its entries are
read in the order of the lists, and sorted by row, or by key, in *runs* that fit into memory, which go to temporary
files. Then ranges of rows, *groups*, are read from all runs, laid out and appended to the files of the kind. The files
hold, byte for byte, the arrays that would be in memory.
"""

from __future__ import annotations

import math
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from cawn.checks import Array
from cawn.data.columns import ArrayFile, Store, blocks, release_pages, steps, write_array
from cawn.data.events import Events
from cawn.data.sorting import ColumnType, Group, Runs, in_order
from cawn.devices import release_freed_memory
from cawn.errors import QueryError
from cawn.files import storing, temporary_folder
from cawn.index.building import link_column
from cawn.index.entries import Streams
from cawn.index.features import PairParts
from cawn.index.index import Index, check_size
from cawn.index.kernels import building, lists
from cawn.index.kinds import ALL, NEXT, NODES, PAIRS, PARTNERS, TOTAL_BITS, WAYS, Kind
from cawn.index.sizes import LinkCounts, memory_to_build
from cawn.index.stored import array_names, named_arrays
from cawn.kernels.threads import num_threads
from cawn.progress import ShowProgress, progress

Entries = dict[str, Array]  # columns by name

_RUN, _GROUP = 1 << 20, 1 << 21  # entries of a run and of a group, if memory allows for more
_LEAST = 1 << 10
_STEP = 1 << 14  # entries of a list that does not fit into memory, whose times may be far apart
_PER_NODE = 24  # bytes, of what is known about each node while links are read
_SHARE = 0.8  # of the memory; the rest is lost to fragments


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
        unit: The unit of time of the model.
        memory: Bytes of memory that may be used, besides what the process has in use already.
        attributes: Whether attributes of links may order simultaneous ones.
    """
    check_size(events)
    decays, decay = np.array(alphas), parts.decay(unit)
    with storing(folder):
        if memory_to_build(LinkCounts.at_most(len(events), events.num_nodes), len(alphas), parts) > memory:
            with temporary_folder(folder) as work:
                settings = decays, decay, folder, work, memory, attributes, num_threads(threads), report
                _Writer(events, *settings).write(parts.kinds)
            return array_names(parts.kinds)
        arrays = named_arrays(Index.of(events, decays, parts.kinds, decay, attributes=attributes, threads=threads))
        done = 0
        with report("writing the index", sum(array.nbytes for array in arrays.values()), unit="bytes") as show:
            for name, array in arrays.items():
                write_array(folder / f"{name}.npy", array)
                done += array.nbytes
                show(done)
    return list(arrays)


@dataclass(frozen=True)
class _Writer:
    """Writes the kinds of an index one after the other."""

    events: Events
    alphas: Array
    decay: float
    folder: Path
    work: Path  # for temporary files
    memory: int
    attributes: bool
    threads: int
    report: ShowProgress

    @cached_property
    def _left(self) -> int:
        """Bytes of memory for entries."""
        left = int(_SHARE * (self.memory - _PER_NODE * self.events.num_nodes))
        if (missing := _LEAST * (self.threads + 1) * 256 - left) > 0:
            raise QueryError(
                f"an index of {self.events.num_nodes:,} nodes needs {missing / _SHARE / 2**20:,.1f} MiB more than "
                "the memory limit; give more memory"
            )
        return left

    def write(self, kinds: tuple[Kind, ...]) -> None:
        """Write all arrays of these kinds."""
        block = min(_RUN, self._left // (8 * _LEAST) * 128)
        streams = Streams(self.events, max(block // 2, _LEAST), Store(self.work).create("order", np.int32))
        if PARTNERS in kinds:
            with self.report("ordering simultaneous links", len(self.events)) as show:
                streams.find_order(self.attributes, show)
        for kind in kinds:
            if kind is not WAYS:  # which is written with the pairs
                self._write_kind(streams, [kind, WAYS] if kind is PAIRS and WAYS in kinds else [kind])
        if NEXT in kinds:
            self._write_totals(streams)

    def _write_kind(self, streams: Streams, kinds: list[Kind]) -> None:
        """Write kinds whose entries are the same."""
        release_freed_memory()
        kind, t = kinds[0], self.events.t
        num_rows, names = self.events.num_nodes, tuple(name for name in kind.columns if name != "logsum")
        if kind.sums and "time" not in names:
            names = *names, "time"
        shapes = kind.arrays(0, 0, 0, 0, t.dtype) | {"time": ((0,), t.dtype)}
        types: list[ColumnType] = [(np.dtype(np.int64 if kind.keyed else np.int32),)]
        types += [(np.dtype(dtype), *shape[1:]) for shape, dtype in map(shapes.__getitem__, names)]
        with self._runs(types, 2 * len(t)) as runs:
            with self.report(f"dividing {kind.name}", len(t)) as show:
                every = (each if len(each) == len(types) else (*each, t[each[1] >> 1]) for each in streams.of(kind))
                for done in in_order(runs.write, runs.numbered(every), self.threads):
                    show(min(done, len(t)))
            groups, done = runs.groups(0, 1 << 62 if kind.keyed else num_rows), 0
            with self.report(f"sorting {kind.name}", runs.size) as show, ExitStack() as stack:
                files = [_KindFiles(stack, self.folder, each, runs.size, t, self.alphas, self.decay) for each in kinds]
                tasks = ((runs, group, names, files) for group in groups)
                for size, spans, keys in in_order(_write_group, tasks, self.threads):
                    for file, span in zip(files, spans, strict=True):
                        file.append(span, keys)
                    done += size
                    show(done)
                for file in files:
                    file.finish()
        if kind.keyed:
            self._write_slots(kind)

    def _runs(self, types: list[ColumnType], most: int) -> Runs:
        """Runs of as many entries as memory allows for."""
        row = sum(dtype.itemsize * math.prod(shape) for dtype, *shape in types)
        run = min(_RUN, self._left // ((self.threads + 1) * (2 * row + 40)))
        group = min(_GROUP, self._left // (self.threads * (2 * row + 64 + 2 * len(self.alphas))))
        return Runs(Store(self.work), types, run, group, -(-most // run), building.sort_keys)

    def _write_slots(self, kind: Kind) -> None:
        """Write the hash table of the keys, a part after the other."""
        keys: Array = np.load(self.folder / f"{kind.name}.keys.npy", mmap_mode="r")
        size = lists.num_slots(len(keys))
        with (
            self._runs([(np.dtype(np.int32),)] * 2, len(keys)) as runs,
            ArrayFile(self.folder / f"{kind.name}.slots.npy", (0,), np.int32) as slots,
            self.report(f"numbering {kind.name}", len(keys)) as show,
        ):
            entries = (
                [lists.home_slots(some, size - 1), np.arange(first, first + len(some), dtype=np.int32)]
                for first, (some,) in blocks(runs.run, keys)
            )
            for done in in_order(runs.write, runs.numbered(entries), self.threads):
                show(done)
            for _, count in steps(size, runs.group):
                slots.append(np.full(count, lists.FREE, np.int32))
            for group in runs.groups(0, size):
                homes, rows = runs.read(group)
                homes, order = building.sort_keys(homes)
                lists.enter_rows(homes, rows[order], slots.mapped())

    def _write_totals(self, streams: Streams) -> None:
        """The arrays of all links: decayed counts, and the first links of nodes."""
        events, last = self.events, 0.0
        seen, firsts = np.zeros(events.num_nodes, np.bool_), list[Array]()
        with ArrayFile(self.folder / f"{ALL}.totals.npy", (len(events) >> TOTAL_BITS,), np.float64) as file:
            for first, (src, dst, t, _) in streams.links():
                begin = first >> TOTAL_BITS
                totals = building.totals_from(events.t[: first + len(t)], self.decay, TOTAL_BITS, begin, last)
                file.write(totals, begin)
                last = float(totals[-1]) if len(totals) else last
                firsts.append(building.first_links(src, dst, first, seen))
        write_array(self.folder / f"{ALL}.firsts.npy", np.concatenate(firsts))


def _write_group(
    runs: Runs, group: Group, names: tuple[str, ...], files: list[_KindFiles]
) -> tuple[int, list[Array], Array]:
    """Write the lists of a group; returns the number of its entries, the spans of each kind, and the keys.

    Args:
        names: Of the columns of the runs, after the sorted one.
        files: Those of each kind that has these entries; pairs come before ways.
    """
    if group.size > runs.group and group.last - group.first == 1:
        return group.size, [_write_long(runs, group, names, each) for each in files], np.array([group.first])
    keys, *read = runs.read(group)
    keys, order = building.sort_keys(keys - keys.dtype.type(group.first))
    columns = {name: column[order] for name, column in zip(names, read, strict=True)}
    del read, order
    rows, num_rows, distinct, spans = keys, group.last - group.first, np.empty(0, np.int64), list[Array]()
    if files[0].kind.keyed:
        distinct, rows = building.number_sorted(keys)
        num_rows = len(distinct)
    for each in files:
        if each.kind is WAYS:
            rows, num_rows = 2 * rows + (columns["link"] & 1), 2 * num_rows
        span, position, _ = building.lay_out(rows, num_rows, False)
        if each.kind is WAYS:
            order = np.empty_like(position)
            order[position] = np.arange(len(position))
            columns = {name: column[order] for name, column in columns.items()}
        each.write(group.at, span, columns)
        spans.append(span + (group.at << lists.START_BITS))
    return group.size, spans, distinct + group.first


def _write_long(runs: Runs, group: Group, names: tuple[str, ...], files: _KindFiles) -> Array:
    """Write the lists of one row, which do not fit into memory, a run at a time; returns their spans."""
    at, spans = group.at, []
    for side in (0, 1) if files.kind is WAYS else (None,):
        start = at
        for part in runs.parts(group):
            columns = dict(zip(names, runs.read(part)[1:], strict=True))
            if side is not None:
                columns = {name: column[columns["link"] & 1 == side] for name, column in columns.items()}
            files.write_columns(at, columns)
            at += len(columns[names[0]])
        files.fill_long(start, at - start, min(runs.group, _STEP))
        spans.append(start << lists.START_BITS | lists.EXACT | (at - start))
    return np.array(spans)


class _KindFiles:
    """The files of one kind, but for the hash table; groups are written in any order, and spans and keys appended."""

    def __init__(
        self, stack: ExitStack, folder: Path, kind: Kind, size: int, t: Array, alphas: Array, decay: float
    ) -> None:
        self.kind, self._size, self._t, self._alphas = kind, size, t, alphas
        self._decays = kind.decays(alphas, decay)
        shapes = kind.arrays(size, 0, len(alphas), len(self._decays), t.dtype)
        self._files = {
            name: stack.enter_context(ArrayFile(folder / f"{kind.name}.{name}.npy", *shapes[name]))
            for name in (*kind.columns, "sums")
        }
        appended = ("span", "keys") if kind.keyed else ("span",)
        self._appended = [ArrayFile(folder / f"{kind.name}.{name}.npy", (0,), np.int64) for name in appended]

    def append(self, span: Array, keys: Array) -> None:
        """Write the spans, and keys, of the next rows."""
        for file, values in zip(self._appended, (span, keys), strict=False):
            file.append(values)

    def finish(self) -> None:
        """Finish the spans and keys."""
        for file in self._appended:
            file.finish()

    def write_columns(self, at: int, columns: Entries) -> None:
        """Write what entries from `at` on have, but for their sums."""
        for name in self._files.keys() & columns.keys():
            self._files[name].replace(at, columns[name])

    def write(self, at: int, span: Array, columns: Entries) -> None:
        """Write the lists of a group from entry `at` on; spans begin at 0."""
        self.write_columns(at, columns)
        bits, size, width, known = (
            self.kind.bits,
            int((span & lists.LENGTH).sum()),
            len(self._decays),
            np.zeros_like(span),
        )
        for a in range(len(self._alphas) if self.kind is NODES else 0):
            logsum, P = np.empty((1, size)), np.zeros((len(span), 1))
            building.fill_logsums(span, known, columns["time"], self._alphas[a : a + 1], P, logsum)
            self._files["logsum"].write(logsum, a * self._size + at)
        if width:
            begin = at & ((1 << bits) - 1)
            link = (2 * np.arange(-begin, size)).astype(np.int32)
            sums = np.zeros((lists.block_rows(begin + size, bits), width))
            shifted = span + (begin << lists.START_BITS)
            building.fill_sums(shifted, known, link, columns["time"], self._decays, bits, sums)
            first, stop = lists.block_row(at, 0, bits), lists.block_row(at + size, 0, bits)
            self._files["sums"].write(sums[first - (at >> bits) : stop - (at >> bits)], first * width)

    def fill_long(self, start: int, size: int, step: int) -> None:
        """Compute the sums of a list whose entries are written, from its files, `step` entries at a time."""
        P = np.zeros((1, len(self._alphas)))
        for known in range(0, size, step):
            held: Entries = {name: file.mapped() for name, file in self._files.items() if math.prod(file.shape)}
            stop = min(known + step, size)
            done = np.array([start << lists.START_BITS | lists.EXACT | stop]), np.array([known])
            if self.kind is NODES:
                building.fill_logsums(*done, held["time"], self._alphas, P, held["logsum"])
            if len(self._decays):
                link = link_column(held)
                building.fill_sums(*done, link, self._t, self._decays, self.kind.bits, held["sums"])
                release_pages(self._t[link[start + known] >> 1 : link[start + stop - 1] >> 1])
