"""Network parts that several systems share, against slow and obvious twins."""

import math

import pytest
import torch

from cawn.systems.layers import TimeEncoding, dropout


def test_time_code() -> None:
    code = TimeEncoding(4)
    found = code(torch.tensor([0.0, 2.0], dtype=torch.float64))
    frequencies = [1.0, 1e-3, 1e-6, 1e-9]
    assert torch.allclose(found, torch.tensor([[1.0] * 4, [math.cos(2 * w) for w in frequencies]]), atol=1e-6)
    assert not list(TimeEncoding(4, learned=False).parameters())


def test_the_gradient_of_a_time_code_does_not_grow_with_the_unit_of_time() -> None:
    """Gaps reach 10^6, the number of time units in a training period; gradients are clipped by their norm, near 1."""
    torch.manual_seed(0)
    code = TimeEncoding(10)
    code(1e6 * torch.rand(1_000)).mean(dim=0).sum().backward()
    assert all(0 < weight.grad.norm() < 10 for weight in code.parameters())


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropout(rate: float) -> None:
    """The number of kept elements is within six standard deviations: a false alarm has a probability of 2e-9."""
    torch.manual_seed(0)
    x = torch.ones(1_000, 103, requires_grad=True)
    found = dropout(x, rate, True)
    kept = found > 0
    expected, deviation = x.numel() * (1 - rate), math.sqrt(x.numel() * rate * (1 - rate))
    assert abs(int(kept.sum()) - expected) < 6 * deviation
    assert abs(int((kept[:, 1:] & kept[:, :-1]).sum()) - 102_000 * (1 - rate) ** 2) < 6 * 2 * deviation
    assert torch.allclose(found[kept], torch.tensor(1 / (1 - rate)), rtol=1e-3)
    found.sum().backward()
    assert torch.equal(x.grad, found)
    torch.manual_seed(0)
    assert torch.equal(dropout(x, rate, True), found)
    assert dropout(x, rate, False) is x
