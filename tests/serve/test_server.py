"""The process: its socket, its signals, and what it does with bytes that are not HTTP and with floods."""

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

import cawn
from cawn.serve.connections import MAX_PIPELINED
from cawn.serve.server import INTERRUPTED, Server, listen
from cawn.serve.service import Service, ServiceSettings, ServiceStopped
from cawn.serve.tokens import Tokens

TOKENS = Tokens({"some-token": "write"})
CLIENTS, ANSWER_TIME = 300, 10  # seconds: generous for a health check that takes less than one


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
    with listen("127.0.0.1", 0, Tokens()) as taken, pytest.raises(cawn.QueryError, match="--port"):
        listen("127.0.0.1", taken.getsockname()[1], Tokens())
    for host in ("no host\0", "x" * 300, "256.1.1.1.1"):
        with pytest.raises(cawn.QueryError, match="--host"):
            listen(host, 0, TOKENS)


@pytest.fixture(autouse=True)
def kept_interval() -> Iterator[None]:
    """Restores what a server sets for the whole process."""
    interval = sys.getswitchinterval()
    yield
    sys.setswitchinterval(interval)


def start(run: Path, **options) -> Server:
    settings = ServiceSettings(run, device="cpu", threads=1, **options)
    return Server(settings, Tokens(), listen("127.0.0.1", 0, Tokens()), max_body=100, quiet=True)


def serve_while(server: Server, talk: Callable[[str], object]) -> None:
    """Serve until a function of the address has returned in another thread, then stop by a signal."""
    failures = []

    def run() -> None:
        try:
            talk(server.address)
        except BaseException as error:
            failures.append(error)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    server.run(threading.Thread(target=run).start)
    if failures:
        raise failures[0]


def test_a_server_from_start_to_stop(served_copy: Path, capfd) -> None:
    def talk(address: str) -> None:
        with httpx.Client(base_url=address) as client:
            check_answers(client)
            check_large_bodies(client)
        check_bytes_that_are_not_http(address)

    handlers = [signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGINT)]
    serve_while(start(served_copy), talk)
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


def connect(address: str) -> socket.socket:
    host, port = address.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=60)


def check_bytes_that_are_not_http(address: str) -> None:
    for content in (b"\0\1\2\3\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n"):
        with connect(address) as connection:
            connection.sendall(content)
            assert b" 400 " in connection.recv(1000)


@pytest.mark.parametrize("requests", [1_000, 1 + MAX_PIPELINED])
def test_clients_that_never_read_do_not_keep_others_waiting(served_copy: Path, requests: int) -> None:  # H6
    asked = b"GET /openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * requests
    ended = threading.Event()

    def flood(clients: list[socket.socket]) -> None:
        """Send the requests, or as many as are taken, again and again; at most 3 GB in all."""
        for _ in range(200):
            for client in clients:
                with suppress(OSError):
                    client.send(asked)
            if ended.wait(0.05) or requests < 100:
                return

    def talk(address: str) -> None:
        clients = [connect(address) for _ in range(CLIENTS)]
        for client in clients:
            client.setblocking(False)
        flooding = threading.Thread(target=flood, args=[clients])
        flooding.start()
        try:
            for _ in range(20):
                assert httpx.get(f"{address}/healthz", timeout=ANSWER_TIME).json()["status"] == "ok"
        finally:
            ended.set()
            flooding.join()
            for client in clients:
                client.close()

    serve_while(start(served_copy), talk)


def test_a_failed_start_ends_the_server(served_copy: Path) -> None:
    with pytest.raises(cawn.QueryError, match="--source"):
        start(served_copy, sources=("ftp://x",)).run()


def test_signals_while_links_are_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd) -> None:
    def load(service: Service, _progress: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        while service.status()["phase"] != "stopping":
            time.sleep(0.001)
        raise ServiceStopped

    ended, announced = [], []
    monkeypatch.setattr("os._exit", ended.append)
    monkeypatch.setattr(Service, "start", load)
    monkeypatch.setattr(Service, "stop", lambda _: signal.raise_signal(signal.SIGINT))  # the second one
    server = start(tmp_path)
    server.run(lambda: announced.append(server.facts()))
    assert (announced, ended) == ([], [INTERRUPTED])
    assert capfd.readouterr().err.endswith("INFO stopped before all links were loaded\n")
