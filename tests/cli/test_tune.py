"""`cawn tune`."""

import json
from pathlib import Path

import pytest

from cawn.cli.tune import _seconds, _seeds
from cawn.errors import QueryError
from command_line import assert_refused, call_cawn

pytest.importorskip("optuna")
QUICK = ("--system", "rates", "--seeds", "1", "--epochs", "1", "--trials", "2", "--device", "cpu", "--threads", "1")


def test_settings_are_searched_and_the_best_model_is_a_run(workshop: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("cawn.studies.tuning.report.plots", lambda *_, **__: {})  # they take time
    command = ("tune", workshop / "edges.csv", "-o", tmp_path / "t", *QUICK)
    shown = call_cawn(*command)
    assert shown.code == 0, shown.err
    assert "best: trial " in shown.out
    assert "all links, random negatives: AP " in shown.out
    assert "trial 0: AP 0." in shown.err
    assert "(2 of 2)" in shown.err
    assert "report.html" in shown.err
    found = call_cawn(*command, "--json", "-q")
    assert (found.code, found.err) == (0, "")
    assert json.loads(found.out)["trials"]["total"] == 2
    assert call_cawn("info", tmp_path / "t" / "best").code == 0
    assert_refused(call_cawn(*command, "-q", "--metric", "mrr"), 'differs in metric ("ap" there, "mrr" here)')


def test_the_space_can_be_shown_and_replaced(tmp_path: Path) -> None:
    shown = call_cawn("tune", "--show-space", "--set", "dim=8")
    assert shown.code == 0
    assert "lr = {low = 0.0001, high = 0.01, log = true}\n" in shown.out
    assert "dim = " not in shown.out
    (tmp_path / "space.toml").write_text("dim = [4, 8]\n")
    assert call_cawn("tune", "--show-space", "--space", tmp_path / "space.toml").out == "dim = [4, 8]\n"
    assert json.loads(call_cawn("tune", "--show-space", "--json").out)["dim"] == [32, 64, 128]


def test_bad_input(workshop: Path, tmp_path: Path) -> None:
    links = workshop / "edges.csv"
    (tmp_path / "bad.toml").write_text("dimm = [4, 8]\n")
    command = ("tune", links, "-q", "-o", tmp_path / "new")
    assert_refused(call_cawn("tune", "-q", "-o", tmp_path / "new"), "DATA is missing")
    assert_refused(call_cawn(*command, "--metric", "f1"), "metric is 'f1'")
    assert_refused(call_cawn(*command, "--space", tmp_path / "bad.toml"), "setting 'dimm' does not exist")
    assert_refused(call_cawn(*command, "--seeds", "a"), "--seeds 'a': give a number of seeds, or a list")
    assert_refused(call_cawn(*command, "--timeout", "soon"), "--timeout 'soon': give a time above 0")
    assert_refused(call_cawn(*command, "--system", "recency"), "nothing to tune")
    assert_refused(call_cawn(*command, "--preset", "none"), "preset 'none'")
    assert_refused(call_cawn(*command, "--set", "dim=0"), "dim is 0")
    assert_refused(
        call_cawn("tune", links, "-q", "-o", tmp_path), "(it holds 'bad.toml') and is not the folder of a study"
    )
    assert not (tmp_path / "new").exists()


def test_seeds_and_times() -> None:
    assert _seeds("3") == 3
    assert _seeds("0, 7") == [0, 7]
    assert _seeds("7,") == [7]
    assert [_seconds(text) for text in ("90", "90s", "1.5min", "2h", "1 d")] == [90, 90, 90, 7200, 86400]
    for text in ("", "0s", "-1", "1y", "h"):
        with pytest.raises(QueryError):
            _seconds(text)
