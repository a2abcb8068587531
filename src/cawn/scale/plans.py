"""Plans: the files of a large job, cut into partitions that are computed and stored independently.

A partition is a range of rows of one file, the same whatever the engine and the number of its workers.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from cawn import __version__
from cawn.data.hashing import checksum
from cawn.data.readers import files
from cawn.data.readers.query_files import PairFile
from cawn.data.reading import Reading
from cawn.errors import DataError, QueryError, StorageError
from cawn.files import read_file
from cawn.learn.runs import read_description
from cawn.scale.jobs import NodeJob, PairJob, QueryJob, file_version

PARTITION_CHUNKS = 16  # 262,144 pairs or 2,048 nodes


class Partition(NamedTuple):
    """Rows `first` to `stop` (exclusive) of a job."""

    number: int
    job: int
    first: int
    stop: int


@dataclass(frozen=True, slots=True)
class Plan:
    """A large job: the results of all partitions, in order, are its output."""

    run: Path
    run_digest: str
    unit: str  # "pairs" or "nodes"
    jobs: tuple[QueryJob, ...]
    versions: tuple[list[int], ...]  # of the files of the jobs
    sizes: tuple[int, ...]  # rows of each job
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "digest", checksum(self.description()))

    @property
    def size(self) -> int:
        return sum(self.sizes)

    def partitions(self) -> list[Partition]:
        found: list[Partition] = []
        for number, (job, size) in enumerate(zip(self.jobs, self.sizes, strict=True)):
            step = job.chunk * PARTITION_CHUNKS
            for first in range(0, size, step):
                found.append(Partition(len(found), number, first, min(first + step, size)))
        return found

    def description(self) -> dict[str, Any]:
        """What is asked, for the job file of the output; equal if and only if the outputs are."""
        return {
            "cawn": __version__,
            "unit": self.unit,
            "run": self.run_digest,
            "files": [
                {"path": None if job.path is None else job.path.path, "version": version, "rows": size}
                for job, version, size in zip(self.jobs, self.versions, self.sizes, strict=True)
            ],
            "partitions": len(self.partitions()),
            "options": self.jobs[0].options(),
            "digest": hashlib.sha256(repr(self.jobs).encode()).hexdigest(),
        }


def plan_pairs(run: Path, pairs: Sequence[PairFile], at: Any, prior: float, draws: int | None) -> Plan:
    """Score the pairs of these files."""
    shared = [replace(each, rows=each.rows.at(_absolute(each.path))) for each in pairs]
    asked = [PairJob(each, at, prior, draws) for each in shared]
    return _plan(run, "pairs", asked, [each.count_rows() for each in pairs])


def plan_nodes(run: Path, job: NodeJob, num_nodes: int) -> Plan:
    """Rank for the nodes of a file, or for all `num_nodes` nodes."""
    if (nodes := job.nodes) is not None:
        job, num_nodes = (
            replace(job, nodes=replace(nodes, rows=nodes.rows.at(_absolute(nodes.path)))),
            nodes.count_rows(),
        )
    return _plan(run, "nodes", [job], [num_nodes])


def _plan(run: Path, unit: str, asked: Sequence[QueryJob], sizes: Sequence[int]) -> Plan:
    if not sum(sizes):
        raise DataError(f"{asked[0].path}: no rows; expected at least one")
    versions = tuple(file_version(job.path) for job in asked)
    return Plan(run.absolute(), run_digest(run), unit, tuple(asked), versions, tuple(sizes))


def run_digest(run: Path) -> str:
    """A digest of a run folder, from the files that hold the checksums of all others."""
    state = hashlib.sha256(json.dumps(read_description(run), sort_keys=True).encode())
    finished = (run / "report.json").exists()
    path = run / ("report.json" if finished else "checkpoint.safetensors")
    try:
        state.update(read_file(path))
    except OSError as error:
        raise StorageError(f"{path}: cannot be read ({error.strerror})") from error
    return state.hexdigest()


def is_folder_or_pattern(source: str) -> bool:
    """Whether this is a folder or a pattern rather than a file."""
    return os.path.isdir(source) or (glob.has_magic(source) and not os.path.exists(source))


def open_pairs(
    run: Path, source: str, wanted: Reading, *, at: Any = None, header: bool | None = None
) -> list[PairFile]:
    """Open the files of pairs of a folder, of a pattern, or one file; columns not given are those of the training data.

    All must be of one kind and have the same columns, so that the output can be read as one table. Parquet files
    without rows are passed over.
    """
    found = read_description(run).get("reading")
    recorded = None if found is None else Reading.from_dict(found)
    opened = []
    for path in files.find_files(source):
        pairs = PairFile.open(path, wanted, recorded=recorded, timed=at is None, header=header)
        if at is not None and pairs.has_times():
            raise QueryError(f"{path}: has a column of times; leave out --at, or the column")
        opened.append(pairs)
    opened = [each for each in opened if each.path.kind != "parquet" or each.num_rows() != 0] or opened[:1]
    for other in opened[1:]:
        _refuse_other_columns(opened[0], other)
    return opened


def _absolute(file: files.File) -> files.File:
    """The same file by its absolute path; refused if it is a temporary copy of a pipe."""
    if file.name != file.path:
        raise QueryError(f"{file}: is a pipe, which cannot be divided into partitions; give a file")
    return replace(file, path=os.path.abspath(file.path))


def _refuse_other_columns(first: PairFile, other: PairFile) -> None:
    mine, others = ((each.path.kind, each.rows.names, _types(each)) for each in (other, first))
    if mine == others:
        return
    what = "format is" if first.path.kind != other.path.kind else "columns are"
    raise DataError(f"{other.path}: its {what} not the same as in {first.path}; give all files the same columns")


def _types(pairs: PairFile) -> Any:
    if pairs.path.kind != "parquet":
        return None
    import pyarrow.parquet as pq

    return pq.read_schema(pairs.path.path).types
