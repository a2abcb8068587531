"""JODIE against its equations, link by link."""

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

import cawn
from cawn.rivals.jodie_original import JodieOriginal
from networks import random_events, with_columns
from rivals.past_by_reading import briefly_trained, moments
from systems.small_settings import small
from tolerances import assert_same_scores


class Role(NamedTuple):
    """The states of all nodes in one role, and the times of their last links."""

    states: dict[int, Tensor]
    times: dict[int, float]


class SlowJodie:
    """The state of JODIE, one link after the other; dictionaries of nodes that have linked."""

    def __init__(self, system: JodieOriginal) -> None:
        self.system, self.module = system, system.module
        self.users, self.items = Role({}, {}), Role({}, {})
        self.previous: dict[int, int] = {}

    def state(self, role: int, node: int) -> Tensor:
        return (self.users, self.items)[role].states.get(node, self.module.first[role])

    def gap(self, role: int, node: int, t: float) -> Tensor:
        mean, deviation = self.system.scales[role]
        times = (self.users, self.items)[role].times
        return torch.tensor((t - times[node] - mean) / deviation if node in times else 0.0).float()

    def recurrence(self, role: int, own: Tensor, other: Tensor, gap: Tensor, msg: Tensor) -> Tensor:
        rnn = (self.module.source, self.module.item)[role]
        inputs = torch.cat([gap[None], msg])
        return torch.tanh(rnn.own.weight @ own + rnn.other.weight @ other + rnn.drive.weight @ inputs + rnn.drive.bias)

    def predict(self, u: int, t: float) -> Tensor:
        """W [uhat | i' | ibar' | ubar] + b, with all one-hot vectors written out."""
        part, previous = self.module.next_item, self.previous.get(u)
        sources, items = part.sources.tolist(), part.items.tolist()
        uhat = self.state(0, u) * (1 + self.module.projection * self.gap(0, u, t))
        item = self.module.first[1] if previous is None else self.state(1, previous)
        ubar, ibar = torch.zeros(len(sources)), torch.zeros(len(items) + 1)
        if u in sources:
            ubar[sources.index(u)] = 1
        if previous is None:
            ibar[-1] = 1
        elif previous in items:
            ibar[items.index(previous)] = 1
        whole = torch.cat([part.dense.weight, part.item_rows.T, part.source_rows.T], dim=1)
        return whole @ torch.cat([uhat, item, ibar, ubar]) + part.dense.bias

    def squared_distance(self, j: Tensor, v: int) -> Tensor:
        items = self.module.next_item.items.tolist()
        onehot = torch.zeros(len(items) + 1)
        onehot[items.index(v) if v in items else -1] = 1
        target = torch.cat([self.state(1, v).detach(), onehot])
        return (torch.cat([j, torch.zeros(1)]) - target).square().sum()

    def score(self, u: int, v: int, t: float) -> float:
        return -math.sqrt(float(self.squared_distance(self.predict(u, t), v)))

    def link_moment(self, links: list[tuple[int, int, float, Tensor]]) -> Tensor:
        """Links at one time: their losses [n]; then the state changes."""
        errors = [self.squared_distance(self.predict(u, t), v) for u, v, t, _ in links]
        found: tuple[dict[int, list[Tensor]], ...] = ({}, {})
        for u, v, t, msg in links:
            user, item = self.state(0, u), self.state(1, v)
            found[0].setdefault(u, []).append(self.recurrence(0, user, item, self.gap(0, u, t), msg))
            found[1].setdefault(v, []).append(self.recurrence(1, item, user, self.gap(1, v, t), msg))
        new = [{n: normalize(torch.stack(each).mean(0), dim=0) for n, each in role.items()} for role in found]
        for i, (u, v, _, _) in enumerate(links):
            for role, node in enumerate((u, v)):
                errors[i] = errors[i] + (new[role][node] - self.state(role, node).detach()).square().sum()
        for u, v, t, _ in links:
            self.previous[u] = v
            self.users.times[u] = self.items.times[v] = t
        self.users.states.update(new[0])
        self.items.states.update(new[1])
        return torch.stack(errors)


def trained(events: cawn.Events, **changes: object) -> cawn.Trainer:
    return briefly_trained("jodie-original", events, lr=0.02, **changes)


@pytest.mark.parametrize("attributes", [False, True])
def test_scores_and_losses_are_those_of_the_equations(attributes: bool) -> None:
    """On a network with ties, self-loops and nodes that occur after training; with gradients."""
    events = random_events(3, num_nodes=12, num_links=150, span=90)
    if attributes:
        events = with_columns(events, msg=np.random.default_rng(0).normal(size=(150, 2)))
    trainer = trained(events, batch_size=40)
    system = trainer.system
    assert isinstance(system, JodieOriginal)
    scorer, slow, rng = system.scorer(trainer.events), SlowJodie(system), np.random.default_rng(1)
    with torch.no_grad():
        for links in moments(trainer.events):
            src, dst = rng.integers(0, 14, (2, 3))
            t = np.full(3, links[0][2], events.t.dtype)
            expected = [slow.score(int(u), int(v), links[0][2]) for u, v in zip(src, dst, strict=True)]
            assert_same_scores(scorer(src, dst, t), expected)
            slow.link_moment(links)

    steps, slow = system.updates(1, 0, trainer.optimizer), SlowJodie(system)
    remaining = iter(moments(system.context.train.known))
    for first, last in pairwise(system.training_stream.chunks[:3]):
        found, losses = next(steps), torch.empty(0)
        for role in (slow.users, slow.items):  # constants in the second step
            role.states.update({node: state.detach() for node, state in role.states.items()})
        while len(losses) < last - first:
            losses = torch.cat([losses, slow.link_moment(next(remaining))])
        assert_same_scores(found, losses.mean())
        weights = dict(system.module.named_parameters())
        gradients = [torch.autograd.grad(loss, list(weights.values())) for loss in (found, losses.mean())]
        for name, one, other in zip(weights, *gradients, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5, err_msg=name)


def test_a_link_without_weight_changes_the_state_but_not_the_loss() -> None:
    events = random_events(1, num_links=100)
    weights = np.ones(100, np.float32)
    weights[10:20] = 0
    plain, weighted = (trained(with_columns(events, weight=w)) for w in (np.ones(100), weights))
    assert plain.num_steps == weighted.num_steps
    assert not torch.equal(plain.system.module.first, weighted.system.module.first)


def test_too_many_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cawn.rivals.jodie_original._MOST_WEIGHTS", 100)
    with pytest.raises(cawn.DataError, match="use the system jodie"):
        cawn.Trainer(random_events(0), small("jodie-original"), quiet=True, device="cpu")
