"""`cawn systems`."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from cawn import systems as registry
from cawn.cli.options import AsJson


def systems(
    name: Annotated[
        str | None, typer.Argument(metavar="[SYSTEM]", help="List the settings of this system.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List the systems that can be trained, and the untrained baselines; or the settings of one system.

    Example: cawn systems && cawn systems rates
    """
    if name is None:
        rows = sorted(map(_row, registry.names()), key=lambda row: not row["trained"])
        print(json.dumps(rows)) if as_json else _show_systems(rows)
        return
    kind = registry.settings_type(name)
    found = _row(name) | {"presets": list(kind.PRESETS), "memory": list(kind.MEMORY), "settings": kind.describe()}
    print(json.dumps(found)) if as_json else _show_settings(found)


def _row(name: str) -> dict[str, Any]:
    entry = registry.entry(name)
    facts = {"needs": entry.needs, "new_nodes": entry.new_nodes, "state": entry.state}
    return {"name": name, "summary": entry.summary, "trained": entry.trained} | facts


def _show_systems(rows: list[dict[str, Any]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    console, words = Console(), {True: "yes", False: "no"}
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("name", "what it is", "needs", "new nodes", "state", "trained"):
        table.add_column(heading, no_wrap=heading == "name")
    for row in rows:
        facts = (words[row[name]] for name in ("new_nodes", "state", "trained"))
        table.add_row(row["name"], row["summary"], row["needs"] or "links", *facts)
    console.print(table)
    notes = (
        "new nodes: whether scores of nodes without training links are meaningful.",
        "state: whether scoring follows the stream link by link.",
        "Settings of a system: cawn systems NAME. To train and compare systems: cawn compare DATA --systems all",
    )
    console.print("\n".join(notes), style="dim", highlight=False)


def _show_settings(found: dict[str, Any]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    console.print(f"{found['name']}: {found['summary']}", markup=False)
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("setting", "default", "values", "meaning"):
        table.add_column(heading, no_wrap=heading in ("setting", "default"), overflow="fold")
    for row in found["settings"]:
        table.add_row(row["name"], Text(_shown(row["default"])), row["values"], Text(row["meaning"]))
    console.print(table)
    notes = (
        f"Presets: {', '.join(found['presets'])}. To change a setting: --set KEY=VALUE. "
        f"If memory runs out, lower {registry.settings_type(found['name']).to_lower()}."
    )
    console.print(notes, style="dim", markup=False)


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
