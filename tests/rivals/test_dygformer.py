"""DyGFormer against its equations, one pair at a time and without any padding."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import gelu

import cawn
from cawn.rivals.dygformer import Dygformer, DygformerSettings
from rivals.past_by_reading import UNIT, attributed_events, random_weights, read_past, some_pairs, time_code
from tolerances import assert_same_scores

Entry = tuple[int, float, int | None]  # node, time and link; no link for the node itself


class SlowDygformer:
    def __init__(self, network: Dygformer, events: cawn.Events, length: int) -> None:
        self.network, self.events, self.length = network, events, length

    def sequence(self, node: int, t: float) -> list[Entry]:
        return [(node, t, None), *read_past(self.events, node, t)[: self.length - 1]]

    def tokens(self, sequence: list[Entry], counts: list[Counter[int]], now: float) -> Tensor:
        """One row for each patch; the last is filled up with zeros."""
        network, x, msg = self.network, self.events.x, self.events.msg
        channels: list[list[Tensor]] = []
        for node, t, event in sequence:
            entry = []
            if x is not None:
                entry.append(torch.tensor(x[node]) if node < len(x) else torch.zeros(x.shape[1]))
            if msg is not None:
                entry.append(torch.zeros(msg.shape[1]) if event is None else torch.tensor(msg[event]))
            entry.append(time_code(network.time, (now - t) / UNIT))
            entry.append(sum(network.count(torch.tensor([float(count[node])])) for count in counts))
            channels.append(entry)
        rows = []
        for start in range(0, len(sequence), network.patch):
            patch = channels[start : start + network.patch]
            patch += [[torch.zeros_like(part) for part in patch[0]]] * (network.patch - len(patch))
            parts = [torch.cat([entry[i] for entry in patch]) for i in range(len(patch[0]))]
            rows.append(torch.cat([layer(part) for layer, part in zip(network.channels, parts, strict=True)]))
        return torch.stack(rows)

    def transform(self, x: Tensor) -> Tensor:
        for layer in self.network.layers:
            q, k, v = layer.qkv(layer.attention_norm(x)).chunk(3, dim=1)
            d = x.shape[1] // layer.heads
            heads = []
            for head in range(layer.heads):
                part = slice(head * d, (head + 1) * d)
                heads.append((q[:, part] @ k[:, part].T / math.sqrt(d)).softmax(dim=1) @ v[:, part])
            x = x + layer.out(torch.cat(heads, dim=1))
            x = x + layer.mlp[3](gelu(layer.mlp[0](layer.mlp_norm(x))))
        return x

    @torch.no_grad()
    def score(self, src: int, dst: int, t: float) -> float:
        sequences = [self.sequence(end, t) for end in (src, dst)]
        counts = [Counter(node for node, *_ in sequence) for sequence in sequences]
        u, v = (self.tokens(sequence, counts, t) for sequence in sequences)
        x = self.transform(torch.cat([u, v]))
        ends = [self.network.out(part.mean(dim=0)) for part in (x[: len(u)], x[len(u) :])]
        return self.network.classifier(*ends).item()


@pytest.mark.parametrize(
    ("link", "node", "length", "patch"), [(0, 0, 4, 1), (3, 0, 4, 1), (3, 2, 5, 1), (0, 2, 8, 4), (3, 0, 60, 3)]
)
def test_against_the_equations(link: int, node: int, length: int, patch: int) -> None:
    events = attributed_events(0, link=link, node=node)
    system = random_weights("dygformer", events, length=length, patch=patch)
    with torch.no_grad():
        for weight in (system.module.time.change, system.module.time.b):
            weight.normal_()
    slow, asked = SlowDygformer(system.module, events, length), some_pairs(events)
    expected = [slow.score(*pair) for pair in zip(*(column.tolist() for column in asked), strict=True)]
    assert len(set(np.round(expected, 4))) > 8
    assert_same_scores(system.scorer(events)(*asked), expected)


@pytest.mark.parametrize(
    ("changes", "message"),
    [({"length": 32, "patch": 5}, "give a length that patch divides"), ({"heads": 3}, "give a multiple of heads")],
)
def test_settings_that_do_not_fit(changes: dict[str, int], message: str) -> None:
    with pytest.raises(cawn.QueryError, match=message):
        DygformerSettings().with_(**changes)
