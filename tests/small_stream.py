"""A small network whose law changes, a model of its first law, and how links are passed to a monitor."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

import cawn
from cawn.data.updates import NewLinks
from cawn.serve.links import SubmittedLinks
from cawn.serve.monitor import Monitor

SOURCES, DESTINATIONS = 15, 15
TRAINED = 900
NOISE = 0.1


def planted(next_in_cycle: np.ndarray, seed: int = 0) -> cawn.Events:
    """Links of random sources: to the next destination in a cycle, or to the same as the last time; some are random.

    Args:
        next_in_cycle: Which of the two for each link.
    """
    rng = np.random.default_rng(seed)
    last = rng.integers(0, DESTINATIONS, SOURCES)
    src, dst = np.empty((2, len(next_in_cycle)), np.int64)
    for i, step in enumerate(next_in_cycle):
        u, other, chance = rng.integers(0, SOURCES), rng.integers(0, DESTINATIONS), rng.random()
        last[u] = (last[u] + step) % DESTINATIONS
        src[i], dst[i] = u, other if chance < NOISE else last[u]
    labels = [f"n{i}" for i in range(SOURCES + DESTINATIONS)]
    return cawn.Events(src, SOURCES + dst, np.arange(len(src)), labels=np.array(labels, object))


def train_on_cycles(folder: Path) -> None:
    """A run on links to the next destination in the cycle."""
    config = cawn.systems.settings_type("rates")(batch_size=64, hidden=16, epochs=8, negatives="random")
    events = planted(np.ones(TRAINED, bool))
    cawn.train(
        events,
        config,
        out=folder,
        quiet=True,
        task=cawn.Task(negatives=("random",), baselines=False),
        device="cpu",
        threads=1,
    )


def portions(events: cawn.Events, first: int, size: int) -> Iterator[SubmittedLinks]:
    """The links from position `first` on, in portions."""
    names = events.labels
    for start in range(first, len(events), size):
        part = events[start : start + size]
        yield SubmittedLinks(names[part.src].tolist(), names[part.dst].tolist(), part.t.tolist())


def feed(predictor: cawn.LinkPredictor, monitor: Monitor, links: SubmittedLinks) -> int:
    """Add links as the service does, and let the monitor score some at once; returns how many."""
    monitor.observe(added(predictor, links))
    return monitor.process()


def added(predictor: cawn.LinkPredictor, links: SubmittedLinks) -> NewLinks:
    """Add links; returns them as the predictor has them."""
    form = predictor.snapshot().model.form
    extension = predictor.extend([form.arrivals(links.src, links.dst, links.t)])
    predictor.publish(extension)
    assert extension.links is not None
    return extension.links
