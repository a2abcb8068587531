"""The baseline without walks: it learns what counting can tell, and nothing of what comes later."""

import numpy as np
import torch

import cawn
from cawn.caw.config import Config
from cawn.learn import metrics
from cawn.learn.negatives import training_links
from cawn.learn.splits import split
from cawn.learn.testing import train_baseline
from cawn.systems.base import Context

CONFIG = Config(num_walks=2, negatives="random")


def repeating(seed: int) -> cawn.Events:
    """Each of 40 sources turns to one of its own two destinations."""
    rng = np.random.default_rng(seed)
    src = rng.integers(0, 40, 2_000)
    return cawn.Events(src, 40 + 2 * src + rng.integers(0, 2, 2_000), np.arange(2_000))


def trained(events: cawn.Events, config: Config = CONFIG):
    parts = split(events, "transductive", seed=0)
    training = training_links(events, parts, config, 0)
    context = Context(config, events[parts.visible], 0, torch.device("cpu"), None, training)
    return train_baseline("rates only", context).scorer(events)


def test_it_learns_that_links_repeat() -> None:
    events = repeating(0)
    baseline, test = trained(events), slice(1_700, 2_000)
    src, dst, t = events.src[test], events.dst[test], events.t[test]
    others = 40 + 2 * np.random.default_rng(1).integers(0, 40, 300)
    assert metrics.auc(baseline(src, dst, t), baseline(src, others, t)) > 0.9


def test_it_is_symmetric_where_links_have_no_direction() -> None:
    events = repeating(0)
    baseline = trained(events, CONFIG.with_(directed=False, sides="symmetric"))
    u, v, t = np.arange(40), 40 + np.arange(40), np.full(40, 1_800)
    np.testing.assert_allclose(baseline(u, v, t), baseline(v, u, t), rtol=1e-5, atol=1e-6)
