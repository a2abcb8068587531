"""The log of links: a record survives a crash once `append` has returned.

FOLDER/log/             the segments, in the order of their names (see `segments`)
FOLDER/catalog.sqlite   keys, positions in sources and segments, derived from the log (see `catalog`)
FOLDER/.lock            held by the process that uses the log

The commit point is the sync of a segment: a record holds its links together with the idempotency key and the offsets of
its submission, so that either all of them survive or none. The catalog is written later and may lag behind.
"""

from __future__ import annotations

import base64
import json
import os
import re
import secrets
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cawn.errors import DataError, StorageError, reason
from cawn.files import FolderLock, link_or_copy, make_folder, sync, write_bytes
from cawn.serve.catalog import Catalog, KeyUse, Offset, Receipt, Segment
from cawn.serve.links import Links, encode
from cawn.serve.segments import (
    HEADER_BYTES,
    Block,
    Damage,
    blocks,
    encode_block,
    has_block_after,
    read_header,
    read_segment,
    segment_header,
    segment_name,
)

__all__ = ["KeyUse", "LinkLog", "Offset", "Offsets", "Receipt", "Record"]

Offsets = Mapping[str, Offset]  # by the name of a source, such as "redis:payments"

MAX_KEYS = 1_000_000
_STORE_AFTER = 1.0  # seconds until the catalog includes a record, at least
_STORE_KEYS = 10_000  # new keys after which the catalog is written at once
_RESTORE = "restore it from a backup"

_VOID = re.compile(rb'^\{"void":([0-9]+)\}$', re.MULTILINE)

_sync_file = getattr(os, "fdatasync", os.fsync)


@dataclass(slots=True)
class Record:
    """One submission as it is written to the log.

    Args:
        links: The links without duplicates.
        duplicates: The number of duplicates, which are not written.
        key: The idempotency key.
        body: A digest of the submission that the key was used with.
        offsets: How far sources have been read, including this submission.
        void: The position of an earlier record that could not be added to the history, and was not acknowledged.
        position: Of the record in the log: 1, 2, ...; set by `LinkLog.append`.
    """

    links: Links
    duplicates: int = 0
    key: str | None = None
    body: bytes = b""
    offsets: Offsets | None = None
    void: int | None = None
    position: int = 0

    def to_json(self) -> bytes:
        """The record as one line of JSON, without what has its default value.

        Times that are floats are written as their bytes in base64: encoding them as JSON would take most of the time.
        """
        content: dict[str, Any] = self.links.to_columns() if len(self.links) else {}
        if len(self.links) and type(self.links.t[0]) is float and set(map(type, self.links.t)) == {float}:
            content["t"] = base64.b64encode(np.array(self.links.t, "<f8").tobytes()).decode()
        if self.duplicates:
            content["duplicates"] = self.duplicates
        if self.key is not None:
            content |= {"key": self.key, "body": self.body.hex()}
        if self.offsets:
            content["offsets"] = dict(self.offsets)
        if self.void is not None:
            content["void"] = self.void
        return encode(content)

    @classmethod
    def from_json(cls, line: bytes, position: int) -> Record:
        """The record that `to_json` returned."""
        found = json.loads(line)
        if isinstance(found.get("t"), str):
            found["t"] = np.frombuffer(base64.b64decode(found["t"]), "<f8").tolist()
        links = Links.from_columns(found) if "src" in found else Links([], [], [])
        body = bytes.fromhex(found.get("body", ""))
        key, offsets, void = (found.get(name) for name in ("key", "offsets", "void"))
        return cls(links, found.get("duplicates", 0), key, body, offsets, void, position)


