"""The command line as a user meets it: in a process of its own, or in this one, which is quicker."""

import io
import os
import subprocess
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple
from unittest import mock

import pytest

from cawn.cli import main

PLAIN = {"COLUMNS": "160", "NO_COLOR": "1"}


class Output(NamedTuple):
    """What a command leaves: its exit code, standard output and standard error."""

    code: int
    out: str
    err: str


def run_cawn(*arguments: object, **options: str) -> Output:
    """`cawn` in a process of its own; see `run_python`."""
    return run_python("-m", "cawn", *arguments, **options)


def run_python(*arguments: object, stdin: str | None = None, **environment: str) -> Output:
    """Python with these arguments, this standard input and these environment variables."""
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        input=stdin,
        capture_output=True,
        text=True,
        env=os.environ | PLAIN | environment,
        check=False,
    )
    return Output(done.returncode, done.stdout, done.stderr)


def call_cawn(*arguments: object, **environment: str) -> Output:
    """`cawn` in this process, without the seconds that PyTorch takes to load."""
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True), io.StringIO()
    with (
        redirect_stdout(out),
        redirect_stderr(err),
        mock.patch.object(sys, "argv", ["cawn", *map(str, arguments)]),
        mock.patch.dict(os.environ, PLAIN | environment),
        warnings.catch_warnings(action="default"),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    return Output(int(ended.value.code or 0), out.buffer.getvalue().decode(), err.getvalue())


def assert_refused(output: Output, reason: str) -> None:
    """Bad input: exit code 2, and one line that gives the reason."""
    assert output.code == 2, output.err
    assert output.out == ""
    assert output.err.startswith("cawn: ")
    assert reason in output.err
    assert output.err.count("\n") == 1, output.err
