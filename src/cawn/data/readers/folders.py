"""Logs larger than memory: their columns in the files of a folder, and events that are mapped from it."""

from __future__ import annotations

import os
import shutil
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

import numpy as np

from cawn.checks import check_path, parse_bytes
from cawn.data.array_files import write_array
from cawn.data.array_folders import map_array
from cawn.data.columns import FileStore
from cawn.data.events import PER_LINK, Events
from cawn.data.names import SLOTS
from cawn.data.readers.links import Limits
from cawn.data.readers.sorting import ROWS
from cawn.data.readers.sources import LogSource, read_like
from cawn.data.reading import Reading
from cawn.data.stored import READ_AGAIN, is_columns, is_index, write_columns_description
from cawn.errors import QueryError, brief
from cawn.files import LOCK, FolderLock, make_folder, storing, sync, temporary_folder
from cawn.progress import ShowProgress, progress

_LEAST = 64 << 20  # bytes to work with
_IN_USE = 300 << 20  # bytes that a process has in use, where the system does not say


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


def write_columns(source: Any, folder: Path, *, memory: int, report: ShowProgress = progress, **options: Any) -> Events:
    """Read a log in pieces, write its columns to an existing folder, and return them, memory-mapped.

    Each array of the events is in a file NAME.npy: src, dst, t, of `PER_LINK` and x those that the log has, rows (only
    if the log was not sorted by time), and those of a `NameIndex`. They are what `cawn.read(source, **options)` gives
    in memory. Nothing is read from the files before it is used; names become `labels` when these are asked for.

    Args:
        source: What `cawn.read` takes. A table is in memory already, and so are files of the CAW authors'
            preprocessing, with arrays of features.
        folder: Where these files must not exist yet.
        memory: The most memory that the process may use, in bytes, with pages of files that it has mapped.
        report: Shows progress.
        options: Those of `cawn.read`.

    Raises:
        DataError: As `cawn.read`.
        QueryError: If the limit is too low, for any log or for the number of node names in this one.
        StorageError: If the files cannot be written. Nothing is left in the folder then, nor after Ctrl-C.
    """
    return write_limited(source, folder, limits_of(memory), report, **options)


def write_limited(source: Any, folder: Path, limits: Limits, report: ShowProgress = progress, **options: Any) -> Events:
    """`write_columns` with separate limits."""
    log = LogSource(source, **options)
    with storing(folder), _removed_on_error(folder):
        if log.needs_memory:
            events = log.read()
            held = {name: getattr(events, name) for name in ("src", "dst", "t", *PER_LINK)} | events.names.arrays
            held[ROWS] = None if np.array_equal(events.rows, np.arange(len(events))) else events.rows
        else:
            events, held = log.with_nodes(_scanned(log, folder, limits, report)), {}
        for name, array in (held | {"x": events.x, SLOTS: events.names.slots}).items():
            if array is not None:
                write_array(folder / f"{name}.npy", array)
        sync(folder)
        names = sorted(path.stem for path in folder.glob("*.npy"))
        mapped = Events.of_arrays(events.num_nodes, {name: _mapped(folder, name) for name in names})
    mapped.columns, mapped.node_columns = events.columns, events.node_columns
    mapped.reading = events.reading or Reading()
    return mapped


@contextmanager
def _removed_on_error(folder: Path) -> Iterator[None]:
    """Remove the arrays that were written to the folder if this context fails."""
    before = set(folder.glob("*.npy"))
    try:
        yield
    except BaseException:
        for path in set(folder.glob("*.npy")) - before:
            path.unlink()
        raise


def _scanned(log: LogSource, folder: Path, limits: Limits, report: ShowProgress) -> Events:
    """The events of a log whose columns are written to the folder."""
    with temporary_folder(folder / ROWS) as work:
        found = log.scan(FileStore(work), limits, report)
        for name, column in found.columns.items():
            os.rename(str(column.finish()), folder / f"{name}.npy")
    return found.events({name: _mapped(folder, name) for name in found.columns})


def _mapped(folder: Path, name: str) -> Any:
    return map_array(folder / f"{name}.npy", READ_AGAIN)


# The arguments `memory` and `out` of `cawn.read`.


def read_mapped(source: Any, memory: int | str | None, out: Any, **options: Any) -> Events:
    """The arguments `memory` and `out` of `cawn.read`, and its other ones."""
    if memory is None:
        raise QueryError(f"out={brief(out)}: give memory as well, such as memory='4GiB'")
    limit = parse_bytes(memory)
    if is_index(source) or is_columns(source):
        return read_like(source, None, **options)
    if out is not None:
        return _in_folder(source, limit, check_path(out, "out"), options)
    with storing(Path(gettempdir())):
        temporary = TemporaryDirectory(prefix="cawn-", ignore_cleanup_errors=True)
    with temporary as folder:
        events = write_columns(source, Path(folder), memory=limit, **options)
    if os.path.exists(folder):  # on Windows, where files that are mapped cannot be removed
        weakref.finalize(events, shutil.rmtree, folder, ignore_errors=True)
    return events


def _in_folder(source: Any, limit: int, folder: Path, options: dict[str, Any]) -> Events:
    existed = folder.exists()
    make_folder(folder)
    try:
        with FolderLock(folder, "folder"):
            if found := sorted(path.name for path in folder.iterdir() if path.name != LOCK):
                raise QueryError(f"{folder}: is not empty ({brief(found[0])}); give a new folder (out)")
            events = write_columns(source, folder, memory=limit, **options)
            write_columns_description(folder, events)
            return events
    except BaseException:
        if not existed:
            with suppress(OSError):
                (folder / LOCK).unlink()
                folder.rmdir()
        raise
