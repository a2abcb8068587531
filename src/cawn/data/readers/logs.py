"""Logs: what `cawn.read` is asked for -> events in memory, or mapped from the files of a folder."""

from __future__ import annotations

import os
import re
import shutil
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory, gettempdir
from typing import Any

import numpy as np

from cawn.checks import Array, as_array, check_path, parse_bytes
from cawn.data.array_folders import map_array
from cawn.data.columns import ArrayFile, Store, write_array
from cawn.data.events import Events
from cawn.data.names import SLOTS
from cawn.data.readers.files import File, find_files
from cawn.data.readers.links import Limits, Links, Log, read_log
from cawn.data.readers.nodes import NodeTable
from cawn.data.readers.rows import PIECE, FileRows, TableInMemory, open_rows
from cawn.data.readers.tables import TableColumn
from cawn.data.reading import Column, Reading, column_list, partition_columns
from cawn.data.sorting import ROWS
from cawn.data.stored import READ_AGAIN, is_columns, is_index, read_columns, read_stored, write_columns_description
from cawn.errors import DataError, QueryError, brief
from cawn.files import LOCK, FolderLock, make_folder, storing, sync, temporary_folder
from cawn.progress import ShowProgress, progress

_UNLIMITED = Limits(piece=PIECE, names=1 << 62, sorting=1 << 62, block=1 << 22)

_LEAST = 64 << 20  # bytes to work with
_IN_USE = 300 << 20  # bytes that a process has in use, where the system does not say


def read_like(source: Any, recorded: Reading | None, **given: Any) -> Events:
    """`cawn.read`; columns that are not given are those of an earlier file, as `recorded`, where this one has them."""
    return LogSource(source, recorded, **given).read()


class LogSource:
    """A log whose files are found and whose arguments, those of `cawn.read`, are checked; only nodes are read yet."""

    def __init__(
        self,
        source: Any,
        recorded: Reading | None = None,
        *,
        nodes: Any = None,
        node: Column | None = None,
        delimiter: str | None = None,
        header: bool | None = None,
        **columns: Any,
    ) -> None:
        chosen = columns | {"nodes": nodes, "node": node}
        self._found = _find(source, [role for role, column in chosen.items() if column is not None])
        self._with_features = _authors_files(self._found)
        self.needs_memory = isinstance(self._found, Events) or bool(self._with_features)  # for its arrays
        if nodes is None and node is not None:
            raise DataError(f"node={brief(node)}: is a column of nodes, but nodes is not given")
        self._nodes = None
        if nodes is not None:
            msg, categorical = (column_list(role, columns.get(role)) for role in ("msg", "categorical"))
            self._nodes = NodeTable.read(nodes, node, categorical)
            of_nodes = {column.name for column in self._nodes.columns}.difference(msg)
            columns["categorical"] = [column for column in categorical if column not in of_nodes]
        self._wanted, self._recorded = Reading.of(**columns), recorded
        self._delimiter, self._header = delimiter, header

    def read(self) -> Events:
        """The events in memory."""
        events = self._found
        if not isinstance(events, Events):
            log = self.scan(Store(), _UNLIMITED, partial(progress, quiet=True))
            events = log.events({name: column.read(0, column.rows) for name, column in log.columns.items()})
            if events.msg is None and self._with_features:
                events = _with_features(events, self._with_features)
        return self.with_nodes(events)

    def scan(self, store: Store, limits: Limits, report: ShowProgress) -> Log:
        """Read the files or the table into columns."""
        if isinstance(self._found, list):
            parts: list[Callable[[], Links]] = [partial(self._open, file) for file in self._found]
            return read_log(parts, sum(os.path.getsize(file) for file in self._found), store, limits, report)
        rows = TableInMemory(self._found)
        links = Links.of(rows, self._wanted.completed(self._recorded, rows.names, True))
        return read_log([lambda: links], rows.size, store, limits, report)

    def with_nodes(self, events: Events) -> Events:
        """The events with the attributes of the table of nodes, if there is one."""
        return events if self._nodes is None else self._nodes.attached(events)

    def _open(self, file: File) -> Links:
        """Look at the beginning of a file."""
        rows = open_rows(file, self._delimiter, self._header)
        keys = [key for key, _ in file.partitions if key not in rows.names]
        if rows.header.is_given:  # else columns are asked for by position, and all keys follow those of the file
            keys = partition_columns(keys, rows.names, self._completed(rows.with_keys(keys)))
        rows = rows.with_keys(keys)
        return Links.of(rows, self._completed(rows))

    def _completed(self, rows: FileRows) -> Reading:
        return self._wanted.completed(self._recorded, rows.names, rows.header.is_given)


def _find(source: Any, chosen: list[str]) -> Any:
    """The files that a source stands for, a table, or events if they are there already; `chosen` are arguments."""
    if is_index(source) or is_columns(source):
        if chosen:
            what = "a folder of columns" if is_columns(source) else "an index folder"
            raise DataError(f"{source}: is {what}; leave out {chosen[0]}, which was chosen when it was written")
        return read_columns(Path(source)) if is_columns(source) else read_stored(Path(source))
    found = find_files(source)
    if isinstance(found, Events) or hasattr(found, "__arrow_c_stream__"):
        return found
    if isinstance(found, list) and found and isinstance(found[0], File):
        return found
    if all(hasattr(found, name) for name in ("src", "dst", "t")):  # TemporalData of PyTorch Geometric, with node ids
        msg = None if getattr(found, "msg", None) is None else as_array(found.msg, "msg")
        return Events(found.src, found.dst, found.t, None if msg is not None and msg.shape[1:] == (0,) else msg)
    raise DataError(
        f"cannot read a {type(found).__name__}: give a path, a table (pyarrow, pandas, polars, DuckDB) or a "
        "TemporalData; for arrays use cawn.Events(src, dst, t)"
    )


