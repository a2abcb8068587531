"""Accuracy on arriving links, measured while the service runs, and drift of the stream.

Evaluation is prequential: every link is predicted from the links before it. This may be done after the link was added,
because a query at time t uses only links strictly before t. A background thread scores a random sample of the arriving
links, each against random earlier destinations, with the model, with the shadow model if there is one, and with the
recency baseline.
"""

from __future__ import annotations

import json
import logging
import math
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from cawn.data.events import Events
from cawn.data.updates import NewLinks
from cawn.learn.calibration import Calibration
from cawn.learn.runs import Record
from cawn.learn.task import Task
from cawn.predictor import LinkPredictor
from cawn.serve.accuracy import NEWS, SCORERS, Recalibrated, Series, reciprocal_ranks
from cawn.serve.evidence import LEVEL, WINDOW, PairedTest
from cawn.serve.recency import NONE, Recency
from cawn.serve.store import LiveStore
from cawn.snapshot import Snapshot
from cawn.systems.base import Scorer

if TYPE_CHECKING:
    from cawn.serve.learning import Learner

Array = npt.NDArray[Any]

CPU_SHARE, CPU_SHARE_LEARNING = 0.2, 0.3  # of one core
NEGATIVES = 20  # random earlier destinations for each scored link
INTERVAL = 1.0  # seconds until a new round, if nothing is left to score
BACKLOG = 60.0  # seconds for which links may wait to be scored, about
ROUND = 0.25  # seconds of scoring in one round, about
FIRST_COST, COST_WEIGHT = 0.002, 0.2  # seconds for each scored link: the first guess, and the weight of a measurement
MAX_QUEUE = 500_000  # links waiting to be scored; further ones are not scored
_log = logging.getLogger(__name__)


class _Links(NamedTuple):
    """Links in the order of time: [n] each."""

    src: Array
    dst: Array
    t: Array

    def where(self, chosen: Any) -> _Links:
        """Only the chosen links."""
        return _Links(*(column[chosen] for column in self))


