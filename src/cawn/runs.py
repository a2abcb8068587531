"""The folder of a run: what it holds, written whole or not at all, and never unpickled.

config.toml              the settings
run.json                 what was trained on, and how: task, seed, decays, split
events.safetensors       the links, with their attributes and node names: the history that scoring walks on
metrics.jsonl            a line for each epoch
weights.safetensors      the best weights so far
checkpoint.safetensors   where training stands: weights, best weights, the optimizer, and the progress beside them
results.json             the evaluation at the end
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file as save_arrays
from safetensors.torch import save_file

import cawn
from cawn.config import Config
from cawn.errors import QueryError, StorageError
from cawn.events import Events
from cawn.files import write_atomically, write_text

FORMAT = 1

Tensors = dict[str, torch.Tensor]


def write_description(folder: Path, config: Config, description: dict[str, Any]) -> None:
    """config.toml and run.json; the latter also says which version wrote it."""
    write_text(folder / "config.toml", config.to_toml())
    stamped = {"format": FORMAT, "cawn": cawn.__version__} | description
    write_text(folder / "run.json", json.dumps(stamped, indent=1) + "\n")


def write_events(folder: Path, events: Events) -> None:
    """The whole network of a run."""
    arrays = {"src": events.src, "dst": events.dst, "t": events.t, "msg": events.msg, "x": events.x}
    held = {name: np.ascontiguousarray(array) for name, array in arrays.items() if array is not None}
    metadata = {"labels": json.dumps(events.labels.tolist())}
    write_atomically(folder / "events.safetensors", lambda path: save_arrays(held, path, metadata))


def read_events(folder: Path) -> Events:
    """The network a run was trained on, with its node names and attributes."""
    path = folder / "events.safetensors"
    try:
        with safe_open(path, "np") as file:
            arrays = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118
            labels = json.loads((file.metadata() or {})["labels"])
    except (SafetensorError, OSError, KeyError, ValueError) as error:
        raise StorageError(f"{path}: missing or damaged; the run must be trained again") from error
    return Events(**arrays, labels=labels)


def read_config(folder: Path) -> Config:
    """The settings of a run."""
    path = folder / "config.toml"
    try:
        return Config.from_toml(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, QueryError) as error:
        raise StorageError(f"{path}: missing or damaged ({error}); the run must be trained again") from error


def check_description(folder: Path, config: Config, description: dict[str, Any]) -> None:
    """Refuse to go on with a run that was started with something else."""
    found = read_description(folder)
    written = read_config(folder)
    if changed := [name for name in Config.__slots__ if getattr(written, name) != getattr(config, name)]:
        raise QueryError(f"{folder}: was started with another config ({', '.join(changed)}); resume with its own")
    mine = json.loads(json.dumps(description))
    if other := [key for key in mine if found.get(key) != mine[key]]:
        raise QueryError(f"{folder}: was started with other {', '.join(other)}; resume with the same")


def read_description(folder: Path) -> dict[str, Any]:
    """run.json of a run folder, if this version can read it."""
    path = folder / "run.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise StorageError(f"{folder}: holds no run (no run.json)") from error
    except (OSError, ValueError) as error:
        raise StorageError(f"{path}: damaged; the run must be trained again") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        version = found.get("cawn", "unknown") if isinstance(found, dict) else "unknown"
        raise StorageError(f"{path}: written by another version of cawn ({version}); this is {cawn.__version__}")
    return found


def read_tensors(path: Path) -> tuple[dict[str, torch.Tensor], str]:
    """The tensors of a file and the state beside them."""
    try:
        with safe_open(path, "pt") as file:
            return {key: file.get_tensor(key) for key in file.keys()}, (file.metadata() or {}).get("state", "{}")  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise StorageError(f"{path}: damaged; remove it to start over") from error


def write_checkpoint(folder: Path, tensors: Tensors, best: Tensors, state: dict[str, Any]) -> None:
    """The checkpoint, and the best weights by themselves."""
    held = {name: value.detach().cpu().contiguous().clone() for name, value in tensors.items()}
    held |= {f"best.{name}": value.detach().cpu().contiguous().clone() for name, value in best.items()}
    weights = part(held, "best.")
    metadata = {"state": json.dumps(state)}
    write_atomically(folder / "checkpoint.safetensors", lambda path: save_file(held, path, metadata))
    write_atomically(folder / "weights.safetensors", lambda path: save_file(weights, path))


def part(tensors: Tensors, prefix: str) -> Tensors:
    """Those whose names begin with the prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
