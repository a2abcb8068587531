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
from cawn.data.hashing import read_sealed, write_sealed
from cawn.errors import QueryError, StorageError
from cawn.files import LOCK, FileLock, is_temporary, make_folder
from cawn.learn.experiments import check_writable
from cawn.learn.run_info import current_versions
from cawn.learn.runs import digest_of_links
from cawn.learn.splits import Task, TimeSplit
from cawn.learn.tuning.journal import import_optuna
from cawn.learn.tuning.space import Space, parse_space
from cawn.systems.settings import Settings

FORMAT = 1
METRICS = {"ap": "AP", "auc": "AUC", "mrr": "MRR", "hits@10": "Hits@10"}
FILE, JOURNAL = "study.json", "study.journal"
_NAMES = {"contents": "links", "config": "settings", "cuts": "split", "seed": "seed of the sampler"}


@dataclass(frozen=True)
class Plan:
    """A study: settings to start from, the space to search, and how trials are measured."""

    config: Settings  # of the first trial; settings that are not searched keep its values
    space: Space
    metric: str
    seeds: tuple[int, ...]  # of split, negatives and weights: a run each
    seed: int  # of the sampler
    task: Task
    cuts: TimeSplit | None
    protocol: str
    clock: str

    @property
    def system(self) -> str:
        """The name of the system."""
        return systems.name_of(self.config)

    @property
    def metric_name(self) -> str:
        """The metric, for people to read."""
        return METRICS[self.metric]

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of `Trainer` that all runs share."""
        return {"task": self.task, "split": self.cuts, "protocol": self.protocol, "clock": self.clock}

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
            "task": self.task,
            "cuts": None if self.cuts is None else self.cuts.to_dict(),
            "protocol": self.protocol,
            "clock": self.clock,
        }
        plain: dict[str, Any] = json.loads(json.dumps(described))
        return plain

    @classmethod
    def from_dict(cls, found: dict[str, Any]) -> Plan:
        """The inverse of `to_dict`."""
        config = systems.settings_type(found["system"]).from_dict(found["config"])
        return cls(
            config,
            parse_space(found["space"], config),
            found["metric"],
            tuple(found["seeds"]),
            found["seed"],
            found["task"],
            None if found["cuts"] is None else TimeSplit.from_dict(found["cuts"]),
            found["protocol"],
            found["clock"],
        )


def join(folder: Path, plan: Plan, events: Events) -> list[str]:
    """Create the folder of a study, or check that the study in it is the same one.

    Returns a line for each version that differs from the one the study was begun with.
    """
    described = plan.describe(events)
    check_writable(folder)
    refuse_foreign(folder)
    make_folder(folder)
    with FileLock(folder / LOCK):
        refuse_foreign(folder)
        if not (folder / FILE).exists():
            write_sealed(folder / FILE, described)
            return []
        found = read_study(folder)
    if other := [key for key in described if key != "versions" and found.get(key) != described[key]]:
        raise QueryError(f"{folder}: holds a study that differs in {_difference(other[0], found, described)}")
    began = found["versions"]
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


def _difference(key: str, found: dict[str, Any], mine: dict[str, Any]) -> str:
    """What differs, with both values where they are short."""
    before, now = found.get(key), mine[key]
    name = _NAMES.get(key, key)
    if key == "config" and isinstance(before, dict):
        setting = next(setting for setting in {**before, **now} if before.get(setting) != now.get(setting))
        name, before, now = setting, before.get(setting), now.get(setting)
    if key == "space" and isinstance(before, dict):
        parameter = next((each for each in {**before, **now} if before.get(each) != now.get(each)), "the order")
        return f"its space ({parameter}); give the same, or choose another folder"
    if key == "contents":
        return "its links; give the same data, or choose another folder"
    return f"{name} ({json.dumps(before)} there, {json.dumps(now)} here); give the same, or choose another folder"


def refuse_foreign(folder: Path) -> None:
    """Refuse a folder that is not empty and holds no study."""
    if folder.exists() and not folder.is_dir():
        raise QueryError(f"{folder}: is not a folder; choose another name")
    if not folder.is_dir() or (folder / FILE).exists():
        return
    if foreign := sorted(path.name for path in folder.iterdir() if path.name != LOCK and not is_temporary(path.name)):
        raise QueryError(
            f"{folder}: is not empty (it holds {foreign[0]!r}) and is not a study folder; choose a new or empty folder"
        )
