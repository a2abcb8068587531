"""Bodies of requests: read within limits, and parsed, large ones in another thread (H13)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import Executor
from typing import Any

from starlette.requests import ClientDisconnect, Request

from cawn.serve.problems import Problem
from cawn.serve.requests import Body
from cawn.serve.schema import parse

MAX_BODY = 8 << 20  # bytes
MAX_IN_TRANSIT = 64 << 20  # bytes of all bodies that are arriving or being parsed
LARGE = 64 << 10
BODY_SECONDS = 30.0  # for a body to arrive


class Bodies:
    """Reads the bodies of concurrent requests."""

    def __init__(self, threads: Executor, most: int = MAX_BODY, in_transit: int = MAX_IN_TRANSIT) -> None:
        self._threads, self._most, self._room, self._in_transit = threads, most, max(in_transit, most), 0

    async def read(self, request: Request, forms: Sequence[type[Body]]) -> Any:
        """What the body asks; its type, size and content are checked (400, 408, 413, 415, 422, 429)."""
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise Problem("media-type", "send the body as JSON, with the header 'Content-Type: application/json'")
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            raise Problem("media-type", "send the body without compression")
        length = request.headers.get("content-length", "")
        self._check_size(int(length[:20]) if length.isascii() and length.isdigit() else 0)
        body = bytearray()
        try:
            async with asyncio.timeout(BODY_SECONDS):
                async for part in _parts(request):
                    body += part
                    self._in_transit += len(part)
                    self._check_size(len(body))
            if len(body) <= LARGE:
                return parse(body, forms)
            return await asyncio.get_running_loop().run_in_executor(self._threads, parse, body, forms)
        except TimeoutError:
            raise Problem("timeout", f"the body did not arrive within {BODY_SECONDS:.0f} seconds") from None
        finally:
            self._in_transit -= len(body)

    def _check_size(self, size: int) -> None:
        close = {"Connection": "close"}  # the rest is not read
        if size > self._most:
            raise Problem("too-large", f"the body has more than {self._most:,} bytes; send it in parts", close)
        if size > LARGE and self._in_transit > self._room:
            found = f"bodies of {self._in_transit:,} bytes are being read"
            raise Problem("overloaded", f"{found}; send at most {LARGE:,} bytes, or try again later", close)


async def _parts(request: Request) -> AsyncIterator[bytes]:
    more = True
    while more:
        message = await request.receive()
        if message["type"] != "http.request":
            raise ClientDisconnect
        more = message.get("more_body", False)
        yield message.get("body", b"")