# The CAW authors' preprocessing: ml_NAME.csv, ml_NAME.npy (features of links) and ml_NAME_node.npy (of nodes).


def _authors_files(found: Any) -> list[FileRows]:
    """The files, if all are such files, else none."""
    if not isinstance(found, list):
        return []
    named = [file for file in found if file.kind == "text" and os.path.basename(file.path).startswith("ml_")]
    files = [open_rows(file) for file in named]
    are_all = len(named) == len(found) and all({"u", "i", "ts", "idx"} <= set(file.names) for file in files)
    return files if are_all else []


def _with_features(events: Events, files: list[FileRows]) -> Events:
    """Events with their features: of a link by its `idx`, of a node by its number."""
    bases = [re.sub(r"\.csv[^/]*$", "", file.file.path) for file in files]  # which may end with .csv.gz
    features = []
    for base, file in zip(bases, files, strict=True):
        pieces, rule = file.pieces(PIECE, [file.names.index("idx")]), "expected a row number of the feature file"
        columns = [TableColumn.at(piece.table, 0, file.origin(piece.first)).integers(rule) for piece in pieces]
        features.append(_feature_rows(f"{base}.npy", "idx", np.concatenate(columns)))
    given = [array for array in features if array is not None]
    msg = np.concatenate(given)[events.rows].astype(np.float32) if len(given) == len(files) else None
    x = _feature_rows(f"{bases[0]}_node.npy", "node number", events.labels) if len(files) == 1 else None
    return events.replace(msg=msg, x=None if x is None else x.astype(np.float32))


def _feature_rows(path: str, what: str, index: Array) -> Array | None:
    """Rows of a feature file. None if there is no such file, or if it is all zeros, which means no features."""
    if not os.path.exists(path):
        return None
    try:
        features = np.load(path, allow_pickle=False)
    except Exception as error:  # a damaged header can raise almost anything
        raise DataError(f"{path}: not a NumPy array file, or a damaged one; write it again") from error
    if not isinstance(features, np.ndarray) or features.dtype.kind not in "iuf":
        raise DataError(f"{path}: expected one array of numbers")
    if not features.any():
        return None
    if features.ndim != 2 or index.dtype.kind != "i" or index.max() >= len(features) or index.min() < 0:
        raise DataError(f"{path}: has shape {features.shape}, but the links refer to {what} {index.max()}")
    return np.asarray(features[index])


# Logs larger than memory.


def limits_of(memory: int) -> Limits:
    """Divides the most memory that the process may use, with pages of mapped files, less what it already uses."""
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


def write_columns(source: Any, folder: Path, limits: Limits, report: ShowProgress = progress, **options: Any) -> Events:
    """Read a log in pieces, write its columns to an existing folder without any, and return them, memory-mapped.

    Each array of the events is in a file NAME.npy: src, dst, t, of `PER_LINK` and x those that the log has, rows (only
    if the log was not sorted by time), and those of a `NameIndex`. They are what `cawn.read(source, **options)` gives
    in memory. Nothing is read from the files before it is used; names become `labels` when these are asked for.

    A table is in memory already, and so are files of the CAW authors' preprocessing, with arrays of features.

    Raises:
        DataError: As `cawn.read`.
        QueryError: If the limit is too low, for any log or for the number of node names in this one.
        StorageError: If the files cannot be written. Nothing is left in the folder then, nor after Ctrl-C.
    """
    log = LogSource(source, **options)
    with storing(folder):
        try:
            if log.needs_memory:
                events = log.read()
                held: dict[str, Any] = events.arrays
                held[ROWS] = None if np.array_equal(events.rows, np.arange(len(events))) else events.rows
            else:
                with temporary_folder(folder / ROWS) as work:
                    found = log.scan(Store(work), limits, report)
                    for name, column in found.columns.items():
                        if isinstance(column, ArrayFile):
                            os.rename(column.finish(), folder / f"{name}.npy")
                events, held = log.with_nodes(found.events(_mapped(folder))), {}
            for name, array in (held | {"x": events.x, SLOTS: events.names.slots}).items():
                if array is not None:
                    write_array(folder / f"{name}.npy", array)
            sync(folder)
            mapped = Events.of_arrays(events.num_nodes, _mapped(folder))
        except BaseException:
            for path in folder.glob("*.npy"):
                path.unlink()
            raise
    mapped.columns, mapped.node_columns = events.columns, events.node_columns
    mapped.reading = events.reading or Reading()
    return mapped


def _mapped(folder: Path) -> dict[str, Array]:
    return {path.stem: map_array(path, READ_AGAIN) for path in folder.glob("*.npy")}


def read_mapped(source: Any, memory: int | str | None, out: Any, **options: Any) -> Events:
    """The arguments `memory` and `out` of `cawn.read`, and its other ones."""
    if memory is None and out is None:
        return read_like(source, None, **options)
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
        events = write_columns(source, Path(folder), limits_of(limit), **options)
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
            events = write_columns(source, folder, limits_of(limit), **options)
            write_columns_description(folder, events)
            return events
    except BaseException:
        if not existed:
            with suppress(OSError):
                (folder / LOCK).unlink()
                folder.rmdir()
        raise
