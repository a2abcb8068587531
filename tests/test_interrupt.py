"""Ctrl-C waits for the end of a step; a second one does not."""

import os
import signal

import pytest

from cawn.interrupt import Interrupt, Interrupted


def press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_it_waits_for_the_check() -> None:
    interrupt, finished = Interrupt(), []
    with interrupt:
        interrupt.check()
        press_ctrl_c()
        finished.append("step")
        with pytest.raises(Interrupted):
            interrupt.check()
        interrupt.check()
    assert finished == ["step"]


def test_a_second_one_acts_at_once_and_the_old_handler_comes_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with Interrupt():
        press_ctrl_c()
        with pytest.raises(KeyboardInterrupt):
            press_ctrl_c()
    assert signal.getsignal(signal.SIGINT) is before
