"""Retention: links that are too old, or too many, are removed while the service runs."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Callable
from threading import Event, Thread
from typing import Any, NamedTuple

import numpy as np

from cawn.data.times import PER_SECOND
from cawn.errors import CawnError, QueryError, brief
from cawn.predictor import LinkPredictor

INTERVAL = 60.0  # seconds between two looks
LEAST_SHARE = 0.02  # of the links: removing links indexes the others again, so a few wait for more
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?(?:e\d+)?)\s*(s|m|h|d|links)?", re.ASCII)
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}

_logger = logging.getLogger(__name__)


class Retention(NamedTuple):
    """What is kept: a number of links, or those of an age before the newest one."""

    amount: float
    unit: str | None  # "links", a unit of time in `_SECONDS`, or None for that of the data

    @classmethod
    def parse(cls, text: str) -> Retention:
        """ "90d", "12h", "5000000 links", or a number in the data's unit of time."""
        found = _AMOUNT.fullmatch(text.strip())
        if found is None or not 0 < float(found[1]) < math.inf:
            raise QueryError(f"--retain is {brief(text)}: give an age such as 90d, or a number such as '5e6 links'")
        return cls(float(found[1]), found[2])

    def removal(self, predictor: LinkPredictor) -> dict[str, Any]:
        """The arguments of `LinkPredictor.reduce` that remove what is not kept; empty if that is little."""
        state = predictor.snapshot()
        t, form = state.events.t, state.model.form.times
        if self.unit == "links":
            return {"links": int(self.amount)} if len(t) * (1 - LEAST_SHARE) > self.amount else {}
        if self.unit is not None and not form.dates:
            raise QueryError("--retain: the times of this run are plain numbers: give an age in their unit")
        if not len(t):
            return {}
        ticks = 1 if self.unit is None else _SECONDS[self.unit] * PER_SECOND[form.unit]
        since = t[-1] - np.asarray(self.amount * ticks, t.dtype)
        return {"since": since} if np.searchsorted(t, since) > LEAST_SHARE * len(t) else {}


class Keeper:
    """Removes links in the background.

    Args:
        remove: Removes the links that `LinkPredictor.reduce` would leave out, durably; returns their number.
    """

    def __init__(self, retention: Retention, predictor: LinkPredictor, remove: Callable[..., int]) -> None:
        self._retention, self._predictor, self._remove = retention, predictor, remove
        self._stopping = Event()
        self._thread = Thread(target=self._run, name="retention", daemon=True)

    def start(self) -> None:
        """Remove what is not kept, and start the thread."""
        self.apply()
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()

    def apply(self) -> int:
        """Remove what is not kept, unless it is little; returns the number of links."""
        chosen = self._retention.removal(self._predictor)
        removed = self._remove(**chosen) if chosen else 0
        if removed:
            _logger.info("%d links were removed: they are older than what is retained", removed)
        return removed

    def _run(self) -> None:
        while not self._stopping.wait(INTERVAL):
            try:
                self.apply()
            except CawnError as error:
                _logger.error("links could not be removed: %s", error)
