"""Redis Streams, read from a real redis-server."""

from collections.abc import Iterator
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import cawn
from cawn.serve.sources import SourceError, redis
from cawn.serve.sources.redis import RedisSource
from redis_server import RedisServer, started_server
from stored_links import StoredLinks


@pytest.fixture(scope="module")
def started() -> Iterator[RedisServer]:
    yield from started_server()


@pytest.fixture
def server(started: RedisServer) -> RedisServer:
    started.client.flushall()
    return started


def add(server: RedisServer, *times: int, **options) -> list[bytes]:
    return [server.client.xadd("s", {"src": "a", "dst": "b", "t": t}, **options) for t in times]


class Reader:
    """A source with what is stored; `crash` forgets all else."""

    def __init__(self, server: RedisServer, options: str = "", *, replica: bool = False) -> None:
        self.stored, url = StoredLinks(), f"{server.url}?stream=s{options}"
        self._open = lambda: RedisSource(url, self.stored.offsets.get, replica=replica)
        self.source = self._open()

    def crash(self) -> None:
        self.source.close()
        self.source = self._open()

    def drain(self) -> list:
        return self.stored.drain(self.source)


def test_where_it_begins(server: RedisServer) -> None:
    ids = add(server, 1, 2, 3)
    readers = {start: Reader(server, f"&start={start}") for start in ("0", "$", ids[0].decode())}
    for reader in readers.values():
        reader.stored.write(reader.source, reader.source.read(0))
        reader.crash()
    add(server, 4)
    assert [reader.drain() for reader in readers.values()] == [[1, 2, 3, 4], [4], [2, 3, 4]]
    former = Reader(server)
    former.stored.offsets["redis:s"] = f"0-0:0-0,{ids[0].decode()}:{ids[1].decode()}"  # as earlier versions stored it
    former.crash()
    assert former.drain() == [3, 4]
    assert former.source.trimmed == former.source.lag == 0


def test_a_group_shows_how_far_it_has_read(server: RedisServer) -> None:
    reader = Reader(server, "&group=g")
    for last in (2, 3):
        add(server, last)
        reader.drain()
        (group,) = server.client.xinfo_groups("s")
        assert (group["name"], group["lag"], group["entries-read"]) == (b"g", 0, last - 1)


def test_the_lag(server: RedisServer, monkeypatch) -> None:
    monkeypatch.setattr(redis, "ENTRIES", 3)
    add(server, *range(8))
    reader = Reader(server)
    lags = []
    while entries := reader.source.read(0):
        lags.append(reader.source.lag)
        reader.source.commit(entries)
    assert lags == [5, 2, 0]


def trim(server: RedisServer, ids: list[bytes]) -> None:
    server.client.xtrim("s", maxlen=2, approximate=False)


def trim_all(server: RedisServer, ids: list[bytes]) -> None:
    server.client.xtrim("s", maxlen=0, approximate=False)


def delete(server: RedisServer, ids: list[bytes]) -> None:
    server.client.xdel("s", ids[3], ids[4])


@pytest.mark.parametrize(("remove", "left"), [(trim, [4, 5]), (trim_all, []), (delete, [2, 5])])
@pytest.mark.parametrize("stop", [True, False])
def test_entries_that_were_removed_before_they_were_read(server: RedisServer, remove, left, stop: bool) -> None:
    """A replica stops there, another server says how many; what was read before may be removed."""
    readers = [Reader(server, replica=replica) for replica in (False, True)]
    ids = add(server, 0, 1)
    for reader in readers:
        reader.drain()
        reader.source.close() if stop else None
    ids += add(server, 2, 3, 4, 5)
    remove(server, ids)
    assert readers[0].drain() == [0, 1, *left]
    assert readers[0].source.trimmed == 4 - len(left)
    for _ in range(2):
        with pytest.raises(
            SourceError, match=f"{4 - len(left)} entries after {ids[1].decode()} were trimmed or deleted"
        ):
            readers[1].source.read(0)
    assert readers[1].stored.times == [0, 1]
    add(server, 6)
    assert readers[0].drain() == [0, 1, *left, 6]
    assert readers[0].source.trimmed == 4 - len(left)
    for start in ("0", ids[1].decode()):
        with pytest.raises(SourceError, match="restore a backup"):
            Reader(server, f"&start={start}", replica=True).drain()


def test_entries_that_were_read_may_be_removed(server: RedisServer, monkeypatch) -> None:
    monkeypatch.setattr(redis, "ENTRIES", 3)
    reader, ids, numbers = Reader(server, replica=True), [], count()
    for n in (1, 4, 7, 2, 10):
        ids += add(server, *(next(numbers) for _ in range(n)))
        reader.drain()
        server.client.xdel("s", ids[len(ids) // 2])
        reader.crash()
        server.client.xtrim("s", maxlen=n % 3, approximate=False)
    assert reader.drain() == list(range(next(numbers)))


@pytest.mark.parametrize("replica", [False, True])
def test_redis_loses_entries(server: RedisServer, replica: bool) -> None:
    """After a crash without a sync it has fewer entries than were read."""
    reader = Reader(server, replica=replica)
    add(server, 1)
    server.client.save()
    last = add(server, 2)[0].decode()
    reader.drain()
    server.kill()
    with pytest.raises(SourceError, match="Redis: "):
        reader.source.read(0)
    reader.source.close()
    server.start()
    if replica:
        with pytest.raises(SourceError, match=r"Redis lost entries .* restore a backup"):
            reader.drain()
        return
    assert reader.drain() == [1, 2]
    assert f"entries up to {last} are skipped as known" in reader.source.warning
    add(server, 3)
    server.client.delete("s")
    add(server, 4)
    assert reader.drain() == [1, 2, 4]


def test_sources_that_cannot_be_read(server: RedisServer, monkeypatch) -> None:
    server.client.set("text", "x")
    with_password = server.url.replace("unix://", "unix://:secret@")
    for url, message in ((f"{server.url}?db=0&stream=text", "WRONGTYPE"), (f"{with_password}?stream=s", "Redis: ")):
        with pytest.raises(SourceError, match=message) as error:
            RedisSource(url, {}.get).read(0)
        assert "secret" not in str(error.value)
    with pytest.raises(SourceError, match="stored position is damaged"):
        RedisSource("redis://h?stream=s", {"redis:s": "x"}.get)
    monkeypatch.setattr(redis, "find_spec", lambda name: None)
    with pytest.raises(cawn.QueryError, match=r"pip install 'cawn\[redis\]'"):
        RedisSource("redis://h?stream=s", {}.get)


ACTIONS = st.lists(st.sampled_from(["add", "step", "read", "write", "trim"]), max_size=40)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ACTIONS)
def test_any_sequence_of_crashes(server: RedisServer, monkeypatch, actions: list[str]) -> None:
    """Each entry is stored exactly once, in the order of the stream."""
    monkeypatch.setattr(redis, "ENTRIES", 3)
    server.client.flushall()
    reader, numbers = Reader(server, replica=True), count()
    for action in actions:
        if action == "add":
            add(server, next(numbers), next(numbers))
        elif action == "trim":
            reader.drain()
            server.client.xtrim("s", maxlen=1, approximate=False)
        else:
            entries = list(reader.source.read(0))
            if action != "read":
                reader.stored.write(reader.source, entries)
            reader.source.commit(entries) if action == "step" else reader.crash()
    assert reader.drain() == list(range(next(numbers)))
