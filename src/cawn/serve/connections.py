"""Limits of a connection that uvicorn does not have: the size of a request's head, and the time to send a request."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MAX_HEAD = 64 << 10  # bytes of the request line and the headers
REQUEST_SECONDS = 60.0  # from the first byte of a request, or from the connection, to the last byte


class LimitedProtocol(HttpToolsProtocol):
    """Closes connections whose requests are not complete in time, so that they do not use up memory or descriptors."""

    _timer: asyncio.TimerHandle | None = None
    _in_head, _in_request, _head_bytes = True, True, 0

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._limit_time()

    def connection_lost(self, exc: Exception | None) -> None:
        self._in_request = False
        self._limit_time()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._head_bytes += len(data) if self._in_head else 0
        super().data_received(data)
        if self._in_head and self._head_bytes > MAX_HEAD:
            self.send_400_response("The head of the request is too large.")
        self._limit_time()

    def on_message_begin(self) -> None:
        self._in_request = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head, self._head_bytes = False, 0
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_request, self._in_head = False, True
        super().on_message_complete()

    def _limit_time(self) -> None:
        """Measure the time while a request is incomplete; most arrive at once."""
        if self._in_request and self._timer is None:
            self._timer = self.loop.call_later(REQUEST_SECONDS, self.transport.close)
        elif not self._in_request and self._timer is not None:
            self._timer.cancel()
            self._timer = None
