"""Random pairs to explain, and small explanations, also with names that try to break out of a page."""

from typing import Any

import numpy as np

import cawn
from cawn.caw.model import CAWN
from cawn.caw.system import WalkScorer
from cawn.explain.explanation import Addition, Explanation, LinkPart, PairHistory, Removal, WhatIf
from cawn.explain.law import Law, LawPart, MeanContribution
from cawn.explain.views import EarlierLink, Shape, Walk
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


PAST = PairHistory(src_links=3, dst_links=2, pair_links=1, pair_last=5)
HOSTILE = "</script><img src=x onerror=alert(1)> \"q\" & 'x' $a$ é"
RIGHT_TO_LEFT = "שלום \u202eevil"
LONG = "c" * 80


def small_explanation(walks: list[Walk], **changes: Any) -> Explanation:
    """An explanation with these walks, whose parts add up."""
    walked = sum(walk.contribution for walk in walks)
    parts = [
        LinkPart("pair", "the pair's own history", "they linked once before, the last at 5", 0.4),
        LinkPart("repeated", "walks along a repeated link", "4 sampled walks", walked + 0.25, 0.25, 4),
        LinkPart("apart", "walks that do not meet", "no sampled walk", 0.0002),
        LinkPart("time", "times on the walks", "when these links took place", -0.0003),
    ]
    given: dict[str, Any] = {
        "src": "a",
        "dst": "b",
        "t": 7,
        "time": "7",
        "probability": 0.5,
        "error": 0.01,
        "draws": 8,
        "base": -0.6,
        "logit": -0.6 + sum(part.contribution for part in parts),
        "parts": parts,
        "walks": walks,
        "num_walks": 4,
        "past": PAST,
        "interaction": -0.5,
    }
    return Explanation(**given | changes)


def hostile_explanation() -> Explanation:
    """An explanation with everything it may have, and names that try to break out of a page."""
    links = [
        EarlierLink(HOSTILE, "b", 5, 0, "5"),
        EarlierLink(LONG, HOSTILE, 4, 1, "4"),
        EarlierLink(RIGHT_TO_LEFT, "b", 4, 2, "4"),
    ]
    walks = [
        Walk("src", 3, 1.5, "(0,1) → (1,0)", [HOSTILE, "b"], links[:1], "source → destination", "repeated"),
        Walk("dst", 2, -0.5, "(1,0) → (0,1)", ["b", HOSTILE, LONG], links[:2], "", "repeated"),
        Walk("dst", 2, -0.3, "(1,0) → (∞,1)", ["b", RIGHT_TO_LEFT], links[2:], "", "apart"),
        Walk("dst", 1, -0.1, "(1,0)", ["b"], [], "", "repeated"),
    ]
    what_if = WhatIf(0.5, Removal(links[:1], 0.2, True), [Addition(HOSTILE, RIGHT_TO_LEFT, 6, 0.9, "6")])
    shapes = [LinkPart("(0,1) → (1,0)", "source → destination", "", 1.2, 0.0, 3, 0.05)]
    return small_explanation(walks, src=HOSTILE, what_if=what_if, shapes=shapes)


def small_law(**changes: Any) -> Law:
    """A law with two parts, one of which is significant."""
    means = [MeanContribution("true", "old", 60, 1.5, 1.6, 0.1), MeanContribution("true", "new", 40, 1.0, 1.1, 0.2)]
    means += [MeanContribution("false", "old", 100, 0.2, 0.4, 0.05), MeanContribution("false", "new", 0, 0.0, 0.0, 0.0)]
    parts = [
        LawPart("pair", "the pair's own history", -0.125, -0.1, -0.3, 0.05, means, 0.91, 0.92),
        LawPart("common", "common neighbours", 1.375, 1.1, 1.0, 1.75, means, 0.81, 0.75),
    ]
    shape = Shape("(0,1)", 0.5, 0.1, 0.4, 0.1, 4.0, 2.0, 8.0, "source")
    given: dict[str, Any] = {
        "links": 100,
        "parts": parts,
        "auc": 0.9,
        "ap": 0.92,
        "evidence": 1.25,
        "error": 0.1,
        "interaction": -0.25,
        "shapes": [shape] * 14,
        "orders": [],
        "rare": 3,
    }
    return Law(**given | changes)


def explain_late_link(predictor: cawn.LinkPredictor) -> Explanation:
    """The explanation of one of the last links."""
    events = predictor.snapshot().events
    ends = int(events.src[-30]), int(events.dst[-30])
    return predictor.explain(*ends, events.t[-30].item(), shapes=True, what_if=True)
