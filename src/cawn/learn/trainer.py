"""Training of any system: epochs, early stopping, checkpoints, exact resume.

Everything random in a step follows from (seed, epoch, step), so a run that was interrupted and resumed ends with the
same weights as one that was not.
"""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from cawn import systems
from cawn.checks import check_choice, check_flags, check_path, check_seed, check_type
from cawn.data.attributes import Encoder
from cawn.data.events import Events
from cawn.data.names import bipartite_prefixes
from cawn.devices import Device, check_device, keep_freed_memory, pick_device
from cawn.errors import QueryError, StorageError, enough_memory
from cawn.files import FolderLock, write_text
from cawn.interrupt import Interrupt, Interrupted
from cawn.kernels.jit import check_threads
from cawn.kernels.rng import seed_for
from cawn.learn import metrics, splits
from cawn.learn.calibration import FITTED_PRIOR, Calibration
from cawn.learn.evaluation import MODEL, candidate_recall, evaluate, score_contrast
from cawn.learn.negatives import KINDS, check_kinds, training_links, validation_negatives
from cawn.learn.reporting import Board, Clock, Listener, Progress, Terminal, check_board
from cawn.learn.run_info import current_versions
from cawn.learn.runs import (
    Record,
    begin_run,
    continue_run,
    digest_of_links,
    load_weights,
    part,
    read_checkpoint,
    read_description,
    read_encoder,
    refuse_existing,
    write_checkpoint,
    write_index,
    write_report,
)
from cawn.learn.splits import Split, Task, TimeSplit
from cawn.learn.testing import BASELINE, Run, candidates_on, train_baseline
from cawn.progress import Report
from cawn.systems import baselines
from cawn.systems.base import Context, Indexed, Optimizer, System, TrainingLinks, seed_step
from cawn.systems.settings import Settings

TRIAL_STEPS, TRIAL_LINKS = 100, 2_000  # of a short training, and of the validation links it is judged by


class Stopped(KeyboardInterrupt):
    """Ctrl-C during an epoch: the checkpoint is written and the user has been told."""


@dataclass
class State:
    """Where a training stands; what a checkpoint holds beside the weights."""

    epoch: int = 0
    step: int = 0  # within the epoch
    best_ap: float = -1.0
    best_epoch: int = -1
    loss: float = 0.0  # summed over the steps of the epoch


