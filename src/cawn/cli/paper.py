"""`cawn paper`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from cawn.cli.options import DeviceName, Quiet, Threads, say
from cawn.errors import QueryError

_REPORT = "report"


def paper(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="An experiment, or report; without it, a list.",
            show_default=False,
        ),
    ] = None,
    datasets: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Datasets to measure; by default all at hand.", show_default=False),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1, metavar="N", help="Number of seeds; twice as many for inductive tasks.", show_default=False
        ),
    ] = None,
    systems: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Variants to measure in table2 and table6.", show_default=False),
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Trials of grid, for each dataset and preset.", show_default=False),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder of the results; can be resumed.")
    ] = Path("paper"),
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting of every system that has it."),
    ] = None,
    device: DeviceName = "auto",
    jobs: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Number of measurements at a time.", show_default=False)
    ] = None,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Repeat the experiments of the paper, and some beyond it.

    Example: cawn paper table2 --datasets uci,wikipedia --seeds 5 && cawn paper report
    """
    if name is None:
        _list()
        return
    if name == _REPORT:
        from cawn.paper.pages import write_report

        for path in write_report(out)[1]:
            print(path)
        return
    from cawn import paper as experiments
    from cawn.cli.settings import parse_settings
    from cawn.paper.sweep import Sweep, load_networks

    chosen = experiments.experiment(name)
    names = None if datasets is None else [part.strip() for part in datasets.split(",")]
    networks = load_networks(names, chosen.networks)
    command = ["cawn", "paper", name, "--datasets", ",".join(networks), "--seeds", str(seeds or chosen.seeds)]
    command += [] if systems is None else ["--systems", systems]
    command += [] if trials is None else ["--trials", str(trials)]
    command += [part for setting in settings or [] for part in ("--set", setting)]
    failed = Sweep(
        experiment=chosen,
        networks=networks,
        folder=out,
        seeds=seeds or chosen.seeds,
        command=shlex.join(command),
        device=device,
        jobs=1 if jobs is None else jobs,
        threads=threads,
        changes=parse_settings(settings or []),
        systems=None if systems is None else tuple(part.strip() for part in systems.split(",")),
        trials=trials,
        quiet=quiet,
    ).run()
    say(f"results: {out}; 'cawn paper report -o {out}' makes tables and plots of them", quiet)
    if failed:
        raise QueryError(f"{len(failed)} measurements failed, the first: {failed[0]}")


def _list() -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    from cawn.paper import EXPERIMENTS

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("experiment", no_wrap=True)
    table.add_column("what it shows")
    for name, experiment in EXPERIMENTS.items():
        table.add_row(name, experiment.title + (" (not in the paper)" if experiment.beyond else ""))
    table.add_row(_REPORT, "tables and plots of all results")
    Console().print(table)
