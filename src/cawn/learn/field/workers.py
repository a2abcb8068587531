"""Runs of a comparison, several at a time, each in a process of its own.

A process reads its job as a line of JSON from standard input and writes its reports to standard output, one line of
JSON each. When its standard input is closed, because the sweep was interrupted or killed, it stops as after Ctrl-C:
after the current step, with a checkpoint. The links are written once to a file that all processes map into memory.
"""

from __future__ import annotations

import _thread
import json
import mmap
import os
import pickle
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO

from cawn import systems
from cawn.data.events import Events
from cawn.errors import CawnError, one_line
from cawn.files import make_folder, write_text
from cawn.kernels.threads import num_cores
from cawn.learn.reporting import Listener, Progress
from cawn.learn.splits import Task, TimeSplit
from cawn.systems.settings import Settings

_TESTING = 0.05  # share of a run that is not training, for progress
_LOOK = 0.25  # seconds between updates of the progress
_WORKER = "from cawn.learn.field.workers import work; work()"


@dataclass(frozen=True)
class Job:
    """One run of a comparison."""

    system: str
    task: Task
    seed: int
    config: Settings
    folder: Path
    baselines: bool  # whether to evaluate the untrained baselines as well

    def __str__(self) -> str:
        return f"{self.system}, {self.task}, seed {self.seed}"

    @property
    def traceback(self) -> Path:
        """Where the traceback of an unexpected error is written."""
        return self.folder.with_name(f"{self.folder.name}.error.txt")


@dataclass(frozen=True)
class Failure:
    """The reason why a run failed, in one line."""

    reason: str


def train_here(events: Events, job: Job, options: dict[str, Any], moved: Callable[[float], object]) -> Failure | None:
    """Train one system in this process, or resume its run; `moved` is called with the completed fraction."""
    from cawn.learn.experiments import train

    job.traceback.unlink(missing_ok=True)
    resume = (job.folder / "run.json").exists()
    try:
        train(
            events,
            job.config,
            task=job.task,
            seed=job.seed,
            out=job.folder,
            resume=resume,
            quiet=True,
            callback=_as_fraction(moved),
            baselines=job.baselines,
            **options,
        )
    except CawnError as error:
        return Failure(str(error))
    except Exception as error:  # a bug in one system must not end the comparison
        make_folder(job.folder.parent)
        write_text(job.traceback, traceback.format_exc())
        lines = str(error).strip().splitlines()
        return Failure(one_line(f"{type(error).__name__}: {lines[0] if lines else ''} (see {job.traceback})"))
    return None


def _as_fraction(moved: Callable[[float], object]) -> Listener:
    """Reports the fraction of a run that is done."""

    def listen(now: Progress) -> None:
        if now.stage in ("training", "epoch"):
            epochs = now.epoch - 1 + now.done / max(now.total, 1)
            moved((1 - _TESTING) * epochs / max(now.epochs, 1))
        elif now.stage == "testing":
            moved(1 - _TESTING + _TESTING * now.done)

    return listen


