"""Progress bars: on a terminal, and nowhere else."""

import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from unittest import mock

from cawn.progress import progress, shows


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@contextmanager
def terminal() -> Iterator[io.StringIO]:
    with mock.patch.object(sys, "stderr", Terminal()) as stream, mock.patch.dict("os.environ", TERM="xterm"):
        yield stream


def test_on_a_terminal() -> None:
    with terminal() as stream:
        assert shows(quiet=False)
        with progress("epoch 1/2", 20) as report:
            report(5)
    assert "epoch 1/2" in stream.getvalue()
    assert stream.getvalue().endswith("\x1b[2K"), "it is removed at the end"


def test_quiet() -> None:
    with terminal() as stream:
        assert not shows(quiet=True)
        with progress("epoch 1/2", 20, quiet=True) as report:
            report(5)
    assert stream.getvalue() == ""


def test_elsewhere(capsys) -> None:
    with progress("epoch 1/2") as report:
        report(5)
    assert capsys.readouterr() == ("", "")
