"""A `cawn serve` process, and requests to it over raw connections that cost little CPU time."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

import numpy as np

TIMEOUT = 600  # seconds, for a start, a stop or one request


class Server:
    """Runs `cawn serve` on a free port of this machine; ready when the context is entered."""

    def __init__(self, run: Path, state: Path) -> None:
        command = [sys.executable, "-m", "cawn", "serve", run, "--port", "0", "--json", "--quiet", "--state", state]
        command += ["--max-ahead", "1e18"]  # the links that arrive may be far ahead of the few links of the run
        started = time.perf_counter()
        self._process = subprocess.Popen([*map(str, command), "--device", "cpu"], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self.start_seconds = time.perf_counter() - started  # from the start of the process until it is ready
        if not line:
            raise SystemExit(f"benchmarks: cawn serve ended with exit code {self._process.wait(TIMEOUT)}")
        self.port = int(urlsplit(json.loads(line)["address"]).port or 0)

    def cpu_seconds(self) -> float:
        """CPU time of the process so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_bytes(self) -> int:
        """Memory of the process, without files that are mapped."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return 1024 * int(status.partition("RssAnon:")[2].split()[0])

    def stop(self, number: int = signal.SIGTERM) -> None:
        if self._process.poll() is None:
            self._process.send_signal(number)
            self._process.wait(TIMEOUT)

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        try:
            self.stop()
        finally:
            self._process.kill()
            if self._process.stdout is not None:
                self._process.stdout.close()


def post(path: str, body: Any) -> bytes:
    """The bytes of a request."""
    content = json.dumps(body, separators=(",", ":")).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    return f"{head}Content-Length: {len(content)}\r\n\r\n".encode() + content


class Connection:
    """One connection that is kept open; one request at a time."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def send(self, request: bytes) -> dict[str, Any]:
        """The answer to a request; anything but 200 is an error."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        writer.write(request)
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        content = await reader.readexactly(length)
        if not head.startswith(b"http/1.1 200"):
            raise SystemExit(f"benchmarks: {head.splitlines()[0].decode()}: {content.decode()}")
        found: dict[str, Any] = json.loads(content)
        return found

    async def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            await self._streams[1].wait_closed()


async def closed_loop(
    port: int,
    requests: Sequence[bytes],
    connections: int,
    check: Callable[[Connection, int, dict[str, Any]], Awaitable[None]] | None = None,
) -> list[float]:
    """Send requests in this order over several connections, each as soon as one is free; the latencies."""
    left, latencies = iter(enumerate(requests)), [0.0] * len(requests)

    async def send_all() -> None:
        connection = Connection(port)
        for i, request in left:
            start = time.perf_counter()
            answer = await connection.send(request)
            latencies[i] = time.perf_counter() - start
            if check is not None:
                await check(connection, i, answer)
        await connection.close()

    await asyncio.gather(*(send_all() for _ in range(connections)))
    return latencies


async def open_loop(port: int, requests: Sequence[bytes], rate: float, connections: int) -> list[float]:
    """Send requests at a constant rate, whatever the answers take; latencies are from the scheduled times on."""
    free: asyncio.Queue[Connection] = asyncio.Queue()
    held = [Connection(port) for _ in range(connections)]
    for connection in held:
        free.put_nowait(connection)
    latencies = [0.0] * len(requests)
    start = time.perf_counter() + 0.05

    async def send(i: int) -> None:
        connection = await free.get()
        await connection.send(requests[i])
        latencies[i] = time.perf_counter() - (start + i / rate)
        free.put_nowait(connection)

    async with asyncio.TaskGroup() as tasks:
        for i in range(len(requests)):
            await asyncio.sleep(max(start + i / rate - time.perf_counter(), 0))
            tasks.create_task(send(i))
    for connection in held:
        await connection.close()
    return latencies


def percentile(seconds: Sequence[float], share: float) -> float:
    """In milliseconds."""
    return float(np.percentile(seconds, 100 * share)) * 1_000
