"""Scores for a whole file of pairs: in its order, in constant memory, continued where it stopped.

Scores are kept beside the output as they come; when all are there, the file is read once more and written with them.
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
from typing import IO, Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import csv

from cawn.errors import CawnError, DataError, QueryError, StorageError
from cawn.files import write_atomically
from cawn.predictor import LinkPredictor
from cawn.rankings import Scores
from cawn.readers.chunks import Pairs
from cawn.readers.tables import as_names, as_times

ROWS = 1 << 14  # at a time

Columns = dict[str, npt.NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of every pair of a file."""

    pairs: Pairs
    at: Any  # one time for all pairs, or None where the file has a column of times
    prior: float
    draws: int | None
    unknown: list[int] = field(default_factory=list, repr=False)  # of each chunk, pairs with an unknown end

    def answers(self, predictor: LinkPredictor, first: int = 0) -> Iterator[tuple[pa.Table, Columns]]:
        """The rows of the file from chunk `first` on, with the columns to add."""
        for i, rows in enumerate(self.pairs.chunks(ROWS)):
            if i >= first:
                yield rows, self._answer(predictor, rows, i * ROWS)

    def _answer(self, predictor: LinkPredictor, rows: pa.Table, first_row: int) -> Columns:
        layout, source, names = self.pairs.layout, self.pairs.source(first_row), self.pairs.names
        src, dst = (as_names(rows.column(i), names[i], source).to_pylist() for i in (layout.src, layout.dst))
        t = as_times(rows.column(layout.time), names[layout.time], source) if self.pairs.has_time else self.at
        self.unknown.append(predictor.num_unknown(src, dst))
        scores = predictor.score(src, dst, t, prior=self.prior, draws=self.draws)
        if isinstance(scores, Scores):
            return {"probability": scores.probability, "error": scores.error}
        return {"probability": scores}


def score_to_stream(predictor: LinkPredictor, question: Question, out: IO[bytes]) -> int:
    """The pairs with their scores as CSV, as they come; returns how many."""
    count = 0
    for rows, columns in question.answers(predictor):
        _write_csv(_joined(rows, columns), out, question.pairs, header=count == 0)
        out.flush()
        count += len(rows)
    return count


def score_to_file(
    predictor: LinkPredictor,
    question: Question,
    out: Path,
    *,
    identity: str,
    progress: Callable[[int], object] = lambda _: None,
    check: Callable[[], object] = lambda: None,
) -> int:
    """The pairs with their scores as CSV or Parquet, by the name of `out`; returns how many.

    Interrupted and called again with the same file, run and options (`identity` names the run), it goes on from there.
    """
    if not out.parent.is_dir():
        raise StorageError(f"{out.parent}: no such folder; make it first")
    seen = _stamp(question)
    name = hashlib.sha256(json.dumps([str(question), identity, seen, ROWS]).encode()).hexdigest()[:12]
    folder = out.with_name(f"{out.name}.{name}.parts")
    with _reserved(folder):
        done = _resumed(folder)
        try:
            count = _score_pieces(predictor, question, folder, done, progress, check)
            _refuse_change(question, seen)
            parquet = out.suffix == ".parquet"
            write_atomically(out, lambda temporary: _assemble(temporary, question, done, seen, parquet=parquet))
        except CawnError:
            if not done:
                shutil.rmtree(folder, ignore_errors=True)
            raise
        shutil.rmtree(folder, ignore_errors=True)
    return count


def _score_pieces(
    predictor: LinkPredictor,
    question: Question,
    folder: Path,
    done: list[Path],
    progress: Callable[[int], object],
    check: Callable[[], object],
) -> int:
    """Score what is not among the pieces that are `done`, and add to them; returns how many pairs there are."""
    count = sum(len(_load(piece)["probability"]) for piece in done)
    progress(count)
    for i, (rows, columns) in enumerate(question.answers(predictor, len(done)), start=len(done)):
        path = folder / f"{i:09d}.npz"
        write_atomically(path, partial(_save, columns))
        done.append(path)
        count += len(rows)
        progress(count)
        check()
    if count == 0:
        raise DataError(f"{question.pairs.path}: no rows; expected at least one pair")
    return count


def _stamp(question: Question) -> list[int]:
    found = os.stat(question.pairs.path)
    return [found.st_size, found.st_mtime_ns]


def _refuse_change(question: Question, seen: list[int]) -> None:
    if _stamp(question) != seen:
        raise DataError(f"{question.pairs.path}: has changed while it was being scored; start again")


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
        raise StorageError(f"{folder}: another process is scoring the same pairs; wait for it") from error
    except OSError as error:
        raise StorageError(f"{folder}: cannot be written ({error.strerror or error})") from error


def _resumed(folder: Path) -> list[Path]:
    """The pieces of an earlier attempt, as far as they are whole and in a row."""
    pieces: list[Path] = []
    while (path := folder / f"{len(pieces):09d}.npz").exists():
        try:
            _load(path)["probability"]
        except (OSError, ValueError, EOFError, KeyError, BadZipFile):
            break
        pieces.append(path)
    return pieces


def _save(columns: Columns, path: Path) -> None:
    with open(path, "wb") as file:
        np.savez(file, allow_pickle=False, **columns)


def _load(path: Path) -> Columns:
    with np.load(path) as held:
        return {name: held[name] for name in held.files}


def _assemble(path: Path, question: Question, pieces: list[Path], seen: list[int], *, parquet: bool) -> None:
    """All rows with their scores, in the order of the file; refused if it is no longer the file that was scored."""
    pairs = question.pairs
    tables = (_joined(rows, _load(piece)) for rows, piece in zip(pairs.chunks(ROWS), pieces, strict=True))
    try:
        _write(path, tables, pairs, parquet=parquet)
    except (ValueError, pa.ArrowInvalid):
        _refuse_change(question, seen)
        raise
    _refuse_change(question, seen)


def _write(path: Path, tables: Iterator[pa.Table], pairs: Pairs, *, parquet: bool) -> None:
    if not parquet:
        with open(path, "wb") as file:
            for i, table in enumerate(tables):
                _write_csv(table, file, pairs, header=i == 0)
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


def _joined(rows: pa.Table, columns: Columns) -> pa.Table:
    for name, values in columns.items():
        free = name
        while free in rows.column_names:
            free = f"cawn_{free}"
        column = pa.Array.from_buffers(pa.float64(), len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])
        rows = rows.append_column(free, column)
    return rows


def _write_csv(table: pa.Table, out: IO[bytes], pairs: Pairs, *, header: bool) -> None:
    """Rows of text as they were in the file; quoted only where some of them must be."""
    dialect = pairs.dialect
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
                raise QueryError(f"{pairs.path}: cannot be written as CSV ({error}); write .parquet") from error
            continue
        out.write(written.getvalue())
        return
