"""Optuna studies in journal files, which several processes share and any of which may be killed at any moment."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from cawn.errors import QueryError, StorageError
from cawn.files import FileLock, storing

RESTORE = "restore the journal, or choose another folder"


def import_optuna(what: str = "tuning", extra: str = "tune") -> Any:
    """Optuna, without its messages; a QueryError that says what to install if it is missing."""
    try:
        import optuna
    except ImportError as error:
        raise QueryError(f"{what} needs Optuna: pip install 'cawn[{extra}]'") from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


@contextmanager
def quiet_optuna() -> Iterator[None]:
    """Suppresses Optuna's warnings about experimental arguments and values outside of a range."""
    with warnings.catch_warnings(action="ignore"):
        yield


def open_study(path: Path, name: str, *, remedy: str = RESTORE, **options: Any) -> Any:
    """The study of this name in a journal file, which is created if it does not exist.

    Args:
        remedy: What to do if the journal is damaged.
        options: Further arguments of `optuna.create_study`.
    """
    optuna = import_optuna()
    try:
        with storing(path):
            storage = optuna.storages.JournalStorage(_backend(path))
            return optuna.create_study(storage=storage, study_name=name, load_if_exists=True, **options)
    except (AssertionError, LookupError, TypeError, ValueError) as error:  # whatever Optuna raises
        raise StorageError(f"{path}: damaged; {remedy}") from error


def _backend(path: Path) -> Any:
    """A journal whose lock is released when its process dies, and which survives a partly written last line."""
    journal = import_optuna().storages.journal

    class Backend(journal.JournalFileBackend):  # type: ignore[misc, name-defined]
        def append_logs(self, logs: list[dict[str, Any]]) -> None:
            with storing(path, "; the study is unchanged"):
                super().append_logs(logs)

    return Backend(str(path), lock_obj=_JournalLock(path))


class _JournalLock(FileLock):
    """Held while lines are appended. A line that a killed process has not completed is removed first."""

    def __init__(self, journal: Path) -> None:
        super().__init__(journal.with_name(f"{journal.name}.lock"))
        self._journal = journal

    def acquire(self) -> bool:
        super().acquire()
        try:
            remove_incomplete_line(self._journal)
        except BaseException:
            self.release()
            raise
        return True


def remove_incomplete_line(path: Path) -> None:
    """Cut a file after its last line break. Readers of a journal ignore what comes after it."""
    with open(path, "r+b") as file:
        position = end = file.seek(0, 2)
        while position > 0:
            start = max(position - (1 << 16), 0)
            file.seek(start)
            found = file.read(position - start).rfind(b"\n")
            if found >= 0:
                position = start + found + 1
                break
            position = start
        if position < end:
            file.truncate(position)
