"""The benchmarks run; their figures are for `make bench`."""

import json
import subprocess
import sys
from pathlib import Path

from cawn.data import laws


def run(*arguments: str, module: str = "benchmarks") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", module, *arguments]
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


def test_the_live_service() -> None:
    shown = run("serving", "--quick", "--only", "server", "--json")
    assert shown.returncode == 0, shown.stderr
    rows = {row["what"]: row for row in json.loads(shown.stdout)}
    for what in (
        "acknowledged links missing, doubled or invisible",
        "embeddings after a restart against offline, difference",
    ):
        assert rows[what]["measured"] == 0
    assert all(row["measured"] > 0 for what, row in rows.items() if "/s" in row["unit"])
    refused = run("serving", "--only", "frob")
    assert refused.returncode == 2
    assert "no part 'frob'" in refused.stderr


def test_the_speed_of_systems(tmp_path: Path) -> None:
    links = laws.triadic_closure(30, 600, seed=0).events
    rows = [f"{u},{v},{t}" for u, v, t in zip(links.src, links.dst, links.t, strict=True)]
    (tmp_path / "links.csv").write_text("src,dst,time\n" + "\n".join(rows) + "\n")
    options = ("--network", str(tmp_path / "links.csv"), "--device", "cpu", "--seconds", "0.2")
    shown = run(*options, "--systems", "rates", "--save", str(tmp_path / "speed.json"), module="benchmarks.field")
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "rates " in shown.stdout.splitlines()[2]
    (speed,) = json.loads((tmp_path / "speed.json").read_text())
    assert speed["links_per_second"] > 0
    assert speed["pairs_per_second"] > 0
    refused = run(*options, "--systems", "frob", module="benchmarks.field")
    assert refused.returncode == 1
    assert "failed: QueryError: system is 'frob'" in refused.stdout


def test_networks_with_few_distinct_times() -> None:
    shown = run("--seats", "18", "--seeds", "1", "--epochs", "1", module="benchmarks.sessions")
    assert shown.returncode == 0, shown.stderr
    names = [line.split()[0] for line in shown.stdout.splitlines()]
    assert names[2:] == ["senate", "cosponsors", "parliament"]
    for line in shown.stdout.splitlines()[2:]:
        figures = [float(figure) for figure in line.split()[1:]]
        assert figures[-1] > figures[1]  # the scorer that knows the links is above the recency rule
