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
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cawn import systems
from cawn.checks import (
    check_choice,
    check_flags,
    check_integer,
    check_number,
    check_path,
    check_seed,
    check_seeds,
    check_threads,
    check_type,
)
from cawn.data.events import Events
from cawn.devices import Device, check_device, pick_device
from cawn.errors import QueryError
from cawn.interrupt import terminable
from cawn.learn import splits
from cawn.learn.arguments import settings_for
from cawn.learn.shared_links import read_links, share_links
from cawn.learn.task import Nodes, Task
from cawn.studies.jobs import Job, Outcome, Send, run, threads_of_each
from cawn.studies.study import POLL, Display, failure_of, refuse_other
from cawn.studies.tuning.journal import import_optuna
from cawn.studies.tuning.objective import Objective
from cawn.studies.tuning.outcome import Tuned, conclude
from cawn.studies.tuning.plan import FILE, METRICS, SearchPlan, join
from cawn.studies.tuning.report import write_report
from cawn.studies.tuning.space import Space, default_space, parse_space
from cawn.studies.tuning.trials import SharedStudy, ranking, where_stopped
from cawn.systems.settings import Settings


@dataclass(frozen=True)
class Search:
    """What `tune` searches, and how trials are measured.

    Args:
        space: The parameters to search, see `cawn.studies.tuning.space`; by default those of the system.
        metric: "ap", "auc", "mrr" or "hits@10", on validation links; the last two among 100 random destinations.
        seeds: The number of seeds of each trial, starting at 0; or a list of seeds. They are those of split, negatives
            and weights, as in `train_seeds`.
        seed: Of the sampler.
        timeout: Seconds after which no further trial is begun.
    """

    space: Mapping[str, Any] | Space | None = None
    metric: str = "ap"
    seeds: int | Sequence[int] = 3
    seed: int = 0
    timeout: float | None = None

    def __post_init__(self) -> None:
        check_choice(self.metric, "metric", tuple(METRICS))
        check_seeds(self.seeds)
        check_seed(self.seed)
        if self.timeout is not None:
            check_number(self.timeout, "timeout", "a number of seconds above 0", lambda seconds: seconds > 0)

    def space_for(self, config: Settings) -> Space:
        """The space, starting from these settings."""
        if isinstance(self.space, Space):
            return self.space
        return default_space(config) if self.space is None else parse_space(self.space, config)


