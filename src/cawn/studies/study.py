"""Jobs side by side: progress, time left, failures, and claims that keep several processes out of each other's way."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, TypeVar

from cawn.data.hashing import check_seal, read_json, write_sealed
from cawn.errors import QueryError
from cawn.files import (
    LOCK,
    FileLock,
    FolderInUseError,
    FolderLock,
    is_temporary,
    make_folder,
    refuse_foreign,
    write_text,
)
from cawn.interrupt import terminable
from cawn.learn.arguments import check_writable
from cawn.learn.reporting import format_duration
from cawn.progress import Report, progress
from cawn.studies import jobs
from cawn.studies.jobs import Job, Outcome

Part = TypeVar("Part")
POLL = 1.0  # seconds between looks at what other processes do
CLAIMS = ".claims"


class Display:
    """A progress bar on a terminal, a line for each part that ends, and the time left.

    Args:
        total: The number of parts, including those that are done already; None if that is not known.
        noun: What a part is called, such as "run".
    """

    def __init__(self, title: str, total: int | None, noun: str, *, quiet: bool) -> None:
        self.total, self._noun, self._quiet, self._title = total, noun, quiet, title
        self._done = self._before = 0
        self._shares: dict[Any, float] = {}  # completed fraction of what is running
        self._start, self._stack = time.monotonic(), ExitStack()
        self._bar: Report = lambda _: None

    def __enter__(self) -> Display:
        self.show(self._title, self.total)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def show(self, title: str, total: float | None) -> None:
        """Show a bar, in place of the one before it."""
        self._stack.close()
        self._bar = self._stack.enter_context(progress(title, total or 0, quiet=self._quiet or not total))

    def bar(self, done: float) -> None:
        """Show that this much is done."""
        self._bar(done)

    def message(self, text: str) -> None:
        """Print a line."""
        if not self._quiet:
            print(text, file=sys.stderr, flush=True)

    def skip(self, count: int) -> None:
        """Say how many parts were done before."""
        self._done, self._before = self._done + count, self._before + count
        if count:
            of = "" if self.total is None else f" of {self.total}"
            self.message(f"{count}{of} {self._noun}s {'is' if count == 1 else 'are'} already done")
        self._bar(self._done)

    def share(self, part: Any, share: float) -> None:
        """Show that this fraction of a part is done."""
        self._shares[part] = share
        self._bar(self._done + sum(self._shares.values()))

    def end(self, part: Any, text: str, done: int | None = None) -> None:
        """Print a line for a part that has ended; `done` is the number of all that have, if others work on them too."""
        self._shares.pop(part, None)
        self._done = self._done + 1 if done is None else done
        self._bar(self._done + sum(self._shares.values()))
        self.message(f"{text}{self._left()}")

    def _left(self) -> str:
        """How many are done, and an estimate of the time left."""
        made = self._done - self._before
        if self.total is None or made <= 0:
            return ""
        remaining = self.total - self._done
        seconds = (time.monotonic() - self._start) / made * remaining
        left = f"; about {format_duration(seconds)} left" if remaining > 0 else ""
        return f" ({self._done} of {self.total}{left})"


class Claims:
    """Which process works on which part of a folder. A claim ends on exit, or with its process, however that ends."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._held = folder / CLAIMS, dict[str, FolderLock]()

    def take(self, name: str) -> bool:
        """Claim a part; False if another process has it."""
        make_folder(self._folder / name)
        try:
            self._held[name] = FolderLock(self._folder / name)
        except FolderInUseError:
            return False
        return True

    def release(self, name: str) -> None:
        self._held.pop(name).release()

    def __enter__(self) -> Claims:
        return self

    def __exit__(self, *_: object) -> None:
        for name in list(self._held):
            self.release(name)


