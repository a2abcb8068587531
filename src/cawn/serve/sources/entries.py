"""Entries of a stream: those that are links as columns, the others as lines of JSON in the state folder.

An entry has the fields src, dst and t, and optionally id and attributes (a JSON list or object), as text; or a single
field `json` with an object of these. A Kafka message is such an object. Other fields are ignored.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cawn.data.names import Name
from cawn.errors import brief
from cawn.files import storing, write_text
from cawn.serve.links import SubmittedLinks

REJECTED, OLDER = "rejected.jsonl", "rejected.1.jsonl"
MAX_BYTES = 64 << 20  # of a file of rejected entries; a full one becomes the older file
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
_INTEGER = re.compile(r"\s*[+-]?\d{1,30}\s*", re.ASCII)
_NAME = str | int, "names are integers or strings"
_MEMBERS: dict[str, tuple[Any, str]] = {
    "src": _NAME,
    "dst": _NAME,
    "t": (int | float | str, "give a number or an ISO date"),
    "attributes": (list | dict, "give a list, or an object with values by name"),
    "id": (str | int, "ids are strings or integers"),
}


class EntryLink(NamedTuple):
    src: Name
    dst: Name
    t: int | float | str
    attributes: Any
    id: str | int | None


def as_link(content: Any) -> EntryLink:
    """The link in the JSON or the fields of an entry; ValueError if it is not one."""
    found = _from_fields(content) if isinstance(content, Mapping) else _from_json(content)
    for name, (kinds, remedy) in _MEMBERS.items():
        value = found.get(name)
        if value is None and name in ("src", "dst", "t"):
            raise ValueError(f"{name} is missing")
        if value is not None and (not isinstance(value, kinds) or isinstance(value, bool)):
            raise ValueError(f"{name} is {brief(value)}: {remedy}")
    return EntryLink(*map(found.get, _MEMBERS))  # type: ignore[arg-type]


def as_columns(links: Sequence[EntryLink]) -> SubmittedLinks:
    """Links as columns."""
    if not links:
        return SubmittedLinks([], [], [], [])
    src, dst, t, attributes, ids = (list(column) for column in zip(*links, strict=True))
    given = (column if any(each is not None for each in column) else None for column in (attributes, ids))
    return SubmittedLinks(src, dst, t, *given)


def shown(content: Any) -> Any:
    """The content of an entry as JSON values, whatever its bytes are."""
    if isinstance(content, bytes):
        return content.decode("utf-8", "backslashreplace")
    if isinstance(content, Mapping):
        return {shown(name): shown(value) for name, value in content.items()}
    return content


def _from_fields(fields: Mapping[bytes, bytes]) -> Mapping[str, Any]:
    if (whole := fields.get(b"json")) is not None:
        return _from_json(whole)
    found: dict[str, Any] = {name: _text(fields, name) for name in _MEMBERS if name.encode() in fields}
    if "t" in found:
        found["t"] = _number(found["t"])
    if "attributes" in found:
        found["attributes"] = _parse(found["attributes"], "attributes")
    return found


def _from_json(content: bytes | None) -> Mapping[str, Any]:
    found = _parse(content or b"", "the entry")
    if not isinstance(found, dict):
        raise ValueError(f"{brief(found)} is not a JSON object")
    return found


def _parse(content: str | bytes, what: str) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{what} is not JSON: {brief(shown(content))}") from error


def _text(fields: Mapping[bytes, bytes], name: str) -> str:
    try:
        return fields[name.encode()].decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{name} is not UTF-8") from error


def _number(text: str) -> int | float | str:
    """Text as a number if it is one; else it may be a date."""
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text


class RejectedEntries:
    """Appends to `rejected.jsonl` in a folder. At most twice `max_bytes` are kept: the older half is dropped."""

    def __init__(self, folder: Path, *, max_bytes: int = MAX_BYTES) -> None:
        self.path, self._older, self._max_bytes = folder / REJECTED, folder / OLDER, max_bytes

    def add(self, source: str, position: str, entry: Any, reason: str) -> None:
        """Write an entry to disk. A source that reads it again after a crash adds it again."""
        line = json.dumps({"source": source, "position": position, "entry": shown(entry), "reason": reason})
        with storing(self.path):
            if self.path.exists() and self.path.stat().st_size > self._max_bytes:
                self.path.replace(self._older)
            with open(self.path, "a", encoding="ascii") as file:
                file.write(line + "\n")
                file.flush()
                os.fsync(file.fileno())

    def forget(self, name: Name) -> None:
        """Remove the entries in which this name occurs."""
        for path in (self.path, self._older):
            if path.exists():
                lines = path.read_text("ascii").splitlines(keepends=True)
                write_text(path, "".join(line for line in lines if not _mentions(json.loads(line), str(name))))


def _mentions(value: Any, name: str) -> bool:
    """Whether a JSON value holds this name, or text with it."""
    if isinstance(value, dict | list):
        return any(_mentions(each, name) for each in (value.values() if isinstance(value, dict) else value))
    return name in value if isinstance(value, str) else str(value) == name
