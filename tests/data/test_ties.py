"""The canonical order of simultaneous links, and batches that end between times."""

import numpy as np
import pytest

import cawn
from cawn.data.ties import batch_ends, in_canonical_order


def shuffled(events: cawn.Events, seed: int) -> cawn.Events:
    """The same links, with rows in another order."""
    order = np.random.default_rng(seed).permutation(len(events))
    msg = None if events.msg is None else events.msg[order]
    return cawn.Events(events.src[order], events.dst[order], events.t[order], msg=msg, num_nodes=events.num_nodes)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("attributes", [False, True])
def test_it_depends_neither_on_rows_nor_on_ids(seed: int, attributes: bool) -> None:
    """Ids: where nodes differ in their pasts, here by a first link at a time of its own."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, 20, (2, 400))
    first, t = np.arange(20), 100 + np.arange(400) // 10
    ends = np.append(first, src), np.append((first + 1) % 20, dst)
    msg = rng.normal(size=(420, 2)) if attributes else None
    events = cawn.Events(*ends, np.append(first, t), msg=msg)
    name = rng.permutation(20)
    renamed = cawn.Events(name[events.src], name[events.dst], events.t, msg=events.msg)
    expected, found, other = map(in_canonical_order, (events, shuffled(events, seed), shuffled(renamed, seed)))
    for column in ("src", "dst", "t", "msg"):
        np.testing.assert_array_equal(getattr(found, column), getattr(expected, column))
    np.testing.assert_array_equal(other.src, name[expected.src])
    np.testing.assert_array_equal(other.dst, name[expected.dst])
    assert not np.array_equal(expected.src, events.src)
    assert np.array_equal(events.src[np.argsort(events.rows)][expected.rows], expected.src)  # rows lead to the input
    without_ties = cawn.Events([0, 1], [1, 2], [1, 2])
    assert in_canonical_order(without_ties) is without_ties


@pytest.mark.parametrize(
    ("t", "ends"),
    [
        ([1, 2, 3, 4, 5], [2, 4]),
        ([1, 2, 3, 4], [2, 4]),
        ([1, 2, 2, 2, 5], [4]),
        ([1, 1, 1], [3]),
        ([1, 1, 2, 3, 3, 3], [2, 6]),
        ([1], []),
        ([], []),
    ],
)
def test_a_batch_ends_at_the_first_change_of_time_after_its_links(t: list[int], ends: list[int]) -> None:
    assert batch_ends(np.array(t), 2).tolist() == ends
    for before in np.searchsorted(t, np.unique(t)):  # links at or after a time do not move the ends before it
        assert [end for end in ends if end <= before] == batch_ends(np.array(t[:before]), 2).tolist()
