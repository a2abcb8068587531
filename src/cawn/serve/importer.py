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
import re
import sqlite3
import struct
import zlib
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import Any, NamedTuple

import numpy as np

from cawn.data.forms import Arrivals, Form
from cawn.data.updates import Draft, GrowingEvents, KnownIds, Rules
from cawn.errors import CawnError, DataError, StorageError, reason
from cawn.files import storing
from cawn.learn.runs import StoredRun, read_run
from cawn.serve.links import Links
from cawn.serve.store import Store, key_digest, stored_links

_HEADER = struct.Struct("<8s16sQI4x")  # magic, id of the log, first position, checksum
_BLOCK = struct.Struct("<4sIIIQQ")  # magic, checksum of what follows, bytes, records, links, first position
_CHECKED = 8  # where the part of a block begins that its checksum covers
_BLOCK_MAGIC = b"\xca\x57\x0e\xb1"
_POSITION = re.compile(r"[0-9]{20}")


class _Record(NamedTuple):
    position: int
    links: Links
    content: dict[str, Any]


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


def import_state(store: Store, run: StoredRun, identity: str) -> None:
    """Fill an empty store with the state that an earlier version has left in its folder."""
    try:
        _import(store, run, identity)
    except (DataError, OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise StorageError(
            f"{store.folder}: the state of an earlier version cannot be read ({reason(error)}); restore a backup of it"
        ) from error


def _import(store: Store, run: StoredRun, identity: str) -> None:
    folder = store.folder
    _refuse_another_run(folder, run)
    start, after = _newest_snapshot(folder, run)
    records = list(_records(folder / "log", after))
    voided = {record.content.get("void") for record in records}
    draft, added = Draft(start.events, start.names, run.form, KnownIds(), Rules(max_ahead=math.inf)), []
    for record in records:
        if record.position not in voided and "void" not in record.content:
            draft.add(_arrivals(record, run.form, folder))
            added.append(record)
    new, updates = draft.finish()
    events, _ = GrowingEvents(start.events).add(new)
    keys, offsets = _catalog(folder / "catalog.sqlite")
    for record, update in zip(added, updates, strict=True):
        offsets |= record.content.get("offsets", {})
        if (key := record.content.get("key")) is not None:
            found = update.added, record.content.get("duplicates", 0), update.nodes_added, 0
            keys.append((key_digest(key), b"", *found, record.position))
    facts = {"run": identity, "calibration": json.dumps(start.calibration.to_dict())} | _weights(store)
    store.adopt(keys, offsets)
    store.replace(stored_links(events, new.names), **facts)


def _refuse_another_run(folder: Path, run: StoredRun) -> None:
    found, report = run.description, run.record.report
    network = found["network"]["files"]
    content = [found["system"], found["facts"], network, report.get("weights"), report.get("served_weights")]
    identity = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    if json.loads((folder / "state.json").read_bytes())["run"] != identity:
        raise StorageError(f"{folder}: belongs to another run, or the links or weights of {run.folder} were changed")


def _weights(store: Store) -> dict[str, str]:
    """Keep the weights that were served; returns the facts about them."""
    folder = store.folder / "weights"
    for path in folder.glob("[0-9]*.json"):
        about = json.loads(path.read_bytes())
        store.keep_weights(int(path.stem), about, path.with_suffix(".safetensors").read_bytes())
    serving = folder / "serving.json"
    return {"serving": str(json.loads(serving.read_bytes())["number"])} if serving.exists() else {}


def _arrivals(record: _Record, form: Form, folder: Path) -> Arrivals:
    """The links of a record, whose times are canonical already."""
    links, t = record.links, np.array(record.links.t, form.times.dtype)
    try:
        anytime = [form.times.last] * len(links)
        found = form.arrivals(links.src, links.dst, anytime, links.attributes, links.id_hashes())
    except CawnError as error:
        raise StorageError(f"{folder}: record {record.position:,} of the log cannot be read ({error})") from error
    return replace(found, t=t)


def _newest_snapshot(folder: Path, run: StoredRun) -> tuple[StoredRun, int]:
    """The newest valid snapshot and its position, or the run itself."""
    snapshots = folder / "snapshots"
    found = [path for path in snapshots.iterdir() if _POSITION.fullmatch(path.name)] if snapshots.is_dir() else []
    for path in sorted(found, reverse=True):
        try:
            read = read_run(path / "run", in_state=True)
        except StorageError:
            continue
        return replace(run, events=read.events, names=read.names, calibration=read.calibration), int(path.name)
    return run, 0


def _records(folder: Path, after: int) -> Iterator[_Record]:
    """The records of the log after a position."""
    position = after
    for path in sorted(folder.glob("*.log")):
        content = path.read_bytes()
        at = _HEADER.size
        while (block := _block(content, at)) is not None:
            first, lines, at = block
            if first > position + 1:
                raise StorageError(f"{path}: begins at record {first:,}, expected {position + 1:,}")
            for number, line in enumerate(lines, first):
                if number > position:
                    yield _record(number, line)
                    position = number
        if at < len(content) and (path != max(folder.glob("*.log")) or _has_block_after(content, at)):
            raise StorageError(f"{path}: damaged at offset {at}; restore it from a backup")


def _block(content: bytes, at: int) -> tuple[int, list[bytes], int] | None:
    """The first position and the lines of the block at an offset, and where the next begins; None if none does."""
    start = at + _BLOCK.size
    if start > len(content):
        return None
    magic, checksum, size, _, _, first = _BLOCK.unpack_from(content, at)
    end = start + size
    if magic != _BLOCK_MAGIC or end > len(content) or zlib.crc32(content[at + _CHECKED : end]) != checksum:
        return None
    return first, content[start:end].split(b"\n"), end


def _has_block_after(content: bytes, at: int) -> bool:
    """Whether a block begins after an offset, so that what is there is no incomplete end."""
    while (at := content.find(_BLOCK_MAGIC, at + 1)) >= 0:
        if _block(content, at) is not None:
            return True
    return False


def _record(position: int, line: bytes) -> _Record:
    found: dict[str, Any] = json.loads(line)
    if isinstance(found.get("t"), str):
        found["t"] = np.frombuffer(base64.b64decode(found["t"]), "<f8").tolist()
    links = Links.from_columns(found) if "src" in found else Links([], [], [])
    return _Record(position, links, found)


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
