"""Snapshots of the live state, and recovery: the newest valid snapshot, then the log after it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from cawn.devices import Device
from cawn.predictor import LinkPredictor
from cawn.serve.ingest import Ingest
from cawn.serve.log import LinkLog

Progress = Callable[[int, int], object]  # links replayed so far, and in total
WriteExtras = Callable[[Path], object]  # writes further files of a snapshot into an empty folder


class LiveState(NamedTuple):
    """What a restart recovers.

    Attributes:
        predictor: With all stored links.
        log: Opened and locked.
        extras: The folder of further files in the snapshot that was loaded; None if there is none.
        replayed: Links replayed from the log.
        torn: Writes cut off at the end of the log: 0 or 1. They were never acknowledged.
        problems: One line for each damaged snapshot that was passed over.
    """

    predictor: LinkPredictor
    log: LinkLog
    extras: Path | None
    replayed: int
    torn: int
    problems: list[str]


def open_state(
    run: Path,
    folder: Path | None = None,
    *,
    device: Device = "auto",
    threads: int | None = None,
    verify: bool = True,
    progress: Progress | None = None,
) -> LiveState:
    """Recover the live state of a run; `folder` is RUN/live by default and is created if needed."""
    raise NotImplementedError


class Snapshots:
    """Writes snapshots in the background, and removes old ones with the segments of the log they cover.

    Args:
        every: Links after which a snapshot is written; a large history waits for a tenth of its links.
        extras: Called for each snapshot to write further files, such as the weights of a model in training.
    """

    def __init__(
        self,
        predictor: LinkPredictor,
        log: LinkLog,
        ingest: Ingest,
        *,
        every: int = 500_000,
        extras: WriteExtras | None = None,
    ) -> None:
        raise NotImplementedError

    def start(self) -> None:
        """Start the background thread."""
        raise NotImplementedError

    def stop(self, *, write: bool = True) -> None:
        """End the background thread; by default, after a last snapshot if links were added since the newest."""
        raise NotImplementedError

    def write(self) -> Path | None:
        """Write a snapshot now; None if nothing has changed since the newest."""
        raise NotImplementedError

    def backup(self, target: Path) -> None:
        """Write a consistent copy of the state to a new folder, while links go on arriving."""
        raise NotImplementedError