def tune(
    events: Events,
    config: Settings | str | None = None,
    *,
    out: str | os.PathLike[str],
    trials: int = 50,
    search: Search | None = None,
    task: Task | Nodes = "transductive",
    jobs: int = 1,
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
        config: Settings to start from, or the name of a system for its default settings; those of CAW-N if not given.
        out: The folder of the study, which is created or joined.
        trials: The total number of trials, over all processes. It may be raised later.
        search: The settings to search, the metric and the seeds.
        task: See `train`.
        jobs: Number of processes to work with; 1 trains in this process.
        device: "auto" is the GPU if there is one.
        threads: CPU threads of each process; with several jobs, by default the cores are divided evenly.
        quiet: Print nothing.
    """
    check_type(events, "events", Events, "give cawn.Events, or read them with cawn.read")
    search = Search() if search is None else search
    check_type(search, "search", Search, "give a cawn.Search")
    config, task = settings_for(config), Task.of(task)
    check_flags(quiet=quiet)
    check_threads(threads)
    check_device(device)
    check_study(config, out=out, trials=trials, jobs=jobs)
    seeds = tuple(check_seeds(search.seeds))
    parts = [splits.split(events, task, seed=each) for each in seeds]  # raises DataError if there are too few links
    plan = SearchPlan(config, search.space_for(config), search.metric, seeds, search.seed, parts[0].task)
    place, timeout = str(pick_device(device)), search.timeout
    session = _Session(events, plan, check_path(out, "out"), int(trials), timeout, place, threads, int(jobs))
    return session.run(Display("tuning", session.total, "trial", quiet=quiet))


def check_study(config: Settings, *, out: str | os.PathLike[str], trials: int, jobs: int) -> None:
    """Refuse invalid arguments of `tune` that can be checked before any link is read."""
    import_optuna()
    refuse_other(check_path(out, "out"), FILE, "study")
    check_integer(trials, "trials", 1)
    check_integer(jobs, "jobs", 1)
    if not systems.entry(systems.name_of(config)).trained:
        raise QueryError(f"system {systems.name_of(config)} is not trained: there is nothing to tune")


@dataclass
class _Session:
    """The work of one call of `tune` on a study."""

    events: Events
    plan: SearchPlan
    folder: Path
    total: int
    timeout: float | None
    device: str
    threads: int | None
    jobs: int

    def run(self, display: Display) -> Tuned:
        for note in join(self.folder, self.plan, self.events):
            display.message(note)
        study = SharedStudy(self.folder, self.plan)
        objective = Objective(self.events, self.plan, self.device, self.threads)
        end = None if self.timeout is None else time.time() + self.timeout
        display.total = max(self.total, len(study.trials()))
        try:
            with display, terminable():
                display.skip(study.num_ended)
                show = partial(_show, study, display)
                if self.jobs == 1:
                    work(study, objective, self.total, end, show)
                else:
                    self._in_parallel(study, end, show)
                self._explain_missing(study, display)
                display.message("testing the first and the best trial")
                display.show("testing", 1.0)
                found = conclude(study, objective, display.bar)
        except KeyboardInterrupt:
            display.message(f"stopped; to continue, tune again with the same arguments and folder ({self.folder})")
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

    def _in_parallel(self, study: SharedStudy, end: float | None, show: Send) -> None:
        """Let several processes work on the study."""
        failures: list[str] = []

        def ended(job: Job, outcome: Outcome) -> None:
            if (failure := failure_of(job, outcome)) is not None:
                failures.append(failure)

        with TemporaryDirectory(prefix="cawn-") as temporary:
            links, entry = share_links(temporary, "links", self.events), systems.entry(self.plan.system)
            threads = threads_of_each(self.jobs, self.threads)
            given = self.folder.absolute(), self.plan, entry, links, self.device, threads, self.total, end
            remedy = f"lower {self.plan.config.to_lower()}, or run fewer jobs"
            errors = self.folder / "error.txt"
            planned = [Job(f"process {n}", work_here, given, remedy, errors) for n in range(self.jobs)]
            run(planned, self.jobs, ended, lambda job, value, stop: show(value), threads=threads)
        if failures and study.num_ended < self.total:
            raise QueryError(f"{failures[0]}; to continue, tune again with the same arguments and folder")


def _show(study: SharedStudy, display: Display, now: dict[str, Any]) -> None:
    """Show what `work` reports."""
    if "share" in now:
        display.share(now["trial"], now["share"])
    elif "waiting" in now:
        trials = "1 trial" if now["waiting"] == 1 else f"{now['waiting']} trials"
        display.message(f"waiting for {trials} of other processes")
    else:
        display.end(now["ended"], line_about(study, now["ended"]), study.num_ended)


def line_about(study: SharedStudy, number: int) -> str:
    """How a trial ended, and the best trial so far."""
    trials = study.trials()
    trial, best = trials[number], ranking(trials)
    if trial.state == "complete":
        what = f"{study.plan.metric_name} {trial.value:.4f}"
    elif trial.state == "pruned":
        what = f"pruned ({where_stopped(study.plan, trial)})"
    else:
        what = f"failed: {trial.reason}"
    return f"trial {number}: {what}" + (f"; best {best[0].value:.4f} (trial {best[0].number})" if best else "")


def work_here(
    folder: Path,
    plan: SearchPlan,
    entry: systems.Entry,
    links: str,
    device: str,
    threads: int | None,
    total: int,
    end: float | None,
    send: Send,
) -> None:
    """Work on a study in another process."""
    systems.register(plan.system, entry)
    work(SharedStudy(folder, plan), Objective(read_links(links), plan, device, threads), total, end, send)


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
