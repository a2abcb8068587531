"""`cawn tune`."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from cawn import systems
from cawn.cli.options import ClockName, Columns, Cuts, Machine, ProtocolName, say, use_threads, with_options
from cawn.cli.train import read_links
from cawn.errors import QueryError, brief

_UNITS = {"": 1, "s": 1, "min": 60, "m": 60, "h": 3600, "d": 86400}


@with_options(columns=Columns, cuts=Cuts, machine=Machine)
def tune(
    data: Annotated[
        str | None,
        typer.Argument(
            metavar="DATA",
            help="A file of links, a folder, a pattern such as 'logs/*.csv', an index folder, - or the name of a "
            "dataset.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", metavar="FOLDER", help="Folder of the study, which is created or joined.")
    ] = Path("tuned"),
    trials: Annotated[int, typer.Option(min=1, metavar="N", help="Total number of trials, over all processes.")] = 50,
    system: Annotated[str, typer.Option(metavar="NAME", help="System to tune; see 'cawn systems'.")] = systems.DEFAULT,
    preset: Annotated[
        str, typer.Option(metavar="NAME", help="Settings of the first trial: a preset, or a .toml file.")
    ] = "default",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Give a setting a fixed value; may be repeated."),
    ] = None,
    epochs: Annotated[
        int | None, typer.Option(metavar="N", help="Epochs of each training, like --set epochs=N.")
    ] = None,
    space: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A TOML file of the settings to search, in the form of --show-space."),
    ] = None,
    show_space: Annotated[
        bool, typer.Option("--show-space", help="Print the settings that would be searched, and exit.")
    ] = False,
    metric: Annotated[str, typer.Option(metavar="ap|auc|mrr|hits@10", help="Validation metric to maximise.")] = "ap",
    seeds: Annotated[
        str,
        typer.Option(
            metavar="N|A,B,C", help="Seeds of each trial: their number, starting at 0, or a list such as 0,7."
        ),
    ] = "3",
    seed: Annotated[int, typer.Option(min=0, metavar="N", help="Seed of the sampler.")] = 0,
    timeout: Annotated[
        str | None, typer.Option(metavar="TIME", help="Begin no trial after this time: 90s, 30min, 2h, 1d.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, metavar="N", help="Number of processes.")] = 1,
    task: Annotated[
        Literal["transductive", "inductive"],
        typer.Option(help="Test on all last links, or on those of hidden nodes."),
    ] = "transductive",
    protocol: ProtocolName = None,
    clock: ClockName = None,
    *,
    columns: Columns,
    cuts: Cuts,
    machine: Machine,
) -> None:
    """Search for good hyperparameters of a system with Optuna, and train and test the best.

    Trials are compared on validation links; test links are used only at the end.

    The same command continues a study that was stopped or killed, and joins one that is running.

    Example: cawn tune edges.csv --trials 50 --timeout 2h -o runs/tuned
    """
    use_threads(machine.threads)
    from cawn.cli.settings import parse_settings, settings_of
    from cawn.data.summary import describe, in_words
    from cawn.studies.tuning import Search, check_study
    from cawn.studies.tuning import tune as tune_settings
    from cawn.studies.tuning.report import summary
    from cawn.studies.tuning.space import default_space, read_space

    given = parse_settings(settings or []) | ({} if epochs is None else {"epochs": epochs})
    config = settings_of(system, preset, given)
    searched = default_space(config, given) if space is None else read_space(space, config, given)
    if show_space:
        print(json.dumps(searched.to_plain()) if machine.as_json else searched.to_toml().rstrip())
        return
    if data is None:
        raise QueryError("DATA is missing: give a file of links or the name of a dataset (see 'cawn datasets')")
    duration = None if timeout is None else _seconds(timeout)
    search = Search(searched, metric, _seeds(seeds), seed, duration)
    asked = cuts.task(task, protocol, clock)
    options: dict[str, Any] = {"out": out, "trials": trials, "jobs": jobs}
    check_study(config, **options)  # before a large file is read
    events = read_links(data, columns.arguments(), machine.quiet)
    say(in_words(describe(events)), machine.quiet)
    found = tune_settings(events, config, search=search, task=asked, **options, **machine.options)
    if machine.as_json:
        print(json.dumps(found.to_dict()))
        return
    print("\n".join(summary(found)))
    say(f"written: {found.run}, {out / 'best.toml'}, {out / 'report.html'}", machine.quiet)


def _seeds(text: str) -> int | list[int]:
    """A number of seeds, or a list of seeds."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and len(part) < 20 for part in parts if part) or not any(parts):
        raise QueryError(f"--seeds {brief(text)}: give a number of seeds, or a list such as 0,1,2")
    return int(text) if len(parts) == 1 else [int(part) for part in parts if part]


def _seconds(text: str) -> float:
    """A duration such as 90s, 30min or 2h."""
    found = re.fullmatch(r"\s*(\d+(?:\.\d*)?)\s*([a-z]*)\s*", text)
    if found is None or found[2] not in _UNITS or len(found[1]) > 12 or float(found[1]) == 0:
        raise QueryError(f"--timeout {brief(text)}: give a time above 0, such as 90s, 30min, 2h or 1d")
    return float(found[1]) * _UNITS[found[2]]
