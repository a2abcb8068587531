"""Answers for a whole file of questions: in its order, in constant memory, continued where they were interrupted.

`cawn predict` scores a file of pairs, `cawn rank --nodes` ranks for a file of nodes. Answers are kept in pieces in a
folder beside the output, OUT.*.parts, as they come. When all are there, the output is written in one step and the
folder removed. An interrupted command leaves the folder, and goes on from there when it is given again.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from csv import writer as csv_writer
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import csv

from cawn.data.names import Name
from cawn.data.readers.dialect import Dialect
from cawn.data.readers.files import File
from cawn.data.readers.query_files import NodeFile, PairFile
from cawn.data.readers.tables import TableColumn
from cawn.errors import CawnError, DataError, QueryError, StorageError
from cawn.files import write_atomically
from cawn.predictor import LinkPredictor
from cawn.rankings import Scores, rankings_table
from cawn.walks.candidates import KINDS

ROWS = 1 << 14  # pairs in a piece
NODES = 128  # nodes in a piece
_COUNTS = b"cawn"  # key of a piece's metadata


class Piece(NamedTuple):
    """Answers to some consecutive questions."""

    table: pa.Table
    size: int  # questions
    unknown: int  # of them, those that name a node which is not in the network


class Done(NamedTuple):
    """How many questions were answered, and how many of them name a node that is not in the network."""

    size: int
    unknown: int


class Questions(Protocol):
    """A file of questions to a predictor. Its repr says what is asked, so that only the same is continued."""

    @property
    def path(self) -> File | None:
        """The file, if there is one."""

    @property
    def dialect(self) -> Dialect | None:
        """How text that is written should look; None for CSV."""

    def answers(self, predictor: LinkPredictor, first: int = 0) -> Iterator[Piece]:
        """The answers from piece `first` on."""

    def tables(self, answers: Iterator[pa.Table], schema: pa.Schema | None) -> Iterator[pa.Table]:
        """What to write for these answers, all pieces in order; `schema` is one that fits all of them."""


@dataclass(frozen=True, slots=True)
class PairQuestions:
    """The probability of every pair of a file, in new columns beside its own."""

    pairs: PairFile
    at: Any  # one time for all pairs, or None where the file has a column of times
    prior: float
    draws: int | None

    @property
    def path(self) -> File:
        return self.pairs.path

    @property
    def dialect(self) -> Dialect | None:
        return self.pairs.dialect

    def answers(self, predictor: LinkPredictor, first: int = 0) -> Iterator[Piece]:
        for i, rows in enumerate(self.pairs.chunks(ROWS)):
            if i >= first:
                yield self._answer(predictor, rows, i * ROWS)

    def tables(self, answers: Iterator[pa.Table], schema: pa.Schema | None) -> Iterator[pa.Table]:
        for rows, answer in zip(self.pairs.chunks(ROWS), answers, strict=True):
            yield _beside(rows, answer)

    def _answer(self, predictor: LinkPredictor, rows: pa.Table, first_row: int) -> Piece:
        layout, origin = self.pairs.layout, self.pairs.origin(first_row)
        src, dst = (TableColumn.at(rows, i, origin).names().to_pylist() for i in (layout.src, layout.dst))
        t = TableColumn.at(rows, layout.time, origin).times() if self.pairs.has_time else self.at
        scores = predictor.score(src, dst, t, prior=self.prior, draws=self.draws)
        found = scores._asdict() if isinstance(scores, Scores) else {"probability": scores}
        table = pa.table({name: _column(values) for name, values in found.items()})
        return Piece(table, len(rows), predictor.num_unknown(src, dst))


@dataclass(frozen=True, slots=True)
class NodeQuestions:
    """The most probable destinations of every node of a file, or of all nodes, at one time."""

    nodes: NodeFile | None  # None: all
    at: Any
    k: int = 10
    candidates: Any = None
    kinds: tuple[str, ...] = KINDS
    prior: float = 0.5
    dialect: Dialect | None = field(default=None, init=False)

    @property
    def path(self) -> File | None:
        return None if self.nodes is None else self.nodes.path

    def answers(self, predictor: LinkPredictor, first: int = 0) -> Iterator[Piece]:
        asked = {"candidates": self.candidates, "kinds": self.kinds, "prior": self.prior}
        for i, names in enumerate(self._chunks(predictor)):
            if i >= first:
                rankings = list(predictor.rank_many(names, self.at, self.k, **asked))
                unknown = sum(not predictor.knows(name) for name in names)
                yield Piece(rankings_table(rankings), len(names), unknown)

    def tables(self, answers: Iterator[pa.Table], schema: pa.Schema | None) -> Iterator[pa.Table]:
        return answers if schema is None else (answer.cast(schema) for answer in answers)

    def _chunks(self, predictor: LinkPredictor) -> Iterator[list[Name]]:
        if self.nodes is not None:
            yield from self.nodes.name_chunks(NODES)
            return
        everyone = predictor.nodes()
        yield from (everyone[i : i + NODES] for i in range(0, len(everyone), NODES))


def answer_to_stream(predictor: LinkPredictor, questions: Questions, out: IO[bytes]) -> Done:
    """The answers as CSV, as they come."""
    count = unknown = 0

    def answers() -> Iterator[pa.Table]:
        nonlocal count, unknown
        for piece in questions.answers(predictor):
            yield piece.table
            count, unknown = count + piece.size, unknown + piece.unknown

    for i, table in enumerate(questions.tables(answers(), None)):
        _write_csv(table, out, questions, header=i == 0)
        out.flush()
    return Done(count, unknown)


def answer_to_file(
    predictor: LinkPredictor,
    questions: Questions,
    out: Path,
    *,
    identity: str,
    progress: Callable[[int], object] = lambda _: None,
    check: Callable[[], object] = lambda: None,
) -> Done:
    """The answers as CSV or Parquet, by the name of `out`.

    Interrupted and called again with the same file, run and options, it goes on from there.

    Args:
        identity: Names the run: `predictor.identity`.
        progress: Called with the number of questions answered so far.
        check: Called after each piece; may raise to stop.
    """
    if not out.parent.is_dir():
        raise StorageError(f"{out.parent}: no such folder; make it first")
    seen = _stamp(questions)
    name = hashlib.sha256(json.dumps([repr(questions), identity, seen, ROWS, NODES]).encode()).hexdigest()[:12]
    folder = out.with_name(f"{out.name}.{name}.parts")
    with _reserved(folder):
        pieces = _resumed(folder)
        try:
            done = _answer_pieces(predictor, questions, folder, pieces, progress, check)
            _refuse_change(questions, seen)
            write_atomically(out, lambda temporary: _assemble(temporary, questions, pieces, seen, _is_parquet(out)))
        except CawnError:
            if not pieces:
                shutil.rmtree(folder, ignore_errors=True)
            raise
        shutil.rmtree(folder, ignore_errors=True)
    return done


def _is_parquet(out: Path) -> bool:
    return out.suffix.lower() == ".parquet"


def _answer_pieces(
    predictor: LinkPredictor,
    questions: Questions,
    folder: Path,
    pieces: list[Path],
    progress: Callable[[int], object],
    check: Callable[[], object],
) -> Done:
    """Answer what is not among the pieces that are there, and add to them."""
    counts = [_load(path) for path in pieces]
    count, unknown = sum(piece.size for piece in counts), sum(piece.unknown for piece in counts)
    progress(count)
    for i, piece in enumerate(questions.answers(predictor, len(pieces)), start=len(pieces)):
        path = folder / f"{i:09d}.arrow"
        write_atomically(path, partial(_save, piece))
        pieces.append(path)
        count, unknown = count + piece.size, unknown + piece.unknown
        progress(count)
        check()
    if count == 0:
        raise DataError(f"{questions.path}: no rows; expected at least one")
    return Done(count, unknown)


def _stamp(questions: Questions) -> list[int]:
    if questions.path is None:
        return []
    found = os.stat(questions.path)
    return [found.st_size, found.st_mtime_ns]


def _refuse_change(questions: Questions, seen: list[int]) -> None:
    if _stamp(questions) != seen:
        raise DataError(f"{questions.path}: has changed while it was being read; start again")


@contextmanager
def _reserved(folder: Path) -> Iterator[None]:
    """The folder of pieces, for one process at a time."""
    try:
        folder.mkdir(exist_ok=True)
        with open(folder / "lock", "wb") as file:
            if sys.platform != "win32":
                import fcntl

                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield
    except BlockingIOError as error:
        raise StorageError(f"{folder}: another process is at work on the same; wait for it") from error
    except OSError as error:
        raise StorageError(f"{folder}: cannot be written ({error.strerror or error})") from error


def _resumed(folder: Path) -> list[Path]:
    """The pieces of an earlier attempt, as far as they are whole and in a row."""
    pieces: list[Path] = []
    while (path := folder / f"{len(pieces):09d}.arrow").exists():
        try:
            _load(path)
        except (OSError, ValueError, KeyError, TypeError, pa.ArrowException):
            break
        pieces.append(path)
    return pieces


def _save(piece: Piece, path: Path) -> None:
    counts = json.dumps([piece.size, piece.unknown])
    table = piece.table.replace_schema_metadata({_COUNTS: counts})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def _load(path: Path) -> Piece:
    with pa.OSFile(str(path)) as file:
        table = pa.ipc.open_file(file).read_all()
    table.validate(full=True)
    count, unknown = json.loads(table.schema.metadata[_COUNTS])
    return Piece(table.replace_schema_metadata(None), int(count), int(unknown))


def _assemble(path: Path, questions: Questions, pieces: list[Path], seen: list[int], parquet: bool) -> None:
    """All answers in order; refused if the file is no longer the one that was read."""
    schema = _common([_load(piece).table.schema for piece in pieces])
    tables = questions.tables((_load(piece).table for piece in pieces), schema)
    try:
        _write(path, tables, questions, parquet=parquet)
    except (ValueError, pa.ArrowInvalid):
        _refuse_change(questions, seen)
        raise
    _refuse_change(questions, seen)


def _common(schemas: list[pa.Schema]) -> pa.Schema:
    """One type for each column: that of all pieces, else text (of names that are not all integers)."""
    kinds = {name: {schema.field(name).type for schema in schemas} for name in schemas[0].names}
    return pa.schema([(name, found.pop() if len(found) == 1 else pa.string()) for name, found in kinds.items()])


def _write(path: Path, tables: Iterator[pa.Table], questions: Questions, *, parquet: bool) -> None:
    if not parquet:
        with open(path, "wb") as file:
            for i, table in enumerate(tables):
                _write_csv(table, file, questions, header=i == 0)
        return
    import pyarrow.parquet as pq

    writer = None
    try:
        for table in tables:
            writer = writer or pq.ParquetWriter(path, table.schema)
            writer.write_table(table)
    finally:
        if writer is not None:
            writer.close()


def _column(values: npt.NDArray[np.float64]) -> pa.Array:
    return pa.Array.from_buffers(pa.float64(), len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def _beside(rows: pa.Table, answer: pa.Table) -> pa.Table:
    """The rows with the columns of the answer, under names that are free."""
    for name, values in zip(answer.column_names, answer.columns, strict=True):
        free = name
        while free in rows.column_names:
            free = f"cawn_{free}"
        rows = rows.append_column(free, values)
    return rows


def _write_csv(table: pa.Table, out: IO[bytes], questions: Questions, *, header: bool) -> None:
    """Rows of text as they were in the file; quoted only where some of them must be."""
    dialect = questions.dialect
    delimiter = "," if dialect is None else " " if dialect.delimiter == " +" else dialect.delimiter
    if header and (dialect is None or dialect.has_header):
        line = io.StringIO()
        csv_writer(line, delimiter=delimiter, lineterminator="\n").writerow(table.column_names)
        out.write(line.getvalue().encode())
    for quoting in ("none", "needed"):
        options = csv.WriteOptions(include_header=False, delimiter=delimiter, quoting_style=quoting)
        written = pa.BufferOutputStream()
        try:
            csv.write_csv(table, written, options)
        except pa.ArrowInvalid as error:
            if quoting == "needed":
                raise QueryError(f"{questions.path}: cannot be written as CSV ({error}); write .parquet") from error
            continue
        out.write(written.getvalue())
        return
