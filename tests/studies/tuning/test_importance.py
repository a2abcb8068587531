"""Which parameters matter."""

from dataclasses import replace

import pytest

from cawn.studies.tuning.importance import importances
from cawn.studies.tuning.trials import Trial
from small_study import plan

pytest.importorskip("optuna")
SHAPES = ("since True, two_steps True", "since False, two_steps False")


def trials(count: int) -> list[Trial]:
    """The value depends on `lr` alone."""
    found = []
    for i in range(count):
        lr = 1e-4 * 1000 ** (i / count)
        parameters = {"lr": lr, "hidden": (4, 8, 16)[i % 3], "counted": SHAPES[i % 2]}
        found.append(Trial(i, "complete", 0.5 + lr, parameters, None))
    return found


def test_the_parameter_that_matters_comes_first() -> None:
    found = importances(plan(), trials(30))
    assert next(iter(found)) == "lr"
    assert found["lr"] > 0.8
    assert sum(found.values()) == pytest.approx(1)
    assert importances(plan(), trials(30)) == found


def test_too_few_trials() -> None:
    assert importances(plan(), trials(3)) == {}
    assert importances(plan(), [replace(trial, state="pruned") for trial in trials(30)]) == {}
    assert importances(plan(), [replace(trial, value=0.5) for trial in trials(30)]) == {}


def test_a_preset_outside_of_the_space_is_left_out() -> None:
    some = trials(30)
    some[0] = replace(some[0], parameters={"hidden": 4})
    assert next(iter(importances(plan(), some))) == "lr"
