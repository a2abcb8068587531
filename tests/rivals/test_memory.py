"""The memory of every node, compared with dictionaries and one link at a time."""

from collections import defaultdict

import numpy as np
import pytest
import torch
from torch import Tensor

import cawn
from cawn import systems
from cawn.data.ties import in_canonical_order
from cawn.rivals.memory import MemoryNetwork
from cawn.systems.base import Context
from networks import random_events, with_columns
from tolerances import assert_same_scores

UNIT, BATCH = 3.0, 12


def attributed(events: cawn.Events) -> cawn.Events:
    rng = np.random.default_rng(1)
    return with_columns(
        events,
        msg=rng.normal(size=(len(events), 3)).astype(np.float32),
        x=rng.normal(size=(events.num_nodes, 2)).astype(np.float32),
    )


class SlowMemory:
    """The equations of docs/systems/memory.md: memories in a dictionary, links in lists, one query at a time."""

    def __init__(self, network: MemoryNetwork, events: cawn.Events) -> None:
        self.network, self.config, self.events = network, network.config, in_canonical_order(events)
        self.now: int | None = None
        self.memory: dict[int, Tensor] = {}
        self.last: dict[int, int] = {}

    def replay(self, now: int) -> None:
        """Read all batches that are complete before `now`."""
        self.memory, self.last = {}, {}
        batch: list[int] = []
        known = [k for k in range(len(self.events)) if self.events.t[k] < now]
        for k in known:
            if len(batch) >= BATCH and self.events.t[k] != self.events.t[batch[-1]]:
                self.read(batch)
                batch = []
            batch.append(k)
        if len(batch) >= BATCH:
            self.read(batch)

    def read(self, batch: list[int]) -> None:
        messages = defaultdict(list)
        for k in batch:
            u, v, t = int(self.events.src[k]), int(self.events.dst[k]), int(self.events.t[k])
            for a, b in {(u, v), (v, u)}:  # a self-loop sends one message
                other = self.s(b) if self.config.message == "memory" else self.attend(b, t)
                gap = t - self.last.get(a, t)
                messages[a].append((t, torch.cat([self.s(a), other, self.phi(gap), self.link(k)])))
        new, last = {}, {}
        for a, received in messages.items():
            last[a] = max(t for t, _ in received)
            kept = [m for t, m in received if t == last[a] or self.config.aggregation == "mean"]
            message = torch.stack(kept).mean(dim=0)
            new[a] = self.network.updater(message[None], self.s(a)[None])[0]
        self.memory |= new
        self.last |= last

    def s(self, node: int) -> Tensor:
        return self.memory.get(node, torch.zeros(self.config.dim))

    def phi(self, gap: float) -> Tensor:
        return self.network.time(torch.tensor(gap / UNIT))

    def link(self, k: int) -> Tensor:
        return torch.empty(0) if self.events.msg is None else torch.tensor(self.events.msg[k])

    def features(self, node: int) -> Tensor:
        if self.events.x is None or node >= self.events.num_nodes:
            return torch.zeros(self.config.dim)
        return self.network.features(torch.tensor(self.events.x[node]))

    def attend(self, node: int, now: int) -> Tensor:
        past = []
        for k in range(len(self.events)):
            u, v, t = int(self.events.src[k]), int(self.events.dst[k]), int(self.events.t[k])
            if t < now:
                past += [(b, t, k) for a, b in {(u, v), (v, u)} if a == node]
        past = past[-self.config.neighbours :]
        h = self.s(node) + self.features(node)
        if not past:
            past_h, times, links = torch.zeros(1, self.config.dim), self.phi(0)[None], self.link(0)[None]
        else:
            past_h = torch.stack([self.s(b) + self.features(b) for b, _, _ in past])
            times = torch.stack([self.phi(now - t) for _, t, _ in past])
            links = torch.stack([self.link(k) for _, _, k in past])
        mask = torch.full((1, len(past_h)), len(past) > 0)
        attributes = None if self.events.msg is None else links[None]
        return self.network.attention(h[None], self.phi(0), past_h[None], attributes, times[None], mask)[0]

    def embed(self, node: int, now: int) -> Tensor:
        if self.config.embedding == "attention":
            return self.attend(node, now)
        s = self.s(node)
        if self.config.embedding == "projection":
            mean, deviation = self.network.gaps
            gap = now - self.last.get(node, now)
            s = s * (1 + self.network.projection(torch.tensor([(gap - mean) / deviation])))
        return s + self.features(node)

    @torch.no_grad()
    def score(self, u: int, v: int, now: int) -> float:
        if now != self.now:
            self.replay(now)
            self.now = now
        return float(self.network.score(self.embed(u, now), self.embed(v, now)))


def build(name: str, events: cawn.Events, **settings: object) -> systems.base.System:
    torch.manual_seed(0)
    config = systems.settings_type(name)(batch_size=BATCH, dim=6, time_dim=4, neighbours=3, **settings)
    facts = {"unit": UNIT, "gaps": (4.0, 9.0)}
    system = systems.build(name, Context(config, events, 0, torch.device("cpu"), facts=facts))
    system.module.eval()
    return system


@pytest.mark.parametrize("name", ["tgn", "jodie", "dyrep"])
@pytest.mark.parametrize("aggregation", ["last", "mean"])
@pytest.mark.parametrize("attributes", [False, True])
def test_scores_are_those_of_the_equations(name: str, aggregation: str, attributes: bool) -> None:
    events = random_events(3, num_nodes=7, num_links=90, span=50)
    events = attributed(events) if attributes else events
    system = build(name, events, aggregation=aggregation)
    slow = SlowMemory(system.module, events)
    rng = np.random.default_rng(2)
    t = np.repeat([0, 11, 23, 38, 49, 60], 3)
    src, dst = rng.integers(0, events.num_nodes + 2, (2, len(t)))
    expected = [slow.score(*query) for query in zip(src.tolist(), dst.tolist(), t.tolist(), strict=True)]
    assert len(set(expected)) > 6
    assert_same_scores(system.scorer(events)(src, dst, t), np.array(expected))


@pytest.mark.parametrize("name", ["tgn", "jodie", "dyrep"])
def test_times_count_from_any_origin(name: str) -> None:
    events = random_events(3, num_links=90, span=50)
    events = cawn.Events(events.src, events.dst, np.arange(90), num_nodes=events.num_nodes)
    later = cawn.Events(events.src, events.dst, events.t + 10**12, num_nodes=events.num_nodes)
    system = build(name, events)
    src, dst, t = np.arange(6), np.arange(6)[::-1], np.arange(20, 80, 10)
    assert_same_scores(system.scorer(later)(src, dst, t + 10**12), system.scorer(events)(src, dst, t))
