"""Results of other threads, which wake the event loop once for all that are there at a time."""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

T = TypeVar("T")


class PendingResults:
    """Waits for results: `asyncio.wrap_future` for many of them."""

    def __init__(self) -> None:
        self._ready: deque[asyncio.Future[None]] = deque()
        self._woken = False

    async def __call__(self, future: Future[T]) -> T:
        """The result, once it is there; if the caller is cancelled, so is the future."""
        loop = asyncio.get_running_loop()
        waiting = loop.create_future()
        future.add_done_callback(partial(self._add, loop, waiting))
        try:
            await waiting
        except asyncio.CancelledError:
            future.cancel()
            raise
        return future.result()

    def _add(self, loop: Any, waiting: asyncio.Future[None], _: object) -> None:
        self._ready.append(waiting)
        if not self._woken:
            self._woken = True
            with suppress(RuntimeError):  # the loop was closed
                loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._woken = False  # before the others are taken: whoever adds one now wakes the loop again
        while self._ready:
            waiting = self._ready.popleft()
            if not waiting.done():
                waiting.set_result(None)
