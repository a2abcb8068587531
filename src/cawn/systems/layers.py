"""Layers that several systems share."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn

from cawn.kernels.rng import GOLDEN_64, mix64

_SMALLEST_DEVIATION, _MOST_DEVIATIONS = 1e-3, 8.0  # of standardised features
_PERIOD = 1e6  # the length of the training period in the unit of time gaps


class TimeEncoding(nn.Module):
    """phi(dt) = cos(w dt + b), initially with w_i = 10^(-9 i / (width - 1)) and b = 0: [...] -> [..., width].

    The parameter is the change of w in turns per training period, not w itself: the gradient of w is proportional to
    the gap, about 10^6, and would dominate the norm that is clipped; and one step of Adam would be larger than most
    frequencies. Give the `period` if gaps are in another unit.

    The fixed part w dt is reduced to one turn in float64: in float32, angles of 10^6 have errors of several hundredths,
    which differ between processors.
    """

    def __init__(self, width: int, *, learned: bool = True, period: float = _PERIOD) -> None:
        super().__init__()
        w = 10.0 ** (-9 * torch.arange(width, dtype=torch.float64) / max(width - 1, 1))
        self.turns = nn.Buffer(w / (2 * math.pi), persistent=False)  # per unit of time
        self.learned, self.period, self.width = learned, period, width
        if learned:
            self.change, self.b = nn.Parameter(torch.zeros(width)), nn.Parameter(torch.zeros(width))

    def forward(self, gap: Tensor) -> Tensor:
        turns = (gap.double()[..., None] * self.turns).frac_()
        angle = turns.mul_(2 * math.pi).float()
        if not self.learned:
            return torch.cos(angle)
        return torch.cos(angle + gap.float()[..., None] * (self.change / self.period) + self.b)


class Standardise(nn.Module):
    """Features with mean 0 and deviation 1 over the training pairs, cut at 8 deviations: [B, width] -> [B, width]."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.mean, self.deviation = nn.Buffer(torch.zeros(width)), nn.Buffer(torch.ones(width))

    def fit(self, features: Tensor) -> None:
        """Set the mean and deviation to those of features [n, width]."""
        values = features.double()
        self.mean.copy_(values.mean(dim=0))
        self.deviation.copy_(values.std(dim=0, correction=0) + _SMALLEST_DEVIATION)

    def forward(self, features: Tensor) -> Tensor:
        return ((features - self.mean) / self.deviation).clamp(-_MOST_DEVIATIONS, _MOST_DEVIATIONS)


