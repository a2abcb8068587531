"""A study that several processes work on: which trials there are, which process runs each, and their results.

The trials are in an Optuna journal. A trial is added in one line with all its parameters, and belongs to the process
that has the lock on its folder. A running trial whose folder is not locked was left by a process that stopped or was
killed: the next process that finds it continues it.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from cawn.errors import QueryError, StorageError
from cawn.files import LOCK, FileLock, FolderInUseError, FolderLock, make_folder, storing, write_text
from cawn.kernels.rng import seed_for
from cawn.studies.tuning.journal import RESTORE, import_optuna, open_study, quiet_optuna
from cawn.studies.tuning.plan import JOURNAL, SearchPlan
from cawn.systems.settings import Settings

KEPT = 3  # trials whose weights are kept, in addition to the first
RANDOM_TRIALS = 8  # before the sampler learns from the results
FIRST_PRUNED = 4  # complete trials before any is pruned
MAX_CRASHES = 5  # processes that may die in the same epoch of a trial before it counts as failed
_DRAWS = 64  # attempts to draw settings that were not tried before
_CRASHES = "claims.json"
_STATES = {"RUNNING": "running", "COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed"}


@dataclass(frozen=True)
class Trial:
    """A trial of a study, as far as it is known."""

    number: int
    state: str  # "running", "complete", "pruned" or "failed"
    value: float | None  # of a pruned trial, the mean over its seeds when it was stopped; see `projected_value`
    parameters: dict[str, Any]  # as Optuna stores them
    config: Settings | None  # None if the parameters contradict each other
    seeds: dict[int, dict[str, Any]] = field(default_factory=dict)  # of each finished seed: value, epochs, seconds
    curve: dict[int, float] = field(default_factory=dict, repr=False)  # value by step
    reason: str = ""  # why it failed

    @property
    def seconds(self) -> float:
        """Training time of its finished seeds."""
        return float(sum(seed["seconds"] for seed in self.seeds.values()))


@dataclass(frozen=True)
class Claim:
    """A trial that this process runs, as long as it has the lock."""

    trial: Trial
    folder: Path
    lock: FolderLock


class SharedStudy:
    """The study in a folder."""

    def __init__(self, folder: Path, plan: SearchPlan) -> None:
        self.folder, self.plan = folder, plan
        optuna = import_optuna()
        with self._locked():
            self._study = open_study(
                folder / JOURNAL,
                "cawn tune",
                direction="maximize",
                sampler=optuna.samplers.RandomSampler(seed=0),  # not used: see `_propose`
                pruner=optuna.pruners.NopPruner(),  # see `report`
            )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Holds the lock, so that no other process adds, claims or removes trials."""
        with FileLock(self.folder / LOCK):
            yield

    def folder_of(self, number: int) -> Path:
        """The folder of a trial: a run folder for each seed."""
        return self.folder / "trials" / f"{number:04d}"

    def trials(self) -> list[Trial]:
        """All trials, in their order."""
        return [self._trial(found) for found in self._found()]

    @property
    def num_ended(self) -> int:
        """The number of trials that have ended, however they did."""
        return sum(found.state.is_finished() for found in self._found())

    def _found(self) -> list[Any]:
        found: list[Any] = self._study.get_trials(deepcopy=False)
        return found

    def _trial(self, found: Any) -> Trial:
        attributes, plan = found.user_attrs, self.plan
        known = {seed: attributes[f"seed {seed}"] for seed in plan.seeds if f"seed {seed}" in attributes}
        value = found.value if found.state.is_finished() and found.values is not None else None
        return Trial(
            found.number,
            _STATES[found.state.name],
            value,
            dict(found.params),
            self.config_of(found.number, found.params),
            known,
            dict(found.intermediate_values),
            attributes.get("reason", ""),
        )

    def config_of(self, number: int, parameters: dict[str, Any]) -> Settings | None:
        """The settings of a trial; the first one has those of the preset."""
        try:
            return self.plan.config.with_(**self.plan.space.changes(parameters)) if number > 0 else self.plan.config
        except QueryError:
            return None

    def claim(self, total: int) -> Claim | None:
        """A trial to run: one that was left by another process, or a new one while there are fewer than `total`.

        None if there is nothing left to begin; other processes may still be running trials.
        """
        with self._locked():
            found = self._found()
            if found and found[0].state.name == "FAIL":
                raise QueryError(
                    f"{self.folder}: its first trial, of the preset, failed: {self._trial(found[0]).reason}"
                )
            for each in found:
                if each.state.name == "RUNNING" and (claim := self._take(each.number)) is not None:
                    return claim
            if len(found) >= total:
                return None
            parameters = self._propose(found)
            if parameters is None:
                return None
            self._refuse_unknown(len(found))
            self._study.add_trial(self._new(parameters))
            return self._take(len(found))

    def _refuse_unknown(self, number: int) -> None:
        """Refuse to begin a trial in a folder of an earlier one. Folders are made after the lines of their trials."""
        folder = self.folder_of(number)
        if folder.exists():
            raise StorageError(f"{folder}: belongs to a trial that {JOURNAL} does not have; {RESTORE}")

    def _take(self, number: int) -> Claim | None:
        """Lock a trial, unless another process has it or has just ended it."""
        folder = self.folder_of(number)
        make_folder(folder)
        try:
            lock = FolderLock(folder)
        except FolderInUseError:
            return None
        found = self._found()[number]  # as its last process left it
        if found.state.name != "RUNNING":
            lock.release()
            return None
        if _count_crashes(folder, len(found.intermediate_values)) > MAX_CRASHES:
            self.fail(number, f"its process died {MAX_CRASHES + 1} times in the same epoch; perhaps memory ran out")
            lock.release()
            return None
        return Claim(self._trial(found), folder, lock)

    def _propose(self, found: list[Any]) -> dict[str, Any] | None:
        """Parameters that were not tried before; None if none are found.

        They depend only on the seed of the study and on the trials so far, so a process that was killed and started
        again proposes the same.
        """
        plan, number = self.plan, len(found)
        if number == 0:
            return plan.space.parameters_of(plan.config)
        optuna, tried = import_optuna(), [self.config_of(each.number, each.params) for each in found]
        for draw in range(_DRAWS):
            seed = seed_for(plan.seed, "trial", number, draw) % 2**32
            with quiet_optuna():
                if draw < _DRAWS // 8:
                    kind, options = (
                        optuna.samplers.TPESampler,
                        {"n_startup_trials": RANDOM_TRIALS, "multivariate": True},
                    )
                    sampler = kind(seed=seed, **options, group=True, constant_liar=True)
                else:  # the sampler keeps proposing what was tried already
                    sampler = optuna.samplers.RandomSampler(seed=seed)
                study = optuna.create_study(direction="maximize", sampler=sampler)
                study.add_trials(found)
                trial = study.ask()
                plan.space.suggest(trial, plan.config)
            if (config := self.config_of(number, trial.params)) is None or config not in tried:
                return dict(trial.params)
        return None

    def _new(self, parameters: dict[str, Any]) -> Any:
        optuna = import_optuna()
        searched = [each for each in self.plan.space if each.name in parameters]
        state = optuna.trial.TrialState.RUNNING
        with quiet_optuna():
            distributions = {each.name: each.distribution(optuna) for each in searched}
            return optuna.trial.create_trial(state=state, params=parameters, distributions=distributions)

    def _writable(self, number: int) -> Any:
        """A trial of Optuna, to be added to."""
        return import_optuna().trial.Trial(self._study, self._found()[number]._trial_id)

    def report(self, number: int, step: int, value: float) -> bool:
        """Record the value of a running trial at a step, once; returns whether the trial should be stopped.

        That is so if the value is below the median of the complete trials at the same step. Optuna's own pruner would
        compare the best value at any step, which after the first seed says little about the present one.
        """
        found = self._found()
        if step not in found[number].intermediate_values:
            self._writable(number).report(value, step)
        complete = [each.intermediate_values for each in found if each.state.name == "COMPLETE"]
        others = [values[step] for values in complete if step in values]
        enough = len(others) >= FIRST_PRUNED and step > self.plan.config.epochs // 3
        return number > 0 and enough and value < median(others)

    def remember(self, number: int, seed: int, result: dict[str, Any]) -> None:
        """Record the result of a seed of a running trial."""
        self._writable(number).set_user_attr(f"seed {seed}", result)

    def complete(self, number: int, value: float) -> None:
        """Record the value of a trial, which ends it."""
        self._study.tell(number, value)

    def prune(self, number: int) -> None:
        """Record that a trial was stopped early."""
        self._study.tell(number, state=import_optuna().trial.TrialState.PRUNED)

    def fail(self, number: int, reason: str) -> None:
        """Record why a trial has no value."""
        self._writable(number).set_user_attr("reason", reason)
        self._study.tell(number, state=import_optuna().trial.TrialState.FAIL)

    def remove_weights(self) -> None:
        """Remove the runs of all finished trials but the first and the best few."""
        with self._locked():
            trials = self.trials()
            kept = {trial.number for trial in ranking(trials)[:KEPT]} | {0}
            for trial in trials:
                folder = self.folder_of(trial.number)
                if trial.state == "running" or trial.number in kept or not folder.exists():
                    continue
                try:
                    with FolderLock(folder), storing(folder):
                        shutil.rmtree(folder)
                except FolderInUseError:
                    continue

    @contextmanager
    def reserved(self, trials: list[Trial]) -> Iterator[None]:
        """Locks the runs of these finished trials, so that no other process removes them."""
        locks = []
        try:
            for trial in trials:
                folder = self.folder_of(trial.number)
                make_folder(folder)
                locks.append(FolderLock(folder))
            yield
        finally:
            for lock in locks:
                lock.release()


