"""Updates made on the device: the negatives, the gradients and the order of things."""

import numpy as np
import pytest
import torch
from cawn.systems.cawn.steps import HostSteps, Plan

import cawn
from cawn.learn.device_negatives import DeviceChoices
from cawn.learn.negatives import partner_choices, random_choices
from cawn.learn.splits import split
from cawn.systems.cawn.device_batches import DeviceBatcher
from cawn.systems.cawn.device_steps import DeviceSteps, optimizer_of
from cawn.systems.cawn.features import Batcher, input_widths
from cawn.systems.cawn.model import CAWN
from networks import random_events

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:overflow encountered")]

CONFIG = cawn.Config(num_walks=2, length=1, dim=4, frequencies=2, batch_size=4, epochs=2, dropout=0.0)


def test_negatives_are_those_of_the_cpu(gpu) -> None:
    events = random_events(1, num_nodes=15, num_links=500, span=60)
    links = np.sort(np.random.default_rng(2).permutation(400)[:150])
    visible = np.random.default_rng(3).random(len(events)) < 0.9
    visible[links] = True
    random = random_choices(events, links, visible)
    historical = partner_choices(events, links, "historical", seen=links[:20], visible=visible)
    assert 0 < np.mean(historical.count == 0) < 0.5
    for seed in (1, 2**62 + 5):
        key = torch.tensor([seed], device=gpu)
        expected = [choices.draw(seed) for choices in (random, historical)]
        found = [DeviceChoices(choices, gpu).draw(key) for choices in (random, historical)]
        for mine, theirs in zip(found, expected, strict=True):
            assert np.array_equal(mine.cpu().numpy(), theirs)
        either = DeviceChoices(historical, gpu).draw(key, fallback=found[0])
        assert np.array_equal(either.cpu().numpy(), np.where(expected[1] >= 0, *expected[::-1]))


def made(gpu, config: cawn.Config = CONFIG, **columns) -> tuple[Plan, Batcher]:
    events = random_events(5, num_nodes=6, num_links=16, span=1000)
    events = cawn.Events(events.src, events.dst, events.t, num_nodes=6, **columns)
    parts = split(events, "transductive", seed=0)
    torch.manual_seed(1)
    model = CAWN(config, *input_widths(config, events, 2)).to(gpu)
    model.products = torch.float32
    host = Batcher.of(config, events, (0.001, 1.0), 0.7)
    return Plan(events, parts, config, 0, model, optimizer_of(model, config)), host


WEIGHTED = {"weight": [0.5, 3, 0, 1] + [0.5, 3, 2, 1] * 3, "negative": [-1, 2, 4] * 5 + [-1]}


@pytest.mark.parametrize("columns", [{}, WEIGHTED], ids=["plain", "weights and own negatives"])
def test_an_epoch_is_that_of_the_cpu(gpu, columns: dict) -> None:
    """The same order, negatives and walks, so weights stay together; the last batch is not a full one."""
    plan, host = made(torch.device("cpu"), **columns)
    there, _ = made(gpu, **columns)
    steps, expected = DeviceSteps(there, DeviceBatcher(host, gpu)), HostSteps(plan, host)
    assert len(plan.links) % CONFIG.batch_size
    steps._shuffle(0)
    assert steps._false.tolist() == plan.negatives(plan.number("epoch", 0)).tolist()
    assert len(list(steps.epoch(0, 0))) == len(list(expected.epoch(0, 0))) == plan.steps_per_epoch
    assert steps.loss() == pytest.approx(expected.loss(), rel=1e-5)
    for mine, theirs in zip(there.model.parameters(), plan.model.parameters(), strict=True):
        assert torch.allclose(mine.cpu(), theirs, atol=2e-4)


def test_an_epoch_can_be_taken_up_in_the_middle(gpu) -> None:
    config = CONFIG.with_(dropout=0.2, rates=False)
    whole, host = made(gpu, config)
    batcher = DeviceBatcher(host, gpu)
    list(DeviceSteps(whole, batcher).epoch(0, 0))
    part, _ = made(gpu, config)
    begun = DeviceSteps(part, batcher).epoch(0, 0)
    next(begun), next(begun)
    list(DeviceSteps(part, batcher).epoch(0, 2))
    for a, b in zip(whole.model.parameters(), part.model.parameters(), strict=True):
        assert torch.equal(a, b)
