"""Train several systems with several seeds on one network, and compare their accuracy and cost.

Every run has a folder of its own, so a comparison that was stopped or killed can be resumed: finished runs are skipped,
and interrupted ones continue exactly where they stopped. Any number of processes may work on one folder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cawn import systems as registry
from cawn.checks import check_flags, check_integer, check_path, check_seeds, check_threads, check_type
from cawn.data.events import Events
from cawn.devices import Device, check_device, pick_device
from cawn.errors import QueryError, brief
from cawn.learn.plots import can_draw
from cawn.learn.reporting import format_duration
from cawn.learn.results import METRICS, main_metric
from cawn.learn.runs import digest_of_links
from cawn.learn.splits import split
from cawn.learn.task import Nodes, Task, TimeSplit
from cawn.studies.jobs import default_jobs
from cawn.studies.plot import MISSING, draw
from cawn.studies.study import Display, join
from cawn.studies.tables import Comparison, summarise
from cawn.studies.trainings import PlannedRun, Trained, Trainings
from cawn.systems.settings import Settings

FILE = "sweep.json"  # describes a comparison
ALL = "all"
BASELINE = "rates"  # always part of a comparison: its runs also evaluate the untrained baselines


def compare(
    events: Events,
    systems: Settings | str | Sequence[Settings | str] = ALL,
    *,
    task: Task | Nodes | Sequence[Task | Nodes] = "transductive",
    seeds: int | Sequence[int] = 3,
    out: str | os.PathLike[str] | None = None,
    jobs: int | None = None,
    device: Device = "auto",
    threads: int | None = None,
    quiet: bool = False,
) -> Comparison:
    """Train systems with several seeds each, and compare their accuracy and cost with each other and with baselines.

    A system that fails, for example because memory runs out, is reported in `failed`; the others continue.

    Args:
        events: The network.
        systems: Settings of the systems, or their names for their default settings, see `cawn systems`; "all" means all
            trained systems. The system "rates", which takes seconds, and the untrained baselines are always included.
        task: See `train`; also "transductive" and "inductive" in a list, or two tasks that differ in these alone.
        seeds: The number of seeds, starting at 0; or a list of seeds.
        out: A folder for comparison.md, comparison.json and comparison.svg (if matplotlib is installed), and for the
            runs: TASK/SYSTEM/seed-N. If it contains a comparison on the same links, this is resumed. By default
            everything is written to a temporary folder and removed.
        jobs: Number of parallel runs, each in a process of its own; 0 trains one after the other in this process. By
            default one per core (on a GPU, at most 4), or 0 without `out`.
        device: "auto" is the GPU if there is one.
        threads: CPU threads of each run; by default the cores are divided evenly.
        quiet: Print nothing.
    """
    check_type(events, "events", Events, "give cawn.Events, or read them with cawn.read")
    configs, order, tasks = _configs(systems), check_seeds(seeds), _tasks(task)
    check_flags(quiet=quiet)
    check_threads(threads)
    check_device(device)
    place = pick_device(device)
    if jobs is None:
        jobs = 0 if out is None else default_jobs(place)
    check_integer(jobs, "jobs", 0)
    tasks = [split(events, each, seed=order[0]).task for each in tasks]  # raises DataError if there are too few links
    with TemporaryDirectory() as temporary:
        folder = Path(temporary) if out is None else check_path(out, "out")
        planned = [
            PlannedRun(
                replace(each, baselines=each.baselines and name == BASELINE),
                seed,
                config,
                folder / each.nodes / name / f"seed-{seed}",
            )
            for seed in order
            for each in tasks
            for name, config in configs.items()
        ]
        _join(folder, events, tasks[0])
        display = Display("comparing", len(planned), "run", quiet=quiet)
        again = "to continue, compare again with the same folder"
        trainings = Trainings(events, folder, planned, display, again, int(jobs), str(place), threads)
        return _compared(trainings)


def _compared(trainings: Trainings) -> Comparison:
    """Make the trainings, and write their comparison as far as they are made."""

    def summary() -> Comparison:
        found = summarise(trainings)
        if trainings.finished:
            found.write(trainings.folder)
        return found

    trainings.run(figures, summary)
    found = summary()
    if trainings.finished and not can_draw():
        trainings.display.message(MISSING)
    draw(found, trainings.folder / "comparison.svg")
    return found


def figures(found: Trained) -> str:
    """The accuracy and the time of a run in a few words."""
    main = max(found.results, key=lambda row: row["count"])["links"]
    rows = found.results.where(links=main, baseline=False, metric=main_metric(found.results))
    values = ", ".join(f"{row['negatives']} {row['value']:.4f}" for row in rows)
    cost = found.report.get("cost") or {}
    return f"{METRICS[rows[0]['metric']]} {values}; {format_duration(cost.get('seconds', 0))}"


def _join(folder: Path, events: Events, task: Task) -> None:
    """Create the folder, or check that it contains a comparison on the same links."""
    described = {
        "links": len(events),
        "contents": digest_of_links(events),
        "split": None if task.split == TimeSplit() else task.split.to_dict(),
        "protocol": task.protocol,
        "clock": task.clock,
    }
    join(folder, FILE, described, "comparison")


def _tasks(given: Any) -> list[Task]:
    """The tasks, which differ only in their nodes."""
    each = list(given) if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    tasks = [Task.of(one) for one in each]
    alike = {replace(one, nodes="transductive") for one in tasks}
    if len(alike) != 1 or len({one.nodes for one in tasks}) < len(tasks):
        raise QueryError("task is a list: give two tasks that differ only in their nodes, transductive and inductive")
    return tasks


def _configs(given: Any) -> dict[str, Settings]:
    """The settings of each system to compare, the baseline first."""
    listed = [given] if isinstance(given, str | Settings) else given
    if not isinstance(listed, Sequence):
        raise QueryError(f"systems is {brief(given)}: give a list of names or settings, or 'all'")
    configs: dict[str, Settings] = {}
    for config in (each for each in listed if isinstance(each, Settings)):
        if configs.setdefault(registry.name_of(config), config) != config:
            raise QueryError(f"systems has two settings of {registry.name_of(config)}: compare them in two calls")
    names = [registry.name_of(each) if isinstance(each, Settings) else each for each in listed]
    return {name: configs.get(name) or registry.settings_type(name)() for name in _check_systems(names)}


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
