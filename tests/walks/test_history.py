"""Walks are those of the slow reference and follow their law; what may be asked; candidates for a ranking."""

from collections import Counter

import numpy as np
import pytest
import torch

import cawn
from cawn.walks import candidates
from cawn.walks.candidates import Candidates
from networks import queries, random_events
from reference import walks as reference
from statistics_of_draws import assert_follows

DAY = {"s": 86_400, "ms": 86_400_000, "ns": 86_400_000_000_000}


SHAPES = (
    ((6, 6), {"num_walks": 6, "length": 2}),
    ((6, 12, 24), {"fanouts": (6, 2, 2)}),
    ((6, 6), {"fanouts": (6, 1)}),
)


@pytest.mark.parametrize("seed", range(12))
def test_walks_equal_the_reference(seed: int) -> None:
    """Nodes with few links, with hundreds and without any; several decays share the walks; trees share beginnings."""
    dtype = (np.int64, np.float64)[seed % 2]
    alphas = ((0.0,), (0.1,), (3.0,), (0.0, 0.3), (1e-9, 0.05, 50.0))[seed % 5]
    widths, how = SHAPES[seed % 3]
    links, asked = [(60, 40), (600, 20)][seed // 6]
    events = random_events(seed, num_links=links, dtype=dtype, offset=seed * 1_000_000_000)
    nodes, t = queries(events, seed, asked)
    for indexed in (events, events[:0]):
        walks = cawn.History(indexed, alphas).sample(nodes, t, seed=seed, **how)
        for q in range(len(nodes)):
            slow = reference.sample_walks(indexed, alphas, nodes[q], t[q], widths, seed)
            rows = zip(walks.nodes[q].tolist(), walks.t[q].tolist(), walks.events[q].tolist(), strict=True)
            assert [list(zip(*row, strict=True)) for row in rows] == slow


def step_counts(history: cawn.History, node: int, t: float, draws: int, num_links: int, seed: int) -> np.ndarray:
    events = history.sample([node], t, num_walks=draws, length=1, seed=seed).events[0, :, 1]
    return np.bincount(events, minlength=num_links)


@pytest.mark.parametrize("unit", list(DAY))
@pytest.mark.parametrize("alpha_times_span", [1e-9, 1e-3, 1.0, 30.0, 1e3, 1e6, 1e12])
@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_no_decay_and_no_unit_loses_mass(unit: str, alpha_times_span: float, dtype: type) -> None:
    """Two months of Unix time in seconds, milliseconds and nanoseconds."""
    rng = np.random.default_rng(2)
    gaps = rng.permutation(np.geomspace(1e-9, 1, 40))
    when = (1_700_000_000 * (DAY[unit] // 86_400) + np.cumsum(gaps) / gaps.sum() * 60 * DAY[unit]).astype(dtype)
    events = cawn.Events(np.zeros(40, int), np.arange(1, 41), when)
    alpha = alpha_times_span / float(events.t[-1] - events.t[0])
    t = events.t[-1] + dtype(max(1.0, float(np.spacing(np.float64(events.t[-1])))))
    links = reference.links_before(events, 0, t)
    counts = step_counts(cawn.History(events, alpha), 0, t, 50_000, len(events), seed=3)
    assert counts.sum() == 50_000
    assert_follows(counts, reference.probabilities(links, alpha))


def test_a_decay_far_beyond_the_resolution_of_time_takes_the_newest_links_alike() -> None:
    events = cawn.Events([0, 0, 0, 0], [1, 2, 3, 4], np.array([1, 2, 9, 9]) + 2**62)
    counts = step_counts(cawn.History(events, 1e300), 0, 2**62 + 10, 10_000, 4, seed=0)
    assert_follows(counts, [0, 0, 0.5, 0.5])


def enumerate_walks(events: cawn.Events, alpha: float, node: int, t: float, length: int) -> Counter[tuple[int, ...]]:
    """The probability of every walk, as its event ids."""
    law: Counter[tuple[int, ...]] = Counter()
    links = reference.links_before(events, node, t)
    if length == 0 or not links:
        law[(-1,) * length] = 1.0
        return law
    for (when, other, event, _), chance in zip(links, reference.probabilities(links, alpha), strict=True):
        for path, rest in enumerate_walks(events, alpha, other, when, length - 1).items():
            law[(event, *path)] += chance * rest
    return law


def assert_walks_follow(sampled: np.ndarray, law: Counter[tuple[int, ...]]) -> None:
    """`sampled`: event ids [walks, m]."""
    seen = Counter(map(tuple, sampled.tolist()))
    assert set(seen) <= set(law)
    assert_follows([seen[path] for path in law], list(law.values()))


@pytest.mark.parametrize("alpha", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_walks_and_trees_against_full_enumeration(alpha: float, seed: int) -> None:
    """Each path of a tree is a walk; its branches are independent given their stem."""
    events, roots = random_events(seed, num_nodes=4, num_links=14, span=10), 10_000
    history = cawn.History(events, alpha)
    for node in range(4):
        walks = history.sample([node], 9, num_walks=40_000, length=3, seed=11)
        assert_walks_follow(walks.events[0, :, 1:], enumerate_walks(events, alpha, node, 9, 3))
        # A query of its own for each tree: the same node and past, at times after the last link.
        t = 100 + np.arange(roots)
        trees = history.sample(np.full(roots, node), t, fanouts=(2, 1, 2), seed=4).events[:, :, 1:]  # [roots, 4, 3]
        law, one_step = (enumerate_walks(events, alpha, node, 100, length) for length in (3, 1))
        for path in range(4):
            assert_walks_follow(trees[:, path], law)
        both = Counter({a + b: p * q for a, p in one_step.items() for b, q in one_step.items()})
        assert_walks_follow(trees[:, [0, 2], 0], both)
        np.testing.assert_array_equal(trees[:, 0, :2], trees[:, 1, :2])


def test_degree() -> None:
    history = cawn.History(cawn.Events([0, 1, 2, 2], [1, 2, 2, 0], [1, 2, 2, 5]), 0.1)
    assert history.degree([0, 1, 2, 2, 9], [5, 2, 3, 9, 9]).tolist() == [1, 1, 2, 3, 0]


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
