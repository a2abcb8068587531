"""A live state without a server: its writer, and a disk that fails when it is told to."""

import sqlite3
from pathlib import Path
from typing import Any

from cawn.serve.links import SubmittedLinks
from cawn.serve.state import open_state
from cawn.serve.store import Receipt
from cawn.serve.writer import Writer


class Disk(sqlite3.Connection):
    """Statements that begin with `failing` fail with this error of SQLite."""

    failing: str | None = None
    error = "SQLITE_FULL"

    def execute(self, statement: str, *arguments: Any) -> sqlite3.Cursor:
        self._refuse(statement)
        return super().execute(statement, *arguments)

    def executemany(self, statement: str, *arguments: Any) -> sqlite3.Cursor:
        self._refuse(statement)
        return super().executemany(statement, *arguments)

    def _refuse(self, statement: str) -> None:
        if Disk.failing is not None and statement.startswith(Disk.failing):
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorname = Disk.error
            raise error


class Live:
    """A state with its writer."""

    def __init__(self, run: Path, folder: Path | None = None, **options: Any) -> None:
        self.predictor, self.store = open_state(run, folder, device="cpu", threads=1)
        self.writer = Writer(self.predictor, self.store, **options)
        self.writer.start()

    def add(self, src: list, dst: list, t: list, *, attributes: Any = None, ids: Any = None, **options: Any) -> Receipt:
        return self.writer.submit(SubmittedLinks(src, dst, t, attributes, ids), **options).result(600)

    def stop(self) -> None:
        self.writer.stop()
        self.store.close()

    def submit_together(self, submissions: list[tuple[SubmittedLinks, dict[str, Any]]]) -> list[Any]:
        """The receipts of submissions that are stored in one commit, or their errors."""
        futures: list[Any] = []

        def queue() -> None:
            for links, options in submissions:
                try:
                    futures.append(self.writer.submit(links, **options))
                except Exception as error:
                    futures.append(error)

        self.writer.between(queue)
        return [each if isinstance(each, Exception) else each.exception(600) or each.result() for each in futures]


def failing_disk(monkeypatch: Any) -> type[Disk]:
    """From now on, stores are opened on a disk that can fail."""
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *arguments, **options: connect(*arguments, factory=Disk, **options))
    monkeypatch.setattr(Disk, "failing", None)
    monkeypatch.setattr(Disk, "error", "SQLITE_FULL")
    return Disk
