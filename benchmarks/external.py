"""Logs larger than memory: an index built under a memory limit, and walks from the files.

    python -m benchmarks external --links 100000000 --memory 4GiB --folder /large/disk

needs about 45 GB of disk. Every figure is measured in a process of its own.
"""

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from threading import Event, Thread
from typing import Any, NamedTuple

from benchmarks.report import Row, best_time, show

SMALL = 1_000_000  # links in memory that walks from the files are compared with
QUERIES = 5_000
WALKS_ALONE = {"rates": False, "since": False, "two_steps": False, "transitions": False}


class Built(NamedTuple):
    """What building an index in a new process took."""

    seconds: dict[str, float]  # of each stage
    total: float
    cpu: float  # seconds of all threads
    peak: int  # bytes, resident
    before: int  # bytes, when the modules were imported
    disk: int  # bytes of the folder


def build(log: str, folder: str, memory: int) -> Built:
    """Build an index folder."""
    from cawn.caw.config import Config
    from cawn.learn.indexing import build_index

    before, stages = _status("VmRSS"), _Stages()
    start, cpu = time.perf_counter(), time.process_time()
    build_index(log, folder, Config(**WALKS_ALONE), memory=memory, report=stages)
    total = time.perf_counter() - start
    disk = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    return Built(stages.seconds, total, time.process_time() - cpu, _status("VmHWM"), before, disk)


def compile_kernels(folder: str) -> None:
    """Build a small index in pieces, so that all compiled functions are on disk."""
    from benchmarks.logs import write_log
    from cawn.index import files

    Path(folder).mkdir()
    write_log(Path(folder, "log.csv"), 2_000)
    files.memory_to_build = lambda *_: 1 << 62
    build(str(Path(folder, "log.csv")), str(Path(folder, "index")), 1 << 31)
    walks_per_second(str(Path(folder, "index")), str(Path(folder, "log.csv")))
    build_in_memory(str(Path(folder, "log.csv")), str(Path(folder, "log.csv")))
    first_step(str(Path(folder, "index")))


def build_in_memory(log: str, small: str) -> tuple[float, float]:
    """Seconds of reading a log and of indexing its links in memory; a small one is read before."""
    import cawn
    from cawn.data.decays import ladder

    cawn.History(cawn.read(small), ladder(1.0))
    start = time.perf_counter()
    events = cawn.read(log)
    read = time.perf_counter() - start
    cawn.History(events, ladder(events.intensity))
    return read, time.perf_counter() - start - read


def walks_per_second(folder: str, log: str) -> tuple[float, float]:
    """Walks from an index folder, and from the links of a log in memory, on one core; in turns, the best of several."""
    import cawn
    from benchmarks.engine import LENGTH, M, late_queries
    from cawn.data.decays import ladder
    from cawn.index.features import PairParts
    from cawn.index.stored import stored_index

    stored, small = cawn.read(folder), cawn.read(log)
    assert stored.stored is not None
    facts, alone = stored.stored.description["facts"], PairParts(*[False] * len(PairParts._fields))
    index = stored_index(stored, tuple(facts["alpha"]), facts["unit"], alone, attributes=True)
    assert index is not None
    pairs = [
        (cawn.History.of(index), late_queries(stored, QUERIES)),
        (cawn.History(small, ladder(small.intensity)), late_queries(small, QUERIES)),
    ]
    seconds = [[best_time(partial(_sample, *pair, M, LENGTH), 2) for pair in pairs] for _ in range(5)]
    mapped, in_memory = (M * QUERIES / min(each) for each in zip(*seconds, strict=True))
    return mapped, in_memory


