"""The MRR of untrained baselines on tgbl-wiki, by the rule of TGB: every page is a candidate.

    python -m benchmarks.tgb_wiki [LINKS]

needs Wikipedia's links (`cawn datasets`), which are those of tgbl-wiki. LINKS: how many evenly spaced test links.
"""

from __future__ import annotations

import sys

import numpy as np

import cawn
from cawn.learn import metrics
from cawn.learn.evaluation import spread
from cawn.learn.splits import split
from cawn.systems.base import Scorer
from cawn.systems.baselines import BaselineScorer, Past

RULES = ("LR", "LR+GR", "LR+LP+GR+GP", "LP+GP", "GR", "edgebank", "edgebank (window)", "popularity")
PIECE = 500  # links scored at once


def reciprocal_rank(scorer: Scorer, events: cawn.Events, links: np.ndarray) -> float:
    """The MRR of links among all destinations, except those that the source links to at the same time."""
    pages = np.unique(events.dst)
    ranks = []
    for first in range(0, len(links), PIECE):
        some = links[first : first + PIECE]
        asked = (
            np.repeat(events.src[some], len(pages)),
            np.tile(pages, len(some)),
            np.repeat(events.t[some], len(pages)),
        )
        scores = scorer(*asked).reshape(len(some), len(pages))
        true = scores[np.arange(len(some)), np.searchsorted(pages, events.dst[some])]
        for row, link in zip(scores, some, strict=True):
            together = np.flatnonzero(events.t == events.t[link])
            row[np.searchsorted(pages, events.dst[together[events.src[together] == events.src[link]]])] = -np.inf
        ranks.append(metrics.ranks(true, scores))
    return metrics.mrr(np.concatenate(ranks))


def main() -> None:
    events = cawn.datasets.load("wikipedia")
    test = split(events, "transductive", seed=0).test["all"]
    links = spread(test, int(sys.argv[1])) if len(sys.argv) > 1 else test
    past = Past(events)
    print(f"tgbl-wiki, {len(links):,} of {len(test):,} test links, all destinations, strict clock")
    for rule in RULES:
        print(f"{rule:20} MRR {reciprocal_rank(BaselineScorer(past, rule), events, links):.4f}", flush=True)


if __name__ == "__main__":
    main()
