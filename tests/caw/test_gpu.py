"""Batches, scores and training steps on a device are those of the CPU, for every kind of model and of network."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import cawn
from cawn.caw.features import Batcher, input_widths
from cawn.caw.gpu import DeviceEngine, DeviceSteps
from cawn.caw.host import HostEngine
from cawn.caw.model import CAWN
from cawn.caw.variants import build_network
from cawn.index.features import NO_SEQUENCES
from cawn.learn.negatives import training_links
from cawn.learn.splits import split
from cawn.systems.ranks import SINGLE, Ranks
from cawn.systems.training import Optimizer, TrainingLinks, seed_step
from networks import random_events
from tolerances import assert_same_scores

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:overflow encountered")]


SEQUENCES = dict.fromkeys(NO_SEQUENCES, True)  # off in most tests: the interpreter takes long for them
MODELS = [
    {},
    SEQUENCES,
    SEQUENCES | {"rates": False, "directed": False},
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
    {"num_walks": 8, "tree": (4, 2), "alpha": (0.01, 0.1, 1.0, 50.0)},
    {"time_code": "age"},
    {"pooling": "transformer"},
    {"rnn": "bidirectional"},
    {"rnn": "bidirectional", "time_code": "age", "identity": "aw", "sides": "joint", "pooling": "transformer"},
    {"rnn": "bidirectional", "identity": "none", "directed": False, "pooling": "attention"},
]


def network_of(seed: int, *, attributes: bool, dtype: type = np.int64) -> cawn.Events:
    events = random_events(seed, num_nodes=12, num_links=200, dtype=dtype)
    if not attributes:
        return events
    rng = np.random.default_rng(seed)
    msg, x = rng.normal(size=(len(events), 3)), rng.normal(size=(events.num_nodes, 2))
    return cawn.Events(events.src, events.dst, events.t, msg.astype(np.float32), x=x.astype(np.float32))


def prepared(gpu, changes: dict, *, attributes: bool = True, dtype: type = np.int64):
    config = cawn.Config(**{"num_walks": 4, "dim": 8} | NO_SEQUENCES | changes)
    events = network_of(3, attributes=attributes, dtype=dtype)
    host = Batcher.of(config, events, (0.01, 0.1, 1.0, 50.0), 0.7)
    torch.manual_seed(0)
    model = build_network(config, *input_widths(config, events, 4)).eval()
    there = build_network(config, *input_widths(config, events, 4)).eval().to(gpu)
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


def test_an_index_that_grew(gpu) -> None:
    host, engine, _, there, (src, dst, t) = prepared(gpu, SEQUENCES | {"num_walks": 4})
    grown = Batcher.of(host.config, host.events[:150], host.history.alpha, host.unit).extended(host.events, 150)
    pairs = src[:6], dst[:6], t[:6]
    found = DeviceEngine(there, grown, gpu).forward(*pairs, seed=5)
    np.testing.assert_array_equal(found, engine.forward(*pairs, seed=5))


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


CONFIG = cawn.Config(num_walks=2, length=1, dim=4, frequencies=1, batch_size=4, epochs=2, dropout=0.0, **NO_SEQUENCES)


def prepare(device: torch.device, config: cawn.Config, **columns) -> tuple[CAWN, TrainingLinks, Batcher]:
    events = random_events(5, num_nodes=6, num_links=10, span=1000)
    events = cawn.Events(events.src, events.dst, events.t, num_nodes=6, **columns)
    training = training_links(events, split(events, "transductive", seed=0), config, 0)
    torch.manual_seed(1)
    model = build_network(config, *input_widths(config, events, 2)).to(device)
    model.matmul_dtype = torch.float32
    return model, training, Batcher.of(config, events, (0.001, 1.0), 0.7)


def steps(engine, training: TrainingLinks, optimizer: Optimizer, device: torch.device, first: int, last: int) -> list:
    """Makes steps first..last of epoch 0 as the trainer does; returns their losses."""
    updates, losses = engine.updates(training, 0, first, optimizer), []
    for step in range(first, last):
        seed_step(device, training.seed_for("dropout", 0, step))
        loss = next(updates)
        if loss.requires_grad:
            optimizer.set_learning_rate(optimizer.learning_rate(0, step))
            optimizer.minimise(loss)
        losses.append(loss.detach().item())
    return losses


WEIGHTED = {"weight": [0.5, 3, 0, 1] + [0.5, 3] * 3, "negative": [-1, 2, 4] * 3 + [-1]}


@pytest.mark.parametrize(
    ("changes", "columns"),
    [
        ({"rates": False}, {}),
        ({"since": True, "transitions": True}, WEIGHTED),
        ({"rnn": "bidirectional", "time_code": "age", "pooling": "transformer", "rates": False}, {}),
        ({"num_negatives": 3, "negatives": "hard", "rates": False}, {}),
        ({"num_negatives": 2, "negatives": "pairs", "rates": False}, WEIGHTED),
    ],
    ids=[
        "plain",
        "weights and own negatives",
        "encoders of the authors",
        "several negatives",
        "other sources",
    ],
)
def test_an_epoch_is_that_of_the_cpu(gpu, changes: dict, columns: dict) -> None:
    """The same order, negatives and walks, so the weights stay together; the last batch is incomplete."""
    cpu, config = torch.device("cpu"), CONFIG.with_(**changes)
    model, training, host = prepare(cpu, config, **columns)
    there, _, _ = prepare(gpu, config, **columns)
    n = training.steps_per_epoch
    assert len(training.positions) % config.batch_size
    engine = DeviceEngine(there, host, gpu)
    found = steps(engine, training, Optimizer(there, config, n), gpu, 0, n)
    expected = steps(HostEngine(model, host), training, Optimizer(model, config, n), cpu, 0, n)
    drawn = np.stack([training.negative_pairs(0, draw) for draw in range(config.num_negatives)], axis=1)
    assert np.array_equal(engine._steps._negatives.cpu().numpy(), drawn)
    assert found == pytest.approx(expected, rel=1e-5)
    for mine, theirs in zip(there.parameters(), model.parameters(), strict=True):
        assert torch.allclose(mine.cpu(), theirs, atol=2e-4)


def test_an_epoch_can_be_resumed_in_the_middle(gpu) -> None:
    config = CONFIG.with_(dropout=0.2, rates=False)
    whole, training, host = prepare(gpu, config)
    part, _, _ = prepare(gpu, config)
    n = training.steps_per_epoch
    engine = DeviceEngine(whole, host, gpu)
    steps(engine, training, Optimizer(whole, config, n), gpu, 0, n)
    optimizer = Optimizer(part, config, n)
    for first, last in ((0, 1), (1, n)):
        engine = DeviceEngine(part, host, gpu)
        steps(engine, training, optimizer, gpu, first, last)
    for a, b in zip(whole.parameters(), part.parameters(), strict=True):
        assert torch.equal(a, b)


def test_gradients_of_ranks_add_up(gpu) -> None:
    """With dropout. The last batch has one link, and one of three ranks has none in any batch of two."""
    size, config = 3, CONFIG.with_(dropout=0.3, rates=False, batch_size=2)
    model, training, host = prepare(gpu, config, weight=[0.5, 3] * 5)
    batcher, last = DeviceEngine(model, host, gpu).batcher, training.steps_per_epoch - 1

    def gradients(ranks: Ranks, step: int) -> list[torch.Tensor]:
        steps = DeviceSteps(model, replace(training, ranks=ranks), Optimizer(model, config, last + 1), batcher)
        steps._prepare(0)
        steps._step.fill_(step)
        seed_step(gpu, step)
        steps._backward()
        return [steps._loss, *(weight.grad.clone() for weight in model.parameters())]

    assert len(training.positions) % 2 == 1
    for step in (0, last) if gpu.type == "cuda" else (last,):
        parts = [gradients(Ranks(rank, size), step) for rank in range(size)]
        for i, expected in enumerate(gradients(SINGLE, step)):
            assert torch.allclose(sum(part[i] for part in parts), expected, rtol=1e-4, atol=1e-6)
