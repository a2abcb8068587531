"""What kind of file this is, and the binary kinds: Parquet and Arrow IPC."""

from __future__ import annotations

import os
from typing import Any, Literal

import pyarrow as pa

from cawn.errors import DataError, brief

Kind = Literal["text", "parquet", "ipc file", "ipc stream"]


def check(path: str) -> str:
    """The path itself, if there is something to read."""
    if not path.isprintable():
        raise DataError(f"{brief(path)}: not a path; give the name of a file")
    if not os.path.exists(path):
        raise DataError(f"{path}: no such file")
    if os.path.isdir(path):
        raise DataError(f"{path}: is a directory; name the file with the links")
    if not os.access(path, os.R_OK):
        raise DataError(f"{path}: may not be read; check its permissions")
    if os.path.isfile(path) and os.path.getsize(path) == 0:
        raise DataError(f"{path}: is empty; expected at least one link")
    return path


def kind_of(path: str) -> Kind:
    """By the first bytes, whatever the file is called."""
    with open(path, "rb") as file:
        magic = file.read(8)
    if magic.startswith(b"PAR1"):
        return "parquet"
    if magic.startswith(b"ARROW1"):
        return "ipc file"
    if magic.startswith(b"\xff\xff\xff\xff"):
        return "ipc stream"
    return "text"


def read_binary(path: str, kind: Kind) -> pa.Table:
    """The whole table of a Parquet or Arrow IPC file."""
    try:
        if kind == "parquet":
            import pyarrow.parquet as pq

            return pq.read_table(path, memory_map=True)
        with pa.OSFile(path) as file:
            opened = pa.ipc.open_file(file) if kind == "ipc file" else pa.ipc.open_stream(file)
            table = opened.read_all()
            table.validate(full=True)
            return table
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: a damaged {kind.split()[0]} file ({_first_line(error)}); write it again") from error


def import_stream(table: Any) -> pa.Table:
    """Any object that offers an Arrow stream."""
    try:
        return pa.table(table)
    except Exception as error:  # whatever the other library raises
        raise DataError(f"table: cannot be read as Arrow ({_first_line(error)})") from error


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
