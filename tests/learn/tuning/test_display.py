"""Progress: trials done, the best so far, time left."""

from pathlib import Path
from typing import Any

import pytest

from cawn.learn.tuning import work
from cawn.learn.tuning.display import Display
from cawn.learn.tuning.study import SharedStudy
from small_study import Pretended, plan

pytest.importorskip("optuna")


def test_a_line_for_each_trial(tmp_path: Path, capsys) -> None:
    study = SharedStudy(tmp_path, plan())
    with Display(study, 3, quiet=False) as display:
        work(study, Pretended(plan()), 2, None, display)
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("trial 0: AP 0.5898; best 0.5898 (trial 0); 1 of 3 done, about ")
    assert second.startswith("trial 1: AP 0.")
    assert "; 2 of 3 done, about " in second
    with Display(study, 3, quiet=False) as display:
        study.claim(3).lock.release()
        study.fail(2, "no memory")
        display({"ended": 2})
    first, second = capsys.readouterr().err.splitlines()
    assert first == "2 of 3 trials are already done"
    assert second.startswith("trial 2: failed: no memory; best 0.")
    assert second.endswith("; 3 of 3 done")


def test_trials_of_other_processes(tmp_path: Path, capsys) -> None:
    study = SharedStudy(tmp_path, plan())
    theirs = study.claim(1)

    def release(now: dict[str, Any]) -> None:
        display(now)
        theirs.lock.release()  # their process dies

    with Display(study, 1, quiet=False) as display:
        work(study, Pretended(plan()), 1, None, release)
    first, second = capsys.readouterr().err.splitlines()
    assert first == "waiting for 1 trial of other processes"
    assert second.startswith("trial 0: AP 0.5898")


def test_nothing_is_printed_if_quiet(tmp_path: Path, capsys) -> None:
    study = SharedStudy(tmp_path, plan())
    with Display(study, 1, quiet=True) as display:
        work(study, Pretended(plan()), 1, None, display)
        display.begin("testing")
        display.testing(0.5)
    assert capsys.readouterr().err == ""
