"""DyRep against its equations, link by link."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import softplus

import cawn
from cawn.rivals.dyrep_original import (
    DyRepOriginal,
    Intensity,
)
from networks import random_events, with_columns
from rivals.past_by_reading import briefly_trained, moments
from tolerances import assert_same_scores

Link = tuple[int, int, float, Tensor]


class SlowDyRep:
    """The state of DyRep, one link after the other."""

    def __init__(self, system: DyRepOriginal, x: np.ndarray | None) -> None:
        self.system, self.module, self.x = system, system.module, x
        self.states: dict[int, Tensor] = {}
        self.times: dict[int, float] = {}
        self.attention: dict[
            int, dict[int, float]
        ] = {}  # S: of each node, its partners in the order of their last link
        self.pairs: set[frozenset[int]] = set()  # A

    def state(self, node: int) -> Tensor:
        if node in self.states:
            return self.states[node]
        if self.x is None or node >= len(self.x):
            return self.module.first
        return self.module.first + self.module.features.weight @ torch.tensor(self.x[node])

    def rate(self, u: Tensor, v: Tensor, kind: int) -> Tensor:
        intensity = self.module.intensity
        psi = intensity.log_psi[kind].exp().clamp(0.1, 1000)
        g = intensity.omega.weight[kind] @ torch.cat([u, v]) + intensity.omega.bias[kind]
        return psi * softplus(g / psi)

    def kind(self, u: int, v: int) -> int:
        return int(frozenset((u, v)) in self.pairs)

    def score(self, u: int, v: int) -> Tensor:
        return self.rate(self.state(u), self.state(v), self.kind(u, v)).log()

    def neighbourhood(self, node: int) -> Tensor:
        held = self.attention.get(node, {})
        if not held:
            return torch.zeros(self.system.config.dim)
        total = sum(math.exp(s) for s in held.values())
        each = [torch.sigmoid(math.exp(s) / total * (self.module.w_h.weight @ self.state(i))) for i, s in held.items()]
        return torch.stack(each).amax(dim=0)

    def new_state(self, node: int, other: int, t: float, msg: Tensor) -> Tensor:
        mean, deviation = self.system.scale
        gap = (t - self.times[node] - mean) / deviation if node in self.times else 0.0
        drive = self.module.w_t.weight @ torch.cat([torch.tensor([gap]).float(), msg]) + self.module.w_t.bias
        struct = self.module.w_struct.weight @ self.neighbourhood(other)
        return torch.sigmoid(struct + self.module.w_rec.weight @ self.state(node) + drive)

    def new_attention(self, node: int, others: list[int]) -> dict[int, float]:
        """Of a node with links to these others at one time."""
        old = self.attention.get(node, {})
        held, slots = dict(old), self.system.config.neighbours
        for other in others:
            if other not in held and len(held) == slots:
                del held[next(iter(held))]  # that with the oldest last link
            held.pop(other, None)
            held[other] = math.nan
        b_old, b = (1 / len(each) if each else 0.0 for each in (old, held))
        for partner in held:
            if partner in others:
                u, v, kind = self.state(node), self.state(partner), self.kind(node, partner)
                held[partner] = b + float((self.rate(u, v, kind) + self.rate(v, u, kind)).detach()) / 2
            else:
                held[partner] = max(old[partner] - (b_old - b), 0.0)
        return {partner: value / sum(held.values()) for partner, value in held.items()}

    def link_moment(self, links: list[Link]) -> None:
        """Links at one time: all read the state before them."""
        found: dict[int, list[Tensor]] = {}
        others: dict[int, list[int]] = {}
        for u, v, t, msg in links:
            for node, other in ((u, v), (v, u)):
                found.setdefault(node, []).append(self.new_state(node, other, t, msg))
                others.setdefault(node, []).append(other)
        attention = {node: self.new_attention(node, each) for node, each in others.items()}
        self.attention.update(attention)
        self.states.update({node: torch.stack(each).mean(dim=0) for node, each in found.items()})
        self.times.update(dict.fromkeys(found, links[0][2]))
        self.pairs.update(frozenset((u, v)) for u, v, _, _ in links)


def trained(events: cawn.Events, **changes: object) -> cawn.Trainer:
    return briefly_trained("dyrep-original", events, lr=0.05, **changes)


def network(attributes: bool) -> cawn.Events:
    """With ties, self-loops and nodes that occur after training."""
    events = random_events(3, num_nodes=12, num_links=150, span=90)
    if not attributes:
        return events
    rng = np.random.default_rng(0)
    return with_columns(events, msg=rng.normal(size=(150, 2)), x=rng.normal(size=(12, 3)))


@pytest.mark.parametrize("attributes", [False, True])
@pytest.mark.parametrize("neighbours", [2, 20])
def test_scores_are_those_of_the_equations(attributes: bool, neighbours: int) -> None:
    trainer = trained(network(attributes), neighbours=neighbours)
    system, rng = trainer.system, np.random.default_rng(1)
    assert isinstance(system, DyRepOriginal)
    scorer, slow = system.scorer(trainer.events), SlowDyRep(system, trainer.events.x)
    with torch.no_grad():
        for links in moments(trainer.events):
            src, dst = rng.integers(0, 14, (2, 3))
            expected = [float(slow.score(int(u), int(v))) for u, v in zip(src, dst, strict=True)]
            assert_same_scores(scorer(src, dst, np.full(3, links[0][2], trainer.events.t.dtype)), expected)
            slow.link_moment(links)


def test_losses_and_gradients_are_those_of_the_equations() -> None:
    """Of two consecutive steps; the states before the second are constants."""
    trainer = trained(network(True), batch_size=40)
    system = trainer.system
    assert isinstance(system, DyRepOriginal)
    steps, slow = system.updates(1, 0, trainer.optimizer), SlowDyRep(system, trainer.events.x)
    stream, remaining = system.training_stream, iter(moments(system.context.train.known))
    for first, last in pairwise(stream.chunks[:3]):
        found = next(steps)
        others = system._others(stream.owners[first:last], 1, first)  # [n, 2, samples]
        losses: list[Tensor] = []
        slow.states = {node: state.detach() for node, state in slow.states.items()}
        while len(losses) < last - first:
            links = next(remaining)
            for u, v, _, _ in links:
                of_u, of_v = others[len(losses)].tolist()
                assert not {u, v} & {*of_u, *of_v}
                z_u, z_v = slow.state(u), slow.state(v)
                survival = [slow.rate(z_u, slow.state(w), k) for w in of_u for k in (0, 1)]
                survival += [slow.rate(slow.state(w), z_v, k) for w in of_v for k in (0, 1)]
                losses.append(torch.stack(survival).sum() / len(of_u) - slow.score(u, v))
            slow.link_moment(links)
        expected = torch.stack(losses).mean()
        assert_same_scores(found, expected)
        weights = dict(system.module.named_parameters())
        gradients = [torch.autograd.grad(loss, list(weights.values())) for loss in (found, expected)]
        for name, one, other in zip(weights, *gradients, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5, err_msg=name)


def test_the_logarithm_of_an_intensity_stays_finite() -> None:
    intensity = Intensity(1)
    with torch.no_grad():
        intensity.omega.weight.fill_(1.0)
        intensity.omega.bias.zero_()
        z = torch.tensor([[-500.0], [-7.4], [0.0], [500.0]])
        found = intensity.log(z, torch.zeros_like(z))[:, 0]
        exact = torch.log(0.5 * softplus(z[1:, 0].double() / 0.5))
    assert found[0] == pytest.approx(math.log(0.5) - 1000)
    torch.testing.assert_close(found[1:].double(), exact, rtol=1e-5, atol=1e-5)
