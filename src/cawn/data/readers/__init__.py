"""Files and tables -> Events, and the errors a user gets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cawn.checks import as_array
from cawn.data.events import Events
from cawn.data.readers import files, text
from cawn.data.readers.columns import Roles, column_list
from cawn.data.readers.nodes import NodeTable
from cawn.data.readers.tables import Origin, Rows, events_of, rows_of_table
from cawn.data.reading import Column
from cawn.errors import DataError, brief

__all__ = ["read"]


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
) -> Events:
    """Read an edge log.

    Args:
        source: A path to CSV, TSV or whitespace-separated text or JSON Lines (plain or compressed), Parquet or Arrow
            IPC; a pattern such as "logs/*.csv" or a list of paths, read one after the other (patterns in the order of
            names); "-" for standard input; a table with `__arrow_c_stream__` (pyarrow, pandas, polars, DuckDB); or a
            PyTorch Geometric `TemporalData`.
        src: The column of sources, by name or by position from 0. Found by its usual names if not given; in text
            without a header, source, destination and time are the first three columns.
        dst: The column of destinations.
        time: The column of times.
        msg: Columns that become link attributes. Text is read as categories, whose names `events.columns` keeps.
        categorical: Columns of link attributes (or of `nodes`) that hold categories though they look like numbers.
        weight: A column of link weights for training: finite numbers from 0, not all 0.
        negative: A column of false destinations for training; empty for none. A name that occurs nowhere else becomes
            a node.
        link_id: A column of link ids, so that updates can tell links they have seen; ids are compared by their text.
        nodes: A table of node attributes, or the path of one: a column of names, and attributes in all others. Nodes
            that it lacks have zeros; names that do not occur in the links are left out.
        node: Its column of names, if that is not called node, name or id.
        bipartite: Whether a source and a destination of the same name are different nodes. By default they are
            where the columns are called user and item, as in the JODIE format.
        delimiter: The character between fields of text, if the guess is wrong.
        header: Whether the first line of text names the columns, if the guess is wrong.

    Node names may be integers or strings; `events.labels` keeps them. Dates become Unix seconds, or int64 in a finer
    unit where seconds would round them; a column of integers that are all dates such as 20160123 holds dates.
    `events.reading` says which columns were used, and how.
    """
    if bipartite is not None and not isinstance(bipartite, bool):
        raise DataError(f"bipartite={brief(bipartite)}: give True or False")
    optional = {"weight": weight, "negative": negative, "link_id": link_id}
    categories = column_list("categorical", categorical)
    if nodes is None and node is not None:
        raise DataError(f"node={brief(node)}: names a column of nodes, which are not given")
    table = None if nodes is None else NodeTable.read(nodes, node, categories)
    if table is not None:
        theirs = {column.name for column in table.columns}
        ours = column_list("msg", msg)
        categories = tuple(column for column in categories if column not in theirs or column in ours)
    roles = Roles.of(src=src, dst=dst, time=time, msg=msg, categorical=categories, **optional)
    events = _read_links(source, roles, bipartite=bipartite, delimiter=delimiter, header=header)
    return events if table is None else table.attached(events)


def _read_links(
    source: Any, roles: Roles, *, bipartite: bool | None, delimiter: str | None, header: bool | None
) -> Events:
    if isinstance(source, Events):
        return source
    source = files.resolved(source)
    if isinstance(source, list) and source and isinstance(source[0], files.File):
        options: dict[str, Any] = {"bipartite": bipartite, "delimiter": delimiter, "header": header}
        return events_of([_read_file(file, roles, **options) for file in source])
    if hasattr(source, "__arrow_c_stream__"):
        return events_of([rows_of_table(files.import_stream(source), roles, Origin("table"), bipartite)])
    if all(hasattr(source, name) for name in ("src", "dst", "t")):
        return _from_temporal_data(source)
    raise DataError(
        f"cannot read a {type(source).__name__}: give a path, a table (pyarrow, pandas, polars, DuckDB) or a "
        "TemporalData; for arrays use cawn.Events(src, dst, t)"
    )


def _read_file(
    file: files.File, roles: Roles, *, bipartite: bool | None, delimiter: str | None, header: bool | None
) -> Rows:
    kind = files.kind_of(file)
    if kind == "text" or delimiter is not None:
        return text.read_text(file, roles, bipartite=bipartite, delimiter=delimiter, header=header)
    rows = rows_of_table(files.read_table(file, kind), roles, Origin(str(file)), bipartite)
    if kind == "json" and rows.t.dtype.kind == "f" and (np.abs(rows.t) >= 2.0**53).any():
        raise DataError(f"{file}: times this large are rounded as float64; write whole numbers within int64")
    return rows


def _from_temporal_data(data: Any) -> Events:
    """PyTorch Geometric's TemporalData, whose ids are node ids already."""
    msg = None if getattr(data, "msg", None) is None else as_array(data.msg, "msg")
    if msg is not None and msg.ndim == 2 and msg.shape[1] == 0:
        msg = None
    return Events(data.src, data.dst, data.t, msg)
