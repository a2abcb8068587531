"""Candidates for a ranking."""

import cawn
from cawn.walks import candidates
from cawn.walks.candidates import Candidates


def test_the_newest_of_equally_frequent_candidates_are_kept(monkeypatch) -> None:
    monkeypatch.setattr(candidates, "MAX_CANDIDATES", 2)
    star = cawn.Events([0] * 5, [3, 1, 5, 2, 4], [1, 2, 3, 4, 5])
    found = Candidates(star, cawn.History(star, 0.0)).choose(9, 6, ("popular",))
    assert list(found) == [4, 2]


def test_each_kind_by_hand() -> None:
    """1 linked with 2, then 0 with 1; 3 is the most frequent destination; all before time 10."""
    events = cawn.Events([1, 0, 4, 5, 6, 0], [2, 1, 3, 3, 3, 5], [1, 2, 3, 4, 5, 10])
    found = Candidates(events, cawn.History(events, 0.0))
    assert found.choose(0, 10, ("recent",)) == {1: "recent"}
    assert found.choose(0, 10, ("recent", "two hops")) == {1: "recent", 2: "two hops"}
    assert next(iter(found.choose(0, 10, ("popular",)))) == 3
    assert sorted(found.everyone(0, 10)) == [1, 2, 3]
    assert 5 not in found.choose(0, 10), "not before it was a destination"
    assert 5 in found.choose(0, 11, ("recent",))
