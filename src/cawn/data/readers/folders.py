"""Logs larger than memory: their columns in the files of a folder, and events that are mapped from it."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from cawn.checks import check_path, parse_bytes
from cawn.data.array_folders import map_array
from cawn.data.columns import Store, write_array
from cawn.data.events import Events
from cawn.data.names import SLOTS
from cawn.data.readers import authors, found_source, parts_of, read_like, read_options
from cawn.data.readers.links import Limits, read_log
from cawn.data.readers.sorting import ROWS
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
    found = found_source(source)
    with storing(folder), _removed_on_error(folder):
        if isinstance(found, Events) or authors.are_of_authors(found):
            events = _written(read_like(found, None, **options), folder)
        else:
            events = _read_into(folder, found, limits, report, options)
        write_array(folder / f"{SLOTS}.npy", events.names.slots)
        sync(folder)
        return _mapped(folder, sorted(path.name for path in folder.glob("*.npy")), events)


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


def _read_into(folder: Path, found: Any, limits: Limits, report: ShowProgress, options: dict[str, Any]) -> Events:
    chosen, nodes = read_options(None, **options)
    parts, total = parts_of(found, chosen)
    with temporary_folder(folder / ROWS) as work:
        log = read_log(parts, total, Store(work), limits, report)
        for name, column in log.columns.items():
            os.rename(str(column.finish()), folder / f"{name}.npy")
    arrays = {name: map_array(folder / f"{name}.npy", READ_AGAIN) for name in log.columns}
    events = Events.of_arrays(log.num_nodes, arrays)
    events.columns, events.reading = log.attributes, log.reading
    if nodes is None:
        return events
    events = nodes.attached(events)
    assert events.x is not None
    write_array(folder / "x.npy", events.x)
    return events


def _written(events: Events, folder: Path) -> Events:
    """Write the columns of events in memory."""
    held = events.arrays
    if not np.array_equal(events.rows, np.arange(len(events))):
        held[ROWS] = events.rows
    for name, array in held.items():
        write_array(folder / f"{name}.npy", array)
    return events


def _mapped(folder: Path, names: list[str], like: Events) -> Events:
    arrays = {name.removesuffix(".npy"): map_array(folder / name, READ_AGAIN) for name in names}
    events = Events.of_arrays(like.num_nodes, arrays)
    events.columns, events.node_columns, events.reading = like.columns, like.node_columns, like.reading or Reading()
    return events


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
        events = write_columns(source, folder, memory=limit, **options)
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
            events = write_columns(source, folder, memory=limit, **options)
            write_columns_description(folder, events)
            return events
    except BaseException:
        if not existed:
            with suppress(OSError):
                (folder / LOCK).unlink()
                folder.rmdir()
        raise
