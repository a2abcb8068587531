"""`cawn tgb`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cawn import systems
from cawn.cli.options import Bipartite, ClockName, Machine, say, use_threads, with_options
from cawn.cli.train import read_links
from cawn.errors import QueryError

if TYPE_CHECKING:
    from cawn.data.events import Events
    from cawn.learn.tgb import Benchmark


@with_options(machine=Machine)
def tgb(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="wiki, enron, uci or subreddit; with --data also lastfm, review, coin, comment or flight.",
            show_default=False,
        ),
    ],
    run: Annotated[
        list[Path] | None,
        typer.Option("--run", metavar="RUN", help="Test this run instead of training; may be repeated."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option("--data", metavar="FILE", help="TGB's file of links, if cawn does not download it."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FOLDER", help="Folder for the runs; continued if it exists.")
    ] = None,
    system: Annotated[str, typer.Option(help="System to train; 'cawn systems' lists them.")] = systems.DEFAULT,
    preset: Annotated[str, typer.Option(help="Settings to start from.")] = "default",
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Change a setting; may be repeated.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="First seed of weights and walks.")] = 0,
    seeds: Annotated[int, typer.Option(min=1, metavar="N", help="Number of seeds; TGB's leaderboard asks for 5.")] = 1,
    bipartite: Bipartite = None,
    clock: ClockName = None,
    *,
    machine: Machine,
) -> None:
    """Train a system on a dataset of the Temporal Graph Benchmark (TGB), and rank its last links by TGB's rules.

    Metrics are computed by py-tgb's Evaluator if it is installed (extra tgb), else by an equivalent of our own.

    Example: cawn tgb wiki --seeds 5 -o runs/tgbl-wiki
    """
    use_threads(machine.threads)
    from cawn.checks import check_choice
    from cawn.cli.reports import show_results
    from cawn.cli.settings import parse_settings, settings_of
    from cawn.learn.experiments import evaluate
    from cawn.learn.results import Results
    from cawn.learn.task import Task
    from cawn.learn.tgb import BENCHMARKS, summarise
    from cawn.studies.seeds import train_seeds

    check_choice(name, "NAME", tuple(BENCHMARKS))
    benchmark = BENCHMARKS[name]
    task = Task(protocol=benchmark.protocol, clock="strict" if clock is None else clock, baselines=False)
    trains = (system, preset, seed, seeds, out, bipartite) != (systems.DEFAULT, "default", 0, 1, None, None)
    if run and (settings or trains):
        what = "--system, --preset, --set, --seed, --seeds, --out, --bipartite and --one-name-space"
        raise QueryError(f"--run tests finished runs; leave out {what}")
    config = settings_of(system, preset, parse_settings(settings or []))
    plain = _links(name, benchmark, data, machine.quiet)
    one_name_space = not (benchmark.two_sided if bipartite is None else bipartite)
    if run:
        one_name_space = _check_runs(run, plain, name)
        how: dict[str, Any] = {"protocol": task.protocol, "clock": task.clock, "baselines": False}
        each, folders = [evaluate(folder, **how, **machine.options) for folder in run], [str(folder) for folder in run]
    else:
        events, order = _variant(plain, one_name_space), range(seed, seed + seeds)
        resume = out is not None and out.exists()
        made = train_seeds(events, config, task=task, seeds=order, out=out, resume=resume, **machine.options)
        each = [found.results for found in made.runs.values()]
        folders = [] if out is None else [str(out / f"seed-{each}") for each in order]
    results = Results.of(each)
    notes = _notes(name, benchmark, one_name_space=one_name_space)
    if machine.as_json:
        found = {"benchmark": f"tgbl-{name}", "runs": folders, "notes": notes}
        print(json.dumps(found | {"results": [one.tests for one in each], "summary": summarise(results)}))
        return
    show_results(results)
    for note in [f"tgbl-{name}: ranked with {results.tests[0]['evaluator']}", *notes]:
        say(note, machine.quiet)


def _links(name: str, benchmark: Benchmark, data: str | None, quiet: bool) -> Events:
    """The links of the benchmark."""
    source = data or benchmark.dataset
    if source is None:
        raise QueryError(f"the links of tgbl-{name} are not among our datasets; give TGB's file of links with --data")
    return read_links(source, {}, quiet)


def _variant(plain: Events, one_name_space: bool) -> Events:
    """The links with equal names as one node, or as two, as in TGB's loader."""
    from cawn.learn.tgb import two_sided

    return plain if one_name_space else two_sided(plain)


def _check_runs(folders: list[Path], plain: Events, name: str) -> bool:
    """Refuse runs on other links; returns whether equal names are one node in all of them."""
    import numpy as np

    from cawn.learn.runs import read_events

    found = set()
    for folder in folders:
        links = read_events(folder)
        for one_name_space in (True, False):
            same = _variant(plain, one_name_space)
            pairs = ((links.src, same.src), (links.dst, same.dst), (links.t, same.t))
            if all(np.array_equal(*columns) for columns in pairs):
                found.add(one_name_space)
                break
        else:
            raise QueryError(f"{folder}: was not trained on the links of tgbl-{name}; leave out --run to train on them")
    if len(found) > 1:
        raise QueryError(
            "a source and a destination of equal name are one node in some of these runs and two in others; "
            "test them separately"
        )
    return found.pop()


def _notes(name: str, benchmark: Benchmark, *, one_name_space: bool) -> list[str]:
    """What a comparison with TGB's results must take into account."""
    notes = []
    if benchmark.two_sided and one_name_space:
        notes.append(
            "a source and a destination of equal name are one node, but two in TGB's loader; use --bipartite for two"
        )
    elif benchmark.two_sided:
        notes.append(
            "a source and a destination of equal name are two nodes, as in TGB's loader; use --one-name-space for one"
        )
    if benchmark.two_sided or benchmark.dataset is None:
        notes.append(f"comparable with TGB's tgbl-{name} if rows are ordered and nodes are numbered as in its file")
    return notes
