"""A real redis-server for tests, on a Unix socket in a temporary folder."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest


class RedisServer:
    """A server whose data survives `stop`, and after `kill` is that of the last `SAVE`."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._process = folder, None
        self.url = f"unix://{folder / 'socket'}"
        self.start()

    def start(self) -> None:
        command = ["redis-server", "--port", "0", "--unixsocket", "socket", "--dir", str(self._folder), "--save", ""]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=self._folder)
        self.client = self._connect()

    def _connect(self) -> Any:
        from redis import Redis
        from redis.exceptions import RedisError

        client = Redis.from_url(self.url)
        for _ in range(2_000):
            try:
                client.ping()
                return client
            except RedisError:
                assert self._process.poll() is None, "redis-server has ended"
                time.sleep(0.01)
        raise AssertionError("redis-server does not answer")

    def kill(self) -> None:
        self.client.close()
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        self.client.save()
        self.kill()


def started_server():
    """For a fixture: the server, or the test is skipped."""
    pytest.importorskip("redis")
    if shutil.which("redis-server") is None:
        pytest.skip("needs redis-server")
    with tempfile.TemporaryDirectory(prefix="cawn-") as folder:  # the path of a socket must be short
        server = RedisServer(Path(folder))
        try:
            yield server
        finally:
            server.kill()
