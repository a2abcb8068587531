"""Ray datasets of pairs and of nodes: scored and ranked lazily, by actors that load a run once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cawn.checks import check_integer, check_path, check_words
from cawn.data.readers.tables import Origin, TableColumn
from cawn.data.reading import Column, Header, Reading, find_layout
from cawn.data.times import time_after
from cawn.errors import DataError, QueryError, brief
from cawn.learn.calibration import FITTED_PRIOR, check_prior
from cawn.learn.runs import read_description
from cawn.rankings import MAX_DRAWS
from cawn.scale import jobs
from cawn.scale.cluster import choose_pool, import_ray
from cawn.scale.jobs import NodeJob, score_rows
from cawn.scale.plans import run_digest
from cawn.scale.ray_engine import Versions, load_in_worker, refuse_versions, versions
from cawn.snapshot import newest_time
from cawn.walks.candidates import KINDS

if TYPE_CHECKING:
    import pyarrow as pa
    from ray.data import Dataset

    from cawn.data.names import Names


def score(
    dataset: Dataset,
    run: str | os.PathLike[str],
    *,
    src: Column | None = None,
    dst: Column | None = None,
    time: Column | None = None,
    at: Any = None,
    prior: float = FITTED_PRIOR,
    draws: int | None = None,
    device: str = "auto",
    workers: int | None = None,
    threads: int | None = None,
    gpus: float | None = None,
) -> Dataset:
    """Add the probability that each pair of a Ray dataset links at its time: the same rows with one more column.

    Lazy and streaming, as all transformations of a dataset. Blocks keep their order if
    `DataContext.execution_options.preserve_order` is set.

    Args:
        run: A run folder on a file system that all nodes share.
        src: The column of sources; by default as in the training data, or recognised by its name.
        dst: The column of destinations, likewise.
        time: The column of times, likewise.
        at: One time for all pairs instead.
        prior: As for `LinkPredictor.score`.
        draws: As for `LinkPredictor.score`; adds a column of standard errors.
        device: "auto" uses GPUs if the cluster has any.
        workers: The most actors; by default one for every GPU, or for every core.
        threads: CPU threads of each actor; by default all cores are divided among the actors.
        gpus: GPUs of each actor, which may be a fraction.
    """
    _check_dataset(dataset)
    check_prior(prior)
    if draws is not None:
        check_integer(draws, "draws", 2, MAX_DRAWS)
    if at is not None and time is not None:
        raise QueryError("at and time: give one time for all pairs or the column of times, not both")
    asked = {"wanted": Reading.of(src=src, dst=dst, time=time), "at": at, "prior": prior, "draws": draws}
    return _mapped(dataset, _PairScorer, asked, jobs.ROWS, run, (device, workers, threads, gpus))


def rank(
    dataset: Dataset | None,
    run: str | os.PathLike[str],
    *,
    node: str | None = None,
    at: Any = None,
    k: int = 10,
    candidates: Names | None = None,
    kinds: Sequence[str] = KINDS,
    prior: float = FITTED_PRIOR,
    device: str = "auto",
    workers: int | None = None,
    threads: int | None = None,
    gpus: float | None = None,
) -> Dataset:
    """Rank the most probable destinations of every node of a Ray dataset, or of every node of the run.

    Returns a dataset with the columns node, rank, candidate, probability and found; the rows of a node follow each
    other. The walks of a node are sampled once.

    Args:
        dataset: A dataset with a column of nodes; None for all nodes of the run.
        run: A run folder on a file system that all nodes of the cluster share.
        node: The column of nodes; "node" or the first by default.
        at: The time; just after the newest link by default.
        k: As for `LinkPredictor.rank`, as are `candidates`, `kinds` and `prior`.
        device: As for `score`, as are `workers`, `threads` and `gpus`.
    """
    check_integer(k, "k", 1)
    check_words(kinds, "kinds", KINDS)
    check_prior(prior)
    everyone = dataset is None
    if dataset is None:
        from cawn.learn.runs import read_run

        count = len(read_run(check_path(run, "run"), verify=False).names)
        dataset = import_ray().data.range(count, override_num_blocks=max(count // (16 * jobs.NODES), 1))
    _check_dataset(dataset)
    asked = {"job": NodeJob(None, at, k, candidates, tuple(kinds), prior), "column": node, "everyone": everyone}
    return _mapped(dataset, _NodeRanker, asked, jobs.NODES, run, (device, workers, threads, gpus))


def _check_dataset(dataset: Any) -> None:
    ray = import_ray()
    if not isinstance(dataset, ray.data.Dataset):
        raise QueryError(f"dataset is {brief(dataset)}: give a ray.data.Dataset")


def _mapped(dataset: Any, actor: type, asked: dict[str, Any], rows: int, run: Any, pool: tuple[Any, ...]) -> Any:
    ray = import_ray()
    folder = check_path(run, "run").absolute()
    chosen = choose_pool(ray, *pool)
    loading = (folder, run_digest(folder), chosen.device, chosen.threads, versions())
    options = chosen.remote_options()
    if ray.cluster_resources().get("CPU", 0) < 2:
        options["num_cpus"] = 0  # the only CPU is needed for reading
    return dataset.map_batches(
        actor,
        batch_size=rows,
        batch_format="pyarrow",
        # One actor at first, more while CPUs are free: if actors held all of them, no task could read a file.
        compute=ray.data.ActorPoolStrategy(min_size=1, max_size=chosen.workers),
        fn_constructor_kwargs={"loading": loading, **asked},
        **options,
    )


Loading = tuple[Path, str, str, int, Versions]


class _Actor:
    """Loads the run once."""

    def __init__(self, loading: Loading) -> None:
        run, digest, device, threads, expected = loading
        refuse_versions(expected)
        self._predictor = load_in_worker(run, digest, device, threads)
        found = read_description(run).get("reading")
        self._recorded = None if found is None else Reading.from_dict(found)


class _PairScorer(_Actor):
    """An actor that scores batches of pairs."""

    def __init__(self, loading: Loading, wanted: Reading, at: Any, prior: float, draws: int | None) -> None:
        super().__init__(loading)
        self._wanted, self._at, self._options = wanted, at, (prior, draws)

    def __call__(self, rows: pa.Table) -> pa.Table:
        names = rows.column_names
        columns = self._wanted.completed(self._recorded, names, True)
        layout = find_layout(Header("dataset", names), columns, timed=self._at is None)
        return score_rows(self._predictor, rows, layout, _ORIGIN, self._at, *self._options)[0]


class _NodeRanker(_Actor):
    """An actor that ranks for batches of nodes."""

    def __init__(self, loading: Loading, job: NodeJob, column: str | None, everyone: bool) -> None:
        super().__init__(loading)
        self._job, self._column, self._everyone = job, column, everyone
        if job.at is None:
            self._job = replace(job, at=time_after(newest_time(self._predictor)))

    def __call__(self, rows: pa.Table) -> pa.Table:
        return self._job.rank(self._predictor, self._names(rows))[0]

    def _names(self, rows: pa.Table) -> list[Any]:
        if self._everyone:
            return list(map(self._predictor.snapshot().name, rows["id"].to_pylist()))
        names = rows.column_names
        column = self._column or ("node" if "node" in names else names[0])
        if column not in names:
            raise DataError(f"dataset: no column {column!r}; it has {', '.join(names)}")
        found: list[Any] = TableColumn.at(rows, names.index(column), _ORIGIN).names().to_pylist()
        return found


_ORIGIN = Origin("dataset", lambda row: f"row {row + 1} of a batch")
