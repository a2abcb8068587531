"""A thread that moves links from a stream into the store."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from cawn.errors import CawnError, DataError, QueryError, one_line, printable
from cawn.serve.sources import Batch, Rejected, Source, Stored, format_position
from cawn.serve.sources.rejected import RejectedEntries
from cawn.serve.store import Receipt
from cawn.serve.writer import LateLinks, QueueFull

WAIT = 1.0  # seconds that a read waits for entries
BACK_OFF = (0.1, 30.0)  # seconds, the first and the longest
QUEUE_FULL = 0.05  # seconds until a full queue is tried again

STOPPING = 5.0  # seconds that a stop waits for the batch in progress

_log = logging.getLogger(__name__)

Submit = Callable[..., "Future[Receipt]"]


class SourceState(NamedTuple):
    """What a pump has done since it was started.

    Attributes:
        read: Entries read, of every kind.
        added: Links added.
        duplicates: Links whose id was known.
        known: Entries that were delivered again and skipped.
        rejected: Entries that are not links, or links that were refused.
        trimmed: Entries that the stream dropped after delivering them.
        lag: Entries of the stream that are not read yet, if known.
        errors: Failures since the start; each is followed by another attempt.
        last_error: The present failure; None if it works.
        warning: The source's last warning, if any.
    """

    name: str
    connected: bool
    read: int
    added: int
    duplicates: int
    known: int
    rejected: int
    trimmed: int
    lag: int | None
    errors: int
    last_error: str | None
    warning: str | None


class Pump:
    """Reads a source, submits its links and acknowledges them once they are stored.

    One batch is in progress at a time, so the positions stored with it include all batches before it. If the queue is
    full, the pump waits; after any failure it reconnects, with a longer delay each time. A batch with a link that is
    refused is halved until that link is alone; it is then stored with the rejected entries.

    Args:
        submit: `Writer.submit`.
        back_off: The first and the longest wait after a failure, in seconds.
    """

    def __init__(
        self, source: Source, submit: Submit, rejected: RejectedEntries, *, back_off: tuple[float, float] = BACK_OFF
    ) -> None:
        self.source = source
        self._submit, self._rejected, self._back_off = submit, rejected, back_off
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"source {source.name}", daemon=True)
        self._counts: Counter[str] = Counter()
        self._connected = False
        self._last_error: str | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def ask_to_stop(self) -> None:
        self._stopping.set()

    def stop(self) -> None:
        """Wait for the batch in progress, then end the thread. Entries not stored by then are delivered again."""
        self.ask_to_stop()
        if self._thread.is_alive():
            self._thread.join()

    def state(self) -> SourceState:
        """May be called from any thread."""
        source, counts = self.source, self._counts
        return SourceState(
            name=source.name,
            connected=self._connected,
            read=counts["read"],
            added=counts["added"],
            duplicates=counts["duplicates"],
            known=source.known,
            rejected=counts["rejected"],
            trimmed=source.trimmed,
            lag=source.lag,
            errors=counts["errors"],
            last_error=self._last_error,
            warning=source.warning,
        )

    def _run(self) -> None:
        pause, longest = self._back_off
        while not self._stopping.is_set():
            try:
                batch = self.source.read(WAIT)
                self._connected = True
                self._store(batch)
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

    def _failed(self, error: Exception) -> None:
        """Disconnect; the next read starts again after the last commit."""
        self._connected = False
        self._counts["errors"] += 1
        said = one_line(str(error) if isinstance(error, CawnError) else f"{type(error).__name__}: {error}")
        if said != self._last_error:
            _log.warning("%s: %s", self.source.name, said)
        self._last_error = said
        self.source.close()

    def _store(self, batch: Batch) -> None:
        self._counts["read"] += len(batch) + len(batch.others)
        if batch.rejected:
            self._reject(batch.rejected)
        self._write(batch)

    def _write(self, batch: Batch) -> None:
        """Write the links of a batch to the log and acknowledge its entries."""
        if not len(batch):
            return self.source.commit(batch)
        try:
            receipt = self._result(self._submit(batch.links, offsets=self.source.offsets(batch)))
        except QueueFull:
            if self._stopping.wait(QUEUE_FULL):
                raise _StoppedError from None
            parts = [batch] if len(batch) == 1 else batch.halves()  # a whole batch may be too large for the queue
        except (DataError, QueryError, LateLinks) as error:
            if len(batch) == 1:
                link = {name: column[0] for name, column in batch.links.to_columns().items()}
                self._reject([Rejected(format_position(batch.positions[0]), link, str(error))])
                return self.source.commit(batch)
            parts = batch.halves()
        else:
            self._counts["added"] += receipt.added
            self._counts["duplicates"] += receipt.duplicates
            return self.source.commit(batch)
        for part in parts:
            self._write(part)
        return None

    def _result(self, future: Future[Receipt]) -> Receipt:
        while not wait_for([future], WAIT).done:
            if self._stopping.is_set() and not wait_for([future], STOPPING).done:
                raise _StoppedError
        return future.result()

    def _reject(self, entries: Sequence[Rejected]) -> None:
        self._rejected.add(self.source.name, entries)
        self._counts["rejected"] += len(entries)


class Pumps:
    """The pumps of several streams.

    Args:
        urls: Of the streams; see `open_source`.
        stored: `Store.offset`.
        submit: `Writer.submit`.
        folder: The state folder, for rejected entries.
    """

    def __init__(self, urls: Sequence[str], stored: Stored, submit: Submit, folder: Path) -> None:
        sources = [open_source(url, stored) for url in urls]
        require_distinct(sources)
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

    def states(self) -> list[SourceState]:
        return [pump.state() for pump in self._pumps]


class _StoppedError(Exception):
    """The pump was stopped before a batch was stored."""


def open_source(url: str, stored: Stored) -> Source:
    """The stream of a URL; see redis.py and kafka.py. It connects at the first read.

    Args:
        stored: The positions in the log by the name of a source: `Store.offset`.
    """
    try:
        scheme = urlsplit(url).scheme
    except ValueError as error:
        raise QueryError(f"--source: not a URL ({error})") from error
    if scheme in ("redis", "rediss", "unix"):
        from cawn.serve.sources.redis import RedisSource

        return RedisSource.open(url, stored)
    if scheme == "kafka":
        from cawn.serve.sources.kafka import KafkaSource

        return KafkaSource.open(url, stored)
    raise QueryError(f"--source: {printable(scheme) or 'no scheme'}: give redis://, rediss://, unix:// or kafka://")


def require_distinct(sources: Sequence[Source]) -> None:
    """Refuse two sources that would store their positions under the same name."""
    names = [source.name for source in sources]
    if repeated := next((name for name in names if names.count(name) > 1), None):
        raise QueryError(f"--source: two streams are called {repeated!r}; rename one of them with &name=NAME")
