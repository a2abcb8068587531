"""A folder of Parquet files, one per partition of a plan; resumable by partition.

part-*.parquet   the partitions, in the order of the input; each written atomically
_job.json        what is computed, sealed with its checksum
_SUCCESS         written last: the number of pairs or nodes, and of partitions
.lock            held by the process that writes

Readers of Parquet folders (Arrow, Spark, DuckDB) pass over names that begin with an underscore or a dot.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from cawn.data.hashing import read_sealed, write_sealed
from cawn.errors import CawnError, QueryError, StorageError
from cawn.files import LOCK, FolderLock, is_temporary, make_folder, refuse_foreign, storing, write_atomically
from cawn.scale.jobs import RowCounts, one_schema, refuse_changed
from cawn.scale.plans import Partition, Plan

if TYPE_CHECKING:
    from cawn.predictor import LinkPredictor

JOB, SUCCESS = "_job.json", "_SUCCESS"
_PART = re.compile(r"part-[0-9]{8}\.parquet")
_KEY = b"cawn"  # in the metadata of a Parquet file

Tick = Callable[[int], object]  # called with the number of rows done since the last call; may raise to stop
Engine = Callable[[Plan, list[Partition], Path, Tick], Iterator[RowCounts]]  # counts of each finished partition


class Finished(NamedTuple):
    """A finished partition."""

    schema: pa.Schema
    counts: RowCounts


def run_to_folder(
    plan: Plan, out: Path, engine: Engine, *, force: bool = False, tick: Tick = lambda _: None
) -> RowCounts:
    """Write the results of a plan to a folder. Called again after an interruption, with the same plan, it resumes.

    Args:
        engine: Computes partitions with `run_partition`, in any order and in any process.
        force: Whether to replace the output of another job.
        tick: Called with the number of pairs or nodes done since the last call, first with those of an earlier attempt.
    """
    with _opened(plan, out, force):
        partitions = plan.partitions()
        done = {each.number: found for each in partitions if (found := _finished(plan, each, out))}
        tick(sum(found.counts.size for found in done.values()))
        if rest := [each for each in partitions if each.number not in done]:
            for _ in engine(plan, rest, out, tick):
                pass
        return _finish(plan, partitions, out)


def run_locally(load: Callable[[], LinkPredictor]) -> Engine:
    """The engine that computes one partition after another in this process."""

    def run(plan: Plan, partitions: list[Partition], out: Path, tick: Tick) -> Iterator[RowCounts]:
        predictor = load()
        for each in partitions:
            yield run_partition(predictor, plan, each, out, tick)

    return run


def run_partition(
    predictor: LinkPredictor, plan: Plan, partition: Partition, out: Path, tick: Tick = lambda _: None
) -> RowCounts:
    """Compute a partition and write its file."""
    job, version = plan.jobs[partition.job], plan.versions[partition.job]
    refuse_changed(job.path, version)
    tables, total = [], RowCounts(0, 0)
    for table, counts in job.run(predictor, partition.first, partition.stop):
        tables.append(table)
        total = total.plus(counts)
        tick(counts.size)
    refuse_changed(job.path, version)
    schema = one_schema([table.schema for table in tables])
    table = pa.concat_tables([each if each.schema == schema else each.cast(schema) for each in tables])
    facts = {"job": plan.digest, "partition": partition.number, "counts": total}
    with storing(out):
        write_atomically(_path(out, partition), partial(_write, table, facts))
    return total


@contextmanager
def _opened(plan: Plan, out: Path, force: bool) -> Iterator[None]:
    """Hold the lock on a folder that is new, empty, or of this plan; after an error, one without results is removed."""
    if out.exists() and not out.is_dir():
        raise QueryError(f"{out}: is not a folder; the results are a folder of Parquet files")
    if not out.absolute().parent.is_dir():
        raise StorageError(f"{out.absolute().parent}: no such folder; create it first")
    _refuse_input(plan, out)
    if out.is_dir():
        _refuse_foreign(out)
    make_folder(out)
    with FolderLock(out, "folder"):
        if not _same_job(plan, out):
            if (out / JOB).exists() and not force:
                raise QueryError(f"{out}: holds the results of another job; choose another folder, or give --force")
            _clear(out)
            write_sealed(out / JOB, plan.description())
        try:
            yield
        except CawnError:
            if not any(_PART.fullmatch(path.name) for path in out.iterdir()):
                _clear(out)
                with suppress(OSError):
                    (out / LOCK).unlink()
                    out.rmdir()
            raise


def _refuse_input(plan: Plan, out: Path) -> None:
    inside = os.path.realpath(out) + os.sep
    for job in plan.jobs:
        if job.path is not None and os.path.realpath(job.path.path).startswith(inside):
            raise QueryError(f"{out}: holds the input file {job.path}; choose a folder outside of the input")


def _refuse_foreign(out: Path) -> None:
    """Refuse files that are not of a job. The job file is written before the first partition, and removed last."""
    begun = (out / JOB).exists()

    def is_ours(path: Path) -> bool:
        part = begun and _PART.fullmatch(path.name)
        return path.name in (JOB, SUCCESS, LOCK) or bool(part) or is_temporary(path.name)

    refuse_foreign(out, is_ours)


def _same_job(plan: Plan, out: Path) -> bool:
    try:
        return read_sealed(out / JOB, "") == plan.description()
    except (FileNotFoundError, StorageError):
        return False


def _clear(out: Path) -> None:
    with storing(out):
        (out / SUCCESS).unlink(missing_ok=True)
        for path in out.iterdir():
            if _PART.fullmatch(path.name):
                path.unlink()
        (out / JOB).unlink(missing_ok=True)


def _path(out: Path, partition: Partition) -> Path:
    return out / f"part-{partition.number:08d}.parquet"


def _write(table: pa.Table, facts: dict[str, Any], path: Path) -> None:
    from pyarrow import parquet

    metadata = {**(table.schema.metadata or {}), _KEY: json.dumps(facts)}
    parquet.write_table(table.unify_dictionaries().replace_schema_metadata(metadata), path)


def _finished(plan: Plan, partition: Partition, out: Path) -> Finished | None:
    """A partition whose file is there; None if it is missing, damaged or of another job."""
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(_path(out, partition)) as file:
            schema = file.schema_arrow
        facts = json.loads(schema.metadata[_KEY])
        if (facts["job"], facts["partition"]) != (plan.digest, partition.number):
            return None
        return Finished(schema.remove_metadata(), RowCounts(*facts["counts"]))
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException):
        return None


def _finish(plan: Plan, partitions: list[Partition], out: Path) -> RowCounts:
    """Give all partitions one schema, and write the marker that all are there."""
    total, found = RowCounts(0, 0), []
    for each in partitions:
        if (finished := _finished(plan, each, out)) is None:
            raise StorageError(f"{_path(out, each)}: is missing or damaged; run the same command to compute it again")
        found.append(finished)
        total = total.plus(finished.counts)
    schema = one_schema([each.schema for each in found])
    for each, finished in zip(partitions, found, strict=True):
        if finished.schema != schema:
            write_atomically(_path(out, each), partial(_rewrite, _path(out, each), schema))
    marker = {"rows": total.size, "unknown": total.unknown, "partitions": len(partitions), "job": plan.digest}
    write_sealed(out / SUCCESS, marker)
    return total


def _rewrite(source: Path, schema: pa.Schema, path: Path) -> None:
    from pyarrow import parquet

    with parquet.ParquetFile(source) as file:
        table = file.read()
    parquet.write_table(table.cast(schema.with_metadata(table.schema.metadata)), path)
