"""`cawn info`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from cawn import systems
from cawn.cli.options import AsJson


def info(
    run: Annotated[Path | None, typer.Argument(metavar="RUN", help="Run or index folder.", show_default=False)] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="SVG", help="Draw the reliability diagram of the test links.")
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print a model card in Markdown.")] = False,
    state: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="State folder of its server; RUN/live by default.")
    ] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Verify all checksums of the files.")] = False,
    estimate: Annotated[
        list[str] | None,
        typer.Option(
            metavar="links=N",
            help="Instead: what the index of N links takes. Also nodes=, pairs= and transitions= (distinct pairs, and "
            "distinct pairs of consecutive partners); may be repeated.",
        ),
    ] = None,
    system: Annotated[str, typer.Option(metavar="cawn|rates", help="System to estimate for.")] = systems.DEFAULT,
    preset: Annotated[str, typer.Option(help="Settings to estimate for: a preset, or a .toml file.")] = "default",
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting; may be repeated.")
    ] = None,
    memory: Annotated[str, typer.Option(metavar="SIZE", help="Memory limit of the estimate.")] = "4GiB",
    as_json: AsJson = False,
) -> None:
    """Show the data, settings, accuracy, versions and files of a run and the state of its server, or an index folder.

    Example: cawn info runs/mine --plot reliability.svg

    Example: cawn info runs/mine --markdown > MODEL_CARD.md

    Example: cawn info --estimate links=1e9 --estimate nodes=1e8 --memory 16GiB
    """
    from cawn.data.stored import is_index
    from cawn.errors import QueryError

    if (run is None) == (estimate is None):
        raise QueryError("give either RUN, a run or index folder, or --estimate links=N")
    if estimate is not None:
        return _show_estimate(estimate, system, preset, settings or [], memory, as_json)
    assert run is not None
    if is_index(run):
        return _show_index(run, verify, as_json)
    from cawn.learn.run_info import run_info
    from cawn.serve.live_info import live_info

    if as_json and markdown:
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


def _show_estimate(given: list[str], system: str, preset: str, settings: list[str], memory: str, as_json: bool) -> None:
    from cawn.checks import parse_bytes
    from cawn.cli.settings import parse_settings, settings_of
    from cawn.index.estimate import estimate, parse_counts, settings_to_estimate

    limit, counts = parse_bytes(memory, "--memory"), parse_counts([each for text in given for each in text.split(",")])
    num_decays, parts = settings_to_estimate(settings_of(system, preset, parse_settings(settings)))
    found = estimate(counts, num_decays, parts, limit)
    if as_json:
        print(json.dumps(counts._asdict() | {"decays": num_decays, "limit": limit} | found._asdict()))
        return
    from cawn.cli.reports import show_estimate

    show_estimate(counts._asdict(), num_decays, limit, found._asdict())


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
