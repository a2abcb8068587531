"""The stream against the history, with and without truncation, and Theorem A.2."""

import numpy as np
import pytest

import cawn
from cawn.walks.kernels import ring as cpu_ring
from cawn.walks.kernels.sampling import WalkRequest
from cawn.walks.stream import ring_capacity
from networks import queries, random_events
from reference import walks as reference
from statistics_of_draws import assert_follows


def streamed(events: cawn.Events, alpha, batch: int = 10_000, **options) -> cawn.Stream:
    stream = cawn.Stream(0, alpha, **options)
    for first in range(0, len(events), batch):
        part = slice(first, first + batch)
        stream.append(events.src[part], events.dst[part], events.t[part])
    return stream


@pytest.mark.parametrize("alpha", [0.0, 0.05, 1.0, (0.0, 0.3)])
@pytest.mark.parametrize("dtype", [np.int64, np.float64])
@pytest.mark.parametrize("batch", [1, 7, 1000])
def test_an_ample_ring_walks_the_same_links_as_the_history(alpha, dtype: type, batch: int) -> None:
    events = random_events(4, num_nodes=20, num_links=600, span=200, dtype=dtype)
    nodes, t = queries(events, 0, 200)
    how = {"num_walks": 16, "length": 3, "seed": 3}
    ring = streamed(events, alpha, batch, capacity=600).sample(nodes, t, **how)
    truth = cawn.History(events, alpha).sample(nodes, t, **how)
    for field in ("nodes", "t", "events"):
        np.testing.assert_array_equal(getattr(ring, field), getattr(truth, field))


def test_on_a_real_network(network) -> None:
    """UCI: with the rings of its busiest node, one walk in a million may differ by rounding; none does here."""
    events = network("uci")
    chosen = np.random.default_rng(0).integers(0, len(events), 2_000)
    asked = events.dst[chosen], events.t[chosen]
    ring = streamed(events, 1e-5, capacity=int(np.bincount(np.append(events.src, events.dst)).max()))
    found, truth = (each.sample(*asked, seed=0).events for each in (ring, cawn.History(events, 1e-5)))
    assert (found != truth).any(axis=-1).mean() <= 1e-6


@pytest.mark.parametrize("alpha", [0.0, 0.02, 0.2])
@pytest.mark.parametrize("capacity", [1, 3, 8])
def test_a_short_ring_keeps_true_probabilities_and_says_what_is_missing(alpha: float, capacity: int) -> None:
    events = random_events(6, num_nodes=5, num_links=70, span=60)
    stream = streamed(events, alpha, capacity=capacity)
    for node in range(5):
        for t in (30, 50, 61):
            links = reference.links_before(events, node, t)
            if not links:
                continue
            every = [e for *_, e, _ in reference.links_before(events, node, np.inf)]
            law = np.zeros(len(events) + 1)
            law[[event for *_, event, _ in links]] = reference.probabilities(links, alpha)
            lost = law[every[:-capacity]].sum()
            law[every[:-capacity]] = 0
            law[-1] = lost
            np.testing.assert_allclose(stream.missing_mass([node], t), [lost], atol=1e-12)
            drawn = stream.sample([node], t, num_walks=20_000, length=1, seed=8).events[0, :, 1]
            assert_follows(np.bincount(drawn % (len(events) + 1), minlength=len(events) + 1), law)
    assert stream.missing_mass([500, 3], [10, -5]).tolist() == [0, 0]
    assert cawn.Stream(3, alpha).missing_mass([0, 99], 5).tolist() == [0, 0]


@pytest.mark.parametrize(("tau", "alpha"), [(1.0, 1.0), (1.0, 0.2), (5.0, 0.5), (0.3, 0.02), (2.0, 10.0)])
def test_theorem_a2(tau: float, alpha: float) -> None:
    """On Poisson streams Algorithm 3 looks at fewer than 2 tau / alpha + 1 links on average."""
    rng = np.random.default_rng(0)
    streams, links = 300, 400
    t = np.cumsum(rng.exponential(1 / tau, (streams, links)), axis=1)
    order = np.argsort(t, axis=None)
    src = np.repeat(np.arange(streams), links)[order]
    stream = cawn.Stream(streams + 1, alpha, capacity=links)
    stream.append(src, np.full(src.size, streams), t.ravel()[order])
    now, shape = t[:, -1] + 1e-6, (streams, 100, 2)
    out = np.empty(shape, np.int32), np.empty(shape), np.empty(shape, np.int64)
    request = WalkRequest(np.arange(streams), now, now.view(np.uint64), np.array([100]), np.uint64(1), *out)
    looked = cpu_ring.sample_walks(stream._rings, request, 0, streams) / (streams * 100)
    coins = np.mean(
        [reference.iterate_bernoulli(stream._rings.p[v % streams, 0, :][::-1], rng) for v in range(10 * streams)]
    )
    assert 1 <= looked < 2 * tau / alpha + 1
    assert coins < 2 * tau / alpha + 1
    # One number in place of a coin for each link: as many iterations, within six standard errors.
    assert abs(looked - coins) < 6 * (2 * tau / alpha + 1) / np.sqrt(10 * streams)


