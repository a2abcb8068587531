"""The laws hold in the networks that claim them, and chance alone rules the null model."""

import numpy as np
import pytest

import cawn
from cawn.data import laws


def closers(network: laws.LawNetwork, *, directed: bool) -> np.ndarray:
    """For each link u-v: did a path u -> w -> v with rising times happen within two reaction times before it?"""
    events = network.events
    src, dst, t = events.src.tolist(), events.dst.tolist(), events.t.tolist()
    found = np.zeros(len(events), bool)
    for e in range(len(events)):
        first = [i for i in range(e) if t[e] - 2 * laws.REACTION_TIME <= t[i] < t[e]]
        for i in first:
            for j in first:
                if t[j] <= t[i]:
                    continue
                if directed:
                    hit = src[i] == src[e] and dst[i] == src[j] and dst[j] == dst[e]
                else:
                    ends, a, b = {src[e], dst[e]}, {src[i], dst[i]}, {src[j], dst[j]}
                    hit = a != b and len(a & b) == 1 and (a ^ b) == ends
                found[e] |= hit
    return found


@pytest.mark.parametrize(("law", "directed"), [(laws.triadic_closure, False), (laws.feed_forward, True)])
def test_caused_links_have_their_causes(law, directed: bool) -> None:
    network = law(40, 400, seed=1)
    assert len(network.events) == 400
    closed = closers(network, directed=directed)
    assert closed[network.caused].all()
    assert closed[~network.caused].mean() < 0.1
    assert 60 < network.caused.sum() < 140


def test_direction_alone_tells_a_feed_forward_loop_from_its_decoy() -> None:
    network = laws.feed_forward(40, 400, seed=2, noise=0.0)
    undirected = closers(network, directed=False)
    assert (undirected & ~network.caused).mean() < 0.1
    assert network.caused.sum() == 80
    assert len(network.events) == 400


def test_null_has_no_law() -> None:
    network = laws.null(40, 400, seed=1)
    assert not network.caused.any()
    assert closers(network, directed=False).mean() < 0.1


def test_the_two_pairs_of_figure_3() -> None:
    network = laws.two_pairs()
    assert network.events.src.tolist() == [0, 2, 0, 2]
    assert network.events.dst.tolist() == [1, 3, 1, 3]
    assert network.events.t.tolist() == [1, 1, 2, 2]
    assert network.caused.tolist() == [False, False, True, True]


@pytest.mark.parametrize("law", [laws.triadic_closure, laws.feed_forward, laws.null])
def test_a_seed_is_a_network(law) -> None:
    a, b, c = law(seed=1).events, law(seed=1).events, law(seed=2).events
    np.testing.assert_array_equal(a.src, b.src)
    np.testing.assert_array_equal(a.t, b.t)
    assert (a.src != c.src).any()
    assert (a.src != a.dst).all()
    assert a.num_nodes == 100
    assert len(a) == 3000


def test_actors_are_uniform_among_different_nodes() -> None:
    from statistics_of_draws import assert_follows

    rows = laws._distinct_nodes(np.random.default_rng(0), 5, 60_000, 3)
    assert (np.sort(rows, axis=1)[:, 1:] != np.sort(rows, axis=1)[:, :-1]).all()
    code = rows @ [25, 5, 1]
    seen, counts = np.unique(code, return_counts=True)
    assert len(seen) == 60
    assert_follows(counts, np.full(60, 1 / 60))


@pytest.mark.parametrize("arguments", [{"num_nodes": 2}, {"num_links": 0}, {"noise": 1.5}])
def test_refused(arguments: dict) -> None:
    with pytest.raises(cawn.QueryError, match=f"{next(iter(arguments))} is .*: give a"):
        laws.triadic_closure(seed=0, **arguments)
    with pytest.raises(cawn.QueryError):
        laws.two_pairs(1)
