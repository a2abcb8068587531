"""Hidden nodes and negatives as DyGLib draws them, if nodes are numbered as in its files.

DyGLib draws from Python sets, whose order depends on the numbers of the nodes, and with NumPy's legacy generator. It
numbers nodes from 1. The draws here are the same if nodes are in the same order; they do not depend on a run's seed.
"""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.data.events import Events
from cawn.errors import DataError

Array = npt.NDArray[Any]
Nodes = npt.NDArray[np.int32]
Pair = tuple[int, int]

BATCH = 200  # links
NO_NEGATIVES = "every source links to every destination: there are no negatives to compare them with"
_HIDDEN_SEED = 2020
_TEST_SEEDS = {"transductive": 2, "inductive": 3}


def hidden_nodes(events: Events, later: Array, share: float) -> npt.NDArray[np.bool_]:
    """A share of all nodes, drawn from the ends of the links `later` (a mask [E]): [num_nodes]."""
    number_of_nodes = len(np.unique(np.concatenate([events.src, events.dst])))
    occurring = {*_numbers(events.src[later])}.union({*_numbers(events.dst[later])})
    drawn = random.Random(_HIDDEN_SEED).sample(tuple(occurring), min(int(share * number_of_nodes), len(occurring)))
    hidden = np.zeros(events.num_nodes, np.bool_)
    hidden[np.array(drawn, np.int64) - 1] = True
    return hidden


def random_destinations(events: Events, links: Array, part: str) -> Nodes:
    """A destination for each test link, which may be its own: [n].

    From all destinations or, for the part "inductive", from those of `links`.
    """
    within = links if part == "inductive" else slice(None)
    src, dst = np.unique(events.src[within]), np.unique(events.dst[within])
    generator = np.random.RandomState(_TEST_SEEDS[part])
    drawn = []
    for start in range(0, len(links), BATCH):
        size = min(BATCH, len(links) - start)
        generator.randint(0, len(src), size)  # DyGLib draws sources too, but does not use them
        drawn.append(dst[generator.randint(0, len(dst), size)])
    return np.concatenate([np.empty(0, np.int32), *drawn]).astype(np.int32)


def pairs(events: Events, links: Array, part: str, *, new: bool, first_test: int) -> tuple[Nodes, Nodes, int]:
    """For each batch of test links, pairs that linked up to its first time, but not from there to its last.

    Where these are too few, the rest are random pairs that are not in the batch.

    Args:
        part: For "inductive", pairs are drawn from `links` alone.
        new: Only pairs that did not link before the test period.
        first_test: Position of the first link of the test period.

    Returns:
        Sources [n] and destinations [n], and the number of random pairs. These follow DyGLib's distribution, but are
        not the same pairs: it enumerates a set of all pairs of nodes.
    """
    pool = events[links] if part == "inductive" else events
    known: list[Pair] = list(zip(_numbers(pool.src), _numbers(pool.dst), strict=True))
    observed = {*known[: int(np.searchsorted(pool.t, events.t[first_test]))]} if new else set()
    generator = np.random.RandomState(_TEST_SEEDS[part])
    possible = _Possible(pool)
    historical: set[Pair] = set()
    filled, found, fallbacks = 0, [], 0
    for start, end in pairwise([*range(0, len(links), BATCH), len(links)]):
        some = links[start:end]
        first, last = (int(np.searchsorted(pool.t, events.t[some[0]], side)) for side in ("left", "right"))
        until = int(np.searchsorted(pool.t, events.t[some[-1]], "right"))
        historical.update(known[filled:last])  # in this order: it determines that of the set
        filled = last
        now = {*known[first:until]}
        candidates = list(historical - observed - now if new else historical - now)
        missing = len(some) - len(candidates)
        if missing > 0:
            own = {*zip(_numbers(events.src[some]), _numbers(events.dst[some]), strict=True)}
            chosen = possible.draw(own, missing, generator) + candidates
            fallbacks += missing
        else:
            chosen = [candidates[i] for i in generator.choice(len(candidates), len(some), replace=False)]
        found.append(np.array(chosen, np.int64).reshape(-1, 2) - 1)
    drawn = np.concatenate([np.empty((0, 2), np.int64), *found]).astype(np.int32)
    return drawn[:, 0].copy(), drawn[:, 1].copy(), fallbacks


class _Possible:
    """All pairs of a source and a destination, without a list of them."""

    def __init__(self, pool: Events) -> None:
        self.src, self.dst = np.unique(pool.src), np.unique(pool.dst)

    def draw(self, excluded: set[Pair], count: int, generator: np.random.RandomState) -> list[Pair]:
        """Random pairs that are not excluded, distinct if there are enough."""
        pairs = np.array(sorted(excluded), np.int64).reshape(-1, 2) - 1
        places = [np.searchsorted(nodes, ends) for nodes, ends in zip((self.src, self.dst), pairs.T, strict=True)]
        codes = np.sort(places[0] * len(self.dst) + places[1])
        number = len(self.src) * len(self.dst) - len(codes)
        if number == 0:
            raise DataError(NO_NEGATIVES)
        drawn = generator.choice(number, count, replace=number < count)
        drawn = drawn + np.searchsorted(codes - np.arange(len(codes)), drawn, side="right")  # skip the excluded
        src, dst = self.src[drawn // len(self.dst)], self.dst[drawn % len(self.dst)]
        return list(zip(_numbers(src), _numbers(dst), strict=True))


def _numbers(nodes: Array) -> list[int]:
    """The nodes as DyGLib numbers them, from 1."""
    found: list[int] = (nodes.astype(np.int64) + 1).tolist()
    return found
