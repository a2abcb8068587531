"""Atomic writes of files, and locks on folders.

A file is written under a random name in the same folder, synced to disk, then renamed.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import Any

from cawn.errors import QueryError, StorageError, reason

LOCK = ".lock"
_TEMPORARY = re.compile(r"\.cawn-[0-9a-f]{16}\.tmp")
_WINDOWS = os.name == "nt"
_STALE_AFTER = 60.0  # seconds; a younger file may belong to a process that has not locked it yet
_WAIT = 0.01  # seconds between two attempts to lock a file
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_cleaned: set[Path] = set()  # folders whose stale files this process has removed


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file, then rename it to `path`.

    The file gets the mode of the umask, whatever `write` does. The folder must exist.
    """
    with storing(path, "; nothing was changed"):
        _clean_once(path.parent)
        temporary = path.parent / temporary_name()
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR | _NO_FOLLOW, 0o666)
        try:
            with _held(descriptor):
                mode = stat.S_IMODE(temporary.stat().st_mode)
                write(temporary)
                os.chmod(temporary, mode)
                sync(temporary)
                os.replace(temporary, path)
                sync(path.parent)
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)


def write_bytes(path: Path, content: bytes) -> None:
    """Write bytes atomically."""
    write_atomically(path, lambda temporary: temporary.write_bytes(content))


def write_text(path: Path, text: str) -> None:
    """Write text atomically, as UTF-8."""
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def make_folder(folder: Path) -> None:
    """Make a folder and its parents."""
    with storing(folder):
        folder.mkdir(parents=True, exist_ok=True)


def read_file(path: Path) -> bytes:
    """The content of a regular file; OSError for anything else, such as a pipe, whose end might never come."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is not a file")
        return file.read()


@contextmanager
def temporary_folder(beside: Path) -> Iterator[Path]:
    """A new folder beside a path; removed on exit unless it was renamed."""
    with storing(beside):
        _clean_once(beside.parent)
        folder = beside.parent / temporary_name()
        folder.mkdir()
        try:
            with nullcontext() if _WINDOWS else _held(os.open(folder, os.O_RDONLY | _NO_FOLLOW)):
                yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def temporary_name() -> str:
    """An unpredictable name for a temporary file."""
    return f".cawn-{secrets.token_hex(8)}.tmp"


def is_temporary(name: str) -> bool:
    """Whether this is the name of a temporary file or folder of ours."""
    return _TEMPORARY.fullmatch(name) is not None


def sync(path: Path) -> None:
    """Flush a file, or the entries of a folder, to disk."""
    if _WINDOWS:
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:
        if not path.is_dir():  # some systems cannot sync folders
            raise
    finally:
        os.close(descriptor)


def link_or_copy(source: str | Path, target: str | Path) -> None:
    """A hard link to a file that never changes; a copy where links are not possible."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
        sync(Path(target))


def remove_stale(folder: Path, *, older_than: float = _STALE_AFTER) -> None:
    """Remove temporary files and folders that killed processes have left."""
    with suppress(OSError):
        for path in folder.iterdir():
            if is_temporary(path.name):
                with suppress(OSError):
                    _remove_abandoned(path, older_than)


def _remove_abandoned(path: Path, older_than: float) -> None:
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _NO_FOLLOW)
    try:
        if time.time() - os.fstat(descriptor).st_mtime >= older_than and _try_lock(descriptor):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    finally:
        os.close(descriptor)


def _clean_once(folder: Path) -> None:
    if folder not in _cleaned:
        _cleaned.add(folder)
        remove_stale(folder)


@contextmanager
def _held(descriptor: int) -> Iterator[None]:
    """Hold a lock on an open file, which marks it as in use. Windows cannot rename open files: there, close it."""
    if _WINDOWS:
        os.close(descriptor)
        yield
        return
    try:
        _try_lock(descriptor)
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    """Lock a file until it is closed; False if another process has locked it. True where locks are not supported."""
    if sys.platform == "win32":  # which type checkers understand, unlike _WINDOWS
        return True
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


