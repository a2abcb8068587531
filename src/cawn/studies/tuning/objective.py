"""One trial: a training for each seed, validated after each epoch, resumed where it stopped.

The value of a trial is the mean over seeds of the validation metric of the weights that each training keeps, those of
the epoch with the best validation AP. Test links are not used.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cawn.data.events import Events
from cawn.devices import Device
from cawn.errors import CawnError, StorageError
from cawn.files import write_text
from cawn.kernels.rng import seed_for
from cawn.learn import metrics
from cawn.learn.evaluation import CANDIDATES, spread
from cawn.learn.ranking import random_candidates, rank_among
from cawn.learn.reporting import Listener, Progress
from cawn.learn.task import Task
from cawn.learn.trainer import Trainer
from cawn.studies.tuning.plan import SearchPlan
from cawn.studies.tuning.trials import Claim, SharedStudy, Trial, clear_crashes
from cawn.systems.settings import Settings

RANKED_LINKS = 500  # validation links that MRR and Hits@k are measured on

Share = Callable[[float], object]  # takes the completed fraction of a trial


@dataclass(frozen=True)
class Objective:
    """Trains and validates settings on one network."""

    events: Events
    plan: SearchPlan
    device: Device
    threads: int | None

    def trainer(
        self, config: Settings, seed: int, folder: Path, listener: Listener | None = None, task: Task | None = None
    ) -> Trainer:
        """The training of these settings in a run folder: a new one, or the one that was begun there."""
        how: dict[str, Any] = {"device": self.device, "threads": self.threads, "quiet": True, "callback": listener}
        begun = (folder / "run.json").exists()
        return Trainer(
            self.events, config, task=task or self.plan.task, seed=seed, out=folder, resume=begun, chooses=True, **how
        )

    def run(self, study: SharedStudy, claim: Claim, share: Share = lambda _: None) -> Trial:
        """Run a trial to its end, or until it is pruned; returns it as it is recorded.

        A trial that fails is recorded as failed, except for the first one: if the preset cannot be trained, there is
        nothing to compare with. A full disk, too, ends the study, and the trial can be continued.
        """
        number = claim.trial.number
        try:
            study.complete(number, float(np.mean(self._values(study, claim, share))))
        except _PrunedError:
            study.prune(number)
        except CawnError as error:
            clear_crashes(claim.folder)
            if number == 0 or isinstance(error, StorageError):
                raise
            study.fail(number, str(error))
        except KeyboardInterrupt:
            clear_crashes(claim.folder)
            raise
        return study.trials()[number]

    def _values(self, study: SharedStudy, claim: Claim, share: Share) -> list[float]:
        """The value of each seed, trained or known."""
        values: list[float] = []
        config = claim.trial.config or self.plan.config.with_(**self.plan.space.changes(claim.trial.parameters))
        for index, seed in enumerate(self.plan.seeds):
            known = claim.trial.seeds.get(seed)
            if known is None:
                known = _Seed(self, study, claim, config, values, share).train(index, seed)
                study.remember(claim.trial.number, seed, known)
            values.append(known["value"])
            share((index + 1) / len(self.plan.seeds))
        return values


class _PrunedError(Exception):
    """The trial is not worth continuing."""


class _Seed:
    """The training of a trial with one seed."""

    def __init__(
        self,
        objective: Objective,
        study: SharedStudy,
        claim: Claim,
        config: Settings,
        before: list[float],
        share: Share,
    ) -> None:
        self._objective, self._study, self._claim, self._config = objective, study, claim, config
        self._before, self._share = list(before), share  # `before`: the values of the seeds before it

    def train(self, index: int, seed: int) -> dict[str, Any]:
        """Train to the end, and report the value after each epoch; raises `_PrunedError`."""
        folder, epochs = self._claim.folder, self._config.epochs
        self._file, self._first = folder / f"seed-{seed}.json", index * epochs
        self._trainer = trainer = self._objective.trainer(self._config, seed, folder / f"seed-{seed}", self._listen)
        self._curve = _read_curve(self._file, trainer.state.epoch)
        self._measure = metric_function(trainer, self._objective.plan.metric, seed)
        trainer.fit_untested()
        value, ended = self._value(), len(self._curve)
        for epoch in range(ended + 1, epochs + 1):  # training stopped early: the value stays
            self._report(epoch, value)
        state = trainer.state
        return {"value": value, "epochs": state.epoch, "best_epoch": state.best_epoch + 1, "seconds": state.seconds}

    def _listen(self, now: Progress) -> None:
        if now.stage == "training":
            done = (now.epoch - 1 + now.done / max(now.total, 1)) / max(now.epochs, 1)
            self._share((len(self._before) + done) / len(self._objective.plan.seeds))
        if now.stage != "epoch":
            return
        value = self._measure(now.metrics) if now.best or not self._curve else self._curve[-1]
        self._curve = [*self._curve[: now.epoch - 1], value]
        write_text(self._file, json.dumps(self._curve))
        self._report(now.epoch, self._value())

    def _value(self) -> float:
        """The value of the weights that are the best so far."""
        return self._curve[self._trainer.state.best_epoch]

    def _report(self, epoch: int, value: float) -> None:
        mean = float(np.mean([*self._before, value]))
        if self._study.report(self._claim.trial.number, self._first + epoch, mean):
            raise _PrunedError


def _read_curve(path: Path, epochs: int) -> list[float]:
    """The values of the first epochs, which are written before the checkpoint of each."""
    if epochs == 0:
        return []
    try:
        found = [float(value) for value in json.loads(path.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError):
        found = []
    if len(found) < epochs:
        raise StorageError(f"{path}: missing or damaged; remove {path.with_suffix('')} to train this seed again")
    return found[:epochs]


def metric_function(trainer: Trainer, metric: str, seed: int) -> Callable[[dict[str, Any]], float]:
    """A function of the metrics of an epoch that returns the validation metric of the present weights."""
    if metric in ("ap", "auc"):
        return lambda row: float(row[f"val_{metric}"])
    links, visible = spread(trainer.split.val, RANKED_LINKS), trainer.split.visible
    links = (np.cumsum(visible) - 1)[links]  # positions among the visible links
    candidates = random_candidates(trainer.visible, links, CANDIDATES, seed_for(seed, "val ranks"))

    def measure(_: dict[str, Any]) -> float:
        ranks = rank_among(trainer.system.scorer(trainer.visible), trainer.visible, links, candidates)
        return metrics.mrr(ranks) if metric == "mrr" else metrics.hits(ranks, 10)

    return measure
