"""Files that are either whole or not there, and folders that one process at a time may change.

A file is written beside its place under a random name, brought to the disk, then moved into its place.
"""

from __future__ import annotations

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

from cawn.errors import StorageError

LOCK = ".lock"
_TEMPORARY = re.compile(r"\.cawn-[0-9a-f]{16}\.tmp")
_WINDOWS = os.name == "nt"
_STALE_AFTER = 60.0  # seconds; younger ones may belong to a process that has not locked them yet
_NOT_THROUGH_LINKS = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_cleaned: set[Path] = set()  # folders whose leftovers this process has removed


def write_atomically(path: Path, write: Callable[[Path], object]) -> None:
    """Let `write` fill a temporary file, then put it in the place of `path` in one step.

    The file has the mode that the umask gives, whatever `write` made of it. The folder must be there.
    """
    with storing(path, "; nothing there was changed"):
        _clean_once(path.parent)
        temporary = path.parent / temporary_name()
        descriptor = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR | _NOT_THROUGH_LINKS, 0o666)
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
    """The same for what is in memory."""
    write_atomically(path, lambda temporary: temporary.write_bytes(content))


def write_text(path: Path, text: str) -> None:
    """The same for text, as UTF-8."""
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def make_folder(folder: Path) -> None:
    """The folder with all those above it."""
    with storing(folder):
        folder.mkdir(parents=True, exist_ok=True)


def read_file(path: Path) -> bytes:
    """All of a file; OSError for anything that is not one, such as a pipe, which would never end."""
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is not a file")
        return file.read()


@contextmanager
def temporary_folder(beside: Path) -> Iterator[Path]:
    """A new folder beside a path; removed at the end unless it was moved away."""
    with storing(beside):
        _clean_once(beside.parent)
        folder = beside.parent / temporary_name()
        folder.mkdir()
        try:
            with nullcontext() if _WINDOWS else _held(os.open(folder, os.O_RDONLY | _NOT_THROUGH_LINKS)):
                yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def temporary_name() -> str:
    """A name nobody can foresee."""
    return f".cawn-{secrets.token_hex(8)}.tmp"


def is_temporary(name: str) -> bool:
    """Whether a file or folder of this name is one of ours that was never finished."""
    return _TEMPORARY.fullmatch(name) is not None


def sync(path: Path) -> None:
    """Bring a file, or the names in a folder, to the disk."""
    if _WINDOWS:
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError:
        if not path.is_dir():  # some systems cannot for folders
            raise
    finally:
        os.close(descriptor)


def remove_stale(folder: Path, *, older_than: float = _STALE_AFTER) -> None:
    """Remove what processes that were killed have left half written in a folder."""
    with suppress(OSError):
        for path in folder.iterdir():
            if is_temporary(path.name):
                with suppress(OSError):
                    _remove_abandoned(path, older_than)


def _remove_abandoned(path: Path, older_than: float) -> None:
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | _NOT_THROUGH_LINKS)
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
    """Keep an open file locked, so that others see it is in use. Windows moves no open file: there it is closed."""
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
    """Lock an open file for as long as it is open; False if another process has. True where there are no locks."""
    if sys.platform == "win32":  # in these words, so that type checkers see that what follows is not for it
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
    """Turn a failure to write into one line about `path`."""
    try:
        yield
    except _failures() as error:
        reason = (getattr(error, "strerror", None) or str(error) or type(error).__name__).splitlines()[0]
        raise StorageError(f"{path}: cannot be written ({reason}){state}") from error


def _failures() -> tuple[type[Exception], ...]:
    """What writing can raise. Called only when something was, so that a plain write loads neither library."""
    from pyarrow import ArrowException
    from safetensors import SafetensorError

    return OSError, ArrowException, SafetensorError


class FolderLock:
    """Held by the one process that may change a folder, until it is released or the process ends."""

    def __init__(self, folder: Path) -> None:
        self.folder, self._descriptor = folder, -1
        with storing(folder):
            self._descriptor = os.open(folder / LOCK, os.O_CREAT | os.O_RDWR | _NOT_THROUGH_LINKS, 0o666)
        if not _try_lock(self._descriptor):
            self.release()
            raise StorageError(f"{folder}: another process is writing to this run; wait until it has ended")
        self.check()
        remove_stale(folder, older_than=0)

    def check(self) -> None:
        """Raise StorageError if the folder is no longer there, or another is in its place."""
        try:
            same = os.path.samestat(os.fstat(self._descriptor), os.lstat(self.folder / LOCK))
        except OSError:
            same = False
        if not same:
            raise StorageError(f"{self.folder}: was removed or replaced while it was in use; nothing more is written")

    @contextmanager
    def kept(self) -> Iterator[FolderLock]:
        """Released only where something fails."""
        try:
            yield self
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        """Let others in."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def __del__(self) -> None:
        self.release()
