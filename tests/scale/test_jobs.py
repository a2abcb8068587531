"""Jobs compute any range of their rows."""

from pathlib import Path

import pyarrow as pa
import pytest

import cawn
from cawn.data.readers.query_files import NodeFile, PairFile
from cawn.predictor import LinkPredictor
from cawn.scale.jobs import NodeJob, PairJob, RowCounts, file_version, one_schema, refuse_changed
from small_jobs import pairs, write_folder


@pytest.mark.parametrize(("first", "stop"), [(0, None), (0, 64), (64, 192), (250, None), (128, 900), (300, 400)])
def test_a_range_of_pairs(predictor: LinkPredictor, tmp_path: Path, first: int, stop: int | None) -> None:
    """Row groups of 70 rows are skipped or cut."""
    path = write_folder(tmp_path / "pairs") / "0.parquet"
    found = list(PairJob(PairFile.open(path), None, 0.5, None, chunk=64).run(predictor, first, stop))
    notes = [note for table, _ in found for note in table["note"].to_pylist()]
    assert notes == pairs()["note"][first:stop]
    assert all(len(table) == counts.size <= 64 for table, counts in found)
    assert all("probability" in table.column_names for table, _ in found)


def test_the_row_of_an_error(predictor: LinkPredictor, tmp_path: Path) -> None:
    times: list = pairs()["t"]
    times[230] = None
    path = write_folder(tmp_path / "pairs", (300,), t=times) / "0.parquet"
    job = PairJob(PairFile.open(path), None, 0.5, None, chunk=64)
    assert len(list(job.run(predictor, 0, 192))) == 3
    with pytest.raises(cawn.DataError, match=r"0\.parquet, row 231"):
        list(job.run(predictor, 192))


def test_a_range_of_nodes(predictor: LinkPredictor, tmp_path: Path) -> None:
    everyone = NodeJob(None, 30_000, k=1, chunk=8)
    names = [node for table, _ in everyone.run(predictor, 10, 30) for node in table["node"].to_pylist()]
    assert names == predictor.nodes()[10:30]
    (tmp_path / "nodes.txt").write_text("node\n" + "\n".join([*names, "stranger"]))
    some = NodeJob(NodeFile.open(str(tmp_path / "nodes.txt")), 30_000, k=1, chunk=8)
    parts = list(some.run(predictor, 16))
    assert parts[0][1] == RowCounts(5, 1)
    assert parts[0][0]["node"].to_pylist() == [*names[16:], "stranger"]


def test_a_file_that_changed(tmp_path: Path) -> None:
    file = PairFile.open(write_folder(tmp_path / "pairs") / "0.parquet").path
    version = file_version(file)
    refuse_changed(file, version)
    with pytest.raises(cawn.DataError, match="changed while"):
        refuse_changed(file, [version[0], 0])


def test_names_of_both_types_are_text() -> None:
    schemas = [pa.schema([("node", kind), ("rank", pa.int32())]) for kind in (pa.int64(), pa.string())]
    assert one_schema(schemas) == schemas[1]
    assert one_schema(schemas[:1]) == schemas[0]


@pytest.mark.parametrize(
    ("kinds", "common"),
    [
        ((pa.null(), pa.list_(pa.int64())), pa.list_(pa.int64())),
        ((pa.int64(), pa.null()), pa.int64()),
        ((pa.int64(), pa.float64()), pa.float64()),
    ],
)
def test_numbers_and_nulls_do_not_become_text(kinds: tuple, common: pa.DataType) -> None:
    assert one_schema([pa.schema([("x", kind)]) for kind in kinds]) == pa.schema([("x", common)])


def test_a_time_that_cannot_be_queried_names_the_file(predictor: LinkPredictor, tmp_path: Path) -> None:
    path = write_folder(tmp_path / "pairs", (3,), t=[1.5, 2.5, 3.5]) / "0.parquet"
    with pytest.raises(cawn.QueryError, match=r"0\.parquet: t has fractions"):
        list(PairJob(PairFile.open(path), None, 0.5, None).run(predictor))