class Workers:
    """Processes that train systems, `count` at a time."""

    def __init__(self, events: Events, options: dict[str, Any], count: int) -> None:
        self._options, self._count = options, count
        self._folder = TemporaryDirectory(prefix="cawn-")
        self._links = Path(self._folder.name) / "links"
        write_links(self._links, events)
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._shares: dict[Job, float] = {}
        self._stopped = False

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def train(
        self, jobs: list[Job], ended: Callable[[Job, Failure | None], object], moved: Callable[[float], object]
    ) -> None:
        """Run the jobs. `ended` is called for each, in this thread; `moved` with the number completed, as a float."""
        done = 0
        with ThreadPoolExecutor(self._count) as pool:
            waiting: dict[Future[Failure | None], Job] = {pool.submit(self._run, job): job for job in jobs}
            try:
                while waiting:
                    ready, _ = wait(waiting, _LOOK, FIRST_COMPLETED)
                    for future in ready:
                        job = waiting.pop(future)
                        ended(job, future.result())
                        done += 1
                        self._shares.pop(job, None)
                    moved(done + sum(list(self._shares.values())))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                self._stop(waiting)
                raise

    def _stop(self, waiting: dict[Future[Failure | None], Job]) -> None:
        """Wait for every process to write its checkpoint; a second Ctrl-C kills them."""
        with self._lock:
            self._stopped = True
            running = list(self._running)
        for process in running:
            with suppress(OSError):
                process.stdin.close()  # type: ignore[union-attr]
        try:
            wait(waiting)
        except KeyboardInterrupt:
            for process in running:
                process.kill()
            wait(waiting)

    def _run(self, job: Job) -> Failure | None:
        """Run one job in a process, from start to end. Called in a thread."""
        threads = self._options["threads"] or max(num_cores() // self._count, 1)
        with open(Path(self._folder.name) / f"errors-{threading.get_ident()}", "w+b") as errors:
            with self._lock:
                if self._stopped:
                    return Failure("stopped")
                process = subprocess.Popen(
                    [sys.executable, "-c", _WORKER],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    env=_environment(threads),
                    start_new_session=True,  # Ctrl-C reaches only this process, which then stops the others
                )
                self._running.add(process)
            try:
                return self._follow(process, job, threads, errors)
            finally:
                with self._lock:
                    self._running.discard(process)
                for stream in (process.stdin, process.stdout):
                    with suppress(OSError):
                        stream.close()  # type: ignore[union-attr]

    def _follow(self, process: subprocess.Popen[bytes], job: Job, threads: int, errors: BinaryIO) -> Failure | None:
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(OSError):  # a process that has died is noticed below
            process.stdin.write(_encode(job, self._options | {"threads": threads}, self._links))
            process.stdin.flush()
        found: dict[str, Any] = {}
        for line in process.stdout:
            found = json.loads(line)
            if "share" in found:
                self._shares[job] = found["share"]
        code = process.wait()
        if found.get("ended"):
            return None if found["failure"] is None else Failure(found["failure"])
        errors.seek(0)
        said = errors.read().decode("utf-8", "replace").strip()
        if said:
            make_folder(job.folder.parent)
            write_text(job.traceback, said + "\n")
        if code < 0:
            remedy = f"perhaps because memory ran out: lower {job.config.to_lower()}, or run fewer jobs"
            return Failure(f"the process was killed (signal {-code}), {remedy}")
        return Failure(one_line(f"the process ended with exit code {code}: {said.splitlines()[-1] if said else ''}"))


def work() -> None:
    """The main function of a process that trains one system."""
    reports = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # anything else that is printed must not mix with the reports
    with os.fdopen(os.dup(0), "rb", buffering=0) as requests:
        line = b""
        while not line.endswith(b"\n") and (more := requests.read(1 << 16)):
            line += more
    if not line:
        return
    threading.Thread(target=_stop_at_end_of_input, daemon=True).start()
    job, options, links = _decode(json.loads(line))
    import torch

    torch.set_num_threads(options["threads"])

    def moved(share: float) -> None:
        with suppress(OSError):  # the sweep was killed; the end of the input stops the run
            print(json.dumps({"share": share}), file=reports, flush=True)

    try:
        failure = train_here(read_links(links), job, options, moved)
    except KeyboardInterrupt:
        sys.exit(130)
    print(json.dumps({"ended": True, "failure": None if failure is None else failure.reason}), file=reports, flush=True)


def _stop_at_end_of_input() -> None:
    with suppress(OSError):
        while os.read(0, 1 << 10):
            pass
    _thread.interrupt_main()


def _environment(threads: int) -> dict[str, str]:
    """The environment of this process, with the same modules and this number of threads."""
    modules = os.pathsep.join(path for path in sys.path if path)
    numbers = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    return dict(os.environ) | numbers | {"PYTHONPATH": modules}


def _encode(job: Job, options: dict[str, Any], links: Path) -> bytes:
    split = options["split"]
    described = {
        "system": job.system,
        "entry": list(systems.entry(job.system)),
        "task": job.task,
        "seed": job.seed,
        "config": job.config.to_dict(),
        "folder": str(job.folder.absolute()),
        "baselines": job.baselines,
        "options": options | {"split": None if split is None else split.to_dict()},
        "links": str(links),
    }
    return (json.dumps(described) + "\n").encode()


def _decode(found: dict[str, Any]) -> tuple[Job, dict[str, Any], Path]:
    systems.register(found["system"], systems.Entry(*found["entry"]))
    config = systems.settings_type(found["system"]).from_dict(found["config"])
    job = Job(found["system"], found["task"], found["seed"], config, Path(found["folder"]), found["baselines"])
    options, split, kinds = found["options"], found["options"]["split"], found["options"]["kinds"]
    options |= {
        "split": None if split is None else TimeSplit.from_dict(split),
        "kinds": None if kinds is None else tuple(kinds),
    }
    return job, options, Path(found["links"])


def write_links(path: Path, events: Events) -> None:
    """Write links for `read_links`, with arrays as plain bytes. Only for files that no other program writes."""
    arrays: list[pickle.PickleBuffer] = []
    head = pickle.dumps(events, protocol=5, buffer_callback=arrays.append)
    parts: list[Any] = [head, *(array.raw() for array in arrays)]
    with open(path, "xb") as file:
        file.write((json.dumps([len(part) for part in parts]) + "\n").encode())
        for part in parts:
            file.write(b"\0" * (-file.tell() % 64))
            file.write(part)


def read_links(path: Path) -> Events:
    """The links of `write_links`; arrays are mapped into memory, which all processes share."""
    with open(path, "rb") as file:
        sizes = json.loads(file.readline())
        start, parts = file.tell(), []
        held = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    for size in sizes:
        start += -start % 64
        parts.append(held[start : start + size])
        start += size
    events: Events = pickle.loads(parts[0], buffers=parts[1:])
    return events
