"""Writing the index of links to files, which may take more memory than there is.

An index that fits into memory is built there. Else each kind of lists is written in two passes. First its entries are
read in the order of the lists, and sorted by row, or by key, in *runs* that fit into memory, which go to temporary
files. Then ranges of rows, *groups*, are read from all runs, laid out and appended to the files of the kind. The files
hold, byte for byte, the arrays that would be in memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from cawn.data.array_files import ArrayFile, blocks, write_array
from cawn.data.events import Events
from cawn.data.external.columns import ShowProgress
from cawn.data.external.files import ColumnFile
from cawn.data.ties import hash_rows
from cawn.devices import release_freed_memory
from cawn.errors import QueryError
from cawn.files import storing, temporary_name
from cawn.index.features import PairParts
from cawn.index.index import Index, check_size
from cawn.index.kernels import building, pieces
from cawn.index.kernels.lists import EXACT, LENGTH, START_BITS, block_row, block_rows, num_slots
from cawn.index.kinds import NEXT, NODES, PAIRS, PARTNERS, TOTAL_BITS, WAYS, Kind
from cawn.index.sizes import Counts, memory_to_build
from cawn.index.stored import array_names, named_arrays
from cawn.kernels.cpu.ties import link_keys
from cawn.kernels.threads import num_threads
from cawn.progress import progress

Array = npt.NDArray[Any]
Result = TypeVar("Result")

_RUN, _GROUP = 1 << 20, 1 << 21  # entries of a run and of a group, if memory allows for more
_LEAST = 1 << 10
_PER_NODE = 24  # bytes, of what is known about each node while links are read
_SHARE = 0.8  # of the memory; the rest is lost to fragments
_SAMPLES = 1 << 12  # of the keys of a run, at most one in so many is sampled
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
                for done in _in_order(runs.write, runs.numbered(getattr(streams, kind.name)()), self._threads):
                    show(min(done, len(t)))
            groups, done = runs.groups(1 << 62 if kind.keyed else num_rows), 0
            with self._report(f"sorting {kind.name}", runs.size) as show, ExitStack() as stack:
                files = [
                    _KindFiles(stack, self._folder, each, runs.size, t.dtype, self._alphas, self._decay)
                    for each in kinds
                ]

                def lay_out(group: _Group) -> tuple[int, list[Array], Array]:
                    return runs.lay_out(group, columns, files)

                for size, spans, keys in _in_order(lay_out, ((group,) for group in groups), self._threads):
                    for file, span in zip(files, spans, strict=True):
                        file.append(span, keys)
                    done += size
                    show(done)
                num_keys = [file.finish() for file in files][0]
        if kind.keyed:
            self._write_slots(kind, num_keys)

    def _runs(self, types: list[np.dtype[Any]], most: int) -> _Runs:
        """Runs of as many entries as memory allows for."""
        row = sum(dtype.itemsize for dtype in types)
        run = min(_RUN, self._left // ((self._threads + 1) * (2 * row + 40)))
        group = min(_GROUP, self._left // (self._threads * (2 * row + 64 + 2 * len(self._alphas))))
        return _Runs(self._folder, types, run, group, -(-most // run))

    def _write_slots(self, kind: Kind, num_keys: int) -> None:
        """Write the hash table of the keys in parts; a row whose home is full may belong to the part after."""
        path, size = self._folder / f"{kind.name}.keys.npy", num_slots(num_keys)
        keys: Array = np.load(path, mmap_mode="r")
        types = [np.dtype(np.int32)] * 2
        with (
            self._runs(types, num_keys) as runs,
            ArrayFile(self._folder / f"{kind.name}.slots.npy", (size,), np.int32) as slots,
            self._report(f"numbering {kind.name}", num_keys) as show,
        ):
            homes = (
                [pieces.home_slots(some, size - 1), np.arange(first, first + len(some), dtype=np.int32)]
                for first, (some,) in blocks(runs.run, keys)
            )
            for done in _in_order(runs.write, runs.numbered(homes), self._threads):
                show(done)
            groups = runs.groups(size)
            held: list[Array] = []  # what was left by each part
            spilled, turn = np.empty(0, np.int32), 0
            while turn < len(groups) or not np.array_equal(spilled, held[turn - len(groups)]):
                group = groups[turn % len(groups)]
                home, row = runs.read(group)
                part = np.empty(group.last - group.first, np.int32)
                before, spilled = spilled, pieces.fill_slots(
                    home - np.int32(group.first), row, pieces.sort_keys(row)[1], spilled, part
                )
                slots.write(part, group.first)
                held.append(before)
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
            self._order.remove()

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


class _Group(NamedTuple):
    """A range of rows or keys, as a part of each run."""

    first: int
    last: int  # after the last one
    at: int  # entries before
    bounds: Array  # [runs, 2]

    @property
    def size(self) -> int:
        return int((self.bounds[:, 1] - self.bounds[:, 0]).sum())


class _Runs:
    """Entries in temporary files, sorted in runs; a context, which removes the files.

    Args:
        types: Of the columns; the first one is sorted.
        run, group: The most entries of a run and of a group.
        num_runs: About how many there will be.
    """

    def __init__(self, folder: Path, types: list[np.dtype[Any]], run: int, group: int, num_runs: int) -> None:
        self.run, self._group = run, group
        self._every = min(max(group // (4 * num_runs), 1), _SAMPLES)
        self._files = [ColumnFile(folder / temporary_name(), dtype) for dtype in types]
        self._samples: list[Array] = []
        self._starts = [0]

    @property
    def size(self) -> int:
        """The number of entries."""
        return self._starts[-1]

    def numbered(self, entries: Iterable[Iterable[Array]]) -> Iterator[tuple[int, list[Array]]]:
        """The runs that entries are divided into: the number and the columns of each."""
        for columns in entries:
            columns = list(columns)
            for first in range(0, len(columns[0]), self.run):
                some = [column[first : first + self.run] for column in columns]
                self._starts.append(self.size + len(some[0]))
                self._samples.append(np.empty(0, np.int64))
                yield len(self._samples) - 1, some

    def write(self, number: int, columns: list[Array]) -> int:
        """Sort a run and write it; returns the number of entries up to its end."""
        keys, order = pieces.sort_keys(columns[0])
        self._samples[number] = keys[:: self._every]
        for file, values in zip(self._files, [keys, *(column[order] for column in columns[1:])], strict=True):
            file.replace(self._starts[number], values)
        return self._starts[number + 1]

    def groups(self, last: int) -> list[_Group]:
        """Ranges of rows or keys, up to `last`, with entries that fit into memory, or else a single one."""
        samples = np.sort(np.concatenate([np.empty(0, np.int64), *self._samples]))
        cuts = samples[:: max(self._group // (4 * self._every), 1)]
        single = cuts[1:][cuts[1:] == cuts[:-1]]
        firsts = np.unique(np.concatenate([[0], cuts, single + 1]))
        firsts = np.append(firsts[firsts < last], last)
        bounds = np.array([[self._find(run, first) for first in firsts] for run in range(len(self._samples))], np.int64)
        bounds = bounds.reshape(-1, len(firsts))
        at = bounds.sum(axis=0) - np.sum(self._starts[:-1])
        return [
            _Group(int(firsts[g]), int(firsts[g + 1]), int(at[g]), bounds[:, g : g + 2]) for g in range(len(firsts) - 1)
        ]

    def _find(self, run: int, key: int) -> int:
        """The position of the first entry of a run that has at least this key."""
        start, stop = self._starts[run : run + 2]
        first = max(int(np.searchsorted(self._samples[run], key)) - 1, 0) * self._every + start
        keys = self._files[0].read(first, min(self._every + 1, stop - first))
        return first + int(np.searchsorted(keys, key))

    def read(self, group: _Group) -> list[Array]:
        """The columns of a group; entries of equal keys are in order."""
        return [np.concatenate([np.empty(0, file.dtype), *(file.read(a, b - a) for a, b in group.bounds)]) for file in self._files]

    def lay_out(self, group: _Group, names: tuple[str, ...], files: list[_KindFiles]) -> tuple[int, list[Array], Array]:
        """Write the lists of a group; returns the number of its entries, the spans of each kind, and the keys."""
        is_keyed, spans = files[0].kind.keyed, []
        if group.size > self._group and group.last - group.first == 1:
            runs = [group._replace(bounds=group.bounds[i : i + 1]) for i in range(len(group.bounds))]
            for file in files:
                at = group.at
                for side in (0, 1) if file.kind is WAYS else (-1,):
                    long = _LongList(file, at)
                    for run in runs:
                        columns = dict(zip(names, self.read(run)[1:], strict=True))
                        taken = slice(None) if side < 0 else columns["link"] & 1 == side
                        long.add({name: column[taken] for name, column in columns.items()})
                    spans.append(np.array([at << START_BITS | EXACT | long.size]))
                    at += long.size
            if len(files) > 1:
                spans[1:] = [np.concatenate(spans[1:])]
            return group.size, spans, np.array([group.first])
        keys, *read = self.read(group)
        sorted_keys, order = pieces.sort_keys(keys - keys.dtype.type(group.first))
        columns = {name: column[order] for name, column in zip(names, read, strict=True)}
        del keys, read, order
        distinct, rows = pieces.number_sorted(sorted_keys) if is_keyed else (np.empty(0, np.int64), sorted_keys)
        num_rows = len(distinct) if is_keyed else group.last - group.first
        for file in files:
            if file.kind is WAYS:
                rows, num_rows = 2 * rows + (columns["link"] & 1), 2 * num_rows
            span, position = building.lay_out(rows, num_rows)
            if file.kind is WAYS:
                columns = {name: _placed(column, position) for name, column in columns.items()}
            del position
            file.write(group.at, span, columns)
            spans.append(span + (group.at << START_BITS))
        return group.size, spans, distinct + group.first

    def __enter__(self) -> _Runs:
        return self

    def __exit__(self, *_: object) -> None:
        for file in self._files:
            file.remove()


def _placed(values: Array, position: Array) -> Array:
    found = np.empty_like(values)
    found[position] = values
    return found


class _KindFiles:
    """The files of one kind, but for the hash table; groups are written in any order, and spans and keys appended."""

    def __init__(
        self, stack: ExitStack, folder: Path, kind: Kind, size: int, times: np.dtype[Any], alphas: Array, decay: float
    ) -> None:
        self.kind, self.size, self.alphas = kind, size, alphas
        self.decays = kind.decays(alphas, decay)
        shapes: dict[str, tuple[tuple[int, ...], Any]] = {
            "time": ((size,), times),
            "hop": ((size, 3), np.int32),
            "logsum": ((len(alphas), size), np.float64),
            "sums": ((block_rows(size, kind.bits), len(self.decays)), np.float64),
        }
        self.files = {
            name: stack.enter_context(ArrayFile(folder / f"{kind.name}.{name}.npy", *shapes.get(name, ((size,), np.int32))))
            for name in (*kind.columns, "sums")
        }
        self._appended = [ColumnFile(folder / f"{kind.name}.span.npy", np.int64)]
        if kind.keyed:
            self._appended.append(ColumnFile(folder / f"{kind.name}.keys.npy", np.int64))
        for file in self._appended:
            stack.callback(file.close)

    def append(self, span: Array, keys: Array) -> None:
        """Write the spans, and keys, of the next rows."""
        for file, values in zip(self._appended, (span, keys), strict=False):
            file.append(values)

    def finish(self) -> int:
        """Finish the spans and keys; returns the number of rows."""
        for file in self._appended:
            file.finish()
        return self._appended[0].rows

    def write_columns(self, at: int, columns: dict[str, Array]) -> None:
        """Write what entries from `at` on have, but for their sums."""
        if self.kind is NODES:
            columns = {
                "time": columns["time"],
                "hop": np.stack([columns["other"], columns["link"], columns["cut"]], axis=1),
            }
        for name in self.files.keys() & columns.keys():
            self.files[name].write(columns[name], at * (3 if name == "hop" else 1))

    def write(self, at: int, span: Array, columns: dict[str, Array]) -> None:
        """Write the lists of a group from entry `at` on; spans begin at 0."""
        self.write_columns(at, columns)
        bits, size = self.kind.bits, int((span & LENGTH).sum())
        if self.kind is NODES:
            for a in range(len(self.alphas)):
                logsum = np.empty((1, size))
                building.fill_logsums(span, columns["time"], self.alphas[a : a + 1], logsum, 0, len(span))
                self.files["logsum"].write(logsum, a * self.size + at)
        if len(self.decays):
            begin = at & ((1 << bits) - 1)
            link = (2 * np.arange(-begin, size)).astype(np.int32)
            sums = np.zeros((block_rows(begin + size, bits), len(self.decays)))
            building.fill_sums(span + (begin << START_BITS), link, columns["time"], self.decays, bits, sums, 0, len(span))
            first, stop = block_row(at, 0, bits), block_row(at + size, 0, bits)
            self.files["sums"].write(sums[first - (at >> bits) : stop - (at >> bits)], first * len(self.decays))


class _LongList:
    """A list that does not fit into memory, written a part at a time, from entry `at` on."""

    def __init__(self, files: _KindFiles, at: int) -> None:
        self._files, self._at, self.size = files, at, 0
        self._P, self._newest = np.zeros(len(files.alphas)), np.empty(0)
        self._times, self._sums, self._blocks = np.empty(0), np.zeros((0, len(files.decays))), 0

    def add(self, columns: dict[str, Array]) -> None:
        """Write the next entries."""
        files, at, size = self._files, self._at + self.size, len(columns["link"])
        files.write_columns(at, columns)
        self.size += size
        if files.kind is NODES and size:
            time, logsum = columns["time"], np.empty((len(files.alphas), size))
            before = self._newest[-1] if len(self._newest) else time[0]
            pieces.continue_logsums(time, before, files.alphas, self._P, logsum)
            self._newest = time[-1:].copy()
            for a, sums in enumerate(logsum):
                files.files["logsum"].write(sums, a * files.size + at)
        if len(files.decays):
            self._add_sums(columns["time"])

    def _add_sums(self, time: Array) -> None:
        """Write the sums of full blocks; the times and sums of the last one are kept for the next."""
        files, bits, known = self._files, self._files.kind.bits, len(self._sums)
        times = np.concatenate([self._times.astype(time.dtype), time])
        count = len(times) >> bits
        sums = np.zeros((count, len(files.decays)))
        sums[:known] = self._sums
        pieces.continue_sums(times, files.decays, bits, known, sums)
        files.files["sums"].write(sums[known:], block_row(self._at, self._blocks, bits) * len(files.decays))
        self._blocks += count - known
        self._times, self._sums = times[max(count - 1, 0) << bits :].copy(), sums[max(count - 1, 0) :]


def _in_order(
    work: Callable[..., Result], tasks: Iterable[tuple[Any, ...]], threads: int
) -> Iterator[Result]:
    """The results of tasks in their order, computed on several threads; at most `threads` tasks are held at once."""
    with ThreadPoolExecutor(threads) as pool:
        waiting = deque[Future[Result]]()
        try:
            for task in tasks:
                if len(waiting) == threads:
                    yield waiting.popleft().result()
                waiting.append(pool.submit(work, *task))
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
