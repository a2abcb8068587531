"""Features, embeddings and scores are the same on both processors, for every kind of model and of network."""

import numpy as np
import pytest
import torch

import cawn
from cawn.systems.cawn.cuda import DeviceEngine
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
    there.matmul_dtype = torch.float32
    rng = np.random.default_rng(4)
    links = np.array([150, 150, 0])  # two pairs of one source, and one without history
    dst = np.append(events.dst[150], (rng.integers(0, events.num_nodes), 10**6))
    return host, DeviceEngine(there, host, gpu), model, there, (events.src[links], dst, events.t[links])


@pytest.mark.parametrize("changes", MODELS, ids=str)
def test_embeddings_and_scores_are_those_of_the_cpu(gpu, changes: dict) -> None:
    host, engine, model, there, pairs = prepared(gpu, changes)
    with torch.no_grad():
        expected = model.embed(host.pairs(*pairs, seed=5))
        found = engine.forward(*pairs, seed=5, embed=True)
        assert_same_scores(found, expected)
        assert_same_scores(there.head(torch.from_numpy(found).to(gpu)), model.head(expected))


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
@pytest.mark.parametrize("directed", [False, True])
def test_rates_without_attributes(gpu, dtype, directed: bool) -> None:
    host, engine, _, _, (src, dst, t) = prepared(gpu, {"directed": directed}, attributes=False, dtype=dtype)
    device = engine.batcher
    with device._rates(device.nodes(src), device.nodes(dst), device.times(t)) as found:
        pass
    expected = host.rates.features(src, dst, t, host.unit)
    assert np.allclose(found.cpu().numpy(), expected, rtol=1e-6, atol=1e-7)


def test_one_source_in_pieces(gpu) -> None:
    """The walks of a source are sampled once for consecutive pairs; pieces may cut them anywhere."""
    host, engine, model, _, (src, _, t) = prepared(gpu, {"rates": False})
    pairs = np.repeat(src[:2], (3, 1)), np.arange(4), np.repeat(t[:2], (3, 1))
    with torch.no_grad():
        expected = model(host.pairs(*pairs, seed=2)).numpy()
    for size in (4, 2):
        engine.batcher.pieces.size = size
        assert_same_scores(engine.forward(*pairs, seed=2), expected)
    nobody = tuple(array[:0] for array in pairs)
    assert engine.forward(*nobody, seed=2).shape == (0,)
    assert engine.forward(*nobody, seed=2, embed=True).shape == (0, model.width)


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
