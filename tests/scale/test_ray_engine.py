"""The engine and the datasets of Ray, on a Ray that is started once for all tests of this file."""

import json
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cawn
import cawn.scale
from cawn.predictor import LinkPredictor
from cawn.scale.cluster import connected, quiet_data
from cawn.scale.datasets import _NodeRanker
from cawn.scale.folder_output import run_locally, run_to_folder
from cawn.scale.jobs import NodeJob
from cawn.scale.plans import run_digest
from cawn.scale.ray_engine import PartitionWorker, counts_of, load_in_worker, refuse_versions, run_on_ray, versions
from command_line import call_cawn
from dying_job import DyingJob
from small_jobs import pairs, plan, write_folder
from tolerances import assert_same_scores

pytest.importorskip("ray.data")
pytestmark = pytest.mark.usefixtures("small_partitions")


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("RAY_ADDRESS", raising=False)
        with connected(workers=2) as started:
            yield started


def table(folder: Path) -> pa.Table:
    return pq.read_table(folder).replace_schema_metadata(None)


def test_a_killed_worker_and_an_interruption_change_nothing(ray, predictor, run: Path, tmp_path: Path) -> None:
    """A worker is killed in the middle of a partition, the job is stopped later, and the rest computed here."""
    asked, here = plan(run, write_folder(tmp_path / "pairs", (300, 200))), run_locally(lambda: predictor)
    run_to_folder(asked, tmp_path / "whole", here)
    died, out = tmp_path / "died", tmp_path / "scored"
    values = ([getattr(job, field.name) for field in fields(job)] for job in asked.jobs)
    dying = replace(asked, jobs=tuple(DyingJob(*each, died=str(died)) for each in values))
    done = 0

    def stop(more: int) -> None:
        nonlocal done
        done += more
        if done >= 256:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_to_folder(dying, out, run_on_ray(device="cpu", workers=1, threads=1), tick=stop)
    assert died.exists()
    kept = {path: path.stat().st_mtime_ns for path in out.glob("part-*")}
    assert len(kept) >= 2
    assert not (out / "_SUCCESS").exists()
    assert run_to_folder(dying, out, here).size == 500
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert table(out) == table(tmp_path / "whole"), "bit for bit, with one thread each"


def test_the_command(ray, run: Path, tmp_path: Path) -> None:
    command = ("rank", run, "--all", "-k", 2, "--time", 20_000, "--device", "cpu", "--threads", 1)
    out = tmp_path / "ranked"
    code, shown, said = call_cawn(*command, "--engine", "ray", "--workers", 1, "-o", out, "--json")
    assert (code, json.loads(shown), said) == (0, {"rows": 40, "unknown": 0, "out": str(out)}, "")
    assert call_cawn(*command, "-o", tmp_path / "ranked.parquet").code == 0
    assert table(out) == table(tmp_path / "ranked.parquet")


def test_errors_of_workers(run: Path, tmp_path: Path) -> None:
    times: list = pairs()["t"]
    times[290] = None
    source, out = write_folder(tmp_path / "pairs", (300,), t=times), tmp_path / "scored"
    out.mkdir()
    worker = PartitionWorker(plan(run, source), out, "cpu", 1, versions())
    told = worker({"number": [2], "job": [0], "first": [256], "stop": [300]})
    (row,) = pa.table(told).to_pylist()
    with pytest.raises(cawn.DataError, match=r"0\.parquet, row 291, column 't': found nothing"):
        counts_of(row)
    told = worker({"number": [1], "job": [0], "first": [128], "stop": [256]})
    (row,) = pa.table(told).to_pylist()
    assert counts_of(row).size == 128
    assert [path.name for path in out.iterdir()] == ["part-00000001.parquet"]


def test_a_dataset(ray, predictor: LinkPredictor, run: Path, tmp_path: Path) -> None:
    """By default as many actors as CPUs, which must leave one to the task that reads the file."""
    given = pairs(100)
    pq.write_table(pa.table(given), tmp_path / "pairs.parquet")
    with quiet_data():
        dataset = ray.data.read_parquet(str(tmp_path / "pairs.parquet"))
        found = cawn.scale.score(dataset, run, device="cpu", threads=1).to_pandas()
    assert found["note"].tolist() == given["note"]
    assert_same_scores(found["probability"], predictor.score(given["src"], given["dst"], given["t"]))


def test_what_datasets_refuse(ray, run: Path) -> None:
    dataset = ray.data.from_arrow(pa.table(pairs(2)))
    with pytest.raises(cawn.QueryError, match=r"give a ray\.data\.Dataset"):
        cawn.scale.score([1], run)
    with pytest.raises(cawn.QueryError, match="not both"):
        cawn.scale.score(dataset, run, at=5, time="t")
    with pytest.raises(cawn.StorageError, match="holds no run"):
        cawn.scale.score(dataset, run.parent)
    with pytest.raises(cawn.QueryError, match="k is 0"):
        cawn.scale.rank(dataset, run, k=0)


def test_nodes_of_a_dataset(predictor: LinkPredictor, run: Path) -> None:
    """What an actor does, in this process."""
    loading = (run, run_digest(run), "cpu", 1, versions())
    ranker = _NodeRanker(loading, NodeJob(None, None, k=1), None, everyone=False)
    found = ranker(pa.table({"x": [1, 2], "node": ["n3", "n4"]}))
    assert found["node"].to_pylist() == ["n3", "n4"]
    assert found["candidate"].to_pylist()[0] == predictor.rank("n3", predictor.watermark + 1, k=1)[0].name
    everyone = _NodeRanker(loading, NodeJob(None, None, k=1), None, everyone=True)
    assert everyone(pa.table({"id": [3, 0]}))["node"].to_pylist() == [predictor.nodes()[3], predictor.nodes()[0]]
    with pytest.raises(cawn.DataError, match="no column 'user'; it has node"):
        _NodeRanker(loading, NodeJob(None, 5), "user", everyone=False)(pa.table({"node": ["n3"]}))


def test_nodes_of_a_cluster_that_do_not_fit(run: Path, tmp_path: Path) -> None:
    with pytest.raises(cawn.StorageError, match="the run must be on a file system that all nodes share"):
        load_in_worker(tmp_path, None, "cpu", 1)
    with pytest.raises(cawn.StorageError, match="has changed since the job began"):
        load_in_worker(run, "another", "cpu", 1)
    with pytest.raises(cawn.QueryError, match=r"a node of the cluster has Python .* this machine has Python 3\.0"):
        refuse_versions(("3.0", "0.0"))
    asked = plan(run, write_folder(tmp_path / "pairs", (5,)))
    worker = PartitionWorker(asked, tmp_path / "nowhere", "cpu", 1, versions())
    told = worker({"number": [0], "job": [0], "first": [0], "stop": [5]})
    assert told["error"].tolist() == ["StorageError"]
    assert "the output must be on a file system" in told["message"][0]
