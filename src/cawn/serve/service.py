"""Service: a predictor that answers queries while links arrive. Everything but HTTP."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import BoundedSemaphore, Lock
from typing import TYPE_CHECKING, Any, NamedTuple, ParamSpec, TypeVar

from cawn.data.hashing import digest
from cawn.data.names import Name, Names
from cawn.data.times import PER_SECOND, time_after
from cawn.data.updates import NewLinks
from cawn.errors import QueryError
from cawn.learn.runs import forget_node
from cawn.rankings import Ranked
from cawn.serve.batching import MicroBatcher, Scored
from cawn.serve.importer import remove_former
from cawn.serve.learning import Learner
from cawn.serve.links import SubmittedLinks
from cawn.serve.metrics import MetricReading, Metrics
from cawn.serve.monitor import Monitor
from cawn.serve.problems import Problem
from cawn.serve.requests import ExplainQuery, Pairs, RankQuery, Time
from cawn.serve.retention import Keeper, Retention
from cawn.serve.sources.entries import RejectedEntries
from cawn.serve.sources.pump import Pumps
from cawn.serve.state import LiveState, Progress, open_state
from cawn.serve.store import Receipt
from cawn.serve.weights import KeptWeights
from cawn.serve.writer import Late, QueueFull, Writer
from cawn.snapshot import newest_time
from cawn.systems.compiling import compile_growth
from cawn.systems.indexed import IndexedSystem

if TYPE_CHECKING:
    from cawn.explain.explanation import Explanation

P = ParamSpec("P")
T = TypeVar("T")

NEWEST = 100  # links kept to be shown as the newest
RECENT_OF_NODE = 20
SLOW_THREADS = 2  # for rankings and explanations
SLOW_QUEUE = 64  # of them, running and waiting
MOST_BEHIND = 10.0  # seconds since a replica that is ready had all entries of its stream
WARM_UP_PAIRS = 100  # enough to be scored by several threads
_OF_SOURCES = {
    "connected": ("cawn_source_connected", "Whether a stream is read."),
    "rejected": ("cawn_source_rejected", "Entries that are not links."),
    "lag": ("cawn_source_lag", "Entries of a stream that are not read yet."),
    "behind": ("cawn_source_behind_seconds", "Time since all entries of a stream were read."),
}


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """What to serve and how.

    Args:
        run: The run folder.
        state: The folder of the store; RUN/live by default.
        late: What to do with links older than the newest: "insert" or "refuse".
        batch_pairs: The most pairs that are scored together.
        batch_wait: Seconds for which a request waits for others to be scored with.
        queue: The most links that wait to be stored.
        score_queue: The most pairs that wait to be scored.
        max_ahead: How far ahead links may be; see `LinkPredictor.load`.
        retain: Which links are kept, such as "90d"; all by default (see `Retention`).
        sources: URLs of streams to read.
        replica: Whether the history is that of one stream alone, so that all replicas on it give the same answers.
        learn: Whether a shadow model is trained on the links that arrive.
        weights: The number of the kept weights to serve (see `weights.py`); those served last by default.
    """

    run: Path
    state: Path | None = None
    device: str = "auto"
    threads: int | None = None
    late: Late = "insert"
    batch_pairs: int = 1_024
    batch_wait: float = 0.0
    queue: int = 100_000
    score_queue: int = 10_000
    max_ahead: float | None = None
    retain: str | None = None
    sources: tuple[str, ...] = ()
    replica: bool = False
    learn: bool = False
    weights: int | None = None


class RankAnswer(NamedTuple):
    """A ranking, the time it is for, and the version of the history."""

    t: Time
    ranking: list[Ranked]
    version: int


class ServiceStopped(Exception):  # noqa: N818
    """The service was stopped while it loaded links."""


class Service:
    """Owns the predictor and the threads that write, score and learn. Methods may be called from any thread.

    `start` returns once the service is ready; before that, and after `stop`, requests raise `Problem` (503).
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self.settings, self.metrics = settings, Metrics()
        self.name = settings.run.absolute().name
        self._phase, self._loaded = "starting", (0, 0)
        self._state: LiveState | None = None
        self.predictor: Any = None
        self._model: tuple[Any, str] = (None, "")
        self._slow = ThreadPoolExecutor(SLOW_THREADS, "slow")
        self._slots = BoundedSemaphore(SLOW_QUEUE)
        self._newest: deque[tuple[Name, Name, int | float]] = deque(maxlen=NEWEST)
        self._last_arrival: float | None = None
        self._stopping = Lock()
        self.metrics.watch(self._read)

    def start(self, progress: Progress | None = None) -> None:
        """Recover the state and start the threads; raises `Stopped` if `refuse` is called in the meantime."""

        def report(done: int, total: int) -> None:
            if self._phase == "stopping":
                raise ServiceStopped
            self._loaded = (done, total)
            if progress is not None:
                progress(done, total)

        given = self.settings
        if given.replica and (given.learn or given.retain is not None or given.weights is not None):
            raise QueryError("--replica: replicas give the same answers: leave out --learn, --retain and --weights")
        state = open_state(
            given.run,
            given.state,
            device=given.device,
            threads=given.threads,
            replica=given.replica,
            progress=report,
        )
        try:
            self._start(state)
        except BaseException:
            state.store.close()
            raise
        if self._phase == "starting":
            self._phase = "ready"

    def _start(self, state: LiveState) -> None:
        given, (predictor, store) = self.settings, state
        KeptWeights(store).serve(predictor, given.weights)
        self.predictor = predictor
        self.learner = Learner(predictor, store) if given.learn else None
        self.monitor = Monitor(predictor, self.learner, store=store)
        self.writer = Writer(predictor, store, late=given.late, max_ahead=given.max_ahead, max_queue=given.queue)
        self.writer.observers += [self._observe, self.monitor.observe]
        self.pumps = Pumps(given.sources, store.offsets.get, self.writer.submit, store.folder, replica=given.replica)
        self.batcher = MicroBatcher(
            predictor,
            max_pairs=given.batch_pairs,
            max_wait=given.batch_wait,
            max_queue=given.score_queue,
            observer=self.metrics.batch,
        )
        self.keeper = None if given.retain is None else Keeper(Retention.parse(given.retain), predictor, self._remove)
        if self.keeper is not None:
            self.keeper.start()
        self._warm_up()
        self.writer.start()
        self.monitor.start()
        self.pumps.start()
        self._state = state

    def _warm_up(self) -> None:
        """Make the index ready to grow and score the newest links, so that no request has to wait for compilation or
        loading."""
        state = self.predictor.snapshot()
        if len(state.events) and isinstance(state.model.system, IndexedSystem):
            compile_growth(state.model.system, state.events, state.names)
        self.predictor.publish(self.predictor.extend([]))
        for size in (1, WARM_UP_PAIRS) if len(state.events) else ():
            ends = (state.events.src[-size:], state.events.dst[-size:])
            src, dst = ([state.name(node) for node in nodes.tolist()] for nodes in ends)
            self.predictor.score(src, dst, time_after(newest_time(self.predictor)))

    def refuse(self) -> None:
        """Refuse requests from now on."""
        self._phase = "stopping"

    def stop(self) -> None:
        """Answer what is queued and close the store."""
        self.refuse()
        with self._stopping:
            if self._state is None:
                return
            if self.keeper is not None:
                self.keeper.stop()
            self.pumps.stop()
            self.writer.stop()
            self._slow.shutdown()
            self.batcher.close()
            self.monitor.stop()
            if self.learner is not None:
                self.learner.save()
            self._state.store.close()
            self._state = None

    @property
    def ready(self) -> bool:
        return self._phase == "ready"

    def require_ready(self) -> None:
        """Raise `Problem` unless the service is ready."""
        if self._phase == "starting":
            done, total = self._loaded
            raise Problem("unavailable", f"the links are being loaded ({done:,} of {total:,})")
        if self._phase == "stopping":
            raise Problem("unavailable", "the server is stopping")

    def progress(self) -> dict[str, Any]:
        """How far each stream is behind, and whether requests are answered: by a replica that is not."""
        self.require_ready()
        sources = self.pumps.states()
        late = [each for each in sources if each["behind"] is None or each["behind"] > MOST_BEHIND]
        return {"ready": not (late and self.settings.replica), "sources": sources}

    def require_caught_up(self) -> None:
        """Raise `Problem` unless requests are answered, by a replica with all links of its stream."""
        found = self.progress()
        if not found["ready"]:
            lag = found["sources"][0]["lag"]
            left = "entries" if lag is None else f"{lag:,} entries"
            raise Problem("unavailable", f"this replica has {left} of its stream still to read; see /ready")

    # Requests

    def add(self, links: SubmittedLinks, key: str | None = None) -> Future[Receipt]:
        """Store links; the future returns the receipt once they are on disk and visible to queries."""
        self._require_writable()
        return self.writer.submit(links, key=key)

    def forget(self, name: Name) -> Future[int]:
        """Remove a node with all its links, from the state and from the run folder; returns the number of links."""
        self._require_writable()
        return self._slowly(self._forget, name)

    def remove(self, link_id: Names) -> Future[int]:
        """Remove the links with these ids; returns their number."""
        self._require_writable()
        return self._slowly(lambda: self._remove(link_id=link_id))

    def _require_writable(self) -> None:
        self.require_ready()
        if self.settings.replica:
            raise Problem("replica", "this server is a replica, whose links are those of its stream: add links there")

    def score(self, pairs: Pairs) -> Future[Scored]:
        self.require_ready()
        return self.batcher.submit(pairs)

    def rank(self, query: RankQuery) -> Future[RankAnswer]:
        return self._slowly(self._rank, query)

    def explain(self, query: ExplainQuery, *, as_page: bool = False) -> Future[dict[str, Any] | str]:
        """The explanation and what pages show of it as JSON values, or as an HTML page."""
        return self._slowly(self._explain, query, as_page)

    def node(self, name: Name) -> Future[dict[str, Any]]:
        return self._slowly(self._node, name)

    def newest(self, limit: int = NEWEST) -> Future[list[dict[str, Any]]]:
        """The links that arrived last, newest first, each with its score from the links before it."""
        return self._slowly(self._scored_newest, limit)

    def _slowly(self, answer: Callable[P, T], *args: P.args, **options: P.kwargs) -> Future[T]:
        """Answer in one of a few threads; raises `QueueFull`."""
        self.require_ready()
        if not self._slots.acquire(blocking=False):
            raise QueueFull(f"{SLOW_QUEUE:,} rankings and explanations are waiting; try again later")
        future = self._slow.submit(answer, *args, **options)
        future.add_done_callback(lambda _: self._slots.release())
        return future

    def _remove(self, **chosen: Any) -> int:
        with self.monitor.paused():
            removed = self.writer.remove(**chosen)
            self._newest.clear()
        return removed

    def _forget(self, name: Name) -> int:
        """Remove a node everywhere; again, if it was interrupted. QueryError if it is nowhere."""
        assert self._state is not None
        folder, removed, in_run = self._state.store.folder, 0, True
        RejectedEntries(folder).forget(name)
        remove_former(folder)
        try:
            forget_node(self.settings.run, name)
        except QueryError:
            in_run = False
        try:
            removed = self._remove(name=name)
        except QueryError:
            if not in_run:
                raise
        return removed

    def _rank(self, query: RankQuery) -> RankAnswer:
        state = self.predictor.snapshot()
        t = time_after(newest_time(state)) if query.t is None else query.t
        found = state.rank(query.src, t, query.k, candidates=query.candidates, kinds=query.kinds, prior=query.prior)
        return RankAnswer(t, found, state.version)

    def _explain(self, query: ExplainQuery, as_page: bool) -> dict[str, Any] | str:
        state = self.predictor.snapshot()
        t = time_after(newest_time(state)) if query.t is None else query.t
        found: Explanation = state.explain(query.src, query.dst, t, prior=query.prior)
        return found.to_html() if as_page else found.to_dict() | {"view": asdict(found.view())}

    def _scored_newest(self, limit: int) -> list[dict[str, Any]]:
        links = list(self._newest)[::-1][:limit]
        src, dst = [link[0] for link in links], [link[1] for link in links]
        found = self.batcher.submit(Pairs(src, dst, [link[2] for link in links])).result() if links else None
        probability = [] if found is None else found.probability.tolist()
        return [
            {"src": u, "dst": v, "t": now, "probability": each}
            for (u, v, now), each in zip(links, probability, strict=True)
        ]

    # Observation

    def _observe(self, links: NewLinks) -> None:
        self._last_arrival = time.monotonic()
        self.metrics.links_rate.add(len(links))
        name, last = self.predictor.snapshot().name, slice(-NEWEST, None)
        for src, dst, t in zip(links.src[last].tolist(), links.dst[last].tolist(), links.t[last].tolist(), strict=True):
            self._newest.append((name(src), name(dst), t))

    def _node(self, name: Name) -> dict[str, Any]:
        found = self.predictor.node(name, RECENT_OF_NODE)
        recent = [{"src": src, "dst": dst, "t": t} for src, dst, t in found.recent]
        return {"name": name, **found._asdict(), "recent": recent}

    def series(self) -> dict[str, Any]:
        """Accuracy on arriving links over time."""
        return {"points": self.monitor.series()}

    @property
    def model_version(self) -> str:
        """A digest of the weights that are served."""
        model = self.predictor.snapshot().model
        if self._model[0] is not model:
            self._model = model, digest(*model.weights().values())
        return self._model[1]

    def status(self) -> dict[str, Any]:
        """The state of the service; most of it is null until it is ready."""
        given = self.settings
        found: dict[str, Any] = dict.fromkeys(
            ("links", "nodes", "version", "watermark", "unit", "accuracy", "learning")
        )
        found |= {
            "ready": self.ready,
            "phase": self._phase,
            "model": {"name": self.name, "version": None},
            "links_per_second": self.metrics.links_rate.per_second(),
            "latency": self.metrics.latency(),
            "queue": {"size": 0, "capacity": given.score_queue, "links": 0},
            "late": {"policy": given.late, "links": 0},
            "sources": [],
            "loaded": dict(zip(("links", "of"), self._loaded, strict=True)),
        }
        return found if self._state is None else found | self._live_status(found["queue"])

    def _live_status(self, queue: dict[str, Any]) -> dict[str, Any]:
        reading, learner = self.predictor.reading, self.learner
        return {
            "links": self.predictor.num_links,
            "nodes": self.predictor.num_nodes,
            "version": self.predictor.version,
            "watermark": self.predictor.watermark,
            "unit": reading.unit if reading.dates else None,
            "model": {"name": self.name, "version": self.model_version},
            "queue": queue | {"size": self.batcher.waiting, "links": self.writer.links_queued},
            "accuracy": self.monitor.summary(),
            "learning": {"enabled": learner is not None} | ({} if learner is None else learner.summary()),
            "sources": self.pumps.states(),
            "late": {"policy": self.settings.late, "links": self.writer.late},
        }

    def _read(self) -> Iterator[MetricReading]:
        """Values for /metrics."""
        yield MetricReading("cawn_ready", "Whether requests are answered.", float(self.ready))
        if self._state is None:
            return
        predictor, writer, store = self.predictor, self.writer, self._state.store
        yield from (
            MetricReading("cawn_links", "Links in the history.", predictor.num_links),
            MetricReading("cawn_nodes", "Nodes in the network.", predictor.num_nodes),
            MetricReading("cawn_history_version", "Version of the history.", predictor.version),
            MetricReading("cawn_model_info", "The model.", 1, {"name": self.name, "version": self.model_version}),
            MetricReading("cawn_links_added", "Links added since the start.", writer.added, counter=True),
            MetricReading("cawn_links_duplicate", "Links whose id was known.", writer.duplicates, counter=True),
            MetricReading("cawn_links_late", "Links older than the newest one.", writer.late, counter=True),
            MetricReading("cawn_commits", "Group commits of the store.", writer.groups, counter=True),
            MetricReading("cawn_queue_links", "Links waiting to be stored.", writer.links_queued),
            MetricReading("cawn_queue_pairs", "Pairs waiting to be scored.", self.batcher.waiting),
            MetricReading("cawn_store_bytes", "Size of the store.", store.num_bytes),
        )
        yield MetricReading(
            "cawn_store_sync_seconds", "Time spent syncing the store.", store.sync_seconds, counter=True
        )
        if predictor.watermark is not None:
            yield MetricReading("cawn_watermark", "Time of the newest link, in the data's unit.", predictor.watermark)
            if predictor.reading.dates:
                newest = predictor.watermark / PER_SECOND[predictor.reading.unit]
                yield MetricReading("cawn_watermark_lag_seconds", "Age of the newest link.", time.time() - newest)
        if self._last_arrival is not None:
            since = time.monotonic() - self._last_arrival
            yield MetricReading("cawn_seconds_since_links", "Time since links were last added.", since)
        for name, value in self.monitor.gauges().items():
            yield MetricReading(f"cawn_prequential_{name}", "Accuracy and drift on arriving links.", value)
        for source in self.pumps.states():
            for name, (metric, what) in _OF_SOURCES.items():
                if source[name] is not None:
                    labels, grows = {"source": source["name"]}, name == "rejected"
                    yield MetricReading(metric, what, float(source[name]), labels, counter=grows)