class Monitor:
    """Measures accuracy and drift on arriving links.

    It also refits the calibration of the predictor on the links it has scored, if the predictor was loaded with
    `recalibrate`. Late links are counted but not scored. All others are scored as long as that keeps up with them; if
    more arrive, a random share is scored, so that none waits for more than about `BACKLOG` seconds.

    Args:
        learner: Trains a shadow model on the links after they were scored.
        store: Where refitted calibrations are stored before they are used; None keeps them in memory alone.
        cpu_share: The most time to spend on scoring and learning, as a share of one core, by default 0.2, or 0.3 with a
            learner. Longer rounds are run less often.
        negatives: The number of earlier destinations that each link is ranked among.
        window: The number of scored links that `summary` is about, and between two tests for the alarm.
        level: The expected number of false alarms per window; see `PairedTest`.
    """

    def __init__(
        self,
        predictor: LinkPredictor,
        learner: Learner | None = None,
        *,
        store: LiveStore | None = None,
        cpu_share: float | None = None,
        negatives: int = NEGATIVES,
        window: int = WINDOW,
        level: float = LEVEL,
        seed: int = 0,
    ) -> None:
        self._predictor, self._learner, self._store = predictor, learner, store
        self._cost = FIRST_COST  # seconds for each scored link
        self._cpu_share = cpu_share or (CPU_SHARE if learner is None else CPU_SHARE_LEARNING)
        self._negatives, self.window = negatives, window
        snapshot = predictor.snapshot()
        record = snapshot.model.record
        self._reference = {"ece": _tested_ece(record)}
        self._start: Events | None = snapshot.events  # which the baseline starts from
        self._tested = _test_period(record, snapshot.events)
        self._random = np.random.default_rng(seed)
        self._recency: Recency
        self._calibrated = {"model": Recalibrated(snapshot.calibration.steps[-1]), "baseline": Recalibrated()}
        self._test = PairedTest(window, level)
        self._queue: deque[NewLinks] = deque()
        self._queued = self._arrived = self._scored = self._late = self._dropped = 0
        self._series = Series(window)
        self._alarm: tuple[str, str] | None = None  # its text, and since when
        self._lock = Lock()  # guards what other threads read or write; held briefly
        self._working = Lock()  # one round at a time
        self._stopping, self._thread = Event(), Thread(target=self._run, name="cawn-monitor", daemon=True)

    # For the service

    def start(self) -> None:
        """Start the background thread."""
        self._thread.start()

    def stop(self) -> None:
        """End the background thread after the current round; links that are still queued are not scored."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def observe(self, links: NewLinks) -> None:
        """Queue links that were added to the predictor."""
        with self._lock:
            self._arrived += len(links)
            self._queued += len(links)
            self._queue.append(links)
            if self._queued > MAX_QUEUE:
                self._drop_queue()

    def _drop_queue(self) -> None:
        """Leave out the queued links; the baseline starts again from the history."""
        self._dropped += self._queued
        self._queued, self._start = 0, self._predictor.snapshot().events
        self._queue.clear()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Nothing is scored in this context, in which links may be removed from the predictor."""
        with self._working:
            yield
            with self._lock:
                self._drop_queue()

    def summary(self) -> dict[str, Any]:
        """Accuracy over the last `window` scored links, as JSON values; None for what is not known yet.

        "model", "shadow" and "baseline" have "mrr", "log_loss" (each scorer recalibrated on the links before) and,
        except for the baseline, "ece", with standard errors. "share" is the share of links that were scored;
        "new_nodes" and "new_pairs" are the shares of links with a node that had no earlier link, and between nodes that
        had not linked before. "drift" has these shares and the calibration error in the test period of the run, and
        their change since.
        """
        with self._lock:
            newest = self._series.newest()
            found = newest.to_dict()
            text, since = self._alarm or (None, None)
            return {
                "arrived": self._arrived,
                "scored": self._scored,
                "share": self._scored / self._arrived if self._arrived else None,
                "late": self._late,
                "dropped": self._dropped,
                "window": {"links": self.window, "scored": newest.links, "negatives": self._negatives},
                **{name: found[name] for name in (*SCORERS, *NEWS)},
                "drift": self._drift(found),
                "alarm": text,
                "alarm_since": since,
            }

    def series(self) -> list[dict[str, Any]]:
        """Accuracy over time, oldest first: at most about 500 points, each over the same number of scored links.

        A point has "links" and "t" (links arrived by its end, and the time of the last), "scored" and, like `summary`,
        "model", "shadow", "baseline", "new_nodes" and "new_pairs".
        """
        with self._lock:
            return self._series.to_list()

    def gauges(self) -> dict[str, float]:
        """The numbers of `summary` that are known, by name, such as "model_mrr"; "alarm" is 0 or 1."""
        found = self.summary()
        values = {f"{s}_{name}": value for s in SCORERS for name, value in (found[s] or {}).items()}
        values |= {name: found[name] for name in (*NEWS, "share", "late", "dropped")}
        values["alarm"] = found["alarm"] is not None
        return {name: float(value) for name, value in values.items() if value is not None}

    def _drift(self, found: dict[str, Any]) -> dict[str, dict[str, float]]:
        """How shares and calibration error differ from the test period, where both are known."""
        now = {name: found[name] for name in NEWS} | {"ece": (found["model"] or {}).get("ece")}
        both = {name: (self._reference.get(name), value) for name, value in now.items()}
        return {
            name: {"test": test, "now": value, "change": value - test}
            for name, (test, value) in both.items()
            if test is not None and value is not None
        }

    # In the background

    def _run(self) -> None:
        torch.set_num_threads(1)  # of this thread
        pause = INTERVAL
        while not self._stopping.wait(pause):
            start = time.perf_counter()
            try:
                self.process()
            except Exception:  # an error on some links must not end the monitoring
                _log.exception("some links could not be scored")
                with self._lock:
                    self._drop_queue()
            busy = time.perf_counter() - start
            pause = max(0.0 if self._queue else INTERVAL - busy, busy * (1 / self._cpu_share - 1))

    def process(self) -> int:
        """Score the links that have waited longest, then learn from them; returns the number of links scored."""
        with self._working:
            with self._lock:
                share = min(1.0, BACKLOG * self._cpu_share / self._cost / max(self._queued, 1))
                taken = self._take(max(int(ROUND / self._cost / share), 1))
                start, self._start = self._start, None
            if start is not None:
                self._begin(start)
            if not taken:
                return 0
            links = self._in_order(taken)
            late = links.t < self._recency.newest
            self._recency.add(*links)
            self._late += int(late.sum())
            links, snapshot = links.where(~late), self._predictor.snapshot()
            if len(links.t) == 0:
                return 0
            began = time.perf_counter()
            scored = self._score(snapshot, links, share)
            self._cost += COST_WEIGHT * ((time.perf_counter() - began) / max(scored, 1) - self._cost)
            if self._learner is not None:
                self._learner.learn(snapshot, self._recency)
            return scored

    def _take(self, most: int) -> list[NewLinks]:
        """The oldest groups of queued links: `most` links, or one group more."""
        taken, size = list[NewLinks](), 0
        while self._queue and size < most:
            taken.append(self._queue.popleft())
            size += len(taken[-1])
        self._queued -= size
        return taken

    def _begin(self, events: Events) -> None:
        """Bring the baseline up to the first observed link."""
        every, tested = _Links(events.src, events.dst, events.t), self._tested
        self._recency, self._tested = Recency(*every), slice(0)
        if len(events.t[tested]):
            news = self._recency.news(self._predictor.snapshot(), *every.where(tested)).mean(axis=0)
            with self._lock:
                self._reference |= dict(zip(NEWS, news.tolist(), strict=True))

    def _in_order(self, taken: list[NewLinks]) -> _Links:
        columns = _Links(*(np.concatenate([getattr(links, name) for links in taken]) for name in _Links._fields))
        return columns.where(np.argsort(columns.t, kind="stable"))

    def _score(self, snapshot: Snapshot, links: _Links, share: float) -> int:
        """Score a random share of links; returns their number."""
        n = len(links.t)
        sample = np.sort(self._random.choice(n, math.ceil(n * share), replace=False))
        uniform = self._random.random((len(sample), self._negatives))
        negatives = self._recency.negatives(links.dst[sample], links.t[sample], uniform)
        usable = (negatives != NONE).all(axis=1)  # else there is no other destination yet
        sample, negatives = sample[usable], negatives[usable]
        values, probability = self._values(snapshot, links.where(sample), negatives)
        news = self._recency.news(snapshot, *links)
        with self._lock:
            self._scored += len(sample)
            self._series.add(values, probability, sample, news, links.t)
        self._check_alarm(values[:, 2, 0] - values[:, 0, 0])
        if self._learner is not None and self._learner.judge(values[:, 0] - values[:, 1]):
            self._calibrated["model"] = Recalibrated(self._learner.calibrated.calibration)
        return len(sample)

    def _recalibrate(self, calibration: Calibration, t: Any) -> None:
        """Use a calibration fitted on links up to time t, once it is stored."""
        fitted = self._predictor.calibration.then(calibration, t)
        if self._store is not None:
            self._store.set_facts(calibration=json.dumps(fitted.to_dict()))
        self._predictor.recalibrate(calibration, t)

    def _values(self, snapshot: Snapshot, links: _Links, negatives: Array) -> tuple[Array, Array]:
        """Reciprocal ranks and log losses [m, 3, 2]; probabilities by the model and the shadow [m, 2, 1 + K]."""
        shape = m, width = len(links.t), 1 + self._negatives
        src, t = np.repeat(links.src, width), np.repeat(links.t, width)
        dst = np.concatenate([links.dst[:, None], negatives], axis=1).ravel()
        scorers: dict[str, Scorer] = {"model": snapshot.scorer}
        scorers["baseline"] = partial(self._recency.scores, snapshot)
        calibrated, held = dict(self._calibrated), self._calibrated["model"].calibration
        if self._learner is not None:
            scorers["shadow"], calibrated["shadow"] = self._learner.scorer(snapshot), self._learner.calibrated
        logits = {name: scorer(src, dst, t).reshape(shape) for name, scorer in scorers.items()}
        values, probability = np.full((m, 3, 2), np.nan), np.full((m, 2, width), np.nan)
        probability[:, 0] = snapshot.calibration.probability(logits["model"].T, links.t).T
        if "shadow" in logits:
            probability[:, 1] = calibrated["shadow"].probability(logits["shadow"])
        for name, found in logits.items():
            values[:, SCORERS.index(name)] = np.stack([reciprocal_ranks(found), calibrated[name].log_losses(found)], 1)
        fitted = calibrated["model"].calibration
        if fitted is not None and fitted is not held and self._predictor.recalibrates:
            self._recalibrate(fitted, links.t[-1].item())
        return values, probability

    def _check_alarm(self, differences: Array) -> None:
        """Raise the alarm if the baseline ranks better; clear it once the model ranks better over a whole window.

        Args:
            differences: Reciprocal ranks by the baseline, less those by the model.
        """
        verdict = self._test.add(differences)
        if verdict is not None and verdict.means[0] > 0:
            if self._alarm is not None:
                return
            text = (
                f"the recency baseline ranks better than the model: its MRR was higher by {verdict.means[0]:.3f} "
                f"± {verdict.error:.3f} over {verdict.links:,} links; train again, or serve with --learn"
            )
            with self._lock:
                self._alarm = text, datetime.now(UTC).isoformat(timespec="seconds")
            _log.warning("%s", text)
        elif self._alarm is not None and self._test.newest_mean() < 0:
            with self._lock:
                self._alarm = None
            _log.info("the model ranks better than the recency baseline again")


def _test_period(record: Record | None, events: Events) -> slice:
    """The positions of the test links of a run; none if they are not known."""
    if record is None or not 0 < record.description.get("links", 0) <= len(events):
        return slice(0)
    last = int(record.description["links"])
    task = Task.recorded(record.description)
    return slice(int(np.searchsorted(task.split.periods(events[:last]), 2)), last)


def _tested_ece(record: Record | None) -> float | None:
    """The calibration error on the test links of a run against random negatives, refitted as in the service."""
    for row in record.results.tests if record is not None and record.results is not None else ():
        if "rolling" in row.get("reliability", {}):
            return float(row["reliability"]["rolling"]["ece"])
    return None
