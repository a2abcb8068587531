"""A run of a comparison, which is trained in a process of its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cawn import systems
from cawn.learn.experiments import train
from cawn.learn.reporting import as_fraction
from cawn.learn.shared_links import read_links
from cawn.learn.splits import Task
from cawn.studies.jobs import Job, Send
from cawn.systems.settings import Settings


@dataclass(frozen=True)
class PlannedRun:
    """One run of a comparison."""

    system: str
    task: Task
    seed: int
    config: Settings
    folder: Path
    baselines: bool  # whether to evaluate the untrained baselines as well

    def __str__(self) -> str:
        return f"{self.system}, {self.task}, seed {self.seed}"

    def job(self, links: str, options: dict[str, Any]) -> Job:
        """The call that trains the system, or resumes its run, and reports the completed fraction.

        Args:
            links: A file written by `write_links`.
            options: Further arguments of `train`.
        """
        remedy = f"lower {self.config.to_lower()}, or run fewer jobs"
        arguments = self, systems.entry(self.system), links, options
        return Job(str(self), train_planned, arguments, remedy, self.folder.with_name(f"{self.folder.name}.error.txt"))


def train_planned(planned: PlannedRun, entry: systems.Entry, links: str, options: dict[str, Any], send: Send) -> None:
    """Train one system, or resume its run; see `PlannedRun.job`."""
    systems.register(planned.system, entry)
    train(
        read_links(links),
        planned.config,
        task=planned.task,
        seed=planned.seed,
        out=planned.folder,
        resume=(planned.folder / "run.json").exists(),
        quiet=True,
        callback=as_fraction(send),
        baselines=planned.baselines,
        **options,
    )
