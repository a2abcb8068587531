"""`cawn train` and `cawn evaluate`."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from cawn import systems
from cawn.cli.options import (
    BatchMetrics,
    ClockName,
    Columns,
    Cuts,
    LinkId,
    Machine,
    ProtocolName,
    RunFolder,
    say,
    use_threads,
    with_options,
)
from cawn.errors import brief

if TYPE_CHECKING:
    from cawn.data.events import Events


@with_options(columns=Columns, cuts=Cuts, machine=Machine)
def train(
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA",
            help="A file of links, a folder, a pattern such as 'logs/*.csv', an index folder, - or the name of a "
            "dataset.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="RUN", help="Run folder to write.")] = Path("run"),
    id_column: LinkId = None,
    task: Annotated[
        Literal["transductive", "inductive"],
        typer.Option(help="Test on all last links, or on those of hidden nodes."),
    ] = "transductive",
    system: Annotated[str, typer.Option(help=f"System to train: {systems.summaries()}.")] = systems.DEFAULT,
    preset: Annotated[
        str,
        typer.Option(
            help="Settings to start from: a preset ('cawn systems NAME' lists them), or a .toml file of a run."
        ),
    ] = "default",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting ('cawn systems NAME'); may be repeated."),
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of split, negatives, weights and walks.")] = 0,
    seeds: Annotated[
        int, typer.Option(min=1, metavar="N", help="Number of seeds, starting at --seed; reports 95 % intervals.")
    ] = 1,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the run; DATA may be left out.")] = False,
    refit: Annotated[
        bool, typer.Option("--refit", help="After the test, train again on all links; predictors use these weights.")
    ] = False,
    tensorboard: Annotated[bool, typer.Option("--tensorboard", help="Also write TensorBoard logs.")] = False,
    protocol: ProtocolName = None,
    clock: ClockName = None,
    batch_metrics: BatchMetrics = False,
    global_batch: Annotated[
        int | None,
        typer.Option(
            "--global-batch",
            min=1,
            metavar="N",
            help="Global batch size, over all processes; lr is scaled in proportion unless it is set.",
            show_default=False,
        ),
    ] = None,
    devices: Annotated[
        int | None,
        typer.Option(
            "--devices",
            min=1,
            max=1024,
            metavar="N",
            help="Number of processes on this machine, which divide each batch; one GPU per process if there are "
            "enough. For several machines, use torchrun.",
            show_default=False,
        ),
    ] = None,
    *,
    columns: Columns,
    cuts: Cuts,
    machine: Machine,
) -> None:
    """Train CAW-N, or another system, on a network and test it on its last links.

    Example: cawn train edges.csv --train-until 2024-01-01 --test-from 2024-02-01 -o runs/mine
    """
    if devices is not None and devices > 1 and "RANK" not in os.environ:
        from cawn.learn.launcher import launch

        raise typer.Exit(launch(devices, sys.argv[1:]))
    use_threads(machine.threads)
    from cawn.cli import reports
    from cawn.cli.settings import parse_settings, settings_of
    from cawn.data.summary import describe, in_words
    from cawn.errors import QueryError
    from cawn.explain.link import explains
    from cawn.learn import ranks
    from cawn.learn.arguments import check_folder, with_global_batch
    from cawn.learn.experiments import train as train_once
    from cawn.learn.reporting import TensorBoard
    from cawn.learn.runs import read_config, read_description
    from cawn.learn.task import Task
    from cawn.studies.seeds import train_seeds

    here = ranks.join(machine.device)
    silent = machine.quiet or not here.first
    first = out / f"seed-{seed}" if seeds > 1 else out
    asked = cuts.task(task, protocol, clock, refit=refit)
    if here.first or resume:  # rank 0 alone refuses what is in the folder
        check_folder(first, resume=resume)
    board = TensorBoard() if tensorboard and here.first else None
    if resume:
        description, config = read_description(first), read_config(first)
        seed = description["seed"] if seeds == 1 else seed
        kept = not settings and (system, preset, global_batch) == (systems.DEFAULT, "default", None)
        if not kept or cuts != Cuts() or clock is not None or protocol is not None:
            raise QueryError(
                "--resume keeps the run's own settings and split; leave out --system, --preset, --set, --global-batch, "
                "the split, --protocol and --clock"
            )
        before = Task.recorded(description)
        asked = replace(before, refit=refit or before.refit)
    else:
        given = parse_settings(settings or [])
        config = settings_of(system, preset, given)
        if global_batch is not None:
            if "batch_size" in given:
                raise QueryError("--global-batch sets batch_size; leave out --set batch_size")
            config, rule = with_global_batch(config, global_batch, scaled="lr" not in given)
            say(rule, silent)
    given = columns.arguments(id_column)
    events = ranks.share_links(here, f"{data} {given}", lambda: _events(data, first, resume, given, silent))
    say(in_words(describe(events)), silent)
    options: dict[str, Any] = {"task": asked, "resume": resume, "callback": board} | machine.options
    if seeds > 1:
        made = train_seeds(events, config, seeds=range(seed, seed + seeds), out=out, **options)
        results, report, summary = made.results, made.runs[seed].report, {"seeds": made.to_list()}
    else:
        run = train_once(events, config, seed=seed, out=out, **options)
        results, report, summary = run.results, run.report, {}
    if not here.first:
        return
    if machine.as_json:
        tests = results.where(seed=seed).tests
        found: dict[str, Any] = {"run": str(out), "data": describe(events), "results": tests, "report": report}
        print(json.dumps(found | summary))
        return
    reports.show_results(results, batch_metrics=batch_metrics)
    reports.show_candidates(report)
    if not machine.quiet:
        reports.show_next(first, events, explains=explains(config))


@with_options(machine=Machine)
def evaluate(
    run: RunFolder,
    negatives: Annotated[
        list[str] | None, typer.Option(help="A kind of negatives, such as historical; may be repeated. All by default.")
    ] = None,
    protocol: ProtocolName = None,
    clock: ClockName = None,
    batch_metrics: BatchMetrics = False,
    data: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Later links to measure the accuracy on; they are not added."),
    ] = None,
    *,
    machine: Machine,
) -> None:
    """Test a run again on its last links and compare it with its baselines, or on later links.

    Example: cawn evaluate runs/mine --protocol tgb

    Example: cawn evaluate runs/mine --data today.csv
    """
    use_threads(machine.threads)
    if data is not None:
        return _evaluate_on(run, data, machine)
    from cawn.cli import reports
    from cawn.learn.experiments import evaluate as evaluate_run

    kinds = None if negatives is None else tuple(negatives)
    say(f"testing {run}", machine.quiet or not sys.stderr.isatty())
    results = evaluate_run(run, negatives=kinds, protocol=protocol, clock=clock, **machine.options)
    if machine.as_json:
        print(json.dumps({"run": str(run), "results": results.tests}))
    else:
        reports.show_results(results, batch_metrics=batch_metrics)
    return None


def _evaluate_on(run: Path, data: Path, machine: Machine) -> None:
    """The accuracy on later links."""
    from cawn.cli.reports import describe_accuracy
    from cawn.predictor import LinkPredictor

    found = LinkPredictor.load(run, device=machine.device, threads=machine.threads, cache=False).evaluate(data)
    print(json.dumps({"run": str(run)} | found) if machine.as_json else describe_accuracy(found))


def _events(data: str | None, out: Path, resume: bool, given: dict[str, Any], quiet: bool) -> Events:
    """The links to train on: from a file, a dataset, or the run that is resumed."""
    from cawn.errors import QueryError

    if data is None:
        if not resume:
            raise QueryError("DATA is missing: give a file of links or the name of a dataset (see 'cawn datasets')")
        from cawn.learn.runs import read_events

        _refuse_given(given, "the links of the run are used")
        return read_events(out)
    return read_links(data, given, quiet)


def read_links(data: str, given: dict[str, Any], quiet: bool) -> Events:
    """The links of a file, with further arguments of `cawn.read`, or of a dataset."""
    from cawn.data import datasets
    from cawn.data.readers import read
    from cawn.errors import QueryError

    if data in datasets.CATALOG and not Path(data).exists():
        _refuse_given(given, f"{data} is a dataset")
        from cawn.cli.data import download_progress

        with download_progress(data, quiet) as progress:
            return datasets.load(data, progress=progress)
    if not Path(data).exists() and data != "-" and not set(data) & set("./*?["):
        known = ", ".join(datasets.CATALOG)
        raise QueryError(f"{brief(data)}: no such file, and no dataset of this name; datasets are {known}")
    events = read(data, **given)
    say(f"{data}: {_columns(events)}", quiet)
    return events


def _refuse_given(given: dict[str, Any], reason: str) -> None:
    """Refuse options that describe a file if no file is read."""
    from cawn.errors import QueryError

    names = {"nodes": "nodes-table", "node": "node-column", "link_id": "id"}
    for role in given:
        raise QueryError(f"--{names.get(role, role)} describes a file, but {reason}; leave it out")


def _columns(events: Events) -> str:
    """Which columns of a file were used, and as what."""
    assert events.reading is not None
    reading = events.reading
    found = f"from {brief(reading.src)} to {brief(reading.dst)} at {brief(reading.time)}"
    for of, attributes in (("link", events.columns), ("node", events.node_columns)):
        described = [
            brief(each.name) + (f" ({len(each.levels):,} categories)" if each.kind == "category" else "")
            for each in attributes
            if each.kind != "presence"
        ]
        if described:
            more = f" and {len(described) - 8} more" if len(described) > 8 else ""
            found += f"; {of} attributes {', '.join(described[:8])}{more}"
    return found
