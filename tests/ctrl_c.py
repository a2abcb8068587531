"""Ctrl-C at a known moment, however busy the machine is: the process waits for it where it first looks for it."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

import pytest

from cawn.interrupt import Interrupt

_WAIT_AT_THE_FIRST_CHECK = """
import time
from cawn.interrupt import Interrupt

check = Interrupt.check

def waiting(self):
    print("ready", flush=True)
    while not self.asked:
        time.sleep(0.01)
    check(self)

Interrupt.check = waiting
"""


def interrupted(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A Python script stopped by SIGINT the first time it calls `Interrupt.check`."""
    command = [sys.executable, "-c", _WAIT_AT_THE_FIRST_CHECK + script, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        ready = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate()
    assert ready == "ready\n", errors
    return subprocess.CompletedProcess(command, process.returncode, out, errors)


@contextmanager
def stopped_after(checks: int) -> Iterator[None]:
    """What runs in this context is stopped as by Ctrl-C, once it has looked for it so many times."""
    check, made = Interrupt.check, []

    def stopping(self: Interrupt) -> None:
        made.append(None)
        self.asked = len(made) == checks
        check(self)

    with mock.patch.object(Interrupt, "check", stopping), pytest.raises(KeyboardInterrupt):
        yield
