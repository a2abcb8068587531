"""The end of a study: its first trial and its best one are tested, and the best model becomes a run folder."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from cawn.errors import QueryError
from cawn.files import LOCK, FileLock, link_or_copy, make_folder, storing, temporary_folder, write_text
from cawn.learn import index_cache
from cawn.learn.results import Mean, Results, main_metric
from cawn.learn.runs import read_record
from cawn.progress import Report
from cawn.studies.tuning.importance import importances
from cawn.studies.tuning.objective import Objective
from cawn.studies.tuning.plan import SearchPlan
from cawn.studies.tuning.trials import SharedStudy, Trial, ranking
from cawn.systems.settings import Settings


@dataclass(frozen=True)
class Tuned:
    """The outcome of a study.

    `results` has the accuracy of the two trials that are tested on test links, as systems "preset" and "best".
    """

    folder: Path
    plan: SearchPlan = field(repr=False)
    trials: list[Trial] = field(repr=False)
    default: Trial  # the first trial, with the settings that the study started from
    best: Trial
    importances: dict[str, float]  # of parameters, by PED-ANOVA; empty if there are too few complete trials
    results: Results = field(repr=False)

    @property
    def config(self) -> Settings:
        """The best settings."""
        return self.best.config or self.plan.config

    @property
    def run(self) -> Path:
        """The run folder of the best settings, trained with the first seed and tested."""
        return self.folder / "best"

    @property
    def gain(self) -> Mean:
        """The gain of the best settings on validation links, over seeds."""
        before, after = self.default.seeds, self.best.seeds
        return Mean.of([after[seed]["value"] - before[seed]["value"] for seed in self.plan.seeds])

    @property
    def test(self) -> list[dict[str, Any]]:
        """A row for each kind of links and negatives: means of a metric for the preset, the best settings and their
        difference."""
        ours = self.results.where(baseline=False)
        return [
            self._compared(ours.where(links=links, negatives=negatives))
            for links, negatives in dict.fromkeys((row["links"], row["negatives"]) for row in ours)
        ]

    def _compared(self, results: Results) -> dict[str, Any]:
        metric = self.plan.metric if self.plan.metric in results.values("metric") else main_metric(results)
        before = results.where(metric=metric, system="preset")
        after = before if self.best is self.default else results.where(metric=metric, system="best")
        about = {key: before[0][key] for key in ("links", "negatives", "metric")}
        return about | {"default": before.means()[()], "best": after.means()[()], "gain": after.gain(before)}

    @property
    def changed(self) -> dict[str, Any]:
        """The settings that differ from those that the study started from."""
        before = self.plan.config.to_dict()
        return {name: value for name, value in self.config.to_dict().items() if before[name] != value}

    def to_dict(self) -> dict[str, Any]:
        """As JSON-compatible values."""
        counts = {
            state: sum(trial.state == state for trial in self.trials) for state in ("complete", "pruned", "failed")
        }
        return {
            "folder": str(self.folder),
            "run": str(self.run),
            "system": self.plan.system,
            "metric": self.plan.metric,
            "seeds": list(self.plan.seeds),
            "trials": {"total": len(self.trials), **counts},
            "best": {"trial": self.best.number, "value": self.best.value, "settings": _plain(self.config.to_dict())},
            "default": {"value": self.default.value},
            "changed": _plain(self.changed),
            "gain": self.gain.to_dict(),
            "importances": self.importances,
            "test": [
                {name: value.to_dict() if isinstance(value, Mean) else value for name, value in row.items()}
                for row in self.test
            ],
        }


def _plain(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}


def conclude(study: SharedStudy, objective: Objective, report: Report = lambda _: None) -> Tuned:
    """Test the first and the best trial, and write the best model to the folder `best`.

    What was tested before is not tested again. `report` is called with the fraction that is done.
    """
    make_folder(study.folder / "trials")
    with FileLock(study.folder / "trials" / LOCK):
        trials = study.trials()
        ranked = ranking(trials)
        if not ranked or trials[0].state != "complete":
            raise QueryError(f"{study.folder}: the first trial is not complete yet; continue with the same command")
        default, best = trials[0], ranked[0]
        used = [default] if best is default else [default, best]
        with study.reserved(used):
            results = _test(study, objective, used, report)
            _write_best(study.folder, study.folder_of(best.number) / f"seed-{study.plan.seeds[0]}", best)
    found = importances(study.plan, trials)
    return Tuned(study.folder, study.plan, trials, default, best, found, results)


def _test(study: SharedStudy, objective: Objective, used: list[Trial], report: Report) -> Results:
    """The results of each trial with each seed."""
    runs = [(trial, seed) for trial in used for seed in study.plan.seeds]
    found = []
    for done, (trial, seed) in enumerate(runs):
        folder = study.folder_of(trial.number) / f"seed-{seed}"
        baselines = study.plan.task.baselines and trial is used[-1] and seed == study.plan.seeds[0]
        results = read_record(folder)[0].results if (folder / "results.json").exists() else None
        if results is None or (baselines and not results.tests[0]["baselines"]):
            assert trial.config is not None
            task = replace(study.plan.task, baselines=baselines)
            results = objective.trainer(trial.config, seed, folder, task=task).fit().results
        name = {"system": "preset" if trial is used[0] else "best"}
        found += [test | name for test in results.tests]
        report((done + 1) / len(runs))
    return Results(found)


def _write_best(folder: Path, run: Path, best: Trial) -> None:
    """Make `best` a copy of a run folder, with hard links to its files where possible, and write best.toml."""
    assert best.config is not None
    target = folder / "best"
    with storing(target), temporary_folder(target) as made:
        ignored = shutil.ignore_patterns(LOCK, ".cawn-*", index_cache.FOLDER)
        shutil.copytree(run, made, copy_function=link_or_copy, dirs_exist_ok=True, ignore=ignored)
        if target.exists():
            with temporary_folder(target) as old:
                old.rmdir()
                os.rename(target, old)
                os.rename(made, target)
        else:
            os.rename(made, target)
    write_text(folder / "best.toml", best.config.to_toml())