def first_step(folder: str) -> tuple[float, int, int]:
    """Seconds from opening an index folder to the end of the first training step, the memory that took apart from pages
    of files, and the number of training links."""
    import cawn
    from cawn.caw.config import Config
    from cawn.learn.trainer import Trainer

    peak, ended = [_status("RssAnon")], Event()

    def watch() -> None:
        while not ended.wait(0.05):
            peak.append(max(peak[-1], _status("RssAnon")))

    thread = Thread(target=watch)
    thread.start()
    start, before = time.perf_counter(), peak[0]
    trainer = Trainer(cawn.read(folder), Config(**WALKS_ALONE), device="cpu", quiet=True)
    next(trainer.steps(0, 0))
    seconds = time.perf_counter() - start
    ended.set()
    thread.join()
    return seconds, peak[-1] - before, len(trainer.split.train)


def opening(folder: str) -> tuple[float, float]:
    """Seconds until an index folder is open and all of its files are verified, and the same again."""
    import cawn

    seconds = []
    for path in (str(Path(folder).parent / "compiled" / "index"), folder, folder):
        start = time.perf_counter()
        _ = cawn.read(path).stored.index
        seconds.append(time.perf_counter() - start)
    return seconds[1], seconds[2]


SETTINGS = {
    "walks": WALKS_ALONE,
    "and rates": {"since": False, "two_steps": False, "transitions": False},
    "and all": {},
}


