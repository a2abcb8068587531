"""The engine and the datasets of Ray, on a Ray that is started once for all tests of this file."""

from collections.abc import Iterator
from contextlib import contextmanager
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
from cawn.scale.folder_output import run_here, run_to_folder
from cawn.scale.jobs import NodeJob
from cawn.scale.plans import run_digest
from cawn.scale.ray_engine import PartitionWorker, load_in_worker, refuse_versions, run_on_ray, versions
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


def test_a_killed_worker_changes_nothing(ray, predictor, run: Path, tmp_path: Path) -> None:
    asked = plan(run, write_folder(tmp_path / "pairs", (300, 200)))
    run_to_folder(asked, tmp_path / "here", run_here(lambda: predictor))
    died = tmp_path / "died"
    dying = [DyingJob(*(getattr(job, field.name) for field in fields(job)), died=str(died)) for job in asked.jobs]
    asked = replace(asked, jobs=tuple(dying))
    ticks: list[int] = []
    counts = run_to_folder(asked, tmp_path / "ray", run_on_ray(device="cpu", workers=2, threads=1), tick=ticks.append)
    assert died.exists()
    assert counts.size == sum(ticks) == 500
    assert table(tmp_path / "ray") == table(tmp_path / "here"), "bit for bit, with one thread each"


def test_an_interrupted_job_is_resumed_by_another_engine(ray, run: Path, tmp_path: Path, monkeypatch) -> None:
    command = ("rank", run, "--all", "-k", 2, "--time", 20_000, "--device", "cpu", "--threads", 1)
    out = tmp_path / "ranked"

    @contextmanager
    def stop_at(*_: object, **__: object) -> Iterator[Any]:
        def report(done: float) -> None:
            if done >= 16:
                raise KeyboardInterrupt

        yield report

    with monkeypatch.context() as patch:
        patch.setattr("cawn.progress.progress", stop_at)
        code, _, said = call_cawn(*command, "--engine", "ray", "--workers", 1, "-o", out)
    assert code == 130
    assert said == f"interrupted: finished partitions are kept in {out}; run the same command to resume\n"
    kept = {path: path.stat().st_mtime_ns for path in out.glob("part-*")}
    assert kept
    assert not (out / "_SUCCESS").exists()
    assert call_cawn(*command, "-o", out).err == f"40 nodes ranked: {out}\n"
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert call_cawn(*command, "-o", tmp_path / "ranked.parquet").code == 0
    assert table(out) == table(tmp_path / "ranked.parquet")


def test_bad_rows_end_the_job(ray, run: Path, tmp_path: Path) -> None:
    times: list = pairs()["t"]
    times[290] = None
    source, out = write_folder(tmp_path / "pairs", (300,), t=times), tmp_path / "scored"
    command = ("predict", run, source, "-o", out, "--engine", "ray", "--workers", 1, "--device", "cpu")
    code, shown, said = call_cawn(*command)
    assert (code, shown) == (2, "")
    expected = "found nothing; expected a time: a number or an ISO date"
    assert said == f"cawn: {source}/0.parquet, row 291, column 't': {expected}\n"
    assert sorted(path.name for path in out.glob("part-*")) == ["part-00000000.parquet", "part-00000001.parquet"]


def test_datasets(ray, predictor: LinkPredictor, run: Path) -> None:
    given = pairs(100)
    dataset = ray.data.from_arrow(pa.table(given))
    options = {"device": "cpu", "workers": 1, "threads": 1}
    with quiet_data():
        found = cawn.scale.score(dataset, run, **options).to_pandas()
    assert found["note"].tolist() == given["note"]
    assert_same_scores(found["probability"], predictor.score(given["src"], given["dst"], given["t"]))
    with quiet_data():
        ranked = cawn.scale.rank(None, run, k=2, **options).to_pandas()
    assert set(ranked["node"]) == set(predictor.nodes())


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
