"""Ingest: submissions of links from any thread are stored, then added to the history, by one writer thread."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from cawn.checks import check_choice, check_integer, check_type
from cawn.data.events import Events
from cawn.data.updates import Update
from cawn.errors import CawnError, QueryError, StorageError, brief, reason
from cawn.serve.catalog import Offset, Receipt
from cawn.serve.links import Links
from cawn.serve.log import LinkLog, Offsets, Record

__all__ = ["History", "Ingest", "KeyConflict", "Late", "LateLinks", "QueueFull", "Receipt"]

Late = Literal["insert", "refuse"]
Array = npt.NDArray[Any]
Result = TypeVar("Result")

MAX_KEY = 255  # characters of an idempotency key
_GROUP_LINKS = 20_000  # of one group commit, about
_GROUP_BYTES = 4 << 20
_IDLE = 1.0  # seconds after which an idle writer thread looks for other work
_NOTHING = Links([], [], [])

_logger = logging.getLogger(__name__)


class QueueFull(CawnError):  # noqa: N818
    """The queue of submissions is full; try again later (HTTP 429)."""


class LateLinks(CawnError):  # noqa: N818
    """Links older than the newest one, where such links are refused (HTTP 409)."""


class KeyConflict(QueryError):  # noqa: N818
    """An idempotency key that was used before, with other links (HTTP 422)."""


class History(Protocol):
    """What links are added to: a `LinkPredictor`."""

    @property
    def version(self) -> int: ...

    @property
    def watermark(self) -> Any: ...

    def knows_link_ids(self, link_id: npt.NDArray[np.uint64]) -> npt.NDArray[np.bool_]: ...

    def prepare(self, src: list[Any], dst: list[Any], t: Any, *, msg: Any = None, link_id: Any = None) -> Events: ...

    def append_all(self, batches: Sequence[Events]) -> list[Update]: ...

    def append_parts(self, batch: Events, sizes: Sequence[int]) -> list[Update]: ...


@dataclass(slots=True, eq=False)
class _Submission:
    links: Links
    key: str | None
    offsets: Offsets | None
    size: int
    future: Future[Receipt]


@dataclass(slots=True, eq=False)
class _Checked:
    """A submission that will be stored: its record, and the links as the history takes them, if there are any."""

    submission: _Submission
    record: Record
    prepared: Events | None


@dataclass(slots=True, eq=False)
class _Group:
    """Submissions that are stored together, and what the checks of later ones need of earlier ones."""

    watermark: Any
    checked: list[_Checked] = field(default_factory=list)
    ids: set[int] = field(default_factory=set)
    keys: dict[str, tuple[bytes, _Submission]] = field(default_factory=dict)
    prepared: Events | None = None  # of all submissions, if they were checked together
    repeats: list[tuple[_Submission, _Submission]] = field(default_factory=list)  # and the first with the same key


class Ingest:
    """Stores submissions in the log, adds them to the predictor, and returns receipts.

    The writer thread takes all queued submissions together: each is checked, and a bad one does not affect the
    others; links with known ids are dropped; the rest are written to the log with one sync, then added to the history,
    then acknowledged.

    Args:
        predictor: Links are added to its history; nothing else may add links to it.
        log: Links are stored here first; nothing else may append to it.
        late: What to do with links older than the newest one: "insert" them where they belong, or "refuse" the
            submission with LateLinks.
        max_queue: The largest number of links in the queue.
        max_queue_bytes: The largest size of the queue.
    """

    def __init__(
        self,
        predictor: History,
        log: LinkLog,
        *,
        late: Late = "insert",
        max_queue: int = 100_000,
        max_queue_bytes: int = 64 << 20,
    ) -> None:
        check_choice(late, "late", get_args(Late))
        self._predictor, self._log, self._refuse_late = predictor, log, late == "refuse"
        self.max_queue = check_integer(max_queue, "max_queue", 1)
        self.max_queue_bytes = check_integer(max_queue_bytes, "max_queue_bytes", 1)
        self.observers: list[Callable[[Links], object]] = []  # called by the writer thread; must be quick
        self.links_queued = self.bytes_queued = 0  # including those being stored
        self.added = self.duplicates = self.late = self.groups = 0  # since the start
        self._queue: deque[_Submission | Callable[[], object]] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._running = self._stopping = False

    def start(self) -> None:
        """Start the writer thread."""
        self._running, self._stopping = True, False
        self._thread = threading.Thread(target=self._run, name="ingest", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Store what is queued, then end the writer thread; later submissions are refused."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def submit(self, links: Links, *, key: str | None = None, offsets: Offsets | None = None) -> Future[Receipt]:
        """Queue links; the future returns the receipt once they are on disk and visible to the next query.

        The future fails with DataError or QueryError (bad links), KeyConflict, LateLinks, or StorageError; nothing of
        the submission is stored then.

        Args:
            key: An idempotency key: used again with the same links, it returns the first receipt.
            offsets: How far sources have been read with these links; stored with them, so that both or neither survive.

        Raises:
            QueueFull: at once, if the queue is full.
            QueryError: if an argument is invalid, or the submission is larger than the queue.
            StorageError: if nothing can be stored any more.
        """
        check_type(links, "links", Links, "give Links")
        _check_key(key)
        _check_offsets(offsets)
        size = links.num_bytes
        if len(links) > self.max_queue or size > self.max_queue_bytes:
            raise QueryError(
                f"{len(links):,} links of about {size:,} bytes in one submission: give at most {self.max_queue:,} "
                f"links and {self.max_queue_bytes:,} bytes"
            )
        submission = _Submission(links, key, offsets, size, Future())
        with self._changed:
            if self._stopping or self._log.failure:
                raise StorageError(self._log.failure or "the service is stopping: no more links are stored")
            if (
                self.links_queued + len(links) > self.max_queue
                or self.bytes_queued + size > self.max_queue_bytes
                or len(self._queue) >= self.max_queue
            ):
                raise QueueFull(f"{self.links_queued:,} links are waiting to be stored; try again in a second")
            self.links_queued += len(links)
            self.bytes_queued += size
            self._queue.append(submission)
            self._changed.notify_all()
        return submission.future

    def between(self, function: Callable[[], Result]) -> Result:
        """Call a function while no submission is being stored: the log and the history then agree."""
        result: Future[Result] = Future()

        def call() -> None:
            try:
                result.set_result(function())
            except BaseException as error:
                result.set_exception(error)

        with self._changed:
            if running := self._running:
                self._queue.append(call)
                self._changed.notify_all()
        if not running:
            call()
        return result.result()

    # The writer thread.

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._queue and not self._stopping:
                    self._changed.wait(_IDLE)
                if not self._queue and self._stopping:
                    self._running = False
                    return
                group, call = self._take()
            if call is not None:
                call()
            if group:
                self._store(group)
            with suppress(StorageError):  # the log has everything; the catalog is written again later
                self._log.store_if_due()

    def _take(self) -> tuple[list[_Submission], Callable[[], object] | None]:
        """The next submissions to store together, or a function to call between two groups."""
        group: list[_Submission] = []
        links = size = 0
        while self._queue and links < _GROUP_LINKS and size < _GROUP_BYTES:
            if not isinstance(self._queue[0], _Submission):
                return group, None if group else self._queue.popleft()  # type: ignore[return-value]
            submission: _Submission = self._queue.popleft()  # type: ignore[assignment]
            group.append(submission)
            links, size = links + len(submission.links), size + submission.size
        return group, None

    def _store(self, submissions: list[_Submission]) -> None:
        wanted = [submission for submission in submissions if submission.future.set_running_or_notify_cancel()]
        try:
            self._store_wanted(wanted)
        except BaseException as error:
            _logger.exception("links could not be stored")
            problem = StorageError(f"the links could not be stored ({reason(error)})")
            for submission in wanted:
                if not submission.future.done():
                    submission.future.set_exception(problem)
        finally:
            with self._changed:
                self.links_queued -= sum(len(submission.links) for submission in submissions)
                self.bytes_queued -= sum(submission.size for submission in submissions)

    def _store_wanted(self, submissions: list[_Submission]) -> None:
        group = _Group(self._predictor.watermark)
        if not self._check_together(submissions, group):
            for submission in submissions:
                try:
                    self._check(submission, group)
                except Exception as error:
                    submission.future.set_exception(error)
        try:
            self._log.append([each.record for each in group.checked if _is_written(each.record)])
        except StorageError as error:
            for each in group.checked:
                each.submission.future.set_exception(error)
        else:
            self.groups += 1
            self._add(group)
        for submission, first in group.repeats:
            _copy_result(first.future, submission.future)

    def _check_together(self, submissions: list[_Submission], group: _Group) -> bool:
        """Check many submissions in little more time than one, and add them to the group.

        Returns False, without any effect, if some are bad, repeated or late: they must then be checked one by one.
        """
        keys = [submission.key for submission in submissions if submission.key is not None]
        if len(submissions) < 2 or len(set(keys)) < len(keys) or any(self._log.find_key(key) for key in keys):
            return False
        links = Links.join([submission.links for submission in submissions])
        if len(set(map(type, links.t))) > 1:
            return False  # in one array, the floats of one submission would round the integers of another
        try:
            hashes = links.id_hashes()
            if hashes is not None and not self._is_new(hashes, group).all():
                return False
            prepared = self._predictor.prepare(links.src, links.dst, links.t, msg=links.attributes, link_id=hashes)
        except Exception:
            return False
        times = np.empty_like(prepared.t)
        times[prepared.rows] = prepared.t
        ends = np.cumsum([len(submission.links) for submission in submissions])
        parts = np.split(times, ends[:-1])
        if self._refuse_late and self._num_late(parts, group):
            return False
        for submission, part in zip(submissions, parts, strict=True):
            if len(part):
                self._check_times(part, group)
            links, body = submission.links.at(part.tolist()), _body(submission)
            record = Record(links, 0, submission.key, body, submission.offsets)
            group.checked.append(_Checked(submission, record, None))
        group.prepared = prepared
        return True

    def _num_late(self, parts: Sequence[Array], group: _Group) -> int:
        """The number of links that are older than the newest before their submission."""
        late, newest = 0, group.watermark
        for part in parts:
            if len(part):
                late += 0 if newest is None else int((part < newest).sum())
                newest = part.max() if newest is None else max(newest, part.max())
        return late

    def _check(self, submission: _Submission, group: _Group) -> None:
        """Check a submission without any effect; adds it to the group unless its receipt is known."""
        body = _body(submission)
        if submission.key is not None and self._is_repeated(submission, submission.key, body, group):
            return
        links, prepared = submission.links, None
        hashes = links.id_hashes()
        if hashes is not None and not (new := self._is_new(hashes, group)).all():
            links, hashes = links.select(new.tolist()), hashes[new]
        if len(links):
            prepared = self._predictor.prepare(links.src, links.dst, links.t, msg=links.attributes, link_id=hashes)
            times = np.empty_like(prepared.t)
            times[prepared.rows] = prepared.t
            self._check_times(times, group)
            links = links.at(times.tolist())
        if hashes is not None:
            group.ids.update(hashes.tolist())
        if submission.key is not None:
            group.keys[submission.key] = body, submission
        duplicates = len(submission.links) - len(links)
        record = Record(links, duplicates, submission.key, body, submission.offsets)
        group.checked.append(_Checked(submission, record, prepared))

    def _is_repeated(self, submission: _Submission, key: str, body: bytes, group: _Group) -> bool:
        """Whether the key was used before; then the receipt is returned again."""
        if (first := group.keys.get(key)) is not None:
            _check_same(key, first[0], body)
            group.repeats.append((submission, first[1]))
            return True
        if (use := self._log.find_key(key)) is not None:
            _check_same(key, use.body, body)
            submission.future.set_result(use.receipt)
            return True
        return False

    def _is_new(self, hashes: npt.NDArray[np.uint64], group: _Group) -> npt.NDArray[np.bool_]:
        """Which links have no id, or one that no link before them has: [E]."""
        known, seen = self._predictor.knows_link_ids(hashes), set()
        new = np.ones(len(hashes), bool)
        for i, (each, is_known) in enumerate(zip(hashes.tolist(), known.tolist(), strict=True)):
            if each and (is_known or each in group.ids or each in seen):
                new[i] = False
            seen.add(each)
        return new

    def _check_times(self, times: Array, group: _Group) -> None:
        """Refuse late links, or count them."""
        late = 0 if group.watermark is None else int((times < group.watermark).sum())
        if late and self._refuse_late:
            raise LateLinks(
                f"{late:,} of {len(times):,} links are older than the newest link (t = {group.watermark}), the "
                f"earliest at t = {times.min()}: late links are refused here"
            )
        self.late += late
        newest = times.max().item()
        group.watermark = newest if group.watermark is None else max(group.watermark, newest)

    def _add(self, group: _Group) -> None:
        """Add stored links to the history, and acknowledge them."""
        results, added, version = self._append_group(group), [], self._predictor.version
        for each, result in zip(group.checked, results, strict=True):
            if isinstance(result, Exception):
                self._void(each, result)
                continue
            record = each.record
            receipt = Receipt(result.added, record.duplicates + result.skipped, result.nodes_added, version)
            if _is_written(record):
                self._log.settle(record, receipt)
            self.added += receipt.added
            self.duplicates += receipt.duplicates
            each.submission.future.set_result(receipt)
            if len(record.links):
                added.append(record.links)
        self._observe(added)

    def _append_group(self, group: _Group) -> list[Update | Exception]:
        """Add all links to the history; the result of each submission."""
        if group.prepared is not None:
            try:
                return list(
                    self._predictor.append_parts(group.prepared, [len(each.record.links) for each in group.checked])
                )
            except Exception:
                for each in group.checked:
                    each.prepared = self._prepare_again(each.record.links)
        prepared = [each.prepared for each in group.checked if each.prepared is not None]
        results = iter(self._append(prepared))
        return [Update(0, 0, 0) if each.prepared is None else next(results) for each in group.checked]

    def _prepare_again(self, links: Links) -> Events | None:
        if not len(links):
            return None
        hashes = links.id_hashes()
        return self._predictor.prepare(links.src, links.dst, links.t, msg=links.attributes, link_id=hashes)

    def _append(self, prepared: list[Events]) -> list[Update | Exception]:
        """Add batches to the history; if that fails, one by one, so that only bad ones are refused."""
        try:
            return list(self._predictor.append_all(prepared)) if prepared else []
        except Exception as error:
            return [error] if len(prepared) == 1 else [result for one in prepared for result in self._append([one])]

    def _void(self, refused: _Checked, error: Exception) -> None:
        """Record that links in the log were refused, so that a restart does not add them, and fail their submission."""
        _logger.error("record %d was stored but could not be added: %s", refused.record.position, reason(error))
        self._log.append([Record(_NOTHING, void=refused.record.position)])
        problem = f"the links could not be added to the history ({type(error).__name__}: {reason(error)})"
        refused.submission.future.set_exception(error if isinstance(error, CawnError) else StorageError(problem))

    def _observe(self, added: Sequence[Links]) -> None:
        if added and self.observers:
            links = added[0] if len(added) == 1 else Links.join(added)
            for observer in tuple(self.observers):
                try:
                    observer(links)
                except Exception:
                    _logger.exception("an observer of new links failed")


def _body(submission: _Submission) -> bytes:
    """A digest of the links, if there is a key."""
    return (
        b"" if submission.key is None else hashlib.blake2b(Record(submission.links).to_json(), digest_size=16).digest()
    )


def _is_written(record: Record) -> bool:
    return bool(len(record.links) or record.key is not None or record.offsets)


def _check_key(key: str | None) -> None:
    if key is not None and (not isinstance(key, str) or not 0 < len(key) <= MAX_KEY):
        raise QueryError(f"the idempotency key is {brief(key)}: give 1 to {MAX_KEY} characters")


def _check_offsets(offsets: Offsets | None) -> None:
    if offsets is not None:
        for source, value in offsets.items():
            if not isinstance(source, str) or not isinstance(value, Offset) or isinstance(value, bool):
                raise QueryError(f"offsets: {brief(source)} is at {brief(value)}: give text or an integer by source")


def _check_same(key: str, first: bytes, body: bytes) -> None:
    if first != body:
        raise KeyConflict(f"the idempotency key {brief(key)} was used with other links; use a new key")


def _copy_result(source: Future[Receipt], target: Future[Receipt]) -> None:
    if (error := source.exception()) is not None:
        target.set_exception(error)
    else:
        target.set_result(source.result())
