"""Options that commands share: devices, output files, output on a terminal."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

import cawn
from cawn.cli import app
from cawn.cli.options import TerminalStream, refuse_output
from command_line import run_python


@pytest.mark.parametrize("arguments", [["train", "x.csv"], ["evaluate", "x"], ["predict", "x", "y"], ["demo"]])
def test_a_gpu_that_is_missing_is_refused_before_anything_else(arguments: list[str]) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("needs a machine without a GPU")
    from typer.testing import CliRunner

    done = CliRunner().invoke(app, [*arguments, "--device", "cuda"])
    assert isinstance(done.exception, cawn.DeviceError)
    assert str(done.exception).startswith("device is 'cuda', but ")


def test_tables_on_a_terminal_hold_no_escape_sequences() -> None:
    out = io.BytesIO()
    stream = TerminalStream(out)
    for piece in (b"src,dst\n\x1b[31meve,b\xc3", b"\xa9a\tx\x07\r\n", b"\xff"):
        assert stream.write(piece) == len(piece)
    assert out.getvalue().decode() == "src,dst\n\\x1b[31meve,béa\tx\\x07\\r\n\\xff"


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_output_goes_through_it_only_on_a_terminal() -> None:
    code = r"from cawn.cli.options import output_stream; s = output_stream(); s.write(b'\x1b[31mred\n'); s.flush()"
    assert run_python("-c", code).out == "\x1b[31mred\n"
    ours, theirs = os.openpty()
    subprocess.run([sys.executable, "-c", code], stdout=theirs, check=True)
    os.close(theirs)
    assert os.read(ours, 1_000).strip() == rb"\x1b[31mred"
    os.close(ours)


@pytest.mark.parametrize("name", ["out\ud800.csv", "out\0.csv"])
def test_outputs_that_no_file_can_be_called(name: str) -> None:
    with pytest.raises(cawn.QueryError, match="no file can have this name"):
        refuse_output(Path(name), force=False)
