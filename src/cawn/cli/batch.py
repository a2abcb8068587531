"""Score a file of pairs, or rank for a file of nodes: in order, in constant memory, and resumable.

`cawn predict` and `cawn rank` with --nodes or --all write their results in parts to a folder beside the output,
OUT.*.parts. When all parts are there, the output is written in one step and the folder removed. An interrupted command
leaves the folder; the same command resumes from it.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
from collections.abc import Callable, Iterator
from csv import writer as csv_writer
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from pyarrow import csv

from cawn.data.names import Name
from cawn.data.readers.dialect import Dialect
from cawn.data.readers.files import File
from cawn.data.readers.query_files import NodeFile, PairFile
from cawn.data.readers.tables import TableColumn
from cawn.errors import CawnError, DataError, QueryError, StorageError
from cawn.files import FolderLock, make_folder, write_atomically
from cawn.predictor import LinkPredictor
from cawn.rankings import Scores, rankings_table
from cawn.walks.candidates import KINDS

ROWS = 1 << 14  # pairs in a part
NODES = 128  # nodes in a part
_COUNTS = b"cawn"  # key in the metadata of a part


class Counts(NamedTuple):
    """The number of pairs or nodes, and of those with a name that is not in the network."""

    size: int
    unknown: int

    def plus(self, other: Counts) -> Counts:
        return Counts(self.size + other.size, self.unknown + other.unknown)


Part = tuple[pa.Table, Counts]  # consecutive rows of the output


class Job(Protocol):
    """A file of queries for a predictor. Two jobs with the same repr ask the same."""

    @property
    def path(self) -> File | None:
        """The file, if there is one."""

    @property
    def dialect(self) -> Dialect | None:
        """The dialect of text output; None for plain CSV."""

    def num_rows(self, predictor: LinkPredictor) -> int | None:
        """About how many pairs or nodes there are, if that is quickly known."""

    def run(self, predictor: LinkPredictor, first: int = 0) -> Iterator[Part]:
        """The results from part `first` on."""


@dataclass(frozen=True, slots=True)
class PairJob:
    """Adds the probability of every pair of a file to its columns."""

    pairs: PairFile
    at: Any  # one time for all pairs, or None if the file has a column of times
    prior: float
    draws: int | None

    @property
    def path(self) -> File:
        return self.pairs.path

    @property
    def dialect(self) -> Dialect | None:
        return self.pairs.dialect

    def num_rows(self, predictor: LinkPredictor) -> int | None:
        return self.pairs.num_rows()

    def run(self, predictor: LinkPredictor, first: int = 0) -> Iterator[Part]:
        for i, rows in enumerate(self.pairs.chunks(ROWS)):
            if i >= first:
                yield self._score(predictor, rows, i * ROWS)

    def _score(self, predictor: LinkPredictor, rows: pa.Table, first_row: int) -> Part:
        layout, origin = self.pairs.layout, self.pairs.origin(first_row)
        src, dst = (TableColumn.at(rows, i, origin).names().to_pylist() for i in (layout.src, layout.dst))
        t = TableColumn.at(rows, layout.time, origin).times() if self.pairs.has_time else self.at
        scores = predictor.score(src, dst, t, prior=self.prior, draws=self.draws)
        counts = Counts(len(rows), predictor.num_unknown(src, dst))
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
    prior: float = 0.5
    dialect: Dialect | None = field(default=None, init=False)

    @property
    def path(self) -> File | None:
        return None if self.nodes is None else self.nodes.path

    def num_rows(self, predictor: LinkPredictor) -> int | None:
        return len(predictor.nodes()) if self.nodes is None else self.nodes.num_rows()

    def run(self, predictor: LinkPredictor, first: int = 0) -> Iterator[Part]:
        for i, names in enumerate(self._chunks(predictor)):
            if i >= first:
                rankings = predictor.rank_many(
                    names, self.at, self.k, candidates=self.candidates, kinds=self.kinds, prior=self.prior
                )
                unknown = sum(not predictor.knows(name) for name in names)
                yield rankings_table(rankings), Counts(len(names), unknown)

    def _chunks(self, predictor: LinkPredictor) -> Iterator[list[Name]]:
        if self.nodes is not None:
            yield from self.nodes.name_chunks(NODES)
            return
        everyone = predictor.nodes()
        yield from (everyone[i : i + NODES] for i in range(0, len(everyone), NODES))


def run_to_stream(predictor: LinkPredictor, job: Job, out: IO[bytes]) -> Counts:
    """Write the results as CSV while they are computed."""
    total = Counts(0, 0)
    for table, counts in job.run(predictor):
        _write_csv(table, out, job, header=total.size == 0)
        out.flush()
        total = total.plus(counts)
    return total


def run_to_file(
    predictor: LinkPredictor,
    job: Job,
    out: Path,
    *,
    progress: Callable[[int], object] = lambda _: None,
    check: Callable[[], object] = lambda: None,
) -> Counts:
    """Write the results to `out`, as Parquet if it is called .parquet, else as CSV.

    Called again after an interruption, with the same file, model, history and options, it resumes.

    Args:
        progress: Called with the number of pairs or nodes done so far.
        check: Called after each part; may raise to stop.
    """
    if not out.parent.is_dir():
        raise StorageError(f"{out.parent}: no such folder; create it first")
    version = _file_version(job)
    task = json.dumps([repr(job), predictor.identity, version, ROWS, NODES])
    folder = out.with_name(f"{out.name}.{hashlib.sha256(task.encode()).hexdigest()[:12]}.parts")
    make_folder(folder)
    with FolderLock(folder):
        parts, total = _finished_parts(folder)
        progress(total.size)
        try:
            for part in job.run(predictor, len(parts)):
                path = _part_path(folder, len(parts))
                write_atomically(path, partial(_save, part))
                parts.append(path)
                total = total.plus(part[1])
                progress(total.size)
                check()
            if not parts:
                raise DataError(f"{job.path}: no rows; expected at least one")
            if _file_version(job) != version:
                raise DataError(f"{job.path}: has changed while it was being read; start again")
            if out.suffix.lower() == ".parquet":
                write_atomically(out, partial(_write_parquet, parts))
            else:
                write_atomically(out, partial(_write_text, parts, job))
        except CawnError:
            if not parts:
                shutil.rmtree(folder, ignore_errors=True)
            raise
        shutil.rmtree(folder, ignore_errors=True)
    return total


def _file_version(job: Job) -> list[int]:
    """Size and modification time of the file, by which a change is noticed."""
    if job.path is None:
        return []
    found = os.stat(job.path)
    return [found.st_size, found.st_mtime_ns]


def _part_path(folder: Path, number: int) -> Path:
    return folder / f"{number:09d}.arrow"


def _finished_parts(folder: Path) -> tuple[list[Path], Counts]:
    """The parts of an earlier attempt, up to the first that is missing or damaged."""
    parts: list[Path] = []
    total = Counts(0, 0)
    while (path := _part_path(folder, len(parts))).exists():
        try:
            _, counts = _load(path)
        except (OSError, ValueError, KeyError, TypeError, pa.ArrowException):
            break
        parts.append(path)
        total = total.plus(counts)
    return parts, total


def _save(part: Part, path: Path) -> None:
    table = part[0].unify_dictionaries()
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), _COUNTS: json.dumps(part[1])})
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as writer:
        writer.write_table(table)


def _load(path: Path) -> Part:
    with pa.OSFile(str(path)) as file:
        table = pa.ipc.open_file(file).read_all()
    table.validate(full=True)
    metadata = dict(table.schema.metadata)
    size, unknown = json.loads(metadata.pop(_COUNTS))
    return table.replace_schema_metadata(metadata or None), Counts(int(size), int(unknown))


def _write_text(parts: list[Path], job: Job, path: Path) -> None:
    with open(path, "wb") as file:
        for part in parts:
            _write_csv(_load(part)[0], file, job, header=part is parts[0])


def _write_parquet(parts: list[Path], path: Path) -> None:
    """One schema for all parts: a column of node names is text unless all names are integers."""
    from pyarrow import parquet

    first, *others = [_load(part)[0].schema for part in parts]
    for other in others:
        for i, column in enumerate(first):
            if column.type != other.field(i).type:
                first = first.set(i, column.with_type(pa.string()))
    with parquet.ParquetWriter(path, first) as writer:
        for table, _ in map(_load, parts):
            writer.write_table(table if table.schema == first else table.cast(first))


def _write_csv(table: pa.Table, out: IO[bytes], job: Job, *, header: bool) -> None:
    """Text columns are written as they were in the file, with quotes only where needed."""
    dialect = job.dialect
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
                raise QueryError(f"{job.path}: cannot be written as CSV ({error}); write .parquet") from error
            continue
        out.write(written.getvalue())
        return
