"""A network with a fresh model on the device, and the time its parts take there."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from cawn.systems.cawn.decays import decays
from cawn.systems.cawn.engines import engine_of
from cawn.systems.cawn.steps import Plan

import cawn
from cawn.data.names import NameIndex
from cawn.kernels.reference import torch_walks
from cawn.learn.calibration import Calibration
from cawn.learn.splits import split
from cawn.systems.cawn.device_batches import DeviceBatcher
from cawn.systems.cawn.device_scoring import of_pairs
from cawn.systems.cawn.device_steps import DeviceSteps, optimizer_of
from cawn.systems.cawn.features import Batcher, input_widths
from cawn.systems.cawn.model import CAWN

QUERIES = 1 << 17  # at once, where walks alone are timed


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
    """See above."""

    def __init__(self, events: cawn.Events, **settings: Any) -> None:
        self.events, self.config = events, cawn.Config(alpha="ladder", **settings)
        self.parts = split(events, "transductive", seed=0)
        train = events[self.parts.train]
        alpha = decays(self.config, train.intensity)
        self.host = Batcher.of(self.config, events, alpha, float(train.t[-1] - train.t[0]) / 1e6)
        self.batcher = DeviceBatcher(self.host, torch.device("cuda"))
        self.model = CAWN(self.config, *input_widths(self.config, events, len(alpha))).to("cuda")

    def walks_per_second(self, queries: int = QUERIES) -> float:
        nodes, _, t = self._some(queries)
        seed = self.batcher.history.seed(1)
        took = seconds(lambda: self.batcher._walk(nodes, t, seed))
        return queries * self.config.num_walks / took

    def twin_walks_per_second(self) -> float:
        """Of the same walks in plain PyTorch."""
        nodes, _, t = self._some(QUERIES)
        index, widths = self.batcher.history.index, [self.config.num_walks] * self.config.length
        took = seconds(lambda: torch_walks.sample_walks(index, nodes, t, widths, 1), 3)
        return QUERIES * self.config.num_walks / took

    def updates(self) -> DeviceSteps:
        plan = Plan(self.events, self.parts, self.config, 0, self.model, optimizer_of(self.model, self.config))
        return DeviceSteps(plan, self.batcher)

    def training(self, steps: int = 60) -> tuple[float, float]:
        """Links per second of recorded updates, and the share of them that walks, identities and features take."""
        made = self.updates()
        steps = max(min(steps, made.plan.steps_per_epoch - 4), 1)
        updates = made.epoch(0, 0)
        next(updates)
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(steps):
            next(updates)
        torch.cuda.synchronize()
        per_update = (time.perf_counter() - start) / steps
        made._rewind(0)
        ends, t, *_ = made._take()
        graph = torch.cuda.CUDAGraph()
        work = lambda: self.batcher.paired(ends, t, made._rows, made._seed)  # noqa: E731
        seconds(work, 3)
        with torch.cuda.graph(graph):
            work()
        return made._size / per_update, seconds(graph.replay) / per_update

    def scoring(self, pairs: int = 1 << 17) -> float:
        """Pairs per second, from arrays on the host to scores on the host."""
        self.model.eval()
        links = np.random.default_rng(0).integers(0, len(self.events), pairs)
        ends = self.events.src[links], self.events.dst[links], self.events.t[links]
        times = []
        for _ in range(4):
            start = time.perf_counter()
            of_pairs(self.model, self.batcher, *ends, seed=1)
            times.append(time.perf_counter() - start)
        return pairs / float(np.median(times[1:]))

    def ranking(self, candidates: int = 1000) -> float:
        """Seconds for one source, as a user asks: names in, the best ten names out."""
        names = NameIndex.of(self.events.labels)
        predictor = cawn.LinkPredictor(engine_of(self.model), self.host, names, Calibration())
        some = np.random.default_rng(0).choice(np.unique(self.events.dst), candidates, replace=False)
        many, src = self.events.labels[some].tolist(), self.events.labels[self.events.src[-1]].item()
        times = []
        for _ in range(20):
            start = time.perf_counter()
            predictor.rank(src, self.events.t[-1], candidates=many)
            times.append(time.perf_counter() - start)
        return float(np.median(times))

    def _some(self, size: int) -> tuple[torch.Tensor, ...]:
        links = np.random.default_rng(0).integers(0, len(self.events), size)
        return self.batcher.placed(self.events.src[links], self.events.dst[links], t=self.events.t[links])
