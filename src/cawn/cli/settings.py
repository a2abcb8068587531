"""`--system`, `--preset` and `--set key=value`."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cawn.errors import QueryError, brief, reason

if TYPE_CHECKING:
    from cawn.systems.settings import Settings


def settings_of(system: str, preset: str, changes: dict[str, Any]) -> Settings:
    """A preset of a system, or the settings of a TOML file such as the config.toml of a run, with some changed."""
    from cawn import systems

    kind = systems.settings_type(system)
    if not preset.endswith(".toml"):
        return kind.preset(preset).with_(**changes)
    try:
        return kind.from_toml(Path(preset).read_text(encoding="utf-8")).with_(**changes)
    except QueryError as error:
        raise QueryError(f"{preset}: {error}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise QueryError(f"{preset}: cannot be read ({reason(error)})") from error


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
