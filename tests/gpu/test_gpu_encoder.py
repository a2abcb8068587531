"""The fused encoder gives the states and the gradients of the one in `model`."""

import pytest
import torch

import cawn
from cawn.kernels.cuda.positions import EncoderShape, Layers, position_inputs
from cawn.systems.cawn.features import Batch
from cawn.systems.cawn.fused import Dense, encode
from cawn.systems.cawn.model import CAWN

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("ignore:overflow encountered")]

CASES = [  # positions, walks, width, attributes, settings
    (3, 8, 16, 5, {}),
    (2, 5, 8, 0, {"logarithms": False, "sides": "joint"}),
    (4, 20, 24, 3, {"time": False}),
    (3, 16, 16, 0, {"time": False, "logarithms": False}),
    (3, 40, 72, 1, {}),
]


def some_walks(gpu, M: int, L: int, x_width: int) -> Dense:
    """Counts and features of 3 pairs whose walks end anywhere; those of the first set at once."""
    S = 6
    random = torch.Generator().manual_seed(M)
    alive = (torch.randint(1, L + 1, (S, M, 1), generator=random) > torch.arange(L)).to(torch.uint8)
    alive[0, :, 1:] = 0
    counts = torch.randint(0, M + 1, (S, M, L, 2, L), generator=random, dtype=torch.int32)
    elapsed, x = torch.rand(S, M, L, generator=random), torch.randn(S, M, L, x_width, generator=random)
    for feature in (counts, elapsed, x):  # all walks of a set begin alike
        feature[:, :, 0] = feature[:, :1, 0]
    return Dense(*(feature.to(gpu) for feature in (counts, elapsed, x, alive, torch.zeros(S // 2, 0))))


def some_network(gpu, M: int, L: int, d: int, x_width: int, settings: dict) -> CAWN:
    config = cawn.Config(num_walks=M, length=L - 1, dim=d, rates=False, dropout=0.0, frequencies=6, **settings)
    torch.manual_seed(1)
    network = CAWN(config, x_width, 0)
    for weight in network.parameters():
        torch.nn.init.normal_(weight, std=0.4)
    return network.to(gpu).train()


POOLED = [(CASES[0], True), *((case, i % 2 == 1) for i, case in enumerate(CASES))]


@pytest.mark.parametrize(("case", "pool"), POOLED, ids=str)
def test_states_and_gradients(gpu, case, pool: bool) -> None:
    L, M, d, x_width, settings = case
    network, batch = some_network(gpu, M, L, d, x_width, settings), some_walks(gpu, M, L, x_width)
    trees = Batch(M, batch.counts.reshape(-1, L), batch.levels(), batch.rates)
    expected = torch.zeros(6, d, device=gpu)
    for h, level in zip(network.walks(trees), trees.levels, strict=True):
        expected = expected.index_add(0, level.owner, h * level.weight[:, None])
    towards = torch.randn(6, d, generator=torch.Generator().manual_seed(2)).to(gpu)
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


def test_halves_stay_close_to_singles(gpu) -> None:
    """States and gradients with bfloat16 products, the way models are run on a GPU, beside those in float32."""
    M, L = 16, 3
    torch.manual_seed(1)
    model = CAWN(cawn.Config(num_walks=M, length=L - 1, dim=16, frequencies=4, dropout=0.0, rates=False), 5).to(gpu)
    batch = some_walks(gpu, M, L, 5)
    towards = torch.randn(6, 16, device=gpu)
    found = {}
    for dtype in (torch.float32, torch.bfloat16):
        model.zero_grad()
        states = encode(model.walks, batch, pool=True, dtype=dtype)
        (states * towards).sum().backward()
        found[dtype] = {"states": states.detach()} | {n: w.grad.clone() for n, w in model.walks.named_parameters()}
    for name, exact in found[torch.float32].items():
        off = (found[torch.bfloat16][name] - exact).norm() / exact.norm()
        assert off < (0.15 if "omega" in name else 0.04), f"{name}: {off}"


def inputs(layers: Layers, batch: Dense, shape: EncoderShape, seed: torch.Tensor) -> torch.Tensor:
    return position_inputs(layers, batch.counts, batch.elapsed, batch.x, shape, seed, torch.float32)


def nothing(gpu, d: int, N: int, omega: list[float] | torch.Tensor) -> Layers:
    """Layers that are zero."""
    weight, bias = torch.zeros(d, N, device=gpu), torch.zeros(d, device=gpu)
    return Layers(weight, bias, weight.clone(), bias.clone(), torch.as_tensor(omega, device=gpu))


def test_dropout_keeps_its_share_and_its_mean(gpu) -> None:
    L, M, d = 2, 64, 64
    batch = some_walks(gpu, M, L, 0)
    shape = EncoderShape(S=6, M=M, L=L, d=d, kinds=1, frequencies=0, x_width=0, width=144, keep=0.7, pool=True)
    layers = nothing(gpu, d, L, [])
    for bias in (layers.own_bias, layers.other_bias):
        bias.fill_(1.0)  # the bias alone: every hidden unit is 1
    made = [shape.shallow(inputs(layers, batch, shape, torch.tensor([seed], device=gpu))) for seed in (1, 2, 1)]
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
    batch = some_walks(gpu, 16, 2, 0)
    scales = 10.0 ** torch.arange(-4, 8, device=gpu)
    shape = EncoderShape(S=6, M=16, L=2, d=16, kinds=1, frequencies=12, x_width=0, width=64, keep=1.0, pool=True)
    layers = nothing(gpu, 16, 2, scales)
    made = shape.shallow(inputs(layers, batch, shape, batch.alive))
    walk = torch.arange(6 * 16, device=gpu)
    phase = batch.elapsed.flatten()[walk * 2 + 1][:, None] * scales  # of depth 1
    assert torch.allclose(made[6:, 32:44], phase.cos(), atol=2e-6)
    assert torch.allclose(made[6:, 44:56], phase.sin(), atol=2e-6)
    assert (made[:, 56] == 1).all()  # the bias comes after the waves
