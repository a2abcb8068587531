"""Files and tables -> Events, and the errors a user gets."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from cawn.errors import DataError, brief
from cawn.events import Events, as_array
from cawn.readers import files, text
from cawn.readers.columns import Roles
from cawn.readers.tables import Source, events_of, rows_of_table
from cawn.reading import Column

__all__ = ["read"]


def read(
    source: Any,
    *,
    src: Column | None = None,
    dst: Column | None = None,
    time: Column | None = None,
    msg: Sequence[Column] | Column | None = None,
    weight: Column | None = None,
    negative: Column | None = None,
    link_id: Column | None = None,
    bipartite: bool | None = None,
    delimiter: str | None = None,
    header: bool | None = None,
) -> Events:
    """Read an edge log.

    Args:
        source: A path to CSV, TSV or whitespace-separated text (plain or compressed), Parquet or Arrow IPC; a table
            with `__arrow_c_stream__` (pyarrow, pandas, polars, DuckDB); or a PyTorch Geometric `TemporalData`.
        src, dst, time: The columns, by name or by position from 0. Found by their usual names if not given; in text
            without a header they are the first three.
        msg: Columns of numbers that become link attributes.
        weight: A column of link weights for training: finite numbers from 0, not all 0.
        negative: A column of false destinations for training; empty for none. A name that occurs nowhere else becomes
            a node.
        link_id: A column of link ids, so that updates can tell links they have seen; ids are compared by their text.
        bipartite: Whether a source and a destination of the same name are different nodes. By default they are
            where the columns are called user and item, as in the JODIE format.
        delimiter, header: How text is laid out, if the guess is wrong.

    Node names may be integers or strings; `events.labels` keeps them. Dates become Unix seconds.
    """
    if bipartite is not None and not isinstance(bipartite, bool):
        raise DataError(f"bipartite={brief(bipartite)}: give True or False")
    optional = {"weight": weight, "negative": negative, "link_id": link_id}
    roles = Roles.of(src=src, dst=dst, time=time, msg=msg, **optional)
    if isinstance(source, Events):
        return source
    if isinstance(source, str | os.PathLike):
        path = files.check(os.fspath(source))
        kind = files.kind_of(path)
        if kind == "text":
            return events_of([text.read_text(path, roles, bipartite=bipartite, delimiter=delimiter, header=header)])
        return events_of([rows_of_table(files.read_binary(path, kind), roles, Source(path), bipartite)])
    if hasattr(source, "__arrow_c_stream__"):
        return events_of([rows_of_table(files.import_stream(source), roles, Source("table"), bipartite)])
    if all(hasattr(source, name) for name in ("src", "dst", "t")):
        return _from_temporal_data(source)
    raise DataError(
        f"cannot read a {type(source).__name__}: give a path, a table (pyarrow, pandas, polars, DuckDB) or a "
        "TemporalData; for arrays use cawn.Events(src, dst, t)"
    )


def _from_temporal_data(data: Any) -> Events:
    """PyTorch Geometric's TemporalData, whose ids are node ids already."""
    msg = None if getattr(data, "msg", None) is None else as_array(data.msg, "msg")
    if msg is not None and msg.ndim == 2 and msg.shape[1] == 0:
        msg = None
    return Events(data.src, data.dst, data.t, msg)
