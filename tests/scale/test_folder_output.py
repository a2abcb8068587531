"""Folders of Parquet files: whole partitions or none, resumed where they stopped, one job and one process at a time."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cawn
from cawn.data.readers.query_files import NodeFile
from cawn.interrupt import Interrupted
from cawn.predictor import LinkPredictor
from cawn.scale import folder_output
from cawn.scale.file_output import run_to_file
from cawn.scale.folder_output import run_locally, run_to_folder
from cawn.scale.jobs import NodeJob, RowCounts
from cawn.scale.plans import Plan, plan_nodes
from small_jobs import pairs, plan, write_folder

pytestmark = pytest.mark.usefixtures("small_partitions")


@pytest.fixture
def engine(predictor: LinkPredictor):
    return run_locally(lambda: predictor)


def stop_after(count: int) -> Callable[[int], None]:
    """Raises once this number of pairs is done."""
    done = 0

    def tick(more: int) -> None:
        nonlocal done
        done += more
        if done >= count:
            raise Interrupted

    return tick


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name.startswith("part-")}


def test_the_rows_in_order(engine, predictor, run: Path, tmp_path: Path) -> None:
    asked, out = plan(run, write_folder(tmp_path / "pairs")), tmp_path / "scored"
    assert run_to_folder(asked, out, engine).size == 500
    assert sorted(path.name for path in out.iterdir()) == [
        ".lock",
        "_SUCCESS",
        "_job.json",
        *(f"part-0000000{i}.parquet" for i in range(5)),
    ]
    tables = []
    for i, job in enumerate(asked.jobs):
        run_to_file(predictor, job, tmp_path / f"{i}.parquet")
        tables.append(pq.read_table(tmp_path / f"{i}.parquet"))
    found = pq.read_table(out)
    assert found.replace_schema_metadata(None) == pa.concat_tables(tables), "bit for bit"
    told = json.loads((out / "_SUCCESS").read_text())
    assert (told["rows"], told["partitions"]) == (500, 5)
    assert told["unknown"] == sum("n4" in (u[:2], v[:2]) and {u, v} & {"n40", "n41"} != set() for u, v in ends(found))


def ends(table: pa.Table) -> list[tuple[str, str]]:
    return list(zip(table["src"].to_pylist(), table["dst"].to_pylist(), strict=True))


def test_what_was_interrupted_is_resumed(engine, run: Path, tmp_path: Path) -> None:
    asked, out, whole = plan(run, write_folder(tmp_path / "pairs")), tmp_path / "scored", tmp_path / "whole"
    run_to_folder(asked, whole, engine)
    with pytest.raises(KeyboardInterrupt):
        run_to_folder(asked, out, engine, tick=stop_after(330))
    assert len(content(out)) == 3
    assert not (out / "_SUCCESS").exists()
    ticks: list[int] = []
    run_to_folder(asked, out, engine, tick=ticks.append)
    assert ticks[0] == 300
    assert sum(ticks) == 500
    assert content(out) == content(whole)


def test_a_finished_job_is_not_repeated(engine, run: Path, tmp_path: Path) -> None:
    asked, out = plan(run, write_folder(tmp_path / "pairs")), tmp_path / "scored"
    counts = run_to_folder(asked, out, engine)
    assert run_to_folder(asked, out, run_locally(lambda: pytest.fail("loaded"))) == counts


@pytest.mark.parametrize("damage", ["missing", "cut", "of another job"])
def test_damaged_partitions_are_computed_again(engine, run: Path, tmp_path: Path, damage: str) -> None:
    asked, out, whole = plan(run, write_folder(tmp_path / "pairs")), tmp_path / "scored", tmp_path / "whole"
    run_to_folder(asked, whole, engine)
    run_to_folder(asked, out, engine)
    part = out / "part-00000001.parquet"
    if damage == "missing":
        part.unlink()
    else:
        other = pq.read_table(part).replace_schema_metadata({"cawn": json.dumps({"job": "x", "partition": 1})})
        pq.write_table(other, part) if damage == "of another job" else part.write_bytes(part.read_bytes()[:-9])
    run_to_folder(asked, out, engine)
    assert content(out) == content(whole)


def test_another_job_is_refused(engine, run: Path, tmp_path: Path) -> None:
    source, out = write_folder(tmp_path / "pairs"), tmp_path / "scored"
    run_to_folder(plan(run, source), out, engine)
    before = content(out)
    other = plan(run, source, draws=2)
    with pytest.raises(cawn.QueryError, match="results of another job; choose another folder, or give --force"):
        run_to_folder(other, out, engine)
    assert content(out) == before
    run_to_folder(other, out, engine, force=True)
    assert "error" in pq.read_table(out).column_names


def test_two_at_once_are_refused(engine, run: Path, tmp_path: Path) -> None:
    asked, out = plan(run, write_folder(tmp_path / "pairs")), tmp_path / "scored"

    def again(_: int) -> None:
        with pytest.raises(cawn.StorageError, match="another process is writing to this folder"):
            run_to_folder(asked, out, engine)

    assert run_to_folder(asked, out, engine, tick=again).size == 500


def test_other_files_are_left_alone(engine, run: Path, tmp_path: Path) -> None:
    asked, out = plan(run, write_folder(tmp_path / "pairs", (5,))), tmp_path / "scored"
    out.mkdir()
    (out / "mine.txt").write_text("precious")
    for force in (False, True):
        with pytest.raises(cawn.QueryError, match=r"is not empty \(it holds 'mine.txt'\)"):
            run_to_folder(asked, out, engine, force=force)
    assert [path.name for path in out.iterdir()] == ["mine.txt"]
    with pytest.raises(cawn.QueryError, match="is not a folder"):
        run_to_folder(asked, out / "mine.txt", engine)
    with pytest.raises(cawn.StorageError, match="no such folder"):
        run_to_folder(asked, tmp_path / "nowhere" / "scored", engine)


def test_bad_rows_end_the_job(engine, run: Path, tmp_path: Path) -> None:
    times: list = pairs()["t"]
    out = tmp_path / "scored"
    times[150] = None
    bad = plan(run, write_folder(tmp_path / "late", (300,), t=times))
    with pytest.raises(cawn.DataError, match=r"0\.parquet, row 151, column 't'"):
        run_to_folder(bad, out, engine)
    assert list(content(out)) == ["part-00000000.parquet"], "finished partitions stay"
    times[0] = None
    bad = plan(run, write_folder(tmp_path / "early", (300,), t=times))
    with pytest.raises(cawn.DataError, match=r"0\.parquet, row 1, column 't'"):
        run_to_folder(bad, tmp_path / "nothing", engine)
    assert not (tmp_path / "nothing").exists()


def test_a_file_that_changes_meanwhile_is_refused(engine, run: Path, tmp_path: Path) -> None:
    source, out = write_folder(tmp_path / "pairs"), tmp_path / "scored"

    def change(done: int) -> None:
        if done:
            pq.write_table(pa.table(pairs(400)), source / "0.parquet")

    with pytest.raises(cawn.DataError, match="changed while"):
        run_to_folder(plan(run, source), out, engine, tick=change)
    assert not out.exists()


def test_a_full_disk(engine, run: Path, tmp_path: Path, monkeypatch) -> None:
    asked, out = plan(run, write_folder(tmp_path / "pairs")), tmp_path / "scored"
    write = folder_output._write

    def full(table: pa.Table, facts: dict, path: Path) -> None:
        if facts["partition"] == 2:
            path.write_bytes(b"PAR1")
            raise OSError(28, "No space left on device")
        write(table, facts, path)

    with monkeypatch.context() as patch:
        patch.setattr(folder_output, "_write", full)
        with pytest.raises(cawn.StorageError, match=r"part-00000002\.parquet: cannot be written \(No space left"):
            run_to_folder(asked, out, engine)
    assert sorted(content(out)) == ["part-00000000.parquet", "part-00000001.parquet"]
    assert run_to_folder(asked, out, engine).size == 500


def test_rankings(engine, predictor, run: Path, tmp_path: Path) -> None:
    """Nodes and candidates with integer names beside text become text in every partition, as in one file."""
    path = tmp_path / "nodes.parquet"
    pq.write_table(pa.table({"node": [*range(20), *range(5)]}), path)
    asked = plan_nodes(run, NodeJob(NodeFile.open(str(path)), 20_000, k=2), predictor.num_nodes)
    everyone: Plan = plan_nodes(run, NodeJob(None, 20_000, k=3), predictor.num_nodes)
    for number, (each, size) in enumerate([(asked, 25), (everyone, 40)]):
        out, file = tmp_path / f"ranked {number}", tmp_path / f"{number}.parquet"
        assert run_to_folder(each, out, engine) == run_to_file(predictor, each.jobs[0], file)
        assert pq.read_table(out).replace_schema_metadata(None) == pq.read_table(file)
        assert len(set(pq.read_table(out)["node"].to_pylist())) in (20, size)


def test_one_schema_for_all_partitions(engine, predictor, run: Path, tmp_path: Path) -> None:
    """A text column of integers in one partition and of words in another."""
    path = tmp_path / "nodes.jsonl"
    path.write_text("".join(f'{{"node": "{name}"}}\n' for name in [*range(16), "n1", "n2"]))
    job = NodeJob(NodeFile.open(str(path)), 20_000, k=1, candidates=["7", "n3"])
    out, file = tmp_path / "ranked", tmp_path / "ranked.parquet"
    assert run_to_folder(plan_nodes(run, job, 40), out, engine) == RowCounts(18, 16)
    run_to_file(predictor, job, file)
    assert pq.read_table(out).replace_schema_metadata(None) == pq.read_table(file)


def test_input_files_are_never_replaced(engine, run: Path, tmp_path: Path) -> None:
    """Not even those that are called like partitions."""
    folder = tmp_path / "part"
    write_folder(tmp_path / "pairs", (5,)).rename(folder)
    (folder / "0.parquet").rename(folder / "part-00000000.parquet")
    before, asked = content(folder), plan(run, folder)
    other = plan(run, write_folder(tmp_path / "other", (5,)))
    for force in (False, True):
        with pytest.raises(cawn.QueryError, match="holds the input file"):
            run_to_folder(asked, folder, engine, force=force)
        with pytest.raises(cawn.QueryError, match=r"is not empty \(it holds 'part-00000000.parquet'\)"):
            run_to_folder(other, folder, engine, force=force)
    assert content(folder) == before
