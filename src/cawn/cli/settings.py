"""`--set key=value`."""

from __future__ import annotations

import tomllib
from typing import Any

from cawn.errors import QueryError, brief


def parse_settings(given: list[str]) -> dict[str, Any]:
    """The values parsed as TOML: numbers, booleans, lists; anything else is a string."""
    found = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise QueryError(f"--set {brief(text)}: write KEY=VALUE, such as --set epochs=5")
        try:
            parsed = tomllib.loads(f"x = {value}")["x"]
        except (ValueError, RecursionError):  # not TOML, an integer too long, or nested too deeply
            parsed = value.strip()
        found[key.strip()] = tuple(parsed) if isinstance(parsed, list) else parsed
    return found
