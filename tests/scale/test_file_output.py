"""Files of pairs: any size, in order, whole or not at all, continued where they stopped."""

import gzip
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from benchmarks.report import resident_bytes

import cawn
from cawn.data.readers.query_files import PairFile
from cawn.interrupt import Interrupted
from cawn.predictor import LinkPredictor
from cawn.scale import jobs
from cawn.scale.file_output import run_to_file
from cawn.scale.jobs import NodeJob, PairJob, RowCounts
from small_jobs import pairs, small_run
from tolerances import assert_same_scores


@pytest.fixture(scope="module")
def predictor() -> LinkPredictor:
    return LinkPredictor.of(small_run())


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch) -> None:
    monkeypatch.setattr(jobs, "ROWS", 64)


def job(path: Path, at=None, draws=None) -> PairJob:
    return PairJob(PairFile.open(str(path), timed=at is None), at, 0.5, draws)


def write(path: Path, table: dict[str, list], suffix: str) -> Path:
    path = path / f"pairs{suffix}"
    rows = pa.table(table)
    if suffix == ".parquet":
        pq.write_table(rows, path, row_group_size=50)
    elif suffix == ".arrow":
        with pa.ipc.new_file(str(path), rows.schema) as file:
            file.write_table(rows, max_chunksize=70)
    else:
        delimiter = "\t" if suffix.startswith(".tsv") else ","
        lines = [delimiter.join(table), *(delimiter.join(map(str, row)) for row in zip(*table.values(), strict=True))]
        data = ("\n".join(lines) + "\n").encode()
        path.write_bytes(gzip.compress(data) if suffix.endswith(".gz") else data)
    return path


@pytest.mark.parametrize("out_suffix", [".csv", ".parquet"])
@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".tsv", ".parquet", ".arrow"])
def test_every_format_keeps_rows_and_order(predictor, tmp_path: Path, suffix: str, out_suffix: str) -> None:
    table = pairs()
    path, out = write(tmp_path, table, suffix), tmp_path / f"out{out_suffix}"
    assert run_to_file(predictor, job(path), out).size == 300
    found = pq.read_table(out) if out_suffix == ".parquet" else read_text(out, "\t" if suffix == ".tsv" else ",")
    assert found.column_names == ["note", "src", "dst", "t", "probability"]
    assert found["note"].to_pylist() == table["note"]
    expected = predictor.score(table["src"], table["dst"], table["t"])
    assert_same_scores(found["probability"], expected)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted([path.name, out.name])


def read_text(path: Path, delimiter: str, **options) -> pa.Table:
    return pa.csv.read_csv(path, parse_options=pa.csv.ParseOptions(delimiter=delimiter, **options))


def test_one_time_for_all_and_draws(predictor, tmp_path: Path) -> None:
    table = pairs(20)
    path = write(tmp_path, {"src": table["src"], "dst": table["dst"]}, ".csv")
    run_to_file(predictor, job(path, at=20_000, draws=3), tmp_path / "out.csv")
    found = read_text(tmp_path / "out.csv", ",")
    assert found.column_names == ["src", "dst", "probability", "error"]
    expected = predictor.score(table["src"], table["dst"], 20_000, draws=3)
    assert_same_scores(found["error"], expected.error)


def test_text_stays_as_it_was(predictor, tmp_path: Path) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text('src,dst,t,note\nn1,007,5,plain\nn2,n3,6,"with, comma"\nn2,n3,6,"two\nlines"\n')
    run_to_file(predictor, job(path), tmp_path / "out.csv")
    found = read_text(tmp_path / "out.csv", ",", newlines_in_values=True)
    assert found["note"].to_pylist() == ["plain", "with, comma", "two\nlines"]
    path.write_text("src,dst,t\nn1,007,5\n")
    run_to_file(predictor, job(path), tmp_path / "plain.csv")
    assert (tmp_path / "plain.csv").read_text().startswith("src,dst,t,probability\nn1,007,5,0.")


def test_a_column_of_that_name_is_kept(predictor, tmp_path: Path) -> None:
    path = write(tmp_path, pairs(5) | {"probability": [7] * 5}, ".csv")
    run_to_file(predictor, job(path), tmp_path / "out.csv")
    found = read_text(tmp_path / "out.csv", ",")
    assert found["probability"].to_pylist() == [7] * 5
    assert "cawn_probability" in found.column_names


def stop_at(number: int) -> Callable[[], None]:
    """Raises at that call."""
    calls = []

    def stop() -> None:
        calls.append(None)
        if len(calls) == number:
            raise Interrupted

    return stop


def test_what_was_interrupted_goes_on(predictor, tmp_path: Path, monkeypatch) -> None:
    path, out = write(tmp_path, pairs(), ".csv"), tmp_path / "out.csv"
    whole = tmp_path / "whole.csv"
    run_to_file(predictor, job(path), whole)
    with pytest.raises(KeyboardInterrupt):
        run_to_file(predictor, job(path), out, check=stop_at(2))
    assert not out.exists()
    asked = []
    score = jobs.score_rows
    monkeypatch.setattr(jobs, "score_rows", lambda p, rows, *args: asked.append(len(rows)) or score(p, rows, *args))
    counts: list[int] = []
    run_to_file(predictor, job(path), out, progress=counts.append)
    assert counts[0] == 128
    assert sum(asked) == 300 - 128
    assert out.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize("damage", ["missing", "cut"])
