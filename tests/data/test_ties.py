"""The canonical order of simultaneous links, and batches that end between times."""

import numpy as np
import pytest

import cawn
from cawn.data.ties import batch_ends, in_canonical_order
from networks import random_events, with_columns


def shuffled(events: cawn.Events, seed: int) -> cawn.Events:
    """The same links, with rows in another order."""
    order = np.random.default_rng(seed).permutation(len(events))
    msg = None if events.msg is None else events.msg[order]
    return cawn.Events(events.src[order], events.dst[order], events.t[order], msg=msg, num_nodes=events.num_nodes)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("attributes", [False, True])
def test_it_does_not_depend_on_rows(seed: int, attributes: bool) -> None:
    events = random_events(seed, num_links=300, span=20)
    if attributes:
        events = with_columns(events, msg=np.random.default_rng(seed).normal(size=(300, 2)))
    expected, found = in_canonical_order(events), in_canonical_order(shuffled(events, seed))
    for name in ("src", "dst", "t", "msg"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert not np.array_equal(expected.src, events.src)
    assert np.array_equal(np.sort(expected.rows), np.arange(300))
    for name in ("src", "dst", "t"):  # rows lead back to the input
        column = getattr(events, name)[np.argsort(events.rows)]
        np.testing.assert_array_equal(column[expected.rows], getattr(expected, name))


def test_it_does_not_depend_on_ids() -> None:
    """Where nodes differ in their pasts: here by a first link at a time of its own."""
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, 20, (2, 400))
    first = np.arange(20)
    events = cawn.Events(
        np.append(first, src), np.append((first + 1) % 20, dst), np.append(first, 100 + np.arange(400) // 10)
    )
    name = rng.permutation(20)
    renamed = cawn.Events(name[events.src], name[events.dst], events.t)
    expected, found = in_canonical_order(events), in_canonical_order(shuffled(renamed, 1))
    np.testing.assert_array_equal(found.src, name[expected.src])
    np.testing.assert_array_equal(found.dst, name[expected.dst])


def test_events_without_ties_are_returned_as_they_are() -> None:
    events = cawn.Events([0, 1], [1, 2], [1, 2])
    assert in_canonical_order(events) is events


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
