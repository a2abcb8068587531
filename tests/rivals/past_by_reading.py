"""The past of a node by reading all links, and systems with random weights: what slow twins of systems start from."""

import math
import operator
from itertools import groupby, islice
from typing import Any, NamedTuple

import numpy as np
import torch

import cawn
from cawn import systems
from cawn.data.ties import in_canonical_order
from cawn.systems.base import Context
from cawn.systems.layers import TimeEncoding
from networks import random_events, with_columns
from systems.small_settings import small

UNIT = 7.0


class PastLink(NamedTuple):
    node: int  # the other end
    t: float
    event: int


def read_past(events: cawn.Events, node: int, t: float) -> list[PastLink]:
    """The links of a node strictly before t, newest first; a self-loop counts once."""
    events = in_canonical_order(events)
    found = [
        PastLink(int(v if u == node else u), now.item(), e)
        for e, (u, v, now) in enumerate(zip(events.src, events.dst, events.t, strict=True))
        if now < t and node in (u, v)
    ]
    return found[::-1]


def attributed_events(seed: int, *, link: int = 0, node: int = 0) -> cawn.Events:
    """A network with ties and self-loops, and attributes of these widths."""
    events, rng = random_events(seed, num_nodes=12, num_links=150, span=90), np.random.default_rng(seed)
    columns = {
        "msg": rng.normal(size=(150, link)) if link else None,
        "x": rng.normal(size=(12, node)) if node else None,
    }
    return in_canonical_order(with_columns(events, **columns))


def time_code(code: TimeEncoding, gap: float) -> torch.Tensor:
    """cos(w dt + b) in float64, with the gap in units."""
    w = 2 * math.pi * code.turns
    angle = w * gap if not code.learned else (w + code.change / code.period) * gap + code.b
    return torch.cos(angle).float()


def random_weights(name: str, events: cawn.Events, **changes: Any) -> Any:
    """A system with weights that matter, in evaluation mode."""
    torch.manual_seed(0)
    context = Context(small(name, **changes), events, 0, torch.device("cpu"), facts={"unit": UNIT})
    system = systems.build(name, context)
    system.module.eval()
    return system


def some_pairs(events: cawn.Events, size: int = 12) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pairs at ascending times from the first link on; some of unknown nodes."""
    rng = np.random.default_rng(1)
    src, dst = rng.integers(0, events.num_nodes + 2, (2, size))
    return src, dst, np.sort(events.t[rng.integers(0, len(events), size)] + rng.integers(0, 2, size))


def moments(events: cawn.Events) -> list[list[tuple[int, int, float, torch.Tensor]]]:
    """The links (source, destination, time, attributes) at each time."""
    events = in_canonical_order(events)
    msg = np.zeros((len(events), 0), np.float32) if events.msg is None else events.msg
    columns = events.src.tolist(), events.dst.tolist(), events.t.tolist(), torch.from_numpy(np.array(msg))
    return [list(group) for _, group in groupby(zip(*columns, strict=True), key=operator.itemgetter(2))]


def briefly_trained(name: str, events: cawn.Events, **changes: Any) -> cawn.Trainer:
    """A trainer after four steps."""
    trainer = cawn.Trainer(events, small(name, **changes), quiet=True, device="cpu")
    for _ in islice(trainer.steps(0, 0), 4):
        pass
    return trainer
