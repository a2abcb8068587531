"""The catalog of a log, in SQLite: its segments, idempotency keys and how far sources have been read.

Everything in it can be derived from the log, which is written first; after a crash, it is completed from the log.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from cawn.errors import StorageError, reason

Offset = str | int

_FORMAT = 1
_TABLES = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE segments (first INTEGER PRIMARY KEY, last INTEGER, links INTEGER, bytes INTEGER);
CREATE TABLE offsets (source TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE keys (key BLOB PRIMARY KEY, position INTEGER, body BLOB, added INTEGER, duplicates INTEGER,
                   nodes_added INTEGER, version INTEGER) WITHOUT ROWID;
CREATE INDEX keys_by_position ON keys (position);
"""


class Receipt(NamedTuple):
    """The result of a submission: links added, duplicates by id, nodes added, and the version of the history."""

    added: int
    duplicates: int
    nodes_added: int
    version: int


class KeyUse(NamedTuple):
    """The first use of an idempotency key: the digest of what was submitted, and the receipt."""

    body: bytes
    receipt: Receipt


class Segment(NamedTuple):
    """A segment: the positions of its first and last records, the number of its links, and its size."""

    first: int
    last: int
    links: int
    size: int


class Catalog:
    """The catalog in a file. Not thread-safe.

    Args:
        max_keys: How many of the newest idempotency keys to keep, at least.
    """

    def __init__(self, path: Path, *, max_keys: int) -> None:
        self._path, self._max_keys = path, max_keys
        with self._storing("remove it; it is built anew from the log"):
            self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            if not self._db.execute("SELECT 1 FROM sqlite_master").fetchone():
                self._db.executescript(f"BEGIN; {_TABLES} INSERT INTO facts VALUES ('format', {_FORMAT}); COMMIT;")
            if self._fact("format") != _FORMAT:
                raise StorageError(f"{path}: written by another version of cawn; use that version")
            self.position = int(self._fact("position") or 0)  # of the last record it includes
            self.log_id: bytes = self._fact("log") or b""
            self.offsets = {source: json.loads(text) for source, text in self._db.execute("SELECT * FROM offsets")}
            self.segments = [Segment(*row) for row in self._db.execute("SELECT * FROM segments ORDER BY first")]
            self._num_keys: int = self._db.execute("SELECT count(*) FROM keys").fetchone()[0]

    def find(self, key: str) -> KeyUse | None:
        """The first use of a key; None if it is not known."""
        with self._storing():
            query = "SELECT body, added, duplicates, nodes_added, version FROM keys WHERE key = ?"
            row = self._db.execute(query, (_digest(key),)).fetchone()
        return None if row is None else KeyUse(row[0], Receipt(*row[1:]))

    def store(
        self,
        log_id: bytes,
        position: int,
        keys: Mapping[str, tuple[int, KeyUse]],
        offsets: Mapping[str, Offset],
        segments: Sequence[Segment],
    ) -> None:
        """Include everything up to a position, in one transaction.

        Args:
            keys: New keys with the position of their record.
            offsets: New offsets.
            segments: All finished segments.
        """
        rows = [(_digest(key), at, use.body, *use.receipt) for key, (at, use) in keys.items()]
        with self._storing(), self._transaction():
            self._db.executemany("INSERT OR IGNORE INTO keys VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
            changed = [(source, json.dumps(value)) for source, value in offsets.items()]
            self._db.executemany("INSERT OR REPLACE INTO offsets VALUES (?, ?)", changed)
            self._db.execute("DELETE FROM segments")
            self._db.executemany("INSERT INTO segments VALUES (?, ?, ?, ?)", segments)
            facts = [("position", position), ("log", log_id)]
            self._db.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts)
            self._num_keys += len(rows)
            self._forget_old_keys()
        self.position, self.log_id, self.segments = position, log_id, list(segments)
        self.offsets.update(offsets)

    def copier(self) -> Callable[[Path], None]:
        """Capture the present state; the returned function copies it to a new file, once, in any thread."""
        with self._storing():
            reader = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
            reader.execute("BEGIN")
            reader.execute("SELECT value FROM facts").fetchall()  # from here on, it sees no later change

        def copy(target: Path) -> None:
            with self._storing(), closing(reader), closing(sqlite3.connect(target)) as copied:
                reader.backup(copied)

        return copy

    def close(self) -> None:
        """Close the file."""
        with suppress(sqlite3.Error):
            self._db.close()

    def _forget_old_keys(self) -> None:
        excess = self._num_keys - self._max_keys
        if excess > self._max_keys // 10:
            oldest = "SELECT key FROM keys ORDER BY position LIMIT ?"
            self._db.execute(f"DELETE FROM keys WHERE key IN ({oldest})", (excess,))
            self._num_keys = self._db.execute("SELECT count(*) FROM keys").fetchone()[0]

    def _fact(self, name: str) -> Any:
        row = self._db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else row[0]

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._db.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self._db.execute("ROLLBACK")
            raise

    @contextmanager
    def _storing(self, remedy: str = "nothing was changed") -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, ValueError) as error:
            raise StorageError(f"{self._path}: cannot be used ({reason(error)}); {remedy}") from error


def _digest(key: str) -> bytes:
    return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest()
