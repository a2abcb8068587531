"""A summary of the live state of a run, read from its folder while a server may be using it."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from cawn.errors import StorageError, reason
from cawn.serve.store import FILE


def live_info(folder: Path) -> dict[str, Any] | None:
    """The contents of a state folder, as JSON-compatible values; None if it is not one."""
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
            links, nodes, commits = db.execute("SELECT sum(links), sum(nodes), max(position) FROM commits").fetchone()
            offsets = db.execute("SELECT source, value FROM offsets ORDER BY source").fetchall()
    except sqlite3.Error as error:
        raise StorageError(f"{path}: cannot be read ({reason(error)})") from error
    return {
        "folder": str(folder),
        "links": links or 0,
        "nodes": nodes or 0,
        "position": commits or 0,
        "sources": {source: json.loads(value) for source, value in offsets},
        "rejected": sum(each.read_bytes().count(b"\n") for each in folder.glob("rejected*.jsonl")),
        "bytes": sum(each.stat().st_size for each in folder.rglob("*") if each.is_file()),
    }
