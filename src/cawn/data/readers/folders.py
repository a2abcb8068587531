"""Logs larger than memory: their columns in the files of a folder, and events that are mapped from it."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.checks import check_path, parse_bytes
from cawn.data.array_files import write_array
from cawn.data.array_folders import map_array
from cawn.data.attributes import Attribute
from cawn.data.columns import FileStore
from cawn.data.events import PER_LINK, Events
from cawn.data.names import SLOTS
from cawn.data.readers import authors, found_source, parts_of, read_like, read_options
from cawn.data.readers.links import Limits, read_log
from cawn.data.readers.sorting import ROWS
from cawn.data.reading import Reading
from cawn.data.stored import READ_AGAIN, is_columns, is_index, write_columns_description
from cawn.errors import QueryError, brief
from cawn.files import LOCK, FolderLock, make_folder, storing, sync, temporary_folder
from cawn.progress import ShowProgress, progress

Array = npt.NDArray[Any]

_LEAST = 64 << 20  # bytes to work with
_IN_USE = 300 << 20  # bytes that a process has in use, where the system does not say


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

    def with_array(self, name: str, array: Array | None) -> Columns:
        """With one more array, whose file is written, if there is one."""
        if array is None:
            return self
        write_array(self.folder / f"{name}.npy", array)
        return replace(self, files=(*self.files, name))

    def moved(self, folder: Path) -> Columns:
        """The files in another folder of the same disk."""
        for name in self.files:
            os.rename(self.folder / f"{name}.npy", folder / f"{name}.npy")
        sync(folder)
        return replace(self, folder=folder)

    def events(self) -> Events:
        """The links. Nothing is read before it is used; node names become `labels` when these are asked for."""
        events = Events.of_arrays(self.num_nodes, self.arrays())
        events.columns, events.node_columns, events.reading = self.columns, self.node_columns, self.reading
        return events


def limits_of(memory: int) -> Limits:
    """Divides the memory limit, less what the process already uses."""
    used = resident_bytes()
    left = memory - used
    if left < _LEAST:
        least = used + _LEAST >> 20
        raise QueryError(f"memory is {memory >> 20:,} MiB, too little to read a log; give at least {least:,} MiB")
    return Limits(piece=min(left // 32, 1 << 24), names=left * 6 // 10, sorting=left * 6 // 10)


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
        source: What `cawn.read` takes. A table is in memory already, and so are files of the CAW authors'
            preprocessing, with arrays of features.
        memory: The most memory that the process may use, in bytes, with pages of files that it has mapped.
        report: Shows progress.
        options: Those of `cawn.read`.

    Raises:
        DataError: As `cawn.read`.
        QueryError: If the limit is too low, for any log or for the number of node names in this one.
        StorageError: If the files cannot be written. Nothing is left in the folder then, nor after Ctrl-C.
    """
    return write_limited(source, folder, limits_of(memory), report, **options)


def write_limited(
    source: Any, folder: Path, limits: Limits, report: ShowProgress = progress, **options: Any
) -> Columns:
    """`write_columns` with separate limits."""
    found = found_source(source)
    if isinstance(found, Events) or authors.are_of_authors(found):
        return _write_events(read_like(found, None, **options), folder)
    chosen, nodes = read_options(None, **options)
    parts, total = parts_of(found, chosen)
    with temporary_folder(folder / ROWS) as work, storing(folder):
        log = read_log(parts, total, FileStore(work), limits, report)
        for name, column in log.columns.items():
            os.rename(str(column.finish()), work / f"{name}.npy")
        columns = Columns(work, tuple(log.columns), log.num_links, log.num_nodes, log.reading, log.attributes)
        columns = columns.with_array(SLOTS, columns.events().names.slots)
        if nodes is not None:
            attached = nodes.attached(columns.events())
            columns = replace(columns.with_array("x", attached.x), node_columns=attached.node_columns)
        return columns.moved(folder)


def _write_events(events: Events, folder: Path) -> Columns:
    """Columns of events in memory."""
    reading = events.reading or Reading()
    held = {name: getattr(events, name) for name in ("src", "dst", "t", "x", *PER_LINK)}
    held |= events.names.arrays | {SLOTS: events.names.slots}
    if not np.array_equal(events.rows, np.arange(len(events))):
        held[ROWS] = events.rows
    with temporary_folder(folder / ROWS) as work, storing(folder):
        columns = Columns(work, (), len(events), events.num_nodes, reading, events.columns, events.node_columns)
        for name, array in held.items():
            columns = columns.with_array(name, array)
        return columns.moved(folder)


# The arguments `memory` and `out` of `cawn.read`.


def read_mapped(source: Any, memory: int | str | None, out: Any, **options: Any) -> Events:
    """The arguments `memory` and `out` of `cawn.read`, and its other ones."""
    if memory is None:
        raise QueryError(f"out={brief(out)}: give memory as well, such as memory='4GiB'")
    limit = parse_bytes(memory)
    if is_index(source) or is_columns(source):
        return read_like(source, None, **options)
    return _in_temporary_folder(source, limit, options) if out is None else _in_folder(source, limit, out, options)


def _in_temporary_folder(source: Any, limit: int, options: dict[str, Any]) -> Events:
    with storing(Path(tempfile.gettempdir())):
        folder = Path(tempfile.mkdtemp(prefix="cawn-"))
    try:
        events = write_columns(source, folder, memory=limit, **options).events()
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    if os.name == "nt":  # where files that are mapped cannot be removed
        weakref.finalize(events, shutil.rmtree, folder, ignore_errors=True)
    else:
        shutil.rmtree(folder, ignore_errors=True)
    return events


def _in_folder(source: Any, limit: int, out: Any, options: dict[str, Any]) -> Events:
    folder = check_path(out, "out")
    existed = folder.exists()
    make_folder(folder)
    try:
        with FolderLock(folder, "folder"):
            if found := sorted(path.name for path in folder.iterdir() if path.name != LOCK):
                raise QueryError(f"{folder}: is not empty ({brief(found[0])}); give a new folder (out)")
            columns = write_columns(source, folder, memory=limit, **options)
            events = columns.events()
            write_columns_description(folder, events, columns.files)
            return events
    except BaseException:
        if not existed:
            with suppress(OSError):
                (folder / LOCK).unlink()
                folder.rmdir()
        raise
