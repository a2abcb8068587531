"""Progress bars on a terminal: amount done, total, time left."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Literal, Protocol

Report = Callable[[float], object]  # takes the amount done so far


class ShowProgress(Protocol):
    """How progress is shown: `progress`, or the same with `quiet` given."""

    def __call__(self, title: str, total: float | None = None, *, unit: Any = "") -> AbstractContextManager[Report]: ...


def shows(quiet: bool) -> bool:
    """Whether progress is shown: only on a terminal."""
    return not quiet and sys.stderr.isatty()


@contextmanager
def progress(
    title: str, total: float | None = None, *, unit: Literal["", "bytes"] = "", quiet: bool = False
) -> Iterator[Report]:
    """Shows a progress bar on stderr, and removes it on exit.

    Nothing is shown where stderr is not a terminal. Call the yielded function with the amount done so far; with
    `total=None` only that amount is shown.
    """
    if not shows(quiet):
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    amount = DownloadColumn() if unit == "bytes" else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), amount, TimeRemainingColumn(elapsed_when_finished=True))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda done: bar.update(task, completed=done)