def ranking(trials: list[Trial]) -> list[Trial]:
    """The complete trials, the best first; of equal ones, the earlier first."""
    complete = [trial for trial in trials if trial.state == "complete" and trial.value is not None]
    return sorted(complete, key=lambda trial: (-(trial.value or 0.0), trial.number))


def where_stopped(plan: SearchPlan, trial: Trial) -> str:
    """The seed and epoch at which a trial was pruned. Its value there is not comparable with those of other steps."""
    index, epoch = divmod(max(trial.curve) - 1, plan.config.epochs)
    return f"seed {plan.seeds[index]}, epoch {epoch + 1}"


def projected_value(trial: Trial, trials: list[Trial]) -> float | None:
    """The value of a trial or, of a pruned one, the median of the complete ones plus its distance from it when it was
    stopped."""
    if trial.state != "pruned" or trial.value is None:
        return trial.value
    complete, step = [each for each in trials if each.state == "complete"], max(trial.curve)
    known = [each.curve[step] for each in complete if step in each.curve]
    return trial.value - median(known) + median(each.value or 0.0 for each in complete) if known else None


def clear_crashes(folder: Path) -> None:
    """Note that the process that runs a trial has stopped in an orderly way."""
    (folder / _CRASHES).unlink(missing_ok=True)


def _count_crashes(folder: Path, steps: int) -> int:
    """Count a claim of a trial; returns how many claims before it ended without a further step or an orderly stop."""
    path = folder / _CRASHES
    try:
        before = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        before = {}
    count = before["claims"] if before.get("steps") == steps else 0
    write_text(path, json.dumps({"claims": count + 1, "steps": steps}))
    return int(count)
