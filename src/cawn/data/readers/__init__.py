"""Files and tables -> Events."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

from cawn.checks import as_array
from cawn.data.columns import Store
from cawn.data.events import Events
from cawn.data.readers import authors, files
from cawn.data.readers.columns import ReadOptions, partition_columns
from cawn.data.readers.dialect import sniff
from cawn.data.readers.links import Limits, Links, Log, read_log
from cawn.data.readers.nodes import NodeTable
from cawn.data.readers.rows import PIECE, TableInMemory, open_rows
from cawn.data.reading import Column, Reading, column_list
from cawn.data.stored import is_columns, is_index, read_columns, read_stored
from cawn.errors import DataError, brief

__all__ = ["read"]

_UNLIMITED = Limits(piece=PIECE, names=1 << 62, sorting=1 << 62, block=1 << 22)


def read(
    source: Any,
    *,
    src: Column | None = None,
    dst: Column | None = None,
    time: Column | None = None,
    msg: Sequence[Column] | Column | None = None,
    categorical: Sequence[Column] | Column | None = None,
    weight: Column | None = None,
    negative: Column | None = None,
    link_id: Column | None = None,
    nodes: Any = None,
    node: Column | None = None,
    bipartite: bool | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    memory: int | str | None = None,
    out: str | os.PathLike[str] | None = None,
) -> Events:
    """Read an edge log.

    Args:
        source: A path to CSV, TSV or whitespace-separated text or JSON Lines (plain or compressed), Parquet or Arrow
            IPC; a folder of files of one kind, also in folders KEY=VALUE, whose keys are columns; a pattern such as
            "logs/*.csv" (files in the order of their paths) or a list of paths, read one after the other; an index
            folder written by `cawn index`, or a folder `out` of an earlier call; "-" for standard input; a table with
            `__arrow_c_stream__` (pyarrow, pandas, polars, DuckDB); or a PyTorch Geometric `TemporalData`.
        src: The column of sources, by name or by position from 0. Found by its usual names if not given; in text
            without a header, source, destination and time are the first three columns.
        dst: The column of destinations.
        time: The column of times.
        msg: Columns that become link attributes. Text is read as categories, whose names `events.columns` keeps.
        categorical: Columns of link attributes (or of `nodes`) that hold categories, even if they look like numbers.
        weight: A column of link weights for training: finite numbers from 0, not all 0.
        negative: A column of negative destinations for training; empty for none. A name that occurs nowhere else
            becomes a node.
        link_id: A column of link ids, by which updates skip links that are known; ids are compared by their text.
        nodes: A table of node attributes, or its path: a column of names, and attributes in all other columns. Nodes
            missing from it have zeros; names that do not occur in the links are ignored.
        node: The column of names in `nodes`, if that is not called node, name or id.
        bipartite: Whether a source and a destination of the same name are different nodes. By default they are
            where the columns are called user and item, as in the JODIE format.
        delimiter: The character between fields of text, if the guess is wrong.
        header: Whether the first line of text names the columns, if the guess is wrong.
        memory: A limit of the memory that the process may use, such as "4GiB". The log is then read and sorted in
            pieces, and the events are memory-mapped files, the same as without a limit.
        out: A new or empty folder for these files, which `read` opens again at once; by default they are in the
            system's folder of temporary files, and removed when nothing refers to them.

    Node names may be integers or strings; `events.labels` keeps them. Dates become Unix seconds, or int64 in a finer
    unit where seconds would round them; a column of integers that are all dates such as 20160123 holds dates.
    `events.reading` says which columns were used, and how.
    """
    given: dict[str, Any] = {"src": src, "dst": dst, "time": time, "weight": weight, "negative": negative}
    given |= {"link_id": link_id, "msg": msg, "categorical": categorical, "nodes": nodes, "node": node}
    given |= {"bipartite": bipartite, "delimiter": delimiter, "header": header}
    if memory is None and out is None:
        return read_like(source, None, **given)
    from cawn.data.readers.folders import read_mapped  # which imports this module

    return read_mapped(source, memory, out, **given)


def read_like(
    source: Any,
    recorded: Reading | None,
    *,
    msg: Any = None,
    categorical: Any = None,
    nodes: Any = None,
    node: Column | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    **given: Any,
) -> Events:
    """`read`; columns that are not given are those of an earlier file, as `recorded`, where this one has them."""
    found = found_source(source, msg=msg, categorical=categorical, nodes=nodes, node=node, **given)
    options, table = read_options(
        recorded, msg=msg, categorical=categorical, nodes=nodes, node=node, delimiter=delimiter, header=header, **given
    )
    events = found if isinstance(found, Events) else _read(found, options)
    return events if table is None else table.attached(events)


def _read(found: Any, options: ReadOptions) -> Events:
    parts, total = parts_of(found, options)
    log = read_log(parts, total, Store(), _UNLIMITED, lambda *_, **__: nullcontext(lambda _: None))
    return authors.with_features(_events(log), found)


def read_options(
    recorded: Reading | None,
    *,
    msg: Any = None,
    categorical: Any = None,
    nodes: Any = None,
    node: Column | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
    **given: Any,
) -> tuple[ReadOptions, NodeTable | None]:
    """The arguments of `read`, checked; the table of nodes is read."""
    categorical = column_list("categorical", categorical)
    if nodes is None and node is not None:
        raise DataError(f"node={brief(node)}: is a column of nodes, but nodes is not given")
    table = None if nodes is None else NodeTable.read(nodes, node, categorical)
    if table is not None:
        of_nodes = {column.name for column in table.columns}.difference(column_list("msg", msg))
        categorical = [column for column in categorical if column not in of_nodes]
    wanted = Reading.of(msg=msg, categorical=categorical, **given)
    return ReadOptions(wanted, recorded, delimiter, header), table


def found_source(source: Any, **given: Any) -> Any:
    """The files that a source stands for, a table, or events if they are there already."""
    if is_index(source) or is_columns(source):
        return _read_stored(source, given)
    found = files.find_files(source)
    if isinstance(found, Events) or hasattr(found, "__arrow_c_stream__") or files.are_files(found):
        return found
    if all(hasattr(found, name) for name in ("src", "dst", "t")):
        return _from_temporal_data(found)
    raise DataError(
        f"cannot read a {type(found).__name__}: give a path, a table (pyarrow, pandas, polars, DuckDB) or a "
        "TemporalData; for arrays use cawn.Events(src, dst, t)"
    )


def parts_of(found: Any, options: ReadOptions) -> tuple[list[Callable[[], Links]], float]:
    """What opens the files or the table that `found_source` returned, and their size in bytes."""
    if not files.are_files(found):
        rows = TableInMemory(found)
        return [lambda: Links.of(rows, options)], rows.size
    return [partial(_open_links, file, options) for file in found], sum(os.path.getsize(file.path) for file in found)


def _open_links(file: files.File, options: ReadOptions) -> Links:
    """Look at the beginning of a file."""
    is_text = file.kind == "text" or options.delimiter is not None
    rows = open_rows(file, sniff(file, options.delimiter, options.header) if is_text else None)
    keys = partition_columns([key for key, _ in file.partitions], rows.names, options, rows.has_names)
    return Links.of(rows.with_keys(keys), options)


def _events(log: Log) -> Events:
    """The events of columns in memory."""
    arrays: dict[str, Any] = {name: column.finish() for name, column in log.columns.items()}
    events = Events.of_arrays(log.num_nodes, arrays)
    events.columns, events.reading = log.attributes, log.reading
    return events


def _read_stored(folder: Any, given: dict[str, Any]) -> Events:
    """The links of a folder of columns or of an index, whose columns were chosen when it was written."""
    if chosen := [role for role, column in given.items() if column is not None]:
        what = "a folder of columns" if is_columns(folder) else "an index folder"
        raise DataError(f"{folder}: is {what}; leave out {chosen[0]}, which was chosen when it was written")
    return read_columns(Path(folder)) if is_columns(folder) else read_stored(Path(folder))


def _from_temporal_data(data: Any) -> Events:
    """PyTorch Geometric's TemporalData, whose nodes are numbered already."""
    msg = None if getattr(data, "msg", None) is None else as_array(data.msg, "msg")
    if msg is not None and msg.ndim == 2 and msg.shape[1] == 0:
        msg = None
    return Events(data.src, data.dst, data.t, msg)
