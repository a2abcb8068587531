"""NAT against a slow twin with one dictionary per cache, written from the equations."""

import math
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
import torch

import cawn
from cawn.data.ties import batch_ends, in_canonical_order
from cawn.kernels import rng
from cawn.rivals.nat import NATSystem
from networks import random_events, with_columns
from systems.small_settings import small
from tolerances import assert_same_scores


def built(events: cawn.Events, **settings: object) -> NATSystem:
    """A system with weights as initialised."""
    torch.manual_seed(0)
    trainer = cawn.Trainer(events, small("nat", **{"batch_size": 7} | settings), quiet=True, device="cpu")
    assert isinstance(trainer.system, NATSystem)
    trainer.system.module.eval()
    return trainer.system


class Twin:
    """Caches as dictionaries from slots to entries, one link at a time."""

    def __init__(self, system: NATSystem, events: cawn.Events) -> None:
        self.system, self.events, self.config, self.net = system, events, system.config, system.module
        self.own: dict[int, torch.Tensor] = {}
        self.last: dict[int, int] = {}
        self.caches: dict[tuple[int, int], dict[int, dict[str, Any]]] = {}  # by node and distance, then by slot
        self.number: dict[int, int] = {}
        for u, v in zip(events.src.tolist(), events.dst.tolist(), strict=True):
            for node in (u, v):
                self.number.setdefault(node, len(self.number))

    def cache(self, node: int, distance: int) -> dict[int, dict[str, Any]]:
        return self.caches.setdefault((node, distance), {})

    def slot(self, node: int, size: int) -> int:
        return rng.mix64_int(self.number[node] ^ rng.mix64_int(self.system.seed)) % size

    def coin(self, link: int, side: int, index: int) -> bool:
        key = rng.mix64_int((2 * link + side) ^ rng.mix64_int(self.system.seed))
        word = rng.mix64_int((key + (index + 1) * rng.GOLDEN) % 2**64)
        return (word >> 12) * 2.0**-52 < self.config.replacement

    def vector(self, node: int) -> torch.Tensor:
        return self.own.get(node, torch.zeros(self.config.dim))

    def message(self, node: int, link: int, t: float) -> torch.Tensor:
        gap = math.log1p((t - self.events.t[link]) / self.system.unit)
        attributes = torch.tensor(self.events.msg[link])
        return torch.cat([self.vector(node), self.net.time(torch.tensor(gap)), attributes])

    def own_at(self, node: int, t: float) -> torch.Tensor:
        if node not in self.last:
            return self.vector(node)
        link = self.last[node]
        other = self.events.src[link] + self.events.dst[link] - node
        return self.net.own_rnn(self.net.own_message(self.message(int(other), link, t)), self.vector(node))

    def entry_at(self, entry: dict[str, Any], t: float) -> torch.Tensor:
        return self.net.entry_rnn(self.net.entry_message(self.message(entry["key"], entry["link"], t)), entry["vector"])

    def after(self, links: range) -> "Twin":
        """The state after one more batch."""
        later = deepcopy(self, {id(self.system): self.system, id(self.net): self.net, id(self.events): self.events})
        for link in links:
            ends, t = (int(self.events.src[link]), int(self.events.dst[link])), self.events.t[link]
            for side in (0, 1):
                later._insert(self, ends[side], ends[1 - side], link, side, t)
        return later

    def _insert(self, before: "Twin", node: int, other: int, link: int, side: int, t: float) -> None:
        M, config = self.config.neighbours, self.config
        itself, zero = before.cache(node, 0).get(0), torch.zeros(config.entry_dim)
        vector = zero if itself is None else before.entry_at(itself, t)
        self.cache(node, 0)[0] = {"key": node, "link": link, "vector": vector}
        self.own[node], self.last[node] = before.own_at(node, t), link

        slot = self.slot(other, M)
        held = before.cache(node, 1).get(slot)
        same = held is not None and held["key"] == other
        if held is None or same or self.coin(link, side, 1):
            vector = before.entry_at(held, t) if same else zero
            self.cache(node, 1)[slot] = {"key": other, "link": link, "vector": vector}

        for index in range(M):
            entry = before.cache(other, 1).get(index)
            if entry is None:
                continue
            slot = self.slot(entry["key"], config.second_neighbours)
            held = before.cache(node, 2).get(slot)
            if held is None or held["key"] == entry["key"] or self.coin(link, side, 2 + index):
                moved = before.entry_at(entry, t)
                self.cache(node, 2)[slot] = {"key": entry["key"], "link": entry["link"], "vector": moved}

    def logit(self, u: int, v: int, t: float) -> float:
        vectors: dict[int, torch.Tensor] = {}
        codes: dict[int, int] = {}
        for side, node in enumerate((u, v)):
            found = [(0, node, None)]
            found += [(d, e["key"], e) for d in (1, 2) for e in self.cache(node, d).values()]
            for distance, key, entry in found:
                held = self.cache(node, 0).get(0) if distance == 0 else entry
                vector = torch.zeros(self.config.entry_dim) if held is None else self.entry_at(held, t)
                vectors[key] = vectors.get(key, 0) + vector
                codes[key] = codes.get(key, 0) | 1 << (3 * side + distance)
        x = [
            torch.cat([self.features(key), vectors[key], self.net.position(torch.tensor(codes[key]))])
            for key in vectors
        ]
        h = torch.stack([self.net.value(each).view(self.config.heads, -1) for each in x])  # [keys, heads, dim]
        weights = torch.nn.functional.leaky_relu(self.net.attention(h), 0.2).softmax(dim=0)
        pooled = ((weights if self.config.pooling == "attention" else 1) * h).sum(dim=0).mean(dim=0)
        ends = [self.own_at(u, t), self.own_at(v, t), self.features(u), self.features(v)]
        return float(self.net.out(pooled, torch.cat(ends)))

    def features(self, node: int) -> torch.Tensor:
        x = self.events.x
        return torch.tensor(x[node]) if node < len(x) else torch.zeros(x.shape[1])


@pytest.mark.parametrize("pooling", ["attention", "sum"])
def test_scores_are_those_of_the_equations(pooling: str) -> None:
    plain = random_events(1, num_nodes=9, num_links=60, span=40)
    draw = np.random.default_rng(0)
    system = built(with_columns(plain, msg=draw.normal(size=(60, 2)), x=draw.normal(size=(9, 3))), pooling=pooling)
    encoded = system.context.events
    events = in_canonical_order(encoded)
    twin, start, expected = Twin(system, events), 0, []
    asked = [(0, 1, 5), (3, 20, 18), (2, 2, 18), (8, 4, 30), (1, 0, 39), (4, 7, 60)]
    with torch.no_grad():
        for u, v, t in asked:
            for end in batch_ends(events.t, system.config.batch_size):
                if start < end <= np.searchsorted(events.t, t):
                    twin, start = twin.after(range(start, int(end))), int(end)
            expected.append(twin.logit(u, v, t))
    assert start >= 40
    src, dst, t = np.array(asked).T
    assert_same_scores(system.scorer(encoded)(src, dst, t), np.array(expected))
