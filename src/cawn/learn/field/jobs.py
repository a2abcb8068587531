"""The runs of a comparison, each of which is a call to a worker process; see `cawn.learn.workers`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cawn import systems
from cawn.files import make_folder, write_text
from cawn.learn.reporting import Listener, Progress
from cawn.learn.splits import Task, TimeSplit
from cawn.learn.workers import Call, Outcome, Send, read_links
from cawn.systems.settings import Settings

_TESTING = 0.05  # share of a run that is not training, for progress


@dataclass(frozen=True)
class Job:
    """One run of a comparison."""

    system: str
    task: Task
    seed: int
    config: Settings
    folder: Path
    baselines: bool  # whether to evaluate the untrained baselines as well

    def __str__(self) -> str:
        return f"{self.system}, {self.task}, seed {self.seed}"

    @property
    def traceback(self) -> Path:
        """Where the traceback of an unexpected error is written."""
        return self.folder.with_name(f"{self.folder.name}.error.txt")

    def call(self, links: str, options: dict[str, Any]) -> Call:
        """The call that trains the system, or resumes its run, and reports the completed fraction.

        Args:
            links: A file written by `write_links`.
            options: Further arguments of `train`.
        """
        split = options["split"]
        described = {
            "system": self.system,
            "entry": list(systems.entry(self.system)),
            "task": self.task,
            "seed": self.seed,
            "config": self.config.to_dict(),
            "folder": str(self.folder.absolute()),
            "baselines": self.baselines,
            "options": options | {"split": None if split is None else split.to_dict()},
            "links": links,
        }
        remedy = f"lower {self.config.to_lower()}, or run fewer jobs"
        return Call(str(self), f"{__name__}:train_job", described, remedy)

    def failure(self, outcome: Outcome) -> str | None:
        """Why the run failed, in one line; the traceback of an unexpected error is written to a file."""
        self.traceback.unlink(missing_ok=True)
        if outcome.failure is None or not outcome.errors:
            return outcome.failure
        make_folder(self.folder.parent)
        write_text(self.traceback, outcome.errors + "\n")
        return f"{outcome.failure} (see {self.traceback})"


def train_job(job: dict[str, Any], send: Send) -> None:
    """Train one system, or resume its run; see `Job.call`."""
    from cawn.learn.experiments import train

    systems.register(job["system"], systems.Entry(*job["entry"]))
    options, split, kinds = job["options"], job["options"]["split"], job["options"]["kinds"]
    folder = Path(job["folder"])
    train(
        read_links(Path(job["links"])),
        systems.settings_type(job["system"]).from_dict(job["config"]),
        task=job["task"],
        seed=job["seed"],
        out=folder,
        resume=(folder / "run.json").exists(),
        quiet=True,
        callback=as_fraction(send),
        baselines=job["baselines"],
        split=None if split is None else TimeSplit.from_dict(split),
        kinds=None if kinds is None else tuple(kinds),
        **{name: value for name, value in options.items() if name not in ("split", "kinds")},
    )


def as_fraction(report: Callable[[float], object]) -> Listener:
    """A callback for training that reports the fraction of a run that is done."""

    def listen(now: Progress) -> None:
        if now.stage in ("training", "epoch"):
            epochs = now.epoch - 1 + now.done / max(now.total, 1)
            report((1 - _TESTING) * epochs / max(now.epochs, 1))
        elif now.stage == "testing":
            report(1 - _TESTING + _TESTING * now.done)

    return listen
