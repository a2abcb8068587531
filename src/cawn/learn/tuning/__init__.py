"""Search for good settings of a system on one network, with Optuna.

A study is a folder. Any number of processes, also on machines that share the folder, may work on it at once; each may
be stopped or killed at any moment and started again with the same arguments. Trials are compared on validation links;
test links are used only at the end, for the preset and for the best settings.

study.json       what is searched, sealed: data, settings, space, metric, seeds
study.journal    the trials, a journal of Optuna
trials/N/        the runs of trial N, one for each seed: of the running trials, the first, and the best few
best/            the run folder of the best settings
best.toml        the best settings
trials.csv       a row for each trial
report.html, report.md and plots
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cawn import systems
from cawn.checks import check_choice, check_flags, check_integer, check_path, check_seed
from cawn.data.events import Events
from cawn.devices import Device, pick_device
from cawn.errors import QueryError, brief
from cawn.files import write_text
from cawn.learn import splits
from cawn.learn.arguments import check_training
from cawn.learn.clocks import Clock
from cawn.learn.experiments import settings_for
from cawn.learn.field import check_seeds
from cawn.learn.negatives import training_links
from cawn.learn.protocols import check_protocol
from cawn.learn.splits import Task, TimeSplit
from cawn.learn.tuning.display import Display
from cawn.learn.tuning.journal import import_optuna
from cawn.learn.tuning.objective import Objective
from cawn.learn.tuning.outcome import Tuned, conclude
from cawn.learn.tuning.plan import METRICS, Plan, join, refuse_foreign
from cawn.learn.tuning.report import write_report
from cawn.learn.tuning.space import Space, default_space, parse_space
from cawn.learn.tuning.study import SharedStudy
from cawn.learn.workers import Call, Outcome, Send, Workers, read_links
from cawn.systems.settings import Settings

POLL = 1.0  # seconds between looks at the trials of other processes


def tune(
    events: Events,
    config: Settings | None = None,
    *,
    out: str | os.PathLike[str],
    trials: int = 50,
    system: str | None = None,
    space: Mapping[str, Any] | Space | None = None,
    fixed: Collection[str] = (),
    metric: str = "ap",
    seeds: int | Sequence[int] = 3,
    seed: int = 0,
    timeout: float | None = None,
    jobs: int = 1,
    task: Task = "transductive",
    split: TimeSplit | None = None,
    protocol: str = "strict",
    clock: str = "strict",
    device: Device = "auto",
    threads: int | None = None,
    quiet: bool = False,
) -> Tuned:
    """Search for the settings of a system that do best on validation links, and train and test a model with them.

    The first trial has the given settings, so the result is never worse than these on validation links. The others are
    proposed by Optuna (TPE), trained with one seed after another, and stopped early if they are worse than the median
    of the complete trials at the same epoch of the same seed. Ctrl-C stops after writing a checkpoint; calling `tune`
    again with the same arguments continues, in any number of processes at once.

    With one process, the same seed gives the same trials, however often it was stopped or killed. With several, the
    proposals depend on which trials end first.

    Args:
        events: The network.
        config: Settings to start from; the preset "default" if not given.
        out: The folder of the study, which is created or joined.
        trials: The total number of trials, over all processes. It may be raised later.
        system: Name of the system; by default that of `config`, or CAW-N.
        space: The parameters to search, see `cawn.learn.tuning.space`; by default those of the system.
        fixed: Settings that the default space leaves out.
        metric: "ap", "auc", "mrr" or "hits@10", on validation links; the last two among 100 random destinations.
        seeds: The number of seeds of each trial, starting at 0; or a list of seeds. They are those of split, negatives
            and weights, as in `train_seeds`.
        seed: Of the sampler.
        timeout: Seconds after which no further trial is begun.
        jobs: Number of processes to work with; 1 trains in this process.
        task: See `train`; likewise `split`, `protocol` and `clock`.
        device: "auto" is the GPU if there is one.
        threads: CPU threads of each process; with several jobs, by default the cores are divided evenly.
        quiet: Print nothing.
    """
    config = settings_for(config, system)
    check_training(events, config, task, 0, out, device, threads, split, None)
    check_flags(quiet=quiet)
    check_study(config, out=out, trials=trials, metric=metric, seeds=seeds, seed=seed, timeout=timeout, jobs=jobs)
    chosen = space if isinstance(space, Space) else _space(space, config, fixed)
    cuts = None if split is None else split.on(events)
    protocol, clock = check_protocol(protocol), Clock(clock).name
    plan = Plan(config, chosen, metric, tuple(check_seeds(seeds)), seed, task, cuts, protocol, clock)
    for each in plan.seeds:  # raises DataError if the network cannot be split or has no links to train on
        parts = splits.split(events, task, seed=each, by=cuts, protocol=protocol)
        training_links(events, parts, config, each)
    place = str(pick_device(device))
    return _Session(events, plan, check_path(out, "out"), int(trials), timeout, place, threads, int(jobs), quiet).run()


def check_study(
    config: Settings,
    *,
    out: str | os.PathLike[str],
    trials: int,
    metric: str,
    seeds: int | Sequence[int],
    seed: int,
    timeout: float | None,
    jobs: int,
) -> None:
    """Refuse invalid arguments of `tune` that can be checked before any link is read."""
    import_optuna()
    refuse_foreign(check_path(out, "out"))
    check_integer(trials, "trials", 1)
    check_integer(jobs, "jobs", 1)
    check_seed(seed)
    check_seeds(seeds)
    check_choice(metric, "metric", tuple(METRICS))
    if timeout is not None and not timeout > 0:
        raise QueryError(f"timeout is {brief(timeout)}: give a number of seconds above 0")
    if not systems.entry(systems.name_of(config)).trained:
        raise QueryError(f"system {systems.name_of(config)} is not trained: there is nothing to tune")


def _space(given: Mapping[str, Any] | None, config: Settings, fixed: Collection[str]) -> Space:
    return default_space(config, fixed) if given is None else parse_space(given, config, fixed)


@dataclass
class _Session:
    """The work of one call of `tune` on a study."""

    events: Events
    plan: Plan
    folder: Path
    total: int
    timeout: float | None
    device: str
    threads: int | None
    jobs: int
    quiet: bool

    def run(self) -> Tuned:
        for note in join(self.folder, self.plan, self.events):
            self._say(note)
        study = SharedStudy(self.folder, self.plan)
        objective = Objective(self.events, self.plan, self.device, self.threads)
        end = None if self.timeout is None else time.time() + self.timeout
        try:
            with Display(study, self.total, quiet=self.quiet) as display:
                if self.jobs == 1:
                    work(study, objective, self.total, end, display)
                else:
                    self._in_parallel(study, end, display)
                self._explain_missing(study, display)
                display.begin("testing the first and the best trial")
                found = conclude(study, objective, display.testing)
        except KeyboardInterrupt:
            self._say(f"stopped; to continue, tune again with the same arguments and folder ({self.folder})")
            raise
        write_report(found)
        return found

    def _explain_missing(self, study: SharedStudy, display: Display) -> None:
        """Say why there are fewer trials than were asked for."""
        found = study.trials()
        if len(found) < self.total and self.timeout is None:
            display.message(f"no further settings were found in the space: the study has {len(found)} trials")
        elif others := sum(trial.state == "running" for trial in found):
            display.message(f"{others} trials are not complete; the same command continues them")

    def _in_parallel(self, study: SharedStudy, end: float | None, display: Display) -> None:
        """Let several processes work on the study."""
        failures: list[Outcome] = []

        def ended(_: Call, outcome: Outcome) -> None:
            if outcome.failure is not None:
                failures.append(outcome)

        with Workers(self.jobs, self.threads) as workers:
            given = {
                "links": workers.share("links", self.events),
                "folder": str(self.folder.absolute()),
                "plan": self.plan.to_dict(),
                "entry": list(systems.entry(self.plan.system)),
                "total": self.total,
                "end": end,
                "device": self.device,
                "threads": workers.threads,
            }
            remedy = f"lower {self.plan.config.to_lower()}, or run fewer jobs"
            calls = [Call(f"process {n}", f"{__name__}:work_here", given, remedy) for n in range(self.jobs)]
            workers.run(calls, ended, lambda _, value: display(value))
        if failures and sum(trial.state != "running" for trial in study.trials()) < self.total:
            raise QueryError(
                f"{self._failure(failures[0])}; to continue, tune again with the same arguments and folder"
            )

    def _failure(self, outcome: Outcome) -> str:
        """Why a process failed, in one line; the traceback of an unexpected error is written to a file."""
        if not outcome.errors:
            return str(outcome.failure)
        write_text(self.folder / "error.txt", outcome.errors + "\n")
        return f"{outcome.failure} (see {self.folder / 'error.txt'})"

    def _say(self, text: str) -> None:
        if not self.quiet:
            print(text, file=sys.stderr, flush=True)


def work_here(given: dict[str, Any], send: Send) -> None:
    """Work on a study in a worker process; see `cawn.learn.workers`."""
    systems.register(given["plan"]["system"], systems.Entry(*given["entry"]))
    plan = Plan.from_dict(given["plan"])
    study = SharedStudy(Path(given["folder"]), plan)
    objective = Objective(read_links(Path(given["links"])), plan, given["device"], given["threads"])
    work(study, objective, given["total"], given["end"], send)


def work(study: SharedStudy, objective: Objective, total: int, end: float | None, send: Send) -> None:
    """Run trials until there are `total`, and wait for those of other processes, or continue them if these die.

    Args:
        end: The time, in seconds since 1970, after which no trial is begun and none is waited for.
        send: Called with {"trial": number, "share": fraction done}, with {"ended": number} at the end of each, and with
            {"waiting": number of trials} when only those of other processes are left.
    """
    waiting = 0
    while end is None or time.time() < end:
        claim = study.claim(total)
        if claim is None:
            others = sum(trial.state == "running" for trial in study.trials())
            if others == 0:
                return
            if others != waiting:
                send({"waiting": others})
            waiting = others
            time.sleep(POLL)
            continue
        number = claim.trial.number
        with claim.lock:
            objective.run(study, claim, _share(send, number))
        study.remove_weights()
        send({"ended": number})


def _share(send: Send, number: int) -> Callable[[float], object]:
    return lambda share: send({"trial": number, "share": share})
