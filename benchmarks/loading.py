"""What it costs to open a run: with the index built from its links, and with the cache of the index mapped."""

import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import numpy as np
import torch

import cawn
from benchmarks.engine import power_law_events
from benchmarks.report import Row
from cawn.caw.system import CawnSystem
from cawn.data.names import NameIndex
from cawn.learn import index_cache
from cawn.learn.runs import write_report, write_run
from cawn.systems.base import Context


def loading(scale: float = 1.0) -> list[Row]:
    plain = power_law_events(int(2_000_000 * scale))
    events = plain.named(NameIndex.of(np.array([f"node {i}" for i in range(plain.num_nodes)], object)))
    config = cawn.Config(alpha="ladder")
    facts = {"alpha": config.decays(events.intensity), "unit": 1.0}

    system = CawnSystem(Context(config, events, 0, torch.device("cpu"), facts=dict(facts)))
    described = {"system": "cawn", "task": "transductive", "seed": 0, "links": len(events), "facts": facts}
    with tempfile.TemporaryDirectory() as folder, mock.patch.object(index_cache, "SLOW", 0.0):
        run = Path(folder)
        write_run(run, config, events, described)
        write_report(run, {name: value.numpy() for name, value in system.module.state_dict().items()}, {}, None, "")
        links = f"run of {size(run):,.0f} MiB"
        first = cpu_time(lambda: load(run), before=lambda: index_cache.remove(run))
        cached = f"{size(run / index_cache.FOLDER):,.0f} MiB mapped, {len(facts['alpha'])} decays, all features"
        work = [
            ("first opening: index built and cached", first, links),
            ("second opening: cached index mapped", cpu_time(lambda: load(run)), cached),
            ("the same without checksums", cpu_time(lambda: load(run, verify=False)), cached),
        ]
        return [
            Row(f"{what}, {len(events):,} links", seconds, None, unit="s", detail=f"CPU time; {detail}")
            for what, seconds, detail in work
        ]


def size(folder: Path) -> float:
    """In MiB."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**20


def load(run: Path, *, verify: bool = True) -> None:
    cawn.LinkPredictor.load(run, device="cpu", verify=verify)
    for thread in threading.enumerate():
        if thread.name == index_cache.WRITER:
            thread.join()


def cpu_time(work: Callable[[], object], repeat: int = 3, before: Callable[[], object] = lambda: None) -> float:
    """The least of several runs, on all threads together: what other programs do beside it does not count."""
    times = []
    for _ in range(repeat):
        before()
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)
