"""The state of a system after any number of links, for systems that follow the stream."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from threading import RLock
from typing import Generic, TypeVar

State = TypeVar("State")


class Replay(Generic[State]):
    """Replays a stream: the state after its first n links; ascending values of n cost one pass in total.

    For an n smaller than before, it restarts from the nearest earlier copy; a few evenly spaced copies are kept.

    Args:
        new: Creates the state before the first link.
        advance: Updates a state in place with the links first..last.
        length: The number of links.
        copies: How many copies to keep.
    """

    def __init__(
        self, new: Callable[[], State], advance: Callable[[State, int, int], None], length: int, copies: int = 8
    ) -> None:
        self._new, self._advance = new, advance
        self._interval = max(-(-length // copies), 1)
        self._position, self._state, self._kept = 0, new(), dict[int, State]()
        self.lock = RLock()  # to be held while a state is used

    def after(self, count: int) -> State:
        """The state after the first `count` links, valid until the next call; the caller holds the lock."""
        if count < self._position:
            start = max((at for at in self._kept if at <= count), default=0)
            self._position, self._state = start, deepcopy(self._kept[start]) if start else self._new()
        while self._position < count:
            stop = min((self._position // self._interval + 1) * self._interval, count)
            self._advance(self._state, self._position, stop)
            self._position = stop
            if stop % self._interval == 0 and stop not in self._kept:
                self._kept[stop] = deepcopy(self._state)
        return self._state
