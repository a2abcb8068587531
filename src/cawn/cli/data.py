"""`cawn datasets`: list, download, verify, where."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Annotated

import typer

from cawn.cli.options import AsJson, Command, Quiet

app = typer.Typer()

Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of a dataset.", show_default=False)]


@app.callback(invoke_without_command=True)
def list_datasets(context: typer.Context, as_json: AsJson = False) -> None:
    """List, download, verify and locate public networks.

    Example: cawn datasets download wikipedia && cawn train wikipedia
    """
    if context.invoked_subcommand is not None:
        return
    from cawn.data.datasets import CATALOG, where

    places = {name: where(name) for name in CATALOG}
    if as_json:
        rows = [
            {"name": d.name, "nodes": d.nodes, "links": d.links, "about": d.description, "terms": d.terms}
            | {"homepage": d.homepage, "path": None if places[d.name] is None else str(places[d.name])}
            for d in CATALOG.values()
        ]
        print(json.dumps(rows))
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for heading in ("name", "nodes", "links", "local", "description"):
        table.add_column(heading, justify="right" if heading in ("nodes", "links") else "left")
    for d in CATALOG.values():
        table.add_row(d.name, f"{d.nodes:,}", f"{d.links:,}", "yes" if places[d.name] else "", d.description)
    Console().print(table)


@app.command(cls=Command)
def download(
    name: Name,
    force: Annotated[bool, typer.Option("--force", help="Download again even if it is there.")] = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Download a network from its publisher into the user's cache; interrupted downloads resume.

    Example: cawn datasets download wikipedia
    """
    from cawn.data import datasets

    with download_progress(name, quiet) as progress:
        path = datasets.download(name, progress=progress, force=force)
    print(json.dumps({"name": name, "path": str(path)}) if as_json else path)


@app.command(cls=Command)
def verify(name: Name, as_json: AsJson = False) -> None:
    """Check the local copy of a network against its checksum.

    Example: cawn datasets verify wikipedia
    """
    from cawn.data import datasets

    found = datasets.verify(name)
    print(json.dumps({"name": name, "result": found}) if as_json else found)


@app.command(cls=Command)
def where(name: Name, as_json: AsJson = False) -> None:
    """Print the path of the local copy of a network.

    Example: cawn datasets where uci
    """
    from cawn.data import datasets
    from cawn.errors import QueryError

    path = datasets.where(name)
    if path is None:
        raise QueryError(f"{name}: not on this machine; get it with: {datasets.CATALOG[name].command}")
    print(json.dumps({"name": name, "path": str(path)}) if as_json else path)


@contextmanager
def download_progress(name: str, quiet: bool) -> Iterator[Callable[[int, int | None], object]]:
    """Show a progress bar of a download on a terminal."""
    from cawn.progress import Report, progress

    with ExitStack() as shown:
        report: Report | None = None

        def show(done: int, total: int | None) -> None:
            nonlocal report
            if report is None:
                report = shown.enter_context(progress(f"downloading {name}", total, unit="bytes", quiet=quiet))
            report(done)

        yield show
