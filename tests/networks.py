"""Small random networks for tests, full of what real ones have: ties, self-loops, repeated links, hubs."""

from pathlib import Path

import numpy as np

import cawn
from cawn.learn.runs import write_run


def random_events(
    seed: int, *, num_nodes: int = 8, num_links: int = 60, span: int = 40, dtype: type = np.int64, offset: float = 0
) -> cawn.Events:
    rng = np.random.default_rng(seed)
    popularity = rng.dirichlet(np.full(num_nodes, 0.7))
    src, dst = rng.choice(num_nodes, (2, num_links), p=popularity)
    t = rng.integers(0, span, num_links) if dtype is np.int64 else np.round(rng.uniform(0, span, num_links), 1)
    return cawn.Events(src, dst, t.astype(dtype) + dtype(offset), num_nodes=num_nodes)


def store(folder: Path, events: cawn.Events) -> None:
    """A run folder with these links, and nothing trained."""
    facts = {"alpha": [1.0], "unit": 1.0}
    described = {"system": "cawn", "task": "transductive", "seed": 0, "links": len(events), "facts": facts}
    write_run(folder, cawn.Config(), events, described)


def queries(events: cawn.Events, seed: int, size: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and times, many at the very times of links."""
    rng = np.random.default_rng(seed)
    t = events.t[rng.integers(0, len(events), size)] + rng.integers(0, 2, size)
    return rng.integers(0, events.num_nodes + 2, size), t.astype(events.t.dtype)


def with_columns(events: cawn.Events, **columns: object) -> cawn.Events:
    """The same links with other columns."""
    return cawn.Events(events.src, events.dst, events.t, num_nodes=events.num_nodes, **columns)
