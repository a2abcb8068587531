"""What the network reads is the same on both processors, for every kind of model and of network."""

from functools import partial

import numpy as np
import pytest
import torch

import cawn
from cawn.systems.cawn import fused
from cawn.systems.cawn.device_batches import DeviceBatcher
from cawn.systems.cawn.device_scoring import of_contrast, of_one, of_pairs
from cawn.systems.cawn.features import Batcher, input_widths
from cawn.systems.cawn.model import CAWN
from networks import random_events
from tolerances import assert_same_scores

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:overflow encountered")]

MODELS = [
    {},
    {"pooling": "attention"},
    {"sides": "joint", "logarithms": False, "degree": False, "directed": False},
    {"sides": "joint", "pooling": "attention"},
    {"directed": False},
    {"identity": "aw"},
    {"identity": "none", "rates": False},
    {"rnn": "gru", "time": False},
    {"rnn": "transformer"},
    {"time": False, "logarithms": False},
    {"dropout_at": "walks"},
    {"length": 3, "dim": 12},
    {"frequencies": 65, "rates": False},  # too many for the fused encoder
]


def network_of(seed: int, *, attributes: bool, dtype: type = np.int64) -> cawn.Events:
    events = random_events(seed, num_nodes=12, num_links=200, dtype=dtype)
    if not attributes:
        return events
    rng = np.random.default_rng(seed)
    msg, x = rng.normal(size=(len(events), 3)), rng.normal(size=(events.num_nodes, 2))
    return cawn.Events(events.src, events.dst, events.t, msg.astype(np.float32), x=x.astype(np.float32))


def prepared(gpu, changes: dict, *, attributes: bool = True, dtype: type = np.int64):
    config = cawn.Config(**{"num_walks": 4, "dim": 8} | changes)
    events = network_of(3, attributes=attributes, dtype=dtype)
    host = Batcher.of(config, events, (0.01, 0.1, 1.0, 50.0), 0.7)
    torch.manual_seed(0)
    model = CAWN(config, *input_widths(config, events, 4)).eval()
    there = CAWN(config, *input_widths(config, events, 4)).eval().to(gpu)
    there.load_state_dict(model.state_dict())
    there.products = torch.float32
    rng = np.random.default_rng(4)
    links = np.append(rng.integers(0, len(events), 1), 0)  # the first link has no history
    false = np.append(rng.integers(0, events.num_nodes, 1), 10**6)
    return host, DeviceBatcher(host, gpu), model, there, (events.src[links], events.dst[links], false, events.t[links])


@pytest.mark.parametrize("changes", MODELS, ids=str)
def test_scores_are_those_of_the_cpu(gpu, changes: dict) -> None:
    host, device, model, there, (src, dst, false, t) = prepared(gpu, changes)
    with torch.no_grad():
        expected = model(host.contrast(src, dst, false, t, seed=5)).view(2, -1).numpy()
        found = np.stack(of_contrast(partial(fused.logits, there), device, src, dst, false, t, seed=5))
        assert_same_scores(found, expected)
        embedded = of_pairs(partial(fused.embed, there), device, src, dst, t, seed=5)
        assert_same_scores(embedded, model.embed(host.pairs(src, dst, t, seed=5)).numpy())


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
@pytest.mark.parametrize("directed", [False, True])
def test_rates_without_attributes(gpu, dtype, directed: bool) -> None:
    host, device, _, _, (src, dst, false, t) = prepared(gpu, {"directed": directed}, attributes=False, dtype=dtype)
    expected, found = host.contrast(src, dst, false, t, seed=1), device.contrast(src, dst, false, t, seed=1)
    assert np.allclose(found.rates.cpu().numpy(), expected.rates, rtol=1e-6, atol=1e-7)


def test_one_against_many_in_pieces(gpu) -> None:
    host, device, model, there, (src, _, _, t) = prepared(gpu, {})
    dst = np.arange(3)
    with torch.no_grad():
        expected = model(host.pairs(np.full(3, src[0]), dst, np.full(3, t[0]), seed=2)).numpy()
    for budget in (None, 1):
        assert_same_scores(
            of_one(partial(fused.logits, there), device, src[0], dst, t[0], seed=2, byte_budget=budget), expected
        )
    assert of_one(partial(fused.logits, there), device, src[0], dst[:0], t[0], seed=2).shape == (0,)


def test_pieces_shrink_when_memory_runs_out(gpu) -> None:
    from cawn.kernels.cuda.launch import Pieces

    asked: list[tuple[int, int]] = []

    def work(first: int, last: int) -> int:
        asked.append((first, last))
        if last - first > 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return last - first

    pieces = Pieces(16)
    assert list(pieces(work, 10)) == [2, 2, 2, 2, 2]
    assert asked[:4] == [(0, 10), (0, 8), (0, 4), (0, 2)]
    asked.clear()
    assert list(pieces(work, 3)) == [2, 1]  # what was found to fit is remembered
    assert list(pieces(work, 2, at_most=1)) == [1, 1]

    def never(first: int, last: int) -> int:
        raise torch.OutOfMemoryError("CUDA out of memory")

    with pytest.raises(cawn.DeviceError, match="a single pair"):
        list(Pieces(16)(never, 10))


def test_the_engine_that_a_predictor_holds(gpu) -> None:
    """It takes a history to the device when it is first asked about, and again when it is another."""
    from cawn.systems.cawn.engines import DeviceEngine, HostEngine, TorchNetwork

    host, _, model, there, (src, _, false, t) = prepared(gpu, {"rates": False})
    mine, theirs = DeviceEngine(there), HostEngine(TorchNetwork(model))
    expected = theirs.logits(host, src, false, t, seed=3)
    found = mine.logits(host, src, false, t, seed=3)
    assert found.dtype == np.float64
    assert_same_scores(found, expected)
    assert_same_scores(mine.embed(host, src, false, t, seed=3), theirs.embed(host, src, false, t, seed=3))
    one = {"seed": 3, "byte_budget": 1 << 20}
    ranked = mine.logits_of_one(host, int(src[0]), false, t[0], **one)
    assert_same_scores(ranked, theirs.logits_of_one(host, int(src[0]), false, t[0], **one))
    placed = mine._there(host)
    assert mine._there(host) is placed
    other = Batcher.of(host.config, host.events[:50], host.history.alpha, host.unit)
    assert_same_scores(mine.logits(other, src, false, t, seed=3), theirs.logits(other, src, false, t, seed=3))
    assert mine.embed(host, src[:0], false[:0], t[:0], seed=3).shape == (0, 16)
