"""A network with an untrained model on the device, and the time of each of its parts."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import cawn
from benchmarks.gpu.torch_walks import sample_walks
from cawn.caw.gpu import DeviceSteps
from cawn.caw.system import CawnSystem
from cawn.learn.negatives import training_links
from cawn.learn.splits import split
from cawn.systems.base import Context
from cawn.systems.training import Optimizer
from cawn.walks.kernels.cuda import sample_walks as device_walks

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
    """Measures one network with one set of settings."""

    def __init__(self, events: cawn.Events, **settings: Any) -> None:
        self.events, self.config = events, cawn.Config(alpha="ladder", **settings)
        self.links = training_links(events, split(events, "transductive", seed=0), self.config, 0)
        self.system = CawnSystem(Context(self.config, events, 0, torch.device("cuda"), training=self.links))
        self.engine = self.system.engine(self.system.past(events))
        self.batcher = self.engine.batcher

    def walks_per_second(self, queries: int = QUERIES) -> float:
        nodes, t = self._queries(queries)
        history, M = self.batcher.history, self.config.num_walks
        index, seed = history.index.walks, history.seed(1)
        widths = torch.full((self.config.length,), M, device="cuda")
        took = seconds(lambda: device_walks(index, nodes, t, widths, seed, M))
        return queries * self.config.num_walks / took

    def torch_walks_per_second(self) -> float:
        """The same walks in plain PyTorch."""
        nodes, t = self._queries(QUERIES)
        index, widths = self.batcher.history.index.walks, [self.config.num_walks] * self.config.length
        took = seconds(lambda: sample_walks(index, nodes, t, widths, 1), 3)
        return QUERIES * self.config.num_walks / took

    def steps(self) -> DeviceSteps:
        optimizer = Optimizer(self.system.module, self.config, self.links.steps_per_epoch)
        return DeviceSteps(self.system.module, self.links, optimizer, self.batcher)

    def training(self, count: int = 60) -> tuple[float, float]:
        """Links per second of captured updates, and the share of walks, identities and features in their time."""
        steps = self.steps()
        count = max(min(count, self.links.steps_per_epoch - 4), 1)
        updates = steps.epoch(0, 0)
        next(updates)
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(count):
            next(updates)
        torch.cuda.synchronize()
        per_update = (time.perf_counter() - start) / count
        steps._step.zero_()
        graph = torch.cuda.CUDAGraph()
        ends, times, *_ = steps._take()
        seconds(lambda: steps._batch(ends, times), 3)
        with torch.cuda.graph(graph):
            steps._batch(ends, times)
        return steps._size / per_update, seconds(graph.replay) / per_update

    def scoring(self, pairs: int = 1 << 17) -> float:
        """Pairs per second, from arrays on the host to scores on the host."""
        links = np.random.default_rng(0).integers(0, len(self.events), pairs)
        ends = self.events.src[links], self.events.dst[links], self.events.t[links]
        times = []
        for _ in range(4):
            start = time.perf_counter()
            self.engine.forward(*ends, seed=1)
            times.append(time.perf_counter() - start)
        return pairs / float(np.median(times[1:]))

    def ranking(self, candidates: int = 1000) -> float:
        """Seconds to rank the candidates of one source, from names to the best ten names."""
        events = self.events
        run = cawn.train(
            events,
            cawn.Config(epochs=1),
            task=cawn.Task(negatives=("random",), baselines=False),
            device="cuda",
            quiet=True,
        )
        predictor = cawn.LinkPredictor.of(run)
        some = np.random.default_rng(0).choice(np.unique(events.dst), candidates, replace=False)
        (src,) = events.labels[events.src[-1:]].tolist()
        many = events.labels[some].tolist()
        times = []
        for _ in range(20):
            start = time.perf_counter()
            predictor.rank(src, events.t[-1].item(), candidates=many)
            times.append(time.perf_counter() - start)
        return float(np.median(times))

    def _queries(self, size: int) -> tuple[torch.Tensor, torch.Tensor]:
        links = np.random.default_rng(0).integers(0, len(self.events), size)
        return self.batcher.nodes(self.events.src[links]), self.batcher.times(self.events.t[links])
