"""What is asked about the pairs or nodes of one file: a job can compute any range of its rows, in chunks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from cawn.data.names import Name
from cawn.data.readers.dialect import Dialect
from cawn.data.readers.files import File
from cawn.data.readers.query_files import NodeFile, PairFile
from cawn.data.readers.tables import Origin, TableColumn
from cawn.data.reading import Layout
from cawn.errors import DataError, QueryError
from cawn.learn.calibration import FITTED_PRIOR
from cawn.rankings import Scores, rankings_table
from cawn.walks.candidates import KINDS

if TYPE_CHECKING:
    from cawn.predictor import LinkPredictor

ROWS = 1 << 14  # pairs in a chunk
NODES = 128  # nodes in a chunk


class RowCounts(NamedTuple):
    """The number of pairs or nodes, and of those with a name that is not in the network."""

    size: int
    unknown: int

    def plus(self, other: RowCounts) -> RowCounts:
        return RowCounts(self.size + other.size, self.unknown + other.unknown)


Part = tuple[pa.Table, RowCounts]  # consecutive rows of the output


class QueryJob(Protocol):
    """Queries for a predictor. Jobs with the same repr compute the same results."""

    @property
    def path(self) -> File | None:
        """The file, if there is one."""

    @property
    def dialect(self) -> Dialect | None:
        """The dialect of text output; None for plain CSV."""

    @property
    def chunk(self) -> int:
        """The number of pairs or nodes that are computed together."""

    def options(self) -> dict[str, Any]:
        """The options, in human-readable form."""

    def num_rows(self, predictor: LinkPredictor) -> int | None:
        """About how many pairs or nodes there are, if that is quickly known."""

    def run(self, predictor: LinkPredictor, first: int = 0, stop: int | None = None) -> Iterator[Part]:
        """The results of rows `first` to `stop` (exclusive; None: all), one chunk after another."""


@dataclass(frozen=True, slots=True)
class PairJob:
    """Adds the probability of every pair of a file to its columns."""

    pairs: PairFile
    at: Any  # one time for all pairs, or None if the file has a column of times
    prior: float
    draws: int | None
    chunk: int = field(default_factory=lambda: ROWS)

    @property
    def path(self) -> File:
        return self.pairs.path

    @property
    def dialect(self) -> Dialect | None:
        return self.pairs.rows.dialect

    def options(self) -> dict[str, Any]:
        layout, names = self.pairs.layout, self.pairs.rows.names
        time = {"time": names[layout.time]} if self.pairs.has_time else {"at": str(self.at)}
        asked = {"prior": self.prior, "draws": self.draws, "chunk": self.chunk}
        return {"src": names[layout.src], "dst": names[layout.dst]} | time | asked

    def num_rows(self, predictor: LinkPredictor) -> int | None:
        return self.pairs.num_rows()

    def run(self, predictor: LinkPredictor, first: int = 0, stop: int | None = None) -> Iterator[Part]:
        for rows in self.pairs.chunks(self.chunk, first, stop):
            origin = self.pairs.rows.origin(first)
            yield score_rows(predictor, rows, self.pairs.layout, origin, self.at, self.prior, self.draws)
            first += len(rows)


def score_rows(
    predictor: LinkPredictor,
    rows: pa.Table,
    layout: Layout,
    origin: Origin,
    at: Any = None,
    prior: float = FITTED_PRIOR,
    draws: int | None = None,
) -> Part:
    """The rows with columns of scores; a column that has such a name already is kept.

    Args:
        origin: For messages about rows.
        at: One time for all pairs; None if there is a column of times.
    """
    src, dst = (TableColumn.at(rows, i, origin).names().to_pylist() for i in (layout.src, layout.dst))
    t = TableColumn.at(rows, layout.time, origin).times() if at is None else at
    try:
        scores = predictor.score(src, dst, t, prior=prior, draws=draws)
    except QueryError as error:
        raise error if at is not None else QueryError(f"{origin.name}: {error}") from error
    counts = RowCounts(len(rows), predictor.snapshot().count_unknown(src, dst))
    for name, values in (scores._asdict() if isinstance(scores, Scores) else {"probability": scores}).items():
        while name in rows.column_names:
            name = f"cawn_{name}"
        rows = rows.append_column(name, pa.array(np.ascontiguousarray(values)))
    return rows, counts


@dataclass(frozen=True, slots=True)
class NodeJob:
    """Ranks the most probable destinations of every node of a file, or of all nodes, at one time."""

    nodes: NodeFile | None  # None: all
    at: Any
    k: int = 10
    candidates: Any = None
    kinds: tuple[str, ...] = KINDS
    prior: float = FITTED_PRIOR
    chunk: int = field(default_factory=lambda: NODES)
    dialect: Dialect | None = field(default=None, init=False)

    @property
    def path(self) -> File | None:
        return None if self.nodes is None else self.nodes.path

    def options(self) -> dict[str, Any]:
        given = self.candidates if isinstance(self.candidates, str | None) else f"{len(self.candidates):,} names"
        asked = {"at": str(self.at), "k": self.k, "candidates": given, "kinds": list(self.kinds)}
        return asked | {"prior": self.prior, "chunk": self.chunk}

    def num_rows(self, predictor: LinkPredictor) -> int | None:
        return predictor.num_nodes if self.nodes is None else self.nodes.num_rows()

    def run(self, predictor: LinkPredictor, first: int = 0, stop: int | None = None) -> Iterator[Part]:
        for names in self._chunks(predictor, first, stop):
            yield self.rank(predictor, names)

    def rank(self, predictor: LinkPredictor, names: list[Name]) -> Part:
        """The rankings of these nodes."""
        rankings = predictor.rank_many(
            names, self.at, self.k, candidates=self.candidates, kinds=self.kinds, prior=self.prior
        )
        unknown = sum(not predictor.knows(name) for name in names)
        return rankings_table(rankings), RowCounts(len(names), unknown)

    def _chunks(self, predictor: LinkPredictor, first: int, stop: int | None) -> Iterator[list[Name]]:
        if self.nodes is not None:
            yield from self.nodes.name_chunks(self.chunk, first, stop)
            return
        stop = predictor.num_nodes if stop is None else min(stop, predictor.num_nodes)
        for i in range(first, stop, self.chunk):
            yield list(map(predictor.snapshot().name, range(i, min(i + self.chunk, stop))))


def file_version(path: File | None) -> list[int]:
    """Size and modification time of a file, by which a change is noticed."""
    if path is None:
        return []
    found = os.stat(path)
    return [found.st_size, found.st_mtime_ns]


def refuse_changed(path: File | None, version: list[int]) -> None:
    """Raise if a file has changed."""
    if file_version(path) != version:
        raise DataError(f"{path}: changed while it was being read; start again")


def one_schema(schemas: list[pa.Schema]) -> pa.Schema:
    """One schema for all parts: a column of node names is text unless all names are integers."""
    first, *others = schemas
    for other in others:
        for i, column in enumerate(first):
            if column.type != other.field(i).type:
                first = first.set(i, column.with_type(_common_type(column.type, other.field(i).type)))
    return first


def _common_type(a: pa.DataType, b: pa.DataType) -> pa.DataType:
    """A type for the values of both: of JSON, one part may have only integers or nulls where another has fractions."""
    for this, other in ((a, b), (b, a)):
        if pa.types.is_null(this):
            return other
        if pa.types.is_integer(this) and pa.types.is_floating(other):
            return other
    return pa.string()
