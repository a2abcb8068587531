"""`cawn train --devices N` starts the command in N processes; here they run a short script instead."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from cawn.learn import launcher
from command_line import assert_refused, call_cawn

RESUME = "; training that has begun can be resumed (--resume)\n"


def test_bad_options_are_refused_before_processes_are_started(tmp_path) -> None:
    assert_refused(call_cawn("train", "x.csv", "--devices", "0", "-o", tmp_path / "run"), "--devices")


@pytest.mark.parametrize(
    ("script", "code", "message"),
    [
        ("pass", 0, ""),
        (
            "sys.exit(2 * (rank == 1))",
            2,
            f"cawn: rank 1 exited with code 2{RESUME}",
        ),
        (
            "os.kill(os.getpid(), 9 * (rank == 1))",
            2,
            f"cawn: rank 1 was killed by signal 9{RESUME}",
        ),
        ("(store.parent / 'printed').touch(); sys.exit(2)", 2, ""),
        ("sys.exit(130)", 130, ""),
        ("import signal; signal.signal(2, signal.SIG_DFL); os.kill(os.getpid(), 2)", 130, ""),  # a second Ctrl-C
        ("sys.exit(141 * (rank == 0))", 141, ""),
    ],
)
def test_exit_codes(script: str, code: int, message: str, monkeypatch, capfd) -> None:
    start = "import os, sys; from pathlib import Path; rank = int(os.environ['RANK'])\n"
    start += "store = Path(os.environ['CAWN_RANKS_STORE'])\n"
    monkeypatch.setattr(launcher, "COMMAND", (sys.executable, "-S", "-c", start + script))
    assert launcher.launch(2, []) == code
    assert capfd.readouterr().err == message


def test_processes_know_their_place(monkeypatch, capfd) -> None:
    names = "RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE"
    script = f"import os, sys; words = [*(os.environ[name] for name in {names}), *sys.argv[1:]]\n"
    script += "os.write(1, (' '.join(words) + '\\n').encode())"
    monkeypatch.setattr(launcher, "COMMAND", (sys.executable, "-S", "-c", script))
    assert launcher.launch(3, ["train", "x"]) == 0
    assert sorted(capfd.readouterr().out.splitlines()) == [f"{i} {i} 3 3 train x" for i in range(3)]


# One write per line: the lines of several processes must not mix.
WAITING = (
    "import os; os.write(1, b'ready\\n'); os.read(int(os.environ['CAWN_RANKS_PARENT']), 1); os.write(1, b'end\\n')"
)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_processes_stop_with_the_launcher(number: int) -> None:
    """Ctrl-C is passed on; if the launcher is killed, the processes notice it."""
    script = f"from cawn.learn import launcher; launcher.COMMAND = {(sys.executable, '-S', '-c', WAITING)!r}\n"
    script += "import sys; sys.exit(launcher.launch(2, []))"
    environment = os.environ | {"PYTHONPATH": str(Path(launcher.__file__).parents[2])}
    process = subprocess.Popen([sys.executable, "-c", script], stdout=-1, stderr=-1, text=True, env=environment)
    ready = [process.stdout.readline() for _ in range(2)]
    process.send_signal(number)
    out, err = process.communicate()
    assert ready == ["ready\n"] * 2, err
    if number == signal.SIGKILL:
        assert out == "end\n" * 2
    else:
        assert process.returncode == 130
        assert err.count("KeyboardInterrupt") == 2
