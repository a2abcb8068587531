"""Redis Streams, read from a real redis-server."""

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

import cawn
import redis_pump
from cawn.serve.sources import Batch, SourceError, redis
from cawn.serve.sources.redis import RedisSource
from cawn.serve.state import open_state
from redis_server import RedisServer, started_server
from stored_links import StoredLinks

AT_ONCE = 1e-9  # claims entries of other consumers however short they have been pending


@pytest.fixture(scope="module")
def started() -> Iterator[RedisServer]:
    yield from started_server()


@pytest.fixture
def server(started: RedisServer) -> RedisServer:
    started.client.flushall()
    return started


def add(server: RedisServer, *times: int, src: str = "a") -> list[bytes]:
    return [server.client.xadd("s", {"src": src, "dst": "b", "t": t}) for t in times]


class Reader:
    """A consumer with its state; `crash` forgets all but what was stored."""

    def __init__(self, server: RedisServer, consumer: str = "cawn", **options) -> None:
        self.stored = StoredLinks()
        self._open = lambda: RedisSource(server.url, "s", self.stored.offsets.get, consumer=consumer, **options)
        self.source = self._open()

    def crash(self) -> None:
        self.source.close()
        self.source = self._open()

    def read(self) -> Batch:
        return self.source.read(0)

    def write(self, batch: Batch) -> Batch:
        if len(batch):
            self.stored.submit(batch.links, offsets=self.source.offsets(batch))
        return batch

    def step(self) -> int:
        """Read, store and acknowledge a batch; the number of its entries."""
        batch = self.write(self.read())
        self.source.commit(batch)
        return len(batch) + len(batch.others)

    def drain(self) -> list:
        while self.step():
            pass
        return self.stored.times


def pending(server: RedisServer) -> int:
    return server.client.xpending("s", "cawn")["pending"]


@pytest.mark.parametrize("moment", ["read", "written"])
def test_a_crash_loses_nothing_and_doubles_nothing(server: RedisServer, moment: str) -> None:
    add(server, 1, 2)
    reader = Reader(server)
    batch = reader.read()
    if moment == "written":
        reader.write(batch)
    reader.crash()
    assert pending(server) == 2
    add(server, 3)
    assert reader.drain() == [1, 2, 3]
    assert pending(server) == reader.source.lag == 0
    assert reader.source.known == (2 if moment == "written" else 0)
    assert reader.stored.offsets["redis:s"].startswith("0-0:"), "the ranges have been joined"
    assert Reader(server, "later", group="new", start="$").drain() == []


def test_a_crash_under_another_name(server: RedisServer) -> None:
    """The name of the host changes with the container: written entries of the former consumer are recognised."""
    add(server, 1, 2)
    reader = Reader(server, "host 1")
    reader.write(reader.read())
    reader.source.close()
    again = Reader(server, "host 2", claim=AT_ONCE)
    again.stored = reader.stored
    again.crash()
    assert again.drain() == [1, 2]
    assert (again.source.known, pending(server)) == (2, 0)


def test_entries_between_claimed_ones_are_not_taken_as_written(server: RedisServer) -> None:
    ids = add(server, 1, 2, 3)
    dead, slow = Reader(server, "dead"), Reader(server, "slow")
    dead.read()
    server.client.xclaim("s", "cawn", "dead", 0, [ids[0], ids[2]], idle=10_000_000)
    server.client.xclaim("s", "cawn", "slow", 0, [ids[1]], idle=0)
    reader = Reader(server, claim=3600)
    assert reader.drain() == [1, 3]
    slow.source.close()
    server.client.xclaim("s", "cawn", "slow", 0, [ids[1]], idle=10_000_000)
    reader.crash()
    assert reader.drain() == [1, 3, 2]


def test_redis_forgets_acknowledgements(server: RedisServer) -> None:
    """After a crash of Redis, entries that were read and acknowledged are delivered again."""
    reader = Reader(server)
    add(server, 1, 2)
    reader.drain()
    server.client.save()
    add(server, 3)
    server.client.save()
    reader.drain()  # read and acknowledged after the last save
    server.kill()
    with pytest.raises(SourceError, match="Redis: "):
        reader.read()
    reader.source.close()
    server.start()
    add(server, 4)
    assert reader.drain() == [1, 2, 3, 4]
    assert reader.source.known == 1


def test_redis_loses_entries(server: RedisServer) -> None:
    reader = Reader(server)
    add(server, 1)
    server.client.save()
    server.client.xadd("s", {"src": "a", "dst": "b", "t": 2}, id="9999999999999-0")
    reader.drain()
    server.kill()
    reader.source.close()
    server.start()
    assert reader.drain() == [1, 2]
    assert "before 9999999999999-0, which was read: Redis lost entries" in reader.source.warning


def test_the_group_is_deleted(server: RedisServer) -> None:
    reader = Reader(server)
    add(server, 1, 2)
    reader.drain()
    server.client.xgroup_destroy("s", "cawn")
    add(server, 3, 4)
    with pytest.raises(SourceError, match="NOGROUP"):
        reader.read()
    reader.source.close()
    batch = reader.write(reader.read())
    server.client.xgroup_destroy("s", "cawn")
    with pytest.raises(SourceError, match="NOGROUP"):
        reader.source.commit(batch)
    reader.source.close()
    assert reader.drain() == [1, 2, 3, 4]