class LinkLog:
    """The log in a folder, used by one process at a time.

    One thread appends. Offsets may be read by any thread.

    Args:
        segment_bytes: The size from which on a new segment is begun.
        max_keys: How many of the newest idempotency keys are remembered, at least.

    Raises:
        StorageError: if another process uses the folder, or it is damaged.
    """

    def __init__(self, folder: Path, *, segment_bytes: int = 64 << 20, max_keys: int = MAX_KEYS) -> None:
        self.folder, self._segment_bytes = folder, segment_bytes
        self.position = 0  # position of the last record; 0 if there is none
        self.sync_seconds = 0.0  # spent waiting for the disk, in all
        self.torn = 0  # incomplete writes that were cut off when the log was opened: 0 or 1
        self._failure = ""  # why nothing more can be written
        self._file, self._size = -1, 0  # of the segment that is being written, and the end of its last block
        self._open: Segment | None = None
        self._path = folder
        self._finished: list[Segment] = []
        self._writing = threading.RLock()  # of the segment that is being written
        self._using = threading.RLock()  # of the catalog and the list of segments; acquired after the other
        make_folder(folder / "log")
        for path in (folder, folder.absolute().parent):
            sync(path)  # the new folders must survive a crash, too
        self._lock = _lock(folder)
        try:
            self._catalog = Catalog(folder / "catalog.sqlite", max_keys=max_keys)
            try:
                self._recover()
            except BaseException:
                self._catalog.close()
                raise
        except BaseException:
            self._lock.release()
            raise
        self.settled = self._catalog.position  # the last record whose receipt is known
        self._offsets: dict[str, Offset] = dict(self._catalog.offsets)
        self._new_keys: dict[str, tuple[int, KeyUse]] = {}
        self._new_offsets: dict[str, Offset] = {}
        self._stored_at = time.monotonic()

    # Writing.

    def append(self, records: Sequence[Record]) -> int:
        """Write records with one sync, and set their positions; returns the last position.

        Raises:
            StorageError: nothing was written. After a failed sync, when it is unknown what is on disk, all later calls
                fail too, until the log is opened again.
        """
        lines, links = [record.to_json() for record in records], sum(len(record.links) for record in records)
        with self._writing:
            if self._failure:
                raise StorageError(self._failure)
            if lines:
                self._append(encode_block(self.position + 1, links, lines), len(lines), links)
            for i, record in enumerate(records):
                record.position = self.position - len(records) + 1 + i
            return self.position

    def settle(self, record: Record, receipt: Receipt) -> None:
        """Store the receipt of a record, for its key, and its offsets; called once for each record, in order."""
        with self._using:
            if record.key is not None and record.key not in self._new_keys:
                self._new_keys[record.key] = record.position, KeyUse(record.body, receipt)
            if record.offsets:
                self._new_offsets.update(record.offsets)
                self._offsets.update(record.offsets)
            self.settled = record.position
        if len(self._new_keys) >= _STORE_KEYS:
            self.store()

    def adopt_offsets(self, offsets: Offsets) -> None:
        """Use offsets recorded elsewhere, if the catalog was removed."""
        with self._using:
            self._new_offsets.update(offsets)
            self._offsets.update(offsets)

    def store_if_due(self) -> None:
        """Bring the catalog up to date, at most once a second."""
        if self.settled > self._catalog.position and time.monotonic() - self._stored_at >= _STORE_AFTER:
            self.store()

    def store(self) -> None:
        """Bring the catalog up to date, and sync it."""
        with self._using:
            settled, keys, offsets = self.settled, self._new_keys, self._new_offsets
            self._new_keys, self._new_offsets = {}, {}
            try:
                self._catalog.store(self._id, settled, keys, offsets, self._finished)
            except BaseException:
                self._new_keys, self._new_offsets = keys | self._new_keys, offsets | self._new_offsets
                raise
            self._stored_at = time.monotonic()

    def finish_segment(self) -> None:
        """Begin a new segment with the next record; the present ones will never change."""
        with self._writing, self._using:
            if self._open is not None:
                os.close(self._file)
                if self._open.last >= self._open.first:
                    self._finished.append(self._open)
                self._file, self._open = -1, None

    def prune(self, position: int) -> None:
        """Remove the segments without a record after this position, except the last one, which holds the next position.

        The catalog is brought up to date first.
        """
        with self._using:
            covered = [each for each in self._finished if each.last <= min(position, self._last_finished - 1)]
            self._finished = self._finished[len(covered) :]
            self.store()
            for segment in covered:
                with suppress(OSError):
                    self._segment_path(segment.first).unlink()

    def close(self) -> None:
        """Bring the catalog up to date, close the files and release the lock."""
        self.finish_segment()
        try:
            with suppress(StorageError):  # the log itself is complete
                self.store()
        finally:
            self._catalog.close()
            self._lock.release()

    # Reading.

    def replay(self, after: int = 0) -> Iterator[Record]:
        """The records after this position, in order."""
        for path, block in self._blocks(after):
            try:
                for i, line in enumerate(block.lines.split(b"\n")):
                    if block.first + i > after:
                        yield Record.from_json(line, block.first + i)
            except (ValueError, KeyError, TypeError, AttributeError, DataError, RecursionError) as error:
                raise StorageError(f"{path}: damaged at offset {block.offset} ({reason(error)}); {_RESTORE}") from error

    def voided(self, after: int = 0) -> set[int]:
        """The positions of records that later records declare void."""
        return {int(number) for _, block in self._blocks(after) for number in _VOID.findall(block.lines)}

    def num_links(self, after: int = 0) -> int:
        """The number of links in the blocks with records after this position."""
        return sum(block.links for _, block in self._blocks(after))

    def find_key(self, key: str) -> KeyUse | None:
        """The first use of an idempotency key; None if it is not known."""
        with self._using:
            found = self._new_keys.get(key)
            return self._catalog.find(key) if found is None else found[1]

    def offset(self, source: str) -> Offset | None:
        """How far a source has been read; None if nothing of it was stored."""
        return self._offsets.get(source)

    @property
    def offsets(self) -> dict[str, Offset]:
        """How far each source has been read."""
        return dict(self._offsets)

    @property
    def first(self) -> int:
        """The position of the first record that is still there, or of the next one."""
        held = self._held()
        return held[0].first if held else self.position + 1

    @property
    def failure(self) -> str:
        """Why nothing more can be written; empty if the log works."""
        return self._failure

    @property
    def num_bytes(self) -> int:
        """The size of all segments."""
        return sum(segment.size for segment in self._held())

    @property
    def id(self) -> bytes:
        """Identifies the log: 16 random bytes."""
        return self._id

    def copier(self) -> Callable[[Path], None]:
        """Capture the present state; the returned function copies it to an empty folder, as a separate log.

        Called between two appends; the copy may be made during later ones, but not while the log is pruned.
        """
        self.finish_segment()
        self.store()
        names, copy_catalog = [segment_name(each.first) for each in self._finished], self._catalog.copier()

        def copy(folder: Path) -> None:
            make_folder(folder / "log")
            for name in names:
                link_or_copy(self.folder / "log" / name, folder / "log" / name)
            sync(folder / "log")
            copy_catalog(folder / "catalog.sqlite")

        return copy

    # Implementation

    def _append(self, block: bytes, records: int, links: int) -> None:
        if self._open is None or self._size >= self._segment_bytes:
            self._begin_segment()
        assert self._open is not None
        self._write(block)
        self._size, self.position = self._size + len(block), self.position + records
        self._open = Segment(self._open.first, self.position, self._open.links + links, self._size)

    def _write(self, block: bytes) -> None:
        """Write a block at the end of the segment and sync it; on failure, cut it off."""
        try:
            rest = memoryview(block)
            while rest:
                rest = rest[os.write(self._file, rest) :]
        except OSError as error:
            self._cut(error)
            raise StorageError(f"{self._path}: cannot be written ({reason(error)}); nothing was stored") from error
        try:
            started = time.perf_counter()
            _sync_file(self._file)
            self.sync_seconds += time.perf_counter() - started
        except OSError as error:
            self._failure = (
                f"{self._path}: could not be synced to disk ({reason(error)}); check the disk, then restart the service"
            )
            raise StorageError(self._failure) from error

    def _cut(self, cause: OSError) -> None:
        """Remove what was written of a block. If that fails as well, nothing more may be written."""
        try:
            os.ftruncate(self._file, self._size)
        except OSError:
            self._failure = f"{self._path}: a failed write ({reason(cause)}) could not be undone; restart the service"

    def _begin_segment(self) -> None:
        self.finish_segment()
        first = self.position + 1
        path = self._segment_path(first)
        write_bytes(path, segment_header(self._id, first))
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_CLOEXEC", 0))
        except OSError as error:
            raise StorageError(f"{path}: cannot be written ({reason(error)}); nothing was stored") from error
        self._path, self._size = path, HEADER_BYTES
        self._open = Segment(first, first - 1, 0, HEADER_BYTES)

    @property
    def _last_finished(self) -> int:
        return self._finished[-1].last if self._finished else 0

    def _held(self) -> list[Segment]:
        """All segments, including the one that is being written."""
        return [*self._finished, *([] if self._open is None else [self._open])]

    def _segment_path(self, first: int) -> Path:
        return self.folder / "log" / segment_name(first)

    def _blocks(self, after: int) -> Iterator[tuple[Path, Block]]:
        for segment in self._held():
            path = self._segment_path(segment.first)
            if segment.last > after:
                try:
                    for block in blocks(read_segment(path)[: segment.size]):
                        if block.first + block.records - 1 > after:
                            yield path, block
                except Damage as damage:
                    raise _damaged(path, damage) from damage

    def _recover(self) -> None:
        """Check all segments and cut off an incomplete last block."""
        self._id = self._catalog.log_id
        paths = sorted(path for path in (self.folder / "log").iterdir() if path.suffix == ".log")
        for path in paths:
            self._check_segment(path, last=path == paths[-1])
        self._id = self._id or secrets.token_bytes(16)
        if missing := {each.first for each in self._catalog.segments} - {each.first for each in self._finished}:
            raise StorageError(f"{self._segment_path(min(missing))}: missing; {_RESTORE}")
        if self.position < self._catalog.position:
            raise StorageError(
                f"{self.folder / 'log'}: ends at record {self.position:,}, but {self._catalog.position:,} were stored; "
                f"{_RESTORE}"
            )

    def _check_segment(self, path: Path, *, last: bool) -> None:
        content = read_segment(path)
        log_id, first = read_header(path, content)
        if self._id not in (b"", log_id):
            raise StorageError(f"{path}: belongs to another log; {_RESTORE}")
        if path.name != segment_name(first) or (self._finished and first != self.position + 1):
            raise StorageError(f"{path}: begins at record {first:,}, expected {self.position + 1:,}; {_RESTORE}")
        self._id, self.position, links, block = log_id, first - 1, 0, None
        try:
            for block in blocks(content):
                if block.first != self.position + 1:
                    raise Damage(block.offset, f"found record {block.first:,}, expected {self.position + 1:,}")
                self.position, links = self.position + block.records, links + block.links
        except Damage as damage:
            stored = self.position < self._catalog.position
            if not last or stored or has_block_after(content, damage.offset):
                raise _damaged(path, damage) from damage
            self.torn = 1
        end = HEADER_BYTES if block is None else block.end
        if last:
            _make_durable(path, content, HEADER_BYTES if block is None else block.offset, end)
        if self.position >= first:
            self._finished.append(Segment(first, self.position, links, end))


def _make_durable(path: Path, content: bytes, start: int, end: int) -> None:
    """Cut a segment at `end`, and write its last block again: what a killed process wrote may be in memory only, and
    after a failed sync even the next one would not write it."""
    try:
        descriptor = os.open(path, os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
        try:
            if len(content) > end:
                os.ftruncate(descriptor, end)
            os.lseek(descriptor, start, os.SEEK_SET)
            rest = memoryview(content)[start:end]
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        sync(path.parent)
    except OSError as error:
        raise StorageError(f"{path}: cannot be written ({reason(error)})") from error


def _damaged(path: Path, damage: Damage) -> StorageError:
    return StorageError(f"{path}: damaged at offset {damage.offset} ({damage}); {_RESTORE}")


def _lock(folder: Path) -> FolderLock:
    try:
        return FolderLock(folder)
    except StorageError as error:
        if "another process" in str(error):
            raise StorageError(f"{folder}: another process uses this state; stop it first") from error
        raise
