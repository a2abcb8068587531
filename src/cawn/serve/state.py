"""The live state of a run: its store, and the predictor with all stored links."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cawn.checks import check_flags, check_path, check_threads
from cawn.data.events import Events
from cawn.data.forms import Form
from cawn.data.names import Name, NameIndex, parse_integers
from cawn.devices import Device, check_device, pick_device
from cawn.errors import DataError, QueryError, StorageError, reason
from cawn.learn.calibration import RollingCalibration
from cawn.learn.runs import StoredRun, load_system, read_report, read_run
from cawn.predictor import LinkPredictor
from cawn.serve import importer
from cawn.serve.sources.entries import RejectedEntries
from cawn.serve.store import FILE, RESTORE, LiveStore, stored_links

Array = npt.NDArray[Any]
Progress = Callable[[int, int], object]  # links loaded so far, and in total


class LiveState(NamedTuple):
    """What a server works with: a predictor with all stored links, and their store, opened and locked."""

    predictor: LinkPredictor
    store: LiveStore


def open_state(
    run: Path,
    folder: Path | None = None,
    *,
    device: Device = "auto",
    threads: int | None = None,
    verify: bool = True,
    replica: bool | None = None,
    progress: Progress = lambda done, total: None,
) -> LiveState:
    """Open the live state of a run, or begin one with its links.

    Args:
        run: The run folder, which is not changed.
        folder: Of the state; RUN/live by default. It is created if needed.
        device: As for `LinkPredictor.load`.
        threads: Likewise.
        verify: Likewise.
        replica: Whether the links are to be those of a stream alone, which is so from the beginning or not at all; None
            for what the state is.
        progress: Called before and after the links are indexed, with the number done and their total.

    Raises:
        StorageError: if the state is used by another process, belongs to another run, or is damaged.
    """
    run = check_path(run, "run")
    check_device(device)
    check_flags(verify=verify)
    check_threads(threads)
    folder = run / "live" if folder is None else check_path(folder, "folder")
    found = read_run(run, verify=verify, in_state=holds_state(folder))
    store = LiveStore(folder)
    try:
        _bind(store, found, run, replica)
        events, names = _links(store, found)
        progress(0, len(events))
        loaded = replace(found, events=events, names=names, calibration=_calibration(store) or found.calibration)
        system = load_system(loaded, pick_device(device), threads, verify=verify, cache=None)
        predictor = LinkPredictor.of_stored(loaded, system, recalibrate=not replica)
        _ = predictor.snapshot().parts
        progress(len(events), len(events))
    except BaseException:
        store.close()
        raise
    return LiveState(predictor, store)


def holds_state(folder: Path) -> bool:
    """Whether there is a live state, of this version or of an earlier one; its run may be of an earlier one too."""
    return (folder / FILE).exists() or importer.is_former(folder)


def forget_in_state(run: Path, folder: Path | None, name: Name) -> int:
    """Remove a node and its links from a state that no server uses; returns the number of links."""
    folder = run / "live" if folder is None else folder
    if not (folder / FILE).exists():
        raise QueryError(f"{folder}: holds no state of a server")
    predictor, store = open_state(run, folder, device="cpu")
    try:
        left = predictor.reduce(name=name)
        store.replace(stored_links(left.snapshot.events, left.snapshot.names))
        RejectedEntries(folder).forget(name)
        return left.removed
    finally:
        store.close()


def _bind(store: LiveStore, run: StoredRun, folder: Path, replica: bool | None) -> None:
    """Begin a state with the links of its run, or refuse one that belongs to another run."""
    identity, held = _identity(run, folder), store.fact("run")
    if held is None:
        if importer.is_former(store.folder):
            importer.import_state(store, run, identity)
        else:
            store.replace(stored_links(run.events, run.names), run=identity, replica=str(bool(replica)))
    elif held != identity:
        raise StorageError(
            f"{store.folder}: belongs to another run, or the weights of {folder} were changed since; give another "
            "state folder, or move this one away"
        )
    if replica and store.fact("replica") != "True":
        raise StorageError(
            f"{store.folder}: is not the state of a replica, whose links are those of its stream alone; give a new "
            "state folder, or restore a backup of a replica"
        )
    if replica is False:
        store.set_facts(replica="False")


def _identity(run: StoredRun, folder: Path) -> str:
    """A digest of what a run has learned; its links may be removed later."""
    found, finished = run.description, (folder / "report.json").exists()
    report = read_report(folder) if finished else {}
    content = [found["system"], found["facts"], found["contents"], report.get("weights"), report.get("served_weights")]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _links(store: LiveStore, run: StoredRun) -> tuple[Events, NameIndex]:
    """The links of a store in the order of time, and the names of its nodes."""
    form = run.form
    try:
        columns = store.columns(run.events.t.dtype, form.widths)
        names = _names(columns.pop("name_sizes"), columns.pop("name_text"), form)
        x, t = columns.pop("x"), columns["t"]
        order = np.argsort(t, kind="stable") if (t[1:] < t[:-1]).any() else slice(None)
        held: dict[str, Any] = {name: column[order] for name, column in columns.items()}
        held["x"] = x if form.widths[1] else None
        held["msg"] = held["msg"] if form.widths[0] else None
        held["link_id"] = held["link_id"] if held["link_id"].any() else None
        events = run.events.grown(held, len(names))
    except (DataError, KeyError, ValueError) as error:
        raise StorageError(f"{store.path}: is damaged ({error}); {RESTORE}") from error
    return events, names


def _calibration(store: LiveStore) -> RollingCalibration | None:
    """The calibration that was used last, if it is not that of the run."""
    if (held := store.fact("calibration")) is None:
        return None
    try:
        return RollingCalibration.from_dict(json.loads(held))
    except (DataError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise StorageError(f"{store.path}: the calibration is damaged ({reason(error)}); {RESTORE}") from error


def _names(sizes: Array, text: Array, form: Form) -> NameIndex:
    """The names of the nodes: integers where the run has integers, and all are."""
    ends = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
    if form.names.integers:
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(text)]
        column = pa.chunked_array([pa.Array.from_buffers(pa.large_string(), len(sizes), buffers)])
        integers, _ = parse_integers(column)
        if integers is not None:
            return NameIndex({"names": integers.to_numpy().copy()})
    return NameIndex({"name_ends": ends, "name_bytes": text})
