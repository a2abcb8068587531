"""Files of pairs cut into partitions."""

import os
import shutil
from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cawn
from cawn.data.readers.query_files import NodeFile, PairFile
from cawn.data.reading import Reading
from cawn.files import refuse_within
from cawn.predictor import LinkPredictor
from cawn.scale.jobs import NodeJob
from cawn.scale.plans import (
    Partition,
    is_folder_or_pattern,
    open_pairs,
    plan_nodes,
    plan_pairs,
    run_digest,
)
from small_jobs import pairs, plan, write_folder

pytestmark = pytest.mark.usefixtures("small_partitions")


def test_partitions_are_ranges_of_one_file(run: Path, tmp_path: Path) -> None:
    found = plan(run, write_folder(tmp_path / "pairs", (300, 0, 128)))
    expected = [(0, 0, 0, 128), (1, 0, 128, 256), (2, 0, 256, 300), (3, 1, 0, 128)]
    assert found.partitions() == [Partition(*each) for each in expected]
    assert found.size == 428


def test_the_same_job_has_the_same_digest(run: Path, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "pairs")
    first = plan(run, folder)
    assert first == plan(run, folder)
    assert first.digest == plan(run, folder).digest
    assert first.digest != plan(run, folder, draws=2).digest
    os.utime(folder / "0.parquet", (5, 5))
    assert first.digest != plan(run, folder).digest


def test_files_of_a_folder(run: Path, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "pairs", (5, 6))
    shutil.copytree(folder, folder / "more")
    for name in ("_SUCCESS", ".part.crc", "more/_metadata"):
        (folder / name).write_text("not a table")
    names = [str(Path(str(each.path)).relative_to(folder)) for each in open_pairs(run, str(folder), Reading())]
    assert names == ["0.parquet", "1.parquet", "more/0.parquet", "more/1.parquet"]
    assert len(open_pairs(run, f"{folder}/*.parquet", Reading())) == 2


def test_folders_that_name_a_time(run: Path, predictor: LinkPredictor, tmp_path: Path) -> None:
    for t in (20_000, 25_000):
        folder = tmp_path / "pairs" / f"t={t}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"src": ["n1"], "dst": ["n2"]}), folder / "0.parquet")
    found = [table for job in plan(run, tmp_path / "pairs").jobs for table, _ in job.run(predictor)]
    assert [table["t"].to_pylist() for table in found] == [[20_000], [25_000]]
    assert found[0]["probability"].to_pylist() == predictor.score("n1", "n2", 20_000).tolist()


def test_text_is_counted_exactly(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text('src,dst,t,note\nn1,n2,5,"two\nlines"\nn2,n3,6,x\n')
    assert plan(run, path).sizes == (2,)


def test_what_counts_as_many(tmp_path: Path) -> None:
    (tmp_path / "odd[1].csv").write_text("src,dst,t\n1,2,3\n")
    assert is_folder_or_pattern(str(tmp_path))
    assert is_folder_or_pattern(f"{tmp_path}/*.csv")
    assert not is_folder_or_pattern(f"{tmp_path}/odd[1].csv")
    assert not is_folder_or_pattern("-")


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        ({"src": ["a"], "dst": ["b"], "t": [1]}, "columns are not the same as in"),
        (pairs(2) | {"t": [0.5, 1.5]}, "columns are not the same as in"),
        ({"from": ["a"], "to": ["b"]}, "no column"),
    ],
)
def test_files_that_differ_are_refused(run: Path, tmp_path: Path, other: dict, reason: str) -> None:
    folder = write_folder(tmp_path / "pairs")
    pq.write_table(pa.table(other), folder / "2.parquet")
    with pytest.raises(cawn.DataError, match=rf"2\.parquet: .*{reason}"):
        open_pairs(run, str(folder), Reading())


def test_files_of_different_kinds_are_refused(run: Path, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "pairs")
    (folder / "2.csv").write_text("note,src,dst,t\nx,n1,n2,5\n")
    with pytest.raises(cawn.DataError, match="files of several kinds"):
        open_pairs(run, str(folder), Reading())


def test_nothing_to_do(run: Path, tmp_path: Path) -> None:
    with pytest.raises(cawn.DataError, match="no rows"):
        plan(run, write_folder(tmp_path / "pairs", (0, 0)))
    (tmp_path / "empty").mkdir()
    with pytest.raises(cawn.DataError, match="no files in this folder"):
        open_pairs(run, str(tmp_path / "empty"), Reading())


def test_pipes_cannot_be_divided(run: Path, tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    if os.fork() == 0:
        path.write_text("src,dst,t\nn1,n2,5\n")
        os._exit(0)
    file = PairFile.open(path)
    os.wait()
    with pytest.raises(cawn.QueryError, match="is a pipe"):
        plan_pairs(run, [file], None, 0.5, None)


def test_nodes(run: Path, tmp_path: Path) -> None:
    assert [each[2:] for each in plan_nodes(run, NodeJob(None, 5), 40).partitions()] == [(0, 16), (16, 32), (32, 40)]
    (tmp_path / "nodes.txt").write_text("n1\nn2\n")
    found = plan_nodes(run, NodeJob(NodeFile.open(str(tmp_path / "nodes.txt")), 5), 40)
    assert found.partitions() == [Partition(0, 0, 0, 2)]


def test_the_digest_of_a_run(run: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(run, tmp_path / "copy"))
    assert run_digest(copy) == run_digest(run)
    (copy / "report.json").write_text((copy / "report.json").read_text() + " ")
    assert run_digest(copy) != run_digest(run)
    with pytest.raises(cawn.StorageError, match="no run"):
        run_digest(tmp_path)


@pytest.mark.parametrize(
    ("out", "refused"), [("pairs", True), ("pairs/day/scored", True), ("pairs/_scored", False), ("scored", False)]
)
def test_an_output_among_the_input_is_refused(tmp_path: Path, out: str, refused: bool) -> None:
    source = write_folder(tmp_path / "pairs", (1,))
    with pytest.raises(cawn.QueryError, match="the folder of the input") if refused else nullcontext():
        refuse_within(tmp_path / out, str(source))
