"""`cawn.read` under a limit of memory: the columns of a log in a folder, and events that are mapped from it."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Any

from cawn.checks import check_path, parse_bytes
from cawn.data.events import Events
from cawn.data.external.columns import write_columns
from cawn.data.readers import read_like
from cawn.data.stored import is_columns, is_index, write_columns_description
from cawn.errors import QueryError, brief
from cawn.files import LOCK, FolderLock, make_folder, storing


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
