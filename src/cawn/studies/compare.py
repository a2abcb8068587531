"""Train several systems with several seeds on one network, and compare their accuracy and cost.

Every run has a folder of its own, so a comparison that was stopped or killed can be resumed: finished runs are skipped,
and interrupted ones continue exactly where they stopped. Any number of processes may work on one folder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

from cawn import systems as registry
from cawn.checks import check_choice, check_flags, check_integer, check_path, check_seed, check_threads, check_type
from cawn.data.events import Events
from cawn.devices import Device, check_device, pick_device
from cawn.errors import CawnError, QueryError, brief
from cawn.learn.clocks import Clock
from cawn.learn.negatives import check_kinds
from cawn.learn.plots import can_draw
from cawn.learn.protocols import check_protocol
from cawn.learn.reporting import format_duration
from cawn.learn.runs import digest_of_links, read_config, read_record
from cawn.learn.shared_links import share_links
from cawn.learn.splits import Task, TimeSplit
from cawn.learn.splits import split as split_events
from cawn.studies.jobs import Job, Outcome, default_jobs, threads_of_each
from cawn.studies.planned import PlannedRun
from cawn.studies.plot import MISSING, draw
from cawn.studies.study import Display, Study, join
from cawn.studies.tables import Comparison, Finished, main_metric, summarise
from cawn.systems.settings import Settings

FILE = "sweep.json"  # describes a comparison
ALL = "all"
BASELINE = "rates"  # always part of a comparison: its runs also evaluate the untrained baselines


def compare(
    events: Events,
    systems: str | Sequence[str] = ALL,
    *,
    seeds: int | Sequence[int] = 3,
    tasks: Task | Sequence[Task] = "transductive",
    out: str | os.PathLike[str] | None = None,
    preset: str = "default",
    settings: Mapping[str, Mapping[str, Any]] | None = None,
    device: Device = "auto",
    jobs: int | None = None,
    threads: int | None = None,
    split: TimeSplit | None = None,
    kinds: tuple[str, ...] | None = None,
    protocol: str = "strict",
    clock: str = "strict",
    quiet: bool = False,
) -> Comparison:
    """Train systems with several seeds each, and compare their accuracy and cost with each other and with baselines.

    A system that fails, for example because memory runs out, is reported in `failed`; the others continue.

    Args:
        events: The network.
        systems: Names, see `cawn systems`; "all" means all trained systems. The system "rates", which takes seconds,
            and the untrained baselines are always included.
        seeds: The number of seeds, starting at 0; or a list of seeds.
        tasks: "transductive", "inductive", or both in a list.
        out: A folder for comparison.md, comparison.json and comparison.svg (if matplotlib is installed), and for the
            runs: TASK/SYSTEM/seed-N. If it contains a comparison on the same links, this is resumed. By default
            everything is written to a temporary folder and removed.
        preset: The preset of the systems that have one with this name; the others use their defaults.
        settings: Settings by system that differ from its preset; those under "all" apply to every system
            that has them.
        device: "auto" is the GPU if there is one.
        jobs: Number of parallel runs, each in a process of its own; 0 trains one after the other in this process. By
            default one per core (on a GPU, at most 4), or 0 without `out`.
        threads: CPU threads of each run; by default the cores are divided evenly.
        split: Where training ends and the test begins; see `train`.
        kinds: The kinds of negatives to evaluate against; by default those of the protocol.
        protocol: "strict", "tgb", "dyglib" or "paper"; see `train`.
        clock: Which earlier links a test link may use; see `train`.
        quiet: Print nothing.
    """
    configs = plan(systems, preset, settings or {})
    order = check_seeds(seeds)
    each_task: tuple[Task, ...] = (tasks,) if isinstance(tasks, str) else tuple(tasks)
    for task in each_task:
        check_choice(task, "tasks", get_args(Task))
    check_type(events, "events", Events, "give cawn.Events, or read them with cawn.read")
    check_kinds(kinds)
    check_flags(quiet=quiet)
    check_threads(threads)
    check_device(device)
    Clock(clock)
    protocol = check_protocol(protocol)
    place = pick_device(device)
    if jobs is None:
        jobs = 0 if out is None else default_jobs(place)
    check_integer(jobs, "jobs", 0)
    cuts = None if split is None else split.on(events)
    for task in each_task:
        split_events(
            events, task, seed=order[0], by=cuts, protocol=protocol
        )  # raises DataError if there are too few links
    options = {"device": str(place), "threads": threads, "split": cuts, "kinds": kinds}
    options |= {"protocol": protocol, "clock": clock}
    with TemporaryDirectory() as temporary:
        folder = Path(temporary) if out is None else check_path(out, "out")
        planned = [
            PlannedRun(name, task, seed, configs[name], folder / task / name / f"seed-{seed}", name == BASELINE)
            for seed in order
            for task in each_task
            for name in configs
        ]
        return _Comparing(events, folder, planned, options, int(jobs), quiet).run()


def plan(systems: Any, preset: str, settings: Mapping[str, Mapping[str, Any]]) -> dict[str, Settings]:
    """The settings of each system to compare. Raises QueryError if something does not exist; needs no links."""
    chosen = _check_systems(systems)
    _refuse_unknown(preset, settings, chosen)
    return {name: _config(name, preset, settings) for name in chosen}


def _check_systems(given: Any) -> list[str]:
    """The names of the systems to compare, the baseline first."""
    if isinstance(given, str):
        given = [given]
    if not isinstance(given, Sequence) or not given:
        raise QueryError(f"systems is {brief(given)}: give a list of names, or 'all'")
    if ALL in given:
        trained = [name for name in registry.names() if registry.entry(name).trained]
        given = [*trained, *(name for name in given if name != ALL)]
    for name in given:
        registry.check_system(name)
    return list(dict.fromkeys([BASELINE, *given]))


def check_seeds(given: Any) -> list[int]:
    """The seeds that are meant by their number, starting at 0, or by a list of distinct ones."""
    if isinstance(given, Sequence) and not isinstance(given, str | bytes) and given:
        for seed in given:
            check_seed(seed)
        return list(dict.fromkeys(int(seed) for seed in given))
    check_integer(given, "seeds", 1)
    return list(range(int(given)))


def _config(name: str, preset: str, settings: Mapping[str, Mapping[str, Any]]) -> Settings:
    kind = registry.settings_type(name)
    default = kind.preset(preset if preset in kind.PRESETS else "default")
    shared = {key: value for key, value in settings.get(ALL, {}).items() if key in default.to_dict()}
    try:
        return default.with_(**shared | dict(settings.get(name, {})))
    except QueryError as error:
        raise QueryError(f"{name}: {error}") from error


def _refuse_unknown(preset: str, settings: Mapping[str, Mapping[str, Any]], chosen: list[str]) -> None:
    """Refuse settings of systems that do not exist, and a preset or settings that no system has."""
    presets = dict.fromkeys(name for system in chosen for name in registry.settings_type(system).PRESETS)
    if not isinstance(preset, str) or preset not in presets:
        raise QueryError(f"preset is {brief(preset)}: the compared systems have {', '.join(presets)}")
    for name in settings:
        if name != ALL:
            registry.check_system(name)
    known = {key for name in chosen for key in registry.settings_type(name).__dataclass_fields__}
    if unknown := [key for key in settings.get(ALL, {}) if key not in known]:
        raise QueryError(f"setting {brief(unknown[0])}: none of the compared systems has it")


@dataclass
class _Comparing:
    """The runs of a comparison and their results so far."""

    events: Events
    folder: Path
    planned: list[PlannedRun]
    options: dict[str, Any]
    jobs: int
    quiet: bool

    def __post_init__(self) -> None:
        self.finished: dict[PlannedRun, Finished] = {}
        self.failed: dict[PlannedRun, str] = {}

    def run(self) -> Comparison:
        self._join()
        display = self._display = Display("comparing", len(self.planned), "run", quiet=self.quiet)
        with TemporaryDirectory(prefix="cawn-") as temporary, display:
            self._links = share_links(temporary, "links", self.events)
            count = min(self.jobs, len(self.planned))
            self._threads = threads_of_each(count, self.options["threads"])
            again = "to continue, compare again with the same folder"
            study = Study[PlannedRun](self.folder, display, count, self._threads, again)
            parts = ((f"{run.task}-{run.system}-{run.seed}", run) for run in self.planned)
            study.run(parts, self._job, self._ended, lambda run, share, stop: share)
        found = self._summary()
        if self.finished and not can_draw():
            display.message(MISSING)
        draw(found, self.folder / "comparison.svg")
        return found

    def _join(self) -> None:
        """Create the folder, or check that it contains a comparison on the same links."""
        split = self.options["split"]
        described = {
            "links": len(self.events),
            "contents": digest_of_links(self.events),
            "split": None if split is None else split.to_dict(),
            "protocol": self.options["protocol"],
            "clock": self.options["clock"],
        }
        join(self.folder, FILE, described, "comparison")

    def _job(self, run: PlannedRun) -> Job | None:
        """The job of a run that needs training: it is neither finished, nor is there one that cannot be resumed."""
        if (run.folder / "run.json").exists():
            try:
                written = read_config(run.folder)
                if written != run.config:
                    names = [name for name, value in run.config.to_dict().items() if getattr(written, name) != value]
                    raise QueryError(f"was started with different settings ({', '.join(names)}); remove {run.folder}")
                if self._collect(run):
                    return None
            except CawnError as error:
                self.failed[run] = str(error)
                self._display.message(f"{run}: {error}")
                return None
        return run.job(self._links, self.options | {"threads": self._threads})

    def _collect(self, run: PlannedRun) -> bool:
        """Read the results of a run, if it is finished."""
        record, _ = read_record(run.folder)
        if not record.finished or record.results is None:
            return False
        self.finished[run] = Finished(record.results, record.report, record.metrics)
        return True

    def _ended(self, run: PlannedRun, outcome: Outcome) -> str:
        failure = outcome.failure
        if failure is None and not self._collect(run):
            failure = "ended without a result"
        if failure is not None:
            self.failed[run] = failure
        self._summary()  # so that a killed comparison leaves a table
        return f"{run}: {failure or self._figures(self.finished[run])}"

    def _figures(self, found: Finished) -> str:
        rows = [row for row in found.results if row["links"] == found.main]
        figures = ", ".join(f"{row['negatives']} {main_metric(row['model']):.4f}" for row in rows)
        cost = found.report.get("cost") or {}
        metric = "AP" if "ap" in rows[0]["model"] else "MRR"
        return f"{metric} {figures}; {format_duration(cost.get('seconds', 0))}"

    def _summary(self) -> Comparison:
        """The comparison of the runs so far; also written to files."""
        finished = {run: self.finished[run] for run in self.planned if run in self.finished}  # in whichever order
        found = summarise(self.events, finished, self.failed, self.options, self.jobs)
        if self.finished:
            found.write(self.folder)
        return found
