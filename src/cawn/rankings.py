"""Results of a predictor: lists and tuples that convert to tables."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cawn.data.names import Name


class Scores(NamedTuple):
    """Probabilities, and their standard errors over the walk samples: [B] each."""

    probability: npt.NDArray[np.float64]
    error: npt.NDArray[np.float64]


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


def rankings_table(rankings: list[Ranking]) -> pa.Table:
    """Several rankings in one table, with the columns of `Ranking.to_table`."""
    rows = [(ranking.node, place, *ranked) for ranking in rankings for place, ranked in enumerate(ranking, start=1)]
    node, place, name, probability, found = map(list, zip(*rows, strict=True)) if rows else ([], [], [], [], [])
    columns = {
        "node": names_column(node),
        "rank": pa.array(place, pa.int32()),
        "candidate": names_column(name),
        "probability": pa.array(probability, pa.float64()),
        "found": pa.array(found, pa.string()),
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
