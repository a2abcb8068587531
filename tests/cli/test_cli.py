"""What every command shares: version, help, completion, closed pipes, and errors on one line."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import cawn
from cawn.cli import app
from command_line import assert_refused, call_cawn, run_cawn, run_python


def test_version() -> None:
    assert run_cawn("--version") == (0, f"cawn {cawn.__version__}\n", "")


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


def test_no_metavar_is_the_name_of_its_option_in_capitals() -> None:
    """Some versions of typer would call such an option --TIME; its name has to be given."""
    from typing import get_type_hints

    from typer.models import OptionInfo

    apps = [app, *(group.typer_instance for group in app.registered_groups)]
    callbacks = [command.callback for one in apps for command in one.registered_commands]
    assert len(callbacks) > 8
    for callback in callbacks:
        for name, hint in get_type_hints(callback, include_extras=True).items():
            for option in getattr(hint, "__metadata__", ()):
                if isinstance(option, OptionInfo) and option.metavar:
                    named = option.param_decls or isinstance(option.default, str)
                    assert named or option.metavar.lower() != name, (callback.__name__, name)


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
    found = run_cawn(**environment)
    assert found.code == 0
    assert found.err == ""
    assert all(word in found.out for word in words)


def test_the_script_for_completion_is_shown() -> None:
    shown = run_cawn("--show-completion", "bash", _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert shown.code == 0
    assert shown.err == ""
    assert "_CAWN_COMPLETE=complete_bash" in shown.out


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
        (MemoryError(), "out of memory; use fewer links, or the settings that 'cawn systems NAME' names"),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory"), "out of memory; use fewer links"),
        (cawn.DataError("row 1:\n\x1b[31m" + "x" * 9000), "row 1: \\x1b[31mxxx"),
        (FileNotFoundError(2, "No such file", "a\x1b[2J\n.csv"), "a\\x1b[2J .csv: No such file"),
    ],
)
def test_errors_are_one_printable_line(monkeypatch, error: Exception, reason: str) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("cawn.cli.app", fail)
    output = call_cawn()
    assert_refused(output, "cawn: " + reason)
    assert "\x1b" not in output.err
    assert len(output.err) < 520


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["train"], "DATA is missing"),
        (["train", "nothing.csv"], "no such file"),
        (["train", "nonsense"], "no dataset of this name"),
        (["train", "{edges}", "--preset", "best"], "preset 'best'"),
        (["train", "{edges}", "--set", "speed=9"], "setting 'speed' does not exist"),
        (["train", "{edges}", "--set", "dim"], "write KEY=VALUE"),
        (["train", "{edges}", "--set", "dim=-1"], "dim is -1"),
        (["train", "{edges}", "--task", "magic"], "Invalid value for '--task'"),
        (["train", "{edges}", "--src", "who"], "there is no such column"),
        (["train", "{edges}", "-o", "{run}"], "holds a run already"),
        (["train", "--resume", "-o", "{folder}/none"], "holds no run"),
        (["train", "--resume", "-o", "{run}", "--set", "dim=8"], "own settings"),
        (["evaluate", "{folder}/none"], "holds no run"),
        (["evaluate", "{run}", "--negatives", "mean"], "negatives 'mean'"),
        (["predict", "{folder}/none", "{pairs}"], "holds no run"),
        (["predict", "{run}", "{folder}/none.csv"], "no such file"),
        (["predict", "{run}", "{pairs}", "--src", "who"], "there is no such column"),
        (["predict", "{run}", "{folder}/two.csv"], "no column of times"),
        (["predict", "{run}", "{pairs}", "--prior", "0"], "prior is 0"),
        (["predict", "{run}", "{pairs}", "--json"], "--json needs -o"),
        (["predict", "{run}", "{pairs}", "--at", "5"], "has a column of times"),
        (["predict", "{run}", "{pairs}", "--at", "5", "--time", "date"], "not both"),
        (["predict", "{run}", "{pairs}", "-o", "{folder}/x.xlsx"], "written as .csv or .parquet"),
        (["predict", "{run}", "{pairs}", "-o", "{folder}", "--force"], "holds the input file"),
        (["predict", "{run}", "{pairs}", "-o", "{folder}/none/x.csv"], "no such folder"),
        (["predict", "{run}", "{pairs}", "-o", "{folder}/x.csv", "--prior", "1"], "prior is 1"),
        (["predict", "{pairs}", "{pairs}"], "is a file, not the folder of a run"),
        (["train", "{edges}", "--set", "self=1"], "setting 'self' does not exist"),
        (["rank", "{run}", "--node", "x", "--time", "5", "-k", "many"], "Try 'cawn rank --help'"),
        (["predict", "{run}", "{pairs}", "-o", "{pairs}"], "already exists"),
        (["predict", "{run}", "{pairs}", "-o", "{pairs}/x.csv"], "no such folder"),
        (["predict", "{run}", "{pairs}", "--draws", "1"], "Invalid value for '--draws'"),
        (["predict", "{run}", "{pairs}", "--device", "tpu"], "device is 'tpu': give auto, cpu, cuda"),
        (["rank", "{run}", "--node", "person 1", "--time", "soon"], "ISO date"),
        (["rank", "{run}", "--node", "person 1", "--time", "\udcff"], "ISO date"),
        (["train", "{edges}", "-o", "{folder}/new", "--set", "alpha=" + 5_000 * "["], "alpha is '[[["),
        (["rank", "{run}", "--node", "person 1", "--time", "5", "-k", "0"], "Invalid value for '-k'"),
        (["rank", "{run}", "--node", "person 1", "--time", "5", "--kind", "luck"], "kinds 'luck'"),
        (["explain", "{run}"], "give --src, --dst and --time"),
        (["explain", "{run}", "--global", "--src", "person 1"], "cannot be combined with --src"),
        (
            ["explain", "{run}", "--src", "person 1", "--dst", "nobody", "--time", "2024-05-01"],
            "'nobody' is not in the",
        ),
        (["explain", "{run}", "--src", "person 1", "--dst", "person 2", "--time", "1999-01-01"], "nothing to explain"),
        (["explain", "{run}", "--src", "person 1", "--dst", "person 2", "--time", "soon"], "ISO date"),
        (["explain", "{run}", "--global", "-o", "{folder}/why.pdf"], "must end in .html, .svg, .png, .json"),
        (["explain", "{run}", "--global", "-o", "{folder}/none/x.html"], "no such folder"),
        (["explain", "{run}", "--global", "--links", "0"], "Invalid value for '--links'"),
        (["explain", "{run}", "--global", "--draws", "1"], "Invalid value for '--draws'"),
        (["explain", "{run}", "--global", "--draws", "4"], "cannot be combined with --draws"),
        (["explain", "{run}", "--src", "a", "--dst", "b", "--time", "5", "--links", "9"], "--links requires --global"),
        (["explain", "{folder}/none", "--global"], "holds no run"),
        (["datasets", "where", "nonsense"], "no dataset 'nonsense'"),
        (["datasets", "download", "nonsense"], "no dataset 'nonsense'"),
        (["datasets", "frob"], "No such command 'frob'"),
        (["demo", "--data", "moon"], "Invalid value for '--data'"),
    ],
)
def test_every_command_refuses_bad_input_in_one_line(workshop: Path, arguments: list[str], reason: str) -> None:
    before = sorted(str(p) for p in workshop.rglob("*"))
    places = {name: str(workshop / f"{name}.csv") for name in ("edges", "pairs")}
    places |= {"run": str(workshop / "run"), "folder": str(workshop)}
    assert_refused(call_cawn(*(word.format(**places) for word in arguments)), reason)
    assert sorted(str(p) for p in workshop.rglob("*")) == before


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["frob"], "No such command 'frob'"),
        (["demo", "--walks", "x"], "Invalid value for '--walks'"),
        (["demo", "--walks", "0"], "Invalid value for '--walks'"),
        (["demo", "--length", "99"], "Invalid value for '--length'"),
        (["demo", "--seed", "-1"], "Invalid value for '--seed'"),
        (["demo", "--frob"], "No such option: --frob"),
        (["demo", "extra"], "unexpected extra argument"),
    ],
)
def test_unknown_words_and_values_are_refused(arguments: list[str], reason: str) -> None:
    assert_refused(call_cawn(*arguments), reason)


def test_help_loads_nothing_heavy() -> None:
    """So it is quick."""
    shown = run_cawn("--help")
    assert shown.code == 0
    assert "demo" in shown.out
    code = "import sys, cawn.cli; print(sorted({'numba', 'torch', 'pyarrow'} & set(sys.modules)))"
    assert run_python("-c", code) == (0, "[]\n", "")


def test_bad_input_of_a_real_process() -> None:
    assert_refused(run_cawn("demo", "--walks", "x"), "Invalid value for '--walks'")
