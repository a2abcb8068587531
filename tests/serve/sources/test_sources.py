"""URLs of streams, entries as columns of links, and what is kept of entries that are not links."""

import json
from pathlib import Path

import pytest

import cawn
from cawn.serve.links import SubmittedLinks
from cawn.serve.sources.entries import RejectedEntries, as_columns, as_link
from cawn.serve.sources.pump import Pumps, open_source
from cawn.serve.sources.urls import SourceUrl

pytest.importorskip("redis")
pytest.importorskip("confluent_kafka")


def nothing_stored(name: str) -> None:
    return None


# URLs


def test_by_scheme(tmp_path: Path) -> None:
    sources = [
        ("redis://h/0?stream=s", "redis:s"),
        ("rediss://h?stream=s&name=other", "other"),
        ("kafka://h:9092/topic?group=g", "kafka:topic"),
    ]
    assert [open_source(url, nothing_stored).name for url, _ in sources] == [name for _, name in sources]
    twice = [f"redis://{host}?stream=s" for host in ("a", "b")]
    for replica, urls, message in (
        (False, twice, "two streams are called 'redis:s'"),
        (True, [twice[0], "redis://h?stream=t"], "--replica with 2 streams: give one"),
        (True, [], "--replica with 0 streams: give one"),
    ):
        with pytest.raises(cawn.QueryError, match=message):
            Pumps(urls, nothing_stored, print, tmp_path, replica=replica)


def test_options_of_a_url(monkeypatch: pytest.MonkeyPatch) -> None:
    url = SourceUrl.parse("redis://:pass%40word@host:1/0?stream=a%26b&name=x")
    assert (url.take("stream"), url.take("group", "cawn")) == ("a&b", "cawn")
    assert (url.take_if_given("name"), url.take_if_given("db")) == ("x", None)
    monkeypatch.setenv("CAWN_SOURCE_PASSWORD", "hidden")
    assert SourceUrl.parse("redis://host").password == "hidden"
    assert SourceUrl.parse("redis://:other@host").password is None


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("amqp://host/queue", "amqp: give redis://"),
        ("payments", "no scheme: give redis://"),
        ("redis://[host", "not a URL"),
        ("redis://:secret@host:x/0", "not a URL"),
        ("redis://host/0?stream", "not a URL"),
        ("redis://host/0?a=1&a=2", "a= is given twice"),
        ("redis://:secret@host", r"stream= is missing; write redis://...\?stream="),
        ("redis://host/payments?stream=s", "/payments is not the number of a database"),
        ("redis://host?stream=s&start=new", "start=new: give 0,"),
        ("redis://host?stream=s&speed=5", "unknown option speed="),
        ("kafka://host", "write kafka://host:port/topic"),
        ("kafka://host/topic?start=0", "start=0: give earliest or latest"),
        ("kafka://host/topic?speed=5", "unknown option speed="),
    ],
)
def test_urls_that_are_refused(url: str, message: str) -> None:
    with pytest.raises(cawn.QueryError, match=message) as caught:
        open_source(url, nothing_stored)
    assert "secret" not in str(caught.value)


# Entries


def test_fields_and_json_give_the_same_link() -> None:
    fields = {b"src": b"a", b"dst": "\u00e9".encode(), b"t": b"5", b"id": b"x", b"attributes": b"[1, 2.5]"}
    assert as_link(fields) == ("a", "\u00e9", 5, [1, 2.5], "x")
    assert as_link(fields) == as_link('{"src":"a","dst":"\u00e9","t":5,"id":"x","attributes":[1,2.5]}'.encode())
    assert as_link({b"json": b'{"src": "a", "dst": 7, "t": 5}'}) == ("a", 7, 5, None, None)
    for text, t in ((b"7", 7), (b"-7", -7), (b"1.5", 1.5), (b"2e3", 2000.0), (b"2024-05-01", "2024-05-01")):
        found = as_link({b"src": b"1", b"dst": b"2", b"t": text}).t
        assert (found, type(found)) == (t, type(t))


def test_columns() -> None:
    """U1: attributes may be given by name."""
    plain = as_link(b'{"src": "a", "dst": 2, "t": 5}')
    by_name = as_link(b'{"src": "b", "dst": 2, "t": 7, "id": 7, "attributes": {"amount": 1.5}}')
    assert as_columns([plain]) == SubmittedLinks(["a"], [2], [5])
    assert as_columns([plain, by_name]) == SubmittedLinks(
        ["a", "b"], [2, 2], [5, 7], [None, {"amount": 1.5}], [None, 7]
    )
    assert len(as_columns([])) == 0


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({}, "src is missing"),
        ({b"src": b"a", b"t": b"1"}, "dst is missing"),
        ({b"src": b"a", b"dst": b"b"}, "t is missing"),
        ({b"src": b"\xff", b"dst": b"b", b"t": b"1"}, "src is not UTF-8"),
        ({b"src": b"a", b"dst": b"b", b"t": b"1", b"attributes": b"2"}, "attributes is 2: give a list"),
        ({b"json": b"{"}, "the entry is not JSON"),
        ({b"json": b"[" * 100_000}, "the entry is not JSON"),
        ({b"json": b"[1]"}, r"\[1\] is not a JSON object"),
        ({b"json": b'{"src": 1.5, "dst": 2, "t": 3}'}, "src is 1.5: names are"),
        ({b"json": b'{"src": true, "dst": 2, "t": 3}'}, "src is True: names are"),
        ({b"json": b'{"src": 1, "dst": 2, "t": [3]}'}, r"t is \[3\]: give a number"),
        ({b"json": b'{"src": 1, "dst": 2, "t": 3, "id": {}}'}, "id is {}: ids are"),
    ],
)
def test_what_is_not_a_link(fields: dict, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        as_link(fields)


# Rejected entries


def test_rejected_entries_are_lines_of_json(tmp_path: Path) -> None:
    rejected = RejectedEntries(tmp_path)
    rejected.add("redis:s", "1-0", {b"src": "\u00e9\n".encode()}, "dst is missing")
    rejected.add("redis:s", "2-0", b"t\xff", "not JSON")
    first, second = map(json.loads, rejected.path.read_text().splitlines())
    assert first == {"source": "redis:s", "position": "1-0", "entry": {"src": "\u00e9\n"}, "reason": "dst is missing"}
    assert (second["position"], second["entry"]) == ("2-0", "t\\xff")
    rejected.forget("\u00e9\n")
    assert [json.loads(line) for line in rejected.path.read_text().splitlines()] == [second]
    with pytest.raises(cawn.StorageError, match="cannot be written"):
        RejectedEntries(tmp_path / "none").add("s", "1-0", "", "")


def test_their_size_is_bounded(tmp_path: Path) -> None:
    rejected = RejectedEntries(tmp_path, max_bytes=500)
    for i in range(100):
        rejected.add("redis:s", f"{i}-0", "x" * 50, "not JSON")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rejected.1.jsonl", "rejected.jsonl"]
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 1_500
    assert '"99-0"' in rejected.path.read_text()
