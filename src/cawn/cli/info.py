"""`cawn info`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from cawn.cli.options import AsJson, RunFolder


def info(
    run: RunFolder,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="SVG", help="Draw the reliability diagram of the test links.")
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a model card in Markdown.")] = False,
    state: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="State folder of its server; RUN/live by default.")
    ] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Verify all checksums of the files.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the data, settings, accuracy, versions and files of a run and the state of its server, or an index folder.

    Example: cawn info runs/mine --plot reliability.svg

    Example: cawn info runs/mine --markdown > MODEL_CARD.md
    """
    from cawn.data.stored import is_index

    if is_index(run):
        return _show_index(run, verify, as_json)
    from cawn.learn.run_info import run_info
    from cawn.serve.live_info import live_info

    if as_json and markdown:
        from cawn.errors import QueryError

        raise QueryError("--json and --markdown: give one of them")
    if verify:
        from cawn.learn.runs import read_run

        read_run(run)
    found = run_info(run)
    found["live"] = live_info(run / "live" if state is None else state)
    if plot is not None:
        _plot(found, plot)
    if as_json:
        print(json.dumps(found))
    elif markdown:
        from cawn.cli.card import model_card

        print(model_card(found), end="")
    else:
        from cawn.cli.reports import show_info

        show_info(found)
    return None


def _show_index(folder: Path, verify: bool, as_json: bool) -> None:
    from cawn.learn.indexing import summary

    found = summary(folder, verify=verify)
    if as_json:
        print(json.dumps(found))
        return
    from cawn.cli.reports import show_index

    show_index(found)


def _plot(found: dict[str, Any], path: Path) -> None:
    """Draw the reliability of the largest part of the test links."""
    from cawn.errors import QueryError
    from cawn.files import write_text
    from cawn.learn.plots import INSTALL, can_draw
    from cawn.learn.reliability import diagram

    if not can_draw():
        raise QueryError(f"--plot needs matplotlib: {INSTALL}")
    rows = [row for row in found["results"] or [] if "bins" in row.get("reliability", {}).get("calibrated", {})]
    if not rows:
        why = "it was not tested against random negatives, or trained by an earlier version"
        raise QueryError(f"{found['run']}: no reliability diagram is recorded ({why}); train it again")
    write_text(path, diagram(max(rows, key=lambda row: row["count"])["reliability"]))
