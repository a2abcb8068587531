"""`cawn paper`."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cawn.cli.options import AsJson, DeviceName, Quiet, Threads, say
from cawn.errors import QueryError

if TYPE_CHECKING:
    from cawn.paper.experiments import Experiment

_REPORT = "report"


def paper(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="An experiment, or 'report' for tables and plots of all results; without NAME, lists the experiments.",
            show_default=False,
        ),
    ] = None,
    datasets: Annotated[
        str | None,
        typer.Option(
            metavar="A,B",
            help="Datasets to measure; by default those of the experiment that need no download.",
            show_default=False,
        ),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=1000,
            metavar="N",
            help="Number of seeds; the inductive task has twice as many.",
            show_default=False,
        ),
    ] = None,
    systems: Annotated[
        str | None,
        typer.Option(metavar="A,B", help="Systems to train, if the experiment has several.", show_default=False),
    ] = None,
    trials: Annotated[
        int | None,
        typer.Option(
            min=1, max=10_000, metavar="N", help="Number of trials of grid per dataset and preset.", show_default=False
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder of the results; existing results are reused.")
    ] = Path("paper"),
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting of every system that has it."),
    ] = None,
    device: DeviceName = "auto",
    jobs: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=256,
            metavar="N",
            help="Number of parallel measurements; by default one per core, on a GPU at most 4.",
            show_default=False,
        ),
    ] = None,
    threads: Threads = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Reproduce the experiments of the paper, and run some beyond it.

    Example: cawn paper table2 --datasets uci,wikipedia --seeds 5 && cawn paper report
    """
    given = {"--seeds": seeds, "--systems": systems, "--trials": trials, "--set": settings}
    if name is None:
        _list(as_json)
    elif name == _REPORT:
        _refuse_options(_REPORT, given | {"--datasets": datasets}, ())
        _report(out, quiet, as_json)
    else:
        options = {"device": device, "jobs": jobs, "threads": threads, "quiet": quiet}
        failed, networks = _measure(name, datasets, given, out, options)
        if as_json:
            print(json.dumps({"experiment": name, "folder": str(out), "datasets": networks, "failed": failed}))
        say(f"results: {out}; 'cawn paper report -o {out}' turns them into tables and plots", quiet)
        if failed:
            from cawn.paper.experiments import counted

            raise QueryError(f"{counted(len(failed), 'measurement')} failed, the first: {failed[0]}")


def _measure(
    name: str, datasets: str | None, given: dict[str, Any], out: Path, options: dict[str, Any]
) -> tuple[list[str], list[str]]:
    """Run an experiment; returns a line for each measurement that failed, and the names of the networks."""
    from cawn.checks import check_threads
    from cawn.devices import pick_device
    from cawn.learn.arguments import check_writable
    from cawn.paper.experiments import Request
    from cawn.paper.results import ResultStore
    from cawn.paper.sweep import load_networks, sweep
    from cawn.paper.variants import check_request
    from cawn.studies.jobs import default_jobs

    chosen = _experiment(name)
    _refuse_options(name, given, chosen.options)
    changes, wanted = _changes(given["--set"]), _names(given["--systems"])
    check_request(chosen, wanted, changes)
    check_threads(options["threads"])
    check_writable(out)
    device = pick_device(options["device"])
    if options["jobs"] is None:
        options = options | {"jobs": default_jobs(device)}
    networks = load_networks(_names(datasets), chosen.networks)
    seeds = given["--seeds"] or chosen.seeds
    command = _command(name, {"--datasets": ",".join(networks)} | given | _default_seeds(chosen, seeds))
    options = options | {"device": str(device), "trials": given["--trials"]}
    failed = sweep(chosen, Request(networks, seeds, ResultStore.read(out), changes, wanted, **options), command)
    return failed, list(networks)


def _experiment(name: str) -> Experiment:
    from cawn.checks import check_choice
    from cawn.paper import EXPERIMENTS

    check_choice(name, "experiment", (*EXPERIMENTS, _REPORT))
    return EXPERIMENTS[name]()


def _refuse_options(name: str, given: dict[str, Any], options: tuple[str, ...]) -> None:
    for option, value in given.items():
        if value is not None and option not in options:
            raise QueryError(f"{option}: {name} has no such option; leave it out")


def _names(given: str | None) -> tuple[str, ...] | None:
    return None if given is None else tuple(part.strip() for part in given.split(","))


def _changes(settings: list[str] | None) -> dict[str, Any]:
    from cawn.cli.settings import parse_settings

    return parse_settings(settings or [])


def _default_seeds(chosen: Experiment, seeds: int | None) -> dict[str, int]:
    return {"--seeds": seeds or chosen.seeds} if "--seeds" in chosen.options else {}


def _command(name: str, given: dict[str, Any]) -> str:
    """The command that reproduces the results."""
    words = ["cawn", "paper", name]
    for option, value in given.items():
        for one in value if isinstance(value, list) else [] if value is None else [value]:
            words += [option, str(one)]
    return shlex.join(words)


def _report(out: Path, quiet: bool, as_json: bool) -> None:
    from cawn.learn.plots import can_draw
    from cawn.paper.pages import write_report
    from cawn.paper.report import MISSING_PLOTS

    report, files = write_report(out)
    if not can_draw():
        say(MISSING_PLOTS, quiet)
    if as_json:
        print(json.dumps({"folder": str(out), "files": [path.name for path in files]} | report.to_dict()))
    else:
        for path in files:
            print(path)


def _list(as_json: bool) -> None:
    from cawn.paper import EXPERIMENTS

    if as_json:
        rows = [
            {"name": name, "title": experiment.title, "in the paper": not experiment.beyond, "seeds": experiment.seeds}
            | {"datasets": experiment.networks and list(experiment.networks), "options": list(experiment.options)}
            for name, experiment in EXPERIMENTS.items()
        ]
        print(json.dumps(rows))
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    table.add_column("experiment", no_wrap=True)
    table.add_column("what it shows")
    for name, experiment in EXPERIMENTS.items():
        table.add_row(name, experiment.title)
    table.add_row(_REPORT, "Tables and plots of all results")
    Console().print(table)
