"""Ingest: submissions of links from many threads are stored and added to the history by one writer thread."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Literal

from cawn.errors import CawnError, QueryError
from cawn.predictor import LinkPredictor
from cawn.serve.links import Links
from cawn.serve.log import LinkLog, Offsets, Receipt

Late = Literal["insert", "refuse"]


class QueueFull(CawnError):  # noqa: N818
    """The queue of submissions is full; try again later (HTTP 429)."""


class LateLinks(CawnError):  # noqa: N818
    """Links older than the newest one, where such links are refused (HTTP 409)."""


class KeyConflict(QueryError):  # noqa: N818
    """An idempotency key that was used before, with other links (HTTP 422)."""


class Ingest:
    """Stores submissions in the log, adds them to the predictor, and returns receipts.

    A writer thread takes all queued submissions together: each is checked, and fails alone; duplicates by id are
    dropped; the rest is written to the log with one fsync, then added to the predictor, then acknowledged.

    Args:
        predictor: Whose history grows; nothing else may add links to it meanwhile.
        log: Where links are stored first.
        late: What to do with links older than the newest one: "insert" them where they belong, or "refuse" the
            submission with LateLinks.
        max_queue: The largest number of links in the queue.
        max_queue_bytes: The largest size of the queue.
    """

    def __init__(
        self,
        predictor: LinkPredictor,
        log: LinkLog,
        *,
        late: Late = "insert",
        max_queue: int = 100_000,
        max_queue_bytes: int = 64 << 20,
    ) -> None:
        self.observers: list[Callable[[Links], object]] = []  # called with added links, in the writer thread: be quick
        self.links_queued = 0

    def start(self) -> None:
        """Start the writer thread."""
        raise NotImplementedError

    def stop(self) -> None:
        """Store what is queued, then end the writer thread; later submissions are refused."""
        raise NotImplementedError

    def submit(self, links: Links, *, key: str | None = None, offsets: Offsets | None = None) -> Future[Receipt]:
        """Queue links; the future has the receipt once they are on disk and visible to the next query.

        Args:
            key: An idempotency key: the same key with the same links returns the first receipt again.
            offsets: How far sources have been read with these links; stored with them, so both or neither survive.

        The future fails with DataError or QueryError (bad links), KeyConflict, LateLinks, or StorageError (nothing was
        stored).

        Raises:
            QueueFull: at once, if the queue is full.
        """
        raise NotImplementedError