def dropout(x: Tensor, rate: float, training: bool) -> Tensor:
    """As in PyTorch, but on a CPU one random 64-bit word is used for four elements, which is several times faster.

    The rate is then rounded to a multiple of 2^-16.
    """
    if x.device.type != "cpu" or not training or rate == 0:
        return nn.functional.dropout(x, rate, training)
    words = torch.empty(-(-x.numel() // 4), dtype=torch.int64).random_(-(1 << 63), None)
    dropped = round(rate * (1 << 16))  # of the 2^16 values of a quarter of a word
    keep = words.view(torch.int16)[: x.numel()].view(x.shape) >= dropped - (1 << 15)
    return x * keep.to(x.dtype).mul_((1 << 16) / ((1 << 16) - dropped))


def row_dropout(x: Tensor, rows: Tensor, dropout: nn.Dropout) -> Tensor:
    """Dropout of x [n, width] that on a CPU treats equal integers `rows` [n, k] alike, whatever other rows there are.

    There the choice is a hash of the row and of a seed, at the same rounded rate.
    """
    if not dropout.training or dropout.p == 0 or rows.device.type != "cpu":
        return dropout(x)  # type: ignore[no-any-return]
    keys = np.full(len(rows), int(torch.randint(1 << 62, ())), np.uint64)
    for column in rows.numpy().T:
        keys = mix64(keys ^ column.astype(np.uint64))
    words = mix64(keys[:, None] + np.arange(-(-x.shape[1] // 4), dtype=np.uint64) * GOLDEN_64)
    dropped = round(dropout.p * (1 << 16))
    keep = words.view(np.uint16)[:, : x.shape[1]] >= dropped
    return x * torch.from_numpy(keep.astype(np.float32)).mul_((1 << 16) / ((1 << 16) - dropped))


class Dropout(nn.Module):
    """`dropout` as a module."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, x: Tensor) -> Tensor:
        return dropout(x, self.rate, self.training)


class Merge(nn.Module):
    """MLP2([a | b]): a linear layer, ReLU, a linear layer on two inputs."""

    def __init__(self, width_a: int, width_b: int, hidden: int, out: int) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(width_a + width_b, hidden), nn.Linear(hidden, out)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        merged: Tensor = self.second(torch.relu(self.first(torch.cat([a, b], dim=-1))))
        return merged


class TemporalAttention(nn.Module):
    """One layer of TGAT: a node at t attends to its past links, then MLP2 merges the result with its own features.

    There is one query per node, so keys and values need not be computed: q · (K x) = (K^T q) · x, and the sum of the
    weighted values is V applied to the weighted sum of the inputs. With k links this saves almost a factor of k.

    Args:
        node: Width of node features, of input and output.
        link: Width of link attributes; 0 if there are none.
        time: Width of the time encoding.
    """

    def __init__(self, node: int, link: int, time: int, *, heads: int, dropout: float) -> None:
        super().__init__()
        query, key = node + time, node + link + time
        self.node, self.heads, self.dropout = node, heads, dropout
        self.width = -(-query // heads) * heads  # of all heads together
        self.q, self.k, self.v = (nn.Linear(size, self.width, bias=False) for size in (query, key, key))
        self.out, self.norm = nn.Linear(self.width, query), nn.LayerNorm(query)
        self.merge = Merge(query, node, node, node)

    def forward(
        self,
        h: Tensor | None,
        now: Tensor,
        past: Tensor | None,
        attributes: Tensor | None,
        times: Tensor,
        mask: Tensor,
    ) -> Tensor:
        """New features of nodes: [B, node].

        Args:
            h: Features of the nodes [B, node]; None if all features of nodes are 0.
            now: The time encoding of a gap of 0 [time].
            past: Features of the neighbour in each past link [B, k, node]; None if they are 0.
            attributes: Of each past link [B, k, link].
            times: The time encoding of each gap [B, k, time].
            mask: Which links exist [B, k]; without any, the attention output is 0.
        """
        B, H, d = len(mask), self.heads, self.width // self.heads
        own = now.new_zeros(1, self.node) if h is None else h  # [B or 1, node]
        query = torch.cat([own, now.expand(len(own), -1)], dim=-1)  # [B or 1, query]
        x = torch.cat([part for part in (past, attributes, times) if part is not None], dim=-1)  # [B, k, key]
        key, value = (layer.weight.view(H, d, -1)[..., -x.shape[-1] :] for layer in (self.k, self.v))  # [H, d, key]
        q = torch.einsum("bhd,hdk->bhk", self.q(query).view(-1, H, d), key) * d**-0.5  # [B or 1, H, key]
        scores = q @ x.transpose(1, 2)  # [B, H, k]
        hidden = ~mask[:, None, :]
        weights = scores.masked_fill(hidden, -1e9).softmax(dim=-1).masked_fill(hidden, 0.0)
        weights = dropout(weights, self.dropout, self.training)
        attended = torch.einsum("bhk,hdk->bhd", weights @ x, value)  # [B, H, d]
        found = self.out(attended.reshape(B, -1))  # [B, query]
        found = dropout(found, self.dropout, self.training)
        merged: Tensor = self.merge(self.norm(found + query), own.expand(B, -1))
        return merged


class MixerBlock(nn.Module):
    """A block of MLP-Mixer: an MLP across tokens, then one across channels, with residuals: [B, tokens, channels].

    Tokens outside the mask [B, tokens] do not affect other tokens.
    """

    def __init__(
        self, tokens: int, channels: int, *, token_factor: float = 0.5, channel_factor: float = 4.0, dropout: float
    ) -> None:
        super().__init__()
        self.token_norm, self.channel_norm = nn.LayerNorm(channels), nn.LayerNorm(channels)
        self.token_mlp = _mlp(tokens, max(int(token_factor * tokens), 1), dropout)
        self.channel_mlp = _mlp(channels, max(int(channel_factor * channels), 1), dropout)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        normed = self.token_norm(x)
        if mask is not None:
            normed = normed * mask[..., None]
        x = x + self.token_mlp(normed.transpose(1, 2)).transpose(1, 2)
        mixed: Tensor = x + self.channel_mlp(self.channel_norm(x))
        return mixed


def _mlp(width: int, hidden: int, rate: float) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, hidden), nn.GELU(), Dropout(rate), nn.Linear(hidden, width), Dropout(rate))
