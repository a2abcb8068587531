"""Which entries of a Redis stream have been written: ranges of entry ids.

An entry id is a pair of integers, written `1700000000000-3`. Ids only grow along a stream, and no entry is ever added
between two others, so a range that covered all its entries once covers them forever.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import pairwise

from cawn.serve.sources import Position, format_position

START: Position = (0, 0)


def parse_id(text: str | bytes) -> Position:
    first, _, second = (text.decode() if isinstance(text, bytes) else text).partition("-")
    return int(first), int(second or 0)


class Ranges:
    """A set of entry ids: disjoint closed ranges in ascending order. It always includes 0-0, which no entry has."""

    def __init__(self, ranges: Iterable[tuple[Position, Position]] = ()) -> None:
        self._first, self._last = [START], [START]
        for first, last in ranges:
            self.add(first, last)

    @classmethod
    def parse(cls, text: str) -> Ranges:
        """The inverse of `str`."""
        pairs = (part.split(":") for part in text.split(",") if part)
        return cls((parse_id(pair[0]), parse_id(pair[-1])) for pair in pairs)

    def __str__(self) -> str:
        return ",".join(f"{format_position(first)}:{format_position(last)}" for first, last in self)

    def __iter__(self) -> Iterator[tuple[Position, Position]]:
        return zip(self._first, self._last, strict=True)

    def __contains__(self, entry: Position) -> bool:
        return entry <= self._last[bisect_right(self._first, entry) - 1]

    @property
    def last(self) -> Position:
        """The newest id in the set."""
        return self._last[-1]

    @property
    def head(self) -> Position:
        """The end of the first range: everything up to it is in the set."""
        return self._last[0]

    def add(self, first: Position, last: Position) -> None:
        """Add all ids from `first` to `last`, both included."""
        at = bisect_right(self._first, first) - 1
        start = at if self._last[at] >= first else at + 1
        end = bisect_right(self._first, last)
        if start < end:
            first, last = min(first, self._first[start]), max(last, self._last[end - 1])
        self._first[start:end], self._last[start:end] = [first], [last]

    def gaps(self) -> list[tuple[Position, Position]]:
        """The ends of the missing ranges, neither of which is missing."""
        return [(before[1], after[0]) for before, after in pairwise(self)]

    def copy(self) -> Ranges:
        found = Ranges()
        found._first, found._last = self._first.copy(), self._last.copy()
        return found