def test_pending_entries_that_were_trimmed(server: RedisServer) -> None:
    add(server, 1, 2)
    reader, dead = Reader(server, claim=AT_ONCE), Reader(server, "dead")
    reader.read()
    add(server, 3, 4)
    dead.read()
    server.client.xtrim("s", maxlen=0, approximate=False)
    reader.crash()
    add(server, 5)
    assert reader.drain() == [5]
    assert reader.source.trimmed == 4
    assert pending(server) == 0


def test_malformed_entries_are_acknowledged(server: RedisServer) -> None:
    add(server, 1)
    server.client.xadd("s", {"src": b"\xff", "dst": "b", "t": 1})
    server.client.xadd("s", {"json": "{"})
    add(server, 2)
    reader = Reader(server)
    batch = reader.read()
    assert [(each.reason[:15], each.entry) for each in batch.rejected] == [
        ("src is not UTF-", {"src": "\\xff", "dst": "b", "t": "1"}),
        ("the entry is no", {"json": "{"}),
    ]
    reader.write(batch)
    reader.source.commit(batch)
    assert reader.stored.times == [1, 2]
    assert pending(server) == 0


def test_sources_that_cannot_be_read(server: RedisServer, monkeypatch) -> None:
    server.client.set("text", "x")
    with_password = server.url.replace("unix://", "unix://:secret@")
    for url, message in ((f"{server.url}?db=0&stream=text", "WRONGTYPE"), (f"{with_password}?stream=s", "Redis: ")):
        with pytest.raises(SourceError, match=message) as error:
            RedisSource.open(url, {}.get).read(0)
        assert "secret" not in str(error.value)
    with pytest.raises(SourceError, match="stored positions are damaged"):
        RedisSource("redis://h", "s", {"redis:s": "x"}.get)
    monkeypatch.setattr(redis, "find_spec", lambda name: None)
    with pytest.raises(cawn.QueryError, match=r"pip install 'cawn\[redis\]'"):
        RedisSource("redis://h", "s", {}.get)


@pytest.mark.parametrize("seed", range(4))
def test_any_sequence_of_crashes(server: RedisServer, monkeypatch, seed: int) -> None:
    """Each entry is stored exactly once by this consumer, or acknowledged by another one."""
    monkeypatch.setattr(redis, "ENTRIES", 3)
    random_ = random.Random(seed)
    reader = Reader(server, claim=AT_ONCE)
    reader.read()
    numbers, elsewhere = count(), set()
    for _ in range(150):
        action = random_.choice(["add", "add", "step", "step", "read", "write", "other", "dies", "regroup", "forget"])
        if action == "add":
            add(server, *(next(numbers) for _ in range(random_.randint(1, 4))))
        elif action == "step":
            reader.step()
        elif action in ("read", "write"):
            batch = reader.read()
            if action == "write":
                reader.write(batch)
            reader.crash()
        elif action in ("other", "dies"):  # another consumer reads; it acknowledges, or dies before
            other = server.client.xreadgroup("cawn", action, {"s": ">"}, count=2)
            for entry, fields in other[0][1] if other and action == "other" else []:
                server.client.xack("s", "cawn", entry)
                elsewhere.add(int(fields[b"t"]))
        elif action == "regroup" and random_.random() < 0.2:
            server.client.xgroup_destroy("s", "cawn")
            reader.crash()
            reader.step()
        elif action == "forget" and random_.random() < 0.2:  # Redis restarts with an older state of the group
            server.client.xgroup_setid("s", "cawn", "0")
    reader.drain()
    stored = reader.stored.times
    assert len(stored) == len(set(stored))
    assert set(stored) | elsewhere == set(range(next(numbers)))
    assert pending(server) == 0


ROUNDS = 4


def test_killed_at_random_moments(server: RedisServer, runs: dict[str, Path], tmp_path: Path) -> None:
    """A process with the links on disk is killed again and again while it reads: it has each link exactly once."""
    random_, numbers = random.Random(0), count()
    server.client.xgroup_create("s", "cawn", "0", mkstream=True)
    command = [sys.executable, redis_pump.__file__, f"{server.url}?stream=s", runs["integers"], tmp_path]
    for i in range(ROUNDS):
        together = server.client.pipeline(transaction=False)
        for _ in range(2_000):
            together.xadd("s", {"src": "a", "dst": "b", "t": 900 + next(numbers)})
        together.execute()
        enough = 0 if i == ROUNDS - 1 else random_.randint(500, 1_900)  # entries that are not read when it is killed
        process = subprocess.Popen(command)
        try:
            while (found := server.client.xinfo_groups("s")[0])["lag"] > enough or (enough == 0 and found["pending"]):
                assert process.poll() is None
                time.sleep(0.002)
            time.sleep(random_.random() / 30)
        finally:
            process.kill()
            process.wait()
    state = open_state(runs["integers"], tmp_path, device="cpu", threads=1)
    assert state.predictor.snapshot().events.t[120:].tolist() == list(range(900, 900 + next(numbers)))
    state.store.close()
