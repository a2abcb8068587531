"""Relative identities: those of the slow reference, shapes; walks that share prefixes, which loses nothing."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pytest

import cawn
from cawn.walks.kernels.prefixes import Level, merge_prefixes, share_prefixes
from networks import random_events
from reference import walks as reference


def walks_of(*nodes: list[int]) -> cawn.Walks:
    array = np.array([nodes], np.int32)
    return cawn.Walks(array, np.zeros(array.shape, np.int64), np.full(array.shape, -1))


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("M", "L"), [(1, 1), (3, 2), (16, 4)])
def test_counts_equal_the_reference(seed: int, M: int, L: int) -> None:
    rng = np.random.default_rng(seed)
    num_nodes = (2, 10, 2**31 - 1)[seed % 3]
    nodes_u, nodes_v = rng.integers(-1, num_nodes, (2, 20, M, L)).astype(np.int32)
    blank = np.zeros(nodes_u.shape, np.int64)
    counts = cawn.anonymize(cawn.Walks(nodes_u, blank, blank), cawn.Walks(nodes_v, blank, blank))
    for b in range(20):
        np.testing.assert_array_equal(counts[b], reference.count_positions(nodes_u[b], nodes_v[b]))


def test_shapes_and_anonymous_walks_by_hand() -> None:
    """The paper's own example of a shape: (0,2) -> (1,2) -> (2,inf) -> (3,inf)."""
    u, v, a, b, c = range(5)
    shapes = cawn.walk_shapes(
        cawn.anonymize(walks_of([u, b, a, c], [u, b, -1, -1]), walks_of([v, a + 10, b, v], [v, 11, u, 12]))
    )
    inf = np.inf
    assert shapes[0, 0, 0].tolist() == [[0, 2], [1, 2], [2, inf], [3, inf]]
    assert shapes[0, 0, 1].tolist() == [[0, 2], [1, 2], [-1, -1], [-1, -1]]
    assert shapes[0, 1, 0].tolist() == [[inf, 0], [inf, 1], [1, 2], [inf, 0]]
    walks = walks_of([7, 3, 7, 5], [1, 1, 2, 1], [4, 9, -1, -1], [4, 2, 4, 2])
    assert cawn.anonymize_each(walks).tolist() == [[[1, 2, 1, 3], [1, 1, 2, 1], [1, 2, 0, 0], [1, 2, 1, 2]]]


def test_only_walks_that_are_alike_are_taken() -> None:
    flat = cawn.Walks(np.zeros((1, 2), np.int32), np.zeros(2), np.zeros(2))
    for thing in (None, np.zeros((1, 1, 2), np.int32), flat):
        with pytest.raises(cawn.QueryError, match="expected"):
            cawn.anonymize_each(thing)
    with pytest.raises(cawn.QueryError, match=r"shapes \(1, 1, 2\) and \(1, 1, 3\)"):
        cawn.anonymize(walks_of([0, 1]), walks_of([0, 1, 2]))


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
    for side, walks in enumerate(sets):
        seen = np.stack([walks.nodes, walks.events, t[:, None, None] - walks.t], axis=-1)
        table = np.concatenate([seen, counts[:, side, :, :, side], counts[:, side, :, :, 1 - side]], axis=-1)
        for b, rows in enumerate(table):  # [M, L, 3 + 2 L]
            expected = Counter(tuple(map(tuple, walk[walk[:, 0] >= 0].tolist())) for walk in rows)
            assert read_back(vectors, levels, 2 * b + side, num_walks) == expected


def read_back(vectors: np.ndarray, levels: list[Level], owner: int, num_walks: int) -> Counter:
    """How many walks there are of each path: (node, event, age, both counts) at each position."""
    found: Counter = Counter()
    for depth, level in enumerate(levels):
        for entry in np.flatnonzero((level.owner == owner) & (level.weight > 0)):
            path, at = [], entry if level.row is None else level.row[entry]
            for here in levels[depth::-1]:
                path.append(
                    (here.node[at], here.event[at], here.age[at], *vectors[here.own[at]], *vectors[here.other[at]])
                )
                at = here.parent[at]
            found[tuple(path[::-1])] += round(level.weight[entry] * num_walks)
    return found


def prefixes_of(sets: list[cawn.Walks], threads: int | None = None) -> tuple[np.ndarray, list[Level]]:
    """The distinct prefixes of the pairs of two walk sets."""
    walks = tuple(np.concatenate([getattr(s, name) for s in sets]) for name in ("nodes", "t", "events"))
    first = np.arange(len(sets[0]))
    rows = np.stack([first, first + len(first)], axis=1)
    return share_prefixes(walks, rows, threads)