class Study(Generic[Part]):
    """Parts of some work, each made once by whichever of the processes that work on the same folder takes it first.

    Args:
        count: The number of processes to start; 0 makes the calls in this one.
        again: What to do to continue after Ctrl-C.
    """

    def __init__(self, folder: Path, display: Display, count: int, threads: int | None, again: str) -> None:
        self._display, self._count, self._threads, self._again = display, count, threads, again
        self._claims, self._running = Claims(folder), dict[Job, tuple[str, Part, float]]()

    def run(
        self,
        parts: Iterable[tuple[str, Part]],
        job_of: Callable[[Part], Job | None],
        ended: Callable[[Part, Outcome], str],
        reported: Callable[[Part, Any, Callable[[], object]], float | None],
    ) -> None:
        """Make the parts, each of which has a name; the next one is taken when a process is free.

        Args:
            job_of: The job of a part; None if it is done already.
            ended: Takes a part and the outcome of its job; returns a line about it.
            reported: Takes a part, what its job reports, and a function that stops it; returns the completed fraction.
        """

        busy: list[tuple[str, Part]] = []  # that other processes work on

        def end(job: Job, outcome: Outcome) -> None:
            name, part, start = self._running.pop(job)
            if outcome.busy:
                busy.append((name, part))
            else:
                outcome = replace(outcome, failure=failure_of(job, outcome), seconds=time.monotonic() - start)
                self._display.end(name, ended(part, outcome))
            self._claims.release(name)

        def report(job: Job, value: Any, stop: Callable[[], object]) -> None:
            name, part, _ = self._running[job]
            if (share := reported(part, value, stop)) is not None:
                self._display.share(name, share)

        waiting = 0
        try:
            while True:
                with terminable(), self._claims:
                    jobs.run(self._jobs(parts, job_of, busy), self._count, end, report, threads=self._threads)
                if not busy:
                    return
                if len(busy) == waiting:  # none has ended
                    time.sleep(POLL)
                else:
                    self._display.message(f"waiting for {len(busy)} of other processes")
                waiting, parts = len(busy), list(busy)
                busy.clear()
        except KeyboardInterrupt:
            self._display.message(f"stopped; {self._again}")
            raise

    def _jobs(
        self, parts: Iterable[tuple[str, Part]], job_of: Callable[[Part], Job | None], busy: list[tuple[str, Part]]
    ) -> Iterator[Job]:
        """The jobs of the parts that are not done and that no other process has; adds to `busy` those that one has."""
        done = 0
        for name, part in parts:
            if not self._claims.take(name):
                busy.append((name, part))
            elif (job := job_of(part)) is None:
                self._claims.release(name)
                done += 1
            else:
                self._display.skip(done)
                done, self._running[job] = 0, (name, part, time.monotonic())
                yield job
        self._display.skip(done)


def failure_of(job: Job, outcome: Outcome) -> str | None:
    """Why a job failed, in one line; the traceback of an unexpected error is written to a file."""
    if job.errors is None or outcome.stopped:
        return outcome.failure
    job.errors.unlink(missing_ok=True)
    if outcome.failure is None or not outcome.errors:
        return outcome.failure
    make_folder(job.errors.parent)
    write_text(job.errors, outcome.errors + "\n")
    return f"{outcome.failure} (see {job.errors})"


def join(folder: Path, file: str, described: dict[str, Any], kind: str) -> dict[str, Any]:
    """Create the folder of a study, or check that it holds the same one; returns how that was described at first."""
    check_writable(folder)
    refuse_other(folder, file, kind)
    make_folder(folder)
    with FileLock(folder / LOCK):
        refuse_other(folder, file, kind)
        if not (folder / file).exists():
            write_sealed(folder / file, described)
            return described
        found = read_json(folder / file, "choose another folder")
    if found.get("checksum"):
        check_seal(folder / file, found, "choose another folder")
    if other := [key for key in described if key != "versions" and found.get(key) != described[key]]:
        raise QueryError(f"{folder}: holds a {kind} that differs in {_difference(other[0], found, described)}")
    return found


_NAMES = {"contents": "links", "config": "settings", "cuts": "split", "seed": "seed of the sampler"}


def _difference(key: str, found: dict[str, Any], mine: dict[str, Any]) -> str:
    """What differs, with both values where they are short."""
    before, now = found.get(key), mine[key]
    name = _NAMES.get(key, key)
    if key == "config" and isinstance(before, dict):
        setting = next(setting for setting in {**before, **now} if before.get(setting) != now.get(setting))
        name, before, now = setting, before.get(setting), now.get(setting)
    if key == "space" and isinstance(before, dict):
        parameter = next((each for each in {**before, **now} if before.get(each) != now.get(each)), "the order")
        return f"its space ({parameter}); give the same, or choose another folder"
    if key == "contents":
        return "its links; give the same data, or choose another folder"
    return f"{name} ({json.dumps(before)} there, {json.dumps(now)} here); give the same, or choose another folder"


def refuse_other(folder: Path, file: str, kind: str) -> None:
    """Refuse a folder that is not empty and holds no study, which is described in a file of this name."""
    found = (folder / file).exists()
    refuse_foreign(folder, lambda path: found or path.name == LOCK or is_temporary(path.name), f"a {kind}")
