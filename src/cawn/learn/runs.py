"""The run folder: its files are replaced atomically, and read without pickle.

run.json                 what was trained: system, settings, facts, task, seed, split; names the folders of arrays;
                         after updates, also the calibration refitted on them
config.toml              the settings, for people to read
network-*/               the links with their attributes, and the names of the nodes: arrays, mapped into memory
checkpoint.safetensors   the state of training: weights, best weights, optimizer, progress
metrics.jsonl            one line per epoch
weights.safetensors      the best weights, once training has ended
refit.safetensors        the state of a further training on all links, if one was asked for
served.safetensors       its weights at the end, which predictors use instead of the best ones
results.json             the evaluation at the end
report.json              calibration, candidate recall and cost; holds the checksums of weights and results
.lock                    held by the process that writes to the run
index-cache/             the index of the links, if building it takes long (see `cawn.learn.index_cache`); not needed

A reader opens run.json first, and then only what it names: replacing run.json replaces the whole run in one step. Files
are checked against the sizes and checksums in run.json and report.json, and these two against their own.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save as tensor_bytes

from cawn import __version__, systems
from cawn.data.array_folders import TRAIN_AGAIN, Arrays, FindFile, read_arrays, remove_arrays, write_arrays
from cawn.data.attributes import Encoder
from cawn.data.events import COLUMNS, Events
from cawn.data.forms import Form, NameForm
from cawn.data.hashing import check_seal, checksum, read_json, write_sealed
from cawn.data.names import Name, NameIndex
from cawn.data.reading import Reading
from cawn.data.stored import check_columns, check_links, check_name_arrays, check_names, recorded_digest
from cawn.data.times import TimeForm
from cawn.data.updates import is_apart, named, without
from cawn.errors import DataError, QueryError, StorageError, brief
from cawn.files import (
    LOCK,
    FolderLock,
    is_temporary,
    make_folder,
    read_file,
    refuse_foreign,
    storing,
    write_bytes,
    write_text,
)
from cawn.learn import index_cache
from cawn.learn.calibration import Calibration, RollingCalibration
from cawn.learn.results import Results
from cawn.learn.splits import ALL_LINKS, TRAINING_LINKS
from cawn.learn.store import check_weights, digest_of, read_tensors, stamp_of
from cawn.learn.task import Nodes
from cawn.systems.settings import Settings

if TYPE_CHECKING:
    from torch import nn

    from cawn.systems.base import System

FORMAT = 5
_WITH_INDEX = 4  # the format that also stored the index, which is ignored; read only as part of a server's state
_FOLDER = re.compile(r"network-[0-9a-f]{16}")
_ATTEMPTS = 10  # at reading a run that is being changed
_RESUME = "resume the run (--resume) to have it written again"

Weights = dict[str, npt.NDArray[Any]]
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A consistent state of a run folder, fully checked; arrays are memory-mapped."""

    folder: Path
    description: dict[str, Any]  # run.json
    config: Settings
    events: Events  # with node ids, without names
    names: NameIndex
    weights: Weights
    calibration: RollingCalibration
    record: Record

    @property
    def prefixes(self) -> tuple[str, str] | None:
        """The prefixes of the names of sources and destinations in a bipartite network."""
        given = self.description.get("prefixes")
        return None if given is None else (given[0], given[1])

    @property
    def form(self) -> Form:
        """How the run writes names, times and attributes."""
        names, span = self.description.get("names"), self.description.get("span")
        reading, t = self.reading or Reading(), self.events.t
        form = NameForm.of(self.names, self.prefixes) if names is None else NameForm(**names, prefixes=self.prefixes)
        times = TimeForm.of(t, reading) if span is None else TimeForm.between(span[0], span[1], str(t.dtype), reading)
        return Form.of(form, times, self.events, reading)

    @property
    def reading(self) -> Reading | None:
        """How the links were read; None if that was not recorded."""
        return _reading(self.description)


@dataclass(frozen=True, slots=True)
class Record:
    """Everything recorded about a training except its links and weights."""

    description: dict[str, Any]
    report: dict[str, Any]  # empty until training has ended
    results: Results | None = None
    metrics: str = ""  # lines of JSON
    evaluated: Weights | None = None  # the weights of the results, if others are served

    @property
    def served(self) -> str:
        """The links that the served weights were trained on."""
        return str(self.report.get("served") or TRAINING_LINKS)

    @property
    def finished(self) -> bool:
        """Whether training has ended."""
        return bool(self.report.get("calibration"))


