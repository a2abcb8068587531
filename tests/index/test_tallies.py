"""Counts of keys among the first n links."""

import numpy as np
import pytest

from cawn.index.tallies import Tally, first_occurrences
from cawn.kernels.keys import pair_key


def test_occurrences_before() -> None:
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


def test_first_occurrences_and_pairs() -> None:
    assert first_occurrences(np.array([4, 4, 2, 4, 2])).tolist() == [True, False, True, False, False]
    ids = np.array([0, 2**31 - 1], np.int32)
    assert len(set(pair_key(np.repeat(ids, 2), np.tile(ids, 2)))) == 4
