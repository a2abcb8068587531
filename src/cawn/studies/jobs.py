"""Functions called in other processes, each of which makes one call after another.

A call that fails, or whose process dies, does not end the others. Ctrl-C reaches only the caller, which passes it on by
closing the standard input of the processes; so does its death. A process then stops as after Ctrl-C, and a training
writes a checkpoint. Messages are pickled: requests come on standard input, reports and outcomes go to standard output.
"""

from __future__ import annotations

import _thread
import os
import pickle
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any

from cawn.errors import CawnError, one_line
from cawn.files import FolderInUseError
from cawn.kernels.threads import num_cores

if TYPE_CHECKING:
    import torch

_JOBS_ON_A_GPU = 4
_PROGRAM = "from cawn.studies.jobs import work; work()"
_READY = b"cawn is ready\n"  # ends what is printed while a process starts, for example by a sitecustomize

Send = Callable[[Any], object]  # sends a report to the caller


@dataclass(frozen=True, eq=False)  # two jobs with equal arguments are different jobs
class Job:
    """A call to make."""

    name: str
    function: Callable[..., Any]  # of a module; called with the arguments and a `Send`
    arguments: tuple[Any, ...] = ()
    remedy: str = "run fewer at a time"  # what to do if memory runs out
    errors: Path | None = None  # file for the traceback of an unexpected error


@dataclass(frozen=True)
class Outcome:
    """The value that a call returned, or the reason why it failed, in one line."""

    value: Any = None
    failure: str | None = None
    errors: str = ""  # the traceback of an unexpected error, or the error output of a process that died
    stopped: bool = False
    seconds: float = 0.0
    busy: bool = False  # another process has the lock on its folder


def call(job: Job, send: Send) -> Outcome:
    """Make a call in this process. Raises only exceptions such as KeyboardInterrupt, which are not an `Exception`."""
    try:
        return Outcome(job.function(*job.arguments, send))
    except CawnError as error:
        return Outcome(failure=str(error), busy=isinstance(error, FolderInUseError))
    except Exception as error:  # a bug in one call must not end the others
        lines = str(error).strip().splitlines()
        reason = one_line(f"{type(error).__name__}: {lines[0] if lines else ''}")
        return Outcome(failure=reason, errors=traceback.format_exc())


def default_jobs(device: torch.device) -> int:
    """Number of parallel calls on a device: one per core, on a GPU at most four."""
    return min(num_cores(), _JOBS_ON_A_GPU if device.type == "cuda" else num_cores())


