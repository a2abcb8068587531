"""`cawn predict` and `cawn rank`."""

from __future__ import annotations

import json
from collections.abc import Callable
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
    from cawn.cli.answers import Questions
    from cawn.data.readers.query_files import PairFile
    from cawn.predictor import LinkPredictor


def predict(
    run: RunFolder,
    pairs: Annotated[
        Path, typer.Argument(help="CSV, JSON Lines, Parquet or Arrow, or -: source, destination and time of each pair.")
    ],
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

    Files of any size; the order of rows is kept. Columns are those of the links the run was trained on, where the file
    has them. With -o, what was interrupted goes on where it stopped: give the same command again.

    Example: cawn predict runs/mine pairs.csv -o scored.csv
    """
    from cawn.errors import QueryError

    _check_output(out, force, as_json)
    if at is not None and time is not None:
        raise QueryError("--at and --time: give one time for all pairs, or the column of times, not both")
    asked = _open_pairs(run, pairs, {"src": column(src), "dst": column(dst), "time": column(time)}, at, header)
    predictor = load_predictor(run, device, threads, quiet)
    from cawn.cli.answers import PairQuestions

    questions = PairQuestions(asked, at, prior, draws)
    _answer(predictor, questions, "pairs", asked.num_rows, out, quiet=quiet, as_json=as_json)


def rank(
    run: RunFolder,
    time: Annotated[str, typer.Option(help="When: a number in the data's unit, or an ISO date.", show_default=False)],
    node: Annotated[str | None, typer.Option(help="Node to rank next links of.", show_default=False)] = None,
    nodes: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="Rank for every node of a file (its column 'node', else the first), or for 'all'."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="With --nodes: CSV or .parquet; CSV on stdout if left out.")
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, metavar="N", help="Number of candidates to show.")] = 10,
    candidate: Annotated[
        list[str] | None, typer.Option(help="Consider these only; may be repeated. Chosen from the history otherwise.")
    ] = None,
    everyone: Annotated[
        bool, typer.Option("--all-candidates", help="Consider every node that was a destination before.")
    ] = False,
    kind: Annotated[
        list[str] | None, typer.Option(help="Choose by: recent, 'two hops', popular; may be repeated. All by default.")
    ] = None,
    prior: Prior = 0.5,
    force: Annotated[bool, typer.Option("--force", help="Overwrite OUT.")] = False,
    device: DeviceName = "auto",
    threads: Threads = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Rank the most probable next links of a node, or of many.

    With --nodes, a table of node, rank, candidate, probability and found (why it was considered). With -o, what was
    interrupted goes on where it stopped: give the same command again.

    Example: cawn rank runs/mine --node alice --time 2024-05-01 -k 5

    Example: cawn rank runs/mine --nodes all --time 2024-05-01 -o top.parquet
    """
    from cawn.errors import QueryError

    if (node is None) == (nodes is None):
        raise QueryError("give --node NAME, or --nodes FILE for many")
    if everyone and candidate:
        raise QueryError("--candidate and --all-candidates: give one of them")
    options: dict[str, Any] = {"candidates": "all" if everyone else candidate, "prior": prior}
    options |= {"kinds": tuple(kind)} if kind else {}
    if node is None:
        _rank_many(run, str(nodes), time, k, out, options, force, device, threads, quiet, as_json)
        return
    if out is not None or force:
        raise QueryError("-o and --force belong to --nodes; the ranking of one node goes to stdout")
    predictor = load_predictor(run, device, threads, quiet)
    if not predictor.knows(node):
        say(f"{node}: not in the network, so it has no history", quiet)
    best = predictor.rank(node, time, k, **options)
    if as_json:
        print(json.dumps({"node": node, "time": time, "ranked": [ranked._asdict() for ranked in best]}))
    else:
        from cawn.cli import reports

        reports.show_ranking(best)


def _rank_many(
    run: Path,
    nodes: str,
    at: Any,
    k: int,
    out: Path | None,
    options: dict[str, Any],
    force: bool,
    device: Any,
    threads: int | None,
    quiet: bool,
    as_json: bool,
) -> None:
    from cawn.data.readers.query_files import NodeFile

    _check_output(out, force, as_json)
    file = None if nodes == "all" and not Path(nodes).exists() else NodeFile.open(nodes)
    predictor = load_predictor(run, device, threads, quiet)
    from cawn.cli.answers import NodeQuestions

    questions = NodeQuestions(file, at, k, **options)
    total = (lambda: len(predictor.nodes())) if file is None else file.num_rows
    _answer(predictor, questions, "nodes", total, out, quiet=quiet, as_json=as_json)


def _check_output(out: Path | None, force: bool, as_json: bool) -> None:
    from cawn.errors import QueryError

    if out is not None:
        refuse_output(out, force)
        if out.suffix.lower() not in ("", ".csv", ".tsv", ".txt", ".parquet"):
            raise QueryError(f"{out}: is written as .csv or .parquet; choose such a name")
    elif as_json:
        raise QueryError("--json needs -o: the answers themselves go to stdout otherwise")


def _open_pairs(run: Path, pairs: Path, given: dict[str, Any], at: str | None, header: bool | None) -> PairFile:
    """The file of pairs, with the columns of the run's own links where others are not given."""
    from cawn.data.readers.query_files import PairFile
    from cawn.data.reading import Reading
    from cawn.errors import QueryError
    from cawn.learn.runs import read_description

    found = read_description(run).get("reading")
    recorded = None if found is None else Reading.from_dict(found)
    asked = PairFile.open(pairs, Reading.of(**given), recorded=recorded, timed=at is None, header=header)
    if at is not None and asked.has_times():
        raise QueryError(f"{pairs}: has a column of times; leave out --at, or the column")
    return asked


def _answer(
    predictor: LinkPredictor,
    questions: Questions,
    what: str,
    total: Callable[[], int | None],
    out: Path | None,
    *,
    quiet: bool,
    as_json: bool,
) -> None:
    """Write the answers to a file or to stdout; what Ctrl-C leaves is said in one line."""
    from cawn.cli.answers import answer_to_file, answer_to_stream
    from cawn.interrupt import Interrupt
    from cawn.progress import progress, shows

    if out is None:
        try:
            done = answer_to_stream(predictor, questions, output_stream())
        except (BrokenPipeError, ValueError) as error:
            if isinstance(error, BrokenPipeError) or "closed" in str(error):
                raise OutputClosedError from error
            raise
        except KeyboardInterrupt:
            say("interrupted; with -o the same command would go on where it stopped", quiet)
            raise
        _say_unknown(done.unknown, done.size, what, quiet)
        return
    so_far = 0
    known_total = total() if shows(quiet) else None
    try:
        with Interrupt() as interrupt, progress(what, known_total, quiet=quiet) as report:

            def count(done: int) -> None:
                nonlocal so_far
                so_far = done
                report(done)

            done = answer_to_file(
                predictor, questions, out, identity=predictor.identity, progress=count, check=interrupt.check
            )
    except KeyboardInterrupt:
        of = "" if known_total is None else f" of about {known_total:,}"
        say(f"interrupted: {so_far:,}{of} {what} are done and kept beside {out}; the same command goes on", quiet)
        raise
    if as_json:
        print(json.dumps({"rows": done.size, "unknown": done.unknown, "out": str(out)}))
    else:
        say(f"{done.size:,} {what} {'scored' if what == 'pairs' else 'ranked'}: {out}", quiet)
        _say_unknown(done.unknown, done.size, what, quiet)


def _say_unknown(unknown: int, count: int, what: str, quiet: bool) -> None:
    if unknown:
        have = "have a name that is" if what == "pairs" else "are"
        say(f"{unknown:,} of {count:,} {what} {have} not in the network: no history", quiet)
