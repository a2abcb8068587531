"""Distinct walks are those that were sampled, with their counts and shapes."""

import numpy as np

import cawn
from cawn.explain.distinct_walks import distinct_walks
from small_explanation import M, random_pairs


def test_they_are_the_walks_that_were_sampled() -> None:
    scorer, _, (src, dst, t) = random_pairs()
    batcher = scorer.batcher
    batch = batcher.trace(src, dst, t, seed=7)
    distinct = distinct_walks(batch)
    sets = [batcher.history.sample(nodes, t, num_walks=M, length=2, seed=7) for nodes in (src, dst)]
    shapes = cawn.walk_shapes(cawn.anonymize(*sets))  # [B, 2, M, L, 2]
    shapes = np.where(np.isinf(shapes), 3, shapes)
    for side, walks in enumerate(sets):
        orders = cawn.anonymize_each(walks)
        for b in range(len(src)):
            mine = np.flatnonzero((distinct.pair == b) & (distinct.side == side))
            assert distinct.count[mine].sum() == M
            for i in mine:
                same = (walks.events[b] == distinct.events[i]).all(axis=1)
                assert same.sum() == distinct.count[i]
                k = int(np.flatnonzero(same)[0])
                assert np.array_equal(walks.nodes[b, k], distinct.nodes[i])
                assert np.array_equal(shapes[b, side, k], distinct.shapes[i])
                assert np.array_equal(orders[b, k], distinct.orders[i])
                assert distinct.level[i] == (walks.nodes[b, k] >= 0).sum() - 1


def test_very_long_walks_have_shapes() -> None:
    scorer, _, (src, dst, t) = random_pairs(length=200)
    batcher = scorer.batcher
    batch = batcher.trace(src, dst, t, seed=7)
    distinct = distinct_walks(batch)
    assert distinct.shapes.max() == 201
    assert distinct.shapes.min() == -1
