"""Options that several commands share."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

if TYPE_CHECKING:
    from cawn.predictor import LinkPredictor

AsJson = Annotated[bool, typer.Option("--json", help="Machine-readable result on stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no remarks.")]
DeviceName = Annotated[Literal["auto", "cpu", "cuda"], typer.Option(help="Where the network runs.")]
Threads = Annotated[int | None, typer.Option(min=1, help="Cores to use; all by default.")]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a trained run.", show_default=False)]
Src = Annotated[str | None, typer.Option("--src", help="Column of the sources, if its name is unusual.")]
Dst = Annotated[str | None, typer.Option("--dst", help="Column of the destinations.")]
Time = Annotated[str | None, typer.Option("--time", help="Column of the times.")]
Prior = Annotated[float, typer.Option(min=0.0, max=1.0, help="Share of true links among what is asked about.")]


Msg = Annotated[list[str] | None, typer.Option("--msg", help="A column of link attributes; may be repeated.")]
Bipartite = Annotated[
    bool | None, typer.Option("--bipartite/--one-name-space", help="Are equal names on both sides two nodes?")
]
BatchMetrics = Annotated[bool, typer.Option("--batch-metrics", help="Also means over batches of 30 links.")]


class OutputClosedError(Exception):
    """Whoever read our output has gone."""


def use_threads(threads: int | None) -> None:
    """Limit PyTorch, too."""
    if threads is not None:
        import torch

        torch.set_num_threads(threads)


def column(name: str | None) -> str | int | None:
    """A column by name, or by position where it is a number."""
    return int(name) if name is not None and name.isdecimal() and len(name) < 10 else name


def load_predictor(run: Path, device: Any, threads: int | None, quiet: bool) -> LinkPredictor:
    """The predictor of a run folder."""
    from cawn.predictor import LinkPredictor

    predictor = LinkPredictor.load(run, device=device, threads=threads)
    if not predictor.finished:
        how = f"cawn train --resume -o {run}"
        say(f"{run}: its training has not ended, so probabilities are not calibrated; go on with {how}", quiet)
    return predictor


def moment(text: str) -> Any:
    """A time as a number where it is one; else it must be a date."""
    for kind in (int, float):
        try:
            return kind(text) if len(text) < 400 else text
        except ValueError:
            continue
    return text


def refuse_output(out: Path, force: bool) -> None:
    """Refuse an output that should not be written over."""
    from cawn.errors import QueryError

    if out.is_dir() or (out.exists() and not out.is_file()):
        raise QueryError(f"{out}: is not a file; name the file to write")
    if out.exists() and not force:
        raise QueryError(f"{out}: exists already; give --force to overwrite it")


def say(text: str, quiet: bool) -> None:
    """A remark, beside the result."""
    if not quiet:
        print(text, file=sys.stderr, flush=True)
