"""The process: its socket, its signals, and what it does with bytes that are not HTTP."""

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import cawn
from cawn.serve import snapshots
from cawn.serve.server import Server, listen
from cawn.serve.service import ServiceSettings
from cawn.serve.tokens import Tokens
from cawn.systems.base import System

TOKENS = Tokens({"some-token": "write"})


def test_other_machines_need_a_token() -> None:
    for host in ("0.0.0.0", "::"):
        with pytest.raises(cawn.QueryError, match="give tokens"):
            listen(host, 0, Tokens())
    with listen("0.0.0.0", 0, TOKENS) as found:
        assert found.getsockname()[1] > 0
    for host in ("127.0.0.1", "localhost"):
        with listen(host, 0, Tokens()):
            pass


def test_addresses_that_cannot_be_used() -> None:
    with (
        listen("127.0.0.1", 0, Tokens()) as taken,
        pytest.raises(cawn.QueryError, match="choose another address or port"),
    ):
        listen("127.0.0.1", taken.getsockname()[1], Tokens())
    for host in ("no host\0", "x" * 300, "256.1.1.1.1"):
        with pytest.raises(cawn.QueryError, match="--host"):
            listen(host, 0, TOKENS)


def start(run: Path, **options) -> Server:
    settings = ServiceSettings(run, device="cpu", threads=1, **options)
    return Server(settings, Tokens(), listen("127.0.0.1", 0, Tokens()), max_body=100, quiet=True)


@pytest.fixture
def kept_interval() -> Iterator[None]:
    """Restores what a server sets for the whole process."""
    interval = sys.getswitchinterval()
    yield
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("kept_interval")
def test_a_server_from_start_to_stop(served_copy: Path, capfd) -> None:
    server, failures = start(served_copy), []

    def talk() -> None:
        try:
            with httpx.Client(base_url=server.address) as client:
                check_answers(client)
                check_large_bodies(client)
            check_bytes_that_are_not_http(server.address)
        except BaseException as error:
            failures.append(error)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    handlers = [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)]
    server.run(threading.Thread(target=talk).start)
    if failures:
        raise failures[0]
    assert [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)] == handlers
    assert capfd.readouterr() == ("", "")


def check_answers(client: httpx.Client) -> None:
    assert client.get("/readyz").json() == {"ready": True}
    t = client.get("/v1/status").json()["watermark"]
    assert client.post("/v1/links", json={"src": "n1", "dst": "new", "t": t + 1}).json()["added"] == 1
    assert client.post("/v1/score", json={"src": "n1", "dst": "new"}).status_code == 200
    assert "server" not in client.get("/").headers


def check_large_bodies(client: httpx.Client) -> None:
    as_json = {"Content-Type": "application/json"}
    assert client.post("/v1/score", content=b" " * 101, headers=as_json).status_code == 413
    parts = (b" " * 10 for _ in range(20))
    assert client.post("/v1/score", content=parts, headers=as_json).status_code == 413
    assert client.get("/healthz").status_code == 200


def check_bytes_that_are_not_http(address: str) -> None:
    host, port = address.removeprefix("http://").split(":")
    for content in (b"\0\1\2\3\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n"):
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(content)
            assert b" 400 " in connection.recv(1000)


@pytest.mark.usefixtures("kept_interval")
def test_a_failed_start_ends_the_server(served_copy: Path) -> None:
    with pytest.raises(cawn.QueryError, match="--source"):
        start(served_copy, sources=("ftp://x",)).run()


@pytest.mark.usefixtures("kept_interval")
def test_a_second_signal_ends_the_process(served_copy: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = []
    monkeypatch.setattr("os._exit", ended.append)
    server = start(served_copy)

    def interrupt_twice() -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(server._service, "stop", interrupt_twice)
    with server._signals():
        server._service.stop()
    assert ended == [130]
    server._socket.close()


@pytest.mark.usefixtures("kept_interval")
def test_a_signal_while_links_are_loaded(served_copy: Path, monkeypatch: pytest.MonkeyPatch, capfd) -> None:
    server, announced = start(served_copy), []
    load = snapshots.load_system

    def interrupted(*args, **options) -> System:
        os.kill(os.getpid(), signal.SIGTERM)
        while not server._server.should_exit:
            time.sleep(0.001)
        return load(*args, **options)

    monkeypatch.setattr(snapshots, "load_system", interrupted)
    server.run(lambda: announced.append(server.facts()))
    assert not announced
    assert capfd.readouterr().err.endswith("INFO stopped before all links were loaded\n")
    assert server.address.startswith("http://127.0.0.1:")
