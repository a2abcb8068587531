"""The store of a live state: one SQLite file, which is its only truth.

commits   the links, one row for each group commit: arrays of canonical ids and times, with a checksum, and the names of
          the nodes that occur for the first time; the first rows hold the links of the run
keys      idempotency keys with their receipts
offsets   how far streams have been read
weights   weights that were served, by number; the shadow model that is being trained has the number SHADOW
facts     the format, the run that the state belongs to, the calibration, the number of the served weights

A commit is on disk before anybody sees its links. Nothing that is stored is parsed again: ids and times are those of
the history.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
import threading
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from shutil import copyfile
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cawn.data.events import Events
from cawn.data.names import Name, NameIndex
from cawn.data.updates import NewLinks
from cawn.errors import QueryError, StorageError, reason
from cawn.files import FolderInUseError, FolderLock, make_folder, storing, sync

Array = npt.NDArray[Any]
Offset = str | int
Offsets = Mapping[str, Offset]

FILE = "state.sqlite"
SHADOW = -1
_FORMAT = "2"
_ROWS = 1 << 22  # links or names in one row of the table
RESTORE = "restore the state from a backup"
_ARRAYS: dict[str, Any] = {"src": np.int32, "dst": np.int32, "t": None, "msg": np.float32, "link_id": np.uint64}
_ARRAYS |= {"x": np.float32, "name_sizes": np.uint32, "name_text": np.uint8}  # of nodes
_PRAGMAS = "journal_mode = WAL", "synchronous = FULL", "secure_delete = ON", "wal_autocheckpoint = 4000"
_TABLES = f"""
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE commits (position INTEGER PRIMARY KEY, links INTEGER, nodes INTEGER, {" BLOB, ".join(_ARRAYS)} BLOB,
                      crc INTEGER);
CREATE TABLE keys (key BLOB PRIMARY KEY, body BLOB, added INTEGER, duplicates INTEGER, nodes_added INTEGER,
                   version INTEGER, position INTEGER) WITHOUT ROWID;
