"""Ctrl-C that takes effect only between two steps, so that no step is cut short."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class Interrupted(KeyboardInterrupt):
    """Ctrl-C was pressed, and the step it came in has ended."""


class Interrupt:
    """While entered, Ctrl-C sets `asked` for `check` or the caller to act on; a second one takes effect at once."""

    def __init__(self) -> None:
        self.asked = False
        self._previous: Any = None

    def __enter__(self) -> Interrupt:
        self.asked = False
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
