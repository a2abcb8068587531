"""Options that several commands share."""

from __future__ import annotations

import codecs
import io
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

from cawn.errors import printable

if TYPE_CHECKING:
    from cawn.predictor import LinkPredictor


def _refuse_missing_device(device: str) -> str:
    """Refuse a missing GPU while the command line is parsed, before any long work."""
    from cawn.devices import check_device, pick_device

    check_device(device)
    if device.startswith("cuda"):
        pick_device(device)
    return device


AsJson = Annotated[bool, typer.Option("--json", help="Print the result as JSON.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress and no notes.")]
MaxAhead = Annotated[
    float | None,
    typer.Option(
        min=0.0,
        metavar="TIME",
        help="How far ahead of the clock (dates; in seconds) or of the newest link (numbers) new links may be.",
    ),
]
DeviceName = Annotated[
    str,
    typer.Option(
        metavar="auto|cpu|cuda[:N]",
        callback=_refuse_missing_device,
        help="Device to use; auto takes a GPU if there is one.",
    ),
]
Threads = Annotated[int | None, typer.Option(metavar="N", help="Number of CPU threads; all cores by default.")]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Run folder.", show_default=False)]
Src = Annotated[
    str | None, typer.Option("--src", metavar="COLUMN", help="Column of sources, if not recognised by its name.")
]
Dst = Annotated[str | None, typer.Option("--dst", metavar="COLUMN", help="Column of destinations.")]
Time = Annotated[str | None, typer.Option("--time", metavar="COLUMN", help="Column of times.")]
Prior = Annotated[
    float, typer.Option(min=0.0, max=1.0, metavar="SHARE", help="Assumed share of positives among the pairs.")
]

Msg = Annotated[
    list[str] | None, typer.Option("--msg", metavar="COLUMN", help="A column of link attributes; may be repeated.")
]
Categorical = Annotated[
    list[str] | None,
    typer.Option("--categorical", metavar="COLUMN", help="A column to treat as categories; may be repeated."),
]
Weight = Annotated[str | None, typer.Option("--weight", metavar="COLUMN", help="Column of link weights for training.")]
Negative = Annotated[
    str | None, typer.Option("--negative", metavar="COLUMN", help="Column of negative destinations for training.")
]
LinkId = Annotated[
    str | None,
    typer.Option("--id", metavar="COLUMN", help="Column of link ids; links with known ids are skipped later."),
]
NodesTable = Annotated[
    Path | None,
    typer.Option("--nodes-table", metavar="FILE", help="A file of node attributes with a column of node names."),
]
NodeColumn = Annotated[
    str | None,
    typer.Option("--node-column", metavar="COLUMN", help="Its column of node names; node, name or id by default."),
]
Bipartite = Annotated[
    bool | None,
    typer.Option(
        "--bipartite/--one-name-space",
        help="Whether equal names on both sides are different nodes.",
    ),
]
ClockName = Annotated[
    str | None,
    typer.Option(
        "--clock",
        metavar="strict|event|batch:N",
        help="Links that a test link may use: those at earlier times (strict, the default), in earlier rows, or before "
        "its batch of N.",
        show_default=False,
    ),
]
ProtocolName = Annotated[
    str | None,
    typer.Option(
        "--protocol",
        metavar="strict|tgb[:N]|dyglib|paper",
        help="Split, negatives and metrics: our own (strict, the default), or those of TGB (with N candidates per "
        "link), DyGLib or the paper's code.",
        show_default=False,
    ),
]
BatchMetrics = Annotated[bool, typer.Option("--batch-metrics", help="Also report means over batches of 30 links.")]


class _PlainHelp:
    """Help without a type for flags, and with a plain one for options that may be repeated."""

    def get_params(self, ctx: Any) -> list[Any]:
        found: list[Any] = super().get_params(ctx)  # type: ignore[misc]
        for option in (option for option in found if option.metavar is None):
            if getattr(option, "is_flag", False):
                option.metavar = ""
            elif getattr(option, "multiple", False):
                option.metavar = "NAME"
        return found


class Command(_PlainHelp, TyperCommand):
    """A command of `cawn`."""


class Group(_PlainHelp, TyperGroup):
    """`cawn` itself, and commands with subcommands."""


class OutputClosedError(Exception):
    """The reader has closed our output."""


class TerminalStream(io.RawIOBase):
    """Text for a terminal: everything but line breaks, tabs and printable characters is escaped."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out = out
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        lines = self._decoder.decode(bytes(content)).split("\n")
        text = "\n".join("\t".join(map(printable, line.split("\t"))) for line in lines)
        self._out.write(text.encode("utf-8", "backslashreplace"))
        return len(content)

    def flush(self) -> None:
        self._out.flush()


def output_stream() -> IO[bytes]:
    """The stream for tables: stdout, with control characters escaped if it is a terminal."""
    plain = sys.stdout.buffer
    return cast("IO[bytes]", TerminalStream(plain)) if sys.stdout.isatty() else plain


def use_threads(threads: int | None) -> None:
    """Also limit PyTorch's threads."""
    if threads is not None:
        import torch

        from cawn.checks import check_threads
        from cawn.kernels.threads import num_threads

        check_threads(threads)
        torch.set_num_threads(num_threads(threads))


def column(name: str | None) -> str | int | None:
    """A column by name, or by position if it is a number."""
    return int(name) if name is not None and name.isdecimal() and len(name) < 10 else name


def load_predictor(run: Path, device: Any, threads: int | None, quiet: bool) -> LinkPredictor:
    """The predictor of a run folder."""
    from cawn.predictor import LinkPredictor

    predictor = LinkPredictor.load(run, device=device, threads=threads)
    say_unfinished(run, predictor.finished, quiet)
    return predictor


def say_unfinished(run: Path, finished: bool, quiet: bool) -> None:
    """A note that the probabilities of a run are not calibrated yet."""
    if not finished:
        how = f"cawn train --resume -o {run}"
        say(f"{run}: training is not finished, so probabilities are not calibrated; to resume: {how}", quiet)


def refuse_output(out: Path, force: bool) -> None:
    """Refuse an output that cannot be written or should not be overwritten."""
    from cawn.checks import check_path
    from cawn.errors import QueryError

    check_path(out, "--out")
    if out.is_dir() or (out.exists() and not out.is_file()):
        raise QueryError(f"{out}: is not a file; give the name of a file to write")
    if out.exists() and not force:
        raise QueryError(f"{out}: already exists; give --force to overwrite it")


def say(text: str, quiet: bool) -> None:
    """Print a note to stderr."""
    if not quiet:
        print("\n".join(map(printable, text.split("\n"))), file=sys.stderr, flush=True)
