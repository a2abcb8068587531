"""How throughput grows with batch size, number and length of walks, and number of links."""

import sys
from typing import Any

import numpy as np

import cawn
from benchmarks.gpu.bench import Bench, network

BATCHES = (32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
WALKS = (8, 16, 32, 64, 128, 256)
LENGTHS = (1, 2, 3, 4, 5)
LINKS = (10**4, 10**5, 10**6, 10**7)
BATCH = 1024  # where that is not what changes


def measure() -> dict[str, list[dict[str, float]]]:
    events = network("wikipedia")
    return {
        "batch_size": [_point(events, size, batch_size=size) for size in BATCHES],
        "num_walks": [_point(events, M, num_walks=M, batch_size=BATCH) for M in WALKS],
        "length": [_point(events, m, length=m, batch_size=BATCH) for m in LENGTHS],
        "links": [_point(random_network(size), size, batch_size=BATCH) for size in LINKS],
    }


def _point(events: cawn.Events, size: int, **settings: Any) -> dict[str, float]:
    bench = Bench(events, **settings)
    training, share = bench.training(30)
    point = {"size": size, "training": training, "share": share, "walks": bench.walks_per_second(1 << 15)}
    point["scoring"] = bench.scoring(1 << 15)
    print(settings, len(events), point, file=sys.stderr)
    return point


def random_network(size: int) -> cawn.Events:
    """Links between nodes of very different activity, twenty to a node."""
    rng = np.random.default_rng(0)
    nodes = size // 20
    activity = np.cumsum((1 + np.arange(nodes)) ** -0.7)
    src, dst = np.searchsorted(activity, rng.random((2, size)) * activity[-1])
    return cawn.Events(src, dst, np.sort(rng.integers(0, 100 * size, size)), num_nodes=nodes)
