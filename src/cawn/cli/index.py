"""`cawn index`."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from cawn import systems
from cawn.cli.options import AsJson, Columns, Cuts, Quiet, Threads, say, use_threads, with_options


@with_options(columns=Columns, cuts=Cuts)
def index(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA", help="A file, a folder or a pattern such as 'logs/*.parquet'.", show_default=False
        ),
    ],
    out: Annotated[Path, typer.Option("--out", "-o", metavar="FOLDER", help="Index folder to write.")] = Path("index"),
    memory: Annotated[str, typer.Option(metavar="SIZE", help="Memory limit, such as 4GiB or 500MB.")] = "4GiB",
    system: Annotated[str, typer.Option(metavar="cawn|rates", help="System whose index is built.")] = systems.DEFAULT,
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
    threads: Threads = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
    *,
    columns: Columns,
    cuts: Cuts,
) -> None:
    """Write the links of a log, which may be larger than memory, and their index to a folder that is then used as DATA.

    If interrupted, run the same command again to continue after the last finished stage.

    Example: cawn index 'logs/*.parquet' -o logs.index --memory 4GiB && cawn train logs.index -o runs/mine
    """
    use_threads(threads)
    from cawn.checks import parse_bytes
    from cawn.cli.settings import parse_settings, settings_of
    from cawn.learn.indexing import build_index, summary
    from cawn.progress import progress

    limit = parse_bytes(memory, "--memory")
    config = settings_of(system, preset, parse_settings(settings or []))
    report, given = partial(progress, quiet=quiet), columns.arguments()
    try:
        build_index(data, out, config, memory=limit, split=cuts.split, threads=threads, report=report, **given)
    except KeyboardInterrupt:
        say("stopped; the same command continues after the last finished stage", quiet)
        raise
    found = summary(out)
    if as_json:
        print(json.dumps(found))
        return
    size = sum(found["files"].values())
    print(f"{out}: {found['links']:,} links, {found['nodes']:,} nodes, {size / 1e9:,.2f} GB")
    say(f"next: cawn train {out} -o runs/mine", quiet)
