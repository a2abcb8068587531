"""`--set key=value`."""

from __future__ import annotations

import tomllib
from typing import Any

from cawn.errors import QueryError, brief


def parse_settings(given: list[str]) -> dict[str, Any]:
    """The values as TOML reads them: numbers, true and false, lists; anything else is text."""
    found = {}
    for text in given:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise QueryError(f"--set {brief(text)}: write KEY=VALUE, such as --set epochs=5")
        try:
            parsed = tomllib.loads(f"x = {value}")["x"]
        except (ValueError, RecursionError):  # no TOML, an integer too long, nesting too deep
            parsed = value.strip()
        found[key.strip()] = tuple(parsed) if isinstance(parsed, list) else parsed
    return found
