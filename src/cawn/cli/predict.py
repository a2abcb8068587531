"""`cawn predict` and `cawn rank`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    output_stream,
    refuse_output,
    say,
)

if TYPE_CHECKING:
    from cawn.cli.batch import Job
    from cawn.data.readers.query_files import PairFile
    from cawn.predictor import LinkPredictor


def predict(
    run: RunFolder,
    pairs: Annotated[
        Path,
        typer.Argument(help="Source, destination and time of each pair: CSV, JSON Lines, Parquet, Arrow, or -."),
    ],
    out: Annotated[Path | None, typer.Option("--out", "-o", help="A .csv or .parquet file; stdout by default.")] = None,
    at: Annotated[str | None, typer.Option(help="One time for all pairs, instead of a column of times.")] = None,
    draws: Annotated[
        int | None,
        typer.Option(min=2, max=1000, metavar="N", help="Average over N walk samples; adds a column of errors."),
    ] = None,
    prior: Prior = 0.5,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the output file.")] = False,
    header: Annotated[bool | None, typer.Option(help="Whether the first row of a text file names the columns.")] = None,
    src: Src = None,
    dst: Dst = None,
    time: Time = None,
    device: DeviceName = "auto",
    threads: Threads = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Score a file of pairs: adds the probability that each pair links at its time.

    The file may be of any size; the order of its rows is kept. Columns are recognised by the names they had in the
    training data. With -o, an interrupted command resumes where it stopped when it is run again.

    Example: cawn predict runs/mine pairs.csv -o scored.csv
    """
    from cawn.errors import QueryError

    _check_output(out, force, as_json)
    if at is not None and time is not None:
        raise QueryError("--at and --time: give one time for all pairs or the column of times, not both")
    opened = _open_pairs(run, pairs, {"src": column(src), "dst": column(dst), "time": column(time)}, at, header)
    predictor = load_predictor(run, device, threads, quiet)
    from cawn.cli.batch import PairJob

    _run_job(predictor, PairJob(opened, at, prior, draws), "pairs", out, quiet=quiet, as_json=as_json)


