"""Figures of public names alone, which any two versions of the package have: see `benchmarks.against`.

    python -m benchmarks.public walking

prints them as JSON. The package is the one on PYTHONPATH; files go to a temporary folder.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv

import cawn
from benchmarks.engine import LENGTH, M, late_queries, power_law_events, uci
from benchmarks.report import best_time
from cawn.systems import settings_type

Figures = dict[str, float]

LADDER = (0.01, 0.05, 0.25, 1.2, 6.0, 30.0, 150.0, 750.0)  # decays relative to the intensity
SYSTEMS = ("cawn", "rates", "tgat", "graphmixer", "nat", "tpnet", "tgn", "dyrep-original", "jodie-original")
TRAINED, SCORED = 6_000, 2_000  # links
OPENED = 1_000_000
ROWS = 10_000_000
CACHE_WRITER = "index cache"  # the thread that caches the index of a run, in versions that do


def walking(folder: Path) -> Figures:
    """Walks on one core: UCI, and a power-law network of one and of ten million links."""
    found = {"UCI": _walks_per_second(uci(), 2_000, 20)}
    one, ten = (_walks_per_second(power_law_events(size), 5_000, 5) for size in (1_000_000, 10_000_000))
    return found | {"1 million links": one, "10 million links": ten, "10 million links / 1 million": ten / one}


def _walks_per_second(events: cawn.Events, queries: int, repeat: int) -> float:
    history = cawn.History(events, [factor * events.intensity for factor in LADDER])
    sample = partial(history.sample, *late_queries(events, queries), num_walks=M, length=LENGTH, seed=0, threads=1)
    return M * queries / best_time(sample, repeat)


def training(folder: Path) -> Figures:
    """CPU seconds of an epoch and of scoring pairs, on one thread, for systems that read the index."""
    events, found = uci(), Figures()
    few, some = events[:600], events[:TRAINED]
    pairs = some.src[-SCORED:], np.roll(some.dst[-SCORED:], 1)
    for system in SYSTEMS:
        train = partial(cawn.train, config=settings_type(system)(epochs=1), threads=1, quiet=True, **_tested_briefly())
        train(few)  # compiles
        found[f"{system}, training"] = _cpu_seconds(partial(train, some, out=folder / system))
        predictor = cawn.LinkPredictor.load(folder / system, device="cpu", threads=1)
        names = [some.labels[side].tolist() for side in pairs]
        score = partial(predictor.score, *names, float(some.t[-1] + 1))
        score()
        found[f"{system}, scoring"] = min(_cpu_seconds(score) for _ in range(3))
    return found


def reading(folder: Path) -> Figures:
    """CPU seconds and peak memory of reading a CSV file, in a new process."""
    events, found = power_law_events(ROWS), Figures()
    for kind in ("integers", "text"):
        ends = [np.char.add("node", end.astype("U8")) if kind == "text" else end for end in (events.src, events.dst)]
        path = folder / f"{kind}.csv"
        csv.write_csv(pa.table([*map(pa.array, ends), pa.array(events.t)], names=["src", "dst", "t"]), path)
        del ends
        code = "import cawn, sys, time, resource; cawn.read(sys.argv[1]); start = time.process_time();"
        code += "cawn.read(sys.argv[2]); print(time.process_time() - start, 'VmHWM');"
        code += "print([line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')][0])"
        (folder / "few.csv").write_text("\n".join(path.open().readline() for _ in range(1)) + "1,2,3\n")
        done = subprocess.run(
            [sys.executable, "-c", code, str(folder / "few.csv"), str(path)], capture_output=True, text=True, check=True
        )
        seconds, _, kilobytes = done.stdout.split()
        found |= {f"{kind}, CPU s": float(seconds), f"{kind}, peak MB": int(kilobytes) / 1e3}
        path.unlink()
    return found


def _tested_briefly() -> dict[str, Any]:
    """The options of a training whose test is short, in this version and in earlier ones."""
    if hasattr(cawn, "Task"):
        return {"task": cawn.Task(negatives=("random",), baselines=False)}
    return {"kinds": ("random",), "baselines": False}


def opening(folder: Path) -> Figures:
    """CPU and elapsed seconds from loading a run with the features of the default until the first score."""
    plain = power_law_events(OPENED)
    events = cawn.Events(plain.src, plain.dst, plain.t // 10**3)
    few = events[:2_000]
    cawn.train(few, cawn.Config(epochs=1), out=folder / "few", quiet=True, **_tested_briefly())
    predictor = cawn.LinkPredictor.load(folder / "few", device="cpu", **_options(cache=False, max_ahead=1e18))
    predictor.update(events[2_000:])
    predictor.save(folder / "run")
    del predictor
    found: Figures = {"run, MB": _size(folder / "run")}
    for attempt in ("first time", "again", "third time"):
        code = "import cawn, sys, time, threading\n"
        code += "cawn.LinkPredictor.load(sys.argv[2], device='cpu').score([1], [2], 1e6)\n"
        code += "start, cpu = time.perf_counter(), time.process_time()\n"
        code += "p = cawn.LinkPredictor.load(sys.argv[1], device='cpu'); p.score([1], [2], 10.0**6)\n"
        code += "print(time.perf_counter() - start, time.process_time() - cpu)\n"
        code += f"[thread.join() for thread in threading.enumerate() if thread.name == {CACHE_WRITER!r}]\n"
        command = [sys.executable, "-W", "ignore", "-c", code, str(folder / "run"), str(folder / "few")]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        elapsed, cpu = map(float, done.stdout.split())
        found |= {f"{attempt}, s": elapsed, f"{attempt}, CPU s": cpu}
    return found


def _options(**wanted: Any) -> dict[str, Any]:
    """Those options of `LinkPredictor.load` that this version has."""
    return {name: value for name, value in wanted.items() if name in cawn.LinkPredictor.load.__annotations__}


def stored(folder: Path) -> Figures:
    """The size of a run of `rates` on UCI."""
    cawn.train(uci(), settings_type("rates")(epochs=1), out=folder / "run", quiet=True, **_tested_briefly())
    for thread in threading.enumerate():
        if thread.name == CACHE_WRITER:
            thread.join()
    return {"run of rates on UCI, MB": _size(folder / "run")}


def compiling(folder: Path) -> Figures:
    """CPU seconds of `cawn demo` with nothing compiled, and again, and the number of compiled functions."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(folder / "cache")}
    seconds = []
    for _ in range(2):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "cawn", "demo"], env=environment, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    functions = len(list((folder / "cache").rglob("*.nbc")))
    return {"cold, CPU s": seconds[0], "warm, CPU s": seconds[1], "compiling, CPU s": seconds[0] - seconds[1]} | {
        "compiled functions": functions
    }


def _cpu_seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def _size(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


PARTS = {part.__name__: part for part in (walking, training, reading, opening, stored, compiling)}


def main(names: list[str]) -> None:
    warnings.simplefilter("ignore")
    found = {}
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            found |= {f"{name}: {what}": figure for what, figure in PARTS[name](Path(folder)).items()}
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1:])
