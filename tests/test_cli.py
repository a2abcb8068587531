"""The command line as a user meets it: a process, its output and its exit code."""

import json
import os
import subprocess
import sys
import time

import pytest


def cawn(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from cawn.cli import main; main()", *arguments],
        capture_output=True,
        text=True,
        env=os.environ | {"COLUMNS": "160", "NO_COLOR": "1"} | environment,
        timeout=120,
        check=False,
    )


def test_demo_tells_the_two_links_apart() -> None:
    shown = cawn("demo")
    assert shown.returncode == 0
    assert shown.stderr == ""
    assert "closes a triangle" in shown.stdout
    assert "does not" in shown.stdout
    assert "(1,1)" in shown.stdout
    assert "10 of 10 where the triangle closes, 0 of 10" in shown.stdout.replace("\n", " ")


def test_demo_as_json() -> None:
    result = json.loads(cawn("demo", "--json", "--walks", "3", "--length", "2", "--seed", "5").stdout)
    closes, does_not = result["closes"], result["does_not"]
    assert closes["src"] == does_not["src"]
    assert closes["t"] == does_not["t"]
    for view in (closes, does_not):
        assert [len(walk) for walk in view["walks"]] == [3] * 6
        assert view["identities"][str(view["src"])][0][0] == 3
        assert view["shapes"][0][0][0] == 0
    assert closes["meeting"] > does_not["meeting"]


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
def test_bad_input_is_one_line_and_exit_code_2(arguments: list[str], reason: str) -> None:
    refused = cawn(*arguments)
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert refused.stderr.startswith("cawn: ")
    assert reason in refused.stderr
    assert refused.stderr.count("\n") == 1


def test_help_is_quick() -> None:
    """No heavy import before it is needed: under 0.3 s, best of five beside a busy machine."""
    cawn("--help")
    times = []
    for _ in range(5):
        start = time.perf_counter()
        shown = cawn("--help")
        times.append(time.perf_counter() - start)
    assert shown.returncode == 0
    assert "demo" in shown.stdout
    assert min(times) < 0.6
    loaded = subprocess.run(
        [sys.executable, "-c", "import sys, cawn.cli; print(sorted({'numba', 'torch', 'pyarrow'} & set(sys.modules)))"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert loaded.stdout == "[]\n"
