"""What is doubtful about a question: unknown names, times far from the data, too many candidates."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from cawn.data.names import Name
from cawn.errors import brief
from cawn.serve.problems import Problem
from cawn.serve.requests import MAX_CANDIDATES, Time

_SHOWN = 5  # unknown names in an error
_COLLECTING = threading.Lock()


class Doubts(NamedTuple):
    """Names that the network does not know (U6), and what the predictor says about times far from the data (U2)."""

    unknown: list[Name]
    warnings: list[str]


def find_doubts(predictor: Any, src: list[Name], dst: list[Name], times: Sequence[Time], strict: bool) -> Doubts:
    """The doubts about a question; if it is strict, unknown names are refused. Too slow for the event loop."""
    unknown: list[Name] = []
    if predictor.num_unknown(src, dst):  # much faster than asking for each name
        unknown = [name for name in dict.fromkeys([*src, *dst]) if not predictor.knows(name)]
    if strict and unknown:
        listed = ", ".join(map(brief, unknown[:_SHOWN])) + (", ..." if len(unknown) > _SHOWN else "")
        raise Problem("invalid", f"the network does not know {len(unknown):,} of the names: {listed}")
    with _collected_warnings() as found:
        for kind in (int | float, str):
            given: list[Any] = [t for t in times if isinstance(t, kind)]
            for t in {min(given), max(given)} if given else ():
                predictor.rank_many([], t)  # for no source: only the time is checked
    return Doubts(unknown, found)


def check_destinations(predictor: Any) -> None:
    """Refuse to rank all destinations if there are more than a request may name (H11)."""
    if predictor.num_nodes > MAX_CANDIDATES and (found := len(predictor.nodes("dst"))) > MAX_CANDIDATES:
        what = f'candidates is "all", and there are {found:,} destinations'
        raise Problem("invalid", f"{what}: name at most {MAX_CANDIDATES:,} of them, or leave it out")


@contextmanager
def _collected_warnings() -> Iterator[list[str]]:
    """The warnings of this thread. Those of others are dropped in the meantime."""
    found: list[str] = []
    thread = threading.get_ident()

    def collect(message: Warning | str, *_: Any) -> None:
        if threading.get_ident() == thread:
            found.append(str(message))

    with _COLLECTING, warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = collect  # type: ignore[assignment]
        yield found
