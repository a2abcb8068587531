"""What it costs to check a run folder before it is used, beside building its index anew."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

import cawn
from benchmarks.engine import power_law_events
from benchmarks.report import Row
from cawn.learn.runs import write_report, write_run
from cawn.systems.base import Context
from cawn.systems.cawn.system import CawnSystem, decays


def loading(scale: float = 1.0) -> list[Row]:
    plain = power_law_events(int(2_000_000 * scale))
    events = plain.named([f"node {i}" for i in range(plain.num_nodes)])
    config = cawn.Config(alpha="ladder")
    facts = {"alpha": decays(config, events.intensity), "unit": 1.0}

    def build() -> CawnSystem:
        system = CawnSystem(Context(config, events, 0, torch.device("cpu"), threads=1, facts=dict(facts)))
        system.index(events)
        return system

    system = build()
    described = {"system": "cawn", "task": "transductive", "seed": 0, "links": len(events), "facts": facts}
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder)
        write_run(run, config, events, described, system.index(events))
        write_report(run, {name: value.numpy() for name, value in system.module.state_dict().items()}, {}, None, "")
        size = sum(path.stat().st_size for path in run.rglob("*.npy"))
        detail = f"CPU time; {size / 2**20:,.0f} MiB, {len(facts['alpha'])} decays, rates"
        return [
            Row(f"{what}, {len(events):,} links", cpu_time(work), None, unit="s", detail=detail)
            for what, work in (
                ("checking ranges and shapes of a run", lambda: load(run, verify=False)),
                ("and its checksums", lambda: load(run)),
                ("building its index anew", build),
            )
        ]


def load(run: Path, *, verify: bool = True) -> cawn.LinkPredictor:
    return cawn.LinkPredictor.load(run, device="cpu", verify=verify)


def cpu_time(work: Callable[[], object], repeat: int = 3) -> float:
    """The least of several runs, on all threads together: what other programs do beside it does not count."""
    times = []
    for _ in range(repeat):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)
