"""Measurements: the units of work of all experiments, each identified by everything that its result depends on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from cawn import __version__, systems
from cawn.data.events import Events
from cawn.learn.clocks import Clock
from cawn.learn.reporting import Progress, fraction_done
from cawn.learn.shared_links import read_links
from cawn.learn.task import Task
from cawn.studies.jobs import Send
from cawn.systems.settings import Settings

METRICS = ("auc", "ap", "auc_batch30", "ap_batch30")
KINDS_OF_NEGATIVES = ("random", "historical", "inductive")
TASKS = ("transductive", "inductive")
# The function that makes each kind of measurement, called with a `Work` and a `Send`; returns JSON-compatible values.
KINDS = {
    "complexity": "cawn.paper.complexity:measure",
    "shapes": "cawn.paper.shapes:measure",
    "statistics": "cawn.paper.networks:measure",
    "training": "cawn.paper.measurements:train_and_test",
    "ties": "cawn.paper.clocks:measure_ties",
    "transfer": "cawn.paper.transfer:measure",
}


@dataclass(frozen=True)
class Measurement:
    """What to measure on a network. A measurement that several experiments need is made once."""

    network: str
    kind: str  # a key of `KINDS`
    settings: Mapping[str, Any]  # JSON-compatible
    label: str  # its role in tables and plots, unique in its network

    def __str__(self) -> str:
        return f"{self.network}, {self.label}"

    @property
    def networks(self) -> tuple[str, ...]:
        """The networks that it needs: its own, and those named in the setting "others"."""
        return self.network, *self.settings.get("others", ())

    def key(self, digests: Mapping[str, str]) -> str:
        """A hash of everything the result depends on, given the digests of the networks."""
        depends = {
            "cawn": __version__,
            "kind": self.kind,
            "links": [digests[name] for name in self.networks],
            "settings": dict(self.settings),
        }
        return hashlib.blake2b(json.dumps(depends, sort_keys=True).encode(), digest_size=8).hexdigest()


@dataclass(frozen=True)
class Work:
    """A measurement, as passed to the process that makes it."""

    network: str
    settings: dict[str, Any]
    links: dict[str, str]  # files of links by network, see `read_links`
    device: str
    threads: int | None
    folder: Path  # of this measurement alone; kept if it is interrupted, otherwise removed at its end

    def events(self, network: str | None = None) -> Events:
        """The links of its network, or of another that it needs."""
        return read_links(self.links[network or self.network])


def measure(kind: str, work: Work, send: Send) -> Any:
    """Make a measurement; every job of a sweep calls this function."""
    module, _, name = KINDS[kind].partition(":")
    return getattr(import_module(module), name)(work, send)


# Training, the most common measurement


def training(
    network: str,
    config: Settings,
    *,
    task: str,
    seed: int,
    label: str,
    negatives: tuple[str, ...] = ("random",),
    clocks: tuple[str, ...] = ("strict",),
    ties: str = "strict",
    baselines: bool = False,
    protocol: str = "strict",
) -> Measurement:
    """A training run as a measurement.

    Args:
        label: Name of the variant, as in the tables.
        negatives: Kinds of negatives to evaluate against.
        clocks: Clocks of the evaluation; see `cawn.learn.clocks`.
        ties: "strict", or "rows" to train and evaluate as if simultaneous links came one after another, in the order
            of their rows.
        baselines: Whether to evaluate the untrained baselines as well.
    """
    settings = {
        **described(config),
        "task": task,
        "seed": seed,
        "protocol": protocol,
        "negatives": list(negatives),
        "clocks": list(clocks),
        "ties": ties,
        "baselines": baselines,
    }
    return Measurement(network, "training", settings, f"{label}, {task}, seed {seed}")


def inductive(network: str, config: Settings, seed: int, label: str) -> Measurement:
    """A training run on the inductive task, evaluated as in table2, so that equal runs of both are made once."""
    return training(network, config, task="inductive", seed=seed, label=label, negatives=KINDS_OF_NEGATIVES)


def described(config: Settings) -> dict[str, Any]:
    """A system and its settings, as settings of a measurement; the inverse of `config_of`."""
    values = {name: list(value) if isinstance(value, tuple) else value for name, value in config.to_dict().items()}
    return {"system": systems.name_of(config), "config": values}


def config_of(settings: Mapping[str, Any]) -> Settings:
    """The settings of the system that a measurement trains."""
    return systems.settings_type(settings["system"]).from_dict(settings["config"])


def options_of(work: Work, send: Send) -> dict[str, Any]:
    """The options of `train` that all measurements share: an interrupted training is resumed."""
    settings = work.settings
    task = Task(
        nodes=settings["task"],
        protocol=settings["protocol"],
        clock=settings["clocks"][0],
        negatives=tuple(settings["negatives"]),
        baselines=settings["baselines"],
    )

    def listen(now: Progress) -> None:
        if (done := fraction_done(now)) is not None:
            send({"done": done})

    resume = (work.folder / "run.json").exists()
    where: dict[str, Any] = {"out": work.folder, "device": work.device, "threads": work.threads, "resume": resume}
    return where | {"task": task, "seed": settings["seed"], "quiet": True, "callback": listen}


def train_and_test(work: Work, send: Send) -> dict[str, Any]:
    """Train, or resume, and evaluate with every clock. Reports the fraction done."""
    from cawn.learn.experiments import evaluate, train

    settings, events = work.settings, work.events()
    if settings["ties"] == "rows":
        events = Clock("event").on(events)
    run = train(events, config_of(settings), **options_of(work, send))
    rows = list(run.results.tests)
    tested: dict[str, Any] = {"negatives": tuple(settings["negatives"]), "baselines": settings["baselines"]}
    for clock in settings["clocks"][1:]:
        rows += evaluate(work.folder, clock=clock, device=work.device, threads=work.threads, **tested).tests
    validation = [round(row["val_ap"], 6) for row in run.epochs]
    return {
        "rows": [_row(row) for row in rows],
        "validation": validation,
        "epochs": len(validation),
        "best_epoch": 1 + validation.index(max(validation)) if validation else 0,
        "cost": run.report["cost"],
        "facts": {name: value for name, value in run.facts.items() if name in ("alpha", "unit", "snapshots", "decay")},
        "device": run.report["versions"]["device"],
    }


def _row(row: dict[str, Any]) -> dict[str, Any]:
    """The part of a row of results.json that the tables need."""
    found = {name: row[name] for name in ("links", "negatives", "clock", "count", "split", "digest")}
    found |= _rounded(row["model"])
    if "mrr" in row["model"]:
        found["mrr"] = round(row["model"]["mrr"], 6)
    if row["baselines"]:
        found["baselines"] = {name: _rounded(metrics) for name, metrics in row["baselines"].items()}
    return found


def _rounded(metrics: dict[str, float]) -> dict[str, float]:
    return {name: round(metrics[name], 6) for name in METRICS}
