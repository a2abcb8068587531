"""Relative identities: small cases by hand, Figure 3, shapes."""

import numpy as np
import pytest

import cawn
from networks import random_events


def walks_of(*nodes: list[int]) -> cawn.Walks:
    array = np.array([nodes], np.int32)
    return cawn.Walks(array, np.zeros(array.shape, np.int64), np.full(array.shape, -1))


def test_counts_by_hand() -> None:
    """S_u = {u b a, u b c}, S_v = {v b u, v d -}."""
    u, v, a, b, c, d = range(6)
    counts = cawn.anonymize(walks_of([u, b, a], [u, b, c]), walks_of([v, b, u], [v, d, -1]))
    assert counts.shape == (1, 2, 2, 3, 2, 3)
    of_u = [[2, 0, 0], [0, 0, 1]]
    of_b = [[0, 2, 0], [0, 1, 0]]
    assert counts[0, 0, 0].tolist() == [of_u, of_b, [[0, 0, 1], [0, 0, 0]]]
    assert counts[0, 0, 1].tolist() == [of_u, of_b, [[0, 0, 1], [0, 0, 0]]]
    of_v = [[0, 0, 0], [2, 0, 0]]
    assert counts[0, 1, 0].tolist() == [of_v, of_b, of_u]
    assert counts[0, 1, 1].tolist() == [of_v, [[0, 0, 0], [0, 1, 0]], [[0, 0, 0], [0, 0, 0]]]


def test_shapes_by_hand() -> None:
    """The paper's own example of a shape: (0,2) -> (1,2) -> (2,inf) -> (3,inf)."""
    u, v, a, b, c = range(5)
    shapes = cawn.walk_shapes(
        cawn.anonymize(walks_of([u, b, a, c], [u, b, -1, -1]), walks_of([v, a + 10, b, v], [v, 11, u, 12]))
    )
    inf = np.inf
    assert shapes[0, 0, 0].tolist() == [[0, 2], [1, 2], [2, inf], [3, inf]]
    assert shapes[0, 0, 1].tolist() == [[0, 2], [1, 2], [-1, -1], [-1, -1]]
    assert shapes[0, 1, 0].tolist() == [[inf, 0], [inf, 1], [1, 2], [inf, 0]]


def test_anonymous_walks_by_hand() -> None:
    walks = walks_of([7, 3, 7, 5], [1, 1, 2, 1], [4, 9, -1, -1], [4, 2, 4, 2])
    assert cawn.anonymize_each(walks).tolist() == [[[1, 2, 1, 3], [1, 1, 2, 1], [1, 2, 0, 0], [1, 2, 1, 2]]]


def test_figure_3_is_told_apart_by_caw_and_not_by_aw() -> None:
    """{a, b} and {a', b'} link at the same times. Who will b link to, a or a'?"""
    events = cawn.laws.two_pairs().events
    a, b, other_a = 0, 1, 2
    history = cawn.History(events, 0.0)
    from_a, from_b, from_other_a = (history.sample([n], 3, num_walks=64, length=1, seed=0) for n in (a, b, other_a))
    friends, strangers = cawn.anonymize(from_a, from_b), cawn.anonymize(from_other_a, from_b)
    assert friends[0, 0, 0, 0].tolist() == [[64, 0], [0, 64]]
    assert strangers[0, 0, 0, 0].tolist() == [[64, 0], [0, 0]]
    np.testing.assert_array_equal(cawn.anonymize_each(from_a), cawn.anonymize_each(from_other_a))


def test_start_nodes_are_counted_in_every_walk_and_identities_agree_with_aw() -> None:
    events = random_events(3, num_nodes=10, num_links=200)
    history = cawn.History(events, 0.05)
    walks_u, walks_v = (
        history.sample(nodes, 35, num_walks=12, length=3, seed=1) for nodes in (np.arange(9), np.arange(1, 10))
    )
    counts = cawn.anonymize(walks_u, walks_v)
    assert (counts[:, 0, :, 0, 0, 0] == 12).all()
    assert (counts[:, 1, :, 0, 1, 0] == 12).all()
    # Each position of each set is hit M times in all, but for ended walks.
    held = (walks_u.nodes >= 0).sum(axis=1)  # [B, L]
    for b in range(9):
        rows = {int(n): counts[b, 0, w, i, 0] for w in range(12) for i, n in enumerate(walks_u.nodes[b, w]) if n >= 0}
        np.testing.assert_array_equal(sum(rows.values()), held[b])


def test_only_walks_are_taken() -> None:
    for thing in (
        None,
        np.zeros((1, 1, 2), np.int32),
        cawn.Walks(np.zeros((1, 2), np.int32), np.zeros(2), np.zeros(2)),
    ):
        with pytest.raises(cawn.QueryError, match="expected"):
            cawn.anonymize_each(thing)


def test_walk_sets_must_be_alike() -> None:
    with pytest.raises(cawn.QueryError, match=r"shapes \(1, 1, 2\) and \(1, 1, 3\)"):
        cawn.anonymize(walks_of([0, 1]), walks_of([0, 1, 2]))
