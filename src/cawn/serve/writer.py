"""The one writer of a live state: links are prepared, stored, published and only then acknowledged."""

from __future__ import annotations

import hashlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar, get_args

from cawn.checks import check_choice, check_integer
from cawn.data.forms import Arrivals
from cawn.data.hashing import digest
from cawn.data.updates import LateLinks, NewLinks, UpdateRules
from cawn.errors import CawnError, QueryError, StorageError, brief, reason
from cawn.predictor import LinkPredictor, NextSnapshot
from cawn.serve.links import SubmittedLinks
from cawn.serve.store import KeyUse, LiveStore, Offsets, Receipt, added_links, stored_links

__all__ = ["KeyConflict", "Late", "LateLinks", "QueueFull", "Receipt", "Writer"]

Late = Literal["insert", "refuse"]
Result = TypeVar("Result")

MAX_KEY = 255  # characters of an idempotency key
_GROUP_LINKS = 20_000  # of one group commit, about
_GATHER, _PAUSE = 0.005, 0.0005  # seconds to wait for more submissions, at most and at a time

_logger = logging.getLogger(__name__)


class QueueFull(CawnError):  # noqa: N818
    """The queue of submissions is full; try again later (HTTP 429)."""


class KeyConflict(QueryError):  # noqa: N818
    """An idempotency key that was used before, with other links (HTTP 422)."""


@dataclass(slots=True, eq=False)
class _Submission:
    arrivals: Arrivals
    size: int  # bytes
    key: str | None = None
    body: bytes = b""
    offsets: Offsets = field(default_factory=dict)
    future: Future[Receipt] = field(default_factory=Future)


