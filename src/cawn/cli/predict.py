"""`cawn predict` and `cawn rank`."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from cawn.cli.options import (
    AsJson,
    DeviceName,
    Dst,
    OutputClosedError,
    Prior,
    Quiet,
    RunFolder,
    Src,
    Threads,
    Time,
    column,
    load_predictor,
    refuse_output,
    say,
)


def predict(
    run: RunFolder,
    pairs: Annotated[Path, typer.Argument(help="CSV, Parquet or Arrow: source, destination and time of each pair.")],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="CSV or .parquet; CSV on stdout if left out.")] = None,
    at: Annotated[str | None, typer.Option(help="One time for all pairs, if the file has no column of times.")] = None,
    draws: Annotated[
        int | None, typer.Option(min=2, max=1000, help="Average over so many draws; adds a column of errors.")
    ] = None,
    prior: Prior = 0.5,
    force: Annotated[bool, typer.Option("--force", help="Overwrite OUT.")] = False,
    header: Annotated[bool | None, typer.Option(help="Whether the first row of text names the columns.")] = None,
    src: Src = None,
    dst: Dst = None,
    time: Time = None,
    device: DeviceName = "auto",
    threads: Threads = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Add to each pair of a file the probability that it links at its time.

    Files of any size; the order of rows is kept. With -o, what was interrupted goes on where it stopped.

    Example: cawn predict runs/mine pairs.csv -o scored.csv
    """
    from cawn.errors import QueryError
    from cawn.readers.chunks import Pairs

    if out is not None:
        refuse_output(out, force)
        if out.suffix.lower() not in ("", ".csv", ".tsv", ".txt", ".parquet"):
            raise QueryError(f"{out}: is written as .csv or .parquet; choose such a name")
    if at is not None and time is not None:
        raise QueryError("--at and --time: give one time for all pairs, or the column of times, not both")
    if as_json and out is None:
        raise QueryError("--json needs -o: the scores themselves go to stdout otherwise")
    columns = {"src": column(src), "dst": column(dst), "time": column(time)}
    asked = Pairs.open(str(pairs), **columns, timed=at is None, header=header)
    if at is not None and asked.has_times():
        raise QueryError(f"{pairs}: has a column of times; leave out --at, or the column")
    predictor = load_predictor(run, device, threads, quiet)

    from cawn.interrupt import Interrupt
    from cawn.scoring import Question, score_to_file, score_to_stream

    question = Question(asked, at, prior, draws)
    if out is None:
        try:
            count = score_to_stream(predictor, question, sys.stdout.buffer)
        except (BrokenPipeError, ValueError) as error:
            if isinstance(error, BrokenPipeError) or "closed" in str(error):
                raise OutputClosedError from error
            raise
        _say_unknown(question.unknown, count, quiet)
        return
    with Interrupt() as interrupt:
        count = score_to_file(
            predictor,
            question,
            out,
            identity=predictor.identity,
            progress=_counter(quiet),
            check=interrupt.check,
        )
    if as_json:
        print(json.dumps({"rows": count, "out": str(out)}))
    else:
        say(f"{count:,} pairs scored: {out}", quiet)
        _say_unknown(question.unknown, count, quiet)


def rank(
    run: RunFolder,
    node: Annotated[str, typer.Option(help="Whose next link is asked for.", show_default=False)],
    time: Annotated[str, typer.Option(help="When: a number in the data's unit, or an ISO date.", show_default=False)],
    k: Annotated[int, typer.Option("-k", min=1, help="How many to show.")] = 10,
    candidate: Annotated[
        list[str] | None, typer.Option(help="Consider these only; may be repeated. Chosen from the history otherwise.")
    ] = None,
    kind: Annotated[
        list[str] | None, typer.Option(help="Choose by: recent, 'two hops', popular; may be repeated. All by default.")
    ] = None,
    prior: Prior = 0.5,
    device: DeviceName = "auto",
    threads: Threads = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """The most probable next links of a node.

    Example: cawn rank runs/mine --node alice --time 2024-05-01 -k 5
    """
    predictor = load_predictor(run, device, threads, quiet)
    if not predictor.knows(node):
        say(f"{node}: not in the network, so it has no history", quiet)
    options = {"kinds": tuple(kind)} if kind else {}
    best = predictor.rank(node, time, k, candidates=candidate, prior=prior, **options)  # type: ignore[arg-type]
    if as_json:
        rows = [{"name": r.name, "probability": r.probability, "found": r.found} for r in best]
        print(json.dumps({"node": node, "time": time, "ranked": rows}))
    else:
        from cawn import reports

        reports.show_ranking(best)


def _say_unknown(unknown: list[int], count: int, quiet: bool) -> None:
    if sum(unknown):
        say(f"{sum(unknown):,} of {count:,} pairs have a name that is not in the network: no history", quiet)


def _counter(quiet: bool) -> Callable[[int], object]:
    """Counts pairs on a terminal."""
    if quiet or not sys.stderr.isatty():
        return lambda _: None
    return lambda count: print(f"\r{count:,} pairs", end="\r", file=sys.stderr, flush=True)
