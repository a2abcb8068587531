"""Progress of a training, shown on the terminal, written to TensorBoard and passed to the user's callback."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from cawn.errors import QueryError
from cawn.files import storing
from cawn.progress import Report, progress

Stage = Literal["comparing", "training", "epoch", "baseline", "testing", "message"]


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a run.

    `stage` is "comparing" (short training runs that choose a setting), "training" (within an epoch), "epoch" (at the
    end of one, with its `metrics`), "baseline", "testing", or "message" (a line of text, nothing else).
    """

    stage: Stage
    done: float = 0.0  # steps of the epoch, or the completed fraction of the stage
    total: float = 1.0
    epoch: int = 0  # from 1
    epochs: int = 0  # maximum
    loss: float | None = None  # mean over the epoch so far
    links_per_second: float | None = None
    seconds_left: float | None = None  # until the last epoch, if training does not stop earlier
    metrics: dict[str, Any] = field(default_factory=dict)  # of an epoch: epoch, loss, val_auc, val_ap
    best: bool = False  # whether the epoch is the best so far
    refit: bool = False  # whether this is the training on all links, after the test
    text: str = ""


Listener = Callable[[Progress], object]

_TESTING = 0.05  # share of a run that is not training, for progress
_TITLES = {"comparing": "comparing alternatives", "baseline": "training the rates-only baseline", "testing": "testing"}


class Terminal:
    """Shows progress bars on a terminal, and prints a line per epoch on stderr."""

    def __init__(self) -> None:
        self._bar: tuple[str, ExitStack, Report] | None = None

    def __call__(self, now: Progress) -> None:
        if now.stage in ("message", "epoch"):
            self.close()
            print(now.text if now.stage == "message" else epoch_line(now), file=sys.stderr, flush=True)
            return
        title = _TITLES.get(now.stage, _epoch(now))
        if self._bar is None or self._bar[0] != title:
            self.close()
            stack = ExitStack()
            self._bar = title, stack, stack.enter_context(progress(title, now.total))
        self._bar[2](now.done)
        if now.done >= now.total:
            self.close()

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar[1].close()
            self._bar = None


class Board:
    """Writes the metrics of each epoch to a folder for `tensorboard --logdir`."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._open = folder, _writer_class()
        self._writer: Any = None

    def __call__(self, now: Progress) -> None:
        if now.stage != "epoch" or now.refit:
            return
        with storing(self._folder):
            if self._writer is None:
                self._writer = self._open(str(self._folder))
            for name, value in now.metrics.items():
                if name != "epoch":
                    self._writer.add_scalar(name, value, now.epoch)
            self._writer.flush()


def check_board(out: object) -> None:
    """Refuse TensorBoard without a run folder, or if it is not installed."""
    if out is None:
        raise QueryError("tensorboard=True needs out=, the folder of the run")
    _writer_class()


def _writer_class() -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise QueryError("tensorboard=True needs the package tensorboard: pip install 'cawn[tensorboard]'") from error
    return SummaryWriter


class Listeners:
    """Passes the progress of a run to the terminal, TensorBoard and a callback."""

    def __init__(self, quiet: bool, board: Path | None = None, callback: Listener | None = None) -> None:
        self._terminal = Terminal()
        self.all: list[Listener] = [] if quiet else [self._terminal]
        if board is not None:
            self.all.append(Board(board / "tensorboard"))
        if callback is not None:
            self.all.append(callback)

    def __call__(self, now: Progress) -> None:
        for listener in self.all:
            listener(now)

    def stage(self, stage: Stage) -> Report:
        """A function that reports the completed fraction of a stage."""
        return lambda share: self(Progress(stage, done=share))

    def close(self) -> None:
        """Remove the progress bar from the terminal."""
        self._terminal.close()


def epoch_line(now: Progress) -> str:
    """An epoch as a line of text."""
    figures = "  loss {loss:.4f}".format(**now.metrics)
    if "val_ap" in now.metrics:
        figures += "  val AUC {val_auc:.4f}  AP {val_ap:.4f}".format(**now.metrics)
    rate = "" if now.links_per_second is None else f"  {now.links_per_second:,.0f} links/s"
    left = "" if now.seconds_left is None else f"  at most {format_duration(now.seconds_left)} left"
    return f"{_epoch(now)}{figures}{rate}{left}{' *' * now.best}"


def _epoch(now: Progress) -> str:
    return f"{'refit ' * now.refit}epoch {now.epoch}/{now.epochs}"


def format_duration(seconds: float) -> str:
    """A duration in the largest unit of which it has at least two."""
    units = ((3600, "h"), (60, "min"), (1, "s"))
    size, unit = next((size, unit) for size, unit in units if seconds >= 2 * size or size == 1)
    return f"{seconds / size:.0f} {unit}"


def as_fraction(report: Callable[[float], object]) -> Listener:
    """A callback for training that reports the fraction of a run that is done."""

    def listen(now: Progress) -> None:
        if now.stage in ("training", "epoch"):
            epochs = now.epoch - 1 + now.done / max(now.total, 1)
            report((1 - _TESTING) * epochs / max(now.epochs, 1))
        elif now.stage == "testing":
            report(1 - _TESTING + _TESTING * now.done)

    return listen
