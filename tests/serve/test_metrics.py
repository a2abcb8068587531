import pytest

from cawn.serve.batching import ScoredBatch
from cawn.serve.metrics import MetricReading, Metrics, Rate


def test_the_format_of_prometheus() -> None:
    metrics = Metrics()
    readings = [
        MetricReading("cawn_links", "Links.", 7),
        MetricReading("cawn_lag", "Lag.", 1, {"source": "a"}),
        MetricReading("cawn_lag", "Lag.", 2, {"source": 'b"'}),
        MetricReading("cawn_added", "Added.", 5, counter=True),
    ]
    metrics.watch(lambda: readings)
    metrics.request("/v1/score", 200, 0.003)
    metrics.request("/v1/score", 422, 0.004)
    metrics.batch(ScoredBatch(5, 1, 0.002))
    lines = metrics.to_text().decode().splitlines()
    for line in (
        'cawn_request_seconds_bucket{le="0.005",route="/v1/score"} 2.0',
        'cawn_requests_total{route="/v1/score",status="422"} 1.0',
        "cawn_pairs_scored_total 5.0",
        "cawn_pairs_unknown_total 1.0",
        "cawn_batch_pairs_sum 5.0",
        "cawn_batch_seconds_sum 0.002",
        "cawn_links 7.0",
        'cawn_lag{source="a"} 1.0',
        'cawn_lag{source="b\\""} 2.0',
        "cawn_added_total 5.0",
    ):
        assert line in lines


def test_two_servers_in_one_process_count_apart() -> None:
    first, second = Metrics(), Metrics()
    first.batch(ScoredBatch(5, 0, 0.001))
    assert b"cawn_pairs_scored_total 0.0" in second.to_text()
    for seconds in (0.1, 0.2, 0.3):
        first.request("/v1/score", 200, seconds)
    assert first.latency()["score"] == {"p50": 0.2, "p99": pytest.approx(0.298), "count": 3}
    assert second.latency() == {}


def test_rates_are_over_the_last_seconds() -> None:
    now = [0.0]
    rate = Rate(lambda: now[0])
    assert rate.per_second() == 0
    for at, count, expected in ((100.0, 30, 3.0), (105.0, 20, 5.0), (112.0, 0, 2.0), (1000.0, 0, 0.0)):
        now[0] = at
        rate.add(count)
        assert rate.per_second() == expected
