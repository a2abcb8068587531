"""TGAT against its equations, by recursion over one node at a time."""

import math
from itertools import islice

import numpy as np
import pytest
import torch
from torch import Tensor

import cawn
from cawn.rivals.tgat import Tgat, TgatSystem
from cawn.systems.layers import TemporalAttention
from networks import random_events
from rivals.past_by_reading import UNIT, PastLink, attributed_events, random_weights, read_past, some_pairs, time_code
from systems.small_settings import small
from tolerances import assert_same_scores


class SlowTgat:
    """h of a level by recursion; `links` chooses the links of a node."""

    def __init__(self, network: Tgat, events: cawn.Events, k: int) -> None:
        self.network, self.events, self.k = network, events, k

    def links(self, node: int, t: float) -> list[PastLink]:
        return read_past(self.events, node, t)[: self.k]

    def code(self, gap: float) -> Tensor:
        return time_code(self.network.time, gap / UNIT)

    def h(self, node: int, t: float, level: int) -> Tensor:
        features, x = torch.zeros(self.network.dim), self.events.x
        if level == 0:
            if x is not None and node < len(x):
                features[: x.shape[1]] = torch.tensor(x[node])
            return features
        layer: TemporalAttention = self.network.layers[level - 1]
        own = self.h(node, t, level - 1)
        query = torch.cat([own, self.code(0.0)])
        keys = []
        for link in self.links(node, t):
            attributes = torch.zeros(0) if self.events.msg is None else torch.tensor(self.events.msg[link.event])
            keys.append(torch.cat([self.h(link.node, link.t, level - 1), attributes, self.code(t - link.t)]))
        attended = torch.zeros(layer.width)
        d = layer.width // layer.heads
        for head in range(layer.heads if keys else 0):
            part = slice(head * d, (head + 1) * d)
            scores = torch.stack([layer.q(query)[part] @ layer.k(key)[part] for key in keys]) / math.sqrt(d)
            values = torch.stack([layer.v(key)[part] for key in keys])
            attended[part] = scores.softmax(0) @ values
        return layer.merge(layer.norm(layer.out(attended) + query), own)

    @torch.no_grad()
    def scores(self, src: np.ndarray, dst: np.ndarray, t: np.ndarray) -> list[float]:
        levels = len(self.network.layers)
        return [
            self.network.classifier(self.h(u, now, levels), self.h(v, now, levels)).item()
            for u, v, now in zip(src.tolist(), dst.tolist(), t.tolist(), strict=True)
        ]


def with_learned_time_code(system):
    """The change of the frequencies and the phases are 0 at first."""
    with torch.no_grad():
        for weight in (system.module.time.change, system.module.time.b):
            weight.normal_()
    return system


@pytest.mark.parametrize(("link", "node", "layers"), [(0, 0, 1), (0, 0, 2), (3, 0, 2), (3, 2, 2), (0, 9, 2), (0, 0, 3)])
def test_against_the_equations(link: int, node: int, layers: int) -> None:
    events = attributed_events(0, link=link, node=node)
    system = with_learned_time_code(random_weights("tgat", events, neighbours=3, layers=layers, dim=8))
    asked = some_pairs(events)
    expected = SlowTgat(system.module, events, 3).scores(*asked)
    assert len(set(np.round(expected, 4))) > 8
    assert_same_scores(system.scorer(events)(*asked), expected)


def test_fixed_shapes_give_the_same_embeddings(monkeypatch) -> None:
    """Those of training steps on a GPU, in which equal rows of a tree are not looked for."""
    events = attributed_events(0, link=2)
    system = random_weights("tgat", events, neighbours=3)
    past = system.past(events)
    nodes, t = torch.arange(14), torch.full((14,), 70)
    expected = system.embed(past, nodes, t, past.before(t))
    monkeypatch.setattr(TgatSystem, "_fixed_shapes", True)
    assert torch.allclose(system.embed(past, nodes, t, past.before(t)), expected, atol=1e-5)


def test_uniform_sampling_is_repeatable() -> None:
    events = random_events(5, num_nodes=20, num_links=400, span=250)
    config = small("tgat", sampling="uniform", dropout=0.0)

    def losses() -> list[float]:
        trainer = cawn.Trainer(events, config, quiet=True, device="cpu")
        return [float(loss) for loss in islice(trainer.steps(0, 0), 3)]

    assert losses() == losses()
    system = random_weights("tgat", events, sampling="uniform", neighbours=2, dropout=0.0)
    past, nodes = system.past(events), torch.arange(20)
    system.module.train()
    steps = [system.embed(past, nodes, nodes + 200, past.before(nodes + 200)) for _ in range(2)]
    assert (steps[0] - steps[1]).abs().max() > 1e-3
    asked = some_pairs(events, 30)
    expected = system.scorer(events)(*asked)
    np.testing.assert_array_equal(system.scorer(events)(*asked), expected)
    assert_same_scores(system.scorer(events)(*(column[11:12] for column in asked)), expected[11:12])
    recent = random_weights("tgat", events, sampling="recent", neighbours=2).scorer(events)(*asked)
    assert np.abs(recent - expected).max() > 1e-3
