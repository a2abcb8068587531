"""One output file: written in order, in constant memory, and resumable.

Results are written in parts to a folder beside the output, OUT.*.parts. When all parts are there, the output is written
in one step and the folder removed. An interrupted command leaves the folder; the same command resumes from it.
"""

from __future__ import annotations

import hashlib
import io
import json
import shutil
from collections.abc import Callable
from csv import writer as csv_writer
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pyarrow as pa
from pyarrow import csv

from cawn.errors import CawnError, DataError, QueryError, StorageError
from cawn.files import FolderLock, make_folder, write_atomically
from cawn.scale.jobs import Part, QueryJob, RowCounts, file_version, one_schema, refuse_changed

if TYPE_CHECKING:
    from cawn.predictor import LinkPredictor

_COUNTS = b"cawn"  # key in the metadata of a part


def run_to_stream(predictor: LinkPredictor, job: QueryJob, out: IO[bytes]) -> RowCounts:
    """Write the results as CSV while they are computed."""
    total = RowCounts(0, 0)
    for table, counts in job.run(predictor):
        _write_csv(table, out, job, header=total.size == 0)
        out.flush()
        total = total.plus(counts)
    return total


def run_to_file(
    predictor: LinkPredictor,
    job: QueryJob,
    out: Path,
    *,
    progress: Callable[[int], object] = lambda _: None,
    check: Callable[[], object] = lambda: None,
) -> RowCounts:
    """Write the results to `out`, as Parquet if it is called .parquet, else as CSV.

    Called again after an interruption, with the same file, model, history and options, it resumes.

    Args:
        progress: Called with the number of pairs or nodes done so far.
        check: Called after each part; may raise to stop.
    """
    if not out.parent.is_dir():
        raise StorageError(f"{out.parent}: no such folder; create it first")
    version = file_version(job.path)
    task = json.dumps([repr(job), predictor.identity, version])
    folder = out.with_name(f"{out.name}.{hashlib.sha256(task.encode()).hexdigest()[:12]}.parts")
    make_folder(folder)
    with FolderLock(folder):
        parts, total = _finished_parts(folder)
        progress(total.size)
        try:
            for part in job.run(predictor, len(parts) * job.chunk):
                path = _part_path(folder, len(parts))
                write_atomically(path, partial(_save, part))
                parts.append(path)
                total = total.plus(part[1])
                progress(total.size)
                check()
            if not parts:
                raise DataError(f"{job.path}: no rows; expected at least one")
            refuse_changed(job.path, version)
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


def _part_path(folder: Path, number: int) -> Path:
    return folder / f"{number:09d}.arrow"


def _finished_parts(folder: Path) -> tuple[list[Path], RowCounts]:
    """The parts of an earlier attempt, up to the first that is missing or damaged."""
    parts: list[Path] = []
    total = RowCounts(0, 0)
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
    return table.replace_schema_metadata(metadata or None), RowCounts(int(size), int(unknown))


def _write_text(parts: list[Path], job: QueryJob, path: Path) -> None:
    with open(path, "wb") as file:
        for part in parts:
            _write_csv(_load(part)[0], file, job, header=part is parts[0])


def _write_parquet(parts: list[Path], path: Path) -> None:
    from pyarrow import parquet

    schema = one_schema([_load(part)[0].schema for part in parts])
    with parquet.ParquetWriter(path, schema) as writer:
        for table, _ in map(_load, parts):
            writer.write_table(table if table.schema == schema else table.cast(schema))


def _write_csv(table: pa.Table, out: IO[bytes], job: QueryJob, *, header: bool) -> None:
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
