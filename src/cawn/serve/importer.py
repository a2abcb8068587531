"""Reads the state folders of earlier versions: a snapshot with its links, and a log of the links that came later.

FOLDER/state.json             the run that the state belongs to
FOLDER/snapshots/POSITION/    run/: a run folder with all links up to this position of the log
FOLDER/log/                   segments of the log: blocks of records, each one submission as a line of JSON
FOLDER/catalog.sqlite         idempotency keys, and how far streams have been read

The folder is left as it is, beside the new store, until a node is forgotten.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import sqlite3
import struct
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np

from cawn.data.forms import Arrivals, Form
from cawn.data.updates import Draft, GrowingEvents, KnownIds, UpdateRules
from cawn.errors import CawnError, DataError, StorageError, reason
from cawn.files import storing
from cawn.learn.runs import StoredRun, read_run
from cawn.serve.links import SubmittedLinks
from cawn.serve.store import LiveStore, key_digest, stored_links

_HEADER = 40  # bytes before the first block of a segment
_BLOCK = struct.Struct("<4sIIIQQ")  # magic, checksum of what follows, bytes, records, links, first position
_CHECKED = 8  # where the part of a block begins that its checksum covers
_MAGIC = b"\xca\x57\x0e\xb1"

Record = dict[str, Any]


def is_former(folder: Path) -> bool:
    """Whether this is the state folder of an earlier version."""
    return (folder / "state.json").is_file() and (folder / "log").is_dir()


def remove_former(folder: Path) -> None:
    """Remove what an earlier version has left, which has the names of all nodes."""
    with storing(folder):
        for name in ("log", "snapshots", "weights"):
            rmtree(folder / name, ignore_errors=True)
        for name in ("state.json", "catalog.sqlite", "catalog.sqlite-wal", "catalog.sqlite-shm"):
            (folder / name).unlink(missing_ok=True)


def import_state(store: LiveStore, run: StoredRun, identity: str) -> None:
    """Fill an empty store with the state that an earlier version has left in its folder."""
    try:
        _import(store, run, identity)
    except (DataError, OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise StorageError(
            f"{store.folder}: the state of an earlier version cannot be read ({reason(error)}); restore a backup of it"
        ) from error


def _import(store: LiveStore, run: StoredRun, identity: str) -> None:
    folder = store.folder
    _refuse_another_run(folder, run)
    start, after = _newest_snapshot(folder, run)
    records = dict(_records(folder / "log", after))
    voided = {record.get("void") for record in records.values()}
    added = {at: record for at, record in records.items() if at not in voided and "void" not in record}
    draft = Draft(start.events, start.names, run.form, KnownIds(), UpdateRules(max_ahead=math.inf))
    for position, record in added.items():
        draft.add(_arrivals(position, record, run.form, folder))
    new, updates = draft.finish()
    events, _ = GrowingEvents(start.events).add(new)
    keys, offsets = _catalog(folder / "catalog.sqlite")
    for (position, record), update in zip(added.items(), updates, strict=True):
        offsets |= record.get("offsets", {})
        if (key := record.get("key")) is not None:
            receipt = update.added, record.get("duplicates", 0), update.nodes_added, 0
            keys.append((key_digest(key), b"", *receipt, position))
    facts = {"run": identity, "calibration": json.dumps(start.calibration.to_dict())} | _weights(store)
    store.replace(stored_links(events, new.names), keys, offsets, **facts)


def _refuse_another_run(folder: Path, run: StoredRun) -> None:
    found, report = run.description, run.record.report
    content = [found["system"], found["facts"], found["network"]["files"], report.get("weights")]
    served = report.get("served_weights")
    identity = hashlib.sha256(json.dumps([*content, served], sort_keys=True).encode()).hexdigest()
    if json.loads((folder / "state.json").read_bytes())["run"] != identity:
        raise StorageError(f"{folder}: belongs to another run, or the links or weights of {run.folder} were changed")


def _weights(store: LiveStore) -> dict[str, str]:
    """Keep the weights that were served; returns the facts about them."""
    folder = store.folder / "weights"
    for path in folder.glob("[0-9]*.json"):
        about = json.loads(path.read_bytes())
        store.keep_weights(int(path.stem), about, path.with_suffix(".safetensors").read_bytes())
    serving = folder / "serving.json"
    return {"serving": str(json.loads(serving.read_bytes())["number"])} if serving.exists() else {}


def _arrivals(position: int, record: Record, form: Form, folder: Path) -> Arrivals:
    """The links of a record, whose times are canonical already."""
    t = record.get("t", [])
    times = np.frombuffer(base64.b64decode(t), "<f8") if isinstance(t, str) else t
    src, dst, attributes = (record.get(name, []) for name in ("src", "dst", "attributes"))
    try:
        ids = SubmittedLinks(src, dst, [], ids=record.get("ids")).id_hashes()
        found = form.arrivals(src, dst, [form.times.last] * len(times), attributes, ids)
    except CawnError as error:
        raise StorageError(f"{folder}: record {position:,} of the log cannot be read ({error})") from error
    return replace(found, t=np.array(times, form.times.dtype))


def _newest_snapshot(folder: Path, run: StoredRun) -> tuple[StoredRun, int]:
    """The newest valid snapshot and its position, or the run itself."""
    for path in sorted(folder.glob(f"snapshots/{'[0-9]' * 20}"), reverse=True):
        try:
            read = read_run(path / "run", in_state=True)
        except StorageError:
            continue
        return replace(run, events=read.events, names=read.names, calibration=read.calibration), int(path.name)
    return run, 0


def _records(folder: Path, after: int) -> Iterator[tuple[int, Record]]:
    """The records of the log after a position, with their positions."""
    position = after
    paths = sorted(folder.glob("*.log"))
    for path in paths:
        content, at = path.read_bytes(), _HEADER
        while (block := _block(content, at)) is not None:
            first, lines, at = block
            if first > position + 1:
                raise StorageError(f"{path}: begins at record {first:,}, expected {position + 1:,}")
            for number, line in enumerate(lines, first):
                if number > position:
                    yield number, json.loads(line)
                    position = number
        if at < len(content) and (path != paths[-1] or _has_block_after(content, at)):
            raise StorageError(f"{path}: damaged at offset {at}; restore it from a backup")


def _block(content: bytes, at: int) -> tuple[int, list[bytes], int] | None:
    """The first position and the lines of the block at an offset, and where the next begins; None if none does."""
    start = at + _BLOCK.size
    if start > len(content):
        return None
    magic, checksum, size, _, _, first = _BLOCK.unpack_from(content, at)
    end = start + size
    if magic != _MAGIC or end > len(content) or zlib.crc32(content[at + _CHECKED : end]) != checksum:
        return None
    return first, content[start:end].split(b"\n"), end


def _has_block_after(content: bytes, at: int) -> bool:
    """Whether a block begins after an offset, so that what is there is no incomplete end."""
    while (at := content.find(_MAGIC, at + 1)) >= 0:
        if _block(content, at) is not None:
            return True
    return False


def _catalog(path: Path) -> tuple[list[tuple[Any, ...]], dict[str, Any]]:
    """The rows of idempotency keys, and how far streams have been read."""
    if not path.is_file():
        return [], {}
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            columns = "key, x'', added, duplicates, nodes_added, version, position"  # the digests were others
            keys = db.execute(f"SELECT {columns} FROM keys ORDER BY position").fetchall()
            offsets = {source: json.loads(value) for source, value in db.execute("SELECT source, value FROM offsets")}
    except sqlite3.Error as error:
        raise StorageError(f"{path}: cannot be read ({reason(error)}); remove it to import the links alone") from error
    return keys, offsets
