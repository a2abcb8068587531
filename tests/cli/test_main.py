"""What every command shares: version, help, completion, closed pipes, devices, and errors on one line."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

import cawn
from cawn.cli import app
from cawn.cli.options import TerminalStream, refuse_output


def run(*arguments: str, code: str | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    start = ["-m", "cawn"] if code is None else ["-c", code]
    return subprocess.run(
        [sys.executable, *start, *arguments],
        capture_output=True,
        text=True,
        env=os.environ | {"COLUMNS": "120", "NO_COLOR": "1"} | environment,
        check=False,
    )


def test_version() -> None:
    shown = run("--version")
    assert (shown.returncode, shown.stdout, shown.stderr) == (0, f"cawn {cawn.__version__}\n", "")


def commands() -> list[tuple[str, ...]]:
    from typer.main import get_command

    group = get_command(app)
    names: list[tuple[str, ...]] = []
    for name, command in sorted(group.commands.items()):
        names.append((name,))
        names += [(name, below) for below in sorted(getattr(command, "commands", {}))]
    return names


def test_every_help_has_an_example_and_shows_flags_without_a_type() -> None:
    from typer.main import get_command
    from typer.testing import CliRunner

    found = commands()
    assert ("train",) in found
    assert ("datasets", "verify") in found
    for names in [(), *found]:
        for option in ("-h", "--help"):
            shown = CliRunner().invoke(app, [*names, option], prog_name="cawn")
            assert shown.exit_code == 0
            assert "Example: cawn" in shown.output, names
            assert "bool" not in shown.output.lower(), names
    assert set(get_command(app).commands) == {name for name, *_ in found}


@pytest.mark.parametrize(
    ("environment", "words"),
    [
        ({"_CAWN_COMPLETE": "complete_bash", "COMP_WORDS": "cawn ev", "COMP_CWORD": "1"}, ["evaluate"]),
        ({"_CAWN_COMPLETE": "complete_zsh", "_TYPER_COMPLETE_ARGS": "cawn ev"}, ["evaluate"]),
        ({"_CAWN_COMPLETE": "complete_fish", "_TYPER_COMPLETE_ARGS": "cawn ev"} | {
            "_TYPER_COMPLETE_FISH_ACTION": "get-args"
        }, ["evaluate"]),
        ({"_CAWN_COMPLETE": "complete_bash", "COMP_WORDS": "cawn train --dev", "COMP_CWORD": "2"}, ["--device"]),
        ({"_CAWN_COMPLETE": "source_bash"}, ["_cawn_completion", "complete_bash"]),
    ],
)  # fmt: skip
def test_shell_completion(environment: dict[str, str], words: list[str]) -> None:
    found = run(**environment)
    assert found.returncode == 0
    assert found.stderr == ""
    assert all(word in found.stdout for word in words)


def test_the_script_for_completion_is_shown() -> None:
    shown = run("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert shown.returncode == 0
    assert shown.stderr == ""
    assert "_CAWN_COMPLETE=complete_bash" in shown.stdout


@pytest.mark.parametrize("arguments", [["datasets"], ["datasets", "--json"], ["--help"]], ids=["table", "json", "help"])
def test_a_closed_pipe_ends_a_command_quietly(arguments: list[str], tmp_path: Path) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [sys.executable, "-m", "cawn", *arguments], stdout=write_end, stderr=subprocess.PIPE, check=False
    )
    os.close(write_end)
    assert done.stderr == b""
    assert done.returncode == 141


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        ("MemoryError()", "out of memory; train with a lower num_walks, batch_size or dim"),
        ("""RuntimeError("DefaultCPUAllocator: can't allocate memory")""", "out of memory; train with a lower"),
        (r"cawn.DataError('row 1:\n\x1b[31m' + 'x' * 9000)", "row 1: \\x1b[31mxxx"),
        (r"FileNotFoundError(2, 'No such file', 'a\x1b[2J\n.csv')", "a\\x1b[2J .csv: No such file"),
    ],
)
def test_errors_are_one_printable_line(error: str, reason: str) -> None:
    code = f"import cawn, cawn.cli as cli\ndef fail(*_, **__): raise {error}\ncli.app = fail\ncli.main()"
    done = run(code=code)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.startswith("cawn: " + reason)
    assert done.stderr.count("\n") == 1
    assert "\x1b" not in done.stderr
    assert len(done.stderr) < 520


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
    assert run(code=code).stdout == "\x1b[31mred\n"
    ours, theirs = os.openpty()
    subprocess.run([sys.executable, "-c", code], stdout=theirs, check=True, timeout=120)
    os.close(theirs)
    assert os.read(ours, 1_000).strip() == rb"\x1b[31mred"
    os.close(ours)


@pytest.mark.parametrize("name", ["out\ud800.csv", "out\0.csv"])
def test_outputs_that_no_file_can_be_called(name: str) -> None:
    with pytest.raises(cawn.QueryError, match="no file can have this name"):
        refuse_output(Path(name), force=False)
