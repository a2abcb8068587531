"""Walks and relative identities on a GPU are those of the CPU."""

import numpy as np
import pytest
import torch

import cawn
from cawn import Walks
from cawn.walks.cuda import DeviceHistory
from cawn.walks.kernels.cuda import sample_walks
from networks import queries, random_events

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:overflow encountered")]


def assert_same(walks: Walks, expected: Walks, allowed: float = 0.0) -> None:
    for field in ("nodes", "t", "events"):
        found, wanted = getattr(walks, field).cpu().numpy(), getattr(expected, field)
        assert found.dtype == wanted.dtype
        assert (found != wanted).any(axis=-1).mean() <= allowed


@pytest.mark.parametrize("alpha", [0.0, 0.3, (0.0, 0.01, 1.0, 100.0)])
@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_the_same_walks_as_on_the_cpu(gpu, alpha, dtype) -> None:
    events = random_events(1, num_nodes=20, num_links=400, dtype=dtype)
    history = cawn.History(events, alpha)
    device = DeviceHistory(history, gpu)
    nodes, t = queries(events, 2, 3)
    shapes = {"num_walks": 12, "length": 3}, {"fanouts": (4, 1, 3)}, {"num_walks": 20, "length": 1}
    for seed, shape in zip((0, 2**64 - 1, 1), shapes, strict=True):
        assert_same(device.sample(nodes, t, seed=seed, **shape), history.sample(nodes, t, seed=seed, **shape))


def test_links_and_degrees(gpu) -> None:
    """What the encoder reads besides nodes and times: the direction of each link, and the degree of each node."""
    events = random_events(3, num_nodes=15, num_links=200)
    history = cawn.History(events, (0.01, 0.5))
    device = DeviceHistory(history, gpu)
    nodes, t = queries(events, 4, 5)
    asked = torch.from_numpy(nodes).to(gpu), torch.from_numpy(t).to(gpu), torch.full((3,), 8, device=gpu)
    found = sample_walks(device.index.walks, *asked, device.seed(7), 8)
    walked, times, links, degrees = (tensor.cpu().numpy() for tensor in found)
    expected = history.sample(nodes, t, num_walks=8, length=3, seed=7)
    assert np.array_equal(walked, expected.nodes)
    assert np.array_equal(links >> 1, expected.events)
    taken, before = links[..., 1:] >= 0, walked[..., :-1]
    forward = events.src[np.maximum(links[..., 1:] >> 1, 0)] == before
    assert np.array_equal((links[..., 1:] % 2 == 0)[taken], forward[taken])
    alive = walked >= 0
    assert np.array_equal(degrees[alive], history.degree(walked[alive], times[alive]))
    assert not degrees[~alive].any()


@pytest.mark.parametrize(("M", "length"), [(1, 1), (5, 2), (70, 1)])
def test_the_same_identities_as_on_the_cpu(gpu, M: int, length: int) -> None:
    events = random_events(5, num_links=300)
    history = cawn.History(events, 0.1)
    device = DeviceHistory(history, gpu)
    u, t = queries(events, 6, 4)
    v = queries(events, 7, 4)[0]
    asked = {"num_walks": M, "length": length, "seed": 1}
    found = cawn.anonymize(device.sample(u, t, **asked), device.sample(v, t, **asked))
    expected = cawn.anonymize(history.sample(u, t, **asked), history.sample(v, t, **asked))
    assert np.array_equal(found.cpu().numpy(), expected)


def test_queries_on_the_device_and_none_at_all(gpu) -> None:
    events = random_events(8, num_nodes=5, num_links=100)
    history = cawn.History(events, 0.1)
    device = DeviceHistory(history, gpu)
    nodes, t = queries(events, 9, 80)
    there = torch.from_numpy(nodes[:3]).to(gpu), torch.from_numpy(t[:3]).to(gpu)
    assert_same(device.sample(*there, seed=1), history.sample(nodes[:3], t[:3], seed=1))
    assert device.sample(np.empty(0, int), np.empty(0, events.t.dtype), seed=1).nodes.shape == (0, 64, 3)
    nobody = device.sample(torch.tensor([-5], device=gpu), there[1][:1], seed=1)
    assert (nobody.events == -1).all()
    for column, other in zip(device.recent(nodes, t, 7), history.recent(nodes, t, 7), strict=True):
        np.testing.assert_array_equal(column.cpu().numpy(), other)


def test_what_cannot_be_asked(gpu) -> None:
    history = cawn.History(random_events(8, num_nodes=5, num_links=100), (0.1, 0.2))
    device = DeviceHistory(history, gpu)
    on_the_device = torch.zeros(2, device=gpu)
    for nodes, t, options, message in (
        ([0], [1], {"num_walks": 5}, "2 decays cannot share"),
        (on_the_device, on_the_device, {}, "int64 nodes"),
        ([0], [1], {"seed": -1}, "seed"),
    ):
        with pytest.raises(cawn.QueryError, match=message):
            device.sample(nodes, t, **({"seed": 1} | options))
    assert history.to("cpu") is history
    with pytest.raises(cawn.QueryError, match="give cpu or cuda"):
        history.to("tpu")
    if not torch.cuda.is_available():
        with pytest.raises(cawn.DeviceError, match="device is 'cuda', but"):
            history.to("cuda")


@pytest.mark.skipif(not torch.cuda.is_available(), reason="too many for the interpreter")
@pytest.mark.parametrize("name", ["uci", "wikipedia"])
def test_a_million_walks_of_real_networks(network, name: str) -> None:
    events = network(name)
    tau = events.intensity
    history = cawn.History(events, (0.01 * tau, tau, 100 * tau, 1000 * tau))
    nodes, t = queries(events, 1, 20_000)
    assert_same(history.to("cuda").sample(nodes, t, seed=1), history.sample(nodes, t, seed=1), allowed=1e-6)
