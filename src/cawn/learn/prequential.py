"""Accuracy on links that arrived after the training, each scored from the links before it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.data.events import Events
from cawn.kernels.rng import seed_for
from cawn.learn.evaluation import score_contrast, spread
from cawn.learn.metrics import auc, average_precision, mrr
from cawn.learn.negatives import known_negatives
from cawn.learn.ranking import rank_among
from cawn.systems.base import Scorer
from cawn.systems.baselines import scorers

Array = npt.NDArray[Any]

MOST = 2_000  # links that are scored
CANDIDATES = 20  # earlier destinations that each link is ranked among
BASELINE = "recency"


def accuracy_on(
    scorer: Scorer, events: Events, links: Array, *, most: int = MOST, seed: int = 0
) -> dict[str, Any] | None:
    """AP and AUC against one earlier destination each, MRR among `CANDIDATES`, of the model and of the baseline.

    None if no link has another destination before it.

    Args:
        links: Positions among the events, which the scorer may see all of: a query uses only links before its time.
        most: If there are more links, so many are scored, spread over time.
    """
    chosen = spread(links, most)
    seeds = [seed_for(seed, "new links", i) for i in range(CANDIDATES)]
    drawn = np.stack([known_negatives(events, chosen, each) for each in seeds], axis=1)
    chosen, drawn = chosen[drawn[:, 0] >= 0], drawn[drawn[:, 0] >= 0]
    if len(chosen) == 0:
        return None
    src, dst, t = events.src[chosen], events.dst[chosen], events.t[chosen]
    found: dict[str, Any] = {"links": len(links), "scored": len(chosen), "candidates": CANDIDATES}
    for name, each in (("model", scorer), (BASELINE, scorers(events)[BASELINE])):
        true, false = score_contrast(each, src, dst, drawn[:, 0], t)
        ranks = rank_among(each, events, chosen, drawn)
        found[name] = {"ap": average_precision(true, false), "auc": auc(true, false), "mrr": mrr(ranks)}
    return found