CREATE INDEX keys_by_position ON keys (position);
CREATE TABLE offsets (source TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE weights (number INTEGER PRIMARY KEY, about TEXT, tensors BLOB, crc INTEGER);
"""
_INSERT = f"INSERT INTO commits VALUES ({', '.join('?' * (len(_ARRAYS) + 4))})"


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


class Stored(NamedTuple):
    """Links and the names that they add, as they are stored: ids in the order in which the names were added."""

    columns: dict[str, Array]  # src, dst, t and, where there are any, msg, link_id, and x of the new nodes
    names: Sequence[Name]

    @property
    def row(self) -> tuple[Any, ...]:
        """A row of the table of commits, without its position."""
        text = [str(name).encode("utf-8", "surrogatepass") for name in self.names]
        sizes = np.array([len(each) for each in text], np.uint32)
        arrays = self.columns | {"name_sizes": sizes, "name_text": np.frombuffer(b"".join(text), np.uint8)}
        blobs = [_bytes(arrays.get(name), kind) for name, kind in _ARRAYS.items()]
        return len(self.columns["src"]), len(self.names), *blobs, _crc(blobs)


class LiveStore:
    """The store in a folder, used by one process at a time, and by any thread.

    Args:
        max_keys: How many of the newest idempotency keys to keep, at least.
    """

    def __init__(self, folder: Path, *, max_keys: int = 1_000_000) -> None:
        self.folder, self.path, self._max_keys = folder, folder / FILE, max_keys
        make_folder(folder)
        self._lock = _locked(folder)
        self._using = threading.RLock()
        self.failure = ""  # why nothing more is written until a restart
        self.sync_seconds = 0.0
        try:
            self._open()
        except BaseException:
            self._lock.release()
            raise

    def _open(self) -> None:
        with self._access():
            self._db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
            for pragma in _PRAGMAS:
                self._db.execute(f"PRAGMA {pragma}")
            if not self._db.execute("SELECT 1 FROM sqlite_master").fetchone():
                self._db.executescript(f"BEGIN; {_TABLES} INSERT INTO facts VALUES ('format', '{_FORMAT}'); COMMIT;")
                sync(self.folder)
            if self.fact("format") != _FORMAT:
                raise StorageError(f"{self.path}: written by another version of cawn; use that version")
            found = self._db.execute("SELECT source, value FROM offsets")
            self._offsets: dict[str, Offset] = {source: json.loads(value) for source, value in found}
            self.position = max(self._number("max(position) FROM commits"), self._number("max(position) FROM keys"))
            self._num_keys = self._number("count(*) FROM keys")

    # Writing

    def commit(self, stored: Stored | None, keys: Mapping[str, KeyUse], offsets: Offsets) -> None:
        """Store links, keys and offsets, all or nothing. StorageError: nothing was stored.

        After a failed sync, when it is unknown what is on disk, all later calls fail too, until a restart.
        """
        position = self.position + 1
        used = [(key_digest(key), use.body, *use.receipt, position) for key, use in keys.items()]
        with self._transaction():
            if stored is not None:
                self._db.execute(_INSERT, (position, *stored.row))
            self._db.executemany("INSERT OR REPLACE INTO keys VALUES (?, ?, ?, ?, ?, ?, ?)", used)
            self._put_offsets(offsets)
            self._num_keys += len(used)
            self._forget_old_keys()
        self.position = position
        self._offsets |= offsets

    def replace(
        self,
        parts: Iterator[Stored],
        keys: Sequence[tuple[Any, ...]] = (),
        offsets: Offsets | None = None,
        **facts: str,
    ) -> None:
        """Replace all links and names, in one transaction, and add rows of keys, offsets and facts.

        `scrub` then removes what is left of the former ones in the file.
        """
        given = offsets or {}
        with self._transaction():
            last = max([self.position, *(row[-1] for row in keys)])
            self._db.execute("DELETE FROM commits")
            for stored in parts:
                last += 1
                self._db.execute(_INSERT, (last, *stored.row))
            self._db.executemany("INSERT OR IGNORE INTO keys VALUES (?, ?, ?, ?, ?, ?, ?)", keys)
            self._put_offsets(given)
            self._set(facts)
        self.position = last
        self._num_keys += len(keys)
        self._offsets |= given

    def scrub(self) -> None:
        """Rewrite the file, so that nothing of what was removed is left in it."""
        with self._access("the links were removed, but the file may hold their bytes until the service is restarted"):
            for step in ("PRAGMA wal_checkpoint(TRUNCATE)", "VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"):
                self._db.execute(step).fetchall()

    def set_facts(self, **facts: str) -> None:
        """Store facts."""
        with self._transaction():
            self._set(facts)

    def keep_weights(self, number: int, about: Mapping[str, Any], tensors: bytes) -> None:
        """Store weights under a number."""
        row = number, json.dumps(dict(about)), tensors, zlib.crc32(tensors)
        with self._transaction():
            self._db.execute("INSERT OR REPLACE INTO weights VALUES (?, ?, ?, ?)", row)

    def close(self) -> None:
        """Close the file and release the lock."""
        with suppress(sqlite3.Error):
            self._db.close()
        self._lock.release()

    # Reading

    def columns(self, t: np.dtype[Any], widths: tuple[int, int]) -> dict[str, Array]:
        """The columns of all links in the order in which they were stored, x, and the names as sizes and text.

        Args:
            t: The type of the times.
            widths: The number of attributes of links and of nodes.
        """
        parts: dict[str, list[Array]] = {name: [] for name in _ARRAYS}
        with self._access():
            for position, links, nodes, *blobs, crc in self._db.execute("SELECT * FROM commits ORDER BY position"):
                if _crc(blobs) != crc:
                    raise StorageError(f"{self.path}: commit {position:,} is damaged (checksum); {RESTORE}")
                shapes: dict[str, tuple[int, ...]] = {"msg": (links, widths[0]), "x": (nodes, widths[1])}
                shapes |= {"name_sizes": (nodes,), "name_text": (-1,)}
                for (name, kind), blob in zip(_ARRAYS.items(), blobs, strict=True):
                    parts[name].append(_array(blob, kind or t, shapes.get(name, (links,))))
        return {name: np.concatenate(held) for name, held in parts.items() if held}

    def find_key(self, key: str) -> KeyUse | None:
        """The first use of an idempotency key; None if it is not known."""
        query = "SELECT body, added, duplicates, nodes_added, version FROM keys WHERE key = ?"
        with self._access():
            row = self._db.execute(query, (key_digest(key),)).fetchone()
        return None if row is None else KeyUse(row[0], Receipt(*row[1:]))

    @property
    def offsets(self) -> dict[str, Offset]:
        """How far each source has been read, of those of which something was stored."""
        return dict(self._offsets)

    def fact(self, name: str) -> str | None:
        """A fact; None if it is not known."""
        with self._access():
            row = self._db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def weights(self) -> dict[int, dict[str, Any]]:
        """What is known of the weights that are kept, by number."""
        with self._access():
            rows = self._db.execute("SELECT number, about FROM weights ORDER BY number").fetchall()
        return {number: json.loads(about) for number, about in rows}

    def tensors(self, number: int) -> bytes | None:
        """The weights with this number; None if there are none."""
        with self._access():
            row = self._db.execute("SELECT tensors, crc FROM weights WHERE number = ?", (number,)).fetchone()
        if row is not None and zlib.crc32(row[0]) != row[1]:
            raise StorageError(f"{self.path}: the weights {number} are damaged (checksum); serve others with --weights")
        return None if row is None else bytes(row[0])

    @property
    def num_bytes(self) -> int:
        """The size of the file, and of the log that SQLite has not merged with it yet."""
        paths = self.path, self.path.with_name(f"{FILE}-wal")
        return sum(path.stat().st_size for path in paths if path.exists())

    # Implementation

    def _number(self, query: str) -> int:
        return int(self._db.execute(f"SELECT {query}").fetchone()[0] or 0)

    def _set(self, facts: Mapping[str, str]) -> None:
        self._db.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts.items())

    def _put_offsets(self, offsets: Offsets) -> None:
        given = [(source, json.dumps(value)) for source, value in offsets.items()]
        self._db.executemany("INSERT OR REPLACE INTO offsets VALUES (?, ?)", given)

    def _forget_old_keys(self) -> None:
        excess = self._num_keys - self._max_keys
        if excess > self._max_keys // 10:
            oldest = "SELECT key FROM keys ORDER BY position LIMIT ?"
            self._db.execute(f"DELETE FROM keys WHERE key IN ({oldest})", (excess,))
            self._num_keys = self._number("count(*) FROM keys")

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        if self.failure:
            raise StorageError(self.failure)
        with self._access():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                started = time.perf_counter()
                self._db.execute("COMMIT")
                self.sync_seconds += time.perf_counter() - started
            except BaseException:
                with suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
                raise

    @contextmanager
    def _access(self, state: str = "nothing was changed") -> Iterator[None]:
        with self._using:
            try:
                yield
            except (sqlite3.Error, ValueError) as error:
                said = f"{self.path}: cannot be used ({reason(error)}); {state}"
                if getattr(error, "sqlite_errorname", "") in _SYNC_ERRORS:
                    said = self.failure = (
                        f"{self.path}: could not be synced to disk ({reason(error)}); it is not known whether the last "
                        "change was stored: check the disk, then restart the service"
                    )
                raise StorageError(said) from error


_SYNC_ERRORS = ("SQLITE_IOERR_FSYNC", "SQLITE_IOERR_DIR_FSYNC", "SQLITE_IOERR_CLOSE", "SQLITE_IOERR")


def stored_links(events: Events, names: NameIndex) -> Iterator[Stored]:
    """All links and names of a history, in pieces."""
    columns = _columns_of(events)
    for first in range(0, max(len(events), len(names), 1), _ROWS):
        held = {name: column[first : first + _ROWS] for name, column in columns.items()}
        yield Stored(held, [names.name(i) for i in range(first, min(first + _ROWS, len(names)))])


def added_links(new: NewLinks, before: int) -> Stored:
    """What is stored of new links, given the number of names before."""
    return Stored(_columns_of(new), [new.names.name(i) for i in range(before, len(new.names))])


def _columns_of(links: Events | NewLinks) -> dict[str, Array]:
    columns = {name: getattr(links, name, None) for name in _ARRAYS}
    return {name: column for name, column in columns.items() if column is not None}


def backup(folder: Path, target: Path) -> None:
    """Write a consistent copy of a state to a new file; a server may be running."""
    path = folder / FILE
    if not path.is_file():
        raise StorageError(f"{folder}: holds no state of a server ({FILE})")
    if target.exists():
        raise QueryError(f"{target}: exists; give the name of a new file")
    make_folder(target.absolute().parent)
    part = target.with_name(f".{target.name}.part")
    part.unlink(missing_ok=True)
    with storing(target):
        try:
            with closing(_reader(path)) as db:
                db.execute("VACUUM INTO ?", (str(part),))
            sync(part)
            part.rename(target)
            sync(target.absolute().parent)
        except sqlite3.Error as error:
            part.unlink(missing_ok=True)
            raise StorageError(f"{path}: cannot be copied ({reason(error)})") from error


def restore(source: Path, folder: Path) -> None:
    """Put a copy that `backup` wrote in the place of a state that no server uses."""
    if not source.is_file():
        raise StorageError(f"{source}: is not a file; give one that cawn serve backup has written")
    make_folder(folder)
    lock = _locked(folder)
    try:
        with closing(_reader(source)) as db:
            if db.execute("PRAGMA integrity_check").fetchone() != ("ok",):
                raise StorageError(f"{source}: is damaged; use another backup")
            db.execute("SELECT value FROM facts WHERE name = 'format'").fetchone()
        part = folder / f".{FILE}.part"
        with storing(folder):
            copyfile(source, part)
            sync(part)
            for name in (f"{FILE}-wal", f"{FILE}-shm"):
                (folder / name).unlink(missing_ok=True)
            part.rename(folder / FILE)
            sync(folder)
    except sqlite3.Error as error:
        raise StorageError(f"{source}: is not a backup of a state ({reason(error)})") from error
    finally:
        lock.release()


def _reader(path: Path) -> sqlite3.Connection:
    """A connection to a file that is not changed."""
    return sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)


def _locked(folder: Path) -> FolderLock:
    try:
        return FolderLock(folder)
    except FolderInUseError as error:
        raise StorageError(f"{folder}: another process uses this state; stop it first") from error


def key_digest(key: str) -> bytes:
    """What is stored of an idempotency key."""
    return hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _bytes(array: Array | None, kind: Any) -> bytes | None:
    """An array in little-endian bytes."""
    if array is None:
        return None
    stored = np.ascontiguousarray(array, array.dtype if kind is None else kind)
    return stored.astype(stored.dtype.newbyteorder("<"), copy=False).tobytes()


def _array(blob: bytes | None, kind: Any, shape: tuple[int, ...]) -> Array:
    """The array of `_bytes`; zeros for None."""
    if blob is None:
        return np.zeros([max(size, 0) for size in shape], kind)
    return np.frombuffer(blob, np.dtype(kind).newbyteorder("<")).astype(kind, copy=False).reshape(shape)


def _crc(blobs: Sequence[bytes | None]) -> int:
    crc = 0
    for blob in blobs:
        crc = zlib.crc32(b"-" if blob is None else blob, crc)
    return crc
