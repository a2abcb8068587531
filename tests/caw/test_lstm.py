"""The fused LSTM step against its twin in plain PyTorch: values and every gradient."""

import numpy as np
import pytest
import torch
from torch.nn.functional import embedding

from cawn.caw.kernels.lstm import LstmStep, bounds_between_owners, sigmoid, tanh
from cawn.caw.model import lstm

D, F = 24, 7


def inputs(
    n: int, before: int, tables: tuple[int, int], seed: int = 0
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    rng = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=rng).requires_grad_()

    real = [normal(n, F), normal(4 * D, F), normal(tables[0], 4 * D), normal(tables[1], 4 * D)]
    real += [normal(before, 4 * D), normal(before, D)]
    owner = torch.randint(0, 40, (n,), generator=rng).sort().values
    parent = owner * max(before // 40, 1) % max(before, 1)  # parents of one owner belong to it alone
    index = [torch.randint(0, max(size, 1), (n,), generator=rng) for size in tables]
    return real, [*index, parent, owner]


def plain(features, weight, own_table, other_table, past, c_before, own, other, parent, owner):
    z = features @ weight.T
    z = z + embedding(own, own_table) if len(own_table) else z
    z = z + embedding(other, other_table) if len(other_table) else z
    return lstm(z, past, c_before, parent)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(
    ("n", "before", "tables"), [(700, 80, (5, 9)), (700, 0, (5, 9)), (300, 40, (4, 0)), (1, 1, (1, 1)), (0, 3, (2, 2))]
)
def test_values_and_gradients_are_those_of_plain_torch(
    n: int, before: int, tables: tuple[int, int], threads: int
) -> None:
    used = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        answers = []
        for step in (LstmStep.apply, plain):
            real, index = inputs(n, before, tables)
            h, c = step(*real, *index)
            loss = (h * torch.linspace(-1, 1, h.numel()).view_as(h)).sum() + c.square().sum()
            answers.append([h, c, *torch.autograd.grad(loss, real, allow_unused=True, materialize_grads=True)])
    finally:
        torch.set_num_threads(used)
    for mine, theirs in zip(*answers, strict=True):
        size = max([1.0, *theirs.detach().abs().flatten().tolist()])
        torch.testing.assert_close(mine, theirs, rtol=2e-5, atol=2e-5 * size)


def test_the_activations() -> None:
    x = np.concatenate([np.linspace(-30, 30, 20_001), np.linspace(-0.01, 0.01, 2_001)]).astype(np.float32)
    exact = np.tanh(x.astype(np.float64))
    assert max(abs(tanh(v) - e) for v, e in zip(x, exact, strict=True)) < 5e-7
    exact = 1 / (1 + np.exp(-x.astype(np.float64)))
    assert max(abs(sigmoid(v) - e) for v, e in zip(x, exact, strict=True)) < 5e-7


def test_threads_never_share_a_walk_set() -> None:
    owner = np.sort(np.random.default_rng(0).integers(0, 30, 1_000))
    bounds = bounds_between_owners(owner, 1_000, 4)
    assert bounds[0] == 0
    assert bounds[-1] == 1_000
    assert len(bounds) == 5
    assert all(owner[b - 1] != owner[b] for b in bounds[1:-1])
    assert bounds_between_owners(owner[::-1], 1_000, 4) == [0, 1_000]
    assert bounds_between_owners(owner, 900, 4) == [0, 900]
