"""What is doubtful about a question: unknown names, times far from the data, too many candidates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from cawn.data.names import Name
from cawn.data.times import describe_far
from cawn.serve.problems import Problem
from cawn.serve.requests import MAX_CANDIDATES, Time
from cawn.snapshot import Snapshot


class Doubts(NamedTuple):
    """Names that the network does not know, and what is unlikely about the times."""

    unknown: list[Name]
    warnings: list[str]


def find_doubts(state: Snapshot, src: list[Name], dst: list[Name], times: Sequence[Time], strict: bool) -> Doubts:
    """The doubts about a question; if it is strict, unknown names are refused."""
    if strict:
        state.refuse_unknown(src, dst)
    form, held = state.model.form.times, state.events.t
    parsed = form.parse(list(times))
    far = describe_far(parsed, held, form) if parsed.size and held.size else ""
    return Doubts(state.unknown(src, dst), [far] if far else [])


def check_destinations(predictor: Any) -> None:
    """Refuse to rank all destinations if there are more than a request may name."""
    if predictor.num_nodes > MAX_CANDIDATES and (found := len(predictor.nodes("dst"))) > MAX_CANDIDATES:
        what = f'candidates is "all", and there are {found:,} destinations'
        raise Problem("invalid", f"{what}: name at most {MAX_CANDIDATES:,} of them, or leave it out")
