"""The laws hold in the networks that claim them, and chance alone rules the null model."""

from collections import Counter
from itertools import product

import numpy as np
import pytest

import cawn
from cawn.data import laws
from statistics_of_draws import assert_follows


def closers(network: laws.LawNetwork, *, directed: bool) -> np.ndarray:
    """For each link u-v: did a path u -> w -> v with rising times happen within two reaction times before it?"""
    links = list(zip(network.events.src.tolist(), network.events.dst.tolist(), network.events.t.tolist(), strict=True))
    found = np.zeros(len(links), bool)
    for e, (u, v, now) in enumerate(links):
        before = [link for link in links[:e] if now - 2 * laws.REACTION_TIME <= link[2] < now]
        for (a, b, early), (c, d, late) in product(before, before):
            loop = (a, b, d) == (u, c, v)
            triangle = len({a, b} & {c, d}) == 1 and {a, b} ^ {c, d} == {u, v}
            found[e] |= early < late and (loop if directed else triangle)
    return found


@pytest.mark.parametrize(
    ("law", "directed", "noise", "caused"),
    [
        (laws.triadic_closure, False, 0.2, range(61, 140)),
        (laws.feed_forward, True, 0.2, range(61, 140)),
        (laws.feed_forward, False, 0.0, [80]),  # the decoys, whatever their direction
        (lambda *size, seed, noise: laws.null(*size, seed=seed), False, 0.0, [0]),
    ],
)
def test_caused_links_have_their_causes_and_chance_closes_no_triangles(law, directed: bool, noise, caused) -> None:
    network = law(40, 400, seed=1, noise=noise)
    closed = closers(network, directed=directed)
    assert closed[network.caused].all()
    assert closed[~network.caused].mean() < 0.1
    assert network.caused.sum() in caused
    assert len(network.events) == 400


def test_the_two_pairs_of_figure_3() -> None:
    network = laws.two_pairs()
    links = np.stack([network.events.src, network.events.dst, network.events.t], axis=1).tolist()
    assert links == [[0, 1, 1], [2, 3, 1], [0, 1, 2], [2, 3, 2]]
    assert network.caused.tolist() == [False, False, True, True]


@pytest.mark.parametrize("law", [laws.triadic_closure, laws.feed_forward, laws.null])
def test_a_seed_is_a_network(law) -> None:
    a, b, c = law(seed=1).events, law(seed=1).events, law(seed=2).events
    np.testing.assert_array_equal(np.stack([a.src, a.t]), np.stack([b.src, b.t]))
    assert (a.src != c.src).any()
    assert (a.src != a.dst).all()
    assert (a.num_nodes, len(a)) == (100, 3000)


def test_actors_are_uniform_among_different_nodes() -> None:
    """The only episode of each of 6,000 networks: any three of five nodes, in any order, each as likely."""
    counts = Counter()
    for seed in range(6_000):
        events = laws.triadic_closure(5, 3, seed=seed, noise=0.0).events
        first, second, _ = map(frozenset, zip(events.src.tolist(), events.dst.tolist(), strict=True))
        counts[first - second, first & second, second - first] += 1  # u-w, then w-v
    assert len(counts) == 60
    assert_follows(list(counts.values()), np.full(60, 1 / 60))


@pytest.mark.parametrize("arguments", [{"num_nodes": 2}, {"num_links": 0}, {"noise": 1.5}])
def test_refused(arguments: dict) -> None:
    with pytest.raises(cawn.QueryError, match=f"{next(iter(arguments))} is .*: give a"):
        laws.triadic_closure(seed=0, **arguments)
    with pytest.raises(cawn.QueryError):
        laws.two_pairs(1)
