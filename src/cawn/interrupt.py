"""Ctrl-C that takes effect only between two steps, so that no step is cut short."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class Interrupted(KeyboardInterrupt):
    """Raised by `Interrupt.check` once Ctrl-C was pressed."""


class Interrupt:
    """While entered, defers Ctrl-C until `check` is called; a second Ctrl-C takes effect at once."""

    def __init__(self) -> None:
        self.asked = False
        self._previous: Any = None

    def __enter__(self) -> Interrupt:
        if threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGINT, self._defer)
        return self

    def __exit__(self, *_: object) -> None:
        if self._previous is not None:
            signal.signal(signal.SIGINT, self._previous)
            self._previous = None

    def _defer(self, _signal: int, _frame: FrameType | None) -> None:
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True

    def check(self) -> None:
        if self.asked:
            self.asked = False
            raise Interrupted
