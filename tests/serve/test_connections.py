"""Requests that do not end: their connections are closed."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
import uvicorn
from uvicorn.server import ServerState

from cawn.serve import connections
from cawn.serve.connections import MAX_HEAD, LimitedProtocol

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


def talk_to_server(talk: Talk) -> None:
    async def run() -> None:
        config = uvicorn.Config(respond, http=LimitedProtocol, ws="none", lifespan="off", log_config=None)
        config.load()
        made = lambda: LimitedProtocol(config=config, server_state=ServerState(), app_state={})  # noqa: E731
        async with await asyncio.get_running_loop().create_server(made, "127.0.0.1", 0) as server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            await talk(reader, writer)
            writer.close()

    asyncio.run(run())


def test_large_heads_are_refused() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"GET / HTTP/1.1\r\n" + b"X: " + b"x" * MAX_HEAD)
        found = await reader.read()
        assert found.startswith(b"HTTP/1.1 400 ")
        assert found.endswith(b"The head of the request is too large.")

    talk_to_server(talk)


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: loc", COMPLETE[:-1], COMPLETE + COMPLETE[:-1]])
def test_slow_requests_are_given_up(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "REQUEST_SECONDS", 0.05)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(sent)
        assert (await reader.read()).count(b"200 OK") == sent.count(COMPLETE)

    talk_to_server(talk)


def test_bodies_may_be_larger_than_heads_and_connections_are_kept() -> None:
    large = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (3 * MAX_HEAD) + b"x" * (3 * MAX_HEAD)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for request, size in ((COMPLETE, 2), (large, 3 * MAX_HEAD), (COMPLETE, 2)):
            writer.write(request)
            await reader.readuntil(b"\r\n\r\n")
            assert len(await reader.readexactly(size)) == size

    talk_to_server(talk)
