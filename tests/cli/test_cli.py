"""The command line as a user meets it: its output and its exit code."""

import gzip
import io
import json
import os
import subprocess
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

from cawn.cli import main
from ctrl_c import interrupted


def cawn(*arguments: str, stdin: str | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from cawn.cli import main; main()", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        env=os.environ | {"COLUMNS": "160", "NO_COLOR": "1"} | environment,
        check=False,
    )


def cawn_here(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The same in this process, without the seconds that PyTorch takes to load."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    errors = io.StringIO()
    with (
        redirect_stdout(out),
        redirect_stderr(errors),
        mock.patch.object(sys, "argv", ["cawn", *arguments]),
        warnings.catch_warnings(action="default"),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    shown = out.buffer.getvalue().decode()
    return subprocess.CompletedProcess(["cawn", *arguments], ended.value.code, shown, errors.getvalue())


@pytest.fixture(scope="module")
def workshop(tmp_path_factory) -> Path:
    """A folder with an edge log of string names and ISO dates, a run trained on it, and pairs to score."""
    folder = tmp_path_factory.mktemp("workshop")
    rng = np.random.default_rng(0)
    days = np.datetime64("2024-01-01T00:00:00") + np.sort(rng.integers(0, 10**7, 1_200))
    people = [f"person {i}" for i in range(30)]
    ends = [rng.choice(30, 2, replace=False) for _ in days]
    rows = [f"{people[u]},{people[v]},{day}" for (u, v), day in zip(ends, days, strict=True)]
    (folder / "edges.csv").write_text("sender,receiver,date\n" + "\n".join(rows) + "\n")
    (folder / "pairs.csv").write_text(
        "sender,receiver,date\n" + "\n".join(rows[-50:]) + "\nnobody,person 3,2024-05-01\n"
    )
    settings = ["alpha=ladder", "epochs=1", "num_walks=8", "dim=8"]
    trained = cawn(
        "train", str(folder / "edges.csv"), "-o", str(folder / "run"), *(w for s in settings for w in ("--set", s))
    )
    assert trained.returncode == 0, trained.stderr
    (folder / "trained.txt").write_text(trained.stdout + trained.stderr)
    return folder


def test_train_says_what_it_understood_and_how_good_it_is(workshop: Path) -> None:
    shown = (workshop / "trained.txt").read_text()
    for words in (
        "from 'sender' to 'receiver' at 'date'",
        "30 nodes, 1,200 links",
        "repeat an earlier pair",
        "2024-01-01",
        "tau",
        "epoch 1",
        "AUC",
        "recency",
        "Next:",
    ):
        assert words in shown
    assert f"cawn rank {workshop / 'run'} --node" in shown


def test_pairs_from_standard_input(workshop: Path) -> None:
    run, pairs = str(workshop / "run"), workshop / "pairs.csv"
    piped = cawn("predict", run, "-", stdin=pairs.read_text())
    assert piped.returncode == 0, piped.stderr
    assert piped.stdout == cawn("predict", run, str(pairs)).stdout


def test_times_that_cannot_be_meant(workshop: Path) -> None:
    rank = ("rank", str(workshop / "run"), "--node", "person 1", "--time")
    year, compact, milliseconds = (cawn(*rank, t) for t in ("2024", "20240501", "1714521600000"))
    assert year.returncode == 2
    assert "such as 2024-01-01" in year.stderr
    assert compact.stdout == cawn(*rank, "2024-05-01").stdout
    assert compact.stderr == ""
    assert "1,000 times the data's times: milliseconds?" in milliseconds.stderr


def figures(value: object, path: str = "") -> dict[str, object]:
    """Everything a nested result holds, by its path."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    if parts is None:
        return {path: value}
    return {key: found for name, part in parts for key, found in figures(part, f"{path}/{name}").items()}


def test_evaluate_gives_the_results_of_training(workshop: Path) -> None:
    found = json.loads(cawn("evaluate", str(workshop / "run"), "--json").stdout)
    written = json.loads((workshop / "run" / "results.json").read_text())
    assert figures(found["results"]) == pytest.approx(figures(written), abs=1e-5)  # sums in another order, no more
    table = cawn_here("evaluate", str(workshop / "run"), "--negatives", "historical", "--batch-metrics").stdout
    assert "historical" in table
    assert "against random" not in table
    assert "batches of 30" in table


def test_predict_to_stdout_and_to_files(workshop: Path, tmp_path: Path) -> None:
    run, pairs = str(workshop / "run"), str(workshop / "pairs.csv")
    shown = cawn("predict", run, pairs)
    assert shown.returncode == 0
    lines = shown.stdout.splitlines()
    assert lines[0] == "sender,receiver,date,probability"
    assert len(lines) == 52
    out = tmp_path / "scored.csv"
    told = cawn("predict", run, pairs, "-o", str(out), "--json")
    assert json.loads(told.stdout) == {"rows": 51, "unknown": 1, "out": str(out)}
    assert out.read_text() == shown.stdout
    assert cawn("predict", run, pairs, "-o", str(out)).returncode == 2
    assert cawn("predict", run, pairs, "-o", str(out), "--force", "--draws", "3").returncode == 0
    assert out.read_text().splitlines()[0].count("error") == 1


def test_rank(workshop: Path) -> None:
    shown = cawn("rank", str(workshop / "run"), "--node", "person 3", "--time", "2024-06-01", "-k", "4")
    assert shown.returncode == 0
    assert sum("person" in line for line in shown.stdout.splitlines()) == 4
    found = json.loads(cawn("rank", str(workshop / "run"), "--node", "nobody", "--time", "2024-06-01", "--json").stdout)
    assert {row["found"] for row in found["ranked"]} == {"popular"}
    chosen = cawn(
        "rank", str(workshop / "run"), "--node", "person 1", "--time", "2024-06-01", "--candidate", "person 2", "--json"
    )
    assert [row["name"] for row in json.loads(chosen.stdout)["ranked"]] == ["person 2"]


def test_explain(workshop: Path, tmp_path: Path) -> None:
    link = ["explain", str(workshop / "run"), "--src", "person 1", "--dst", "person 2", "--time", "2024-04-01"]
    shown = cawn(*link)
    assert shown.returncode == 0, shown.stderr
    assert shown.stdout.startswith("person 1 and person 2 at 2024-04-01: probability 0.")
    assert "log-odds" in shown.stdout
    found = json.loads(cawn_here(*link, "--json", "-q").stdout)
    assert {walk["start"] for walk in found["walks"]} == {"src", "dst"}
    assert sum(walk["count"] for walk in found["walks"]) == 16
    for kind in ("html", "svg", "png", "json"):
        for arguments in (link, ["explain", str(workshop / "run"), "--global", "--links", "50"]):
            out = tmp_path / f"{len(arguments)}.{kind}"
            done = cawn_here(*arguments, "-o", str(out))
            assert done.returncode == 0, done.stderr
            assert out.stat().st_size > 1000
            assert done.stdout == ""
    again = cawn_here(*link, "-o", str(tmp_path / f"{len(link)}.html"))
    assert again.returncode == 2
    assert "give --force" in again.stderr
    assert cawn_here(*link, "-o", str(tmp_path / f"{len(link)}.html"), "--force").returncode == 0
    assert cawn(*link, PYTHONIOENCODING="ascii").returncode == 0
    law = cawn_here("explain", str(workshop / "run"), "--global", "--links", "50")
    assert "causal anonymous walks" in law.stdout
    assert json.loads((tmp_path / f"{len(link)}.json").read_text()) == found


def test_several_seeds_and_resume(workshop: Path, tmp_path: Path) -> None:
    options = ["--set", "alpha=ladder", "--set", "epochs=1", "--set", "num_walks=4", "--set", "dim=4", "--json", "-q"]
    both = cawn_here("train", str(workshop / "edges.csv"), "-o", str(tmp_path / "runs"), "--seeds", "2", *options)
    assert json.loads(both.stdout)["seeds"][0]["seeds"] == 2
    assert both.stderr == ""
    again = cawn_here("train", "--resume", "-o", str(tmp_path / "runs" / "seed-1"), "--json", "-q")
    assert again.returncode == 0, again.stderr
    stored = json.loads((tmp_path / "runs" / "seed-1" / "results.json").read_text())
    assert json.loads(again.stdout)["results"] == stored


def test_datasets(workshop: Path, tmp_path: Path) -> None:
    quiet = {"CAWN_DATA": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    assert "bitcoin-otc" in cawn("datasets", **quiet).stdout
    rows = json.loads(cawn("datasets", "--json", **quiet).stdout)
    assert {row["name"] for row in rows} >= {"reddit", "wikipedia", "mooc", "socialevolve", "enron", "uci", "flights"}
    (tmp_path / "uci").mkdir()
    (tmp_path / "uci" / "edges.csv.gz").write_bytes(gzip.compress(b"u,i,ts,label\n1,2,3,0\n"))
    assert cawn("datasets", "where", "uci", **quiet).stdout.strip() == str(tmp_path / "uci" / "edges.csv.gz")
    assert "not checked" in cawn("datasets", "verify", "uci", **quiet).stdout


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["train"], "DATA is missing"),
        (["train", "nothing.csv"], "no such file"),
        (["train", "nonsense"], "no dataset of this name"),
        (["train", "{edges}", "--preset", "best"], "preset 'best'"),
        (["train", "{edges}", "--set", "speed=9"], "setting 'speed' does not exist"),
        (["train", "{edges}", "--set", "dim"], "write KEY=VALUE"),
        (["train", "{edges}", "--set", "dim=-1"], "dim is -1"),
        (["train", "{edges}", "--task", "magic"], "Invalid value for '--task'"),
        (["train", "{edges}", "--src", "who"], "there is no such column"),
        (["train", "{edges}", "-o", "{run}"], "holds a run already"),
        (["train", "--resume", "-o", "{folder}/none"], "holds no run"),
        (["train", "--resume", "-o", "{run}", "--set", "dim=8"], "own settings"),
        (["evaluate", "{folder}/none"], "holds no run"),
        (["evaluate", "{run}", "--negatives", "mean"], "negatives 'mean'"),
        (["predict", "{folder}/none", "{pairs}"], "holds no run"),
        (["predict", "{run}", "{folder}/none.csv"], "no such file"),
        (["predict", "{run}", "{pairs}", "--src", "who"], "there is no such column"),
        (["predict", "{run}", "{folder}/two.csv"], "no column that names the time"),
        (["predict", "{run}", "{pairs}", "--prior", "0"], "prior is 0"),
        (["predict", "{run}", "{pairs}", "--json"], "--json needs -o"),
        (["predict", "{run}", "{pairs}", "--at", "5"], "has a column of times"),
        (["predict", "{run}", "{pairs}", "--at", "5", "--time", "date"], "not both"),
        (["predict", "{run}", "{pairs}", "-o", "{folder}/x.xlsx"], "written as .csv or .parquet"),
        (["predict", "{run}", "{pairs}", "-o", "{folder}", "--force"], "is not a file"),
        (["predict", "{run}", "{pairs}", "-o", "{folder}/none/x.csv"], "no such folder"),
        (["predict", "{run}", "{pairs}", "-o", "{folder}/x.csv", "--prior", "1"], "prior is 1"),
        (["predict", "{pairs}", "{pairs}"], "is a file, not the folder of a run"),
        (["train", "{edges}", "--set", "self=1"], "setting 'self' does not exist"),
        (["rank", "{run}", "--node", "x", "--time", "5", "-k", "many"], "Try 'cawn rank --help'"),
        (["predict", "{run}", "{pairs}", "-o", "{pairs}"], "exists already"),
        (["predict", "{run}", "{pairs}", "-o", "{pairs}/x.csv"], "no such folder"),
        (["predict", "{run}", "{pairs}", "--draws", "1"], "Invalid value for '--draws'"),
        (["predict", "{run}", "{pairs}", "--device", "tpu"], "Invalid value for '--device'"),
        (["rank", "{run}", "--node", "person 1"], "Missing option '--time'"),
        (["rank", "{run}", "--node", "person 1", "--time", "soon"], "ISO date"),
        (["rank", "{run}", "--node", "person 1", "--time", "\udcff"], "ISO date"),
        (["train", "{edges}", "-o", "{folder}/new", "--set", "alpha=" + 5_000 * "["], "alpha is '[[["),
        (["rank", "{run}", "--node", "person 1", "--time", "5", "-k", "0"], "Invalid value for '-k'"),
        (["rank", "{run}", "--node", "person 1", "--time", "5", "--kind", "luck"], "kinds 'luck'"),
        (["explain", "{run}"], "give --src, --dst and --time"),
        (["explain", "{run}", "--global", "--src", "person 1"], "leave out --src"),
        (
            ["explain", "{run}", "--src", "person 1", "--dst", "nobody", "--time", "2024-05-01"],
            "'nobody' is not in the",
        ),
        (["explain", "{run}", "--src", "person 1", "--dst", "person 2", "--time", "1999-01-01"], "nothing to explain"),
        (["explain", "{run}", "--src", "person 1", "--dst", "person 2", "--time", "soon"], "ISO date"),
        (["explain", "{run}", "--global", "-o", "{folder}/why.pdf"], "is written as one of .html, .svg, .png, .json"),
        (["explain", "{run}", "--global", "-o", "{folder}/none/x.html"], "no such folder"),
        (["explain", "{run}", "--global", "--links", "0"], "Invalid value for '--links'"),
        (["explain", "{run}", "--global", "--draws", "1"], "Invalid value for '--draws'"),
        (["explain", "{run}", "--global", "--draws", "4"], "leave out --draws"),
        (["explain", "{run}", "--src", "a", "--dst", "b", "--time", "5", "--links", "9"], "--links goes with --global"),
        (["explain", "{folder}/none", "--global"], "holds no run"),
        (["datasets", "where", "nonsense"], "no dataset 'nonsense'"),
        (["datasets", "download", "nonsense"], "no dataset 'nonsense'"),
        (["datasets", "frob"], "No such command 'frob'"),
        (["demo", "--data", "moon"], "Invalid value for '--data'"),
    ],
)
def test_every_command_refuses_bad_input_in_one_line(workshop: Path, arguments: list[str], reason: str) -> None:
    (workshop / "two.csv").write_text("src,dst\n1,2\n")
    before = sorted(str(p) for p in workshop.rglob("*"))
    places = {name: str(workshop / f"{name}.csv") for name in ("edges", "pairs")}
    places |= {"run": str(workshop / "run"), "folder": str(workshop)}
    refused = cawn_here(*(word.format(**places) for word in arguments))
    assert refused.returncode == 2, refused.stderr
    assert refused.stdout == ""
    assert reason in refused.stderr
    assert refused.stderr.strip().count("\n") == 0, refused.stderr
    assert "Traceback" not in refused.stderr
    assert sorted(str(p) for p in workshop.rglob("*")) == before


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
    assert cawn(*asked).returncode == 0
    assert len(out.read_text().splitlines()) == 60_001


def test_demo_tells_the_two_links_apart() -> None:
    shown = cawn("demo", "--no-train")
    assert shown.returncode == 0
    assert shown.stderr == ""
    assert "closes a triangle" in shown.stdout
    assert "does not" in shown.stdout
    assert "(1,1)" in shown.stdout
    assert "10 of 10 where the triangle closes, 0 of 10" in shown.stdout.replace("\n", " ")


def test_demo_as_json() -> None:
    result = json.loads(cawn("demo", "--no-train", "--json", "--walks", "3", "--length", "2", "--seed", "5").stdout)
    closes, does_not = result["closes"], result["does_not"]
    assert closes["src"] == does_not["src"]
    assert closes["t"] == does_not["t"]
    for view in (closes, does_not):
        assert [len(walk) for walk in view["walks"]] == [3] * 6
        assert view["identities"][str(view["src"])][0][0] == 3
        assert view["shapes"][0][0][0] == 0
    assert closes["meeting"] > does_not["meeting"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["frob"], "No such command 'frob'"),
        (["demo", "--walks", "x"], "Invalid value for '--walks'"),
        (["demo", "--walks", "0"], "Invalid value for '--walks'"),
        (["demo", "--length", "99"], "Invalid value for '--length'"),
        (["demo", "--seed", "-1"], "Invalid value for '--seed'"),
        (["demo", "--frob"], "No such option: --frob"),
        (["demo", "extra"], "unexpected extra argument"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments: list[str], reason: str) -> None:
    refused = cawn(*arguments)
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert refused.stderr.startswith("cawn: ")
    assert reason in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_help_loads_nothing_heavy() -> None:
    """So it is quick."""
    shown = cawn("--help")
    assert shown.returncode == 0
    assert "demo" in shown.stdout
    loaded = subprocess.run(
        [sys.executable, "-c", "import sys, cawn.cli; print(sorted({'numba', 'torch', 'pyarrow'} & set(sys.modules)))"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert loaded.stdout == "[]\n"


def test_the_whole_demo() -> None:
    """It trains, and the link that closes a triangle scores higher than the one that does not."""
    found = json.loads(cawn("demo", "--json").stdout)["training"]
    good, bad = (row["probability"] for row in found["scored"])
    assert good > bad + 0.2
