"""Entries of streams that are not links: lines of JSON in the state folder."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cawn.data.names import Name
from cawn.files import storing, write_text
from cawn.serve.sources import Rejected

FILE, OLDER = "rejected.jsonl", "rejected.1.jsonl"
MAX_BYTES = 64 << 20  # of a file; a full one becomes the older file


class RejectedEntries:
    """Appends to `rejected.jsonl` in a folder. At most twice `max_bytes` are kept: the older half is dropped."""

    def __init__(self, folder: Path, *, max_bytes: int = MAX_BYTES) -> None:
        self._folder, self._max_bytes = folder, max_bytes
        self.path = folder / FILE

    def forget(self, name: Name) -> None:
        """Remove the entries in which this name occurs."""
        for path in (self.path, self._folder / OLDER):
            if path.exists():
                lines = path.read_text("ascii").splitlines(keepends=True)
                write_text(path, "".join(line for line in lines if not _mentions(json.loads(line), str(name))))

    def add(self, source: str, entries: Sequence[Rejected]) -> None:
        """Write entries to disk. A source that reads them again after a crash adds them again."""
        lines = [json.dumps({"source": source, **each._asdict()}) + "\n" for each in entries]
        with storing(self.path):
            if self.path.exists() and self.path.stat().st_size > self._max_bytes:
                self.path.replace(self._folder / OLDER)
            with open(self.path, "a", encoding="ascii") as file:
                file.writelines(lines)
                file.flush()
                os.fsync(file.fileno())


def _mentions(value: Any, name: str) -> bool:
    """Whether a JSON value holds this name, or text with it."""
    if isinstance(value, dict | list):
        return any(_mentions(each, name) for each in (value.values() if isinstance(value, dict) else value))
    return name in value if isinstance(value, str) else str(value) == name
