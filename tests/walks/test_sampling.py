"""What may be asked, how a question that cannot be answered is refused, and candidates for a ranking."""

import numpy as np
import pytest
import torch

import cawn
from cawn.walks import candidates
from cawn.walks.candidates import Candidates
from networks import random_events


@pytest.fixture(scope="module")
def history() -> cawn.History:
    return cawn.History(random_events(0), 0.1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"nodes": [-1]}, r"nodes\[0\] is -1"),
        ({"nodes": [0, 2**31]}, r"nodes\[1\] is 2147483648"),
        ({"nodes": [0.5]}, "nodes: found float64"),
        ({"nodes": ["a"]}, "nodes: found"),
        ({"nodes": [[0]]}, r"shape \(1, 1\)"),
        ({"t": [1, 2, 3]}, r"2 nodes but times of shape \(3,\)"),
        ({"t": float("nan")}, "NaN"),
        ({"t": float("inf")}, "infinity"),
        ({"t": 1.5}, "whole times"),
        ({"t": 1e30}, "out of range"),
        ({"t": np.float32(1)}, "rounds times"),
        ({"t": "noon"}, "expected numbers"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 2**64}, "seed is 18446744073709551616"),
        ({"seed": 0.5}, "seed is 0.5"),
        ({"num_walks": 0}, "num_walks=0"),
        ({"length": 0}, "length=0"),
        ({"length": 256}, "length=256"),
        ({"num_walks": 1.5}, "num_walks=1.5"),
        ({"fanouts": ()}, r"fanouts=\(\)"),
        ({"fanouts": (4, 0)}, r"fanouts=\(4, 0\)"),
        ({"fanouts": (2, 2), "num_walks": 4}, "not both"),
        ({"fanouts": (2**20, 2**20)}, "too many"),
        ({"fanouts": 3}, "fanouts=3"),
        ({"length": 2**70}, "length="),
        ({"threads": 0}, "threads is 0"),
        ({"threads": float("nan")}, "threads is nan"),
    ],
)
def test_refused(history: cawn.History, arguments: dict, message: str) -> None:
    with pytest.raises(cawn.QueryError, match=message):
        history.sample(**({"nodes": [0, 1], "t": 30, "seed": 0} | arguments))


@pytest.mark.parametrize("alpha", [-1, float("nan"), float("inf"), (), (0.1, -0.1), [[0.1]], "a", None, 1j, True])
def test_decays_are_finite_and_not_negative(alpha) -> None:
    with pytest.raises(cawn.QueryError, match="alpha is"):
        cawn.History(random_events(0), alpha)


def test_defaults_shapes_and_types(history: cawn.History) -> None:
    walks = history.sample(np.array([0, 1], np.uint8), np.array([30.0, 31.0]), seed=np.int64(3))
    assert walks.nodes.shape == walks.t.shape == walks.events.shape == (2, 64, 3)
    assert (walks.nodes.dtype, walks.t.dtype, walks.events.dtype) == (np.int32, np.int64, np.int64)
    assert repr(walks) == "Walks(2 queries x 64 walks of length 2)"
    assert history.sample([0], 30, fanouts=(4, 2, 3), seed=0).nodes.shape == (1, 24, 4)
    same = history.sample(torch.tensor([0, 1]), torch.tensor([30, 31]), seed=3)
    np.testing.assert_array_equal(walks.events, same.events)
    alpha = np.array([0.1, 2.0])
    two = cawn.History(random_events(0), alpha)
    alpha[0] = 7
    assert two.alpha == (0.1, 2.0)
    with pytest.raises(cawn.QueryError, match="multiple of 2"):
        two.sample([0], 30, num_walks=5, seed=0)
    with pytest.raises(cawn.QueryError, match="no memory for 2 queries x 4,000,000,000 walks x 256 positions"):
        history.sample([0, 1], 30, num_walks=4_000_000_000, length=255, seed=0)


def test_times_in_float64() -> None:
    """Zero has one sign, and a time that would be rounded is refused."""
    history = cawn.History(cawn.Events([0, 0, 0], [1, 2, 3], [-3.0, -2.0, -1.0]), 0.0)
    a, b = (history.sample([0], zero, num_walks=64, length=1, seed=0) for zero in (0.0, -0.0))
    np.testing.assert_array_equal(a.events, b.events)
    history.sample([0], 2**53, seed=0)
    with pytest.raises(cawn.QueryError, match="would round"):
        history.sample([0], 2**53 + 1, seed=0)


def test_each_kind_by_hand(monkeypatch) -> None:
    """1 linked with 2, then 0 with 1; 3 is the most frequent destination; all before time 10."""
    events = cawn.Events([1, 0, 4, 5, 6, 0], [2, 1, 3, 3, 3, 5], [1, 2, 3, 4, 5, 10])
    found = Candidates(events, cawn.History(events, 0.0))
    assert found.choose(0, 10, ("recent",)) == {1: "recent"}
    assert found.choose(0, 10, ("recent", "two hops")) == {1: "recent", 2: "two hops"}
    assert next(iter(found.choose(0, 10, ("popular",)))) == 3
    assert sorted(found.everyone(0, 10)) == [1, 2, 3]
    assert 5 not in found.choose(0, 10), "not before it was a destination"
    assert 5 in found.choose(0, 11, ("recent",))
    monkeypatch.setattr(candidates, "MAX_CANDIDATES", 2)  # the newest of equally frequent ones are kept
    star = cawn.Events([0] * 5, [3, 1, 5, 2, 4], [1, 2, 3, 4, 5])
    assert list(Candidates(star, cawn.History(star, 0.0)).choose(9, 6, ("popular",))) == [4, 2]
