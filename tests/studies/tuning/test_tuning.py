"""Tuning as a whole: stopped, killed and joined, it ends with the same model."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import cawn
from cawn.learn.runs import read_run
from cawn.studies.tuning import Search, tune
from cawn.studies.tuning.outcome import Tuned
from ctrl_c import stopped_after
from small_study import QUICK, SPACE, TRIALS

OPTIONS = {"search": Search(SPACE, seeds=2), "device": "cpu", "threads": 1, "quiet": True}


def same(one: Tuned, other: Tuned) -> None:
    for a, b in zip(one.trials, other.trials, strict=True):
        assert (a.number, a.state, a.value, a.curve) == (b.number, b.state, b.value, b.curve)
        assert a.config == b.config
    assert one.results == other.results
    weights = [read_run(each.run, evaluated=True).weights for each in (one, other)]
    assert all((weights[0][name] == weights[1][name]).all() for name in weights[0])


_KILLED = """
import sys
from cawn.learn.reporting import Listeners
from small_study import *
from cawn.studies.tuning import Search, tune

call, count = Listeners.__call__, [0]

def counted(self, now):
    if now.stage == "training":
        count[0] += 1
        if count[0] == 25:
            print("ready", flush=True)
            sys.stdin.read()  # until it is killed
    call(self, now)

Listeners.__call__ = counted
search = Search(SPACE, seeds=2)
tune(tiny_network(), QUICK, out=sys.argv[1], trials=TRIALS, device="cpu", threads=1, quiet=True, search=search)
"""


def test_killed_then_stopped_and_continued_by_another_process(network, tuned: Tuned, tmp_path: Path) -> None:
    tests = Path(__file__).parents[2]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(tests), *sys.path])}
    command = [sys.executable, "-c", _KILLED, str(tmp_path / "study")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdout.readline() == b"ready\n"
        running = [trial for trial in (tmp_path / "study" / "trials").iterdir() if trial.is_dir()]
        assert running
        process.send_signal(signal.SIGKILL)
    with stopped_after(15):
        tune(network, QUICK, out=tmp_path / "study", trials=TRIALS, **OPTIONS)
    same(tune(network, QUICK, out=tmp_path / "study", trials=TRIALS, **OPTIONS), tuned)


def test_in_processes(network, tuned: Tuned, tmp_path: Path) -> None:
    found = tune(network, QUICK, out=tmp_path / "study", trials=1, jobs=1, **OPTIONS)
    assert found.trials[0].value == tuned.trials[0].value
    found = tune(network, QUICK, out=tmp_path / "study", trials=TRIALS, jobs=2, **OPTIONS)
    assert [trial.number for trial in found.trials] == list(range(TRIALS))
    assert {trial.state for trial in found.trials} <= {"complete", "pruned"}


def test_processes_that_fail(network, tmp_path: Path, monkeypatch) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['cawn.studies.tuning'] = None")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(cawn.QueryError, match=r"ModuleNotFoundError: .* \(see .*error\.txt\); to continue, tune again"):
        tune(network, QUICK, out=tmp_path / "study", trials=TRIALS, jobs=2, **OPTIONS)
    assert "Traceback" in (tmp_path / "study" / "error.txt").read_text()


def test_a_finished_study_is_not_trained_or_tested_again(network, tuned: Tuned, monkeypatch) -> None:
    monkeypatch.setattr("cawn.studies.tuning.objective.Trainer", None)
    same(tune(network, QUICK, out=tuned.folder, trials=2, **OPTIONS), tuned)  # there are more already


def test_no_trial_is_begun_after_the_timeout(network, tmp_path: Path) -> None:
    with pytest.raises(cawn.QueryError, match="the first trial is not complete yet; continue with the same command"):
        tune(network, QUICK, out=tmp_path, trials=TRIALS, **OPTIONS | {"search": Search(SPACE, seeds=2, timeout=1e-9)})
    assert json.loads((tmp_path / "study.json").read_text())["metric"] == "ap"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"seeds": 0}, "seeds is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"metric": "accuracy"}, "metric is 'accuracy'"),
        ({"timeout": 0}, "timeout is 0: give a number of seconds above 0"),
    ],
)
def test_bad_searches(options, reason: str) -> None:
    with pytest.raises(cawn.QueryError, match=reason):
        Search(**options)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"trials": 0}, "trials is 0"),
        ({"jobs": 0}, "jobs is 0"),
        ({"config": "recency"}, "recency is not trained: there is nothing to tune"),
        ({"search": Search({"hiddn": [1, 2]})}, "setting 'hiddn' does not exist"),
        ({"search": {"lr": [1, 2]}}, "search is a dict: give a cawn.Search"),
        ({"task": "frob"}, "task is 'frob'"),
    ],
)
def test_bad_arguments(changes, reason: str, network, tmp_path: Path) -> None:
    given = {"config": QUICK, "out": tmp_path / "new"} | OPTIONS | changes
    with pytest.raises(cawn.QueryError, match=reason):
        tune(network, **given)
    assert not (tmp_path / "new").exists()


def test_a_network_that_cannot_be_trained_on(network, tmp_path: Path) -> None:
    with pytest.raises(cawn.DataError):
        tune(network[:2], QUICK, out=tmp_path / "new", **OPTIONS)
    assert not (tmp_path / "new").exists()
