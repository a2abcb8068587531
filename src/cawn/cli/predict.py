"""`cawn predict` and `cawn rank`."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import dataclass
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
    say_unfinished,
)

if TYPE_CHECKING:
    from cawn.data.reading import Reading
    from cawn.learn.runs import StoredRun
    from cawn.predictor import LinkPredictor
    from cawn.scale.folder_output import Engine
    from cawn.scale.jobs import QueryJob, RowCounts
    from cawn.scale.plans import Plan

EngineName = Annotated[
    str,
    typer.Option("--engine", metavar="local|ray", help="Where to compute: in this process, or in Ray workers."),
]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="auto|HOST:PORT",
        help="Address of a Ray cluster; by default $RAY_ADDRESS, or a local Ray started for this command.",
        show_default=False,
    ),
]
NumWorkers = Annotated[
    int | None,
    typer.Option(
        "--workers", min=1, metavar="N", help="Number of Ray workers; one per GPU, or one per core, by default."
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Overwrite the output.")]


@dataclass(frozen=True, slots=True)
class _Execution:
    """Where and with what to compute."""

    run: Path
    engine: str
    address: str | None
    workers: int | None
    device: str
    threads: int | None
    quiet: bool

    def __post_init__(self) -> None:
        from cawn.checks import check_choice
        from cawn.errors import QueryError

        check_choice(self.engine, "--engine", ("local", "ray"))
        if self.engine == "local" and (self.address is not None or self.workers is not None):
            raise QueryError("--address and --workers require --engine ray")

    def load(self) -> LinkPredictor:
        return load_predictor(self.run, self.device, self.threads, self.quiet)

    def check_run(self, at: Any) -> StoredRun:
        """Read the run, with all checksums, which workers do not compare; refuse a time that is none."""
        from cawn.data.times import parse_query_times
        from cawn.learn.runs import read_run

        found = read_run(self.run)
        say_unfinished(self.run, found.record.finished, self.quiet)
        if at is not None:
            parse_query_times(at, found.events.t, found.form.times)
        return found

    def partition_engine(self) -> Engine:
        """The engine for the partitions of a folder."""
        if self.engine == "local":
            from cawn.scale.folder_output import run_locally

            return run_locally(self.load)
        from cawn.scale.ray_engine import run_on_ray

        return run_on_ray(self.address, self.device, self.workers, self.threads)


def predict(
    run: RunFolder,
    pairs: Annotated[
        Path,
        typer.Argument(
            help="Source, destination and time of each pair: CSV, JSON Lines, Parquet, Arrow, or -; a folder or a "
            "pattern such as 'pairs/*.parquet' for many files."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", "-o", help="A .csv or .parquet file; stdout by default. A folder if there are many files."
        ),
    ] = None,
    at: Annotated[str | None, typer.Option(help="One time for all pairs, instead of a column of times.")] = None,
    draws: Annotated[
        int | None,
        typer.Option(min=2, max=1000, metavar="N", help="Average over N walk samples; adds a column of errors."),
    ] = None,
    prior: Prior = 0.5,
    force: Force = False,
    header: Annotated[bool | None, typer.Option(help="Whether the first row of a text file names the columns.")] = None,
    src: Src = None,
    dst: Dst = None,
    time: Time = None,
    engine: EngineName = "local",
    address: Address = None,
    workers: NumWorkers = None,
    device: DeviceName = "auto",
    threads: Threads = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Score a file of pairs: adds the probability that each pair links at its time.

    The file may be of any size; the order of its rows is kept. Columns are recognised by the names they had in the
    training data. With -o, an interrupted command resumes where it stopped when it is run again.

    The output of a folder or pattern of files, and of --engine ray, is a folder of Parquet files in the same order.

    Example: cawn predict runs/mine pairs.csv -o scored.csv

    Example: cawn predict runs/mine pairs/ -o scored/ --engine ray
    """
    from cawn.data.reading import Reading
    from cawn.errors import QueryError
    from cawn.files import refuse_within
    from cawn.scale.plans import is_folder_or_pattern, open_pairs, plan_pairs

    execution = _Execution(run, engine, address, workers, device, threads, quiet)
    if at is not None and time is not None:
        raise QueryError("--at and --time: give one time for all pairs or the column of times, not both")
    wanted = Reading.of(src=column(src), dst=column(dst), time=column(time))
    if execution.engine == "ray" or is_folder_or_pattern(str(pairs)) or _is_folder(out):
        folder = _output_folder(out)
        refuse_within(folder, str(pairs))
        opened = open_pairs(run, str(pairs), wanted, at=at, header=header)
        plan = plan_pairs(run, opened, at, prior, draws)
        if execution.engine == "ray":
            execution.check_run(at)
        _run_plan(plan, execution, folder, force=force, as_json=as_json)
        return
    _check_output(out, force, as_json)
    (file,) = open_pairs(run, str(pairs), wanted, at=at, header=header)
    from cawn.scale.jobs import PairJob

    _run_job(execution.load(), PairJob(file, at, prior, draws), "pairs", out, quiet=quiet, as_json=as_json)


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
        typer.Option(
            "--out",
            "-o",
            help="With --nodes or --all: a .csv or .parquet file; stdout by default. With Ray: a folder.",
        ),
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, metavar="N", help="Number of destinations to return.")] = 10,
    candidate: Annotated[
        list[str] | None, typer.Option(help="A candidate; may be repeated. Chosen from the history by default.")
    ] = None,
    candidates: Annotated[
        str | None,
        typer.Option(metavar="all|FILE", help="Candidates: every earlier destination, or the names in a file."),
    ] = None,
    kind: Annotated[
        list[str] | None,
        typer.Option(help="Kind of candidates: recent, 'two hops' or popular; may be repeated. All by default."),
    ] = None,
    prior: Prior = 0.5,
    force: Force = False,
    engine: EngineName = "local",
    address: Address = None,
    workers: NumWorkers = None,
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

    execution = _Execution(run, engine, address, workers, device, threads, quiet)
    if [node is not None, nodes is not None, every].count(True) != 1:
        raise QueryError("give --node NAME, --nodes FILE for many, or --all for every node")
    given = [f"--{name}" for name, value in (("candidate", candidate), ("candidates", candidates)) if value]
    if len(given) > 1:
        raise QueryError(f"{' and '.join(given)}: give one of them")
    chosen = _read_candidates(candidates) if candidates else candidate
    options: dict[str, Any] = {"candidates": chosen, "prior": prior}
    options |= {"kinds": tuple(kind)} if kind else {}
    if node is None:
        every = every or (nodes == "all" and not Path(str(nodes)).exists())
        options |= {"k": k}
        _rank_many(execution, None if every else str(nodes), time, out, options, force=force, as_json=as_json)
        return
    if execution.engine == "ray":
        raise QueryError("--engine ray requires --nodes or --all; a single node is ranked in this process")
    if out is not None or force:
        raise QueryError("-o and --force require --nodes or --all; the ranking of a single node goes to stdout")
    predictor = execution.load()
    at = _query_time(predictor, predictor.reading, time, quiet)
    if not predictor.knows(node):
        say(f"{node}: not in the network, so it has no history", quiet)
    best = predictor.rank(node, at, k, **options)
    if as_json:
        print(json.dumps({"node": node, "time": at, "ranked": [ranked._asdict() for ranked in best]}))
    else:
        from cawn.cli import reports

        reports.show_ranking(best)


