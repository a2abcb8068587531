"""Ctrl-C and SIGTERM that take effect only between two steps, so that no step is cut short."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import FrameType
from typing import Any


class Interrupted(KeyboardInterrupt):
    """Ctrl-C was pressed, and the step it came in has ended."""


@contextmanager
def handling(handler: Callable[[int, FrameType | None], Any], *, ctrl_c: bool = True) -> Iterator[None]:
    """Within, SIGTERM, unless the program handles it, and Ctrl-C call this function, if this is the main thread."""
    previous: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        own = signal.getsignal(signal.SIGTERM) not in (signal.SIG_DFL, signal.default_int_handler)
        numbers = [signal.SIGINT] * ctrl_c + [signal.SIGTERM] * (not own)
        previous = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, before in previous.items():
            signal.signal(number, before)


def terminable() -> AbstractContextManager[None]:
    """Within, SIGTERM raises KeyboardInterrupt, as Ctrl-C does."""
    return handling(signal.default_int_handler, ctrl_c=False)


class Interrupt:
    """While entered, Ctrl-C or SIGTERM sets `asked` for `check` or the caller to act on.

    A second Ctrl-C takes effect at once.
    """

    def __init__(self) -> None:
        self.asked = False

    def __enter__(self) -> Interrupt:
        self.asked = False
        self._stack = ExitStack()
        self._stack.enter_context(handling(self._defer))
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _defer(self, number: int, _frame: FrameType | None) -> None:
        if self.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = True

    def check(self) -> None:
        if self.asked:
            self.asked = False
            raise Interrupted
