"""The interface of sources."""

import pytest

import cawn
from cawn.serve.links import Links
from cawn.serve.sources import Batch
from cawn.serve.sources.pump import open_source, require_distinct

pytest.importorskip("redis")
pytest.importorskip("confluent_kafka")


def nothing_stored(name: str) -> None:
    return None


def test_by_scheme() -> None:
    assert open_source("redis://h/0?stream=s", nothing_stored).name == "redis:s"
    assert open_source("rediss://h?stream=s&name=other", nothing_stored).name == "other"
    assert open_source("kafka://h:9092/topic?group=g", nothing_stored).name == "kafka:topic"


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("amqp://host/queue", "amqp: give redis://"),
        ("payments", "no scheme: give redis://"),
        ("redis://[host", "not a URL"),
        ("redis://host", "stream= is missing"),
        ("redis://host/payments?stream=s", "/payments is not the number of a database"),
        ("redis://host?stream=s&start=5", "start=5: give 0 or"),
        ("redis://host?stream=s&speed=5", "unknown option speed="),
        ("kafka://host", "write kafka://host:port/topic"),
        ("kafka://host/topic?start=0", "start=0: give earliest or latest"),
        ("kafka://host/topic?speed=5", "unknown option speed="),
    ],
)
def test_what_is_refused(url: str, message: str) -> None:
    with pytest.raises(cawn.QueryError, match=message):
        open_source(url, nothing_stored)


def test_names_must_differ() -> None:
    sources = [open_source(f"redis://{host}?stream=s", nothing_stored) for host in ("a", "b")]
    require_distinct(sources[:1])
    with pytest.raises(cawn.QueryError, match="two streams are called 'redis:s'"):
        require_distinct(sources)


def test_halves() -> None:
    links = Links(["a", "b", "c"], ["x", "y", "z"], [1, 2, 3])
    batch = Batch(links, [(1, 0), (2, 0), (3, 0)], [(4, 0)], [], contiguous=True)
    first, second = batch.halves()
    assert (first.links.src, first.positions, first.others) == (["a"], [(1, 0)], ())
    assert (second.links.src, second.positions, second.others) == (["b", "c"], [(2, 0), (3, 0)], [(4, 0)])
    assert first.contiguous
    assert second.contiguous
