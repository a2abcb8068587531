"""The kernels against the slow reference."""

import numpy as np
import pytest

import cawn
from cawn.index.kernels.building import CUT, LINK, NODE
from cawn.index.kernels.lists import LENGTH
from networks import queries, random_events
from reference import walks as reference


@pytest.mark.parametrize("seed", range(12))
def test_walks_equal_the_reference(seed: int) -> None:
    dtype = (np.int64, np.float64)[seed % 2]
    alphas = ((0.0,), (0.1,), (3.0,), (0.0, 0.3), (1e-9, 0.05, 50.0))[seed % 5]
    widths, how = [((6, 6), {"num_walks": 6, "length": 2}), ((6, 12, 24), {"fanouts": (6, 2, 2)})][seed % 2]
    events = random_events(seed, dtype=dtype, offset=seed * 1_000_000_000)
    nodes, t = queries(events, seed, 40)
    walks = cawn.History(events, alphas).sample(nodes, t, seed=seed, **how)
    for q in range(len(nodes)):
        slow = reference.sample_walks(events.src, events.dst, events.t, alphas, nodes[q], t[q], widths, seed)
        fast = [
            list(zip(*row, strict=True))
            for row in zip(walks.nodes[q].tolist(), walks.t[q].tolist(), walks.events[q].tolist(), strict=True)
        ]
        assert fast == slow


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(("M", "L"), [(1, 1), (3, 2), (16, 4)])
def test_counts_equal_the_reference(seed: int, M: int, L: int) -> None:
    rng = np.random.default_rng(seed)
    num_nodes = (2, 10, 2**31 - 1)[seed % 3]
    nodes_u, nodes_v = rng.integers(-1, num_nodes, (2, 20, M, L)).astype(np.int32)
    blank = np.zeros(nodes_u.shape, np.int64)
    counts = cawn.anonymize(cawn.Walks(nodes_u, blank, blank), cawn.Walks(nodes_v, blank, blank))
    for b in range(20):
        np.testing.assert_array_equal(counts[b], reference.count_positions(nodes_u[b], nodes_v[b]))


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_index_against_its_definition(dtype: type) -> None:
    events = random_events(3, dtype=dtype)
    alpha = 0.2
    nodes = cawn.History(events, alpha).index.nodes
    time, hop, logsum = nodes.time, nodes.hop, nodes.logsum
    ends = np.cumsum(nodes.span & LENGTH)
    for node in range(events.num_nodes):
        links = reference.links_before(events.src, events.dst, events.t, node, np.inf)
        mine = slice(ends[node] - len(links), ends[node])
        assert time[mine].tolist() == [t for t, *_ in links]
        assert hop[mine, NODE].tolist() == [other for _, other, _, _ in links]
        assert hop[mine, LINK].tolist() == [2 * event + side for *_, event, side in links]
        cuts = [len(reference.links_before(events.src, events.dst, events.t, other, t)) for t, other, *_ in links]
        assert hop[mine, CUT].tolist() == cuts
        sums = [np.log(np.exp(-alpha * (time[mine][i] - time[mine][: i + 1])).sum()) for i in range(len(links))]
        np.testing.assert_allclose(logsum[0, mine], sums, atol=1e-12)
