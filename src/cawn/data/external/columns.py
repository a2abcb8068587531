"""Folders of columns: what `cawn.read` gives in memory, as one .npy file for each array."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cawn.data.array_folders import map_array
from cawn.data.attributes import Attribute
from cawn.data.events import NO_NEGATIVE, PER_LINK, Events
from cawn.data.external.files import ColumnFile
from cawn.data.external.names import write_names
from cawn.data.external.pieces import LinkFile, Piece, TextLinks, open_links, size_of
from cawn.data.external.scan import Budget, NamesAreTextError, Scan
from cawn.data.external.sorting import ROWS, sort_by_time, steps
from cawn.data.external.times import LogTimes
from cawn.data.names import NameIndex
from cawn.data.readers import files, read_like, read_options
from cawn.data.readers.columns import ReadOptions
from cawn.data.readers.nodes import NodeTable
from cawn.data.reading import Reading
from cawn.data.stored import READ_AGAIN
from cawn.data.times import check_span
from cawn.errors import QueryError
from cawn.files import storing, sync, temporary_folder
from cawn.progress import Report, progress

Array = npt.NDArray[Any]

_LEAST = 64 << 20  # bytes to work with
_IN_USE = 300 << 20  # bytes that a process has in use, where the system does not say


class ShowProgress(Protocol):
    """How progress is shown: `cawn.progress.progress`, or the same with `quiet` given."""

    def __call__(self, title: str, total: float | None = None, *, unit: Any = "") -> AbstractContextManager[Report]: ...


@dataclass(frozen=True, slots=True)
class Columns:
    """A folder of columns.

    Args:
        folder: Where they are.
        files: The names of the arrays; each is in the file NAME.npy: src, dst, t, of `PER_LINK` and x those that the
            log has, rows (only if the log was not sorted by time), and those of a `NameIndex`.
        num_links, num_nodes: Their numbers.
        reading: How the log was read.
        columns, node_columns: What msg and x hold.
    """

    folder: Path
    files: tuple[str, ...]
    num_links: int
    num_nodes: int
    reading: Reading
    columns: tuple[Attribute, ...] = ()
    node_columns: tuple[Attribute, ...] = ()

    def arrays(self) -> dict[str, Array]:
        """All arrays by name, memory-mapped copy-on-write."""
        return {name: map_array(self.folder / f"{name}.npy", READ_AGAIN) for name in self.files}

    def events(self) -> Events:
        """The links. Nothing is read before it is used; node names become `labels` when these are asked for."""
        arrays = self.arrays()
        names = NameIndex({name: array for name, array in arrays.items() if name.startswith("name")})
        held = {name: arrays.get(name) for name in ("src", "dst", "t", "x", "rows", *PER_LINK)}
        events = Events.mapped(self.num_nodes, names, **held)
        events.columns, events.node_columns, events.reading = self.columns, self.node_columns, self.reading
        return events


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on what is held in memory at once, in bytes unless noted."""

    piece: int  # of a file
    names: int  # distinct node names and categories
    sorting: int  # rows that are sorted together
    block: int = 1 << 18  # rows that are converted together

    @classmethod
    def of(cls, memory: int) -> Limits:
        """Divides the memory limit, less what the process already uses."""
        used = resident_bytes()
        left = memory - used
        if left < _LEAST:
            least = used + _LEAST >> 20
            raise QueryError(f"memory is {memory >> 20:,} MiB, too little to read a log; give at least {least:,} MiB")
        return cls(piece=min(left // 32, 1 << 24), names=left * 6 // 10, sorting=left * 6 // 10)


def resident_bytes() -> int:
    """The memory that this process has in use, including the pages of files it has mapped; an estimate elsewhere."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        return _IN_USE


def write_columns(
    source: Any, folder: Path, *, memory: int, report: ShowProgress = progress, **options: Any
) -> Columns:
    """Read a log in pieces and write its columns to an existing folder, where they must not exist yet.

    The files hold, byte for byte, what `cawn.read(source, **options)` gives in memory.

    Args:
        source: A path, pattern, folder or list of these, as `cawn.read` takes them. A table is in memory already, and
            so are files of the CAW authors' preprocessing, with arrays of features.
        memory: The most memory that the process may use, in bytes, with pages of files that it has mapped.
        report: Shows progress.
        options: Those of `cawn.read`.

    Raises:
        DataError: As `cawn.read`.
        QueryError: If the limit is too low, for any log or for the number of node names in this one.
        StorageError: If the files cannot be written. Nothing is left in the folder then, nor after Ctrl-C.
    """
    return write_limited(source, folder, Limits.of(memory), report, **options)


def write_limited(
    source: Any, folder: Path, limits: Limits, report: ShowProgress = progress, **options: Any
) -> Columns:
    """`write_columns` with separate limits."""
    found = files.find_files(source)
    if not (isinstance(found, list) and found and isinstance(found[0], files.File)):
        return _write_events(read_like(found, None, **options), folder)
    chosen, nodes = read_options(None, **options)
    first = open_links(found[0], chosen)
    if isinstance(first, TextLinks) and first.is_authors:
        return _write_events(read_like(found, None, **options), folder)
    with temporary_folder(folder / ROWS) as work, storing(folder):
        columns = _Writer(work, limits, report).run(first, found, chosen, nodes)
        for name in columns.files:
            os.rename(work / f"{name}.npy", folder / f"{name}.npy")
        sync(folder)
    return replace(columns, folder=folder)


def _write_events(events: Events, folder: Path) -> Columns:
    """Columns of events in memory."""
    held = {name: getattr(events, name) for name in ("src", "dst", "t", "x", *PER_LINK)}
    rows = None if np.array_equal(events.rows, np.arange(len(events))) else events.rows
    held |= {ROWS: rows} | NameIndex.of(events.labels).arrays
    held = {name: array for name, array in held.items() if array is not None}
    with temporary_folder(folder / ROWS) as work, storing(folder):
        for name, array in held.items():
            np.save(work / f"{name}.npy", array, allow_pickle=False)
        for name in held:
            os.rename(work / f"{name}.npy", folder / f"{name}.npy")
    reading = events.reading or Reading()
    return Columns(folder, tuple(held), len(events), events.num_nodes, reading, events.columns, events.node_columns)


class _Writer:
    """Reads files and writes their columns to a folder of its own."""

    def __init__(self, folder: Path, limits: Limits, report: ShowProgress) -> None:
        self._folder, self._limits, self._report = folder, limits, report

    def run(
        self, first: LinkFile, found: Sequence[files.File], options: ReadOptions, nodes: NodeTable | None
    ) -> Columns:
        """`first` is the first of the files found, which was looked at already."""
        scan = self._scan(first, found, options)
        times = LogTimes(scan.times)
        reading = replace(scan.parts[0].reading, dates=times.has_dates, unit=times.unit)
        columns = tuple(
            replace(column, levels=scan.levels(at)) if column.kind == "category" else column
            for at, column in enumerate(scan.columns)
        )
        if not reading.msg and "msg" in scan.files:
            scan.files.pop("msg").remove()
            columns = ()
        written = scan.files
        with self._report("sorting node names"):
            prefixes = scan.prefixes if scan.bipartite else None
            finals = write_names(scan.tables, prefixes, partial(self._create, written))
        num_nodes = sum(map(len, finals))
        names = [name for name in written if name.startswith("name")]
        held = {name: written.pop(name) for name in list(written) if name not in names}
        is_sorted = self._convert_times(held["t"], times)
        held = self._order(held, finals, is_sorted)
        for file in (*held.values(), *(written[name] for name in names)):
            file.finish()
        count = held["t"].rows
        result = Columns(self._folder, (*held, *names), count, num_nodes, reading, columns)
        return result if nodes is None else self._with_nodes(result, nodes)

    def _scan(self, first: LinkFile, found: Sequence[files.File], options: ReadOptions) -> Scan:
        """Read all files; again, if names of a file that looked like integers turn out to be strings."""
        text_names: set[int] = set()
        total = sum(map(size_of, found))
        while True:
            scan = Scan(self._folder, first, budget := Budget(self._limits.names))
            try:
                with self._report("reading", total, unit="bytes") as report:
                    done = 0
                    for i, file in enumerate(found):
                        links = first if i == 0 else open_links(file, options)
                        on_piece = partial(self._show, report, done, budget, total)
                        scan.add(links, self._limits.piece, on_piece, text_names=i in text_names)
                        done += size_of(file)
                pa.default_memory_pool().release_unused()
                return scan
            except NamesAreTextError:
                text_names.add(len(scan.parts))
                for column in scan.files.values():
                    column.remove()

    def _show(self, report: Report, before: float, budget: Budget, total: int, piece: Piece) -> None:
        budget.share = (before + piece.done) / max(total, 1)
        report(before + piece.done)

    def _create(self, written: dict[str, ColumnFile], name: str, dtype: npt.DTypeLike) -> ColumnFile:
        written[name] = ColumnFile(self._folder / f"{name}.npy", dtype)
        return written[name]

    def _convert_times(self, file: ColumnFile, times: LogTimes) -> bool:
        """Turn stored times into the numbers that events have; returns whether they are sorted."""
        row, last, is_sorted, bounds = 0, None, True, []
        for kind, rows, _ in times.segments():
            for first, count in steps(rows, self._limits.block):
                t = times.convert(file.read(row + first, count), kind)
                if not times.stored_as_they_are:
                    file.replace(row + first, t.view(np.int64))
                is_sorted = is_sorted and (last is None or t[0] >= last) and bool((t[1:] >= t[:-1]).all())
                last = t[-1]
                bounds += [t.min(), t.max()]
                bounds = [min(bounds), max(bounds)]
            row += rows
        file.retype(times.dtype)
        check_span(np.array(bounds, times.dtype))
        return is_sorted

    def _order(self, held: dict[str, ColumnFile], finals: list[Array], is_sorted: bool) -> dict[str, ColumnFile]:
        """The columns in the order of time, with the final numbers of nodes."""
        numbered = {"src": finals[0], "dst": finals[-1], "negative": finals[-1]}

        def convert(name: str, values: Array) -> Array:
            if name not in numbered:
                return values
            found = numbered[name][values]
            return np.where(values == NO_NEGATIVE, np.int32(NO_NEGATIVE), found) if name == "negative" else found

        rows = held["t"].rows
        with self._report("numbering" if is_sorted else "sorting", rows) as report:
            if is_sorted:
                for first, count in steps(rows, self._limits.block):
                    for name in numbered.keys() & held.keys():
                        held[name].replace(first, convert(name, held[name].read(first, count)))
                    report(first + count)
                return held
            sorted_in = self._folder / "sorted"
            sorted_in.mkdir()
            memory = max(self._limits.sorting - sum(array.nbytes for array in finals), self._limits.sorting // 8)
            found = sort_by_time(held, sorted_in, memory, convert, report)
        for name, file in found.items():
            file.move(self._folder / f"{name}.npy")
        return found

    def _with_nodes(self, columns: Columns, nodes: NodeTable) -> Columns:
        events = nodes.attached(columns.events())
        assert events.x is not None
        file = ColumnFile(self._folder / "x.npy", np.float32, events.x.shape[1])
        file.append(events.x)
        file.finish()
        return replace(columns, files=(*columns.files, "x"), node_columns=events.node_columns)
