"""Worker processes that call functions in parallel.

A worker reads calls from standard input and writes reports and outcomes to standard output, each as one line of JSON.
When its standard input is closed, because the caller was interrupted or killed, it stops as after Ctrl-C. Links are
written once to a file that all workers map into memory.
"""

from __future__ import annotations

import _thread
import json
import mmap
import os
import pickle
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from queue import Empty, SimpleQueue
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, TYPE_CHECKING, Any

from cawn.data.events import Events
from cawn.errors import CawnError, one_line
from cawn.kernels.threads import num_cores

if TYPE_CHECKING:
    import torch

_POLL = 0.25  # seconds between checks of the running calls
_JOBS_ON_A_GPU = 4
_WORKER = "from cawn.learn.workers import work; work()"

Send = Callable[[Any], object]  # sends a report, a JSON-compatible value, to the caller


@dataclass(frozen=True, eq=False)  # two calls with equal arguments are different calls
class Call:
    """A function to call in another process."""

    name: str
    function: str  # "package.module:function", called with the arguments and a `Send`; returns a JSON-compatible value
    arguments: dict[str, Any]  # JSON-compatible
    remedy: str = "run fewer at a time"  # what to do if memory runs out


@dataclass(frozen=True)
class Outcome:
    """The value that a call returned, or the reason why it failed, in one line."""

    value: Any = None
    failure: str | None = None
    errors: str = ""  # the traceback of an unexpected error, or the error output of a process that died
    stopped: bool = False


def call_here(call: Call, send: Send) -> Outcome:
    """Make a call in this process. Raises only exceptions such as KeyboardInterrupt, which are not an `Exception`."""
    module, _, name = call.function.partition(":")
    try:
        return Outcome(getattr(import_module(module), name)(call.arguments, send))
    except CawnError as error:
        return Outcome(failure=str(error))
    except Exception as error:  # a bug in one call must not end the others
        lines = str(error).strip().splitlines()
        reason = one_line(f"{type(error).__name__}: {lines[0] if lines else ''}")
        return Outcome(failure=reason, errors=traceback.format_exc())


def default_jobs(device: torch.device) -> int:
    """Number of parallel calls on a device: one per core, on a GPU at most four."""
    return min(num_cores(), _JOBS_ON_A_GPU if device.type == "cuda" else num_cores())


