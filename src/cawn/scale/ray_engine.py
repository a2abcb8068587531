"""The engine that computes partitions with Ray Data: a pool of actors, each with the run folder mapped into memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cawn import __version__, errors
from cawn.errors import CawnError, QueryError, StorageError, one_line
from cawn.scale.cluster import Pool, choose_pool, connected, quiet_data
from cawn.scale.folder_output import Engine, Tick, run_partition
from cawn.scale.jobs import RowCounts
from cawn.scale.plans import Partition, Plan, run_digest

if TYPE_CHECKING:
    from cawn.predictor import LinkPredictor

Versions = tuple[str, str]


def run_on_ray(
    address: str | None = None, device: str = "auto", workers: int | None = None, threads: int | None = None
) -> Engine:
    """The engine; see `connected` and `choose_pool`. Ray prints to stdout when it retries, which is suppressed."""

    def run(plan: Plan, partitions: list[Partition], out: Path, tick: Tick) -> Iterator[RowCounts]:
        with open(os.devnull, "w") as nowhere, redirect_stdout(nowhere), connected(address, workers) as ray:
            pool = choose_pool(ray, device, workers, threads)
            with quiet_data():
                yield from _run(ray, pool, plan, partitions, out, tick)

    return run


def _run(ray: Any, pool: Pool, plan: Plan, partitions: list[Partition], out: Path, tick: Tick) -> Iterator[RowCounts]:
    items = [each._asdict() for each in partitions]
    dataset = ray.data.from_items(items, override_num_blocks=len(items)).map_batches(
        PartitionWorker,
        batch_size=1,
        compute=ray.data.ActorPoolStrategy(
            size=min(pool.workers, len(items)), max_tasks_in_flight_per_actor=2, max_concurrent_calls_per_actor=1
        ),
        fn_constructor_kwargs={
            "plan": plan,
            "out": out.absolute(),
            "device": pool.device,
            "threads": pool.threads,
            "versions": versions(),
        },
        **pool.remote_options(),
    )
    try:
        for row in dataset.iter_rows():
            counts = counts_of(row)
            tick(counts.size)
            yield counts
    except ray.exceptions.RayError as error:
        raise StorageError(_explain(ray, error)) from error


class PartitionWorker:
    """An actor: loads the run once, then computes one partition after another.

    Errors that a user can correct are returned, so that the user sees one line instead of Ray's traceback.
    """

    def __init__(self, plan: Plan, out: Path, device: str, threads: int, versions: Versions) -> None:
        self._plan, self._out = plan, out
        self._predictor: LinkPredictor | None = None
        self._failure = _failure(lambda: self._load(device, threads, versions))

    def _load(self, device: str, threads: int, expected: Versions) -> None:
        refuse_versions(expected)
        self._predictor = load_in_worker(self._plan.run, self._plan.run_digest, device, threads)
        if not self._out.is_dir():
            raise StorageError(f"{self._out}: not on this machine; the output must be on a file system all nodes share")

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        partition = Partition(*(int(batch[name][0]) for name in Partition._fields))
        counts = RowCounts(0, 0)

        def run() -> None:
            nonlocal counts
            assert self._predictor is not None
            counts = run_partition(self._predictor, self._plan, partition, self._out)

        error, message = self._failure or _failure(run) or ("", "")
        row = {"size": counts.size, "unknown": counts.unknown, "error": error, "message": message}
        return {name: np.array([value]) for name, value in row.items()}


def load_in_worker(run: Path, digest: str | None, device: str, threads: int) -> LinkPredictor:
    """Load a run in a worker process, with this number of threads."""
    import pyarrow as pa
    import torch

    from cawn.predictor import LinkPredictor

    if not (run / "run.json").exists():
        raise StorageError(f"{run}: not on this machine; the run must be on a file system that all nodes share")
    if digest is not None and run_digest(run) != digest:
        raise StorageError(f"{run}: has changed since the job began, or differs between nodes; start again")
    torch.set_num_threads(threads)
    pa.set_cpu_count(threads)
    return LinkPredictor.load(run, device=device, threads=threads, verify=False)


def versions() -> Versions:
    """Of Python and cawn; Ray compares its own when it connects."""
    return f"{sys.version_info.major}.{sys.version_info.minor}", __version__


def refuse_versions(expected: Versions) -> None:
    """Raise if the driver has other versions."""
    if versions() != expected:
        mine, theirs = (f"Python {python} and cawn {cawn}" for python, cawn in (versions(), expected))
        raise QueryError(f"a node of the cluster has {mine}, but this machine has {theirs}; install the same")


def _failure(work: Callable[[], object]) -> tuple[str, str] | None:
    """The class and message of an error that a user can correct."""
    try:
        work()
    except CawnError as error:
        return type(error).__name__, str(error)
    return None


def counts_of(row: dict[str, Any]) -> RowCounts:
    """The counts that a worker returned; raises the error that it returned instead."""
    if row["error"]:
        raise getattr(errors, str(row["error"]), CawnError)(str(row["message"]))
    return RowCounts(int(row["size"]), int(row["unknown"]))


def _explain(ray: Any, error: BaseException) -> str:
    """One line about a failure of Ray or of a worker."""
    text, found = str(error), ray.exceptions
    if "No module named 'cawn" in text:
        return f"a node of the cluster has no cawn {__version__}; install it on every node"
    dead = (found.ActorDiedError, found.ActorUnavailableError, found.WorkerCrashedError, found.OutOfMemoryError)
    why = "a worker died several times in the same partition, perhaps because memory ran out: use fewer workers"
    if not isinstance(error, dead):
        why = ([line.strip() for line in text.splitlines() if line.strip()] or [type(error).__name__])[-1]
    return one_line(f"Ray could not complete the job ({why}); finished partitions are kept")
