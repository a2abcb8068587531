"""`--set key=value`."""

from __future__ import annotations

import tomllib
from typing import Any

from cawn.errors import QueryError, brief


def parse_settings(given: list[str]) -> dict[str, Any]:
    """The values parsed as TOML: numbers, booleans, lists, also without brackets; anything else is a string."""
    found = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise QueryError(f"--set {brief(text)}: write KEY=VALUE, such as --set epochs=5")
        found[key.strip()] = _parse(value)
    return found


def _parse(value: str) -> Any:
    for text in (value, f"[{value}]") if "," in value else (value,):
        try:
            parsed = tomllib.loads(f"x = {text}")["x"]
        except (ValueError, RecursionError):  # not TOML, an integer too long, or nested too deeply
            continue
        return tuple(parsed) if isinstance(parsed, list) else parsed
    return value.strip()
