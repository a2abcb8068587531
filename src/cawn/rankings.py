"""Results of a predictor: lists and tuples that convert to tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cawn.data.names import Name

MAX_DRAWS = 1_000  # walk samples of a score


class Scores(NamedTuple):
    """Probabilities, and their standard errors over the walk samples: [B] each."""

    probability: npt.NDArray[np.float64]
    error: npt.NDArray[np.float64]


class NodeFacts(NamedTuple):
    """What the history has of a node."""

    known: bool
    links: int
    first: int | float | None  # times in the data's unit
    last: int | float | None
    recent: list[tuple[Name, Name, int | float]]  # source, destination and time, newest first


class Ranked(NamedTuple):
    """One candidate: `name, probability, found = ranked`.

    `found` is why it was a candidate: "recent", "two hops", "popular", "all" or "given".
    """

    name: Name
    probability: float
    found: str


class Ranking(list[Ranked]):
    """The most probable destinations of `node`, best first: a list of `Ranked` that converts to a table."""

    def __init__(self, node: Name, ranked: Iterable[Ranked]) -> None:
        super().__init__(ranked)
        self.node = node

    def __reduce__(self) -> tuple[Any, ...]:
        return Ranking, (self.node, list(self))

    def to_table(self) -> pa.Table:
        """Columns node, rank (from 1), candidate, probability and found."""
        return rankings_table([self])

    def _repr_html_(self) -> str:
        return html_table(self.to_table())


class Rankings(Iterator[Ranking]):
    """Rankings of many nodes, computed as they are asked for; `to_table` puts the remaining ones into one table."""

    def __init__(self, rankings: Iterable[Ranking]) -> None:
        self._rankings = iter(rankings)

    def __next__(self) -> Ranking:
        return next(self._rankings)

    def to_table(self) -> pa.Table:
        """Columns node, rank (from 1), candidate, probability and found; the rows of a node follow each other."""
        return rankings_table(self)


def rankings_table(rankings: Iterable[Ranking]) -> pa.Table:
    """Several rankings in one table, with the columns of `Ranking.to_table`."""
    node: list[Name] = []
    place: list[int] = []
    ranked: list[Ranked] = []
    for ranking in rankings:
        node += [ranking.node] * len(ranking)
        place += range(1, len(ranking) + 1)
        ranked += ranking
    columns = {
        "node": names_column(node),
        "rank": pa.array(place, pa.int32()),
        "candidate": names_column([each.name for each in ranked]),
        "probability": pa.array([each.probability for each in ranked], pa.float64()),
        "found": pa.array([each.found for each in ranked], pa.string()),
    }
    return pa.table(columns)


def names_column(names: list[Name]) -> pa.Array:
    """Names as int64 if all are integers that fit, else as text."""
    if names and all(isinstance(name, int) and -(2**63) <= name < 2**63 for name in names):
        return pa.array(names, pa.int64())
    return pa.array([str(name).encode("utf-8", "replace").decode() for name in names], pa.string())


def html_table(table: pa.Table, longest: int = 100) -> str:
    """For notebooks: the first rows of a table."""
    head = "".join(f"<th>{escape(name)}</th>" for name in table.column_names)
    rows = [
        "<tr>" + "".join(f"<td>{_cell(value)}</td>" for value in row.values()) + "</tr>"
        for row in table.slice(0, longest).to_pylist()
    ]
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


def _cell(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else escape(str(value))
