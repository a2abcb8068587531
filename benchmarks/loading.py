"""What it costs to check a run folder before it is used, beside building its index anew."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import cawn
from benchmarks.engine import power_law_events
from benchmarks.report import Row
from cawn.learn.runs import read_links, write_run
from cawn.systems.cawn.batches import Batcher
from cawn.systems.cawn.decays import decays


def loading(scale: float = 1.0) -> list[Row]:
    plain = power_law_events(int(2_000_000 * scale))
    events = plain.named([f"node {i}" for i in range(plain.num_nodes)])
    config = cawn.Config(alpha="ladder")
    alpha = decays(config, events.intensity)

    def build() -> Batcher:
        return Batcher.of(config, events, alpha, 1.0, build_threads=1)

    described = {"task": "transductive", "seed": 0, "links": len(events), "alpha": alpha, "unit": 1.0}
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder)
        write_run(run, config, events, described, build())
        size = sum(path.stat().st_size for path in run.rglob("*.npy"))
        detail = f"CPU time; {size / 2**20:,.0f} MiB, {len(alpha)} decays, rates"
        return [
            Row(f"{what}, {len(events):,} links", cpu_time(work), None, unit="s", detail=detail)
            for what, work in (
                ("checking ranges and shapes of a run", lambda: read_links(run, verify=False)),
                ("and its checksums", lambda: read_links(run)),
                ("building its index anew", build),
            )
        ]


def cpu_time(work: Callable[[], object], repeat: int = 3) -> float:
    """The least of several runs, on all threads together: what other programs do beside it does not count."""
    times = []
    for _ in range(repeat):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)
