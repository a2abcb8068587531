"""Training of any system: epochs, early stopping, checkpoints, exact resume.

All random numbers in a step are derived from (seed, epoch, step), so a run that was interrupted and resumed ends with
the same weights as one that was not.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from itertools import chain, count, islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from cawn import systems
from cawn.data.events import Events
from cawn.devices import Device, keep_freed_memory, peak_memory, reset_peak_memory
from cawn.errors import one_line
from cawn.interrupt import Interrupt, Interrupted
from cawn.kernels.rng import seed_for
from cawn.learn import metrics, splits
from cawn.learn.arguments import check_folder, check_training, how_to_resume, settings_for
from cawn.learn.checkpoints import Checkpoints, State, as_arrays, describe, encode, load_moments, moments
from cawn.learn.comparison import choose_alternative, trial_steps
from cawn.learn.evaluation import score_contrast
from cawn.learn.negatives import training_links, validation_negatives
from cawn.learn.ranks import WAIT, compare, device_of, join, refuse_indivisible, share_index, shared, threads_of
from cawn.learn.reporting import Listener, Listeners, Progress
from cawn.learn.runs import Record, digest_of_links, read_description
from cawn.learn.task import Nodes, Task
from cawn.learn.testing import Run, finish
from cawn.progress import Report
from cawn.systems.base import Context, Scorer
from cawn.systems.ranks import RankError
from cawn.systems.settings import Settings, memory_to
from cawn.systems.training import Optimizer, seed_step

REPORT_INTERVAL = 0.25  # seconds between two reports within an epoch
TRIAL_LINKS = 2_000  # validation links to compare a short training on


class Stopped(KeyboardInterrupt):
    """Raised for Ctrl-C during an epoch, after writing the checkpoint and printing a message."""


class Trainer:
    """Trains one system on the links of one network. Ctrl-C stops `fit` after writing a checkpoint."""

    _refitting = False

    def __init__(
        self,
        events: Events,
        config: Settings,
        *,
        task: Task | Nodes = "transductive",
        seed: int = 0,
        out: str | os.PathLike[str] | None = None,
        resume: bool = False,
        device: Device = "auto",
        threads: int | None = None,
        quiet: bool = False,
        callback: Listener | None = None,
        facts: dict[str, Any] | None = None,
        chooses: bool = False,
    ) -> None:
        """See `train`; the type of `config` determines the system.

        Args:
            facts: Values to use instead of those the system derives from the training links.
            chooses: Whether to choose between alternatives of the system by short trainings, as `train` does.
        """
        self.task, self.config = Task.of(task), settings_for(config)
        check_training(events, seed, out, resume, device, threads, quiet, callback)
        self.folder = None if out is None else Path(out)
        self.ranks = join(device)
        if self.ranks.first or resume:
            check_folder(out, resume=resume)
        if resume and self.folder is not None:
            found = read_description(self.folder)
            facts, self.task = found["facts"], self.task.resumed(found)
        self.epochs = config.epochs
        refuse_indivisible(self.ranks, config)
        self.device, self.threads = device_of(self.ranks, device), threads_of(self.ranks, threads)
        if self.device.type == "cpu":
            keep_freed_memory()
        self.seed, self.interrupt, first = seed, Interrupt(), self.ranks.first
        self.listeners = Listeners(quiet or not first, callback if first else None, self.folder)
        self.split = splits.split(events, self.task, seed=seed)
        self._compare_ranks(events, resume)
        self.events = encode(events, config, self.split, self.folder if resume else None)
        self.negatives = validation_negatives(self.events, self.split, seed)
        if not config.draws_negatives and self.events.negative is not None:
            name = systems.name_of(config)
            warnings.warn(f"{name} draws no negatives in training; those of the links are for tests only", stacklevel=2)
        self._build(facts or (self._chosen_facts() if chooses and not resume else None) or {})
        self.checkpoints = Checkpoints(self.folder, self.system, self.optimizer, writes=first)
        self.state = State(best=self._weights())
        if resume:
            restored = self.checkpoints.restore(config, self.events, self._description()) if first else None
            self.state = self._broadcast_state(restored) or self.state

    def _compare_ranks(self, events: Events, resume: bool) -> None:
        """Refuse ranks with different input, before they do anything together."""
        if self.ranks.several:
            facts = {"the links": digest_of_links(events), "the split": self.split.digest, "the seed": self.seed}
            facts |= {"the task": self.task, "the system": systems.name_of(self.config)}
            facts |= {"the device type": self.device.type, "resume": resume}
            facts |= {f"the setting {name}": value for name, value in self.config.to_dict().items()}
            compare(self.ranks, facts)

    def _broadcast_state(self, state: State | None) -> State | None:
        """The state that rank 0 has restored, with its weights and moments."""
        if not self.ranks.several:
            return state
        held = as_arrays(self._weights()), as_arrays(moments(self.optimizer))
        numbers = None if state is None else (state.numbers(), state.log, as_arrays(state.best))
        found, weights, optimizer_moments = self.ranks.broadcast((numbers, *held))
        self._load(weights)
        load_moments(self.optimizer, optimizer_moments)
        if found is None:
            return None
        best = {name: torch.from_numpy(value).to(self.device) for name, value in found[2].items()}
        return State(**found[0], log=found[1], best=best)

    def _load(self, weights: dict[str, Any]) -> None:
        self.system.module.load_state_dict({name: torch.from_numpy(value) for name, value in weights.items()})

    def _chosen_facts(self) -> dict[str, Any] | None:
        """The facts of the alternative that does best on validation links after a short training.

        None if the system or its settings leave nothing to compare, or if the training is too short for a comparison.
        """
        train = self.events[self.split.train]
        found = self.config.alternatives(train)
        if found is None:
            return None
        names, trials = list(found.facts), {}
        steps = found.steps or trial_steps(-(-len(train) // self.config.batch_size) * self.epochs, len(names))
        if steps == 0:
            self._say(f"{found.what}: {names[0]} (the training is too short for a comparison)")
            return None
        self._say(f"comparing {found.what} ({', '.join(names)}): {len(names)} short training runs of {steps} steps ...")
        try:
            for number, name in enumerate(names):
                done, total = number * steps, len(names) * steps
                trial = _Alternative(self, found.config, found.facts[name])
                most = min(steps, trial.num_steps * self.epochs)  # a trial is never longer than the training
                trials[name] = trial.trial(most, self.listeners.part("comparing", done, total))
        finally:
            self.listeners.close()
        chosen = choose_alternative(trials)
        aps = ", ".join(f"{name} {metrics.average_precision(*scores):.4f}" for name, scores in trials.items())
        why = "no clear difference, so " if chosen == names[0] else ""
        self._say(f"{found.what}: {why}{chosen} (AP after a short training: {aps})")
        return found.facts[chosen]

    def _say(self, text: str) -> None:
        self.listeners(Progress("message", text=text))

    def _build(self, facts: dict[str, Any]) -> None:
        """A new system for the training links of the split, and its optimizer."""
        seed = self.seed
        self.visible = self.events[self.split.visible]
        self.training = replace(training_links(self.events, self.split, self.config, seed), ranks=self.ranks)
        torch.manual_seed(seed_for(seed, "weights"))
        given = self.config, self.visible, seed, self.device, self.threads, self.training, facts
        self.context = Context(*given, self.ranks)
        with memory_to("training", self.config):
            self.system = systems.build(systems.name_of(self.config), self.context)
            share_index(self.ranks, self.system, self.visible)
        if self.ranks.several:
            self._load(self.ranks.broadcast(as_arrays(self._weights())))
        self.num_steps = getattr(self.system, "steps_per_epoch", self.training.steps_per_epoch)
        self.links_per_step = len(self.training.positions) / max(self.num_steps, 1)
        self.optimizer = Optimizer(self.system.module, self.config, self.num_steps, self.ranks)
        self._seconds: list[float] = []  # of each epoch since training began or was resumed

    def _weights(self) -> dict[str, Tensor]:
        return {name: value.clone() for name, value in self.system.module.state_dict().items()}

    def _description(self) -> dict[str, Any]:
        return describe(self.context, self.events, self.split)

    def fit(self) -> Run:
        """Train to the end, restore the best weights, and evaluate them and the baselines on the test links.

        If the task asks for it, then train new weights on all links, for the number of epochs that was best.
        """
        with self._trained():
            with memory_to("testing", self.config, scoring=True):
                run = self._test()
            return Refit(self).fit_all(run) if self.task.refit else run

    def fit_untested(self) -> list[dict[str, Any]]:
        """Train to the end without a test; returns the loss and the validation metrics of each epoch."""
        with self._trained():
            return self.state.log

    @contextmanager
    def _trained(self) -> Iterator[None]:
        """Trains to the end; listeners and the run folder are open within."""
        reset_peak_memory(self.device)
        begun = self.state.epoch > 0 or self.state.step > 0
        self.checkpoints.open(self.config, self.events, self._description(), begun=begun)
        try:
            if self._finished():
                self._say("training has already ended")
            self._run_epochs()
            yield
        except RankError as error:
            if error.explained:
                raise
            raise RankError(f"{error}{how_to_resume(self.folder)}") from error
        finally:
            self.listeners.close()
            self.checkpoints.close()

    def _run_epochs(self) -> None:
        with self.interrupt, memory_to("training", self.config):
            while not self._finished():
                self._epoch()

    def trial(self, steps: int, report: Report = lambda _: None) -> tuple[Any, Any]:
        """Logits of some validation links and their negatives after so many steps; `report` is called after each."""
        with self.interrupt, memory_to("training", self.config):
            updates = chain.from_iterable(self.steps(epoch, 0) for epoch in count())
            for step, _ in enumerate(islice(updates, steps), start=1):
                report(step)
                if self._asked_to_stop():
                    raise Interrupted
        return self._validate(slice(0, TRIAL_LINKS))

    def steps(self, epoch: int, first: int) -> Iterator[Tensor]:
        """Run the steps of an epoch from step `first`; yields the loss of each."""
        updates, module = self.system.updates(epoch, first, self.optimizer), self.system.module
        for step in range(first, self.num_steps):
            if not module.training:  # a scorer leaves it in evaluation mode
                module.train()
            seed_step(self.device, self.training.seed_for("dropout", epoch, step, *self._dropout_seed_suffix))
            loss = next(updates, None)
            if loss is None:
                return
            if loss.requires_grad:
                self.optimizer.set_learning_rate(self.optimizer.learning_rate(epoch, step))
                self.optimizer.minimise(loss)
                loss = self.optimizer.whole_loss(loss)
            yield loss.detach()

    @property
    def _dropout_seed_suffix(self) -> tuple[int, ...]:
        """What makes the dropout of this rank differ from that of the others, if it is drawn for its own rows."""
        alike = self.ranks.first or getattr(self.system, "same_dropout", True)
        return () if alike else (self.ranks.rank,)

    def _asked_to_stop(self) -> bool:
        """Whether a rank was interrupted; all ranks find out after the same step."""
        bucket, interrupt = self.optimizer.bucket, self.interrupt
        if bucket is None:
            return interrupt.asked
        if interrupt.asked:
            bucket.ask_to_stop()
        return bucket.asked(patience=WAIT.total_seconds(), hurried=lambda: interrupt.asked)

    def _epoch(self) -> None:
        """One pass over the training links, then validation. If interrupted, writes a checkpoint."""
        state, start, first = self.state, time.perf_counter(), self.state.step
        now = Progress("training", first, self.num_steps, state.epoch + 1, self.epochs, refit=self._refitting)
        try:
            self._pass(now, first, start)
            steps = state.step - first
            rate = steps * self.links_per_step / (time.perf_counter() - start)
            row = self._end_epoch()
        except Interrupted:
            self._add_cost(start)
            self.checkpoints.save(state)
            self._say(self._stop_message(now) + how_to_resume(self.folder))
            raise Stopped from None
        except RankError as error:
            self._add_cost(start)
            raise self._checkpoint_after_loss(error, now) from error
        self._add_cost(start)
        if steps > 0:  # an epoch may be resumed after its last step
            self._seconds.append((time.perf_counter() - start) * self.num_steps / steps)
        best, left = state.best_epoch == state.epoch - 1, None if self._finished() else self._seconds_left()
        now = replace(now, stage="epoch", done=now.total, loss=row["loss"], links_per_second=rate, seconds_left=left)
        self.listeners(replace(now, metrics=row, best=best))
        self.checkpoints.save(state)

    def _stop_message(self, now: Progress) -> str:
        return f"stopped in {'refit ' * now.refit}epoch {now.epoch}/{now.epochs}, step {self.state.step}"

    def _checkpoint_after_loss(self, error: RankError, now: Progress) -> RankError:
        """Write a checkpoint after the last step that was completed, and say so."""
        writes = self.checkpoints.take_over()
        if writes:
            with self._side_stream():
                self.checkpoints.save(self.state)
        found = RankError(f"{one_line(str(error))}; {self._stop_message(now)}{how_to_resume(self.folder)}")
        found.explained, found.printed = True, writes
        return found

    def _side_stream(self) -> AbstractContextManager[object]:
        """Copies from a GPU within do not wait for the current stream, which may wait for a rank that has ended."""
        bucket = self.optimizer.bucket
        if bucket is None or not bucket.captured:
            return nullcontext()
        return torch.cuda.stream(torch.cuda.Stream(self.device))  # type: ignore[no-untyped-call]

    def _pass(self, now: Progress, first: int, start: float) -> None:
        """The steps of an epoch from step `first`, reported a few times a second."""
        state, before, next_report = self.state, self.state.loss, 0.0
        reading: AbstractContextManager[object] = nullcontext()
        total = torch.zeros((), dtype=torch.float64, device=self.device)  # read rarely: it blocks until the GPU is done
        try:
            for step, loss in enumerate(self.steps(state.epoch, first), start=first + 1):
                total += loss
                state.step = step
                if self.listeners.all and (time.perf_counter() > next_report or step == self.num_steps):
                    next_report = time.perf_counter() + REPORT_INTERVAL
                    mean, speed = (before + float(total)) / step, (step - first) / (time.perf_counter() - start)
                    left = ((now.epochs - state.epoch) * self.num_steps - step) / speed
                    now = replace(now, links_per_second=speed * self.links_per_step, seconds_left=left)
                    self.listeners(replace(now, done=step, loss=mean))
                if self._asked_to_stop():
                    raise Interrupted
        except RankError:
            if self.optimizer.bucket is not None:
                state.step -= self.optimizer.bucket.unfinished()
            reading = self._side_stream()
            raise
        finally:
            with reading:
                state.loss = before + float(total)
            state.step_seconds += time.perf_counter() - start

    def _end_epoch(self) -> dict[str, Any]:
        """Validate, keep the weights if they are the best, and move on to the next epoch."""
        state, logits = self.state, self._validate(slice(None))
        auc, ap = metrics.auc(*logits), metrics.average_precision(*logits)
        if ap > state.best_ap:
            state.best_ap, state.best_epoch, state.best = ap, state.epoch, self._weights()
        row = {"epoch": state.epoch + 1, "loss": state.loss / max(state.step, 1), "val_auc": auc, "val_ap": ap}
        state.log.append(row)
        state.epoch, state.step, state.loss = state.epoch + 1, 0, 0.0
        return row

    def _add_cost(self, start: float) -> None:
        """Add the time since `start`, and the memory used until now."""
        self.state.seconds += time.perf_counter() - start
        self.state.peak_memory = max(self.state.peak_memory, peak_memory(self.device) or 0)

    def _cost(self, pairs_per_second: float) -> dict[str, Any]:
        """The cost of training, summed over all parts of a resumed run."""
        state, parameters = self.state, self.system.module.parameters()
        links = state.epoch * len(self.training.positions) if self.num_steps > 0 else 0
        return {
            "seconds": state.seconds,
            "seconds_per_epoch": state.seconds / max(state.epoch, 1),
            "links_per_second": links / state.step_seconds if links > 0 and state.step_seconds > 0 else None,
            "pairs_per_second": pairs_per_second,
            "peak_memory": state.peak_memory or None,
            "weights": sum(parameter.numel() for parameter in parameters),
        }

    def _validate(self, part: slice) -> tuple[Any, Any]:
        return self._score_validation(self.system.scorer(self.visible), part)

    def _score_validation(self, scorer: Scorer, part: slice) -> tuple[Any, Any]:
        links, events = self.split.val[part], self.events
        scorer = shared(scorer, self.ranks)
        return score_contrast(scorer, events.src[links], events.dst[links], self.negatives[part], events.t[links])

    def _finished(self) -> bool:
        stale = self.state.epoch - 1 - self.state.best_epoch
        return self.state.epoch >= self.epochs or (self.state.epoch > 0 and stale >= self.config.patience)

    def _seconds_left(self) -> float | None:
        """Time until the last epoch, if training does not stop earlier."""
        if not self._seconds:
            return None
        return (self.epochs - self.state.epoch) * sum(self._seconds) / len(self._seconds)

    def _test(self) -> Run:
        """Evaluate the best weights on the test links, and write what a predictor needs."""
        state, split = self.state, self.split
        self.system.module.load_state_dict(state.best)
        self._say(f"testing the weights of epoch {state.best_epoch + 1} ...")
        scorer = self.system.scorer(self.visible)
        self._score_validation(scorer, slice(0, 1))  # compiles, and brings a state to the end of the training links
        start = time.perf_counter()
        validation = self._score_validation(scorer, slice(None))
        cost = self._cost(2 * len(split.val) / (time.perf_counter() - start))
        share_index(self.ranks, self.system, self.events)
        run = finish(self.context, self.system, self.events, split, validation, self.listeners.stage)
        run.report["cost"] = cost
        self.checkpoints.finish(self.events, state, run.report, run.results)
        record = Record(self._description(), run.report, run.results, state.metrics)
        return replace(run, epochs=state.log, folder=self.folder, record=record)


class _Part(Trainer):
    """A training of its own with the data, ranks and listeners of another one."""

    def __init__(self, trainer: Trainer, **changes: Any) -> None:
        vars(self).update(vars(trainer) | {"interrupt": Interrupt()} | changes)


class _Alternative(_Part):
    """A short training of one of the alternatives of a system."""

    def __init__(self, trainer: Trainer, config: Settings, facts: dict[str, Any]) -> None:
        super().__init__(trainer, config=config)
        self._build(facts)


class Refit(_Part):
    """Trains a new system on all links for the number of epochs that was best, without validation."""

    _refitting = True

    def __init__(self, trainer: Trainer) -> None:
        whole = splits.whole(trainer.events, trainer.split)
        super().__init__(trainer, epochs=trainer.state.best_epoch + 1, split=whole)
        self._build(dict(trainer.context.facts))
        self.checkpoints = trainer.checkpoints.for_refit(self.system, self.optimizer)
        found = self.checkpoints.read() if self.ranks.first else None
        self.state = self._broadcast_state(found) or State()

    def fit_all(self, run: Run) -> Run:
        """The run with the new weights, which predictors use; its results are those of the evaluated weights."""
        self._say(f"training on all {len(self.events):,} links ...")
        self._run_epochs()
        cost = {"epochs": self.epochs, "links": len(self.training.positions), "seconds": self.state.seconds}
        evaluated = as_arrays(run.system.module.state_dict())
        calibration = run.calibration.closed_until(self.events.t[-1].item())
        report = run.report | {"refit": cost, "calibration": run.report["calibration"] | calibration.to_dict()}
        report = self.checkpoints.serve(report, as_arrays(self._weights()))
        record, scorer = replace(run.record, report=report, evaluated=evaluated), self.system.scorer(self.events)
        return replace(run, system=self.system, scorer=scorer, calibration=calibration, report=report, record=record)

    def _end_epoch(self) -> dict[str, Any]:
        state = self.state
        row = {"epoch": state.epoch + 1, "loss": state.loss / max(state.step, 1)}
        state.log.append(row)
        state.epoch, state.step, state.loss = state.epoch + 1, 0, 0.0
        return row

    def _finished(self) -> bool:
        return self.state.epoch >= self.epochs
