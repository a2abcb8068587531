"""Relative identities: those of the slow reference, shapes."""

import numpy as np
import pytest

import cawn
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


def test_only_walks_that_are_alike_are_taken() -> None:
    flat = cawn.Walks(np.zeros((1, 2), np.int32), np.zeros(2), np.zeros(2))
    for thing in (None, np.zeros((1, 1, 2), np.int32), flat):
        with pytest.raises(cawn.QueryError, match="expected"):
            cawn.anonymize_each(thing)
    with pytest.raises(cawn.QueryError, match=r"shapes \(1, 1, 2\) and \(1, 1, 3\)"):
        cawn.anonymize(walks_of([0, 1]), walks_of([0, 1, 2]))
