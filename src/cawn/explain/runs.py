"""The law of a run, from its own test links."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from cawn.data.events import Events
from cawn.errors import QueryError
from cawn.explain.law import Law, explain_law
from cawn.explain.link import walk_scorer
from cawn.kernels.rng import seed_for
from cawn.learn.negatives import negatives
from cawn.learn.runs import read_description
from cawn.learn.splits import split_of_run
from cawn.systems.base import Scorer


def law_of_run(folder: Path, scorer: Scorer, events: Events, most: int) -> Law:
    """Over at most so many test links of the run in `folder`, against the negatives it was tested with."""
    walks, found = walk_scorer(scorer), read_description(folder)
    if len(events) != found["links"]:
        raise QueryError(f"{folder}: has learned of new links since its training; explain the run it was saved from")
    parts = split_of_run(events, found)
    links = np.sort(np.concatenate(list(parts.test.values())))
    some = links[np.linspace(0, len(links) - 1, min(most, len(links))).astype(int)]
    false = negatives(events, some, "random", seen=parts.train, seed=seed_for(found["seed"], "test")).dst
    if not (events.src == events.dst).any():  # no link to itself: such a false one would tell nothing of the law
        some, false = some[false != events.src[some]], false[false != events.src[some]]
    return explain_law(walks, events.src[some], events.dst[some], false, events.t[some])
