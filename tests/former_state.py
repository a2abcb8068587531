"""Writes the state of a server as earlier versions did: snapshots, a log, a catalog and weights."""

import hashlib
import json
import sqlite3
import struct
import zlib
from contextlib import closing
from pathlib import Path
from typing import Any

from safetensors.torch import save

from cawn.learn.runs import read_description, read_report
from cawn.predictor import LinkPredictor

_TABLES = """
CREATE TABLE offsets (source TEXT PRIMARY KEY, value TEXT);
CREATE TABLE keys (key BLOB PRIMARY KEY, position INTEGER, body BLOB, added INTEGER, duplicates INTEGER,
                   nodes_added INTEGER, version INTEGER);
"""


def block(first: int, *records: dict[str, Any]) -> bytes:
    """The records of one commit."""
    lines = b"\n".join(json.dumps(record).encode() for record in records)
    links = sum(len(record.get("src", ())) for record in records)
    checked = struct.pack("<IIQQ", len(lines), len(records), links, first) + lines
    return b"\xca\x57\x0e\xb1" + struct.pack("<I", zlib.crc32(checked)) + checked


def write_state(run: Path, *segments: list[bytes], first: int = 1) -> Path:
    """A state of this run with segments of blocks."""
    (run / "live" / "log").mkdir(parents=True)
    found, report = read_description(run), read_report(run)
    content = [found["system"], found["facts"], found["network"]["files"], report["weights"], None]
    identity = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    (run / "live" / "state.json").write_text(json.dumps({"format": 1, "run": identity}))
    for i, blocks in enumerate(segments):
        header = struct.pack("<8s16sQI4x", b"cawnlog1", bytes(16), first + i, 0)
        (run / "live" / "log" / f"{first + i:020d}.log").write_bytes(header + b"".join(blocks))
    return run / "live"


def write_catalog(folder: Path, keys: dict[str, tuple[int, ...]], offsets: dict[str, str]) -> None:
    """Keys with their position and receipt."""
    rows = [
        (hashlib.blake2b(key.encode(), digest_size=16).digest(), use[0], b"", *use[1:]) for key, use in keys.items()
    ]
    with closing(sqlite3.connect(folder / "catalog.sqlite", isolation_level=None)) as db:
        db.executescript(_TABLES)
        db.executemany("INSERT INTO keys VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
        db.executemany("INSERT INTO offsets VALUES (?, ?)", [(name, json.dumps(at)) for name, at in offsets.items()])


def write_weights(folder: Path, number: int, predictor: LinkPredictor) -> None:
    """The weights of a predictor, which are served."""
    (folder / "weights").mkdir()
    weights = predictor.snapshot().model.system.module.state_dict()
    (folder / "weights" / f"{number:04d}.safetensors").write_bytes(save(weights))
    about = {"calibration": predictor.calibration.to_dict()}
    (folder / "weights" / f"{number:04d}.json").write_text(json.dumps(about))
    (folder / "weights" / "serving.json").write_text(json.dumps({"number": number}))
