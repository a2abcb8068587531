"""Clients that do not end their requests, do not read their answers, or open too many connections."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from cawn.serve import connections
from cawn.serve.connections import MAX_HEAD, MAX_PIPELINED, MAX_SURPLUS, LimitedProtocol, limited

COMPLETE = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\nab"


async def respond(_scope, receive, send) -> None:
    """Answer with the body of the request."""
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body, more = body + message.get("body", b""), message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def configured(app: Any) -> uvicorn.Config:
    config = uvicorn.Config(app, http=limited(), ws="none", lifespan="off", log_config=None)
    config.load()
    return config


def talk_to_server(talk: Talk, app: Any = respond) -> None:
    async def run() -> None:
        config, state = configured(app), ServerState()
        made = lambda: limited()(config=config, server_state=state, app_state={})  # noqa: E731
        async with await asyncio.get_running_loop().create_server(made, "127.0.0.1", 0) as server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            await talk(reader, writer)
            writer.close()

    asyncio.run(run())


def test_large_heads_are_refused() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"GET / HTTP/1.1\r\n" + b"X: " + b"x" * MAX_HEAD)
        assert (await reader.read()).startswith(b"HTTP/1.1 400 ")

    talk_to_server(talk)


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: loc", COMPLETE[:-1], COMPLETE + COMPLETE[:-1]])
def test_slow_requests_are_given_up(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CLIENT_SECONDS", 0.05)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(sent)
        found = b""
        with suppress(ConnectionResetError):
            while data := await reader.read(1000):
                found += data
        assert found.count(b"200 OK") == sent.count(COMPLETE)

    talk_to_server(talk)


def test_a_client_that_does_not_read_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:  # H6
    monkeypatch.setattr(connections, "CLIENT_SECONDS", 0.05)
    gone = asyncio.Event()

    async def answer(_scope, _receive, send) -> None:
        await send({"type": "http.response.start", "status": 200})
        for _ in range(2):  # the second part waits for the client to read the first
            await send({"type": "http.response.body", "body": b"x" * (64 << 20), "more_body": True})
        gone.set()

    async def talk(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()
        writer.write(COMPLETE)
        await asyncio.wait_for(gone.wait(), 600)

    talk_to_server(talk, answer)


def test_bodies_may_be_larger_than_heads_and_connections_are_kept() -> None:
    large = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (3 * MAX_HEAD) + b"x" * (3 * MAX_HEAD)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for request, size in ((COMPLETE, 2), (large, 3 * MAX_HEAD), (COMPLETE, 2)):
            writer.write(request)
            await reader.readuntil(b"\r\n\r\n")
            assert len(await reader.readexactly(size)) == size

    talk_to_server(talk)


def test_requests_that_wait_for_an_earlier_answer_are_limited() -> None:  # H6
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answered, most = b"HTTP/1.1 200 OK", 1 + MAX_PIPELINED
        writer.write(COMPLETE * most)
        for _ in range(most):
            assert answered in await reader.readuntil(b"ab")
        writer.write(COMPLETE * (most + 1))
        assert b" 400 " not in await reader.read()  # which would be taken for the first answer

    talk_to_server(talk)


class Transport:
    """A connection from an address."""

    def __init__(self, address: str) -> None:
        self.address, self.open = address, True

    def get_extra_info(self, name: str) -> Any:
        return (self.address, 1) if name == "peername" else None

    def set_write_buffer_limits(self, _high: int) -> None:
        pass

    def abort(self) -> None:
        self.open = False


def test_connections_are_limited() -> None:  # H6
    async def run() -> None:
        config, state = configured(respond), ServerState()

        def connect(address: str) -> LimitedProtocol:
            made = limited(4)(config=config, server_state=state, app_state={})
            made.connection_made(Transport(address))
            return made

        first, second, third = (connect("10.0.0.1") for _ in range(3))
        assert (first.excess, second.excess, third.excess.status) == (None, None, 429)
        others = [connect(f"10.0.0.{i}") for i in (2, 3, 4)]
        assert [each.excess and each.excess.status for each in others] == [None, None, 503]
        for protocol in (first, third):
            protocol.connection_lost(ConnectionResetError())
        assert connect("10.0.0.1").excess is None
        surplus = [others[2], *(connect("10.0.0.5") for _ in range(MAX_SURPLUS + 1))]
        assert [each.transport.open for each in surplus[:2]] == [False, True]  # the oldest made room
        for protocol in tuple(state.connections):
            protocol.connection_lost(ConnectionResetError())

    asyncio.run(run())