def threads_of_each(count: int, threads: int | None) -> int | None:
    """The threads of each of `count` processes: the cores are divided evenly unless a number is given."""
    return threads if threads or count == 0 else max(num_cores() // count, 1)


def run(
    jobs: Iterable[Job],
    count: int,
    ended: Callable[[Job, Outcome], object],
    reported: Callable[[Job, Any, Callable[[], object]], object] = lambda job, value, stop: None,
    *,
    threads: int | None = None,
) -> None:
    """Make the calls in `count` processes, or in this one if it is 0. The next is taken when a process is free.

    `reported` is called with each value that a call reports, and with a function that stops the call as after Ctrl-C;
    `ended` with its outcome; both in this thread.
    """
    if count == 0:
        for each in jobs:

            def report(value: Any, job: Job = each) -> None:
                reported(job, value, lambda: None)

            ended(each, call(each, report))
        return
    with _Processes(threads_of_each(count, threads) or 1) as processes:
        waiting = iter(jobs)
        while True:
            while len(processes.busy) < count and (job := next(waiting, None)) is not None:
                processes.start(job)
            if not processes.busy:
                return
            process, message = processes.messages.get()
            made = process.job
            if made is None:  # it died after its last call
                continue
            if message is None or message[0] == "outcome":
                ended(made, process.end(message))
            else:
                reported(made, message[1], process.stop)


class _Processes:
    """Processes that make calls, started as they are needed; on an exception they are stopped and waited for."""

    def __init__(self, threads: int) -> None:
        self._threads, self._all = threads, list[_Process]()
        self.messages: SimpleQueue[tuple[_Process, Any]] = SimpleQueue()

    @property
    def busy(self) -> list[_Process]:
        return [process for process in self._all if process.job is not None]

    def start(self, job: Job) -> None:
        """Make a call in an idle process that is alive, or in a new one."""
        for process in self._all:
            if process.job is None and (process.stopped or process.popen.poll() is not None):
                process.close()
        self._all = [process for process in self._all if not process.closed]
        idle = next((process for process in self._all if process.job is None), None)
        if idle is None:
            idle = _Process(self._threads, self.messages)
            self._all.append(idle)
        idle.start(job)

    def __enter__(self) -> _Processes:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._all:
            process.stop()
        try:
            for process in self._all:
                process.popen.wait()
        except KeyboardInterrupt:  # a second Ctrl-C
            for process in self._all:
                process.popen.kill()
        for process in self._all:
            process.close()


class _Process:
    """A Python process that makes one call after another."""

    def __init__(self, threads: int, messages: SimpleQueue[tuple[_Process, Any]]) -> None:
        self.job: Job | None = None
        self.stopped = self.closed = False
        self._errors: IO[bytes] = TemporaryFile()  # noqa: SIM115
        self._printed = 0  # length of the error output up to the end of the last call
        self.popen = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=_environment(threads),
            start_new_session=True,  # Ctrl-C reaches only the caller, which then stops the others
        )
        self._reader = threading.Thread(target=self._read, args=(messages,), daemon=True)
        self._reader.start()

    def start(self, job: Job) -> None:
        self.job = job
        with suppress(OSError):  # that it has died is noticed by the reader
            assert self.popen.stdin is not None
            self.popen.stdin.write(pickle.dumps(pickle.dumps((job.function, job.arguments))))
            self.popen.stdin.flush()

    def end(self, message: Any) -> Outcome:
        """The outcome of its call; `message` is None if it died."""
        assert self.job is not None
        outcome = self._died(self.job) if message is None else message[1]
        self._printed, self.job = self._errors.seek(0, os.SEEK_END), None
        return outcome

    def _read(self, messages: SimpleQueue[tuple[_Process, Any]]) -> None:
        """Pass on its messages until it ends; runs in a thread."""
        answers = self.popen.stdout
        assert answers is not None
        while (line := answers.readline()) and not line.endswith(_READY):
            pass
        with suppress(Exception):  # it has ended, perhaps within a message
            while True:
                messages.put((self, pickle.load(answers)))
        messages.put((self, None))

    def _died(self, job: Job) -> Outcome:
        stopped = self.stopped
        self.stop()
        code = self.popen.wait()
        if stopped:
            return Outcome(failure="stopped", stopped=True)
        self._errors.seek(self._printed)
        printed = self._errors.read().decode("utf-8", "replace").strip()
        if code < 0:
            reason = f"the process was killed (signal {-code}), perhaps because memory ran out: {job.remedy}"
            return Outcome(failure=reason, errors=printed)
        last = printed.splitlines()[-1] if printed else ""
        return Outcome(failure=one_line(f"the process ended with exit code {code}: {last}"), errors=printed)

    def stop(self) -> None:
        self.stopped = True
        with suppress(OSError):
            self.popen.stdin.close()  # type: ignore[union-attr]

    def close(self) -> None:
        self.stop()
        self.popen.wait()
        self._reader.join()
        self.popen.stdout.close()  # type: ignore[union-attr]
        self._errors.close()
        self.closed = True


def work() -> None:
    """The main function of a process."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shell scripts start background jobs without one
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # other output goes to standard error, so that it does not mix with the answers
    answers.write(_READY)
    import torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    requests: SimpleQueue[bytes | None] = SimpleQueue()
    threading.Thread(target=_read_requests, args=(requests,), daemon=True).start()

    def answer(*message: Any) -> None:
        with suppress(OSError):  # the caller was killed; the end of the input stops this process
            answers.write(pickle.dumps(message))
            answers.flush()

    try:
        while (request := requests.get()) is not None:
            answer("outcome", call(Job("", _call_request, (request,)), lambda value: answer("report", value)))
    except KeyboardInterrupt:
        sys.exit(130)


def _read_requests(requests: SimpleQueue[bytes | None]) -> None:
    """Read requests until the input ends, then stop the call that is running."""
    with suppress(OSError, EOFError, pickle.UnpicklingError), os.fdopen(os.dup(0), "rb") as messages:
        while True:
            requests.put(pickle.load(messages))
    requests.put(None)
    _thread.interrupt_main()


def _call_request(request: bytes, send: Send) -> Any:
    """Make a call whose function and arguments may be of a module that cannot be imported."""
    function, arguments = pickle.loads(request)
    return function(*arguments, send)


def _environment(threads: int) -> dict[str, str]:
    """The environment of this process, with its module path and this number of threads."""
    modules = os.pathsep.join(path for path in sys.path if path)
    numbers = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    return dict(os.environ) | numbers | {"PYTHONPATH": modules}