def _rank_many(
    execution: _Execution,
    nodes: str | None,
    time: str | None,
    out: Path | None,
    options: dict[str, Any],
    *,
    force: bool,
    as_json: bool,
) -> None:
    """Rank for the nodes of a file, or for all."""
    from cawn.data.readers.query_files import NodeFile

    quiet = execution.quiet
    if execution.engine == "ray" or _is_folder(out):
        from cawn.scale.jobs import NodeJob
        from cawn.scale.plans import plan_nodes

        folder = _output_folder(out)
        file = None if nodes is None else NodeFile.open(nodes)
        found = execution.check_run(time)
        at = _query_time(found.events.t[-1].item(), found.reading, time, quiet)
        plan = plan_nodes(execution.run, NodeJob(file, at, **options), len(found.names))
        _run_plan(plan, execution, folder, force=force, as_json=as_json)
        return
    _check_output(out, force, as_json)
    file = None if nodes is None else NodeFile.open(nodes)
    predictor = execution.load()
    from cawn.scale.jobs import NodeJob

    at = _query_time(predictor, predictor.reading, time, quiet)
    _run_job(predictor, NodeJob(file, at, **options), "nodes", out, quiet=quiet, as_json=as_json)


def _read_candidates(given: str | None) -> Any:
    """ "all", or the names in a file."""
    from cawn.data.readers.query_files import NodeFile

    if given == "all":
        return given
    return [name for names in NodeFile.open(str(given)).name_chunks(1 << 16) for name in names]


