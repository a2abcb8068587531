"""Training: epochs, early stopping, checkpoints, exact resume.

Everything random in a step follows from (seed, epoch, step) alone, so a run that was interrupted and resumed ends in
the same weights as one that was not.
"""

from __future__ import annotations

import ctypes
import json
import os
import shlex
import sys
import time
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch

from cawn.checks import check_choice, check_flags, check_path, check_seed, check_type
from cawn.data.attributes import Encoder
from cawn.data.events import Events
from cawn.data.names import bipartite_prefixes
from cawn.devices import Device, check_device, pick_device
from cawn.errors import QueryError, StorageError, enough_memory
from cawn.files import FolderLock, write_text
from cawn.interrupt import Interrupt, Interrupted
from cawn.kernels.cuda.launch import memory_for
from cawn.kernels.jit import check_threads
from cawn.kernels.rng import seed_for
from cawn.learn import metrics, splits
from cawn.learn.board import Board, check_board
from cawn.learn.calibration import FITTED_PRIOR, Calibration
from cawn.learn.checkpoints import load_weights, write_checkpoint
from cawn.learn.evaluation import candidate_recall, evaluate, score_contrast
from cawn.learn.negatives import Kind, check_kinds
from cawn.learn.run_info import current_versions
from cawn.learn.runs import (
    Record,
    begin_run,
    continue_run,
    digest_of_links,
    part,
    read_checkpoint,
    read_encoder,
    refuse_existing,
    write_index,
    write_report,
)
from cawn.learn.splits import Split, Task, TimeSplit
from cawn.progress import Report, progress
from cawn.systems.cawn.batches import Batcher, input_widths
from cawn.systems.cawn.config import Config
from cawn.systems.cawn.decays import decays
from cawn.systems.cawn.device_batches import on_device
from cawn.systems.cawn.device_steps import DeviceSteps, optimizer_of
from cawn.systems.cawn.model import CAWN
from cawn.systems.cawn.steps import HostSteps, Plan, Steps
from cawn.systems.rates_only import train_rates_only

TIME_UNITS = 1e6  # in the training period
TRIAL_STEPS, TRIAL_LINKS = 100, 2_000  # of the short comparison behind alpha="auto"


class Stopped(KeyboardInterrupt):
    """Ctrl-C during an epoch: the checkpoint is written and the user has been told."""


@dataclass
class Progress:
    """Where a training stands; what a checkpoint holds beside the weights."""

    epoch: int = 0
    step: int = 0  # within the epoch
    best_ap: float = -1.0
    best_epoch: int = -1
    loss: float = 0.0  # summed over the steps of the epoch


@dataclass(frozen=True, slots=True)
class Run:
    """A finished training: the model with its best weights, what it was trained on, and how good it is."""

    model: CAWN = field(repr=False)
    batcher: Batcher = field(repr=False)  # on the whole network
    config: Config
    task: Task
    seed: int
    calibration: Calibration
    results: list[dict[str, Any]] = field(repr=False)
    report: dict[str, Any] = field(repr=False)
    epochs: list[dict[str, Any]] = field(repr=False)
    folder: Path | None
    record: Record = field(repr=False)

    @property
    def alpha(self) -> tuple[float, ...]:
        """The decays that were used."""
        return self.batcher.history.alpha


