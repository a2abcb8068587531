"""Past links of nodes, exact and strict; counts of keys among the first n links."""

import numpy as np
import pytest
import torch

import cawn
from cawn.index.neighbours import Neighbours
from cawn.index.tallies import Tally, first_occurrences
from cawn.kernels.keys import pair_key
from networks import queries, random_events
from reference.walks import links_before


def newest(events: cawn.Events, node: int, t: float, k: int) -> list[tuple[int, float, int]]:
    """The last k links of a node strictly before t, newest first."""
    return [(other, when, event) for when, other, event, _ in links_before(events, node, t)[::-1][:k]]


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
@pytest.mark.parametrize("k", [1, 3, 50])
def test_recent_links_against_reading_all_links(dtype: type, k: int) -> None:
    """Of a history, and of neighbours, which follow the canonical order and the number of visible links."""
    events = random_events(1, num_links=200, span=50, dtype=dtype, offset=-20)
    nodes, t = queries(events, 2, 60)
    neighbours = Neighbours(events)
    ids, visible = torch.from_numpy(nodes), neighbours.before(torch.from_numpy(t))
    assert visible.tolist() == [int((events.t < when).sum()) for when in t]
    theirs, degrees = neighbours.recent(ids, visible, k), neighbours.degree(ids, visible).tolist()
    found = cawn.History(events, 0.1).recent(nodes, t, k)
    assert found.nodes.shape == (60, k)
    assert found.t.dtype == events.t.dtype
    for b, (node, now) in enumerate(zip(nodes, t, strict=True)):
        expected, other = newest(events, node, now, k), newest(neighbours.events, node, now, k)
        missing = [(-1, 0, -1)] * (k - len(expected))
        assert list(zip(*(column[b].tolist() for column in found), strict=True)) == expected + missing
        assert list(zip(*(column[b].tolist() for column in theirs[:3]), strict=True)) == other + missing
        is_source = [bool(neighbours.events.src[event] == node) for *_, event in other]
        assert theirs.is_source[b].tolist() == is_source + [False] * len(missing)
        assert degrees[b] == len(newest(events, node, now, 1_000))


def test_uniform_links_have_a_uniform_law_and_do_not_depend_on_the_batch() -> None:
    """Chi-squared with 9 degrees of freedom; false alarm 1e-6. The seed is fixed."""
    events = cawn.Events(np.zeros(20, int), 1 + np.arange(20), np.arange(20))
    neighbours = Neighbours(events)
    zeros, ten = torch.zeros(1, dtype=torch.int64), torch.tensor([10])
    drawn = torch.cat([neighbours.uniform(zeros, ten, ten, 100, seed).nodes for seed in range(50)]).ravel()
    counts = np.bincount(drawn.numpy() - 1, minlength=10)
    assert len(counts) == 10
    assert ((counts - 500) ** 2 / 500).sum() < 45.1
    nodes, t = torch.tensor([0, 5, 0, 40]), torch.tensor([10, 10, 15, 3])
    whole = neighbours.uniform(nodes, neighbours.before(t), t, 7, 3)
    for b in range(4):
        alone = neighbours.uniform(nodes[b : b + 1], neighbours.before(t[b : b + 1]), t[b : b + 1], 7, 3)
        for column, expected in zip(alone, whole, strict=True):
            assert torch.equal(column[0], expected[b])
    assert (whole.t.diff(dim=1) <= 0).all()
    assert not whole.mask[3].any()


def test_no_links_at_all_and_what_is_refused() -> None:
    nothing = cawn.Events([], [], [], num_nodes=3)
    nodes = torch.tensor([0, 5])
    neighbours = Neighbours(nothing)
    for found in (neighbours.recent(nodes, nodes * 0, 2), neighbours.uniform(nodes, nodes * 0, nodes, 2, 0)):
        assert not found.mask.any()
    history = cawn.History(nothing, 0.0)
    assert history.recent([0], [1], 2).nodes.tolist() == [[-1, -1]]
    for k in (0, -1, 1.5, "a"):
        with pytest.raises(cawn.QueryError, match="k is"):
            history.recent([0], [1], k)


def test_occurrences_before_first_ones_and_keys_of_pairs() -> None:
    assert first_occurrences(np.array([4, 4, 2, 4, 2])).tolist() == [True, False, True, False, False]
    ids = np.array([0, 2**31 - 1], np.int32)
    assert len(set(pair_key(np.repeat(ids, 2), np.tile(ids, 2)))) == 4
    tally = Tally.of(np.array([7, 3, 7, 7, 5]), np.array([0, 1, 2, 2, 4]))
    keys, visible = np.array([7, 7, 7, 7, 5, 3, 4, 9]), np.array([0, 1, 2, 3, 4, 9, 9, 9])
    count, newest = tally.before(keys, visible)
    assert count.tolist() == [0, 1, 1, 3, 0, 1, 0, 0]
    assert [tally.links[at] if at >= 0 else -1 for at in newest] == [-1, 0, 0, 2, -1, 1, -1, -1]
    assert tally.running().tolist() == [1, 1, 1, 2, 3]  # by key: 3, 5, 7
    count, newest = Tally.of(np.empty(0, np.int64), np.empty(0, np.int64)).before(keys, visible)
    assert (set(count), set(newest)) == ({0}, {-1})


def test_decayed_sums() -> None:
    t = np.array([0, 3, 10, 12], np.int64)
    tally = Tally.of(np.array([1, 0, 1, 1]), np.arange(4))
    expected = [1, 1, 1 + np.exp(-5), 1 + np.exp(-1) + np.exp(-6)]
    assert tally.decayed(t, 2.0).tolist() == pytest.approx(expected)
