"""What an optimizer step is made of: links with their negatives, a loss, and the optimizer."""

import math

import numpy as np
import pytest
import torch

import cawn
from cawn.learn.checkpoints import load_moments, moments
from cawn.learn.negatives import training_links
from cawn.learn.splits import split
from cawn.systems.training import MAX_GRADIENT, Optimizer, TrainingLinks, contrast_loss, contrast_losses
from networks import random_events, with_columns


def links_of(events: cawn.Events, **settings) -> TrainingLinks:
    config = cawn.Config(batch_size=16, **settings)
    return training_links(events, split(events, "transductive", seed=0), config, 0)


@pytest.fixture
def training() -> TrainingLinks:
    return links_of(random_events(0, num_nodes=20, num_links=300, span=1000))


@pytest.mark.parametrize("shuffled", [True, False])
def test_an_epoch_holds_every_link_once(training: TrainingLinks, shuffled: bool) -> None:
    batches = list(training.batches(0, 0, shuffled=shuffled))
    assert len(batches) == training.steps_per_epoch
    assert [len(batch.src) for batch in batches[:-1]] == [16] * (len(batches) - 1)
    found = [np.concatenate(column) for column in list(zip(*batches, strict=True))[:4]]
    expected = [getattr(training.events, name)[training.positions] for name in ("src", "dst", "t")]
    assert sorted(zip(found[0], found[1], found[3], strict=True)) == sorted(zip(*expected, strict=True))
    assert (np.diff(found[3]) >= 0).all() != shuffled


def test_an_epoch_can_begin_anywhere_and_no_two_are_alike(training: TrainingLinks) -> None:
    whole, rest, other = (list(training.batches(*where)) for where in ((1, 0), (1, 3), (2, 0)))
    for mine, theirs in zip(whole[3:], rest, strict=True):
        np.testing.assert_array_equal(mine.negative, theirs.negative)
        np.testing.assert_array_equal(mine.t, theirs.t)
    assert not np.array_equal(whole[0].t, other[0].t)
    assert not np.array_equal(training.negatives(1), training.negatives(2))


def test_negatives_of_the_users_own() -> None:
    events = random_events(0, num_nodes=20, num_links=300, span=1000)
    own = np.where(np.arange(300) % 2, (events.dst + 1) % 20, -1)
    training = links_of(with_columns(events, negative=own))
    given = own[training.positions]
    negatives = training.negatives(0)
    np.testing.assert_array_equal(negatives[given >= 0], given[given >= 0])
    assert (negatives >= 0).all()


def test_weights_are_one_on_average_and_links_of_weight_zero_are_left_out() -> None:
    events = random_events(0, num_nodes=20, num_links=300, span=1000)
    training = links_of(with_columns(events, weight=np.arange(300) % 3))
    assert (training.positions % 3 != 0).all()
    assert training.weights.mean() == pytest.approx(1, abs=1e-6)


def test_the_loss_by_hand() -> None:
    logits = torch.tensor([0.0, 2.0, 0.0, -1.0])  # two links, then their negatives
    expected = torch.tensor([2 * np.log(2), np.log1p(np.exp(-2)) + np.log1p(np.exp(-1))], dtype=torch.float32)
    assert torch.allclose(contrast_losses(logits), expected)
    assert torch.isclose(contrast_loss(logits), expected.mean())
    assert torch.isclose(contrast_loss(logits, np.array([2.0, 0.0], np.float32)), expected[0])


def optimizer(**settings) -> Optimizer:
    torch.manual_seed(0)
    return Optimizer(torch.nn.Linear(3, 1), cawn.Config(**settings), steps_per_epoch=10)


