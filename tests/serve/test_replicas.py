"""Servers on one stream have the same links in the same order, and give the same answers."""

import json
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import cawn
from cawn.serve import service as module
from cawn.serve.links import SubmittedLinks
from cawn.serve.live_info import live_info
from cawn.serve.problems import Problem
from cawn.serve.service import Service, ServiceSettings
from cawn.serve.sources import redis
from cawn.serve.state import open_state
from cawn.serve.store import backup, restore
from redis_server import RedisServer, started_server

ODD = [{"t": "soon"}, {"t": 10**15}, {"src": "", "dst": "n1"}, {"attributes": "[1]"}, {"json": "{"}]


@pytest.fixture
def server() -> Iterator[RedisServer]:
    yield from started_server()


@pytest.fixture
def started(runs: dict[str, Path], tmp_path: Path, server: RedisServer) -> Iterator[Callable[..., Service]]:
    """Starts replicas in this process, with state folders of these names."""
    services: list[Service] = []

    def start(name: str, **options: Any) -> Service:
        given = {"replica": True, "sources": (f"{server.url}?stream=s",)} | options
        service = Service(ServiceSettings(runs["text"], tmp_path / name, device="cpu", threads=1, **given))
        services.append(service)
        service.start()
        return service

    yield start
    for service in services:
        service.stop()


def add(server: RedisServer, rng: random.Random, count: int) -> None:
    """Links between known and new nodes, some of them late, repeated or odd."""
    together = server.client.pipeline(transaction=False)
    for _ in range(count):
        entry = {"src": f"n{rng.randrange(40)}", "dst": f"n{rng.randrange(60)}", "t": 900 + rng.randrange(200)}
        entry["attributes"] = json.dumps({"amount": rng.random(), "currency": rng.choice(["EUR", "USD", "CHF"])})
        if rng.random() < 0.3:
            entry["id"] = rng.randrange(500)
        together.xadd("s", entry | (rng.choice(ODD) if rng.random() < 0.02 else {}))
    together.execute()


def until(condition: Callable[[], Any]) -> Any:
    for _ in range(60_000):
        if found := condition():
            return found
        time.sleep(0.01)
    raise AssertionError("it does not happen")


def is_complete(service: Service) -> bool:
    """Whether it has all entries, those included that were added just now."""
    begun = time.monotonic()
    until(lambda: time.monotonic() - begun > (service.pumps.states()[0]["behind"] or 0) + 0.1)
    return service.progress()["ready"] and service.progress()["sources"][0]["lag"] == 0


def contents(predictor: cawn.LinkPredictor) -> dict[str, Any]:
    """All links in their order, the names in that of their numbers, and scores."""
    state = predictor.snapshot()
    columns = {name: getattr(state.events, name) for name in ("src", "dst", "t", "msg", "link_id")}
    names = [state.name(node) for node in range(state.num_nodes)]
    asked = [f"n{i}" for i in range(60)], [f"n{i * 7 % 60}" for i in range(60)]
    return {**columns, "names": names, "score": state.score(*asked, 1_200), "calibration": state.calibration.steps}


def assert_equal(one: dict[str, Any], other: dict[str, Any]) -> None:
    for name, expected in one.items():
        np.testing.assert_array_equal(other[name], expected, err_msg=name)


def wait_for_equality(address: str, other: Service) -> None:
    """Until a server is ready and has as many links as another one."""
    until(lambda: httpx.get(f"{address}/readyz").status_code == 200)
    until(lambda: httpx.get(f"{address}/v1/status").json()["links"] == other.predictor.num_links)
    found = httpx.get(f"{address}/ready").json()
    assert (found["ready"], found["sources"][0]["lag"]) == (True, 0)
    assert 0 <= found["sources"][0]["behind"] < module.MOST_BEHIND


def test_a_replica_that_is_killed_catches_up(
    server: RedisServer, started, runs: dict[str, Path], tmp_path: Path, monkeypatch
) -> None:
    """Two servers on one stream, one of them killed while it reads: the same links, numbers, names and scores."""
    monkeypatch.setattr(redis, "ENTRIES", 37)  # in this process: other batches than in the other one
    rng, kept = random.Random(0), started("kept")
    command = [
        sys.executable,
        "-m",
        "cawn",
        "serve",
        runs["text"],
        "--state",
        tmp_path / "killed",
        "--replica",
        "--json",
    ]
    command += ["--source", f"{server.url}?stream=s", "--port", "0", "--device", "cpu", "--threads", "1"]
    for kills in (True, False):
        add(server, rng, 1_500)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                address = json.loads(process.stdout.readline())["address"]
                add(server, rng, 1_500)
                if kills:
                    until(lambda: live_info(tmp_path / "killed")["links"] > 120)
                else:
                    wait_for_equality(address, kept)
            finally:
                process.kill()
        until(lambda: is_complete(kept))
    killed, store = open_state(runs["text"], tmp_path / "killed", device="cpu", threads=1)
    assert store.offsets == kept._state.store.offsets
    assert killed.num_links > 4_000
    assert_equal(contents(kept.predictor), contents(killed))
    store.close()


def test_what_a_replica_refuses(server: RedisServer, started, tmp_path: Path) -> None:
    """Whatever would make its links or its answers differ from those of others."""
    replica = started("a")
    for change in (
        lambda: replica.add(SubmittedLinks(["n1"], ["n2"], [901])),
        lambda: replica.forget("n1"),
        lambda: replica.remove("1"),
    ):
        with pytest.raises(Problem, match="links are those of its stream") as caught:
            change()
        assert caught.value.status == 421
    for options in ({"learn": True}, {"retain": "90d"}, {"weights": 0}):
        with pytest.raises(cawn.QueryError, match="--replica: replicas give the same answers"):
            started("b", **options)
    assert not replica.predictor.recalibrates
    with pytest.raises(cawn.QueryError, match="with 0 streams"):
        started("b", sources=())
    replica.stop()
    started("a", replica=False).stop()  # from now on, it is a server of its own
    with pytest.raises(cawn.StorageError, match="is not the state of a replica"):
        started("a")


def test_a_replica_on_a_trimmed_stream(server: RedisServer, started, tmp_path: Path, monkeypatch) -> None:
    """It says what is missing and is not ready; with a backup of another one it is."""
    rng = random.Random(0)
    add(server, rng, 100)
    first, second = started("first"), started("second")
    until(lambda: is_complete(first) and is_complete(second))
    second.stop()
    add(server, rng, 50)
    until(lambda: is_complete(first))
    server.client.xtrim("s", maxlen=20, approximate=False)
    monkeypatch.setattr(module, "MOST_BEHIND", 0.5)
    for name in ("second", "new"):
        behind = started(name)
        said = until(lambda behind=behind: behind.progress()["sources"][0]["last_error"])
        assert re.search(r"entries after .* trimmed or deleted.*: this replica would differ", said)
        with pytest.raises(Problem, match="still to read; see /ready") as caught:
            behind.require_caught_up()
        assert caught.value.status == 503
        assert not behind.progress()["ready"]
        behind.stop()
    backup(tmp_path / "first", tmp_path / "copy")
    restore(tmp_path / "copy", tmp_path / "second")
    add(server, rng, 50)
    again = started("second")
    until(lambda: is_complete(first) and is_complete(again))
    assert_equal(contents(first.predictor), contents(again.predictor))
