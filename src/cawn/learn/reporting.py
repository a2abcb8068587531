"""Progress of a training, shown on the terminal, written for TensorBoard and passed to the user's callback."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from cawn.checks import check_path
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
    folder: Path | None = None  # of the run


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


class TensorBoard:
    """A callback of `train` that writes the metrics of each epoch for `tensorboard --logdir`.

    Args:
        folder: The folder to write to; by default "tensorboard" in the folder of each run.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self._folder = None if folder is None else check_path(folder, "folder")
        self._writers: dict[Path, Any] = {}
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise QueryError("TensorBoard needs the package tensorboard: pip install 'cawn[tensorboard]'") from error
        self._open: Any = SummaryWriter

    def __call__(self, now: Progress) -> None:
        folder = self._folder or (now.folder and now.folder / "tensorboard")
        if folder is None:
            raise QueryError("TensorBoard() needs a folder: give it one, or give out=, the folder of the run")
        if now.stage != "epoch" or now.refit:
            return
        with storing(folder):
            if folder not in self._writers:
                self._writers[folder] = self._open(str(folder))
            for name, value in now.metrics.items():
                if name != "epoch":
                    self._writers[folder].add_scalar(name, value, now.epoch)
            self._writers[folder].flush()


class Listeners:
    """Passes the progress of a run to the terminal and a callback."""

    def __init__(self, quiet: bool, callback: Listener | None = None, folder: Path | None = None) -> None:
        self._terminal, self._folder = Terminal(), folder
        self.all: list[Listener] = [] if quiet else [self._terminal]
        if callback is not None:
            self.all.append(callback)

    def __call__(self, now: Progress) -> None:
        now = replace(now, folder=self._folder)
        for listener in self.all:
            listener(now)

    def stage(self, stage: Stage) -> Report:
        """A function that reports the completed fraction of a stage."""
        return self.part(stage, 0.0, 1.0)

    def part(self, stage: Stage, before: float, total: float) -> Report:
        """A function that reports what is done of a part of a stage, after other parts."""
        return lambda done: self(Progress(stage, before + done, total))

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


def fraction_done(now: Progress) -> float | None:
    """The fraction of a run that is done; None if its progress does not tell."""
    if now.stage in ("training", "epoch"):
        epochs = now.epoch - 1 + now.done / max(now.total, 1)
        return (1 - _TESTING) * epochs / max(now.epochs, 1)
    return 1 - _TESTING + _TESTING * now.done if now.stage == "testing" else None
