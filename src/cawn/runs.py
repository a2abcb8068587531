"""The folder of a run: what it holds, written whole or not at all, and never unpickled.

config.toml              the settings
run.json                 what was trained on, and how: task, seed, decays, split
network/                 the links with their attributes, and the names of the nodes: arrays, mapped into memory
index/                   what scoring looks up: the history's lists and the rates, likewise
metrics.jsonl            a line for each epoch
weights.safetensors      the best weights so far
checkpoint.safetensors   where training stands: weights, best weights, the optimizer, and the progress beside them
results.json             the evaluation at the end
report.json              the calibration of probabilities, and how well candidates are chosen
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError
from safetensors.numpy import load_file

import cawn
from cawn.attributes import Encoder
from cawn.batches import Batcher
from cawn.calibration import Calibration
from cawn.config import Config
from cawn.errors import DataError, QueryError, StorageError
from cawn.events import PER_LINK, Events
from cawn.files import write_text
from cawn.history import History
from cawn.name_index import NameIndex
from cawn.rates import Rates
from cawn.reading import Reading
from cawn.splits import Task
from cawn.store import read_arrays, write_arrays

FORMAT = 2
_DESCRIBED = {"task": str, "seed": int, "links": int, "alpha": list, "unit": int | float}  # and more


def refuse_existing(folder: Path) -> None:
    """A run is never overwritten."""
    if (folder / "run.json").exists():
        raise QueryError(f"{folder}: holds a run already; resume it, or choose another folder")


def write_description(folder: Path, config: Config, description: dict[str, Any]) -> None:
    """config.toml and run.json; the latter also says which version wrote it."""
    write_text(folder / "config.toml", config.to_toml())
    stamped = {"format": FORMAT, "cawn": cawn.__version__} | description
    write_text(folder / "run.json", json.dumps(stamped, indent=1) + "\n")


def write_network(folder: Path, events: Events) -> None:
    """The links of a run with their attributes, and the names of its nodes."""
    arrays = {name: getattr(events, name) for name in ("src", "dst", "t", "x", *PER_LINK)}
    held = {name: np.ascontiguousarray(array) for name, array in arrays.items() if array is not None}
    write_arrays(folder / "network", held | NameIndex.of(events.labels).arrays)


def read_network(folder: Path) -> tuple[Events, NameIndex]:
    """The network a run was trained on, its nodes numbered, and their names."""
    arrays = read_arrays(folder / "network")
    names = NameIndex({key: arrays.pop(key) for key in list(arrays) if key.startswith("name")})
    try:
        names.check()
        src, dst, t = (arrays[key] for key in ("src", "dst", "t"))
        columns = {name: arrays.get(name) for name in PER_LINK}
        events = Events.adopt(src, dst, t, x=arrays.get("x"), labels=None, num_nodes=len(names), **columns)
    except (KeyError, DataError) as error:
        raise StorageError(f"{folder / 'network'}: damaged; the run must be trained again") from error
    events.encoder = encoder = read_encoder(folder)
    widths = tuple(0 if array is None else array.shape[1] for array in (events.msg, events.x))
    if encoder is not None and encoder.widths != widths:
        raise StorageError(f"{folder / 'run.json'}: damaged (encoder); the run must be trained again")
    return events, names


def read_events(folder: Path) -> Events:
    """The same as Events that carry their names."""
    held, names = read_network(folder)
    events = held.named(names.all())
    events.reading = read_reading(folder)
    return events


def read_reading(folder: Path) -> Reading | None:
    """How the links of a run were read; None where that was not recorded."""
    found = read_description(folder).get("reading")
    try:
        return None if found is None else Reading.from_dict(found)
    except DataError as error:
        raise StorageError(f"{folder / 'run.json'}: damaged (reading); the run must be trained again") from error


def read_encoder(folder: Path) -> Encoder | None:
    """How the attributes of a run were encoded; None where they were used as they are."""
    found = read_description(folder).get("encoder")
    try:
        return None if found is None else Encoder.from_dict(found)
    except DataError as error:
        raise StorageError(f"{folder / 'run.json'}: damaged (encoder); the run must be trained again") from error


def write_index(folder: Path, batcher: Batcher) -> None:
    """What scoring looks up, so that a predictor need not build it."""
    history = {f"history.{key}": value for key, value in batcher.history.arrays.items()}
    rates = {} if batcher.rates is None else {f"rates.{key}": value for key, value in batcher.rates.arrays.items()}
    write_arrays(folder / "index", history | rates)


def read_batcher(folder: Path, events: Events, threads: int | None) -> Batcher:
    """Ready to make batches: from the stored index, or from the links where training has not ended yet."""
    config, found = read_config(folder), read_description(folder)
    try:
        alpha, unit = tuple(found["alpha"]), float(found["unit"])
    except (KeyError, TypeError, ValueError) as error:
        raise StorageError(f"{folder / 'run.json'}: damaged; the run must be trained again") from error
    if not (folder / "index").exists():
        return Batcher.of(config, events, alpha, unit, threads=threads)
    arrays = read_arrays(folder / "index")
    try:
        history = History.adopt(part(arrays, "history."))
        rates = Rates.adopt(part(arrays, "rates."), history) if config.rates else None
    except KeyError as error:
        raise StorageError(f"{folder / 'index'}: damaged; remove it and it is built anew") from error
    return Batcher(config, events, history, unit, rates, threads)


def read_calibration(folder: Path) -> Calibration:
    """How to turn logits into probabilities; as they are, where training has not ended yet."""
    path = folder / "report.json"
    if not path.exists():
        if (folder / "results.json").exists():
            raise StorageError(f"{path}: missing; resume the run (--resume) to have it written again")
        return Calibration()
    try:
        found = json.loads(path.read_text(encoding="utf-8"))["calibration"]
        return Calibration(float(found["temperature"]), float(found["shift"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StorageError(f"{path}: damaged; the run must be trained again") from error


def read_weights(folder: Path) -> dict[str, npt.NDArray[np.float32]]:
    """The best weights of a run."""
    path = folder / "weights.safetensors"
    if not path.exists():
        raise StorageError(f"{folder}: holds no weights yet; let it train for an epoch")
    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise StorageError(f"{path}: damaged; the run must be trained again") from error


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
    settled = () if "encoder" in found else ("standardise",)  # older runs used attributes as they are
    names = [name for name in Config.__slots__ if name not in settled]
    if changed := [name for name in names if getattr(written, name) != getattr(config, name)]:
        raise QueryError(f"{folder}: was started with another config ({', '.join(changed)}); resume with its own")
    mine = json.loads(json.dumps(description))
    if other := [key for key in mine if found.get(key) != mine[key]]:
        raise QueryError(f"{folder}: was started with other {', '.join(other)}; resume with the same")


def read_description(folder: Path) -> dict[str, Any]:
    """run.json of a run folder, if this version can read it."""
    path = folder / "run.json"
    if folder.is_file():
        raise StorageError(f"{folder}: is a file, not the folder of a run")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise StorageError(f"{folder}: holds no run (no run.json)") from error
    except (OSError, ValueError) as error:
        raise StorageError(f"{path}: damaged; the run must be trained again") from error
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        version = found.get("cawn", "unknown") if isinstance(found, dict) else "unknown"
        raise StorageError(f"{path}: written by another version of cawn ({version}); this is {cawn.__version__}")
    wrong = [name for name, kind in _DESCRIBED.items() if not isinstance(found.get(name), kind)]
    if wrong or found["task"] not in get_args(Task):
        raise StorageError(f"{path}: damaged ({', '.join(wrong) or 'task'}); the run must be trained again")
    return found


def part(tensors: dict[str, Any], prefix: str) -> dict[str, Any]:
    """Those whose names begin with the prefix, without it."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
