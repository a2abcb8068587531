"""A summary of a run, read from its folder: data, settings, accuracy, versions, files. Nothing is recomputed."""

from __future__ import annotations

import json
import os
import platform
from pathlib import Path
from typing import Any

from cawn import __version__
from cawn.checks import check_path
from cawn.data.events import Events
from cawn.data.reading import Reading
from cawn.data.times import format_as_read
from cawn.errors import StorageError
from cawn.learn.runs import Record, map_links, read_record
from cawn.learn.splits import ALL_LINKS
from cawn.learn.task import Task
from cawn.systems.settings import Settings


def run_info(folder: str | os.PathLike[str]) -> dict[str, Any]:
    """Describes the run in a folder, finished or not, as JSON-compatible values."""
    path = check_path(folder, "folder")
    record, config = read_record(path)
    found = record.description
    task = Task.recorded(found)
    return {
        "run": str(path),
        "finished": record.finished,
        "data": _data(found, map_links(path), record),
        "task": task.nodes,
        "seed": found["seed"],
        "split": found.get("split"),
        "protocol": task.protocol,
        "clock": task.clock,
        "system": found["system"],
        "facts": found["facts"],
        "alpha": found["facts"].get("alpha", []),
        "settings": _settings(config),
        "changed": changed_settings(config),
        "training": _training(record, config),
        "results": None if record.results is None else list(record.results.tests),
        "calibration": _calibration(record),
        "candidates": record.report.get("candidates"),
        "cost": record.report.get("cost"),
        "versions": {"cawn": found.get("cawn"), "format": found["format"]} | record.report.get("versions", {}),
        "served": record.served,
        "refit": record.report.get("refit"),
        "refit_unfinished": bool(found.get("refit")) and record.served != ALL_LINKS,
        "weights": (record.report.get("weights") or [None, None])[1],
        "files": _files(path),
    }


def current_versions() -> dict[str, str]:
    """The software versions that are recorded with a training."""
    import numpy
    import torch

    return {
        "cawn": __version__,
        "torch": str(torch.__version__),
        "numpy": numpy.__version__,
        "python": platform.python_version(),
    }


def changed_settings(config: Settings) -> dict[str, Any]:
    """The settings that differ from the preset "default"."""
    default = _settings(type(config)())
    return {name: value for name, value in _settings(config).items() if value != default[name]}


def _settings(config: Settings) -> dict[str, Any]:
    values = config.to_dict()
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def _data(found: dict[str, Any], events: Events, record: Record) -> dict[str, Any]:
    reading = None if found.get("reading") is None else Reading.from_dict(found["reading"])
    ends = (events.t[0].item(), events.t[-1].item()) if len(events) else (None, None)
    link_width, node_width = (0 if array is None else array.shape[1] for array in (events.msg, events.x))
    return {
        "links": len(events),
        "links_trained_on": found["links"],
        "nodes": events.num_nodes,
        "start": ends[0],
        "end": ends[1],
        "first": None if ends[0] is None else format_as_read(ends[0], reading),
        "last": None if ends[1] is None else format_as_read(ends[1], reading),
        "link_attributes": link_width,
        "node_attributes": node_width,
        "weighted": events.weight is not None,
        "own_negatives": events.negative is not None,
        "two_sided": found.get("prefixes"),
        "reading": found.get("reading"),
        "updated": bool(record.description.get("updated")),
        "digest": found.get("contents"),
    }


def _training(record: Record, config: Settings) -> dict[str, Any]:
    """The number of completed epochs, and the best epoch by validation AP."""
    rows = [row for row in map(_parsed, record.metrics.splitlines()) if isinstance(row.get("val_ap"), float)]
    best = max(rows, key=lambda row: row["val_ap"], default=None)
    return {"epochs": len(rows), "at_most": config.epochs, "best": best}


def _parsed(line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return row if isinstance(row, dict) else {}


def _calibration(record: Record) -> dict[str, Any] | None:
    """The calibration with its check on validation links, and with the steps of updates."""
    fitted: dict[str, Any] | None = record.report.get("calibration")
    return fitted and fitted | (record.description.get("calibration") or {})


def _files(folder: Path) -> dict[str, int]:
    """The size in bytes of each file, and the total size of each folder of arrays."""
    sizes: dict[str, int] = {}
    try:
        for path in sorted(folder.iterdir()):
            sizes[path.name] = sum(map(_size, path.rglob("*"))) if path.is_dir() else _size(path)
    except OSError as error:
        raise StorageError(f"{folder}: cannot be read ({error.strerror or error})") from error
    return sizes


def _size(path: Path) -> int:
    """The size of a file; 0 for anything else, or if it was removed meanwhile, as those of a live service are."""
    try:
        return path.stat().st_size if path.is_file() else 0
    except FileNotFoundError:
        return 0
