"""The inputs of the encoder: dropout and waves of elapsed times."""

import pytest
import torch

from cawn.caw.kernels.cuda.positions import EncoderShape, Layers, position_inputs

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:overflow encountered")]

S, L = 6, 2  # walk sets, positions


def elapsed_times(gpu, M: int) -> torch.Tensor:
    """[S, M, L]"""
    return torch.rand(S, M, L, generator=torch.Generator().manual_seed(M)).to(gpu)


def inputs(layers: Layers, elapsed: torch.Tensor, shape: EncoderShape, seed: torch.Tensor) -> torch.Tensor:
    """Of walks on which every node occurs at once."""
    counts = torch.ones(S, shape.M, L, 2, L, dtype=torch.int32, device=elapsed.device)
    x = torch.zeros(S, shape.M, L, 0, device=elapsed.device)
    return position_inputs(layers, counts, elapsed, x, shape, seed, torch.float32)


def nothing(gpu, d: int, N: int, omega: list[float] | torch.Tensor) -> Layers:
    """Layers that are zero."""
    weight, bias = torch.zeros(d, N, device=gpu), torch.zeros(d, device=gpu)
    return Layers(weight, bias, weight.clone(), bias.clone(), torch.as_tensor(omega, device=gpu))


def test_dropout_keeps_its_share_and_its_mean(gpu) -> None:
    M, d = 64, 64
    elapsed = elapsed_times(gpu, M)
    shape = EncoderShape(S=S, M=M, L=L, d=d, kinds=1, frequencies=0, x_width=0, width=144, keep=0.7, pool=True)
    layers = nothing(gpu, d, L, [])
    for bias in (layers.own_bias, layers.other_bias):
        bias.fill_(1.0)  # the bias alone: every hidden unit is 1
    made = [shape.shallow(inputs(layers, elapsed, shape, torch.tensor([seed], device=gpu))) for seed in (1, 2, 1)]
    hidden = made[0][:, : 2 * d]
    n = hidden.numel()
    share = (hidden > 0).double().mean().item()
    assert abs(share - 0.7) < 5 * (0.7 * 0.3 / n) ** 0.5  # one false alarm in two million
    assert torch.allclose(hidden[hidden > 0], torch.tensor(1 / 0.7, device=gpu))
    assert torch.equal(made[0], made[2])
    together = ((hidden > 0) & (made[1][:, : 2 * d] > 0)).double().mean().item()  # seeds are independent
    assert abs(together - 0.49) < 5 * (0.49 * 0.51 / n) ** 0.5
    for shift in (1, d):  # and so are neighbours and the two sides
        both = ((hidden > 0) & (hidden.roll(shift, dims=1) > 0)).double().mean().item()
        assert abs(both - 0.49) < 5 * (0.49 * 0.51 / n) ** 0.5


def test_waves_of_any_length(gpu) -> None:
    """Cosine and sine of small and large phases are those of PyTorch."""
    elapsed = elapsed_times(gpu, 16)
    scales = 10.0 ** torch.arange(-4, 8, device=gpu)
    shape = EncoderShape(S=S, M=16, L=L, d=16, kinds=1, frequencies=12, x_width=0, width=64, keep=1.0, pool=True)
    layers = nothing(gpu, 16, 2, scales)
    made = shape.shallow(inputs(layers, elapsed, shape, torch.tensor([0], device=gpu)))
    phase = elapsed[:, :, 1].flatten()[:, None] * scales  # of depth 1
    assert torch.allclose(made[6:, 32:44], phase.cos(), atol=2e-6)
    assert torch.allclose(made[6:, 44:56], phase.sin(), atol=2e-6)
    assert (made[:, 56] == 1).all()  # the bias comes after the waves


def test_dropout_of_some_pairs_is_that_of_all(gpu) -> None:
    """Pairs 1 and 3 of two blocks of two, whose walk sets are 2, 3, 6 and 7."""
    M, d = 5, 16
    whole = EncoderShape(S=8, M=M, L=3, d=d, kinds=1, frequencies=0, x_width=0, width=48, keep=0.5, pool=True)
    part = whole._replace(S=4, first=1, size=1, whole=2)
    layers, seed = nothing(gpu, d, 3, []), torch.tensor([7], device=gpu)
    for bias in (layers.own_bias, layers.other_bias):
        bias.fill_(1.0)

    def hidden(shape: EncoderShape) -> list[torch.Tensor]:
        """Of each depth: [S, walks, 2d]."""
        counts = torch.ones(shape.S, M, 3, 2, 3, dtype=torch.int32, device=gpu)
        elapsed, x = torch.zeros(shape.S, M, 3, device=gpu), torch.zeros(shape.S, M, 3, 0, device=gpu)
        flat = position_inputs(layers, counts, elapsed, x, shape, seed, torch.float32)
        roots, walks = shape.shallow(flat).split([shape.S, shape.S * M])
        return [rows[:, : 2 * d].view(shape.S, -1, 2 * d) for rows in (roots, walks, shape.deep(flat, 2))]

    for all_sets, some in zip(hidden(whole), hidden(part), strict=True):
        assert torch.equal(some, all_sets[[2, 3, 6, 7]])
        assert not torch.equal(some, all_sets[:4])
