"""Ctrl-C that takes effect only between two steps, so that no step is cut short."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class Interrupted(KeyboardInterrupt):
    """Ctrl-C was pressed, and the step it came in has ended."""


class Interrupt:
    """While entered, Ctrl-C sets `asked` for `check` or the caller to act on; a second one takes effect at once.

    Args:
        terminate: Whether SIGTERM does the same, except that a second one has no effect.
    """

    def __init__(self, *, terminate: bool = False) -> None:
        self.asked = False
        self._signals = (signal.SIGINT, signal.SIGTERM) if terminate else (signal.SIGINT,)
        self._previous: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Interrupt:
        self.asked = False
        if threading.current_thread() is threading.main_thread():
            self._previous = {number: signal.signal(number, self._defer) for number in self._signals}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous = {}

    def _defer(self, number: int, _frame: FrameType | None) -> None:
        if self.asked and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.asked = True

    def check(self) -> None:
        if self.asked:
            self.asked = False
            raise Interrupted