class Trainer:
    """Trains one system on the links of one network. Ctrl-C stops `fit` after writing a checkpoint."""

    def __init__(
        self,
        events: Events,
        config: Settings,
        *,
        task: Task = "transductive",
        seed: int = 0,
        out: str | os.PathLike[str] | None = None,
        device: Device = "auto",
        threads: int | None = None,
        resume: bool = False,
        quiet: bool = False,
        facts: dict[str, Any] | None = None,
        tensorboard: bool = False,
        split: TimeSplit | None = None,
        callback: Listener | None = None,
    ) -> None:
        """As `train`; the settings decide which system is trained.

        Args:
            facts: Values to use in place of those that the system would find from the training links.
        """
        check_training(events, config, task, seed, out, device, threads, split)
        check_flags(resume=resume, quiet=quiet, tensorboard=tensorboard)
        if resume and out is not None:
            facts = read_description(check_path(out, "out"))["facts"]
        self.config, self.task, self.seed = config, task, seed
        self.folder = None if out is None else Path(out)
        self.device = pick_device(device)
        if self.device.type == "cpu":
            keep_freed_memory()
        self.cuts = (split or TimeSplit()).on(events)
        self.split: Split = splits.split(events, task, seed=seed, by=self.cuts)
        self.events = events = self._encoded(events, resume)
        self.visible = events[self.split.visible]
        self.training: TrainingLinks = training_links(events, self.split, config, seed)
        self.negatives = validation_negatives(events, self.split, seed)
        torch.manual_seed(seed_for(seed, "weights"))
        self.context = Context(config, self.visible, seed, self.device, threads, self.training, dict(facts or {}))
        self.system: System = systems.build(systems.name_of(config), self.context)
        self.num_steps = getattr(self.system, "steps_per_epoch", self.training.steps_per_epoch)
        self.optimizer = Optimizer(self.system.module, config, self.num_steps)
        self.best = self._weights()
        self.state, self.log, self.interrupt = State(), list[dict[str, Any]](), Interrupt()
        self._seconds: list[float] = []  # of each epoch since the training began or was resumed
        if tensorboard:
            check_board(out)
        self.listeners: list[Listener] = [] if quiet else [Terminal()]
        if tensorboard and self.folder is not None:
            self.listeners.append(Board(self.folder / "tensorboard"))
        if callback is not None:
            self.listeners.append(callback)
        self.lock: FolderLock | None = None  # held while the run folder is written to
        if resume:
            self._restore()
        elif self.folder is not None:
            refuse_existing(self.folder)

    def _encoded(self, events: Events, resume: bool) -> Events:
        """The links with attributes encoded as in the training links, or as in the run that is resumed."""
        if resume and self.folder is not None:
            encoder = read_encoder(self.folder)
        elif events.encoder is not None:
            raise QueryError("the attributes of these links were encoded for another run; train on their own file")
        else:
            used, standardise = self.config.attributes, self.config.standardise
            encoder = Encoder.fit(events, self.split.train, standardise=standardise) if used else None
        return events if encoder is None else encoder.transform(events)

    def _weights(self) -> dict[str, torch.Tensor]:
        return {name: value.clone() for name, value in self.system.module.state_dict().items()}

    @enough_memory("training")
    def fit(self, kinds: tuple[str, ...] = tuple(KINDS)) -> Run:
        """Train to the end, restore the best weights, and evaluate them on the test links."""
        check_kinds(kinds)
        if self.folder is not None and self.lock is None:
            start = continue_run if self.log or self.state.step else begin_run
            self.lock = start(self.folder, self.config, self.events, self._description())
        try:
            if self._finished():
                self._report(Progress("message", text="training has ended already"))
            with self.interrupt:
                while not self._finished():
                    self._epoch()
            return self._test(kinds)
        finally:
            if self.lock is not None:
                self.lock.release()
                self.lock = None

    @enough_memory("training")
    def trial(self, report: Report = lambda _: None) -> tuple[Any, Any]:
        """Logits of some validation links and their negatives after a short training; `report` is given the steps."""
        with self.interrupt:
            for step, _ in enumerate(islice(self._steps(0, 0), TRIAL_STEPS), start=1):
                report(step)
                self.interrupt.check()
        return self._validate(slice(0, TRIAL_LINKS))

    def _steps(self, epoch: int, first: int) -> Iterator[Tensor]:
        """Make the steps of an epoch from step `first`; yields the loss of each."""
        updates, module = self.system.updates(epoch, first, self.optimizer), self.system.module
        for step in range(first, self.num_steps):
            module.train()
            seed_step(self.device, self.training.seed_for("dropout", epoch, step))
            loss = next(updates, None)
            if loss is None:
                return
            if loss.requires_grad:
                self.optimizer.set_learning_rate(self.optimizer.learning_rate(epoch, step))
                self.optimizer.minimise(loss)
            yield loss.detach()

    def _epoch(self) -> None:
        """One pass over the training links, then validation. An interruption writes a checkpoint."""
        state, start, first, clock = self.state, time.perf_counter(), self.state.step, Clock()
        size, total = self.config.batch_size, self.num_steps
        loss = torch.zeros((), dtype=torch.float64, device=self.device)
        now = Progress("training", first, total, state.epoch + 1, self.config.epochs)
        try:
            for step, found in enumerate(self._steps(state.epoch, first), start=first + 1):
                loss += found
                state.step = step
                if self.listeners and (clock() or step == total):
                    rate = (step - first) * size / (time.perf_counter() - start)
                    mean = (state.loss + float(loss)) / step
                    self._report(replace(now, done=step, loss=mean, links_per_second=rate))
                self.interrupt.check()
            state.loss += float(loss)
        except Interrupted:
            state.loss += float(loss)
            self._save_checkpoint()
            where = f"stopped in epoch {now.epoch}/{now.epochs}, step {state.step}"
            self._report(Progress("message", text=where + how_to_resume(self.folder)))
            raise Stopped from None
        steps = state.step - first
        rate = steps * size / (time.perf_counter() - start)
        row = self._end_epoch()
        if steps > 0:  # an epoch may be resumed after its last step
            self._seconds.append((time.perf_counter() - start) * total / steps)
        best = state.best_epoch == state.epoch - 1
        left = None if self._finished() else self._seconds_left()
        done: dict[str, Any] = {
            "done": total,
            "metrics": row,
            "links_per_second": rate,
            "seconds_left": left,
            "best": best,
        }
        self._report(replace(now, stage="epoch", **done))
        self._save_checkpoint()

    def _end_epoch(self) -> dict[str, Any]:
        """Validate, keep the weights if they are the best, and move on to the next epoch."""
        state, logits = self.state, self._validate(slice(None))
        auc, ap = metrics.auc(*logits), metrics.average_precision(*logits)
        if ap > state.best_ap:
            state.best_ap, state.best_epoch, self.best = ap, state.epoch, self._weights()
        row = {"epoch": state.epoch + 1, "loss": state.loss / state.step, "val_auc": auc, "val_ap": ap}
        self.log.append(row)
        state.epoch, state.step, state.loss = state.epoch + 1, 0, 0.0
        return row

    def _validate(self, part: slice) -> tuple[Any, Any]:
        links, events = self.split.val[part], self.events
        scorer = self.system.scorer(self.visible)
        return score_contrast(scorer, events.src[links], events.dst[links], self.negatives[part], events.t[links])

    def _finished(self) -> bool:
        stale = self.state.epoch - 1 - self.state.best_epoch
        return self.state.epoch >= self.config.epochs or (self.state.epoch > 0 and stale >= self.config.patience)

    def _seconds_left(self) -> float | None:
        """Until the last epoch, if training does not stop before."""
        if not self._seconds:
            return None
        return (self.config.epochs - self.state.epoch) * sum(self._seconds) / len(self._seconds)

    def _report(self, now: Progress) -> None:
        for listener in self.listeners:
            listener(now)

    def _test(self, kinds: tuple[str, ...]) -> Run:
        """Evaluate the best weights on the test links, and write what a predictor needs."""
        self.system.module.load_state_dict(self.best)
        self._report(Progress("message", text=f"testing the weights of epoch {self.state.best_epoch + 1} ..."))
        calibration = Calibration.fit(*self._validate(slice(None)))
        scorer = self.system.scorer(self.events)
        baseline = train_baseline(self.context, self.events, self._stage("baseline"))
        results = evaluate(
            {MODEL: scorer, **baselines.scorers(self.events), BASELINE: baseline},
            self.events,
            self.split,
            kinds,
            calibration,
            seed=seed_for(self.seed, "test"),
            trained_with=self.config.negatives,
            report=self._stage("testing"),
        )
        report: dict[str, Any] = {"calibration": asdict(calibration) | {"prior": FITTED_PRIOR}}
        candidates = candidates_on(scorer, self.events, self.config)
        report["candidates"] = candidate_recall(candidates, self.events, np.concatenate(list(self.split.test.values())))
        report["versions"] = current_versions() | {"device": self.device.type}
        if self.folder is not None and self.lock is not None:
            self.lock.check()
            if isinstance(self.system, Indexed):
                write_index(self.folder, self.system.index(self.events))
            weights = {name: value.detach().cpu().numpy() for name, value in self.best.items()}
            write_report(self.folder, weights, report, results, self._metrics())
        return Run(
            system=self.system,
            scorer=scorer,
            events=self.events,
            config=self.config,
            task=self.task,
            seed=self.seed,
            calibration=calibration,
            results=results,
            report=report,
            epochs=self.log,
            folder=self.folder,
            record=Record(self._description(), report, results, self._metrics()),
        )

    def _stage(self, stage: Any) -> Report:
        return lambda share: self._report(Progress(stage, done=share))

    # The run folder.

    def _description(self) -> dict[str, Any]:
        return {
            "system": systems.name_of(self.config),
            "task": self.task,
            "seed": self.seed,
            "facts": self.context.facts,
            "links": len(self.events),
            "contents": digest_of_links(self.events),
            "nodes": self.events.num_nodes,
            "split": self.split.digest,
            "cuts": None if self.cuts == TimeSplit() else self.cuts.to_dict(),
            "prefixes": bipartite_prefixes(self.events),
            "encoder": None if self.events.encoder is None else self.events.encoder.to_dict(),
            "reading": None if self.events.reading is None else self.events.reading.to_dict(),
        }

    def _save_checkpoint(self) -> None:
        if self.folder is None or self.lock is None:
            return
        self.lock.check()
        tensors = {f"model.{name}": value for name, value in self.system.module.state_dict().items()}
        tensors |= {f"adam.{name}": value for name, value in self.optimizer.tensors().items()}
        if self.state.best_epoch >= 0:  # no best weights before a validation
            tensors |= {f"best.{name}": value for name, value in self.best.items()}
        write_checkpoint(self.folder, tensors, {"progress": asdict(self.state), "log": self.log})
        write_text(self.folder / "metrics.jsonl", self._metrics())

    def _metrics(self) -> str:
        return "".join(json.dumps(row) + "\n" for row in self.log)

    def _restore(self) -> None:
        """Continue from the checkpoint of the run folder, if it is of the same config, data, task and seed."""
        if self.folder is None:
            raise QueryError("resume=True needs out=, the folder of the run to resume")
        self.lock = continue_run(self.folder, self.config, self.events, self._description())
        path = self.folder / "checkpoint.safetensors"
        found = read_checkpoint(path)
        if found is None:
            return
        tensors, saved = found
        try:
            self.state, self.log = State(**saved["progress"]), list(saved["log"])
            load_weights(self.system.module, part(tensors, "model."), self.folder)
            moments = {name: torch.from_numpy(value) for name, value in part(tensors, "adam.").items()}
            self.optimizer.load(moments)
        except (KeyError, TypeError, ValueError, StorageError) as error:
            raise StorageError(f"{path}: damaged; remove it to start over") from error
        if self.state.best_epoch >= 0:
            best = part(tensors, "best.")
            self.best = {name: torch.from_numpy(best[name]).to(self.device) for name in self.best}
        write_text(self.folder / "metrics.jsonl", self._metrics())


def check_training(
    events: Any, config: Any, task: Any, seed: Any, out: Any, device: Any, threads: Any, split: Any
) -> None:
    """Refuse wrong arguments of a training before any of it begins."""
    check_type(events, "events", Events, "give cawn.Events, or read them with cawn.read")
    check_type(config, "config", Settings, "give a cawn.Config")
    check_choice(task, "task", get_args(Task))
    check_seed(seed)
    check_device(device)
    check_threads(threads)
    if out is not None:
        check_path(out, "out")
    if split is not None:
        check_type(split, "split", TimeSplit, "give a cawn.TimeSplit")


def how_to_resume(folder: str | os.PathLike[str] | None) -> str:
    """How to continue a run that was stopped, to be appended to a sentence."""
    if folder is None or not (Path(folder) / "run.json").exists():
        return "; nothing was written"
    return f"; to go on: cawn train --resume -o {shlex.quote(str(folder))}, or resume=True"