def test_pieces_that_are_not_whole_are_made_again(predictor, tmp_path: Path, damage: str) -> None:
    path, out, whole = write(tmp_path, pairs(), ".csv"), tmp_path / "out.csv", tmp_path / "whole.csv"
    run_to_file(predictor, job(path), whole)
    with pytest.raises(KeyboardInterrupt):
        run_to_file(predictor, job(path), out, check=stop_at(4))
    piece = next(tmp_path.glob("out.csv.*.parts")) / "000000001.arrow"
    piece.unlink() if damage == "missing" else piece.write_bytes(b"ARROW1")
    run_to_file(predictor, job(path), out)
    assert out.read_bytes() == whole.read_bytes()


def test_a_file_that_changes_meanwhile_is_refused(predictor, tmp_path: Path) -> None:
    path = write(tmp_path, pairs(), ".csv")

    def change() -> None:
        path.write_text(path.read_text() + "more,n1,n2,5\n")

    with pytest.raises(cawn.DataError, match="changed while"):
        run_to_file(predictor, job(path), tmp_path / "out.csv", check=change)
    assert not (tmp_path / "out.csv").exists()


def test_two_at_once_are_refused(predictor, tmp_path: Path) -> None:
    path, out = write(tmp_path, pairs(), ".csv"), tmp_path / "out.csv"

    def again() -> None:
        with pytest.raises(cawn.StorageError, match="another process"):
            run_to_file(predictor, job(path), out)

    assert run_to_file(predictor, job(path), out, check=again).size == 300


def test_no_rows(predictor, tmp_path: Path) -> None:
    path = tmp_path / "pairs.parquet"
    pq.write_table(pa.table(pairs()).slice(0, 0), path)
    with pytest.raises(cawn.DataError, match="no rows"):
        run_to_file(predictor, job(path), tmp_path / "out.parquet")
    assert [p.name for p in tmp_path.iterdir()] == ["pairs.parquet"]


def test_names_are_read_as_in_training(predictor, tmp_path: Path) -> None:
    """Blanks around fields are no part of a name."""
    plain, padded = tmp_path / "plain.csv", tmp_path / "padded.csv"
    plain.write_text("src,dst,t\nn1,n2,4000\nn3,n4,4000\n")
    padded.write_text("src, dst, t\nn1, n2, 4000\nn3, n4, 4000\n")
    assert run_to_file(predictor, job(padded), tmp_path / "b.csv") == RowCounts(2, 0)
    run_to_file(predictor, job(plain), tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == (tmp_path / "b.csv").read_text()


@pytest.mark.parametrize("change", ["run", "file", "options"])
def test_another_job_starts_over(predictor, tmp_path: Path, change: str, monkeypatch) -> None:
    path, out = write(tmp_path, pairs(), ".csv"), tmp_path / "out.csv"
    with pytest.raises(KeyboardInterrupt):
        run_to_file(predictor, job(path), out, check=stop_at(1))
    if change == "file":
        path = write(tmp_path, pairs(301), ".csv")
    if change == "run":
        monkeypatch.setattr(LinkPredictor, "identity", "another")
    asked = job(path, draws=2 if change == "options" else None)
    counts: list[int] = []
    run_to_file(predictor, asked, out, progress=counts.append)
    assert counts[0] == 0


def test_bad_rows_are_named(predictor, tmp_path: Path) -> None:
    table = pairs(100)
    path = write(tmp_path, table, ".csv")
    path.write_text(path.read_text().replace(f"row 90,{table['src'][90]},{table['dst'][90]},", "row 90,n1,n2,soon"))
    with pytest.raises(cawn.DataError, match=r"line 92, column 't': found 'soon"):
        run_to_file(predictor, job(path), tmp_path / "out.csv")
    table = pairs(10)
    table["dst"][4] = ""
    with pytest.raises(cawn.DataError, match="line 6, column 'dst': found nothing"):
        run_to_file(predictor, job(write(tmp_path, table, ".csv")), tmp_path / "out.csv")
    assert not (tmp_path / "out.csv").exists()
    ragged = tmp_path / "ragged.csv"
    ragged.write_text("src,dst,t\nn1,n2,3\nn1,n2\n")
    with pytest.raises(cawn.DataError, match="line 3: found 2 fields, expected 3"):
        run_to_file(predictor, job(ragged), tmp_path / "out.csv")


@pytest.mark.parametrize("names", [["src", "dst"], ["a", "b", "c"], ["src", "t"]])
def test_missing_columns_are_named(tmp_path: Path, names: list[str]) -> None:
    path = tmp_path / "pairs.csv"
    path.write_text(",".join(names) + "\n" + ",".join("1" * len(names)) + "\n")
    with pytest.raises(cawn.DataError, match=r"pairs\.csv: no column"):
        job(path)


def test_memory_is_flat(predictor, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(jobs, "ROWS", 1 << 12)
    path = tmp_path / "pairs.csv"
    with open(path, "w") as file:
        file.write("src,dst,t\n")
        file.writelines(f"n{i % 40},n{(i * 7) % 40},{i % 30_000}\n" for i in range(60_000))
    sizes: list[int] = []
    run_to_file(predictor, job(path), tmp_path / "out.csv", progress=lambda _: sizes.append(resident_bytes()))
    assert sizes[-1] < sizes[len(sizes) // 3] + 30e6


def test_totals_are_known_beforehand(tmp_path: Path) -> None:
    for suffix in (".csv", ".csv.gz", ".parquet"):
        assert job(write(tmp_path, pairs(), suffix)).pairs.num_rows() == 300


def test_rankings_of_all_nodes_to_a_file(predictor, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(jobs, "NODES", 1)
    ranking = NodeJob(None, 20_000, k=2, candidates=["7", "n3"])
    done = run_to_file(predictor, ranking, tmp_path / "top.parquet")
    assert done == RowCounts(40, 0)
    assert set(pq.read_table(tmp_path / "top.parquet")["candidate"].to_pylist()) == {"7", "n3"}
