"""Metrics in Prometheus' format, in a separate registry, and latencies for the status."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping
from time import monotonic
from typing import NamedTuple

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from cawn.serve.batching import ScoredBatch

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
RECENT = 1_000  # newest requests of a route, over which its quantiles are computed
WINDOW = 10.0  # seconds for rates
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_PAIRS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)


class MetricReading(NamedTuple):
    """A value that is read when the metrics are requested: a gauge or, if it only grows, a counter."""

    name: str
    help: str
    value: float
    labels: Mapping[str, str] = {}
    counter: bool = False


class Rate:
    """Events per second over the last `WINDOW` seconds."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock, self._started = clock, clock()
        self._counts: deque[tuple[float, int]] = deque()

    def add(self, count: int) -> None:
        now = self._clock()
        self._counts.append((now, count))
        while self._counts and self._counts[0][0] < now - WINDOW:
            self._counts.popleft()

    def per_second(self) -> float:
        now = self._clock()
        recent = sum(count for at, count in tuple(self._counts) if at >= now - WINDOW)
        return recent / max(min(WINDOW, now - self._started), 1.0)


class Metrics(Collector):
    """Counters and histograms that the server adds to, and values that are read when requested (`watch`)."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self.links_rate = Rate()
        self._latencies: defaultdict[str, deque[float]] = defaultdict(lambda: deque(maxlen=RECENT))
        what = "Time from the first byte of a request to the end of its answer."
        self._seconds = Histogram("cawn_request_seconds", what, ["route"], buckets=_SECONDS, registry=registry)
        what = "Requests by route and status."
        self._requests = Counter("cawn_requests", what, ["route", "status"], registry=registry)
        self._pairs = Counter("cawn_pairs_scored", "Pairs scored.", registry=registry)
        what = "Pairs scored with a node that is not in the network."
        self._unknown = Counter("cawn_pairs_unknown", what, registry=registry)
        what = "Pairs scored together."
        self._batch_pairs = Histogram("cawn_batch_pairs", what, buckets=_PAIRS, registry=registry)
        what = "Time to score a batch."
        self._batch_seconds = Histogram("cawn_batch_seconds", what, buckets=_SECONDS, registry=registry)

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count a request; `route` is a template such as /v1/nodes/{name}, so that there are few."""
        self._seconds.labels(route).observe(seconds)
        self._requests.labels(route, status).inc()
        self._latencies[route].append(seconds)

    def batch(self, batch: ScoredBatch) -> None:
        self._pairs.inc(batch.pairs)
        self._unknown.inc(batch.unknown)
        self._batch_pairs.observe(batch.pairs)
        self._batch_seconds.observe(batch.seconds)

    def latency(self) -> dict[str, dict[str, float]]:
        """Quantiles in seconds over the last requests of each route, by its path after /v1/."""
        found = {}
        for route, recent in list(self._latencies.items()):
            p50, p99 = np.quantile(list(recent), [0.5, 0.99]).tolist()
            found[route.removeprefix("/v1/")] = {"p50": p50, "p99": p99, "count": len(recent)}
        return found

    def watch(self, read: Callable[[], Iterable[MetricReading]]) -> None:
        """Include these values, read whenever the metrics are requested."""
        self._read = read
        self._registry.register(self)

    def to_text(self) -> bytes:
        return generate_latest(self._registry)

    def describe(self) -> Iterable[Metric]:
        return []  # known only once the service has started

    def collect(self) -> Iterable[Metric]:
        families: dict[str, GaugeMetricFamily | CounterMetricFamily] = {}
        for reading in self._read():
            kind = CounterMetricFamily if reading.counter else GaugeMetricFamily
            family = families.setdefault(reading.name, kind(reading.name, reading.help, labels=list(reading.labels)))
            family.add_metric(list(reading.labels.values()), reading.value)
        return families.values()
