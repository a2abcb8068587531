"""Random pairs to explain, and an explanation with names that try to break out of a page."""

import numpy as np

import cawn
from cawn.explain.link import Explanation, Link, Past, Walk
from cawn.systems.cawn.model import CAWN
from cawn.systems.cawn.system import WalkScorer
from networks import random_events
from small_cawn import random_scorer

M = 12


def random_pairs(**changes: object) -> tuple[WalkScorer, CAWN, tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """A scorer, its network, and five pairs as (src, dst, t)."""
    config = cawn.Config(**{"num_walks": M, "dim": 8} | changes)
    events = random_events(3, num_nodes=10, num_links=150)
    scorer = random_scorer(config, events, (0.05, 1.0), noise=0.2)
    rng = np.random.default_rng(4)
    src, dst = rng.integers(0, 10, (2, 5))
    ends = src, dst, np.append(rng.choice(events.t, 4), events.t[0])  # the last has no history
    return scorer, scorer._system.module.eval(), ends


PAST = Past(src_links=3, dst_links=2, pair_links=1, pair_last=5)
HOSTILE = "</script><img src=x onerror=alert(1)> \"q\" & 'x' $a$ é"


def hostile_explanation() -> Explanation:
    links = [Link(HOSTILE, "b", 5, 0), Link("c" * 80, HOSTILE, 4, 1)]
    walks = [
        Walk("src", 3, 1.5, "(0,1) → (1,0)", [HOSTILE, "b"], links[:1]),
        Walk("dst", 2, -0.5, "(1,0) → (0,1)", ["b", HOSTILE, "c" * 80], links),
        Walk("dst", 1, -0.1, "(1,0)", ["b"], []),
    ]
    return Explanation(HOSTILE, "b", 7, 0.5, 0.01, 8, 0.3, -0.6, None, "additive", walks, 4, PAST)


def explain_late_link(predictor: cawn.LinkPredictor) -> Explanation:
    """The explanation of one of the last links."""
    events = predictor._events
    return predictor.explain(int(events.src[-30]), int(events.dst[-30]), events.t[-30].item())
