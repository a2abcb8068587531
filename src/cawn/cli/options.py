"""Options that several commands share."""

from __future__ import annotations

import codecs
import io
import sys
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, fields
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, ClassVar, cast, get_args, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup

from cawn.errors import printable

if TYPE_CHECKING:
    from cawn.learn.task import Nodes, Task, TimeSplit
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


TrainUntil = Annotated[
    str | None, typer.Option("--train-until", metavar="TIME", help="Train on links before this date or number.")
]
TestFrom = Annotated[
    str | None, typer.Option("--test-from", metavar="TIME", help="Test on links from this date or number on.")
]
TrainShare = Annotated[float | None, typer.Option("--train-share", help="Share of links to train on; 0.7 by default.")]
ValShare = Annotated[float | None, typer.Option("--val-share", help="Share of links to validate on; 0.15 by default.")]


@dataclass(frozen=True)
class Columns:
    """Which columns of DATA are what."""

    PANEL: ClassVar[str] = "Columns of DATA"

    src: Src = None
    dst: Dst = None
    time: Time = None
    msg: Msg = None
    categorical: Categorical = None
    weight: Weight = None
    negative: Negative = None
    nodes_table: NodesTable = None
    node_column: NodeColumn = None
    bipartite: Bipartite = None

    def arguments(self, link_id: str | None = None) -> dict[str, Any]:
        """Those that are given, as arguments of `cawn.read`."""
        columns = {name: getattr(self, name) for name in ("src", "dst", "time", "weight", "negative")}
        columns |= {"node": self.node_column, "link_id": link_id}
        found: dict[str, Any] = {role: column(name) for role, name in columns.items()}
        for role, several in (("msg", self.msg), ("categorical", self.categorical)):
            found[role] = None if several is None else [*map(column, several)]
        found |= {"nodes": self.nodes_table, "bipartite": self.bipartite}
        return {role: given for role, given in found.items() if given is not None}


@dataclass(frozen=True)
class Cuts:
    """Where training ends and the test begins."""

    PANEL: ClassVar[str] = "Split"

    train_until: TrainUntil = None
    test_from: TestFrom = None
    train_share: TrainShare = None
    val_share: ValShare = None

    @property
    def split(self) -> TimeSplit:
        """The split that is meant."""
        from cawn.learn.task import TimeSplit

        return TimeSplit(**{name: given for name, given in vars(self).items() if given is not None})

    def task(self, nodes: Nodes, protocol: str | None, clock: str | None, **more: Any) -> Task:
        """What is asked; with the strict protocol and clock by default."""
        from cawn.learn.task import Task

        more |= {name: given for name, given in (("protocol", protocol), ("clock", clock)) if given is not None}
        return Task(nodes, self.split, **more)


@dataclass(frozen=True)
class Machine:
    """Where a command runs, and what it prints."""

    PANEL: ClassVar[str] = "Machine and output"

    device: DeviceName = "auto"
    threads: Threads = None
    quiet: Quiet = False
    as_json: AsJson = False

    @property
    def options(self) -> dict[str, Any]:
        """As arguments of functions."""
        return {"device": self.device, "threads": self.threads, "quiet": self.quiet}


def with_options(**groups: type[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the fields of these dataclasses as options; it receives one object for each group."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = [each for each in signature(command, eval_str=True).parameters.values() if each.name not in groups]
        parts = {name: _parameters(group) for name, group in groups.items()}

        @wraps(command)
        def call(**given: Any) -> None:
            made = {
                name: groups[name](**{each.name: given.pop(each.name) for each in part}) for name, part in parts.items()
            }
            command(**given, **made)

        every, shown = [*own, *(each for part in parts.values() for each in part)], cast("Any", call)
        shown.__signature__ = Signature([each.replace(kind=Parameter.KEYWORD_ONLY) for each in every])
        shown.__annotations__ = {each.name: each.annotation for each in every}
        del shown.__wrapped__
        return call

    return decorate


def _parameters(group: type[Any]) -> list[Parameter]:
    """The fields of a group as options in a panel of their own."""
    found = []
    for each in fields(group):
        kind, option = get_args(get_type_hints(group, include_extras=True)[each.name])
        shown = copy(option)
        shown.rich_help_panel = group.PANEL
        annotation: Any = Annotated[kind, shown]
        found.append(Parameter(each.name, Parameter.KEYWORD_ONLY, default=each.default, annotation=annotation))
    return found


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


class OptionGroup(_PlainHelp, TyperGroup):
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