class Workers:
    """At most `count` processes, each of which makes one call after another."""

    def __init__(self, count: int, threads: int | None = None) -> None:
        self._count, self.threads = count, threads or max(num_cores() // count, 1)
        self._folder = TemporaryDirectory(prefix="cawn-")
        self._lock = threading.Lock()
        self._idle: list[_Process] = []
        self._running: dict[Call, _Process] = {}
        self._ended = False

    def __enter__(self) -> Workers:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._idle:
            process.close()
        self._folder.cleanup()

    def share(self, name: str, events: Events) -> str:
        """Write links to a file for `read_links`; returns its path."""
        path = Path(self._folder.name) / name
        if not path.exists():
            write_links(path, events)
        return str(path)

    def run(
        self,
        calls: Iterable[Call],
        ended: Callable[[Call, Outcome], object],
        reported: Callable[[Call, Any], object] = lambda call, value: None,
    ) -> None:
        """Make the calls. The next one is taken from `calls` when a process is free.

        `reported` is called with every value that a call reports, and `ended` with its outcome; both in this thread.
        """
        waiting, running = iter(calls), dict[Future[Outcome], Call]()
        reports: SimpleQueue[tuple[Call, Any]] = SimpleQueue()

        def listen() -> None:
            with suppress(Empty):
                while True:
                    reported(*reports.get_nowait())

        with ThreadPoolExecutor(self._count) as pool:
            try:
                while True:
                    while len(running) < self._count and (call := next(waiting, None)) is not None:
                        running[pool.submit(self._call, call, reports)] = call
                    if not running:
                        return
                    ready, _ = wait(running, _POLL, FIRST_COMPLETED)
                    listen()
                    for future in ready:
                        ended(running.pop(future), future.result())
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                self._end(running)
                raise

    def stop(self, call: Call) -> None:
        """Stop a running call as after Ctrl-C; its outcome is `stopped`, unless it has already ended."""
        with self._lock:
            process = self._running.get(call)
        if process is not None:
            process.stop()

    def _end(self, running: dict[Future[Outcome], Call]) -> None:
        """Stop every call and wait for it; a second Ctrl-C kills the processes."""
        with self._lock:
            self._ended = True
            processes = list(self._running.values())
        for process in processes:
            process.stop()
        try:
            wait(running)
        except KeyboardInterrupt:
            for process in processes:
                process.popen.kill()
            wait(running)

    def _call(self, call: Call, reports: SimpleQueue[tuple[Call, Any]]) -> Outcome:
        """Make one call; runs in a thread of the pool."""
        with self._lock:
            if self._ended:
                return Outcome(failure="stopped", stopped=True)
            process = self._running[call] = self._take()
        try:
            outcome = process.make(call, lambda value: reports.put((call, value)))
        finally:
            with self._lock:
                del self._running[call]
                if reusable := process.popen.poll() is None and not process.stopped:
                    self._idle.append(process)
        if not reusable:
            process.close()
        return outcome

    def _take(self) -> _Process:
        """An idle process that is still alive, or a new one."""
        while self._idle:
            process = self._idle.pop()
            if process.popen.poll() is None:
                return process
            process.close()
        return _Process(self.threads)


class _Process:
    """A Python process that makes one call after another."""

    def __init__(self, threads: int) -> None:
        self.stopped = False
        self._errors: IO[bytes] = TemporaryFile()  # noqa: SIM115
        self._printed = 0  # length of the error output up to the end of the last call
        self.popen = subprocess.Popen(
            [sys.executable, "-c", _WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=_environment(threads),
            start_new_session=True,  # Ctrl-C reaches only the caller, which then stops the workers
        )

    def make(self, call: Call, send: Send) -> Outcome:
        assert self.popen.stdin is not None
        assert self.popen.stdout is not None
        line = json.dumps({"function": call.function, "arguments": call.arguments, "name": call.name}) + "\n"
        with suppress(OSError, ValueError):  # a process that has died or was stopped is noticed below
            self.popen.stdin.write(line.encode())
            self.popen.stdin.flush()
        for answer in self.popen.stdout:
            found = _answer(answer)
            if "outcome" in found:
                self._printed = self._errors.seek(0, os.SEEK_END)
                return Outcome(**found["outcome"])
            if "report" in found:
                send(found["report"])
        return self._died(call)

    def _died(self, call: Call) -> Outcome:
        code = self.popen.wait()
        self._errors.seek(self._printed)  # a process may have died before it was called
        printed = self._errors.read().decode("utf-8", "replace").strip()
        if self.stopped:
            return Outcome(failure="stopped", stopped=True)
        if code < 0:
            reason = f"the process was killed (signal {-code}), perhaps because memory ran out: {call.remedy}"
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
        self.popen.stdout.close()  # type: ignore[union-attr]
        self._errors.close()


def _answer(line: bytes) -> dict[str, Any]:
    """A report or an outcome; empty if the line was printed before `work` began, for example by a sitecustomize."""
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def work() -> None:
    """The main function of a worker process."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shell scripts start background jobs without one
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # other output goes to standard error, so that it does not mix with the answers
    answers.write("\n")  # ends what was printed before
    import torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    requests: SimpleQueue[Call | None] = SimpleQueue()
    threading.Thread(target=_read_requests, args=(requests,), daemon=True).start()

    def send(value: Any) -> None:
        with suppress(OSError):  # the caller was killed; the end of the input stops this process
            print(json.dumps({"report": value}), file=answers, flush=True)

    try:
        while (call := requests.get()) is not None:
            outcome = call_here(call, send)
            print(json.dumps({"outcome": vars(outcome)}), file=answers, flush=True)
    except KeyboardInterrupt:
        sys.exit(130)


def _read_requests(requests: SimpleQueue[Call | None]) -> None:
    """Read calls until the input ends, then stop the one that is running."""
    with suppress(OSError), os.fdopen(os.dup(0), "rb") as lines:
        for line in lines:
            found = json.loads(line)
            requests.put(Call(found["name"], found["function"], found["arguments"]))
    requests.put(None)
    _thread.interrupt_main()


def _environment(threads: int) -> dict[str, str]:
    """The environment of this process, with its module path and this number of threads."""
    modules = os.pathsep.join(path for path in sys.path if path)
    numbers = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    return dict(os.environ) | numbers | {"PYTHONPATH": modules}


def write_links(path: Path, events: Events) -> None:
    """Write links for `read_links`, with arrays as plain bytes. Unpickled later, so only for private files."""
    arrays: list[pickle.PickleBuffer] = []
    head = pickle.dumps(events, protocol=5, buffer_callback=arrays.append)
    parts: list[Any] = [head, *(array.raw() for array in arrays)]
    with open(path, "xb") as file:
        file.write((json.dumps([len(part) for part in parts]) + "\n").encode())
        for part in parts:
            file.write(b"\0" * (-file.tell() % 64))
            file.write(part)


def read_links(path: Path) -> Events:
    """Read the links of `write_links`; arrays are memory-mapped and shared by all processes."""
    with open(path, "rb") as file:
        sizes = json.loads(file.readline())
        start, parts = file.tell(), []
        mapped = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))
    for size in sizes:
        start += -start % 64
        parts.append(mapped[start : start + size])
        start += size
    events: Events = pickle.loads(parts[0], buffers=parts[1:])
    return events
