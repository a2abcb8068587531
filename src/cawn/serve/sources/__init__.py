"""Streams of links that a server reads: Redis Streams and Kafka topics.

A server reads the whole of a stream, in its order. How far it has read is stored in the same transaction as the links,
so that either both are on disk or neither is, and reading goes on from there after a restart or a lost connection: an
entry is neither lost nor counted twice, whenever the process is killed. Nothing that the stream itself keeps about its
readers is needed. What an entry does depends on the entries before it alone, not on those that are read with it, nor on
when it is read; so servers that read one stream have the same links in the same order.

An entry that is not a link, or a link that is refused, is written to `rejected.jsonl` in the state folder; it does not
stop the stream. It may be written twice if the process is killed in between.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol

from cawn.errors import CawnError

RESTORE = "this replica would differ from others; restore a backup of one that has read them in its state folder"
Stored = Callable[[str], str | int | None]


class SourceError(CawnError):
    """A stream that cannot be read now."""


class StreamEntry(NamedTuple):
    """An entry of a stream."""

    position: str  # its id in Redis, its partition and offset in Kafka
    clock: float  # when it was added to the stream, in seconds since 1970
    content: Any  # JSON as bytes, or fields


class LinkSource(Protocol):
    """A stream of links. Used by one thread; the attributes may be read by others.

    Any method may raise. `close` and then `read` starts again after the last commit.
    """

    name: str  # under which the offset is stored
    lag: int | None  # entries after those that were read, if known
    trimmed: int  # entries that the stream dropped before they were read
    warning: str  # empty if there is none

    def read(self, wait: float) -> Sequence[StreamEntry]:
        """The next entries, or none if there are none within `wait` seconds."""

    def offset(self, entries: Sequence[StreamEntry]) -> str:
        """What to store with these entries, given that all entries before them are committed."""

    def commit(self, entries: Sequence[StreamEntry]) -> None:
        """Note that these entries, and what `offset` says, are on disk."""

    def close(self) -> None:
        """Disconnect."""
