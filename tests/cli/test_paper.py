"""`cawn paper`: the list, a small sweep, the report, refusals in one line, and Ctrl-C."""

import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import cawn
from cawn.data import laws
from cawn.paper import EXPERIMENTS
from command_line import PLAIN, Output, assert_refused, call_cawn

QUICK = ("--systems", "rates", "--seeds", "1", "--set", "epochs=1", "--jobs", "0", "--device", "cpu")


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> Path:
    """A folder of datasets with a small UCI."""
    folder = tmp_path_factory.mktemp("data")
    events = laws.triadic_closure(30, 400, seed=0).events
    rows = "".join(f"{u},{v},{t},0\n" for u, v, t in zip(events.src, events.dst, events.t, strict=True))
    (folder / "uci").mkdir()
    (folder / "uci" / "edges.csv.gz").write_bytes(gzip.compress(b"u,i,ts,label\n" + rows.encode()))
    return folder


@pytest.fixture(scope="module")
def measured(data: Path, tmp_path_factory) -> tuple[Path, Output]:
    """A folder of results, and what the command printed."""
    folder = tmp_path_factory.mktemp("measured") / "results"
    shown = call_cawn("paper", "table2", "--datasets", "uci", "-o", folder, *QUICK, CAWN_DATA=str(data))
    return folder, shown


@pytest.fixture
def results(measured, tmp_path: Path) -> Path:
    """A copy of these results, to be changed."""
    return Path(shutil.copytree(measured[0], tmp_path / "results"))


def test_the_list_fits_a_terminal() -> None:
    shown = call_cawn("paper", COLUMNS="80")
    assert shown.code == 0
    assert max(map(len, shown.out.splitlines())) <= 80
    assert [name for name in (*EXPERIMENTS, "report") if f"\n {name}" not in shown.out] == []
    rows = json.loads(call_cawn("paper", "--json").out)
    assert [row["name"] for row in rows] == list(EXPERIMENTS)


def test_a_sweep_and_its_report(measured, results: Path, data: Path) -> None:
    shown = measured[1]
    assert (shown.code, shown.out) == (0, "")
    assert "uci, rates, transductive, seed 0: " in shown.err
    assert shown.err.splitlines()[-1].startswith("results: ")
    again = call_cawn("paper", "table6", "--datasets", "uci", "-o", results, *QUICK, "--json", CAWN_DATA=str(data))
    assert "3 of 3 measurements are already done" in again.err
    assert json.loads(again.out)["failed"] == []
    reported = call_cawn("paper", "report", "-o", results)
    assert reported.out.splitlines()[:2] == [str(results / name) for name in ("report.html", "report.md")]
    found = json.loads(call_cawn("paper", "report", "-o", results, "--json").out)
    assert found["files"][:2] == ["report.html", "report.md"]
    commands = found["experiments"]["table2"]["measured"]["Commands"]
    assert commands == ["`cawn paper table2 --datasets uci --seeds 1 --systems rates --set epochs=1`"]


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["frob"], "experiment is 'frob': give one of table2, "),
        (["table2", "--datasets", "frob"], "there is no dataset 'frob'"),
        (["table2", "--systems", "rates,frob"], "system is 'frob': give one of paper-mean, "),
        (["table2", "--seeds", "0"], "Invalid value for '--seeds'"),
        (["table2", "--seeds", "1000000000"], "Invalid value for '--seeds'"),
        (["table2", "--threads", "0"], "threads is 0"),
        (["table2", "--set", "frob=3"], "--set 'frob': no system that table2 trains has this setting"),
        (["table2", "--set", "epochs"], "write KEY=VALUE"),
        (["table2", "--trials", "3"], "--trials: table2 has no such option; leave it out"),
        (["grid", "--systems", "rates"], "system is 'rates': give one of paper-mean, paper-attn"),
        (["report", "--datasets", "uci"], "--datasets: report has no such option; leave it out"),
        (["report"], "has no results; make some with 'cawn paper NAME -o "),
    ],
)
def test_refusals(arguments: list[str], reason: str, tmp_path: Path) -> None:
    assert_refused(call_cawn("paper", *arguments, "-o", tmp_path / "none", "-q"), reason)
    assert not (tmp_path / "none").exists()


def test_systems_are_refused_where_an_experiment_has_no_choice(tmp_path: Path) -> None:
    for name in (name for name, experiment in EXPERIMENTS.items() if "--systems" not in experiment.options):
        assert_refused(call_cawn("paper", name, "--systems", "rates", "-o", tmp_path), f"--systems: {name} has no such")


def test_folders_that_are_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert_refused(call_cawn("paper", "table2", "-o", tmp_path / "file"), "cannot be written; choose another folder")
    assert_refused(call_cawn("paper", "report", "-o", tmp_path / "file"), "is not a folder")


def test_damaged_results_are_refused(results: Path) -> None:
    path = results / "uci.json"
    path.write_text(path.read_text()[:-20])
    assert_refused(
        call_cawn("paper", "report", "-o", results), "damaged, or written by another version of cawn; move it away"
    )


def test_results_that_lack_something_are_refused(results: Path) -> None:
    path = results / "uci.json"
    path.write_text(path.read_text().replace('"auc_batch30"', '"other"').replace('"split"', '"other"'))
    assert_refused(
        call_cawn("paper", "report", "-o", results), "results of trainings are damaged, or from another version"
    )


def test_different_splits_are_refused(results: Path) -> None:
    path = results / "uci.json"
    content = json.loads(path.read_text())
    (one,) = (row for row in content["results"] if row["labels"] == ["rates, transductive, seed 0"])
    other = json.loads(json.dumps(one)) | {"key": "other", "labels": ["rates, transductive, seed 1"]}
    other["settings"]["seed"] = 1
    for row in other["value"]["rows"]:
        row["split"] = "another"
    path.write_text(json.dumps(content | {"results": [*content["results"], other]}))
    assert_refused(call_cawn("paper", "report", "-o", results), "have different splits")


def test_failed_measurements_are_reported(data: Path, tmp_path: Path, monkeypatch) -> None:
    def fail(task, say) -> None:
        raise cawn.DataError("no links")

    monkeypatch.setattr("cawn.paper.measurements.train_and_test", fail)
    command = ("paper", "table2", "--datasets", "uci", "-o", tmp_path / "out", "-q", *QUICK)
    reason = "3 measurements failed, the first: uci, rates, transductive, seed 0: no links"
    assert_refused(call_cawn(*command, CAWN_DATA=str(data)), reason)


def test_ctrl_c_stops_and_says_how_to_continue(data: Path, tmp_path: Path) -> None:
    endless = ("--set", "epochs=100000", "--set", "patience=100000", "--jobs", "1", "--device", "cpu")
    command = [sys.executable, "-m", "cawn", "paper", "table2", "--datasets", "uci", "--systems", "rates", *endless]
    environment = os.environ | PLAIN | {"CAWN_DATA": str(data)}
    sweep = subprocess.Popen([*command, "-o", tmp_path / "out"], stderr=subprocess.PIPE, text=True, env=environment)
    end = time.monotonic() + 600
    while not list(tmp_path.glob("out/unfinished/*/metrics.jsonl")):
        assert time.monotonic() < end
        assert sweep.poll() is None
        time.sleep(0.05)
    sweep.send_signal(signal.SIGINT)
    _, errors = sweep.communicate(timeout=600)
    assert sweep.returncode == 130
    assert errors == "stopped; run the same command again to continue\n"
    assert list(tmp_path.glob("out/unfinished/*/checkpoint.safetensors"))
