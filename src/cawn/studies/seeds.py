"""The same training with several seeds."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cawn.checks import check_flags, check_integer, check_path, check_seeds, check_type
from cawn.data.events import Events
from cawn.devices import Device
from cawn.errors import QueryError
from cawn.files import refuse_foreign, write_text
from cawn.learn.arguments import check_folder, settings_for
from cawn.learn.ranks import is_first
from cawn.learn.reporting import Listener
from cawn.learn.results import Results
from cawn.learn.task import Nodes, Task
from cawn.studies.compare import figures
from cawn.studies.study import CLAIMS, Display
from cawn.studies.trainings import PlannedRun, Trained, Trainings
from cawn.systems.settings import Settings

_AGAIN = "to continue, train again with resume=True (--resume)"


@dataclass(frozen=True)
class Seeds:
    """The runs of `train_seeds`, by seed."""

    runs: dict[int, Trained] = field(repr=False)

    @property
    def results(self) -> Results:
        """The results of all runs; `results.pivot()` is a table of means with their 95 % intervals."""
        return Results.of(run.results for run in self.runs.values())

    def to_list(self) -> list[dict[str, Any]]:
        """The means over seeds as JSON-compatible values."""
        return self.results.where(baseline=False).mean_rows()


def train_seeds(
    events: Events,
    config: Settings | str | None = None,
    *,
    task: Task | Nodes = "transductive",
    seeds: int | Sequence[int] = 3,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    jobs: int = 0,
    device: Device = "auto",
    threads: int | None = None,
    quiet: bool = False,
    callback: Listener | None = None,
) -> Seeds:
    """Train one run per seed (of split, negatives, weights and walks).

    Args:
        seeds: The number of seeds, starting at 0; or a list of seeds.
        out: A folder for summary.json and for the runs, each of which has a folder named after its seed. By default
            everything is written to a temporary folder and removed.
        resume: Continue the runs in `out`: finished ones are skipped, and those of further seeds are added.
        jobs: Number of parallel runs, each in a process of its own; 0 trains one after the other in this process.
        callback: Called with the progress of each run, which has its folder.

    See `train` for the others.
    """
    check_type(events, "events", Events, "give cawn.Events, or read them with cawn.read")
    config, task, order = settings_for(config), Task.of(task), check_seeds(seeds)
    check_flags(resume=resume, quiet=quiet)
    check_integer(jobs, "jobs", 0)
    if out is not None and is_first():
        _refuse_other(check_path(out, "out"))
    with TemporaryDirectory() as temporary:
        folder = Path(temporary) if out is None else check_path(out, "out")
        planned = [PlannedRun(task, seed, config, folder / f"seed-{seed}") for seed in order]
        for run in planned:
            if is_first():
                check_folder(run.folder, resume=resume)
        display = Display("training", None if jobs == 0 else len(order), "run", quiet=quiet)
        how: dict[str, Any] = {"device": device, "threads": threads, "quiet": quiet or jobs > 0, "callback": callback}
        trainings = Trainings(events, folder, planned, display, _AGAIN, jobs, **how)
        trainings.run(figures)
        for run, reason in trainings.failed.items():
            raise QueryError(f"{run}: {reason}")
        found = Seeds({run.seed: made for run, made in trainings.finished.items()})
        if is_first():
            write_text(folder / "summary.json", json.dumps(found.to_list(), indent=1) + "\n")
    return found


def _refuse_other(folder: Path) -> None:
    """Refuse a folder that holds anything but the runs of several seeds, their summary and their claims."""
    begun = folder.is_dir() and any(folder.glob("seed-*"))
    ours = rf"seed-[0-9]+(\.error\.txt)?|{re.escape(CLAIMS)}" + r"|summary\.json" * begun
    refuse_foreign(folder, lambda path: re.fullmatch(ours, path.name))
