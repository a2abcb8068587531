"""A thread that moves links from a stream into the store."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from cawn.errors import CawnError, DataError, QueryError, one_line, printable
from cawn.serve.sources import LinkSource, Stored, StreamEntry
from cawn.serve.sources.entries import EntryLink, RejectedEntries, as_columns, as_link
from cawn.serve.store import Receipt
from cawn.serve.writer import LateLinks, QueueFull

WAIT = 1.0  # seconds that a read waits for entries
BACK_OFF = (0.1, 30.0)  # seconds, the first and the longest
QUEUE_FULL = 0.05  # seconds until a full queue is tried again
STOPPING = 5.0  # seconds that a stop waits for the batch in progress

_log = logging.getLogger(__name__)

Submit = Callable[..., "Future[Receipt]"]
Part = list[tuple[StreamEntry, EntryLink | None]]  # entries with their links; None for those that are rejected


class Pump:
    """Reads a source and submits its links.

    One batch is in progress at a time, so the offset stored with it includes all batches before it. If the queue is
    full, the pump waits; after any failure it reconnects, with a longer delay each time. A batch with a link that is
    refused is halved until that link is alone; it is then stored with the rejected entries.

    Args:
        submit: `Writer.submit`.
        back_off: The first and the longest wait after a failure, in seconds.
    """

    def __init__(
        self, source: LinkSource, submit: Submit, rejected: RejectedEntries, *, back_off: tuple[float, float] = BACK_OFF
    ) -> None:
        self.source = source
        self._submit, self._rejected, self._back_off = submit, rejected, back_off
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"source {source.name}", daemon=True)
        self._counts = Counter(read=0, added=0, duplicates=0, rejected=0, errors=0)
        self._connected = self._begun = False
        self._last_error: str | None = None
        self._complete: float | None = None  # when the store last had all entries

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def ask_to_stop(self) -> None:
        self._stopping.set()

    def stop(self) -> None:
        """Wait for the batch in progress, then end the thread. Entries not stored by then are read again."""
        self.ask_to_stop()
        if self._thread.is_alive():
            self._thread.join()

    def state(self) -> dict[str, Any]:
        """What it has done since it was started, as JSON values. May be called from any thread.

        "read", "added", "duplicates" and "rejected" count entries, "trimmed" those that the stream dropped before they
        were read, "lag" those that are not read yet, if known. "behind" is the time in seconds since the store last had
        all entries, None if it never had. "errors" counts failures, each of which was followed by another attempt;
        "last_error" is the present one.
        """
        source = self.source
        behind = None if self._complete is None else time.monotonic() - self._complete
        found = {"name": source.name, "connected": self._connected, **self._counts, "trimmed": source.trimmed}
        found |= {
            "lag": source.lag,
            "behind": behind,
            "last_error": self._last_error,
            "warning": source.warning or None,
        }
        return found

    def _run(self) -> None:
        pause, longest = self._back_off
        while not self._stopping.is_set():
            try:
                self._step()
            except _StoppedError:
                break
            except Exception as error:  # of the client, the network or the disk: none may end the thread
                self._failed(error)
                self._stopping.wait(pause)
                pause = min(2 * pause, longest)
            else:
                self._last_error, pause = None, self._back_off[0]
        self._connected = False
        self.source.close()

    def _step(self) -> None:
        """Read entries and store them; at first also where the stream begins for this server."""
        entries = self.source.read(WAIT)
        self._connected = True
        if entries or not self._begun:
            self._counts["read"] += len(entries)
            self._store([(entry, self._link(entry)) for entry in entries])
            self._begun = True
        if self.source.lag == 0:
            self._complete = time.monotonic()

    def _failed(self, error: Exception) -> None:
        """Disconnect; the next read starts again after the last commit."""
        self._connected = False
        self._counts["errors"] += 1
        said = one_line(str(error) if isinstance(error, CawnError) else f"{type(error).__name__}: {error}")
        if said != self._last_error:
            _log.warning("%s: %s", self.source.name, said)
        self._last_error = said
        self.source.close()

    def _link(self, entry: StreamEntry) -> EntryLink | None:
        try:
            return as_link(entry.content)
        except ValueError as error:
            self._reject(entry, error)
            return None

    def _reject(self, entry: StreamEntry, error: Exception) -> None:
        self._rejected.add(self.source.name, entry.position, entry.content, str(error))
        self._counts["rejected"] += 1

    def _store(self, part: Part) -> None:
        """Store links with the offset after their entries, part by part if they are refused together."""
        left = [part]
        while left:
            part = left.pop()
            try:
                self._write(part)
            except QueueFull:
                if self._stopping.wait(QUEUE_FULL):
                    raise _StoppedError from None
            except (DataError, QueryError, LateLinks) as error:
                if len(part) == 1:
                    self._reject(part[0][0], error)
                    part = [(part[0][0], None)]
            else:
                continue
            middle = len(part) // 2  # a whole part may also be too large for the queue
            left += [part[middle:], part[:middle]] if middle else [part]

    def _write(self, part: Part) -> None:
        entries = [entry for entry, _ in part]
        links = as_columns([link for _, link in part if link is not None])
        clock = min((entry.clock for entry in entries), default=None)
        future = self._submit(links, offsets={self.source.name: self.source.offset(entries)}, clock=clock)
        while not wait_for([future], WAIT).done:
            if self._stopping.is_set() and not wait_for([future], STOPPING).done:
                raise _StoppedError
        receipt = future.result()
        self._counts["added"] += receipt.added
        self._counts["duplicates"] += receipt.duplicates
        self.source.commit(entries)


class Pumps:
    """The pumps of several streams.

    Args:
        urls: Of the streams; see `open_source`.
        stored: `Store.offsets.get`.
        submit: `Writer.submit`.
        folder: The state folder, for rejected entries.
        replica: Whether the links are to be those of the stream, and no others.
    """

    def __init__(
        self, urls: Sequence[str], stored: Stored, submit: Submit, folder: Path, *, replica: bool = False
    ) -> None:
        sources = [open_source(url, stored, replica=replica) for url in urls]
        names = [source.name for source in sources]
        if repeated := next((name for name in names if names.count(name) > 1), None):
            raise QueryError(f"--source: two streams are called {repeated!r}; rename one of them with &name=NAME")
        if replica and len(sources) != 1:
            raise QueryError(f"--replica with {len(sources)} streams: give one --source, whose order all replicas have")
        rejected = RejectedEntries(folder)
        self._pumps = [Pump(source, submit, rejected) for source in sources]

    def start(self) -> None:
        for pump in self._pumps:
            pump.start()

    def stop(self) -> None:
        """Stop all, before ingest is stopped."""
        for pump in self._pumps:
            pump.ask_to_stop()
        for pump in self._pumps:
            pump.stop()

    def states(self) -> list[dict[str, Any]]:
        return [pump.state() for pump in self._pumps]


class _StoppedError(Exception):
    """The pump was stopped before a batch was stored."""


def open_source(url: str, stored: Stored, *, replica: bool = False) -> LinkSource:
    """The stream of a URL; see redis.py and kafka.py. It connects at the first read.

    Args:
        stored: The offsets that are stored, by the name of a source: `Store.offsets.get`.
        replica: Whether the source refuses to go on where entries are missing.
    """
    try:
        scheme = urlsplit(url).scheme
    except ValueError as error:
        raise QueryError(f"--source: not a URL ({error})") from error
    if scheme in ("redis", "rediss", "unix"):
        from cawn.serve.sources.redis import RedisSource

        return RedisSource(url, stored, replica=replica)
    if scheme == "kafka":
        from cawn.serve.sources.kafka import KafkaSource

        return KafkaSource(url, stored, replica=replica)
    raise QueryError(f"--source: {printable(scheme) or 'no scheme'}: give redis://, rediss://, unix:// or kafka://")
