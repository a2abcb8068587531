"""`examples/caw_in_one_file.py` computes what the package does: the law of walks, identities, and a forward pass."""

import os
import re
import subprocess
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch

import cawn
from cawn.caw.config import Config
from example_files import EXAMPLES, example
from networks import random_events
from reference.walks import links_before, probabilities
from small_cawn import network
from statistics_of_draws import assert_follows
from tolerances import assert_same_scores

EVENTS = random_events(4, num_nodes=12, num_links=200, span=100)
ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1"}
ALPHA, UNIT = 0.05, 10.0  # that of `small_cawn.network`
SRC, DST, T = np.array([1, 3, 7, 5]), np.array([2, 4, 1, 6]), np.array([90, 50, 3, 100])


@pytest.fixture(scope="module", name="example")
def _example() -> ModuleType:
    return example("caw_in_one_file")


def test_two_steps_follow_the_law(example: ModuleType) -> None:
    history = example.History((EVENTS.src, EVENTS.dst, EVENTS.t), EVENTS.num_nodes, ALPHA)
    nodes, times = history.walks(np.array([1]), np.array([90]), 40_000, 2, np.random.default_rng(0))
    paths, law = [], []
    for (t1, w1, *_), p1 in zip(first := links_before(EVENTS, 1, 90), probabilities(first, ALPHA), strict=True):
        second = links_before(EVENTS, w1, t1)
        steps = zip(second, probabilities(second, ALPHA), strict=True) if second else [((t1, -1), 1.0)]
        for (t2, w2, *_), p2 in steps:
            paths.append((w1, t1, w2, t2))
            law.append(p1 * p2)
    drawn = np.stack([nodes[0, :, 1], times[0, :, 1], nodes[0, :, 2], times[0, :, 2]], axis=1).astype(int)
    kinds = {path: [0.0, 0.0] for path in paths}  # simultaneous links between the same nodes are one outcome
    for path, share in zip(paths, law, strict=True):
        kinds[path][1] += share
    for path in map(tuple, drawn.tolist()):
        kinds[path][0] += 1
    assert_follows(*np.array(list(kinds.values())).T)


def package(pooling: str) -> tuple[Any, Any, list[cawn.Walks]]:
    """CAW-N with the paper's settings, what it is given, and the walks of this: [4, 8, 3] each."""
    config = Config.preset("paper-mean").with_(
        num_walks=8, length=2, dim=6, frequencies=3, alpha=ALPHA, pooling=pooling, dropout=0.0
    )
    model, batcher = network(EVENTS, config)
    sets = [batcher.history.sample(ends, T, num_walks=8, length=2, seed=5) for ends in (SRC, DST)]
    return model, batcher.pairs(SRC, DST, T, seed=5), sets


def test_identities_are_those_of_the_package(example: ModuleType) -> None:
    *_, sets = package("mean")
    assert (sets[0].nodes == -1).any()
    np.testing.assert_array_equal(
        example.anonymise(np.stack([walks.nodes for walks in sets], axis=1)), cawn.anonymize(*sets)
    )


def by_gate(weight: torch.Tensor) -> torch.Tensor:
    """The gates in the order of PyTorch's LSTM."""
    i, f, o, new = weight.chunk(4)
    return torch.cat([i, f, new, o])


@pytest.mark.parametrize("pooling", ["mean", "attention"])
@torch.no_grad()
def test_a_forward_pass_is_that_of_the_package(example: ModuleType, pooling: str) -> None:
    theirs, batch, sets = package(pooling)
    position, ours = theirs.walks.position, example.CAWN(2, 6, 3, pooling)
    if pooling == "attention":  # the package divides the scores by the square root of d
        ours.Q1.copy_(theirs.attention.q1.weight.T / 6**0.5)
        ours.Q2.copy_(theirs.attention.q2.weight.T)
    mlp = position.f1.mlps[0]
    for one, other in ((ours.mlp[0], mlp[0]), (ours.mlp[2], mlp[3]), (ours.predict[0], theirs.head[0])):
        one.load_state_dict(other.state_dict())
    ours.predict[2].load_state_dict(theirs.head[3].state_dict())
    ours.omega.copy_(position.f2.omega)
    ours.rnn.weight_ih_l0.copy_(by_gate(torch.cat([position.f1.project.weight, position.from_features.weight], dim=1)))
    ours.rnn.weight_hh_l0.copy_(by_gate(theirs.walks.from_state.weight))
    ours.rnn.bias_ih_l0.copy_(by_gate(position.bias[0]))
    ours.rnn.bias_hh_l0.zero_()
    nodes, t = (np.stack([getattr(walks, name) for walks in sets], axis=1) for name in ("nodes", "t"))
    elapsed = torch.from_numpy(-np.diff(t, axis=-1, prepend=t[..., :1]) / UNIT).float()
    counts = torch.from_numpy(example.anonymise(nodes))
    assert_same_scores(ours(counts, elapsed, torch.from_numpy(nodes >= 0)), theirs(batch))


def test_it_learns_the_law_of_its_own_network() -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "caw_in_one_file.py", "--walks", "16"],
        capture_output=True,
        text=True,
        check=False,
        env=ONE_THREAD,
    )
    assert done.returncode == 0, done.stderr
    found = re.search(r"test: AUC ([\d.]+)", done.stdout)
    assert found is not None
    assert 0.57 < float(found[1]) < 0.7
