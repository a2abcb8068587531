"""Ctrl-C at a known moment, however busy the machine is: the process waits for it where it first looks for it."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from unittest import mock

import pytest

from cawn.learn.trainer import Trainer

_WAIT_AT_THE_FIRST_CHECK = """
import time
from cawn.interrupt import Interrupt
from cawn.learn.trainer import Trainer

check, steps = Interrupt.check, Trainer.steps

def wait(interrupt):
    print("ready", flush=True)
    while not interrupt.asked:
        time.sleep(0.01)

def waiting(self):
    wait(self)
    check(self)

def waiting_steps(self, epoch, first):
    for loss in steps(self, epoch, first):
        wait(self.interrupt)
        yield loss

Interrupt.check, Trainer.steps = waiting, waiting_steps
"""


def interrupted(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A Python script stopped by SIGINT at the first training step, or when it first calls `Interrupt.check`."""
    command = [sys.executable, "-c", _WAIT_AT_THE_FIRST_CHECK + script, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        ready = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate()
    assert ready == "ready\n", errors
    return subprocess.CompletedProcess(command, process.returncode, out, errors)


@contextmanager
def after_each_step(act: Callable[[Trainer], object]) -> Iterator[None]:
    """Calls a function after each training step in this context, before the trainer looks for Ctrl-C."""
    steps = Trainer.steps

    def acting(self: Trainer, epoch: int, first: int) -> Iterator[object]:
        for loss in steps(self, epoch, first):
            act(self)
            yield loss

    with mock.patch.object(Trainer, "steps", acting):
        yield


@contextmanager
def stopped_after(count: int) -> Iterator[None]:
    """Training in this context is stopped as by Ctrl-C during its step of this number."""
    made = []

    def stop(trainer: Trainer) -> None:
        made.append(None)
        trainer.interrupt.asked = len(made) == count

    with after_each_step(stop), pytest.raises(KeyboardInterrupt):
        yield
