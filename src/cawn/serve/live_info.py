"""A summary of the live state of a run, read from its folder while a server may be using it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from cawn.files import read_file


def live_info(folder: Path) -> dict[str, Any] | None:
    """The contents of a state folder, as JSON-compatible values; None if it is not one.

    `links` are those in the newest snapshot; the log has those that came later.
    """
    if not (folder / "state.json").is_file():
        return None
    newest = _newest_snapshot(folder / "snapshots")
    return {
        "folder": str(folder),
        "links": newest.get("links"),
        "position": newest.get("position", 0),
        "sources": _offsets(folder / "catalog.sqlite"),
        "rejected": sum(_num_lines(path) for path in folder.glob("rejected*.jsonl")),
        "bytes": _num_bytes(folder),
    }


def _newest_snapshot(folder: Path) -> dict[str, Any]:
    """The manifest of the newest snapshot; empty if there is none."""
    for path in sorted(folder.glob("[0-9]*/snapshot.json"), reverse=True):
        with suppress(OSError, ValueError):  # it is being removed
            found: dict[str, Any] = json.loads(read_file(path))
            return found
    return {}


def _offsets(path: Path) -> dict[str, Any]:
    """How far each source has been read; empty if the catalog cannot be read now."""
    with suppress(sqlite3.Error, ValueError):
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as catalog:
            rows = catalog.execute("SELECT source, value FROM offsets ORDER BY source").fetchall()
        return {source: json.loads(value) for source, value in rows}
    return {}


def _num_lines(path: Path) -> int:
    with suppress(OSError), open(path, "rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
    return 0


def _num_bytes(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            total += path.stat().st_size if path.is_file() else 0
    return total
