"""The engine on a GPU: `python -m benchmarks.gpu [--save FILE]` prints one table. Needs a CUDA device and $CAWN_DATA.

Per link, with M=64, m=2, d=64 (Wikipedia, no attributes), the work is 516 rows of positions. In the forward pass that
is 57 million floating-point operations, three times that in training; and 6 KB for each row through memory in training,
2 KB in scoring: 3.2 MB a link, 0.55 MB a pair. At the ceilings of the chip, which are measured first, memory is the
limit.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import cawn
from benchmarks.report import Row, show
from cawn.batches import Batcher, input_widths
from cawn.decays import decays
from cawn.gpu.batches import DeviceBatcher
from cawn.gpu.scoring import of_one, of_pairs
from cawn.gpu.steps import DeviceSteps, optimizer_of
from cawn.kernels import torch_walks
from cawn.model import CAWN
from cawn.splits import split
from cawn.steps import Plan

BYTES_PER_LINK, BYTES_PER_PAIR, WORK_PER_LINK = 3.2e6, 0.55e6, 171e6


def network(name: str) -> cawn.Events:
    return cawn.read(Path(os.environ["CAWN_DATA"]) / name / "edges.csv.gz")


def seconds(work: Callable[[], object], repeat: int = 20) -> float:
    """Median time on the device of several runs after a warm-up."""
    for _ in range(3):
        work()
    times = []
    for _ in range(repeat):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        work()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) / 1000)
    return float(np.median(times))


def ceilings() -> tuple[float, float]:
    """Bytes read and written per second by a large copy, and operations per second of a large bfloat16 product."""
    data = torch.randn(1 << 29, device="cuda")
    room = torch.empty_like(data)
    bandwidth = 2 * data.nbytes / seconds(lambda: room.copy_(data))
    n = 8192
    a, b = (torch.randn(n, n, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    return bandwidth, 2 * n**3 / seconds(lambda: a @ b)


class Bench:
    """A network with a fresh model on the device."""

    def __init__(self, name: str, **settings: Any) -> None:
        self.events = network(name)
        self.config = cawn.Config(alpha="ladder", **settings)
        self.parts = split(self.events, "transductive", seed=0)
        train = self.events[self.parts.train]
        alpha = decays(self.config, train.intensity)
        host = Batcher.of(self.config, self.events, alpha, float(train.t[-1] - train.t[0]) / 1e6)
        self.batcher = DeviceBatcher(host, torch.device("cuda"))
        self.model = CAWN(self.config, *input_widths(self.config, self.events, len(alpha))).to("cuda")

    def walks_per_second(self, queries: int = 1 << 17) -> float:
        rng = np.random.default_rng(0)
        links = rng.integers(0, len(self.events), queries)
        nodes = torch.from_numpy(self.events.src[links].astype(np.int64)).cuda()
        t = torch.from_numpy(self.events.t[links]).cuda()
        seed = self.batcher.history.seed(1)
        took = seconds(lambda: self.batcher._walk(nodes, t, seed))
        few = nodes[:2000], t[:2000]
        widths = [self.config.num_walks] * self.config.length
        self.twin = seconds(lambda: torch_walks.sample_walks(self.batcher.history.index, *few, widths, 1), 3) / 2000
        return queries * self.config.num_walks / took

    def training(self, steps: int = 60) -> tuple[float, float]:
        """Links per second of recorded updates, and the share of them that walks, identities and features take."""
        plan = Plan(self.events, self.parts, self.config, 0, self.model, optimizer_of(self.model, self.config))
        made = DeviceSteps(plan, self.batcher)
        updates = made.epoch(0, 0)
        for _ in range(3):
            next(updates)
        torch.cuda.synchronize()
        start = time.perf_counter()
        done = sum(1 for _, _ in zip(range(steps), updates, strict=False))
        torch.cuda.synchronize()
        per_update = (time.perf_counter() - start) / done
        links = made._order[: made._size]
        ends = [array[links] for array in made._links]
        graph = torch.cuda.CUDAGraph()
        work = lambda: self.batcher.contrast(ends[0], ends[1], made._false[links], ends[2], seed=made._seed)  # noqa: E731
        seconds(work, 3)
        with torch.cuda.graph(graph):
            work()
        return made._size / per_update, seconds(graph.replay) / per_update

    def scoring(self, pairs: int = 1 << 16) -> float:
        self.model.eval()
        links = np.random.default_rng(0).integers(0, len(self.events), pairs)
        ends = self.events.src[links], self.events.dst[links], self.events.t[links]
        of_pairs(self.model, self.batcher, *ends, seed=1)
        start = time.perf_counter()
        of_pairs(self.model, self.batcher, *ends, seed=1)
        return pairs / (time.perf_counter() - start)

    def ranking(self, candidates: int = 1000) -> float:
        self.model.eval()
        many = np.random.default_rng(0).choice(np.unique(self.events.dst), candidates)
        asked = (int(self.events.src[-1]), many, self.events.t[-1])
        times = []
        for _ in range(20):
            start = time.perf_counter()
            of_one(self.model, self.batcher, *asked, seed=1)
            times.append(time.perf_counter() - start)
        return float(np.median(times))


def table() -> list[Row]:
    bandwidth, products = ceilings()
    rows = [
        Row("memory ceiling, copy", bandwidth / 1e12, None, unit="TB/s"),
        Row("bfloat16 ceiling, product of 8192", products / 1e12, None, unit="TFLOP/s"),
    ]
    for name in ("uci", "wikipedia"):
        bench = Bench(name)
        walks = bench.walks_per_second()
        ratio = walks / (bench.config.num_walks / bench.twin)
        rows.append(Row(f"walks, {name}", walks / 1e9, 1.0, unit="billion/s", detail=f"{ratio:,.0f} x plain torch"))
    limit = bandwidth / BYTES_PER_LINK
    best = 0.0
    for size in (32, 128, 512, 2048, 8192):
        speed, share = Bench("wikipedia", batch_size=size).training()
        best = max(best, speed)
        detail = f"{speed / limit:.0%} of what memory allows; walks and features {share:.0%}"
        rows.append(
            Row(
                f"training, wikipedia, batch {size}",
                speed,
                15_000 if size == 32 else None,
                unit="links/s",
                detail=detail,
            )
        )
        if size == 2048:
            rows.append(Row("walks, identities and features, share of that", share, 0.15, "<=", ""))
    rows.append(Row("training, best batch", best, 100_000, unit="links/s"))
    bench = Bench("wikipedia")
    scoring = bench.scoring()
    detail = f"{scoring / (bandwidth / BYTES_PER_PAIR):.0%} of what memory allows"
    rows.append(Row("scoring, wikipedia", scoring, 400_000, unit="pairs/s", detail=detail))
    rows.append(Row("1 source against 1,000 candidates", 1000 * bench.ranking(), 5.0, "<=", "ms"))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--save", help="also write the figures to this file, as JSON")
    options = parser.parse_args()
    rows = table()
    show(f"cawn on {torch.cuda.get_device_name()}", rows)
    if options.save:
        figures = [{"what": row.what, "measured": row.measured, "bar": row.bar, "detail": row.detail} for row in rows]
        Path(options.save).write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