# Writing, always under the lock of the run.


def refuse_existing(folder: Path) -> None:
    """Refuse a folder that holds a run or other files; leftovers of a killed process are allowed."""
    if (folder / "run.json").exists():
        raise QueryError(f"{folder}: holds a run already; resume it, or choose another folder")
    refuse_foreign(folder, _is_leftover)


def _is_leftover(path: Path) -> bool:
    """Whether this was left by a run that was killed before it wrote run.json."""
    if path.is_symlink():
        return False
    if path.is_dir() and _FOLDER.fullmatch(path.name):
        return all(part.suffix == ".npy" for part in path.iterdir())
    return path.name == LOCK or is_temporary(path.name)


def begin_run(folder: Path, config: Settings, events: Events, description: dict[str, Any]) -> FolderLock:
    """Create a run with its links; returns the lock on it."""
    refuse_existing(folder)
    make_folder(folder)
    with FolderLock(folder).kept() as lock:
        refuse_existing(folder)  # another process may have been faster
        write_run(folder, config, events, description)
    return lock


def write_run(
    folder: Path,
    config: Settings,
    events: Events,
    description: dict[str, Any],
    names: NameIndex | None = None,
) -> None:
    """Write run.json with the links, and config.toml; `names` are the labels by default."""
    _commit(folder, description | _stamps(config) | _write_links(folder, events, names))
    write_text(folder / "config.toml", config.to_toml())


def continue_run(folder: Path, config: Settings, events: Events, description: dict[str, Any]) -> FolderLock:
    """Lock a run to resume it, if its settings and data are the same; returns the lock."""
    read_description(folder)  # fails before a lock file is left in a folder that is not a run
    with FolderLock(folder).kept() as lock:
        found = _check_same(folder, config, description)
        if found.get("refit") != description.get("refit"):
            _commit(folder, found | {"refit": description.get("refit")})
        if not (folder / "config.toml").exists():
            write_text(folder / "config.toml", config.to_toml())
    return lock


def link_index(folder: Path, events: Events, system: System) -> None:
    """Cache the index of a system if it is mapped from an index folder, by links to its files."""
    from cawn.systems.indexed import IndexedSystem

    if isinstance(system, IndexedSystem) and events.stored is not None:
        arrays, file_of = system.index(events), _stored_file(events)
        if all(map(file_of, arrays.values())):
            index_cache.write(folder, _index_key(read_description(folder)), arrays, file_of)


def replace_links(
    folder: Path,
    events: Events,
    *,
    names: NameIndex | None = None,
    lock: FolderLock | None = None,
    changes: Mapping[str, Any] | None = None,
) -> None:
    """Replace the links of a run: a reader sees either the old ones or the new ones.

    Args:
        events: All links.
        names: The names of the nodes; the labels of the events by default.
        lock: The lock on the folder, if the caller holds it. It must have been acquired before the links were read,
            so that no update by another process is lost.
        changes: Other keys of run.json to change in the same step.
    """
    if lock is None:
        with FolderLock(folder) as own:
            return replace_links(folder, events, names=names, lock=own, changes=changes)
    lock.check()
    found = read_description(folder)
    content = found | _stamps(_read_config(folder, found)) | dict(changes or {})
    _commit(folder, content | _write_links(folder, events, names))
    index_cache.remove(folder)
    return None


def forget_node(folder: Path, name: Name) -> int:
    """Remove a node and its links from a run; returns the number of links."""
    with FolderLock(folder) as lock:
        run = read_run(folder)
        gone = named(name, run.names, run.form.names)
        keep = is_apart(run.events, gone)
        events, names = without(run.events, run.names, run.form.names, keep, gone)
        replace_links(folder, events, names=names, lock=lock, changes=run.form.to_dict() | {"updated": True})
        return int((~keep).sum())


def write_report(folder: Path, weights: Weights, report: dict[str, Any], results: Results | None, metrics: str) -> None:
    """Write the results of a training; report.json holds the checksums of weights and results.

    Results of other weights are removed before the new weights are written.
    """
    rows = None if results is None else (json.dumps(results.tests, indent=1) + "\n").encode()
    content = tensor_bytes({name: np.asarray(value, order="C") for name, value in weights.items()})
    stamps = {"weights": stamp_of(content), "results": None if rows is None else stamp_of(rows)}
    before = read_report(folder, verify=False) if (folder / "report.json").exists() else {}
    with storing(folder):
        if any(before.get(what) != stamps[what] for what in stamps):
            (folder / "results.json").unlink(missing_ok=True)
        if before.get("weights") != stamps["weights"]:
            (folder / "report.json").unlink(missing_ok=True)
    write_bytes(folder / "weights.safetensors", content)
    write_sealed(folder / "report.json", report | stamps)
    if rows is not None:
        write_bytes(folder / "results.json", rows)
    write_text(folder / "metrics.jsonl", metrics)


