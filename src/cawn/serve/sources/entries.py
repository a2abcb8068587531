"""Entries of a stream as columns of links.

An entry has the fields src, dst and t, and optionally id and attributes (a JSON list or object), as text; or a single
field `json` with an object of these. A Kafka message is such an object. Other fields are ignored.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from cawn.data.names import Name
from cawn.errors import brief
from cawn.serve.links import Links
from cawn.serve.sources import Rejected

_TEXT = ((b"src", "src"), (b"dst", "dst"), (b"t", "t"), (b"id", "id"))
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
_INTEGER = re.compile(r"\s*[+-]?\d{1,30}\s*", re.ASCII)


class Columns:
    """Collects the entries of a batch: columns of links with their positions, and entries that are not links."""

    def __init__(self) -> None:
        self.src: list[Name] = []
        self.dst: list[Name] = []
        self.t: list[int | float | str] = []
        self.attributes: list[Any] = []
        self.ids: list[str | int | None] = []
        self.positions: list[Any] = []
        self.rejected: list[Rejected] = []

    def add(self, position: Any, link: Mapping[str, Any]) -> None:
        """Add a link; ValueError if it is not one."""
        src, dst = _name(link, "src"), _name(link, "dst")
        t, link_id, attributes = _time(link.get("t")), _id(link.get("id")), _attributes(link.get("attributes"))
        self.src.append(src)
        self.dst.append(dst)
        self.t.append(t)
        self.attributes.append(attributes)
        self.ids.append(link_id)
        self.positions.append(position)

    def links(self) -> Links:
        attributes = self.attributes if any(row is not None for row in self.attributes) else None
        ids = self.ids if any(each is not None for each in self.ids) else None
        return Links(self.src, self.dst, self.t, attributes=attributes, ids=ids)


def from_fields(fields: Mapping[bytes, bytes]) -> dict[str, Any]:
    """The link in the fields of a Redis entry; ValueError if there is none."""
    if (whole := fields.get(b"json")) is not None:
        return from_json(whole)
    found: dict[str, Any] = {name: _text(fields[key], name) for key, name in _TEXT if key in fields}
    if "t" in found:
        found["t"] = _number(found["t"])
    if (given := fields.get(b"attributes")) is not None:
        found["attributes"] = _parse(given, "attributes")
    return found


def from_json(content: bytes | None) -> dict[str, Any]:
    """The link in a JSON object; ValueError if there is none."""
    found = _parse(content or b"", "the entry")
    if not isinstance(found, dict):
        raise ValueError(f"{brief(found)} is not a JSON object")
    return found


def shown(content: Any) -> Any:
    """The content of an entry as JSON values, whatever its bytes are."""
    if isinstance(content, bytes):
        return content.decode("utf-8", "backslashreplace")
    if isinstance(content, Mapping):
        return {shown(name): shown(value) for name, value in content.items()}
    return content


def _parse(content: bytes, what: str) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{what} is not JSON: {brief(shown(content))}") from error


def _text(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{name} is not UTF-8") from error


def _number(text: str) -> int | float | str:
    """Text as a number if it is one; else it may be a date."""
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text


def _name(link: Mapping[str, Any], side: str) -> Name:
    name = link.get(side)
    if name is None:
        raise ValueError(f"{side} is missing")
    if not isinstance(name, str | int) or isinstance(name, bool):
        raise ValueError(f"{side} is {brief(name)}: names are integers or strings")
    return name


def _time(t: Any) -> int | float | str:
    if t is None:
        raise ValueError("t is missing")
    if not isinstance(t, int | float | str) or isinstance(t, bool):
        raise ValueError(f"t is {brief(t)}: give a number or an ISO date")
    return t


def _id(link_id: Any) -> str | None:
    if link_id is None:
        return None
    if not isinstance(link_id, str | int) or isinstance(link_id, bool):
        raise ValueError(f"id is {brief(link_id)}: ids are strings or integers")
    return str(link_id)


def _attributes(given: Any) -> Any:
    if given is not None and not isinstance(given, list | dict):
        raise ValueError(f"attributes is {brief(given)}: give a list, or an object with values by name")
    return given
