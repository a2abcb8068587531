"""Metrics in Prometheus' format, in a separate registry, and latencies for the status."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from time import monotonic
from typing import Any, NamedTuple

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from cawn.serve.batching import Batch

MEDIA_TYPE = "text/plain; version=0.0.4; charset=utf-8"
RECENT = 1_000  # newest requests of a route, over which its quantiles are computed
WINDOW = 10.0  # seconds for rates
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
_PAIRS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)


class Reading(NamedTuple):
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


class Metrics:
    """Counters and histograms that the server adds to, and gauges that are read when requested."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.links_rate = Rate()
        self._latencies: dict[str, deque[float]] = {}
        self._children: dict[tuple[str, int], tuple[Any, Any]] = {}
        self._seconds = Histogram(
            "cawn_request_seconds",
            "Time from the first byte of a request to the end of its answer.",
            ["route"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._requests = self._counter("cawn_requests", "Requests by route and status.", ["route", "status"])
        self._pairs = self._counter("cawn_pairs_scored", "Pairs scored.")
        self._unknown = self._counter("cawn_pairs_unknown", "Pairs scored with a node that is not in the network.")
        self._batch_pairs = Histogram(
            "cawn_batch_pairs", "Pairs scored together.", buckets=_PAIRS, registry=self.registry
        )
        self._batch_seconds = Histogram(
            "cawn_batch_seconds", "Time to score a batch.", buckets=_SECONDS, registry=self.registry
        )

    def _counter(self, name: str, help_text: str, labels: Iterable[str] = ()) -> Counter:
        return Counter(name, help_text, labels, registry=self.registry)

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count a request; `route` is a template such as /v1/nodes/{name}, so that there are few."""
        children = self._children.get((route, status))
        if children is None:
            children = self._seconds.labels(route), self._requests.labels(route, str(status))
            self._children[route, status] = children
            self._latencies.setdefault(route, deque(maxlen=RECENT))
        children[0].observe(seconds)
        children[1].inc()
        self._latencies[route].append(seconds)

    def batch(self, batch: Batch) -> None:
        self._pairs.inc(batch.pairs)
        self._unknown.inc(batch.unknown)
        self._batch_pairs.observe(batch.pairs)
        self._batch_seconds.observe(batch.seconds)

    def latency(self) -> dict[str, dict[str, float]]:
        """Quantiles in seconds over the last requests of each route, by its path after /v1/."""
        found = {}
        for route, recent in list(self._latencies.items()):
            seconds = np.array(tuple(recent))
            p50, p99 = np.quantile(seconds, [0.5, 0.99]).tolist() if len(seconds) else (0.0, 0.0)
            found[route.removeprefix("/v1/")] = {"p50": p50, "p99": p99, "count": len(seconds)}
        return found

    def watch(self, read: Callable[[], Iterable[Reading]]) -> None:
        """Include these values, read whenever the metrics are requested."""
        self.registry.register(_Readings(read))

    def to_text(self) -> bytes:
        return generate_latest(self.registry)


class _Readings(Collector):
    def __init__(self, read: Callable[[], Iterable[Reading]]) -> None:
        self._read = read

    def describe(self) -> Iterable[Metric]:
        return []  # known only once the service has started

    def collect(self) -> Iterable[Metric]:
        families: dict[str, GaugeMetricFamily | CounterMetricFamily] = {}
        for reading in self._read():
            if reading.name not in families:
                kind = CounterMetricFamily if reading.counter else GaugeMetricFamily
                families[reading.name] = kind(reading.name, reading.help, labels=list(reading.labels))
            families[reading.name].add_metric(list(reading.labels.values()), reading.value)
        return families.values()