def write_served(folder: Path, weights: Weights, report: dict[str, Any]) -> dict[str, Any]:
    """Write the weights that predictors use instead of the evaluated ones; `write_report` comes first.

    Returns the report as written, with the checksum of these weights.
    """
    content = tensor_bytes({name: np.asarray(value, order="C") for name, value in weights.items()})
    write_bytes(folder / "served.safetensors", content)
    kept = {key: value for key, value in read_report(folder, verify=True).items() if key in ("weights", "results")}
    found = report | kept | {"served": ALL_LINKS, "served_weights": stamp_of(content)}
    write_sealed(folder / "report.json", found)
    return found


def _stamps(config: Settings) -> dict[str, Any]:
    settings = config.to_dict()
    return {"format": FORMAT, "cawn": __version__, "config": settings}


def write_checkpoint(path: Path, tensors: Mapping[str, Any], state: dict[str, Any]) -> None:
    """Write tensors and state to one file, so that they always belong together."""
    arrays = {name: np.array(value.detach().cpu().numpy(), order="C") for name, value in tensors.items()}
    text = json.dumps(state)
    write_bytes(path, tensor_bytes(arrays, {"state": text, "checksum": digest_of(arrays, text)}))


def _write_links(folder: Path, events: Events, names: NameIndex | None) -> dict[str, Any]:
    named = events if names is None else events.named(names)
    network, files = write_arrays(folder, "network", named.arrays, _stored_file(events))
    return {"network": {"folder": network, "files": files}}


def _stored_file(events: Events) -> FindFile:
    """The file of an index folder that an array is mapped from, so that a run folder links to it."""
    return (lambda _: None) if events.stored is None else events.stored.file_of


def _commit(folder: Path, content: dict[str, Any]) -> None:
    """Replace run.json, and only then remove the arrays it no longer names."""
    write_sealed(folder / "run.json", content)
    for path in folder.iterdir():
        if _FOLDER.fullmatch(path.name) and path.name != content["network"]["folder"]:
            remove_arrays(path)


# Reading.


def read_run(folder: Path, *, verify: bool = True, evaluated: bool = False, in_state: bool = False) -> StoredRun:
    """Everything a predictor needs, in a consistent state; StorageError if anything is damaged.

    Args:
        verify: Whether to compare checksums. Shapes, types and ranges are checked in any case.
        evaluated: Whether to read the weights of the results, even if others are served.
        in_state: As for `read_description`.
    """

    def read(found: dict[str, Any]) -> StoredRun:
        config = _read_config(folder, found)
        events, names = _read_network(folder, found, verify=verify)
        record = _read_record(folder, found, verify=verify)
        weights = _read_weights(folder, record, verify=verify)
        if record.served == ALL_LINKS and not evaluated:
            record = replace(record, evaluated=weights)
            weights = _read_weights(folder, record, verify=verify, served=True)
        try:
            check_weights(weights)
        except DataError as error:
            raise StorageError(f"{folder}: its weights are damaged ({error}); {TRAIN_AGAIN}") from error
        calibration = _calibration(folder, record)
        return StoredRun(folder, found, config, events, names, weights, calibration, record)

    return _read_consistently(folder, read, verify=verify, in_state=in_state)