def test_the_schedule_rises_and_falls() -> None:
    rate = optimizer(lr=1.0, epochs=10).learning_rate
    rates = [rate(step // 10, step % 10) for step in range(100)]
    assert np.argmax(rates) == 9
    assert rates[9] == 1.0
    assert (np.diff(rates[:10]) > 0).all()
    assert (np.diff(rates[9:]) < 0).all()
    assert rates[-1] < 1e-3
    assert optimizer(lr=1.0, epochs=10, schedule="constant").learning_rate(7, 3) == 1.0
    only = Optimizer(torch.nn.Linear(3, 1), cawn.Config(lr=1.0, epochs=1), steps_per_epoch=1)
    assert only.learning_rate(0, 0) == 1.0  # the decay to 0 would leave the weights as they were


def test_gradients_are_clipped() -> None:
    found = optimizer()
    found.minimise(1e6 * sum(parameter.sum() for parameter in found.parameters))
    norm = torch.cat([parameter.grad.flatten() for parameter in found.parameters]).norm()
    assert norm == pytest.approx(MAX_GRADIENT, rel=1e-4)


def test_its_state_can_be_stored() -> None:
    one, other = optimizer(), optimizer()

    def step(some: Optimizer) -> None:
        some.minimise(sum((parameter**2).sum() for parameter in some.parameters))

    step(one)
    for mine, theirs in zip(other.parameters, one.parameters, strict=True):
        mine.data.copy_(theirs)
    load_moments(other, {name: value.clone().numpy() for name, value in moments(one).items()})
    step(one)
    step(other)
    for mine, theirs in zip(other.parameters, one.parameters, strict=True):
        assert torch.equal(mine, theirs)
    with pytest.raises(ValueError, match="the wrong shape"):
        load_moments(other, {"0.exp_avg": np.zeros(7, np.float32)})


def test_several_negatives_per_link() -> None:
    """Draws differ, the first is that of a single negative, and batches hold one draw after the other."""
    events = random_events(0, num_nodes=20, num_links=300, span=1000)
    one, three = links_of(events), links_of(events, num_negatives=3)
    draws = [three.negatives(2, draw) for draw in range(3)]
    np.testing.assert_array_equal(draws[0], one.negatives(2))
    assert not np.array_equal(draws[0], draws[1])
    assert not np.array_equal(draws[1], draws[2])
    batch = next(three.batches(2, 0, shuffled=False))
    size = len(batch.src)
    np.testing.assert_array_equal(batch.negative.reshape(3, -1), np.stack(draws)[:, :size])
    assert batch.negative_src is None


def test_hard_negatives_are_destinations_of_recent_links() -> None:
    """A quarter of them; a third for sources without other destinations, which have no historical negatives."""
    events = random_events(1, num_nodes=2000, num_links=300, span=10_000)
    random, hard = links_of(events, negatives="mixed"), links_of(events, negatives="hard")
    drawn = [(random.negatives(epoch), hard.negatives(epoch)) for epoch in range(20)]
    changed = [(mine, theirs, mine != theirs) for theirs, mine in drawn]
    for mine, _, other in changed:
        for link, negative in zip(hard.positions[other], mine[other], strict=True):
            assert negative in events.dst[events.t < events.t[link]]
            assert negative != events.dst[link]
    share = np.mean([other.mean() for _, _, other in changed])
    assert 0.22 < share < 0.36  # 4,200 draws, whose standard deviation is 0.007


def test_pairs_are_earlier_links() -> None:
    events = random_events(2, num_nodes=30, num_links=300, span=1000)
    training = links_of(events, negatives="pairs", num_negatives=2)
    src, dst = training.negative_pairs(0, 1)
    other = src != events.src[training.positions]
    assert 0.1 < other.mean() < 0.3
    earlier = {(u, v): t for u, v, t in zip(events.src[::-1], events.dst[::-1], events.t[::-1], strict=True)}
    for link, pair in zip(training.positions[other], zip(src[other], dst[other], strict=True), strict=True):
        assert earlier[pair] < events.t[link]  # the first link of the pair
    batch = next(training.batches(0, 0, shuffled=False))
    np.testing.assert_array_equal(batch.negative_src.reshape(2, -1)[1], src[: len(batch.src)])


def test_losses_of_several_negatives() -> None:
    logits = torch.tensor([1.0, -2.0, 0.5, 0.0, 3.0, -1.0])  # two links, then two negatives of each
    first = softplus(-1.0) + (softplus(0.5) + softplus(3.0)) / 2
    second = softplus(2.0) + (softplus(0.0) + softplus(-1.0)) / 2
    assert contrast_losses(logits, 2).tolist() == pytest.approx([first, second])


def softplus(x: float) -> float:
    return math.log1p(math.exp(x))
