"""`cawn update`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from cawn.cli.options import AsJson, Dst, MaxAhead, Quiet, RunFolder, Src, Threads, Time, column, say


def update(
    run: RunFolder,
    new: Annotated[Path, typer.Argument(metavar="DATA", help="A file of new links.", show_default=False)],
    id_column: Annotated[
        str | None, typer.Option("--id", metavar="COLUMN", help="Column of link ids; links with known ids are skipped.")
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Skip links that the run has already: the same ends, time and attributes.")
    ] = False,
    keep_calibration: Annotated[
        bool, typer.Option("--keep-calibration", help="Do not refit the calibration of probabilities on the new links.")
    ] = False,
    max_ahead: MaxAhead = None,
    src: Src = None,
    dst: Dst = None,
    time: Time = None,
    threads: Threads = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Add new links to the history of a run and refit its calibration; the model is not retrained.

    Columns are recognised by the names they had in the training data. The run is updated atomically.

    Example: cawn update runs/mine today.csv --id transaction
    """
    from cawn.cli.reports import describe_accuracy
    from cawn.errors import QueryError
    from cawn.files import FolderLock
    from cawn.learn.runs import read_description, replace_links
    from cawn.predictor import LinkPredictor, changes_of

    read_description(run)
    if (run / "live" / "state.sqlite").exists() or (run / "live" / "state.json").exists():
        raise QueryError(
            f"{run / 'live'}: links that a server stored belong to the run as it is; send new links to the server, or "
            "move this folder away"
        )
    given = {"src": column(src), "dst": column(dst), "time": column(time), "link_id": column(id_column)}
    columns = {role: said for role, said in given.items() if said is not None}
    with FolderLock(run) as lock:
        # The index is about to change, so it is not cached.
        options: dict[str, Any] = {"recalibrate": not keep_calibration, "cache": False, "max_ahead": max_ahead}
        predictor = LinkPredictor.load(run, device="cpu", threads=threads, **options)
        found: list[dict[str, Any]] = []
        done = predictor.update(new, once=once, on_accuracy=found.append, **columns)
        if done.added:
            state = predictor.snapshot()
            replace_links(run, state.events, names=state.names, lock=lock, changes=changes_of(state))
    if as_json:
        facts = {"accuracy": found[0] if found else None, "links": predictor.num_links, "run": str(run)}
        print(json.dumps(done._asdict() | facts))
    else:
        skipped = f", {done.skipped:,} known links skipped" if done.skipped else ""
        for accuracy in found:
            say(describe_accuracy(accuracy), quiet)
        say(f"{done.added:,} links and {done.nodes_added:,} nodes added{skipped}: {run}", quiet)
