"""Trainings side by side, each in a folder of its own: finished ones are skipped, and interrupted ones continue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cawn import systems
from cawn.data.events import Events
from cawn.devices import Device
from cawn.errors import CawnError, QueryError
from cawn.learn import ranks
from cawn.learn.experiments import train
from cawn.learn.reporting import Listener, Progress, fraction_done
from cawn.learn.results import Results
from cawn.learn.runs import read_config, read_record
from cawn.learn.shared_links import read_links, share_links
from cawn.learn.task import Task
from cawn.studies.jobs import Job, Outcome, Send, threads_of_each
from cawn.studies.study import Display, Study
from cawn.systems.settings import Settings


@dataclass(frozen=True)
class PlannedRun:
    """One of several trainings."""

    task: Task
    seed: int
    config: Settings
    folder: Path

    @property
    def system(self) -> str:
        """The name of the system."""
        return systems.name_of(self.config)

    def __str__(self) -> str:
        return f"{self.system}, {self.task.nodes}, seed {self.seed}"

    def job(self, links: str | Events, options: dict[str, Any]) -> Job:
        """The call that trains the system, or resumes its run, and reports its progress.

        Args:
            links: The links, or a file of them for another process, see `share_links`.
            options: Further arguments of `train`.
        """
        remedy = f"lower {self.config.to_lower()}, or run fewer jobs"
        arguments = self, systems.entry(self.system), links, options
        return Job(str(self), train_planned, arguments, remedy, self.folder.with_name(f"{self.folder.name}.error.txt"))


@dataclass(frozen=True)
class Trained:
    """What a finished run has recorded."""

    results: Results
    report: dict[str, Any]
    metrics: str  # lines of JSON, one per epoch


def train_planned(
    planned: PlannedRun, entry: systems.Entry, links: str | Events, options: dict[str, Any], send: Send
) -> Trained:
    """Train one system, or resume its run; see `PlannedRun.job`."""
    systems.register(planned.system, entry)
    events = read_links(links) if isinstance(links, str) else links
    begun = (planned.folder / "run.json").exists()
    options = options | {"task": planned.task, "seed": planned.seed, "out": planned.folder, "resume": begun}
    run = train(events, planned.config, callback=send, **options)
    return Trained(run.results, run.report, run.record.metrics)


@dataclass
class Trainings:
    """Several trainings on one network, and their results so far.

    Args:
        folder: A folder with those of the runs in it.
        jobs: The number of processes to start; 0 trains one after the other in this one.
        quiet: Whether each training prints nothing.
        again: What to do to continue after Ctrl-C.
        callback: Called with the progress of each.
    """

    events: Events
    folder: Path
    planned: list[PlannedRun]
    display: Display
    again: str
    jobs: int = 0
    device: Device = "auto"
    threads: int | None = None
    quiet: bool = True
    callback: Listener | None = None
    finished: dict[PlannedRun, Trained] = field(default_factory=dict)
    failed: dict[PlannedRun, str] = field(default_factory=dict)

    def run(self, line: Callable[[Trained], str], ended: Callable[[], object] = lambda: None) -> None:
        """Make those that are not finished. `line` describes one for people; `ended` is called after each."""
        count = min(self.jobs, len(self.planned))
        threads = threads_of_each(count, self.threads)
        options = {"device": self.device, "threads": threads, "quiet": self.quiet}

        def end(run: PlannedRun, outcome: Outcome) -> str:
            if outcome.failure is None:
                self.finished[run] = outcome.value
            else:
                self.failed[run] = outcome.failure
            ended()
            return f"{run}: {outcome.failure or line(outcome.value)}"

        def report(run: PlannedRun, now: Progress, stop: Callable[[], object]) -> float | None:
            if self.callback is not None:
                self.callback(now)
            return fraction_done(now)

        with TemporaryDirectory(prefix="cawn-") as temporary, self.display:
            links = self.events if count == 0 else share_links(temporary, "links", self.events)
            if ranks.join(self.device).several:  # which train each run together
                self._together(options)
            else:
                study = Study[PlannedRun](self.folder, self.display, count, threads, self.again)
                parts = ((f"{run.task.nodes}-{run.system}-{run.seed}", run) for run in self.planned)
                study.run(parts, lambda run: self._job(run, links, options), end, report)
        self.finished = {run: self.finished[run] for run in self.planned if run in self.finished}

    def _together(self, options: dict[str, Any]) -> None:
        for run in self.planned:
            send = self.callback or (lambda _: None)
            self.finished[run] = train_planned(run, systems.entry(run.system), self.events, options, send)

    def _job(self, run: PlannedRun, links: str | Events, options: dict[str, Any]) -> Job | None:
        """The job of a run that needs training: it is neither finished, nor is there one that cannot be resumed."""
        if (run.folder / "run.json").exists():
            try:
                written = read_config(run.folder)
                if written != run.config:
                    names = [name for name, value in run.config.to_dict().items() if getattr(written, name) != value]
                    raise QueryError(f"was started with different settings ({', '.join(names)}); remove {run.folder}")
                record, _ = read_record(run.folder)
            except CawnError as error:
                self.failed[run] = str(error)
                self.display.message(f"{run}: {error}")
                return None
            if record.finished and record.results is not None:
                self.finished[run] = Trained(record.results, record.report, record.metrics)
                return None
        return run.job(links, options)