def _query_time(predictor: LinkPredictor, reading: Reading | None, time: str | None, quiet: bool) -> Any:
    """The time that was given, or that just after the newest link."""
    from cawn.data.reading import Reading
    from cawn.data.times import format_as_read, time_after
    from cawn.snapshot import newest_time

    if time is not None:
        return time
    at = time_after(newest := newest_time(predictor))
    say(f"ranking just after the newest link, at {format_as_read(newest, reading or Reading())}", quiet)
    return at


def _check_output(out: Path | None, force: bool, as_json: bool) -> None:
    from cawn.errors import QueryError

    if out is not None:
        refuse_output(out, force)
        if out.suffix.lower() not in ("", ".csv", ".tsv", ".txt", ".parquet"):
            raise QueryError(f"{out}: output is written as .csv or .parquet; choose such a name")
    elif as_json:
        raise QueryError("--json needs -o: without it the results themselves go to stdout")


def _is_folder(out: Path | None) -> bool:
    return out is not None and out.is_dir()


def _output_folder(out: Path | None) -> Path:
    from cawn.checks import check_path
    from cawn.errors import QueryError

    if out is None:
        raise QueryError("give -o FOLDER: the results are a folder of Parquet files")
    if out.suffix.lower() in (".csv", ".tsv", ".txt", ".parquet"):
        raise QueryError(f"{out}: the results are a folder of Parquet files; choose a name without {out.suffix}")
    return check_path(out, "--out")


def _run_plan(plan: Plan, execution: _Execution, out: Path, *, force: bool, as_json: bool) -> None:
    """Write the results to a folder; after Ctrl-C, say what was kept."""
    from cawn.interrupt import Interrupt
    from cawn.progress import progress
    from cawn.scale.folder_output import run_to_folder

    done, quiet = 0, execution.quiet
    # Ray's workers finish or drop a partition whenever the driver ends, so Ctrl-C may take effect at once.
    waiting = Interrupt() if execution.engine == "local" else nullcontext()
    try:
        with waiting as interrupt, progress(plan.unit, plan.size, quiet=quiet) as report:

            def tick(more: int) -> None:
                nonlocal done
                done += more
                report(done)
                if interrupt is not None:
                    interrupt.check()

            counts = run_to_folder(plan, out, execution.partition_engine(), force=force, tick=tick)
    except KeyboardInterrupt:
        say(f"interrupted: finished partitions are kept in {out}; run the same command to resume", quiet)
        raise
    _say_done(counts, plan.unit, out, quiet=quiet, as_json=as_json)


def _run_job(
    predictor: LinkPredictor, job: QueryJob, unit: str, out: Path | None, *, quiet: bool, as_json: bool
) -> None:
    """Write the results to a file or to stdout; after Ctrl-C, say what was kept."""
    from cawn.interrupt import Interrupt
    from cawn.progress import progress, shows
    from cawn.scale.file_output import run_to_file, run_to_stream

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
    _say_done(counts, unit, out, quiet=quiet, as_json=as_json)


def _say_done(counts: RowCounts, unit: str, out: Path, *, quiet: bool, as_json: bool) -> None:
    if as_json:
        print(json.dumps({"rows": counts.size, "unknown": counts.unknown, "out": str(out)}))
    else:
        say(f"{counts.size:,} {unit} {'scored' if unit == 'pairs' else 'ranked'}: {out}", quiet)
        _say_unknown(*counts, unit, quiet)


def _say_unknown(count: int, unknown: int, unit: str, quiet: bool) -> None:
    if unknown:
        have = "have a name that is" if unit == "pairs" else "are"
        say(f"{unknown:,} of {count:,} {unit} {have} not in the network: no history", quiet)