def load_system(
    run: StoredRun, device: Any, threads: int | None = None, *, verify: bool = True, cache: bool | None = True
) -> System:
    """The system of a run with its weights and its index, ready to score on a `torch.device`.

    Args:
        verify: Whether to compare the checksums of a cached index.
        cache: Whether to cache the index beside the run if building it takes long; None for links that are not those
            of the run, whose cache is not read either, and to which others will be added.
    """
    from cawn.systems.base import Context
    from cawn.systems.indexed import IndexedSystem

    found, name = run.description, run.description["system"]
    facts = dict(found["facts"])
    context = Context(run.config, run.events, found["seed"], device, threads, facts=facts, grows=cache is None)
    try:
        system = systems.build(name, context)
    except (DataError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise StorageError(f"{run.folder / 'run.json'}: damaged (facts: {error}); {TRAIN_AGAIN}") from error
    load_weights(system.module, run.weights, run.folder)
    if isinstance(system, IndexedSystem) and cache is not None:
        index_cache.prepare(system, run.events, run.folder, _index_key(found), verify=verify, writes=cache)
    return system


def _index_key(found: dict[str, Any]) -> str:
    """Identifies the links and the settings that an index is built from."""
    return checksum({name: found[name] for name in ("system", "config", "facts", "network")} | {"cawn": __version__})


def load_weights(module: nn.Module, weights: Weights, folder: Path) -> None:
    """Load the weights of the run in `folder` into a network."""
    import torch

    tensors = {name: torch.from_numpy(value) for name, value in weights.items()}
    expected = {name: value.dtype for name, value in module.state_dict().items()}
    try:
        if any(value.dtype != expected.get(name, value.dtype) for name, value in tensors.items()):
            raise TypeError("another type")
        module.load_state_dict(tensors)
    except (RuntimeError, TypeError) as error:
        raise StorageError(f"{folder}: the weights do not fit its config; {TRAIN_AGAIN}") from error


def read_events(folder: Path) -> Events:
    """The links of a run with the names of its nodes."""

    def read(found: dict[str, Any]) -> Events:
        events, names = _read_network(folder, found, verify=True)
        named = events.named(names)
        named.reading = _reading(found)
        return named

    return _read_consistently(folder, read)


def read_record(folder: Path) -> tuple[Record, Settings]:
    """The record of a run, finished or not, and its settings."""
    return _read_consistently(folder, lambda found: (_read_record(folder, found), _read_config(folder, found)))


def map_links(folder: Path) -> Events:
    """The links of a run with node ids, memory-mapped; of their values, nothing is read or checked."""

    def read(found: dict[str, Any]) -> Events:
        path, arrays = _map_network(folder, found, verify=False)
        num_nodes = len(NameIndex(arrays))
        try:
            check_name_arrays(arrays, num_nodes)
            check_columns(arrays, arrays["t"].size, num_nodes)
        except (DataError, KeyError) as error:
            raise StorageError(f"{path}: damaged ({error}); {TRAIN_AGAIN}") from error
        return Events.of_arrays(num_nodes, arrays)

    return _read_consistently(folder, read)


def read_config(folder: Path) -> Settings:
    """The settings of a run."""
    return _read_config(folder, read_description(folder))


def read_encoder(folder: Path) -> Encoder | None:
    """How the attributes of a run were encoded; None if they were used unchanged."""
    return _encoder(read_description(folder))


def read_description(folder: Path, *, verify: bool = True, in_state: bool = False) -> dict[str, Any]:
    """The content of run.json; StorageError if this version cannot read it.

    With `in_state`, the run belongs to the state of a server, which must not lose links: the former format is read too.
    """
    path = folder / "run.json"
    if folder.is_file():
        raise StorageError(f"{folder}: is a file, not the folder of a run")
    try:
        found = read_json(path, TRAIN_AGAIN)
    except FileNotFoundError as error:
        raise StorageError(f"{folder}: holds no run (no run.json)") from error
    if found.get("format") != FORMAT and not (in_state and found.get("format") == _WITH_INDEX):
        version = str(found.get("cawn", "unknown"))[:20]
        raise StorageError(
            f"{path}: written by another version of cawn ({version}) in format {brief(found.get('format'))}, and this "
            f"one reads format {FORMAT}; {TRAIN_AGAIN}"
        )
    check_seal(path, found, TRAIN_AGAIN, verify=verify)
    found.pop("index", None)
    if wrong := [name for name, holds in _EXPECTED.items() if not holds(found.get(name))]:
        raise StorageError(f"{path}: damaged ({', '.join(wrong)}); {TRAIN_AGAIN}")
    systems.recorded(found.get("system"))
    return found


def part(tensors: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The tensors whose names start with `prefix`, which is removed from them."""
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def digest_of_links(events: Events) -> str:
    """A digest of links and node names; a run can be resumed only with the same ones."""
    if recorded := recorded_digest(events):
        return recorded
    return digest_of(events.arrays)


def _check_same(folder: Path, config: Settings, description: dict[str, Any]) -> dict[str, Any]:
    """Refuse to resume a run with other settings or data; returns run.json."""
    found = read_description(folder)
    written = _read_config(folder, found)
    if changed := [name for name in config.to_dict() if getattr(written, name) != getattr(config, name)]:
        raise QueryError(f"{folder}: was started with another config ({', '.join(changed)}); resume with the same")
    if found.get("updated"):
        raise QueryError(f"{folder}: links were added after its training; it cannot be resumed")
    mine = json.loads(json.dumps(description))
    if other := [key for key in mine if key != "refit" and found.get(key) != mine[key]]:
        raise QueryError(f"{folder}: was started with other {', '.join(other)}; resume with the same")
    return found


def _read_consistently(
    folder: Path, read: Callable[[dict[str, Any]], Result], *, verify: bool = True, in_state: bool = False
) -> Result:
    """Call `read` with run.json; retries if the run was changed meanwhile."""
    for _ in range(_ATTEMPTS):
        before = _version(folder)
        try:
            return read(read_description(folder, verify=verify, in_state=in_state))
        except StorageError:
            if _version(folder) == before:
                raise
    raise StorageError(f"{folder}: keeps changing; try again later")


def _version(folder: Path) -> list[Any]:
    versions: list[Any] = []
    for name in ("run.json", "report.json", "checkpoint.safetensors"):
        try:
            found = (folder / name).stat()
            versions.append((found.st_ino, found.st_mtime_ns, found.st_size))
        except OSError:
            versions.append(None)
    return versions


def _read_config(folder: Path, found: dict[str, Any]) -> Settings:
    path, kind = folder / "config.toml", systems.settings_type(found["system"])
    try:
        written = kind.from_dict(found["config"])
    except (ValueError, KeyError, QueryError, RecursionError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise StorageError(
            f"{folder / 'run.json'}: damaged, or its settings are those of another version ({reason}); {TRAIN_AGAIN}"
        ) from error
    if path.exists():
        try:
            shown: Settings | None = kind.from_toml(read_file(path).decode())
        except (OSError, ValueError, QueryError, RecursionError):
            shown = None
        if shown != written:
            raise StorageError(f"{path}: damaged, or changed since the run began; remove it and resume to restore it")
    return written


def _map_network(folder: Path, found: dict[str, Any], *, verify: bool) -> tuple[Path, Arrays]:
    """The folder of the links, and the arrays of the links and of the names of the nodes."""
    path = folder / found["network"]["folder"]
    return path, read_arrays(path, found["network"]["files"], verify=verify)


def _read_network(folder: Path, found: dict[str, Any], *, verify: bool) -> tuple[Events, NameIndex]:
    """The links with node ids, and the names of the nodes."""
    path, arrays = _map_network(folder, found, verify=verify)
    try:
        check_names(arrays)
        names = NameIndex(arrays)
        check_links(arrays, len(names))
    except DataError as error:
        raise StorageError(f"{path}: damaged ({error}); {TRAIN_AGAIN}") from error
    events = Events.of_arrays(len(names), {name: array for name, array in arrays.items() if name in COLUMNS})
    events.encoder = _encoder(found)
    widths = tuple(0 if array is None else array.shape[1] for array in (events.msg, events.x))
    if events.encoder is not None and events.encoder.widths != widths:
        raise StorageError(f"{folder / 'run.json'}: damaged (encoder); {TRAIN_AGAIN}")
    return events, names


def _read_record(folder: Path, found: dict[str, Any], *, verify: bool = True) -> Record:
    path = folder / "report.json"
    if not path.exists():
        if (folder / "results.json").exists():
            raise StorageError(f"{path}: missing; {_RESUME}")
        return Record(found, {}, None, _read_metrics(folder))
    report = read_report(folder, verify=verify)
    return Record(found, report, _read_results(folder, report, verify=verify), _read_metrics(folder))


def read_report(folder: Path, *, verify: bool = True) -> dict[str, Any]:
    """The content of report.json, which is there once training has ended."""
    path = folder / "report.json"
    try:
        found = read_json(path, TRAIN_AGAIN)
    except FileNotFoundError as error:
        raise StorageError(f"{path}: missing; {TRAIN_AGAIN}") from error
    check_seal(path, found, TRAIN_AGAIN, verify=verify)
    return found


def _read_results(folder: Path, report: dict[str, Any], *, verify: bool) -> Results | None:
    """The results, checked against the report; None if there are none, or if they are those of an earlier version."""
    path = folder / "results.json"
    try:
        content = read_file(path)
        if verify and report.get("results") not in (None, stamp_of(content)):
            raise ValueError
        found = json.loads(content)
        return None if any("rules" in test for test in found) else Results.stored(found)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise StorageError(f"{path}: damaged; {_RESUME}") from error


def _read_metrics(folder: Path) -> str:
    try:
        return read_file(folder / "metrics.jsonl").decode(errors="replace")
    except OSError:
        return ""


def _read_weights(folder: Path, record: Record, *, verify: bool = True, served: bool = False) -> Weights:
    """The weights, checked against the report; if there is no report yet, the best weights of the checkpoint."""
    name, key = ("served.safetensors", "served_weights") if served else ("weights.safetensors", "weights")
    path, stamp = folder / name, record.report.get(key)
    if not record.report:
        return _best_weights(folder / "checkpoint.safetensors")
    try:
        weights, _, content = read_tensors(path)
    except OSError as error:
        raise StorageError(f"{path}: missing; {_RESUME}") from error
    if verify and stamp is not None and stamp_of(content) != stamp:
        raise StorageError(f"{path}: damaged; {_RESUME}")
    return weights


def read_checkpoint(path: Path) -> tuple[Weights, dict[str, Any]] | None:
    """The tensors and the state of a checkpoint; None if it does not exist."""
    try:
        tensors, texts, _ = read_tensors(path)
        state = json.loads(texts["state"])
        best = state["progress"]["best_epoch"]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, RecursionError, StorageError) as error:
        raise StorageError(f"{path}: damaged; remove it to start over") from error
    if texts.get("checksum") != digest_of(tensors, texts["state"]) or not isinstance(best, int):
        raise StorageError(f"{path}: damaged; remove it to start over")
    return tensors, state


def _best_weights(path: Path) -> Weights:
    found = read_checkpoint(path)
    if found is None or found[1]["progress"]["best_epoch"] < 0:
        folder = path.parent
        raise StorageError(
            f"{folder}: has no weights before its first validation; continue with cawn train --resume -o {folder}"
        )
    return part(found[0], "best.")


def _calibration(folder: Path, record: Record) -> RollingCalibration:
    """The calibration of the run, as refitted by updates; the identity if training has not ended."""
    if not record.finished:
        return RollingCalibration.of(Calibration())
    try:
        return RollingCalibration.from_dict(record.description.get("calibration") or record.report["calibration"])
    except DataError as error:
        raise StorageError(f"{folder / 'report.json'}: damaged ({error}); {TRAIN_AGAIN}") from error


def _encoder(found: dict[str, Any]) -> Encoder | None:
    return None if found.get("encoder") is None else Encoder.from_dict(found["encoder"])


def _reading(found: dict[str, Any]) -> Reading | None:
    return None if found.get("reading") is None else Reading.from_dict(found["reading"])


# Checks of the values in run.json.


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _holds(read: Callable[[Any], object]) -> Callable[[Any], bool]:
    """A check that a value is None or is accepted by `read`."""

    def holds(value: Any) -> bool:
        try:
            return value is None or read(value) is not None
        except DataError:
            return False

    return holds


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_arrays(value: Any) -> bool:
    if not isinstance(value, dict) or set(value) != {"folder", "files"} or not isinstance(value["files"], dict):
        return False
    names = all(re.fullmatch(r"[a-z_.]+\.npy", name) for name in value["files"])
    stamps = all(isinstance(s, list) and len(s) == 2 and _is_count(s[0]) for s in value["files"].values())
    return names and stamps and isinstance(value["folder"], str) and _FOLDER.fullmatch(value["folder"]) is not None


_NAME_FORM = {"integers": bool, "trimmed": bool}
_EXPECTED: dict[str, Callable[[Any], bool]] = {
    "task": lambda value: value in get_args(Nodes),
    "seed": lambda value: _is_count(value) and value < 2**64,
    "links": _is_count,
    "facts": lambda value: isinstance(value, dict),
    "prefixes": lambda value: (
        value is None or (isinstance(value, list) and [type(text) for text in value] == [str, str])
    ),
    "updated": lambda value: value is None or isinstance(value, bool),
    "names": lambda value: (
        value is None or (isinstance(value, dict) and {k: type(v) for k, v in value.items()} == _NAME_FORM)
    ),
    "span": lambda value: value is None or (isinstance(value, list) and len(value) == 2 and all(map(_is_time, value))),
    "calibration": _holds(RollingCalibration.from_dict),
    "refit": lambda value: value is None or isinstance(value, bool),
    "encoder": _holds(Encoder.from_dict),
    "reading": _holds(Reading.from_dict),
    "config": lambda value: isinstance(value, dict),
    "network": lambda value: _is_arrays(value),
}