def estimated(links: int, changes: dict[str, bool]) -> tuple[float, float]:
    """Bytes and peak memory of an index that is built in memory, as estimated, over those that were measured."""
    import numpy as np

    import cawn
    from cawn.caw.config import Config
    from cawn.index.index import Index
    from cawn.index.sizes import LinkCounts, index_bytes, memory_to_build

    parts, alphas, rng = Config(**changes).pair_parts, np.geomspace(1e-7, 1e-2, 8), np.random.default_rng(0)

    def build_of(links: int) -> Index:
        nodes = max(links // 10, 10)
        src, dst = (rng.random((2, links)) ** 2 * nodes).astype(np.int32)
        events = cawn.Events(src, dst, np.sort(rng.integers(0, 5 * links, links)), num_nodes=nodes)
        return Index.of(events, alphas, parts.kinds, parts.decay(1.0))

    build_of(2_000)
    before = _status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    index = build_of(links)
    keys = [len(index.kinds[kind]["keys"]) if kind in index.kinds else 0 for kind in ("pairs", "next")]
    counts = LinkCounts(links, index.num_nodes, *keys)
    peak = _status("VmHWM") - before
    return index_bytes(counts, 8, parts) / index.nbytes, memory_to_build(counts, 8, parts) / peak


def _sample(history: Any, queries: tuple[Any, Any], num_walks: int, length: int) -> None:
    history.sample(*queries, num_walks=num_walks, length=length, seed=0, threads=1)


class _Stages:
    """Measures the stages instead of showing their progress."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(
        self, title: str, total: float | None = None, *, unit: Any = ""
    ) -> Iterator[Callable[[float], object]]:
        start = time.perf_counter()
        yield lambda _: None
        self.seconds[title] = self.seconds.get(title, 0.0) + time.perf_counter() - start


def _status(name: str) -> int:
    with open("/proc/self/status") as file:
        return next(1024 * int(line.split()[1]) for line in file if line.startswith(f"{name}:"))


def _in_new_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a function in a new process."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(function, arguments)


def external(links: int, memory: int, folder: Path) -> list[Row]:
    """The bars of logs larger than memory."""
    from benchmarks.logs import write_log

    tenth, small = max(links // 10, 1_000), min(SMALL, links)
    logs = {size: folder / f"log-{size}.csv" for size in (links, tenth, small)}
    for size, path in logs.items():
        if not path.exists():
            write_log(path, size)
    for old in ("index", "compiled"):
        shutil.rmtree(folder / old, ignore_errors=True)
    _in_new_process(compile_kernels, str(folder / "compiled"))
    log_bytes = logs[links].stat().st_size
    built: Built = _in_new_process(build, str(logs[links]), str(folder / "index"), memory)
    read, indexed = _in_new_process(build_in_memory, str(logs[tenth]), str(folder / "compiled" / "log.csv"))
    walks, reference = _in_new_process(walks_per_second, str(folder / "index"), str(logs[small]))
    cold, warm = _in_new_process(opening, str(folder / "index"))
    seconds, held, trained = _in_new_process(first_step, str(folder / "index"))
    sizes = {max(links // part, 100_000): part for part in (10, 2)}
    estimates = [
        Row(
            f"estimated over measured memory to build {size:,} links in memory, walks {name}".replace(
                "walks walks", "walks"
            ),
            memory_ratio,
            1.15,
            "<=",
            detail=f"bytes of the index: {size_ratio:.3f}",
        )
        for size in sizes
        for name, changes in SETTINGS.items()
        for size_ratio, memory_ratio in [_in_new_process(estimated, size, changes)]
    ]
    per_link, in_memory = built.total / links, (read + indexed) / tenth
    stages = ", ".join(f"{name} {seconds:.1f}" for name, seconds in built.seconds.items() if seconds >= 0.05)
    gib = 2**30
    return [
        Row(
            f"index of {links:,} links, peak resident memory over the limit",
            built.peak / memory,
            1.0,
            "<=",
            detail=f"{built.peak / gib:.2f} of {memory / gib:.2f} GiB; {built.before / gib:.2f} before it began",
        ),
        Row(
            f"time per link over that in memory at {tenth:,} links",
            per_link / in_memory,
            3.0,
            "<=",
            detail=f"{1e6 * per_link:.2f} and {1e6 * in_memory:.2f} µs (read {1e6 * read / tenth:.2f})",
        ),
        Row(
            f"walks/s from the files, warm, over {small:,} links in memory",
            walks / reference,
            0.3,
            detail=f"{walks / 1e6:.2f} and {reference / 1e6:.2f} million walks/s on one core, eight decays",
        ),
        Row("time to build", built.total, None, unit="s", detail=f"{built.cpu:.0f} s of CPU time; {stages}"),
        Row(
            "training from the files: memory until the first step, without pages of files",
            held / trained,
            None,
            unit="B/link",
            detail=f"{held / 1e9:.2f} GB for {trained:,} training links",
        ),
        Row("training from the files: time until the first step", seconds, None, unit="s"),
        Row(
            "opening, the checksums of all files included",
            warm,
            None,
            unit="s",
            detail=f"{built.disk / warm / 1e9:.1f} GB/s from the cache; {cold:.2f} s the first time",
        ),
        Row("index folder", built.disk / links, None, unit="B/link", detail=f"the log has {log_bytes / links:.0f}"),
        Row(
            "a billion links, extrapolated",
            1e9 * per_link / 3600,
            None,
            unit="hours",
            detail=f"{built.disk / links:,.0f} GB of disk beside the log",
        ),
        *estimates,
    ]


def main(arguments: Sequence[str]) -> int:
    from cawn.checks import parse_bytes

    parser = argparse.ArgumentParser(prog="python -m benchmarks external", description=__doc__.splitlines()[0])
    parser.add_argument("--links", type=int, default=2_000_000, help="links of the log (2 million)")
    parser.add_argument("--memory", default="600MiB", help="memory limit of the build (600MiB)")
    parser.add_argument("--folder", type=Path, help="where logs and index are written; a temporary folder by default")
    parser.add_argument("--keep", action="store_true", help="keep logs and index in --folder")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    if options.keep and options.folder is None:
        parser.error("--keep needs --folder")
    memory = parse_bytes(options.memory, "--memory")
    with tempfile.TemporaryDirectory(dir=options.folder) as temporary:
        folder = options.folder if options.keep else Path(temporary)
        rows = external(options.links, memory, folder)
    if options.json:
        print(json.dumps([asdict(row) | {"passed": row.passed} for row in rows], indent=2))
    else:
        show("cawn: logs larger than memory", rows)
    return 0 if all(row.passed for row in rows) else 1
