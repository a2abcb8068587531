"""Sharing prefixes loses nothing: every walk, with its counts, can be read back."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

import cawn
from cawn.walks.kernels.prefixes import Level, merge_prefixes, share_prefixes
from networks import random_events


@pytest.mark.parametrize(("length", "num_walks"), [(1, 1), (2, 16), (4, 8)])
@pytest.mark.parametrize(("threads", "merged"), [(1, False), (2, False), (2, True)])
def test_every_walk_can_be_read_back(length: int, num_walks: int, threads: int, merged: bool) -> None:
    events = random_events(3, num_nodes=12, num_links=150, span=60)
    history = cawn.History(events, (0.3,))
    u, v = np.arange(50) % 13, np.arange(50) % 7  # 12 has no history, and u = v for some
    t = np.random.default_rng(0).integers(0, 62, 50)
    sets = [history.sample(ends, t, num_walks=num_walks, length=length, seed=1) for ends in (u, v)]
    counts = cawn.anonymize(*sets)
    vectors, levels = prefixes_of(sets, threads)
    if threads == 1:  # each thread numbers its own
        assert len(np.unique(vectors, axis=0)) == len(vectors)
    assert (levels[0].age == 0).all()
    for before, level in pairwise(levels):
        np.testing.assert_array_equal(level.age, before.age[level.parent] + level.elapsed)
        assert (level.elapsed > 0).all()
        steps = np.stack([level.parent, level.node, level.event], axis=1)
        assert len(np.unique(steps, axis=0)) == len(steps)  # each prefix once
    if merged:
        nodes, times = np.concatenate([u, v]), np.concatenate([t, t])
        queries = np.unique(np.stack([nodes, times]), axis=1, return_inverse=True)[1].reshape(2, -1).T
        size = sum(len(level.node) for level in levels)
        vectors, levels = merge_prefixes(vectors, levels, queries)
        assert sum(len(level.node) for level in levels) < size
    for b in range(50):
        for side, walks in enumerate(sets):
            expected: Counter = Counter()
            for w in range(num_walks):
                path = [
                    (
                        int(walks.nodes[b, w, i]),
                        int(walks.events[b, w, i]),
                        int(t[b] - walks.t[b, w, i]),
                        tuple(counts[b, side, w, i, side]),
                        tuple(counts[b, side, w, i, 1 - side]),
                    )
                    for i in range(length + 1)
                    if walks.nodes[b, w, i] >= 0
                ]
                expected[tuple(path)] += 1
            assert read_back(vectors, levels, 2 * b + side, num_walks) == expected


def read_back(vectors: np.ndarray, levels: list[Level], owner: int, num_walks: int) -> Counter:
    found: Counter = Counter()
    for depth, level in enumerate(levels):
        for entry in np.flatnonzero((level.owner == owner) & (level.weight > 0)):
            path, at = [], entry if level.row is None else level.row[entry]
            for i in range(depth, -1, -1):
                here = levels[i]
                counts = tuple(vectors[here.own[at]]), tuple(vectors[here.other[at]])
                path.append((int(here.node[at]), int(here.event[at]), int(here.age[at]), *counts))
                at = here.parent[at]
            found[tuple(path[::-1])] += round(level.weight[entry] * num_walks)
    return found


def prefixes_of(sets: list[cawn.Walks], threads: int | None = None) -> tuple[np.ndarray, list[Level]]:
    """The distinct prefixes of the pairs of two walk sets."""
    walks = tuple(np.concatenate([getattr(s, name) for s in sets]) for name in ("nodes", "t", "events"))
    first = np.arange(len(sets[0]))
    rows = np.stack([first, first + len(first)], axis=1)
    return share_prefixes(walks, rows, threads)
