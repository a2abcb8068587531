"""Network parts that several systems share, against slow and obvious twins."""

import math

import pytest
import torch

from cawn.systems.layers import Merge, MixerBlock, TemporalAttention, TimeEncoding, dropout


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


@pytest.mark.parametrize("link", [0, 2])
def test_attention_against_a_loop(link: int) -> None:
    torch.manual_seed(0)
    layer = TemporalAttention(3, link, 5, heads=2, dropout=0.5).eval()
    B, k, d = 4, 6, layer.width // 2
    h, now, past, times = torch.randn(B, 3), torch.randn(5), torch.randn(B, k, 3), torch.randn(B, k, 5)
    attributes = torch.randn(B, k, link) if link else None
    mask = torch.rand(B, k) < 0.6
    mask[0] = False
    found = layer(h, now, past, attributes, times, mask)
    for b in range(B):
        query = torch.cat([h[b], now])
        heads = []
        for head in range(2):
            part = slice(head * d, (head + 1) * d)
            scores, values = [], []
            for i in torch.nonzero(mask[b]).flatten().tolist():
                key = torch.cat([past[b, i], *([] if attributes is None else [attributes[b, i]]), times[b, i]])
                scores.append((layer.q(query)[part] * layer.k(key)[part]).sum() / math.sqrt(d))
                values.append(layer.v(key)[part])
            weights = torch.stack(scores).softmax(0) if scores else []
            heads.append(sum((w * v for w, v in zip(weights, values, strict=True)), torch.zeros(d)))
        attended = layer.norm(layer.out(torch.cat(heads)) + query)
        assert torch.allclose(found[b], layer.merge(attended, h[b]), atol=1e-5)


def test_padding_does_not_change_the_attention() -> None:
    torch.manual_seed(0)
    layer = TemporalAttention(3, 0, 5, heads=2, dropout=0.0)
    h, now, past, times = torch.randn(2, 3), torch.randn(5), torch.randn(2, 9, 3), torch.randn(2, 9, 5)
    mask = torch.arange(9).expand(2, 9) < 4
    short = layer(h, now, past[:, :4], None, times[:, :4], mask[:, :4])
    assert torch.allclose(layer(h, now, past, None, times, mask), short, atol=1e-6)


def test_merge_and_mixer_have_the_shapes_they_promise() -> None:
    assert Merge(2, 3, 4, 5)(torch.randn(7, 2), torch.randn(7, 3)).shape == (7, 5)
    block = MixerBlock(6, 8, dropout=0.0)
    x = torch.randn(3, 6, 8)
    mixed = block(x)
    assert mixed.shape == x.shape
    assert torch.allclose(block(x[:1]), mixed[:1], atol=1e-6)


def test_masked_tokens_change_no_other_token() -> None:
    torch.manual_seed(0)
    block, x = MixerBlock(6, 8, dropout=0.0), torch.randn(2, 6, 8)
    mask = torch.arange(6) < torch.tensor([[4], [2]])
    mixed, other = block(x, mask), block(torch.where(mask[..., None], x, 9.0), mask)
    assert torch.allclose(other[mask], mixed[mask], atol=1e-6)
    assert not torch.allclose(block(x)[mask], mixed[mask], atol=1e-3)


@pytest.mark.parametrize("link", [0, 2])
def test_no_node_features_are_the_same_as_zeros(link: int) -> None:
    torch.manual_seed(0)
    layer = TemporalAttention(3, link, 5, heads=2, dropout=0.0)
    now, times, mask = torch.randn(5), torch.randn(4, 6, 5), torch.rand(4, 6) < 0.6
    attributes = torch.randn(4, 6, link) if link else None
    zeros = torch.zeros(4, 3), now, torch.zeros(4, 6, 3)
    expected = layer(*zeros, attributes, times, mask)
    assert torch.allclose(layer(None, now, None, attributes, times, mask), expected, atol=1e-6)


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
