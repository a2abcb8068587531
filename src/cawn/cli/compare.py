"""`cawn compare`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from cawn import systems as registry
from cawn.cli.options import ClockName, Columns, Cuts, Machine, ProtocolName, say, with_options
from cawn.cli.train import read_links
from cawn.errors import QueryError

if TYPE_CHECKING:
    from cawn.studies.tables import Comparison


@with_options(columns=Columns, cuts=Cuts, machine=Machine)
def compare(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA",
            help="A file of links, a pattern such as 'logs/*.csv', - or the name of a dataset.",
            show_default=False,
        ),
    ],
    systems: Annotated[
        str, typer.Option("--systems", metavar="all|A,B,C", help=f"Systems to train: {', '.join(registry.names())}.")
    ] = "all",
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder for tables, plot and runs; can be resumed.")
    ] = Path("comparison"),
    seeds: Annotated[int, typer.Option(min=1, metavar="N", help="Number of seeds.")] = 3,
    task: Annotated[
        Literal["transductive", "inductive", "both"],
        typer.Option(help="Test on all links of the test period, on those of hidden nodes, or on both in turn."),
    ] = "transductive",
    preset: Annotated[
        str, typer.Option(help="Preset of the systems that have it, such as fast; the others use their defaults.")
    ] = "default",
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="[SYSTEM.]KEY=VALUE",
            help="Change a setting of a system, or of every system that has it; may be repeated.",
        ),
    ] = None,
    negatives: Annotated[
        list[str] | None, typer.Option(help="A kind of negatives to test against; may be repeated. All by default.")
    ] = None,
    protocol: ProtocolName = None,
    clock: ClockName = None,
    jobs: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Number of parallel runs; by default one per core, on a GPU at most 4."),
    ] = None,
    *,
    columns: Columns,
    cuts: Cuts,
    machine: Machine,
) -> None:
    """Train several systems with several seeds on a network, and compare their accuracy, time and memory.

    Example: cawn compare edges.csv --systems cawn,rates --seeds 3 -o comparisons/mine
    """
    from cawn.data.summary import describe, in_words
    from cawn.studies.compare import compare as compare_systems
    from cawn.studies.compare import plan

    changes = parse_settings_by_system(settings or [])
    names = [name.strip() for name in systems.split(",")]
    planned = plan(names, preset, changes)  # before a large file is read
    if unused := [name for name in changes if name != "all" and name not in planned]:
        raise QueryError(
            f"--set {unused[0]}.{next(iter(changes[unused[0]]))}: {unused[0]} is not compared; add it to --systems"
        )
    kinds = tuple(negatives) if negatives else None
    asked = [
        cuts.task(nodes, protocol, clock, negatives=kinds)
        for nodes in (("transductive", "inductive") if task == "both" else (task,))
    ]
    events = read_links(data, columns.arguments(), machine.quiet)
    say(in_words(describe(events)), machine.quiet)
    options: dict[str, Any] = {"task": asked, "seeds": seeds, "out": out, "jobs": jobs} | machine.options
    found = compare_systems(events, list(planned.values()), **options)
    if machine.as_json:
        print(json.dumps({"folder": str(out)} | found.to_dict()))
    else:
        _show(found, out)
    if not found.results:  # every run has failed; the tables of an earlier comparison are kept
        raise QueryError(f"{out}: no run has a result, so no table was written; the reasons are above")


def parse_settings_by_system(given: list[str]) -> dict[str, dict[str, Any]]:
    """Settings by system; those without the name of a system apply to all."""
    from cawn.cli.settings import parse_settings

    found: dict[str, dict[str, Any]] = {}
    for text in given:
        ((key, value),) = parse_settings([text]).items()
        system, dot, name = key.rpartition(".")
        found.setdefault(system if dot else "all", {})[name] = value
    return found


def _show(found: Comparison, out: Path) -> None:
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    from cawn.studies.tables import name_of_links

    console = Console()
    tables = [
        (f"{task}, {name_of_links(links)}", found.accuracy_table(task, links, ("ap", "mrr")))
        for task, links in found.tests()
    ]
    tables += [(f"cost, {task}", found.cost_table(task)) for task in dict.fromkeys(row["task"] for row in found.cost)]
    for title, (headings, rows) in tables:
        table = Table(title=title, title_justify="left", box=SIMPLE, pad_edge=False)
        for heading in headings:
            table.add_column(heading, justify="left" if heading == "system" else "right")
        for cells in rows:
            table.add_row(*(f"[bold]{cell.strip('*')}[/]" if cell.startswith("**") else cell for cell in cells))
        console.print(table)
    for row in found.failed:
        console.print(f"failed: {row['system']}, {row['task']}, seed {row['seed']}: {row['reason']}", markup=False)
    files = [name for name in ("comparison.md", "comparison.json", "comparison.svg") if (out / name).exists()]
    if files and found.results:
        console.print(f"written: {', '.join(str(out / name) for name in files)}", style="dim", markup=False)
