"""Training with a memory: the same scores as in evaluation, gradients, and the state of a checkpoint."""

from itertools import islice, pairwise

import numpy as np
import pytest
import torch

import cawn
from cawn.rivals.memory import MemorySystem, gap_moments, part_bounds
from cawn.rivals.stream import StreamScorer
from cawn.systems.training import contrast_loss
from networks import random_events, with_columns
from systems.small_settings import small
from tolerances import assert_same_scores

NAMES = ["tgn", "jodie", "dyrep"]
each_system = pytest.mark.parametrize("name", NAMES)


def trainer_of(name: str, events: cawn.Events, **settings: object) -> cawn.Trainer:
    return cawn.Trainer(events, small(name, batch_size=20, dropout=0.0, **settings), quiet=True, device="cpu")


def losses_of_scorer(trainer: cawn.Trainer) -> list[float]:
    """The losses of the first epoch, by the logits of a scorer on the visible links."""
    system, train = trainer.system, trainer.training
    assert isinstance(system, MemorySystem)
    links, events = train.positions, train.events
    negative, t = train.negatives(0), events.t[links]
    scorer = system.scorer(trainer.visible)
    positive = scorer(events.src[links], events.dst[links], t)
    logits = np.stack([positive, scorer(events.src[links], negative, t)])
    weight = np.ones(len(links), np.float32) if train.weights is None else train.weights
    parts = [slice(*bounds) for bounds in pairwise(system._steps[1])]
    return [float(contrast_loss(torch.from_numpy(logits[:, part].ravel()), weight[part])) for part in parts]


@each_system
@pytest.mark.parametrize("weighted", [False, True])
def test_training_uses_the_scores_of_evaluation(name: str, weighted: bool) -> None:
    """So memory and neighbours are the same, negatives change no memory, and links of weight 0 change it."""
    events = random_events(5, num_nodes=15, num_links=300, span=200)
    if weighted:
        weight = np.random.default_rng(0).integers(0, 3, len(events)).astype(np.float32)
        weight[40:90] = 0  # no link to train on in at least one batch
        events = with_columns(events, weight=weight)
    trainer = trainer_of(name, events)
    expected = losses_of_scorer(trainer)
    trainer.system.module.train()
    losses = [float(loss.detach()) for loss in trainer.system.updates(0, 0, trainer.optimizer)]
    assert len(losses) == trainer.num_steps == len(expected)
    np.testing.assert_allclose(losses, expected, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "only_in_messages"), [("tgn", ()), ("jodie", ("time",)), ("dyrep", ("time", "attention"))]
)
def test_every_weight_is_trained_unless_it_is_only_used_in_messages(name: str, only_in_messages: tuple) -> None:
    events = random_events(5, num_nodes=15, num_links=300, span=200)
    columns = {"msg": np.random.default_rng(0).normal(size=(300, 2)), "x": np.eye(15)}
    trainer = trainer_of(name, with_columns(events, **columns))
    loss = list(islice(trainer.system.updates(0, 0, trainer.optimizer), 4))[-1]
    loss.backward()
    for key, parameter in trainer.system.module.named_parameters():
        trained = parameter.grad is not None and bool((parameter.grad != 0).any())
        assert trained == (key.split(".")[0] not in only_in_messages), key


def test_a_new_epoch_starts_without_memory() -> None:
    trainer = trainer_of("tgn", random_events(5, num_nodes=15, num_links=300, span=200))
    system = trainer.system
    first = [float(loss.detach()) for loss in system.updates(0, 0, trainer.optimizer)]
    again = [float(loss.detach()) for loss in system.updates(0, 0, trainer.optimizer)]
    assert first == again


def test_moments_of_the_gaps_between_the_links_of_a_node() -> None:
    #                 0: 1, 4, 8   1: 1, 8   2: 4, so the gaps are 3, 4 and 7
    mean, deviation = gap_moments(cawn.Events([0, 0, 1], [1, 2, 0], [1, 4, 8]))
    assert mean == pytest.approx(14 / 3)
    assert deviation == pytest.approx(np.std([3, 4, 7]))
    assert gap_moments(cawn.Events([0], [1], [5])) == (0.0, 1.0)
    assert gap_moments(cawn.Events([0, 0], [1, 2], [5, 6])) == (1.0, 1.0)


def test_parts_of_a_replay_have_a_limited_number_of_versions() -> None:
    assert part_bounds([0, 3, 5, 9, 10, 30, 31], 5) == [0, 2, 4, 5, 6]
    assert part_bounds([0, 3, 5], 100) == [0, 2]
    assert part_bounds([0], 5) == [0, 0]


@each_system
def test_scores_do_not_depend_on_the_parts_of_a_replay(name: str) -> None:
    events = random_events(5, num_nodes=15, num_links=300, span=200)
    system = trainer_of(name, events).system
    rng = np.random.default_rng(0)
    asked = *rng.integers(0, 16, (2, 80)), np.sort(rng.integers(0, 220, 80))
    expected = system.scorer(events)(*asked)
    stream = system.past(events)
    stream.bounds = part_bounds(stream.first_version, 40)
    assert len(stream.bounds) > 4
    scorer = StreamScorer(system, stream)
    assert_same_scores(scorer(*asked), expected)
    for some in (slice(70, 80), slice(10, 20), slice(0, 80)):
        assert_same_scores(scorer(*(column[some] for column in asked)), expected[some])
