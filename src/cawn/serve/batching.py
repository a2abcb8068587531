"""Scores of concurrent requests, computed together by one thread on one version of the history."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Condition, Thread
from time import monotonic
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cawn.data.times import time_after
from cawn.serve.requests import Pairs, Time
from cawn.serve.writer import QueueFull
from cawn.snapshot import newest_time


class Scored(NamedTuple):
    """Probabilities [B], and the version of the history they were computed from."""

    probability: npt.NDArray[np.float64]
    version: int


class ScoredBatch(NamedTuple):
    """What was scored together, for `MicroBatcher`'s observer."""

    pairs: int
    unknown: int  # pairs with a node that is not in the network
    seconds: float


@dataclass(slots=True)
class _Job:
    pairs: Pairs
    answer: Future[Scored] = field(default_factory=Future)
    arrived: float = field(default_factory=monotonic)
    result: Scored | Exception | None = None


class MicroBatcher:
    """Collects requests for scores and scores them together.

    A batch is scored as soon as the thread is free and the batch has `max_pairs` pairs or its oldest request has waited
    for `max_wait` seconds; requests that arrive in the meantime form the next one. All pairs of a request are in one
    batch, and therefore computed from one version of the history, which includes every link added before the request.

    The probabilities are those of `predictor.score` on the pairs of the batch: for a request that is alone in its
    batch, the same bits; otherwise, the two logits a and b agree to within 1e-4 (1 + |b|).
    """

    def __init__(
        self,
        predictor: Any,
        *,
        max_pairs: int = 1_024,
        max_wait: float = 0.0,
        max_queue: int = 10_000,
        observer: Callable[[ScoredBatch], object] = lambda _: None,
    ) -> None:
        self._predictor, self._observer = predictor, observer
        self._max_pairs, self._max_wait, self._max_queue = max_pairs, max_wait, max_queue
        self._jobs: deque[_Job] = deque()
        self._waiting, self._closed = 0, False
        self._changed = Condition()
        self._thread = Thread(target=self._work, name="score", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """The number of pairs in the queue."""
        return self._waiting

    def submit(self, pairs: Pairs) -> Future[Scored]:
        """Queue pairs; raises `QueueFull`."""
        job = _Job(pairs)
        with self._changed:
            if self._closed:
                raise QueueFull("the server is stopping")
            if self._jobs and self._waiting + len(pairs) > self._max_queue:
                raise QueueFull(f"{self._waiting:,} pairs are waiting to be scored; try again later")
            self._jobs.append(job)
            self._waiting += len(pairs)
            self._changed.notify()
        return job.answer

    def close(self) -> None:
        """Score what is queued, then end the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        while jobs := self._take():
            started = monotonic()
            running = [job for job in jobs if job.answer.set_running_or_notify_cancel()]
            unknown = _score_all(self._predictor.snapshot(), running)
            self._observer(ScoredBatch(sum(len(job.pairs) for job in running), unknown, monotonic() - started))
            for job in running:
                if isinstance(job.result, Scored):
                    job.answer.set_result(job.result)
                else:
                    job.answer.set_exception(job.result)

    def _take(self) -> list[_Job]:
        """The requests of the next batch; none after `close`."""
        with self._changed:
            while not self._jobs and not self._closed:
                self._changed.wait()
            while self._jobs and self._waiting < self._max_pairs and not self._closed:
                left = self._jobs[0].arrived + self._max_wait - monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            taken: list[_Job] = []
            size = 0
            while self._jobs and (not taken or size + len(self._jobs[0].pairs) <= self._max_pairs):
                taken.append(self._jobs.popleft())
                size += len(taken[-1].pairs)
            self._waiting -= size
            return taken


def _score_all(state: Any, jobs: list[_Job]) -> int:
    """Set the result of every request; returns the number of pairs with unknown nodes."""
    groups = defaultdict[Any, list[_Job]](list)
    for job in jobs:
        groups[_kind(job.pairs.t), job.pairs.prior].append(job)
    return sum(_score(state, group) for group in groups.values())


def _score(state: Any, group: list[_Job]) -> int:
    """Score requests with one prior and one type of times together; if that fails, one by one."""
    src = [name for job in group for name in job.pairs.src]
    dst = [name for job in group for name in job.pairs.dst]
    try:
        times = [time for job in group for time in job.pairs.t or _just_now(state, job.pairs)]
        probability = state.score(src, dst, times, prior=group[0].pairs.prior)
        unknown: int = state.count_unknown(src, dst)
    except Exception as error:
        if len(group) > 1:
            return sum(_score(state, [job]) for job in group)
        group[0].result = error
        return 0
    first = 0
    for job in group:
        job.result = Scored(probability[first : first + len(job.pairs)], state.version)
        first += len(job.pairs)
    return unknown


def _just_now(state: Any, pairs: Pairs) -> list[Time]:
    """The default times, just after the newest link."""
    return [time_after(newest_time(state))] * len(pairs) if len(pairs) else []


def _kind(times: list[Time] | None) -> str:
    """Times of one type go into one call: joined with floats, large integers would be rounded."""
    kinds = set(map(type, times or ()))
    return "none" if times is None else "text" if str in kinds else "float" if float in kinds else "int"