class Trainer:
    """Trains CAW-N on the links of one network. `fit` runs to the end; `Ctrl-C` stops it with a checkpoint written."""

    def __init__(
        self,
        events: Events,
        config: Config,
        *,
        task: Task = "transductive",
        seed: int = 0,
        out: str | os.PathLike[str] | None = None,
        device: Device = "auto",
        threads: int | None = None,
        resume: bool = False,
        quiet: bool = False,
        alpha: tuple[float, ...] | None = None,
        tensorboard: bool = False,
        split: TimeSplit | None = None,
    ) -> None:
        """As `train`, but for `alpha`: the decays to use where the config leaves them open; the wide ladder if None."""
        check_training(events, config, task, seed, out, device, threads, split)
        check_flags(resume=resume, quiet=quiet, tensorboard=tensorboard)
        self.config, self.task, self.seed = config, task, seed
        self.folder = None if out is None else Path(out)
        self.device = pick_device(device)
        if self.device.type == "cpu":
            keep_freed_memory()
        self.threads, self.quiet = threads, quiet
        self.cuts = (split or TimeSplit()).on(events)
        self.parts: Split = splits.split(events, task, seed=seed, by=self.cuts)
        self.events = events = self._encoded(events, resume)
        train = events[self.parts.train]
        self.alpha = alpha or decays(config, train.intensity)
        span = float(train.t[-1] - train.t[0])
        self.unit = max(span / TIME_UNITS, sys.float_info.min) if span > 0 else 1.0
        torch.manual_seed(seed_for(seed, "weights"))
        self.widths = input_widths(config, events, len(self.alpha))
        with memory_for("the model"):
            self.model = CAWN(config, *self.widths).to(self.device)
            self.optimizer = optimizer_of(self.model, config)
        self.plan = Plan(events, self.parts, config, seed, self.model, self.optimizer)
        self.best = {name: value.clone() for name, value in self.model.state_dict().items()}
        self.progress, self.log, self.interrupt = Progress(), list[dict[str, Any]](), Interrupt()
        self._spent: list[float] = []  # seconds of each epoch since the training began or was resumed
        self.false_val = self.plan.validation_negatives()
        self.batcher = on_device(self._batcher(events[self.parts.visible]), self.device)
        self.steps: Steps = (
            HostSteps(self.plan, self.batcher)
            if isinstance(self.batcher, Batcher)
            else DeviceSteps(self.plan, self.batcher)
        )
        if tensorboard:
            check_board(out)
        self.board = Board(self.folder / "tensorboard") if tensorboard and self.folder is not None else None
        self.lock: FolderLock | None = None  # held while the run folder is written to
        if resume:
            self._restore()
        elif self.folder is not None:
            refuse_existing(self.folder)

    def _encoded(self, events: Events, resume: bool) -> Events:
        """The links with attributes encoded as the training links, or the run that goes on, have it."""
        if resume and self.folder is not None:
            encoder = read_encoder(self.folder)
        elif events.encoder is not None:
            raise QueryError("the attributes of these links were encoded for another run; train on their own file")
        else:
            used, standardise = self.config.attributes, self.config.standardise
            encoder = Encoder.fit(events, self.parts.train, standardise=standardise) if used else None
        return events if encoder is None else encoder.transform(events)

    def _batcher(self, events: Events) -> Batcher:
        return Batcher.of(self.config, events, self.alpha, self.unit, threads=1, build_threads=self.threads)

    @enough_memory("training")
    def fit(self, kinds: tuple[Kind, ...] = ("random", "historical", "inductive")) -> Run:
        """Train to the end, restore the best weights, and evaluate them on the test links."""
        check_kinds(kinds)
        if self.folder is not None and self.lock is None:
            start = continue_run if self.log or self.progress.step else begin_run
            self.lock = start(self.folder, self.config, self.events, self._description())
        try:
            return self._fit(kinds)
        finally:
            if self.lock is not None:
                self.lock.release()
                self.lock = None

    def _fit(self, kinds: tuple[Kind, ...]) -> Run:
        if self._finished():
            self._say("training has ended already")
        with self.interrupt:
            while not self._finished():
                self._epoch()
        self.model.load_state_dict(self.best)
        self._say(f"testing the weights of epoch {self.progress.best_epoch + 1} ...")
        calibration = Calibration.fit(*self._validate(slice(None)))
        del self.steps, self.batcher  # a GPU may have no room for two
        full = self._batcher(self.events)
        with progress("training the baseline on rates", 1.0, quiet=self.quiet) as report_share:
            rates_only = train_rates_only(self.plan, full, report_share)
        results = evaluate(
            self.model,
            on_device(full, self.device),
            self.events,
            self.parts,
            kinds,
            calibration,
            seed=self.plan.number("test"),
            baselines={"rates only": rates_only},
            quiet=self.quiet,
        )
        report: dict[str, Any] = {"calibration": asdict(calibration) | {"prior": FITTED_PRIOR}}
        report["candidates"] = candidate_recall(full, np.concatenate(list(self.parts.test.values())))
        report["versions"] = current_versions() | {"device": self.device.type}
        if self.folder is not None and self.lock is not None:
            self.lock.check()
            write_index(self.folder, full)
            weights = {name: value.detach().cpu().numpy() for name, value in self.best.items()}
            write_report(self.folder, weights, report, results, self._metrics())
        record = Record(self._description(), report, results, self._metrics())
        return Run(
            model=self.model,
            batcher=full,
            config=self.config,
            task=self.task,
            seed=self.seed,
            calibration=calibration,
            results=results,
            report=report,
            epochs=self.log,
            folder=self.folder,
            record=record,
        )

    @enough_memory("training")
    def trial(self, report: Report = lambda _: None) -> tuple[Any, Any]:
        """Scores of some validation links, true and false, after a few steps of training.

        `report` is told how many steps are done.
        """
        with self.interrupt:
            for step, _ in enumerate(islice(self.steps.epoch(0, 0), TRIAL_STEPS), start=1):
                report(step)
                self.interrupt.check()
        return self._validate(slice(0, TRIAL_LINKS))

    def _validate(self, part: slice) -> tuple[Any, Any]:
        links = self.parts.val[part]
        ends = (self.events.src[links], self.events.dst[links], self.false_val[part], self.events.t[links])
        return score_contrast(self.model, self.batcher, *ends)

    def _finished(self) -> bool:
        stale = self.progress.epoch - 1 - self.progress.best_epoch
        return self.progress.epoch >= self.config.epochs or (self.progress.epoch > 0 and stale >= self.config.patience)

    def _epoch(self) -> None:
        """One pass over the training links, then validation. An interruption in between is kept and passed on."""
        state, start, first = self.progress, time.perf_counter(), self.progress.step
        title = f"epoch {state.epoch + 1}/{self.config.epochs}"
        try:
            with progress(title, self.plan.steps_per_epoch, quiet=self.quiet) as report:
                for step, _ in enumerate(self.steps.epoch(state.epoch, first), start=first + 1):
                    state.step = step
                    report(step)
                    self.interrupt.check()
            state.loss += self.steps.loss()
        except Interrupted:
            state.loss += self.steps.loss()
            self._save_checkpoint()
            self._say(f"stopped in {title}, step {state.step}{how_to_resume(self.folder)}")
            raise Stopped from None
        steps = state.step - first
        rate = steps * self.config.batch_size / (time.perf_counter() - start)
        true, false = self._validate(slice(None))
        auc, ap = metrics.auc(true, false), metrics.average_precision(true, false)
        if ap > state.best_ap:
            state.best_ap, state.best_epoch = ap, state.epoch
            self.best = {name: value.clone() for name, value in self.model.state_dict().items()}
        row = {"epoch": state.epoch + 1, "loss": state.loss / state.step, "val_auc": auc, "val_ap": ap}
        self.log.append(row)
        if self.board is not None:
            self.board.add(row)
        mark = " *" if state.best_epoch == state.epoch else ""
        state.epoch, state.step, state.loss = state.epoch + 1, 0, 0.0
        if steps > 0:  # an epoch may be resumed after its last step
            self._spent.append((time.perf_counter() - start) * self.plan.steps_per_epoch / steps)
        self._say(
            title
            + "  loss {loss:.4f}  val AUC {val_auc:.4f}  AP {val_ap:.4f}".format(**row)
            + f"  {rate:,.0f} links/s{self._time_left()}{mark}"
        )
        self._save_checkpoint()

    def _time_left(self) -> str:
        """Until the last epoch, if training does not stop before."""
        if self._finished() or not self._spent:
            return ""
        left = (self.config.epochs - self.progress.epoch) * sum(self._spent) / len(self._spent)
        size, unit = next(
            (size, unit) for size, unit in ((3600, "h"), (60, "min"), (1, "s")) if left >= 2 * size or size == 1
        )
        return f"  at most {left / size:.0f} {unit} left"

    def _say(self, line: str) -> None:
        if not self.quiet:
            print(line, file=sys.stderr, flush=True)

    # The run folder.

    def _description(self) -> dict[str, Any]:
        return {
            "task": self.task,
            "seed": self.seed,
            "alpha": self.alpha,
            "unit": self.unit,
            "widths": self.widths,
            "links": len(self.events),
            "contents": digest_of_links(self.events),
            "nodes": self.events.num_nodes,
            "split": self.parts.digest,
            "cuts": None if self.cuts == TimeSplit() else self.cuts.to_dict(),
            "prefixes": bipartite_prefixes(self.events),
            "encoder": None if self.events.encoder is None else self.events.encoder.to_dict(),
            "reading": None if self.events.reading is None else self.events.reading.to_dict(),
        }

    def _save_checkpoint(self) -> None:
        if self.folder is None or self.lock is None:
            return
        self.lock.check()
        tensors = {f"model.{name}": value for name, value in self.model.state_dict().items()}
        for i, moments in self.optimizer.state_dict()["state"].items():
            tensors |= {f"adam.{i}.{name}": value for name, value in moments.items()}
        state = {"progress": asdict(self.progress), "log": self.log}
        write_checkpoint(self.folder, tensors, self.best if self.progress.best_epoch >= 0 else None, state)
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
            self.progress, self.log = Progress(**saved["progress"]), list(saved["log"])
            load_weights(self.model, part(tensors, "model."), self.folder)
            self._load_moments(part(tensors, "adam."))
        except (KeyError, TypeError, ValueError, StorageError) as error:
            raise StorageError(f"{path}: damaged; remove it to start over") from error
        if self.progress.best_epoch >= 0:
            best = part(tensors, "best.")
            self.best = {name: torch.from_numpy(best[name]).to(self.device) for name in self.best}
        write_text(self.folder / "metrics.jsonl", self._metrics())

    def _load_moments(self, moments: dict[str, Any]) -> None:
        """Adam's, by the number of the parameter; ValueError where they do not fit it."""
        adam = self.optimizer.state_dict()
        for i, parameter in enumerate(self.model.parameters()):
            held = {name: torch.from_numpy(value) for name, value in part(moments, f"{i}.").items()}
            if any(value.ndim and value.shape != parameter.shape for value in held.values()):
                raise ValueError(i)
            if held:
                adam["state"][i] = held
        self.optimizer.load_state_dict(adam)


