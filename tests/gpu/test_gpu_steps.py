"""Training steps on the device: the negatives, the order of the links and the updates are those of the CPU."""

import numpy as np
import pytest
import torch

import cawn
from cawn.kernels.cuda.negatives import DeviceChoices
from cawn.learn.negatives import choices, training_links
from cawn.learn.splits import split
from cawn.systems.cawn.cuda import DeviceEngine
from cawn.systems.cawn.features import Batcher, input_widths
from cawn.systems.cawn.host import HostEngine
from cawn.systems.cawn.model import CAWN
from cawn.systems.training import Optimizer, TrainingLinks, seed_step
from networks import random_events

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:overflow encountered")]

CONFIG = cawn.Config(num_walks=2, length=1, dim=4, frequencies=1, batch_size=4, epochs=2, dropout=0.0)


def test_negatives_are_those_of_the_cpu(gpu) -> None:
    events = random_events(1, num_nodes=15, num_links=500, span=60)
    links = np.sort(np.random.default_rng(2).permutation(400)[:150])
    visible = np.random.default_rng(3).random(len(events)) < 0.9
    visible[links] = True
    random, historical = (
        choices(events, links, kind, seen=links[:20], visible=visible) for kind in ("random", "historical")
    )
    assert 0 < np.mean(historical.count == 0) < 0.5
    for seed in (1, 2**62 + 5):
        key = torch.tensor([seed], device=gpu)
        expected = [one.draw(seed) for one in (random, historical)]
        found = [DeviceChoices(one, gpu).draw(key) for one in (random, historical)]
        for mine, theirs in zip(found, expected, strict=True):
            assert np.array_equal(mine.cpu().numpy(), theirs)
        either = DeviceChoices(historical, gpu).draw(key, fallback=found[0])
        assert np.array_equal(either.cpu().numpy(), np.where(expected[1] >= 0, *expected[::-1]))


def prepare(device: torch.device, config: cawn.Config, **columns) -> tuple[CAWN, TrainingLinks, Batcher]:
    events = random_events(5, num_nodes=6, num_links=10, span=1000)
    events = cawn.Events(events.src, events.dst, events.t, num_nodes=6, **columns)
    training = training_links(events, split(events, "transductive", seed=0), config, 0)
    torch.manual_seed(1)
    model = CAWN(config, *input_widths(config, events, 2)).to(device)
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
    ("changes", "columns"), [({"rates": False}, {}), ({}, WEIGHTED)], ids=["plain", "rates, weights and own negatives"]
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
    assert engine._steps._negatives.tolist() == training.negatives(0).tolist()
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
