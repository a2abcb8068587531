"""The most common measurement: train a system and evaluate it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from cawn import systems
from cawn.data.events import Events
from cawn.learn.clocks import Clock
from cawn.learn.reporting import Listener, Progress, fraction_done
from cawn.learn.task import Task as Asked
from cawn.paper.measurements import Measurement, Task
from cawn.studies.jobs import Send
from cawn.systems.settings import Settings

_METRICS = ("auc", "ap", "auc_batch30", "ap_batch30")
KINDS_OF_NEGATIVES = ("random", "historical", "inductive")


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


def described(config: Settings) -> dict[str, Any]:
    """A system and its settings, as settings of a measurement; the inverse of `config_of`."""
    values = {name: list(value) if isinstance(value, tuple) else value for name, value in config.to_dict().items()}
    return {"system": systems.name_of(config), "config": values}


def config_of(settings: Mapping[str, Any]) -> Settings:
    """The settings of the system that a measurement trains."""
    return systems.settings_type(settings["system"]).from_dict(settings["config"])


def events_of(task: Task) -> Events:
    """The links to train on, with simultaneous links put in row order if the measurement has ties="rows"."""
    events = task.events()
    return Clock("event").on(events) if task.settings["ties"] == "rows" else events


def task_of(settings: Mapping[str, Any]) -> Asked:
    """What a measurement asks of its system; tested with the first of its clocks."""
    return Asked(
        nodes=settings["task"],
        protocol=settings["protocol"],
        clock=settings["clocks"][0],
        negatives=tuple(settings["negatives"]),
        baselines=settings["baselines"],
    )


def options_of(task: Task, send: Send) -> dict[str, Any]:
    """The options of `train` and `Trainer` that all measurements share: an interrupted training is resumed."""
    return {
        "task": task_of(task.settings),
        "seed": task.settings["seed"],
        "out": task.folder,
        "device": task.device,
        "threads": task.threads,
        "resume": (task.folder / "run.json").exists(),
        "quiet": True,
        "callback": reporter(send),
    }


def measure(task: Task, send: Send) -> dict[str, Any]:
    """Train, or resume, and evaluate with every clock. Reports the fraction done and the validation AP of epochs."""
    from cawn.learn.experiments import evaluate, train

    settings = task.settings
    other_clocks = settings["clocks"][1:]
    run = train(events_of(task), config_of(settings), **options_of(task, send))
    rows = list(run.results.tests)
    options: dict[str, Any] = {"device": task.device, "threads": task.threads, "baselines": settings["baselines"]}
    for other in other_clocks:
        rows += evaluate(task.folder, negatives=tuple(settings["negatives"]), clock=other, **options).tests
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
    return {name: round(metrics[name], 6) for name in _METRICS}


def reporter(send: Send) -> Listener:
    """A callback for training that reports {"done": fraction} and {"epoch": k, "val_ap": value}."""

    def listen(now: Progress) -> None:
        if (done := fraction_done(now)) is not None:
            send({"done": done})
        if now.stage == "epoch" and now.metrics is not None:
            send({"epoch": now.epoch, "val_ap": now.metrics["val_ap"]})

    return listen