def test_auto_capacity_leaves_out_no_more_than_asked() -> None:
    rng = np.random.default_rng(0)
    tau, alpha, tolerance = 2.0, 0.4, 0.02
    t = np.sort(rng.uniform(0, 2_000, int(tau * 2_000)))
    stream = cawn.Stream(2, alpha, capacity="auto", tau=tau, tolerance=tolerance)
    assert stream.capacity == ring_capacity(tau, alpha, tolerance) == 22
    missing = []
    for part in np.array_split(t, 400):
        stream.append(np.zeros(part.size, int), np.ones(part.size, int), part)
        missing.append(stream.missing_mass([0], part[-1] + 1e-9)[0])
    assert np.mean(missing[20:]) <= tolerance * 1.5
    smaller = cawn.Stream(2, alpha, capacity="auto", tau=tau, tolerance=0.2)
    assert smaller.capacity < stream.capacity


def test_nodes_come_as_they_appear_and_memory_stays() -> None:
    stream = cawn.Stream(2, 5.0, capacity=4)
    stream.append([0], [1], [0])
    small = stream.nbytes
    for i in range(1, 200):
        stream.append([0], [1], [i])
    assert stream.nbytes == small
    stream.append([700], [3], [200])
    assert stream.num_nodes == 701
    assert len(stream) == 201
    walks = stream.sample([700, 0], 201, num_walks=1, length=1, seed=0)
    assert walks.nodes[:, 0, 1].tolist() == [3, 1]
    assert walks.events[0, 0, 1] == 200


def test_late_events_can_be_dropped_and_counted() -> None:
    stream = cawn.Stream(5, 0.1, late="drop")
    assert stream.append([0, 1, 2, 3], [1, 2, 3, 4], [5, 4, 6, 5]) == 2
    assert stream.append([0], [1], [1]) == 0
    assert (stream.dropped, len(stream)) == (3, 2)
    assert stream.sample([3], 7, num_walks=1, length=1, seed=0).nodes.tolist() == [[[3, 2]]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_nodes": -1, "alpha": 1.0}, "num_nodes is -1"),
        ({"num_nodes": 1, "alpha": -1.0}, "alpha is -1.0"),
        ({"num_nodes": 1, "alpha": float("nan")}, "alpha is nan"),
        ({"num_nodes": 1, "alpha": 1.0, "capacity": 0}, "capacity is 0"),
        ({"num_nodes": 1, "alpha": 1.0, "capacity": "auto"}, "needs tau"),
        ({"num_nodes": 1, "alpha": 0.0, "capacity": "auto", "tau": 1.0}, "no capacity is enough"),
        ({"num_nodes": 1, "alpha": 1.0, "capacity": "auto", "tau": 1.0, "tolerance": 2}, "tolerance is 2"),
        ({"num_nodes": 1, "alpha": 1e-12, "capacity": "auto", "tau": 1e9}, "larger alpha"),
        ({"num_nodes": 1, "alpha": 1.0, "late": "ignore"}, "late is 'ignore'"),
        ({"num_nodes": 1, "alpha": 1.0, "dtype": "float32"}, "dtype is 'float32'"),
    ],
)
def test_bad_arguments(arguments: dict, message: str) -> None:
    with pytest.raises(cawn.QueryError, match=message):
        cawn.Stream(**arguments)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (([0], [1], [1.5]), "whole times"),
        (([0], [-1], [5]), r"dst\[0\] is -1"),
        (([0, 1], [1], [5, 6]), "lengths differ"),
        (([0], [1], [float("nan")]), r"t\[0\] is nan"),
        ((["a"], [1], [5]), "src is"),
        (([1, 2, 3], [2, 3, 4], [11, 9, 12]), r"event 1 of the batch is at t=9, but t=11 was reached.*late='drop'"),
        (([0], [1], [0]), "t=1 was reached"),
        (([0], [1], [2**63 - 5]), "spans more than int64 can hold"),
    ],
)
def test_bad_batches_leave_the_stream_as_it_was(batch: tuple, message: str) -> None:
    stream = cawn.Stream(3, 0.1)
    with pytest.raises(cawn.LateEventError):
        stream.append([0, 0], [1, 1], [2.5, 1.5])  # the type of times is still free
    first = -(2**63) + 5 if "spans" in message else 1
    stream.append([0], [1], [first])
    with pytest.raises(cawn.CawnError, match=message):
        stream.append(*batch)
    assert len(stream) == 1
    assert stream.append([1], [2], [first]) == 1
