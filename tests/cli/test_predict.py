"""`cawn predict` and `cawn rank`: columns, standard input, files of nodes, Ctrl-C."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from cawn.predictor import LinkPredictor
from cawn.scale import jobs
from command_line import assert_refused, call_cawn, run_cawn
from ctrl_c import interrupted


def test_pairs_from_standard_input(workshop: Path) -> None:
    run, pairs = str(workshop / "run"), workshop / "pairs.csv"
    piped = run_cawn("predict", run, "-", stdin=pairs.read_text())
    assert piped.code == 0, piped.err
    assert piped.out == call_cawn("predict", run, pairs).out


def test_times_that_cannot_be_meant(workshop: Path) -> None:
    rank = ("rank", workshop / "run", "--node", "person 1", "--time")
    year, compact, milliseconds = (call_cawn(*rank, t) for t in ("2024", "20240501", "1714521600000"))
    assert year.code == 2
    assert "such as 2024-01-01" in year.err
    assert compact.out == call_cawn(*rank, "2024-05-01").out
    assert compact.err == ""
    assert "1,000 times the data's times: milliseconds?" in milliseconds.err


def test_predict_to_stdout_and_to_files(workshop: Path, tmp_path: Path) -> None:
    run, pairs = workshop / "run", str(workshop / "pairs.csv")
    shown = call_cawn("predict", run, pairs)
    assert shown.code == 0
    lines = shown.out.splitlines()
    assert lines[0] == "sender,receiver,date,probability"
    assert len(lines) == 52
    out = tmp_path / "scored.csv"
    told = call_cawn("predict", run, pairs, "-o", out, "--json")
    assert json.loads(told.out) == {"rows": 51, "unknown": 1, "out": str(out)}
    assert out.read_text() == shown.out
    assert call_cawn("predict", run, pairs, "-o", out).code == 2
    assert call_cawn("predict", run, pairs, "-o", out, "--force", "--draws", "3").code == 0
    assert out.read_text().splitlines()[0].count("error") == 1


def test_rank(workshop: Path) -> None:
    shown = call_cawn("rank", workshop / "run", "--node", "person 3", "--time", "2024-06-01", "-k", "4")
    assert shown.code == 0
    assert sum("person" in line for line in shown.out.splitlines()) == 4
    found = json.loads(call_cawn("rank", workshop / "run", "--node", "nobody", "--time", "2024-06-01", "--json").out)
    assert {row["found"] for row in found["ranked"]} == {"popular"}
    chosen = call_cawn(
        "rank", workshop / "run", "--node", "person 1", "--time", "2024-06-01", "--candidate", "person 2", "--json"
    )
    assert [row["name"] for row in json.loads(chosen.out)["ranked"]] == ["person 2"]


def test_a_closed_pipe_and_ctrl_c(workshop: Path, tmp_path: Path) -> None:
    many = tmp_path / "many.csv"
    many.write_text("sender,receiver,date\n" + "person 1,person 2,2024-04-01\n" * 60_000)
    command = [sys.executable, "-m", "cawn.cli", "predict", str(workshop / "run"), str(many)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        process.stdout.close()
        told = process.stderr.read().decode()
        assert process.wait() == 141
    assert told == ""
    out = tmp_path / "out.csv"
    asked = ["predict", str(workshop / "run"), str(many), "-o", str(out)]
    stopped = interrupted("from cawn.cli import main; main()", *asked)
    assert stopped.returncode == 130
    assert "Traceback" not in stopped.stderr
    assert list(tmp_path.glob("out.csv.*.parts/*.arrow"))
    assert not out.exists()
    assert call_cawn(*asked).code == 0
    assert len(out.read_text().splitlines()) == 60_001


def test_predict_knows_the_columns_of_the_run(trained: Path, tmp_path: Path, now: int) -> None:
    pairs, untimed = tmp_path / "pairs.csv", tmp_path / "untimed.csv"
    pairs.write_text(f"when,ratee,rater\n{now},n2,n1\n")
    code, shown, _ = call_cawn("predict", trained / "run", pairs, "-o", tmp_path / "out.csv", "-q")
    assert (code, shown) == (0, "")
    score = float((tmp_path / "out.csv").read_text().split(",")[-1])
    predictor = LinkPredictor.load(trained / "run")
    assert score == pytest.approx(predictor.score("n1", "n2", now)[0], rel=1e-5)
    untimed.write_text("rater,ratee\nn1,n2\n")
    assert call_cawn("predict", trained / "run", untimed, "--at", now, "-o", tmp_path / "at.csv")[0] == 0
    assert float((tmp_path / "at.csv").read_text().split(",")[-1]) == pytest.approx(score, rel=1e-5)
    assert "--time" in call_cawn("predict", trained / "run", untimed)[2]
    assert "has a column of times" in call_cawn("predict", trained / "run", pairs, "--at", now)[2]


def test_rank_for_a_file_of_nodes(trained: Path, tmp_path: Path, now: int) -> None:
    nodes, out = tmp_path / "nodes.csv", tmp_path / "top.parquet"
    nodes.write_text("note,node\na,n1\nb,stranger\nc,n2\n")
    code, shown, said = call_cawn("rank", trained / "run", "--nodes", nodes, "--time", now, "-k", 3, "-o", out)
    assert (code, shown) == (0, "")
    assert said == f"3 nodes ranked: {out}\n1 of 3 nodes are not in the network: no history\n"
    table = pq.read_table(out)
    assert table.column_names == ["node", "rank", "candidate", "probability", "found"]
    assert table["node"].to_pylist() == ["n1"] * 3 + ["stranger"] * 3 + ["n2"] * 3
    expected = LinkPredictor.load(trained / "run").rank("n2", now, k=3)
    assert table["candidate"].to_pylist()[6:] == [ranked.name for ranked in expected]
    assert [path.name for path in tmp_path.iterdir() if "parts" in path.name] == []
    code, shown, _ = call_cawn("rank", trained / "run", "--nodes", "all", "--time", now, "-k", 1, "--candidates", "all")
    assert code == 0
    lines = shown.splitlines()
    assert lines[0] == "node,rank,candidate,probability,found"
    assert len(lines) == 31
    assert {line.split(",")[-1] for line in lines[1:]} == {"all"}


def test_rank_for_all(trained: Path, tmp_path: Path, now: int) -> None:
    """At the default time, which is just after the newest link, with all candidates or those of a file."""
    out, names = tmp_path / "top.parquet", tmp_path / "names.txt"
    code, shown, said = call_cawn("rank", trained / "run", "--all", "-k", 2, "-o", out)
    assert (code, shown) == (0, "")
    assert said == f"ranking just after the newest link, at {now - 1}\n30 nodes ranked: {out}\n"
    table, predictor = pq.read_table(out), LinkPredictor.load(trained / "run")
    nodes = predictor.nodes()
    assert table["node"].to_pylist() == [node for node in nodes for _ in range(2)]
    assert table["candidate"].to_pylist()[2:4] == [ranked.name for ranked in predictor.rank(nodes[1], now, k=2)]

    everyone = call_cawn("rank", trained / "run", "--all", "-k", 1, "--candidates", "all")
    assert {line.split(",")[-1] for line in everyone.out.splitlines()[1:]} == {"all"}
    names.write_text("n3\nstranger\nn4\n")
    some = call_cawn("rank", trained / "run", "--node", "n1", "--candidates", names, "--json", "--quiet")
    assert {row["name"] for row in json.loads(some.out)["ranked"]} == {"n3", "stranger", "n4"}
    assert json.loads(some.out)["time"] == now


def test_the_default_time_with_dates(workshop: Path) -> None:
    run = workshop / "run"
    shown = call_cawn("rank", run, "--node", "person 1", "--json")
    predictor = LinkPredictor.load(run)
    newest = max(line.split(",")[2] for line in (workshop / "edges.csv").read_text().splitlines()[1:])
    assert shown.err == f"ranking just after the newest link, at {newest}\n"
    expected = predictor.rank("person 1", predictor.watermark + 1)
    assert json.loads(shown.out)["ranked"] == [ranked._asdict() for ranked in expected]


@pytest.mark.parametrize("content", ["n1\nn2\n", "node\nn1\nn2\n", "n1\tx\nn2\ty\n", "user_id\nn1\nn2", "name\nn1\nn2"])
def test_files_of_nodes_with_and_without_header(trained: Path, tmp_path: Path, now: int, content: str) -> None:
    nodes = tmp_path / "nodes.txt"
    nodes.write_text(content)
    code, shown, _ = call_cawn("rank", trained / "run", "--nodes", nodes, "--time", now, "-k", 1)
    assert code == 0
    assert [line.split(",")[0] for line in shown.splitlines()[1:]] == ["n1", "n2"]


@pytest.mark.parametrize("command", ["predict", "rank"])
def test_ctrl_c_keeps_what_is_done_and_says_so(trained: Path, tmp_path: Path, now: int, monkeypatch, command):
    monkeypatch.setattr(jobs, "ROWS", 4)
    monkeypatch.setattr(jobs, "NODES", 4)
    asked, out = tmp_path / "asked.csv", tmp_path / "out.csv"
    names = ["n1", "stranger", "n2", "n3", "n4", "other", "n5", "n6", "n7", "n8"]
    asked.write_text("rater,ratee,when\n" + "".join(f"{name},n9,{now}\n" for name in names))
    arguments = ["predict", trained / "run", asked, "-o", out]
    if command == "rank":
        arguments = ["rank", trained / "run", "--nodes", asked, "--time", now, "-k", 2, "-o", out]
        asked.write_text("node\n" + "".join(f"{name}\n" for name in names))
    checks = iter([False, True])

    def stop(self) -> None:
        if next(checks, False):
            raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr("cawn.interrupt.Interrupt.check", stop)
        code, shown, said = call_cawn(*arguments)
    what = "pairs" if command == "predict" else "nodes"
    assert (code, shown) == (130, "")
    assert said == f"interrupted: 8 {what} are done and kept beside {out}; run the same command to resume\n"
    assert not out.exists()
    code, _, said = call_cawn(*arguments)
    assert code == 0
    assert f"2 of 10 {what}" in said, "also those that were counted before"
    assert list(tmp_path.glob("*.parts")) == []
    kept = out.read_bytes()
    assert call_cawn(*arguments, "--force")[0] == 0
    again = out.read_bytes()
    assert np.isclose(len(kept), len(again), atol=60)
    assert kept.splitlines()[0] == again.splitlines()[0]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((), "give --node NAME"),
        (("--all", "--nodes", "all"), "give --node NAME"),
        (("--all", "--candidates", "all", "--candidate", "n1"), "--candidate and --candidates: give one of them"),
        (("--all", "--candidates", "nowhere.csv"), "no such file"),
        (("--node", "n1", "--nodes", "all"), "give --node NAME"),
        (("--node", "n1", "-o", "x.csv"), "require --nodes"),
        (("--nodes", "nowhere.csv"), "no such file"),
        (("--nodes", "all", "-o", "x.xlsx"), "written as .csv or .parquet"),
        (("--nodes", "all", "--json"), "--json needs -o"),
    ],
)
def test_what_rank_refuses(trained: Path, arguments, reason: str) -> None:
    assert_refused(call_cawn("rank", trained / "run", "--time", 5, *arguments), reason)