@contextmanager
def storing(path: Path, state: str = "") -> Iterator[None]:
    """Turn a failure to write into a StorageError about `path`."""
    try:
        yield
    except _failures() as error:
        raise StorageError(f"{path}: cannot be written ({reason(error)}){state}") from error


def _failures() -> tuple[type[Exception], ...]:
    """What writing can raise. Called only on failure, so that a plain write imports neither library."""
    from pyarrow import ArrowException
    from safetensors import SafetensorError

    return OSError, ArrowException, SafetensorError


def refuse_foreign(folder: Path, ours: Callable[[Path], object], what: str = "") -> None:
    """Refuse a folder that holds anything that is not `ours`; one that does not exist is fine.

    Args:
        what: What it should be the folder of, if it is not empty.
    """
    if not folder.is_dir():
        if folder.exists() or folder.is_symlink():
            raise QueryError(f"{folder}: is not a folder; choose another name")
        return
    if foreign := sorted(path.name for path in folder.iterdir() if not ours(path)):
        why = f"is not empty (it holds {foreign[0]!r})" + (f" and is not the folder of {what}" if what else "")
        raise QueryError(f"{folder}: {why}; choose a new or an empty folder")


def refuse_within(out: Path, source: Any) -> None:
    """Refuse an output folder in the folder of the input, whose files would be read as input the next time."""
    if not isinstance(source, str | os.PathLike) or not os.path.isdir(source):
        return
    inner = os.path.relpath(os.path.realpath(out), os.path.realpath(source)).split(os.sep)
    if inner[0] != os.pardir and not any(name.startswith(("_", ".")) and name != os.curdir for name in inner):
        raise QueryError(f"{out}: is in {source}, the folder of the input; choose a folder outside of it")


class FileLock:
    """An exclusive lock on a file, which is created; waits while another process or thread has it.

    The system releases it when the process ends, however it ends.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._descriptor = path, -1

    def acquire(self) -> bool:
        """Wait for the lock."""
        with storing(self._path):
            descriptor = os.open(self._path, os.O_CREAT | os.O_RDWR | _NO_FOLLOW, 0o666)
        try:
            while not _try_lock(descriptor):
                time.sleep(_WAIT)
        except BaseException:
            os.close(descriptor)
            raise
        self._descriptor = descriptor
        return True

    def release(self) -> None:
        """Release the lock."""
        os.close(self._descriptor)
        self._descriptor = -1

    def __enter__(self) -> FileLock:
        self.acquire()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class FolderInUseError(StorageError):
    """Another process has the lock on a folder."""


class FolderLock:
    """An exclusive lock on a folder, held until it is released or the process ends."""

    def __init__(self, folder: Path, kind: str = "run") -> None:
        """`kind` is what messages call the folder."""
        self.folder, self._descriptor = folder, -1
        with storing(folder):
            self._descriptor = os.open(folder / LOCK, os.O_CREAT | os.O_RDWR | _NO_FOLLOW, 0o666)
        if not _try_lock(self._descriptor):
            self.release()
            raise FolderInUseError(f"{folder}: another process is writing to this {kind}; wait until it ends")
        self.check()
        remove_stale(folder, older_than=0)

    def check(self) -> None:
        """Raise StorageError if the folder was removed or replaced."""
        try:
            same = os.path.samestat(os.fstat(self._descriptor), os.lstat(self.folder / LOCK))
        except OSError:
            same = False
        if not same:
            raise StorageError(f"{self.folder}: was removed or replaced while in use; nothing more is written")

    @contextmanager
    def kept(self) -> Iterator[FolderLock]:
        """Release the lock only on an error."""
        try:
            yield self
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Release the lock."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __del__(self) -> None:
        self.release()


def sha256_of(path: Path) -> str:
    """The SHA-256 of a file as hexadecimal digits."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise StorageError(f"{path}: cannot be read ({reason(error)})") from error