class Writer:
    """Stores submissions, adds them to the predictor, and returns receipts.

    Submissions that wait are committed together, with the same effect as one after another: one that cannot be added
    does not affect the others. The next version of the history is prepared, committed to the store, published, and
    acknowledged. If the commit fails, nothing has happened.

    Args:
        late: What to do with links older than the newest one: "insert" them where they belong, or "refuse" the
            submission with LateLinks.
        max_ahead: As for `LinkPredictor.load`.
        max_queue: The largest number of links in the queue.
        max_queue_bytes: The largest size of the queue.
    """

    def __init__(
        self,
        predictor: LinkPredictor,
        store: LiveStore,
        *,
        late: Late = "insert",
        max_ahead: float | None = None,
        max_queue: int = 100_000,
        max_queue_bytes: int = 64 << 20,
    ) -> None:
        check_choice(late, "late", get_args(Late))
        self._predictor, self._store = predictor, store
        self._rules = UpdateRules(late=late == "insert", max_ahead=max_ahead)
        self.max_queue = check_integer(max_queue, "max_queue", 1)
        self.max_queue_bytes = check_integer(max_queue_bytes, "max_queue_bytes", 1)
        self.observers: list[Callable[[NewLinks], object]] = []  # called by the writer thread; must be quick
        self.links_queued = self.bytes_queued = 0  # including those being stored
        self.added = self.duplicates = self.late = self.groups = 0  # since the start
        self._queue: deque[_Submission | Callable[[], object]] = deque()
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._stopping = False

    def start(self) -> None:
        """Start the writer thread."""
        self._thread.start()

    def stop(self) -> None:
        """Store what is queued, then end the writer thread; later submissions are refused."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join()

    def submit(
        self,
        links: SubmittedLinks,
        *,
        key: str | None = None,
        offsets: Offsets | None = None,
        clock: float | None = None,
    ) -> Future[Receipt]:
        """Queue links; the future returns the receipt once they are on disk and visible to the next query.

        The future fails with DataError (bad links), KeyConflict, LateLinks, or StorageError; nothing of the submission
        is stored then, unless a message says that this is not known.

        Args:
            key: An idempotency key: used again with the same links, it returns the first receipt.
            offsets: How far sources have been read with these links; stored with them, so that both or neither survive.
            clock: Of entries of a stream: when the first was added to it, in seconds since 1970. They are added only if
                each of them would be added one by one.

        Raises:
            QueueFull: at once, if the queue is full.
            QueryError: if an argument is invalid, or the submission is larger than the queue.
            DataError: if the links cannot be read.
            StorageError: if nothing can be stored any more.
        """
        _check_key(key)
        size = links.num_bytes
        if len(links) > self.max_queue or size > self.max_queue_bytes:
            raise QueryError(
                f"{len(links):,} links of about {size:,} bytes in one submission: give at most {self.max_queue:,} "
                f"links and {self.max_queue_bytes:,} bytes"
            )
        self._check_room(len(links), size)
        form = self._predictor.snapshot().model.form
        arrivals = form.arrivals(links.src, links.dst, links.t, links.attributes, links.id_hashes())
        arrivals = arrivals if clock is None else replace(arrivals, clock=clock)
        body = b"" if key is None else _body(arrivals)
        submission = _Submission(arrivals, size, key, body, dict(offsets or {}))
        with self._changed:
            self._check_room(len(links), size)
            self.links_queued += len(links)
            self.bytes_queued += size
            self._queue.append(submission)
            self._changed.notify_all()
        return submission.future

    def between(self, function: Callable[[], Result]) -> Result:
        """Call a function in the writer thread, while no submission is being stored."""
        result: Future[Result] = Future()

        def call() -> None:
            try:
                result.set_result(function())
            except BaseException as error:
                result.set_exception(error)

        with self._changed:
            if running := self._thread.is_alive() and not self._stopping:
                self._queue.append(call)
                self._changed.notify_all()
        if not running:
            call()
        return result.result()

    def remove(self, **chosen: Any) -> int:
        """Remove links from the history and the store (see `LinkPredictor.reduce`); returns their number.

        If they cannot be removed from the store, they stay in the history too.
        """

        def change() -> int:
            reduced = self._predictor.reduce(**chosen)
            if (left := reduced.snapshot) is not reduced.base:
                self._store.replace(stored_links(left.events, left.names))
                self._publish(reduced)
                self._store.scrub()
            return reduced.removed

        return self.between(change)

    def _check_room(self, links: int, size: int) -> None:
        """Refuse a submission for which there is no room."""
        if self._stopping or self._store.failure:
            raise StorageError(self._store.failure or "the service is stopping: no more links are stored")
        full = self.links_queued + links > self.max_queue or self.bytes_queued + size > self.max_queue_bytes
        if full or len(self._queue) >= self.max_queue:
            raise QueueFull(f"{self.links_queued:,} links are waiting to be stored; try again in a second")

    # The writer thread.

    def _run(self) -> None:
        group: list[_Submission] = []
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._queue or self._stopping)
                if not self._queue:
                    return
            self._gather(len(group))
            with self._changed:
                group, call = self._take()
            if call is not None:
                call()
            if group:
                self._store_group(group)

    def _gather(self, last: int) -> None:
        """Where several submit at a time, wait while more arrive: a commit of all takes hardly longer than of one.

        Args:
            last: How many were stored together the last time.
        """
        seen, end = 0, time.monotonic() + _GATHER
        while last > 1 and seen < len(self._queue) and time.monotonic() < end and self.links_queued < _GROUP_LINKS:
            seen = len(self._queue)
            time.sleep(_PAUSE)

    def _take(self) -> tuple[list[_Submission], Callable[[], object] | None]:
        """The next submissions to store together, no two of them with the same key, or a function to call."""
        group: list[_Submission] = []
        links, keys = 0, set[str]()
        while self._queue and links < _GROUP_LINKS:
            first = self._queue[0]
            if not isinstance(first, _Submission):
                return group, None if group else self._queue.popleft()  # type: ignore[return-value]
            if first.key is not None and first.key in keys:
                break
            self._queue.popleft()
            keys |= set() if first.key is None else {first.key}
            group.append(first)
            links += len(first.arrivals)
        return group, None

    def _store_group(self, group: Sequence[_Submission]) -> None:
        wanted = [each for each in group if each.future.set_running_or_notify_cancel()]
        try:
            if new := [each for each in wanted if not self._is_repeated(each)]:
                self._commit(new)
        except BaseException as error:
            known = isinstance(error, CawnError)
            _logger.error("links could not be stored: %s", reason(error), exc_info=not known)
            failed = error if known else StorageError(f"the links could not be stored: {reason(error)}")
            for each in wanted:
                if not each.future.done():
                    each.future.set_exception(failed)
        finally:
            with self._changed:
                self.links_queued -= sum(len(each.arrivals) for each in group)
                self.bytes_queued -= sum(each.size for each in group)

    def _is_repeated(self, submission: _Submission) -> bool:
        """Whether the key was used before; then the receipt is returned again."""
        if submission.key is None or (used := self._store.find_key(submission.key)) is None:
            return False
        if used.body in (b"", submission.body):  # the digests of imported keys are not known
            submission.future.set_result(used.receipt)
        else:
            submission.future.set_exception(
                KeyConflict(f"the idempotency key {brief(submission.key)} was used with other links; use a new key")
            )
        return True

    def _commit(self, group: Sequence[_Submission]) -> None:
        """Prepare the next version with these submissions, store it, publish it and acknowledge them."""
        extension = self._predictor.extend([each.arrivals for each in group], self._rules)
        accepted = {
            each: Receipt(*result, extension.snapshot.number)
            for each, result in zip(group, extension.results, strict=True)
            if not isinstance(result, CawnError)
        }
        keys = {each.key: KeyUse(each.body, receipt) for each, receipt in accepted.items() if each.key is not None}
        offsets: dict[str, Any] = {}
        for each in accepted:
            offsets |= each.offsets
        new = extension.links
        stored = added_links(new, len(extension.base.names)) if new else None
        if stored is not None or keys or offsets:
            self._store.commit(stored, keys, offsets)
        self._publish(extension)
        self.duplicates += sum(receipt.duplicates for receipt in accepted.values())
        for each, result in zip(group, extension.results, strict=True):
            if isinstance(result, CawnError):  # said only now: it may be so because of what was just stored
                each.future.set_exception(result)
            else:
                each.future.set_result(accepted[each])
        if new is not None and len(new):
            self._observe(new, extension.base.watermark)

    def _publish(self, extension: NextSnapshot) -> None:
        """Let queries see what was stored; nothing more is written if that fails."""
        try:
            self._predictor.publish(extension)
        except BaseException as error:
            self._store.failure = f"links were stored but queries do not see it ({reason(error)}): restart the service"
            raise StorageError(self._store.failure) from error

    def _observe(self, links: NewLinks, newest: Any) -> None:
        self.groups += 1
        self.added += len(links)
        self.late += 0 if newest is None else int((links.t < newest).sum())
        for observer in tuple(self.observers):
            try:
                observer(links)
            except Exception:
                _logger.exception("an observer of new links failed")


def _body(arrivals: Arrivals) -> bytes:
    """Identifies the links that were submitted with a key."""
    columns = arrivals.src, arrivals.dst, arrivals.t, arrivals.msg, arrivals.link_id
    held = [digest(column) for column in columns if column is not None]
    return hashlib.blake2b(repr([held, arrivals.names]).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _check_key(key: str | None) -> None:
    if key is not None and not (isinstance(key, str) and 1 <= len(key) <= MAX_KEY):
        raise QueryError(f"the idempotency key is {brief(key)}: give text of 1 to {MAX_KEY} characters")
