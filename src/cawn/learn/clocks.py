"""Clocks: which earlier links a test link may use.

strict    those at earlier times; simultaneous links do not see each other. The default, and the only clock of training.
event     those in earlier rows, even at the same time.
batch:N   those before the batch of N consecutive test links that contains it.

Clocks other than strict reproduce published protocols. They change the times of events: ties are separated by the
smallest steps of float64, in the order of rows. The time of a query then identifies a link, and a strict scorer on
these events follows the clock "event".
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.data.events import Events
from cawn.errors import QueryError, brief
from cawn.systems.base import PrefixScorer, Scorer

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Clock:
    """A clock, by its name."""

    name: str = "strict"

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not re.fullmatch(r"strict|event|batch:[1-9][0-9]{0,8}", self.name):
            raise QueryError(f"clock is {brief(self.name)}: give strict, event or batch:N, such as batch:200")

    @property
    def batch_size(self) -> int | None:
        """Test links per batch; None if there are no batches."""
        return int(self.name.removeprefix("batch:")) if self.name.startswith("batch:") else None

    def on(self, events: Events) -> Events:
        """The events with the times at which links are scored; unchanged for the strict clock."""
        return events if self.name == "strict" else events.replace(t=separated(events.t))

    def scorer(
        self, strict: Scorer, events: Events, first: int, make: Callable[[Events], Scorer] | None = None
    ) -> Scorer:
        """A scorer that follows the clock, for pairs at the times of test links.

        Args:
            strict: A scorer on the events.
            events: The result of `on`.
            first: Position of the first test link, where the first batch starts.
            make: Creates such a scorer on other events; needed if `strict` has no `score_after`.
        """
        size = self.batch_size
        return strict if size is None else BatchScorer(strict, events, first, size, make)


class BatchScorer:
    """Scores pairs at the time of a link, given the links before its batch."""

    def __init__(
        self, strict: Scorer, events: Events, first: int, size: int, make: Callable[[Events], Scorer] | None
    ) -> None:
        self._make, self._events, self._first, self._size = make, events, first, size
        self._newest = len(events), strict  # the most recent scorer, and the number of its links

    def __call__(self, src: Array, dst: Array, t: Array) -> Array:
        batch = (np.searchsorted(self._events.t, t) - self._first) // self._size
        visible = np.maximum(self._first + batch * self._size, 0)
        scorer = self._newest[1]
        if isinstance(scorer, PrefixScorer):
            return scorer.score_after(src, dst, t, visible)
        bounds = [*np.flatnonzero(np.diff(visible, prepend=-1)), len(src)]
        parts = [slice(start, end) for start, end in pairwise(bounds)]
        found = [self._scorer_before(int(visible[part.start]))(src[part], dst[part], t[part]) for part in parts]
        return np.concatenate(found) if found else np.empty(0)

    def _scorer_before(self, count: int) -> Scorer:
        """A scorer given the first `count` links."""
        if self._newest[0] != count:
            assert self._make is not None
            self._newest = count, self._make(self._events[:count])
        return self._newest[1]


def separated(t: Array) -> npt.NDArray[np.float64]:
    """Ascending times as strictly ascending float64; ties are replaced by the next larger numbers."""
    bits = t.astype(np.float64).view(np.int64)
    place = np.where(bits >= 0, bits, np.iinfo(np.int64).min - bits)  # of each time among all float64 numbers
    step = np.arange(len(t))
    place = np.maximum.accumulate(place - step) + step
    return np.where(place >= 0, place, np.iinfo(np.int64).min - place).view(np.float64)
