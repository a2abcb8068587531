"""The log of links: append-only segments with checksums; what was returned as written survives a crash."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from cawn.serve.links import Links

Offset = str | int
Offsets = Mapping[str, Offset]  # by the name of a source, such as "redis:payments"


class Receipt(NamedTuple):
    """The result of a submission: links added, duplicates by id, nodes added, and the version of the history."""

    added: int
    duplicates: int
    nodes_added: int
    version: int


@dataclass(frozen=True, slots=True)
class Record:
    """One submission as it is written to the log: the links that were new, and what is stored with them.

    Args:
        links: The links without duplicates.
        duplicates: The number of duplicates, which are not written.
        key: The idempotency key.
        body: A digest of the submission the key was used with.
        offsets: How far sources have been read, including this submission.
        position: Of the record in the log: 1, 2, ...; 0 before it is written.
    """

    links: Links
    duplicates: int = 0
    key: str | None = None
    body: str = ""
    offsets: Offsets | None = None
    position: int = 0


class LinkLog:
    """The log in a folder, opened by one process at a time."""

    def __init__(self, folder: Path, *, segment_bytes: int = 64 << 20) -> None:
        """Open or create the log; a torn last write is cut off and counted in `torn`.

        Raises:
            StorageError: if another process uses the folder, or a segment is damaged.
        """
        self.folder = folder
        self.position = 0  # of the last record; 0 if there is none
        self.torn = 0  # writes cut off when the log was opened: 0 or 1
        raise NotImplementedError

    def append(self, records: Sequence[Record]) -> int:
        """Write records with one fsync; returns the position of the last.

        Raises:
            StorageError: nothing was written; after a failed fsync, every later call fails too.
        """
        raise NotImplementedError

    def replay(self, after: int = 0) -> Iterator[Record]:
        """The records after this position, in order."""
        raise NotImplementedError

    def find_key(self, key: str) -> tuple[str, Receipt] | None:
        """The digest of the body and the receipt that an idempotency key was used with; None if it is unknown."""
        raise NotImplementedError

    def offset(self, source: str) -> Offset | None:
        """How far a source has been read; None if nothing of it was stored."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the files and release the lock."""
        raise NotImplementedError
