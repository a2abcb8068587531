"""`cawn train --devices N`: the same command in N processes of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

COMMAND = (sys.executable, "-m", "cawn")
_POLL = 0.05  # seconds between looks at the processes
_GRACE = 20.0  # seconds that the others have to end by themselves after one has failed; then they are stopped
_STOP = 30.0  # seconds that a process has to end after SIGTERM
# What the processes are told: the file through which they find each other, beside which they note that an error was
# printed, and the pipe that is closed when this process ends.
STORE, PARENT, PRINTED = "CAWN_RANKS_STORE", "CAWN_RANKS_PARENT", "printed"
FAILED, INTERRUPTED, CLOSED = 2, 130, 141  # as of `cawn`: bad input, Ctrl-C, and output that nobody reads


def launch(count: int, arguments: list[str]) -> int:
    """Run `cawn` with these arguments in `count` processes that train together; returns the exit code.

    The processes are in sessions of their own, so that Ctrl-C reaches this process alone, which passes it on once. They
    stop when this process ends, however it ends: the pipe that they watch is then closed.
    """
    with tempfile.TemporaryDirectory(prefix="cawn-") as folder:
        watched, kept = os.pipe()
        processes: list[subprocess.Popen[bytes]] = []
        try:
            with _forwarding_signals(processes):
                for rank in range(count):
                    processes.append(_start(rank, count, arguments, Path(folder), watched))
                codes, failed = _wait(processes)
        finally:
            os.close(watched)
            os.close(kept)
        if INTERRUPTED in codes or -signal.SIGINT in codes:
            return INTERRUPTED
        if CLOSED in codes:
            return CLOSED
        if failed is not None and not (Path(folder) / PRINTED).exists():
            code = codes[failed]
            how = f"was killed by signal {-code}" if code < 0 else f"exited with code {code}"
            print(f"cawn: rank {failed} {how}; training that has begun can be resumed (--resume)", file=sys.stderr)
        return FAILED if any(codes) else 0


def _start(rank: int, count: int, arguments: list[str], folder: Path, watched: int) -> subprocess.Popen[bytes]:
    modules = os.pathsep.join(path for path in sys.path if path)
    numbers = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": count, "LOCAL_WORLD_SIZE": count}
    environment = {name: str(number) for name, number in numbers.items()}
    environment |= {STORE: str(folder / "store"), PARENT: str(watched), "PYTHONPATH": modules}
    if sys.platform == "linux":
        environment |= {"GLOO_SOCKET_IFNAME": os.environ.get("GLOO_SOCKET_IFNAME", "lo")}
    return subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=None if rank == 0 else subprocess.DEVNULL,
        env=dict(os.environ) | environment,
        start_new_session=True,
        pass_fds=() if os.name == "nt" else (watched,),
    )


def _wait(processes: list[subprocess.Popen[bytes]]) -> tuple[list[int], int | None]:
    """The exit codes, after all processes have ended, and the rank that failed first."""
    failed_at, failed = 0.0, None
    running = True
    while running:
        running = any(process.poll() is None for process in processes)
        now = time.monotonic()
        if failed is None and any(process.poll() for process in processes):
            failed_at, failed = now, next(rank for rank, process in enumerate(processes) if process.poll())
        if failed is not None and now > failed_at + _GRACE:
            _send(processes, signal.SIGTERM if now < failed_at + _GRACE + _STOP else signal.SIGKILL)
        time.sleep(_POLL if running else 0)
    return [process.wait() for process in processes], failed


def _send(processes: list[subprocess.Popen[bytes]], number: int) -> None:
    for process in processes:
        with suppress(OSError):
            process.send_signal(number)


@contextmanager
def _forwarding_signals(processes: list[subprocess.Popen[bytes]]) -> Iterator[None]:
    """Within, Ctrl-C and SIGTERM are passed on to the processes."""

    def pass_on(number: int, _frame: FrameType | None) -> None:
        _send(processes, number)

    previous = {number: signal.signal(number, pass_on) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
