"""What a study is about: its data, system, space, metric and seeds.

Stored in study.json with a checksum; every process that joins must use the same.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cawn import __version__, systems
from cawn.data.events import Events
from cawn.data.hashing import read_sealed
from cawn.errors import StorageError
from cawn.learn.run_info import current_versions
from cawn.learn.runs import digest_of_links
from cawn.learn.task import Task, TimeSplit
from cawn.studies import study as studies
from cawn.studies.tuning.journal import import_optuna
from cawn.studies.tuning.space import Space, parse_space
from cawn.systems.settings import Settings

FORMAT = 1
METRICS = {"ap": "AP", "auc": "AUC", "mrr": "MRR", "hits@10": "Hits@10"}
FILE, JOURNAL = "study.json", "study.journal"


@dataclass(frozen=True)
class SearchPlan:
    """A study: settings to start from, the space to search, and how trials are measured."""

    config: Settings  # of the first trial; settings that are not searched keep its values
    space: Space
    metric: str
    seeds: tuple[int, ...]  # of split, negatives and weights: a run each
    seed: int  # of the sampler
    task: Task

    @property
    def system(self) -> str:
        """The name of the system."""
        return systems.name_of(self.config)

    @property
    def metric_name(self) -> str:
        """The metric, for people to read."""
        return METRICS[self.metric]

    def describe(self, events: Events) -> dict[str, Any]:
        """The content of study.json."""
        about = {"format": FORMAT, "links": len(events), "contents": digest_of_links(events)}
        return about | self.to_dict() | {"versions": current_versions() | {"optuna": import_optuna().__version__}}

    def to_dict(self) -> dict[str, Any]:
        """As JSON-compatible values."""
        described = {
            "system": self.system,
            "config": self.config.to_dict(),
            "space": self.space.to_plain(),
            "metric": self.metric,
            "seeds": list(self.seeds),
            "seed": self.seed,
            "task": self.task.nodes,
            "cuts": None if self.task.split == TimeSplit() else self.task.split.to_dict(),
            "protocol": self.task.protocol,
            "clock": self.task.clock,
        }
        plain: dict[str, Any] = json.loads(json.dumps(described))
        return plain

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> SearchPlan:
        """The inverse of `to_dict`."""
        config = systems.settings_type(found["system"]).from_dict(found["config"])
        return cls(
            config,
            parse_space(found["space"], config),
            found["metric"],
            tuple(found["seeds"]),
            found["seed"],
            Task.recorded(found),
        )


def join(folder: Path, plan: SearchPlan, events: Events) -> list[str]:
    """Create the folder of a study, or check that the study in it is the same one.

    Returns a line for each version that differs from the one the study was begun with.
    """
    described = plan.describe(events)
    began = studies.join(folder, FILE, described, "study")["versions"]
    return [
        f"the study was begun with {name} {began.get(name)}, this is {version}; values may differ slightly"
        for name, version in described["versions"].items()
        if began.get(name) != version
    ]


def read_study(folder: Path) -> dict[str, Any]:
    """The content of study.json."""
    path = folder / FILE
    found = read_sealed(path, "choose another folder")
    if found.get("format") != FORMAT:
        raise StorageError(f"{path}: written by another version of cawn; this is {__version__}")
    return found
