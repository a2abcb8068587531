"""GraphMixer against its equations, one node at a time."""

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import gelu, linear

import cawn
from cawn.rivals.graphmixer import GraphMixer
from rivals.past_by_reading import UNIT, attributed_events, random_weights, read_past, some_pairs, time_code
from tolerances import assert_same_scores


def mlp(layers: torch.nn.Sequential, x: Tensor, tokens: int | None = None) -> Tensor:
    """Linear, GELU, linear; of a token MLP, the first `tokens` inputs and outputs alone."""
    hidden = gelu(linear(x, layers[0].weight[:, :tokens], layers[0].bias))
    return linear(hidden, layers[3].weight[:tokens], layers[3].bias[:tokens])


def embedding(network: GraphMixer, events: cawn.Events, node: int, t: float, k: int, gap: int) -> Tensor:
    """Equation by equation, with one row per link that exists."""
    links = read_past(events, node, t)
    mean = torch.zeros(network.out.out_features)
    if links:
        rows = []
        for link in links[:k]:
            code = time_code(network.time, (t - link.t) / UNIT)
            rows.append(code if events.msg is None else torch.cat([torch.tensor(events.msg[link.event]), code]))
        x = network.token(torch.stack(rows))  # [n, d]
        for block in network.mixers:
            x = x + mlp(block.token_mlp, block.token_norm(x).T, len(x)).T
            x = x + mlp(block.channel_mlp, block.channel_norm(x))
        mean = x.mean(dim=0)
    if events.x is None:
        return network.out(mean)
    known = torch.tensor(np.concatenate([events.x, np.zeros((9, events.x.shape[1]), np.float32)]))
    others = [known[link.node] for link in links[:gap]]
    average = torch.stack(others).mean(dim=0) if others else torch.zeros(known.shape[1])
    return network.out(torch.cat([mean, known[node] + average]))


@pytest.mark.parametrize(("link", "node"), [(0, 0), (3, 0), (0, 2), (3, 2)])
def test_against_the_equations(link: int, node: int) -> None:
    events = attributed_events(0, link=link, node=node)
    system = random_weights("graphmixer", events, neighbours=4, time_gap=6)
    network, asked = system.module, some_pairs(events)
    with torch.no_grad():
        expected = []
        for src, dst, t in zip(*asked, strict=True):
            ends = [embedding(network, events, end, t, 4, 6) for end in (src, dst)]
            hidden = torch.relu(network.classifier.first(torch.cat(ends)))
            expected.append(network.classifier.second(hidden).item())
    assert len(set(np.round(expected, 4))) > 8
    assert_same_scores(system.scorer(events)(*asked), expected)


def test_the_time_code_is_not_learned() -> None:
    system = random_weights("graphmixer", attributed_events(0))
    assert not [name for name, _ in system.module.named_parameters() if name.startswith("time")]
