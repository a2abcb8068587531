"""Protocols: which links are tested, against which negatives, and how results are averaged.

strict       our own: pooled metrics, negatives of the same source
tgb[:N]      Temporal Graph Benchmark: ranks among N destinations, or among all
dyglib       the library DyGLib: hidden nodes, means over batches of 200, negatives that may replace the source
paper        the CAW-N paper's code: random negatives, means over batches of 30
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from cawn.errors import QueryError, StorageError, brief

NAMES = ("strict", "tgb", "dyglib", "paper")


class Rules(NamedTuple):
    """What a protocol fixes, besides its split."""

    kinds: tuple[str, ...]  # of negatives
    batches: tuple[int, ...]  # numbers of links that metrics are averaged over
    inductive: str = ""  # why there is no inductive task; empty if there is one


RULES = {
    "strict": Rules(("random", "historical", "inductive"), (30,)),
    "tgb": Rules((), (), "has no inductive task"),
    "dyglib": Rules(
        ("random", "historical pairs", "inductive pairs"), (30, 200), "has both transductive and inductive test links"
    ),
    "paper": Rules(("random",), (30,)),
}


def check_protocol(name: Any) -> str:
    """The protocol of this name; raises QueryError if there is none."""
    if isinstance(name, str) and (name in NAMES or re.fullmatch(r"tgb:[1-9][0-9]{0,8}", name)):
        return name
    raise QueryError(f"protocol is {brief(name)}: give strict, tgb, tgb:N (candidates per link), dyglib or paper")


def recorded_protocol(description: dict[str, Any]) -> str:
    """The protocol of a run, from its run.json."""
    try:
        return check_protocol(description.get("protocol") or "strict")
    except QueryError as error:
        raise StorageError(f"run.json: damaged ({error}); the run must be trained again") from error


def rules_of(protocol: str) -> Rules:
    """The rules of a protocol, by its name."""
    return RULES[protocol.partition(":")[0]]


def is_tgb(protocol: str) -> bool:
    """Whether links are ranked by TGB's rule."""
    return protocol.startswith("tgb")


def candidates_per_link(protocol: str) -> int | None:
    """The number of candidates in the name of TGB's protocol; None if it has none."""
    _, _, number = protocol.partition(":")
    return int(number) if number else None
