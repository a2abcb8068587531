"""Scoring folders of pairs: Ray against one process, on the same run, pairs and cores.

    python -m benchmarks scoring --pairs 5000000

Each engine is a new process, `cawn predict RUN pairs/ -o scored/`, bound to two cores and timed from its start to its
end. Ray has one worker with one thread on each core, the other engine two threads. Memory is sampled during the run.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import cawn
from benchmarks.engine import power_law_events
from benchmarks.report import Row, show
from cawn.kernels.threads import num_cores
from cawn.systems.rates import RatesSettings

CORES = 2
PER_FILE = 1_000_000  # pairs
INTERVAL = 0.5  # seconds between samples of memory
LINKS = 20_000


@dataclass
class Measured:
    """What scoring all pairs took; bytes of memory since the first partition was finished."""

    seconds: float = 0.0
    steady: float = 0.0  # pairs per second between the first and the last partition
    driver: list[int] = field(default_factory=list)
    workers: list[int] = field(default_factory=list)


def train(folder: Path, system: str) -> Path:
    """A run on a network with hubs, trained for one epoch."""
    config: Any = cawn.Config(epochs=1) if system == "cawn" else RatesSettings(epochs=1)
    options: dict[str, Any] = {
        "task": cawn.Task(negatives=("random",), baselines=False),
        "device": "cpu",
        "quiet": True,
    }
    cawn.train(power_law_events(LINKS), config, out=folder / "run", **options)
    return folder / "run"


def write_pairs(folder: Path, count: int) -> Path:
    """Files of random pairs, at random times in the last tenth of the links."""
    folder.mkdir()
    rng, events = np.random.default_rng(0), power_law_events(LINKS)
    first, last = int(events.t[-LINKS // 10]), int(events.t[-1])
    for number, start in enumerate(range(0, count, PER_FILE)):
        size = min(PER_FILE, count - start)
        ends = {name: rng.integers(0, events.num_nodes, size) for name in ("src", "dst")}
        table = pa.table(ends | {"t": rng.integers(first, last, size)})
        pq.write_table(table, folder / f"{number:04d}.parquet")
    return folder


def measure(run: Path, pairs: Path, out: Path, *options: object) -> Measured:
    """Score the pairs in a new process, bound to `CORES` cores."""
    cores = sorted(os.sched_getaffinity(0))[:CORES]
    command = [sys.executable, "-m", "cawn", "predict", run, pairs, "-o", out, "--device", "cpu", "-q", *options]
    found, start = Measured(), time.perf_counter()
    with subprocess.Popen(list(map(str, command)), preexec_fn=lambda: os.sched_setaffinity(0, cores)) as process:
        while True:
            try:
                code = process.wait(INTERVAL)
                break
            except subprocess.TimeoutExpired:
                if next(out.glob("part-*"), None):
                    workers = [each for each in _descendants(process.pid) if "PartitionWorker" in _command_line(each)]
                    found.driver.append(_resident(process.pid))
                    found.workers.append(sum(map(_resident, workers)))
    found.seconds = time.perf_counter() - start
    if code:
        raise SystemExit(f"benchmarks: {' '.join(map(str, command))} ended with exit code {code}")
    found.steady = _steady_rate(out)
    return found


def _steady_rate(out: Path) -> float:
    """Pairs per second between the first and the last partition; 0 if there is but one."""
    times, sizes = zip(
        *sorted((p.stat().st_mtime, pq.read_metadata(p).num_rows) for p in out.glob("part-*")), strict=True
    )
    return sum(sizes[1:]) / (times[-1] - times[0]) if len(times) > 1 else 0.0


def _descendants(parent: int) -> Iterator[int]:
    """The descendants of a process."""
    parents = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            parents[int(name)] = int(Path("/proc", name, "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    known = {parent}
    while more := {each for each, above in parents.items() if above in known} - known:
        known |= more
    yield from known - {parent}


def _command_line(process: int) -> str:
    try:
        return Path(f"/proc/{process}/cmdline").read_text()
    except OSError:
        return ""


def _resident(process: int) -> int:
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError):
        return 0


def difference(one: Path, other: Path) -> float:
    """The largest difference between the probabilities of two outputs with the same pairs."""
    a, b = (pq.read_table(folder) for folder in (one, other))
    if a.drop(["probability"]).replace_schema_metadata(None) != b.drop(["probability"]).replace_schema_metadata(None):
        raise SystemExit(f"benchmarks: {one} and {other} have different rows")
    return float(pc.max(pc.abs(pc.subtract(a["probability"], b["probability"]))).as_py())


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser("python -m benchmarks scoring", description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=200_000)
    parser.add_argument("--system", choices=("rates", "cawn"), default="rates")
    parser.add_argument("--engine", choices=("local", "ray"), help="measure only this one")
    parser.add_argument("--folder", type=Path, help="where to write; a temporary folder by default")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=given.folder) as temporary:
        folder = Path(temporary)
        run, pairs = train(folder, given.system), write_pairs(folder / "pairs", given.pairs)
        engines = {"local": ("--threads", CORES), "ray": ("--engine", "ray", "--workers", CORES, "--threads", 1)}
        found: dict[str, Measured] = {}
        for name, options in engines.items():
            if given.engine in (None, name):
                found[name] = measure(run, pairs, folder / name, *options)
        rows = list(_rows(found, given.pairs))
        if len(found) == 2:
            gap = difference(folder / "local", folder / "ray")
            rows.append(Row("largest difference between the probabilities", gap, 1e-4, "<=", "", ""))
    if given.json:
        print(json.dumps([asdict(row) for row in rows]))
    else:
        show(f"scoring {given.pairs:,} pairs with {given.system} on {min(CORES, num_cores())} cores", rows)
    return 0 if all(row.passed for row in rows) else 1


def _rows(found: dict[str, Measured], pairs: int) -> Iterator[Row]:
    for name, each in found.items():
        yield Row(f"{name}: pairs per second", pairs / each.seconds, None, unit="", detail=f"{each.seconds:.1f} s")
        if each.steady:
            yield Row(f"{name}: pairs per second without start and end", each.steady, None, unit="")
            yield Row(f"{name}: a billion pairs", 1e9 / each.steady / 3600, None, unit="h", detail="at that rate")
        for what, memory in (("driver", each.driver), ("workers", each.workers)):
            if len(memory) > 7 and any(memory):
                half, detail = len(memory) // 2, f"peak {max(memory) / 1e6:,.0f} MB"
                growth = max(memory[half:]) / max(memory[:half])
                yield Row(f"{name}: memory of the {what}, second half / first", growth, 1.1, "<=", "x", detail)
    if len(found) == 2:
        ratio = found["local"].seconds / found["ray"].seconds
        yield Row("Ray against one process, pairs per second", ratio, 0.8, unit="x", detail="start and end included")
