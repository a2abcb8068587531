"""A growing set of ids, compared with a Python set."""

import numpy as np

from cawn.data import ids as module
from cawn.data.ids import IdSet


def test_a_growing_set_has_what_was_added(monkeypatch) -> None:
    monkeypatch.setattr(module, "_RECENT", 10)
    rng = np.random.default_rng(0)
    drawn = rng.permutation(np.arange(1, 1001, dtype=np.uint64) * np.uint64(2**54))
    held, expected = IdSet(drawn[:100]), set(drawn[:100].tolist())
    for first in range(100, 800, 7):
        new = drawn[first : first + 7]
        assert not held.contains(new).any()
        held.add(new)
        expected.update(new.tolist())
    assert len(held) == len(expected)
    assert held.contains(drawn).tolist() == [each in expected for each in drawn.tolist()]
    assert len(held._arrays) < 10


def test_an_empty_set() -> None:
    assert IdSet().contains(np.array([1, 2], np.uint64)).tolist() == [False, False]
    assert len(IdSet([3, 3])) == 1
    assert IdSet([3]).contains(np.empty(0, np.uint64)).tolist() == []
