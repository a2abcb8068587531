"""Files and tables -> Events."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from cawn.data.events import Events
from cawn.data.readers.logs import read_like, read_mapped
from cawn.data.reading import Column

__all__ = ["read", "read_like"]


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
    return read_mapped(source, memory, out, **given)
