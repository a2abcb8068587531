"""The benchmarks run; their figures are for `make bench`."""

import subprocess
import sys
from pathlib import Path


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parent.parent, check=False)


def test_quick_run(data_folder: Path) -> None:
    shown = run("--quick")
    assert shown.returncode == 0, shown.stderr
    for what in ("walks, UCI", "relative identities", "history build", "stream, events", "CSV of"):
        assert what in shown.stdout


def test_an_unknown_part_is_refused() -> None:
    refused = run("frob")
    assert refused.returncode == 2
    assert refused.stderr.startswith("benchmarks: no part 'frob'")
