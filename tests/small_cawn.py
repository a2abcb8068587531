"""A small CAW-N on a small network with attributes, and every option worth trying on it."""

import numpy as np
import torch

import cawn
from cawn.caw.config import Config
from cawn.caw.features import Batcher, input_widths
from cawn.caw.model import CAWN
from cawn.caw.system import CawnSystem, WalkScorer
from cawn.caw.variants import build_network
from cawn.systems.base import Context
from networks import random_events

SMALL = {"num_walks": 8, "length": 3, "dim": 8, "frequencies": 4, "alpha": (0.01, 0.2)}

OPTIONS = [
    {},
    {"rnn": "gru"},
    {"rnn": "transformer"},
    {"pooling": "attention"},
    {"sides": "joint"},
    {"sides": "joint", "pooling": "attention"},
    {"identity": "aw"},
    {"identity": "none"},
    {"time": False},
    {"logarithms": False},
    {"degree": False},
    {"rates": False},
    {"directed": False},
    {"directed": False, "sides": "separate"},
    {"directed": False, "rates": False, "degree": False, "attributes": False, "time": False},
    {"attributes": False},
    {"tree": (4, 1, 2)},
    {"time_code": "age"},
    {"pooling": "transformer"},
    {"rnn": "bidirectional"},
    {"rnn": "bidirectional", "time_code": "age", "identity": "aw", "sides": "joint"},
    {"rnn": "bidirectional", "pooling": "transformer", "identity": "none", "directed": False},
]


def attributed(seed: int = 4) -> cawn.Events:
    plain = random_events(seed, num_nodes=12, num_links=200, span=100)
    rng = np.random.default_rng(seed)
    return cawn.Events(plain.src, plain.dst, plain.t, msg=rng.normal(size=(200, 2)), x=rng.normal(size=(12, 3)))


def network(events: cawn.Events, config: Config, seed: int = 0) -> tuple[CAWN, Batcher]:
    torch.manual_seed(seed)
    alpha = config.alpha if isinstance(config.alpha, tuple) else (config.alpha,)
    return build_network(config, *input_widths(config, events, len(alpha))).eval(), Batcher.of(
        config, events, alpha, 10.0
    )


def pairs(size: int = 40) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.integers(0, 13, size), rng.integers(0, 13, size), rng.integers(0, 110, size)


def random_scorer(config: cawn.Config, events: cawn.Events, alpha: tuple[float, ...], noise: float = 0.3) -> WalkScorer:
    """A scorer of CAW-N on these events, with random weights well away from zero; time is counted in ones."""
    facts = {"alpha": alpha, "unit": 1.0}
    torch.manual_seed(0)
    system = CawnSystem(Context(config, events, 0, torch.device("cpu"), facts=facts))
    with torch.no_grad():
        for weight in system.module.parameters():
            weight.add_(torch.randn_like(weight), alpha=noise)
    return system.scorer(events)