def rank(
    run: RunFolder,
    time: Annotated[
        str | None,
        typer.Option(help="A number in the data's unit, or an ISO date; just after the newest link by default."),
    ] = None,
    node: Annotated[str | None, typer.Option(help="The source node.", show_default=False)] = None,
    nodes: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Many source nodes: a file (its column 'node', or else its first column)."),
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Rank for every node.")] = False,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="With --nodes or --all: a .csv or .parquet file; stdout by default."),
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, metavar="N", help="Number of destinations to return.")] = 10,
    candidate: Annotated[
        list[str] | None, typer.Option(help="A candidate; may be repeated. Chosen from the history by default.")
    ] = None,
    candidates: Annotated[
        str | None,
        typer.Option(metavar="all|FILE", help="Candidates: every earlier destination, or the names in a file."),
    ] = None,
    everyone: Annotated[bool, typer.Option("--all-candidates", hidden=True)] = False,
    kind: Annotated[
        list[str] | None,
        typer.Option(help="Kind of candidates: recent, 'two hops' or popular; may be repeated. All by default."),
    ] = None,
    prior: Prior = 0.5,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the output file.")] = False,
    device: DeviceName = "auto",
    threads: Threads = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Rank the most probable destinations of one node, of many, or of all.

    With --nodes or --all, the output has the columns node, rank, candidate, probability and found (why it was a
    candidate). With -o, an interrupted command resumes where it stopped when it is run again.

    Example: cawn rank runs/mine --node alice --time 2024-05-01 -k 5

    Example: cawn rank runs/mine --all -k 10 -o top.parquet
    """
    from cawn.errors import QueryError

    if [node is not None, nodes is not None, every].count(True) != 1:
        raise QueryError("give --node NAME, --nodes FILE for many, or --all for every node")
    given = [f"--{name}" for name, value in (("candidate", candidate), ("candidates", candidates)) if value]
    given += ["--all-candidates"] * everyone
    if len(given) > 1:
        raise QueryError(f"{' and '.join(given)}: give one of them")
    chosen = _read_candidates("all" if everyone else candidates) if everyone or candidates else candidate
    options: dict[str, Any] = {"candidates": chosen, "prior": prior}
    options |= {"kinds": tuple(kind)} if kind else {}
    if node is None:
        from cawn.data.readers.query_files import NodeFile

        _check_output(out, force, as_json)
        every = every or (nodes == "all" and not Path(nodes).exists())
        file = None if every else NodeFile.open(str(nodes))
        predictor = load_predictor(run, device, threads, quiet)
        from cawn.cli.batch import NodeJob

        at = _query_time(predictor, time, quiet)
        _run_job(predictor, NodeJob(file, at, k, **options), "nodes", out, quiet=quiet, as_json=as_json)
        return
    if out is not None or force:
        raise QueryError("-o and --force belong to --nodes and --all; the ranking of a single node goes to stdout")
    predictor = load_predictor(run, device, threads, quiet)
    at = _query_time(predictor, time, quiet)
    if not predictor.knows(node):
        say(f"{node}: not in the network, so it has no history", quiet)
    best = predictor.rank(node, at, k, **options)
    if as_json:
        print(json.dumps({"node": node, "time": at, "ranked": [ranked._asdict() for ranked in best]}))
    else:
        from cawn.cli import reports

        reports.show_ranking(best)


def _read_candidates(given: str | None) -> Any:
    """ "all", or the names in a file."""
    from cawn.data.readers.query_files import NodeFile

    if given == "all":
        return given
    return [name for names in NodeFile.open(str(given)).name_chunks(1 << 16) for name in names]


def _query_time(predictor: LinkPredictor, time: str | None, quiet: bool) -> Any:
    """The time that was given, or that just after the newest link."""
    from cawn.data.times import format_as_read, time_after

    if time is not None:
        return time
    newest = predictor.watermark
    at = time_after(newest)
    say(f"ranking just after the newest link, at {format_as_read(newest, predictor.reading)}", quiet)
    return at


def _check_output(out: Path | None, force: bool, as_json: bool) -> None:
    from cawn.errors import QueryError

    if out is not None:
        refuse_output(out, force)
        if out.suffix.lower() not in ("", ".csv", ".tsv", ".txt", ".parquet"):
            raise QueryError(f"{out}: output is written as .csv or .parquet; choose such a name")
    elif as_json:
        raise QueryError("--json needs -o: without it the results themselves go to stdout")


def _open_pairs(run: Path, pairs: Path, given: dict[str, Any], at: str | None, header: bool | None) -> PairFile:
    """Open the file of pairs; columns that are not given are those of the training data."""
    from cawn.data.readers.query_files import PairFile
    from cawn.data.reading import Reading
    from cawn.errors import QueryError
    from cawn.learn.runs import read_description

    found = read_description(run).get("reading")
    recorded = None if found is None else Reading.from_dict(found)
    opened = PairFile.open(pairs, Reading.of(**given), recorded=recorded, timed=at is None, header=header)
    if at is not None and opened.has_times():
        raise QueryError(f"{pairs}: has a column of times; leave out --at, or the column")
    return opened


def _run_job(predictor: LinkPredictor, job: Job, unit: str, out: Path | None, *, quiet: bool, as_json: bool) -> None:
    """Write the results to a file or to stdout; after Ctrl-C, say what was kept."""
    from cawn.cli.batch import run_to_file, run_to_stream
    from cawn.interrupt import Interrupt
    from cawn.progress import progress, shows

    if out is None:
        try:
            counts = run_to_stream(predictor, job, output_stream())
        except (BrokenPipeError, ValueError) as error:
            if isinstance(error, BrokenPipeError) or "closed" in str(error):
                raise OutputClosedError from error
            raise
        except KeyboardInterrupt:
            say("interrupted; with -o the same command would resume where it stopped", quiet)
            raise
        _say_unknown(*counts, unit, quiet)
        return
    done, total = 0, job.num_rows(predictor) if shows(quiet) else None
    try:
        with Interrupt() as interrupt, progress(unit, total, quiet=quiet) as report:

            def count(so_far: int) -> None:
                nonlocal done
                done = so_far
                report(so_far)

            counts = run_to_file(predictor, job, out, progress=count, check=interrupt.check)
    except KeyboardInterrupt:
        of = "" if total is None else f" of about {total:,}"
        say(f"interrupted: {done:,}{of} {unit} are done and kept beside {out}; run the same command to resume", quiet)
        raise
    if as_json:
        print(json.dumps({"rows": counts.size, "unknown": counts.unknown, "out": str(out)}))
    else:
        say(f"{counts.size:,} {unit} {'scored' if unit == 'pairs' else 'ranked'}: {out}", quiet)
        _say_unknown(*counts, unit, quiet)


def _say_unknown(count: int, unknown: int, unit: str, quiet: bool) -> None:
    if unknown:
        have = "have a name that is" if unit == "pairs" else "are"
        say(f"{unknown:,} of {count:,} {unit} {have} not in the network: no history", quiet)