def check_training(
    events: Any, config: Any, task: Any, seed: Any, out: Any, device: Any, threads: Any, split: Any
) -> None:
    """Refuse wrong arguments of a training before any of it begins."""
    check_type(events, "events", Events, "give cawn.Events, or read them with cawn.read")
    check_type(config, "config", Config, "give a cawn.Config")
    check_choice(task, "task", get_args(Task))
    check_seed(seed)
    check_device(device)
    check_threads(threads)
    if out is not None:
        check_path(out, "out")
    if split is not None:
        check_type(split, "split", TimeSplit, "give a cawn.TimeSplit")


def how_to_resume(folder: str | os.PathLike[str] | None) -> str:
    """How to continue what was stopped, to be appended to a sentence."""
    if folder is None or not (Path(folder) / "run.json").exists():
        return "; nothing was written"
    return f"; to go on: cawn train --resume -o {shlex.quote(str(folder))}, or resume=True"


def keep_freed_memory() -> None:
    """Let the C library keep large blocks it has been given back, rather than fetch fresh pages for each tensor.

    A training step makes and drops tensors of tens of megabytes; the page faults took a third of its time.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:
        max_mmaps, trim_threshold = -4, -1
        mallopt(max_mmaps, 0)
        mallopt(trim_threshold, 1 << 30)
