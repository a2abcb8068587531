"""Limits of connections that uvicorn does not have: their number, and what each may take in memory and time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from cawn.serve.bodies import COMPLETE
from cawn.serve.problems import Problem

MAX_CONNECTIONS = 800  # fewer than the 1,024 descriptors that a process usually has
MAX_SURPLUS = 100  # further connections, which are told that there are too many
MAX_HEAD = 64 << 10  # bytes of the request line and the headers
MAX_PIPELINED = 16  # requests that wait for the answer to an earlier one
CLIENT_SECONDS = 60.0  # for a client to send the rest of a request, or to read the rest of an answer
EXCESS = "cawn.excess"  # in the scope of a request: the problem that there are too many connections


def limited(most: int = MAX_CONNECTIONS) -> Callable[..., LimitedProtocol]:
    """The protocol of a server that has so many connections at most, half of them to one address (H6)."""
    return partial(LimitedProtocol, most)


class LimitedProtocol(HttpToolsProtocol):
    """A connection, which is closed if its client does not send or read in time."""

    _numbers = count()  # of connections, in the order in which they were opened
    _timer: asyncio.TimerHandle | None = None
    _in_head, _in_request, _head_bytes = True, True, 0
    excess: Problem | None = None

    def __init__(self, most: int, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._most, self.number = most, next(self._numbers)

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.set_write_buffer_limits(0)  # `pause_writing` is called whenever a client does not take everything
        self.excess = self._count()
        self._limit_time()

    def _count(self) -> Problem | None:
        """The problem that there are too many connections; the oldest of those beyond the limits make room for this."""
        others: Any = self.connections - {self}
        surplus = sorted((each for each in others if each.excess is not None), key=lambda each: each.number)
        for oldest in surplus[:-MAX_SURPLUS]:
            oldest.transport.abort()
        admitted = [_address(each) for each in others if each.excess is None]
        if (same := admitted.count(_address(self))) >= max(self._most // 2, 1):
            return Problem("overloaded", f"there are {same:,} connections to your address; close some or try later")
        if len(admitted) >= self._most:
            return Problem("unavailable", f"there are {len(admitted):,} connections; try again later")
        return None

    def connection_lost(self, exc: Exception | None) -> None:
        self._in_request = False
        super().connection_lost(exc)  # which resumes writing
        self._limit_time()

    def data_received(self, data: bytes) -> None:
        self._head_bytes += len(data) if self._in_head else 0
        super().data_received(data)
        if self._in_head and self._head_bytes > MAX_HEAD:
            self.send_400_response("The head of the request is too large.")
        self._limit_time()

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= MAX_PIPELINED:
            raise httptools.HttpParserError("too many requests before an answer")
        self._in_request = True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head, self._head_bytes = False, 0
        super().on_headers_complete()
        if self.excess is not None:
            self.scope[EXCESS] = self.excess  # type: ignore[literal-required]
            self.cycle.keep_alive = False

    def on_message_complete(self) -> None:
        self._in_request, self._in_head = False, True
        self.scope[COMPLETE] = True  # type: ignore[literal-required]
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP, unless the client would take this for the answer to an earlier request (H12)."""
        unanswered = self.cycle is not None and not self.cycle.response_complete
        if self.pipeline or (unanswered and self._in_head):
            self.transport.close()
        else:
            super().send_400_response(msg)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._limit_time()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._limit_time()

    def _limit_time(self) -> None:
        """Measure the time while the client has to do something; most do it at once."""
        waiting = self._in_request or self.flow.write_paused
        if waiting and self._timer is None:
            self._timer = self.loop.call_later(
                CLIENT_SECONDS, self.transport.abort
            )  # `close` would wait for the client
        elif not waiting and self._timer is not None:
            self._timer.cancel()
            self._timer = None


def _address(connection: LimitedProtocol) -> str:
    return connection.client[0] if connection.client else ""
