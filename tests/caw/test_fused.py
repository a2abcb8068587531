"""The fused encoder computes the same states and gradients as the one in `model`."""

import pytest
import torch

import cawn
from cawn.caw.features import Batch
from cawn.caw.fused import Dense, encode
from cawn.caw.model import CAWN
from cawn.caw.variants import build_network

S = 4  # walk sets

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:overflow encountered")]

CASES = [  # positions, walks, width, attributes, settings
    (3, 8, 16, 5, {}),
    (2, 5, 8, 0, {"logarithms": False, "sides": "joint"}),
    (4, 20, 24, 3, {"time": False}),
    (3, 16, 16, 0, {"time": False, "logarithms": False}),
    (3, 10, 72, 1, {}),
]


def some_walks(gpu, M: int, L: int, x_width: int) -> Dense:
    """Counts and features of 2 pairs whose walks end anywhere; those of the first set at once."""
    random = torch.Generator().manual_seed(M)
    alive = (torch.randint(1, L + 1, (S, M, 1), generator=random) > torch.arange(L)).to(torch.uint8)
    alive[0, :, 1:] = 0
    counts = torch.randint(0, M + 1, (S, M, L, 2, L), generator=random, dtype=torch.int32)
    elapsed, x = torch.rand(S, M, L, generator=random), torch.randn(S, M, L, x_width, generator=random)
    for feature in (counts, elapsed, x):  # all walks of a set share their root
        feature[:, :, 0] = feature[:, :1, 0]
    return Dense(*(feature.to(gpu) for feature in (counts, elapsed, x, alive, torch.zeros(S // 2, 0))))


def some_network(gpu, M: int, L: int, d: int, x_width: int, settings: dict) -> CAWN:
    config = cawn.Config(num_walks=M, length=L - 1, dim=d, rates=False, dropout=0.0, frequencies=6, **settings)
    torch.manual_seed(1)
    network = build_network(config, x_width, 0)
    for weight in network.parameters():
        torch.nn.init.normal_(weight, std=0.4)
    return network.to(gpu).train()


POOLED = [(CASES[0], True), *((case, i % 2 == 1) for i, case in enumerate(CASES))]


@pytest.mark.parametrize(("case", "pool"), POOLED, ids=str)
def test_states_and_gradients(gpu, case, pool: bool) -> None:
    L, M, d, x_width, settings = case
    network, batch = some_network(gpu, M, L, d, x_width, settings), some_walks(gpu, M, L, x_width)
    trees = Batch(M, batch.counts.reshape(-1, L), batch.levels(), batch.pair_features)
    expected = torch.zeros(S, d, device=gpu)
    for h, level in zip(network.walks(trees), trees.levels, strict=True):
        expected = expected.index_add(0, level.owner, h * level.weight[:, None])
    towards = torch.randn(S, d, generator=torch.Generator().manual_seed(2)).to(gpu)
    (expected * towards).sum().backward()
    gradients = {name: weight.grad for name, weight in network.walks.named_parameters()}
    network.zero_grad()
    found = encode(network.walks, batch, pool=pool, dtype=torch.float32)
    found = found if pool else found.mean(dim=1)
    assert torch.allclose(found, expected, atol=3e-6)
    (found * towards).sum().backward()
    for name, weight in network.walks.named_parameters():
        scale = gradients[name].abs().max().clamp(min=1e-3)
        assert torch.allclose(weight.grad / scale, gradients[name] / scale, atol=1e-4), name


def test_bfloat16_is_close_to_float32(gpu) -> None:
    """States and gradients with matrix products in bfloat16, the default on a GPU."""
    M, L = 16, 3
    torch.manual_seed(1)
    model = build_network(
        cawn.Config(num_walks=M, length=L - 1, dim=16, frequencies=4, dropout=0.0, rates=False), 5
    ).to(gpu)
    batch = some_walks(gpu, M, L, 5)
    towards = torch.randn(S, 16, device=gpu)
    found = {}
    for dtype in (torch.float32, torch.bfloat16):
        model.zero_grad()
        states = encode(model.walks, batch, pool=True, dtype=dtype)
        (states * towards).sum().backward()
        found[dtype] = {"states": states.detach()} | {n: w.grad.clone() for n, w in model.walks.named_parameters()}
    for name, exact in found[torch.float32].items():
        off = (found[torch.bfloat16][name] - exact).norm() / exact.norm()
        assert off < (0.15 if "omega" in name else 0.04), f"{name}: {off}"
