"""The end of a study: the best model as a run folder, and what it gained."""

import os
from pathlib import Path

import numpy as np
import pytest

import cawn
from cawn.learn.runs import read_config, read_run
from cawn.studies.tuning.outcome import Tuned
from cawn.systems.rates import RatesSettings
from small_study import TRIALS


def test_the_best_is_never_worse_than_the_preset(tuned: Tuned) -> None:
    assert tuned.best.value == max(trial.value for trial in tuned.trials if trial.state == "complete")
    assert tuned.best.value >= tuned.default.value
    assert tuned.default.number == 0
    differences = [tuned.best.seeds[s]["value"] - tuned.default.seeds[s]["value"] for s in (0, 1)]
    assert tuned.gain.mean == pytest.approx(sum(differences) / 2)
    assert tuned.gain.half == pytest.approx(12.706 * abs(differences[0] - differences[1]) / 2)


def test_the_best_model_is_an_ordinary_run(tuned: Tuned, network) -> None:
    assert tuned.run == tuned.folder / "best"
    assert read_config(tuned.run) == tuned.config
    assert RatesSettings.from_toml((tuned.folder / "best.toml").read_text()) == tuned.config
    predictor = cawn.LinkPredictor.load(tuned.run, device="cpu")
    assert predictor.finished
    alone = cawn.train(
        network, tuned.config, seed=0, device="cpu", threads=1, quiet=True, task=cawn.Task(baselines=False)
    )
    for name, value in alone.model.state_dict().items():
        np.testing.assert_array_equal(read_run(tuned.run, evaluated=True).weights[name], value)


def test_it_can_be_evaluated_again(tuned: Tuned) -> None:
    found = cawn.evaluate(tuned.run, device="cpu", threads=1)
    seeds = [tuned.folder / "trials" / f"{tuned.best.number:04d}" / f"seed-{seed}" for seed in (0, 1)]
    other = cawn.evaluate(seeds[1], device="cpu", threads=1)
    (shown,) = (row for row in tuned.test if row["negatives"] == "random")
    wanted = {"negatives": "random", "metric": "ap", "baseline": False}
    values = [one.where(**wanted)[0]["value"] for one in (found, other)]
    assert shown["best"].mean == pytest.approx(sum(values) / 2)
    assert list(tuned.results.where(system="best", **wanted).by_seed().values()) == values
    assert "recency" in found.values("system")


def test_only_the_first_and_the_best_trial_are_tested(tuned: Tuned) -> None:
    tested = {path.parts[-3] for path in tuned.folder.glob("trials/*/*/results.json")}
    assert tested == {"0000", f"{tuned.best.number:04d}"}


def test_files_of_the_best_run_are_not_stored_twice(tuned: Tuned) -> None:
    weights = Path("seed-0", "weights.safetensors")
    folder = tuned.folder / "trials" / f"{tuned.best.number:04d}"
    assert os.path.samefile(folder / weights, tuned.run / weights.name)
    assert not (tuned.run / ".lock").exists() or not os.path.samefile(folder / "seed-0/.lock", tuned.run / ".lock")


def test_as_json(tuned: Tuned) -> None:
    found = tuned.to_dict()
    assert found["best"]["settings"]["epochs"] == 3
    assert sum(found["trials"][state] for state in ("complete", "pruned", "failed")) == TRIALS
    assert [row["negatives"] for row in found["test"]] == ["random", "historical", "inductive"]
