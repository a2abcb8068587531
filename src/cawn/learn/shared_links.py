"""Links in a file that several processes map into memory."""

from __future__ import annotations

import json
import mmap
import pickle
from pathlib import Path
from typing import Any

from cawn.data.events import Events


def write_links(path: Path, events: Events) -> None:
    """Write links for `read_links`, with arrays as plain bytes. Unpickled later, so only for private files."""
    arrays: list[pickle.PickleBuffer] = []
    head = pickle.dumps(events, protocol=5, buffer_callback=arrays.append)
    parts: list[Any] = [head, *(array.raw() for array in arrays)]
    with open(path, "xb") as file:
        file.write((json.dumps([len(part) for part in parts]) + "\n").encode())
        for part in parts:
            file.write(b"\0" * (-file.tell() % 64))
            file.write(part)


def share_links(folder: Path | str, name: str, events: Events) -> str:
    """Write links to a file in a folder, unless it is there already; returns its path."""
    path = Path(folder) / name
    if not path.exists():
        write_links(path, events)
    return str(path)


def read_links(path: Path | str) -> Events:
    """Read the links of `write_links`; arrays are memory-mapped and shared by all processes."""
    with open(path, "rb") as file:
        sizes = json.loads(file.readline())
        start, parts = file.tell(), []
        mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    for size in sizes:
        start += -start % 64
        parts.append(mapped[start : start + size])
        start += size
    events: Events = pickle.loads(parts[0], buffers=parts[1:])
    return events
