"""A copy of the index beside a run, with which a large run opens faster: RUN/index-cache/.

cache.json    what the index belongs to, and its files with their checksums
index-*/      its arrays, mapped into memory
.lock         held by the process that writes it

A run stores links, and opening it builds their index. Where that takes long, the first process that opens the run
writes this cache in the background, and the next ones map it. It is never needed and can be removed at any time; if it
is damaged, of other links or settings, or of another version, it is ignored.
"""

from __future__ import annotations

import shutil
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread

from numba.core.event import install_timer

from cawn.data.array_folders import Arrays, FindFile, read_arrays, remove_arrays, write_arrays
from cawn.data.events import Events
from cawn.data.hashing import read_sealed, write_sealed
from cawn.errors import StorageError
from cawn.files import FolderLock
from cawn.systems.indexed import IndexedSystem

FOLDER = "index-cache"
WRITER = "index cache"  # the name of the thread that writes it
SLOW = 1.0  # seconds of building from which on the index is cached
_DESCRIPTION = "cache.json"


def prepare(
    system: IndexedSystem, events: Events, run: Path, key: str, *, verify: bool = True, writes: bool = True
) -> None:
    """Let a system use the cached index of these events; build it if there is none, and cache it if that took long.

    Args:
        key: Identifies the links and settings.
        verify: Whether to compare checksums; types, shapes and ranges are checked in any case.
        writes: Whether to write the cache.
    """
    with suppress(Exception):  # whatever is wrong with the cache, the index can be built
        return system.load_index(events, _read(run / FOLDER, key, verify=verify))
    compiling, start = list[float](), time.perf_counter()
    with install_timer("numba:compile", compiling.append):
        arrays = system.index(events)
    if writes and time.perf_counter() - start - sum(compiling) >= SLOW:
        Thread(target=write, args=(run, key, arrays), name=WRITER).start()  # the process waits for it before it exits
    return None


def write(run: Path, key: str, arrays: Arrays, stored: FindFile = lambda _: None) -> None:
    """Cache an index, unless another process is writing it or the folder cannot be written; `stored` as for
    `write_arrays`."""
    folder = run / FOLDER
    with suppress(OSError, StorageError):
        folder.mkdir(exist_ok=True)
        with FolderLock(folder, "cache"):
            kept = ""
            try:
                name, files = write_arrays(folder, "index", arrays, stored)
                write_sealed(folder / _DESCRIPTION, {"key": key, "folder": name, "files": files})
                kept = name
            finally:
                for path in folder.glob("index-*"):
                    if path.name != kept:
                        remove_arrays(path)


def remove(run: Path) -> None:
    """Remove the cache of a run, whose links have changed."""
    shutil.rmtree(run / FOLDER, ignore_errors=True)


def _read(folder: Path, key: str, *, verify: bool) -> Arrays:
    found = read_sealed(folder / _DESCRIPTION, "")
    if found["key"] != key:
        raise StorageError(f"{folder}: belongs to other links or settings")
    return read_arrays(folder / found["folder"], dict(found["files"]), verify=verify)
