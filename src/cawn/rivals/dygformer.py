"""DyGFormer (Yu et al., NeurIPS 2023): a transformer over the recent links of both nodes, with co-occurrence counts.

See docs/systems/dygformer.md for the equations and for how this differs from the published code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn

from cawn.errors import QueryError
from cawn.systems.base import Context
from cawn.systems.layers import Dropout, Merge, TimeEncoding, dropout
from cawn.systems.neural import NeighbourSystem, PastTensors
from cawn.systems.settings import PublishedSettings, setting

_ENTRIES = 1 << 15  # entries of the sequences of sources per forward pass, in scoring


@dataclass(frozen=True)
class DygformerSettings(PublishedSettings):
    """Settings of DyGFormer; the defaults are those published for most networks."""

    length: int = setting(32, "length of a node's sequence: itself and its most recent links", 2, 1 << 14)
    patch: int = setting(1, "entries per token; must divide the length", 1, 1 << 12)
    layers: int = setting(2, "transformer layers", 1, 16)
    heads: int = setting(2, "attention heads", 1, 64)
    channel_dim: int = setting(50, "width of each channel of a token", 1, 4096)
    time_dim: int = setting(100, "width of the time encoding", 1, 4096)
    dim: int = setting(172, "width of embeddings", 1, 4096)
    dropout: float = setting(0.1, "dropout", 0, 0.99)

    MEMORY: ClassVar[tuple[str, ...]] = ("batch_size", "length", "dim")
    SEARCHED: ClassVar[dict[str, Any]] = PublishedSettings.SEARCHED | {
        "dim": [64, 100, 172],
        "sequence": [{"length": 32, "patch": 1}, {"length": 64, "patch": 2}, {"length": 128, "patch": 4}],
        "layers": [1, 2, 3],
        "dropout": {"low": 0.0, "high": 0.5, "step": 0.1},
    }
    PRESETS: ClassVar[dict[str, dict[str, Any]]] = PublishedSettings.PRESETS | {"long": {"length": 256, "patch": 8}}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.length % self.patch:
            raise QueryError(f"length is {self.length} and patch {self.patch}: give a length that patch divides")
        if self.channel_dim % self.heads:
            raise QueryError(f"channel_dim is {self.channel_dim}: give a multiple of heads, {self.heads}")


class Sequences(NamedTuple):
    """The sequences of the sources or destinations of B pairs: the node itself, then its links, newest first."""

    ids: Tensor  # [B, L] the nodes; -1 where there is none
    gaps: Tensor  # [B, L] time since each link; 0 for the node itself
    attributes: Tensor | None  # [B, L, link] of the links; 0 for the node itself
    features: Tensor | None  # [B, L, node] of the nodes

    @property
    def mask(self) -> Tensor:
        """True where there is an entry: [B, L]."""
        return self.ids >= 0


class TransformerLayer(nn.Module):
    """Attention and an MLP, each after a layer norm and with a residual: [B, S, d] -> [B, S, d]."""

    def __init__(self, d: int, heads: int, rate: float) -> None:
        super().__init__()
        self.heads, self.rate = heads, rate
        self.attention_norm, self.mlp_norm = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), Dropout(rate), nn.Linear(4 * d, d))

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """No token attends to those outside the mask [B, S]."""
        x = x + dropout(self._attend(self.attention_norm(x), mask), self.rate, self.training)
        return x + dropout(self.mlp(self.mlp_norm(x)), self.rate, self.training)

    def _attend(self, x: Tensor, mask: Tensor) -> Tensor:
        B, S, d = x.shape
        q, k, v = self.qkv(x).view(B, S, 3, self.heads, -1).permute(2, 0, 3, 1, 4)  # [B, H, S, d / H] each
        scores = (q @ k.transpose(-1, -2)) * q.shape[-1] ** -0.5  # [B, H, S, S]
        weights = scores.masked_fill(~mask[:, None, None, :], -torch.inf).softmax(dim=-1)
        attended = dropout(weights, self.rate, self.training) @ v  # [B, H, S, d / H]
        found: Tensor = self.out(attended.transpose(1, 2).reshape(B, S, d))
        return found


class Dygformer(nn.Module):
    """The network: channels of each entry, patches, transformer, mean of each sequence, classifier.

    Args:
        link: Width of link attributes; 0 if there are none, and then there is no such channel.
        node: Width of node attributes; likewise.
    """

    def __init__(self, config: DygformerSettings, link: int, node: int) -> None:
        super().__init__()
        self.patch, c = config.patch, config.channel_dim
        self.time = TimeEncoding(config.time_dim)
        self.count = nn.Sequential(nn.Linear(1, c), nn.ReLU(), nn.Linear(c, c))
        widths = [width for width in (node, link, config.time_dim, c) if width > 0]
        self.channels = nn.ModuleList(nn.Linear(config.patch * width, c) for width in widths)
        d = c * len(widths)
        self.layers = nn.ModuleList(TransformerLayer(d, config.heads, config.dropout) for _ in range(config.layers))
        self.out = nn.Linear(d, config.dim)
        self.classifier = Merge(config.dim, config.dim, config.dim, 1)

    def forward(self, u: Sequences, v: Sequences) -> Tensor:
        """Logits of pairs: [B]."""
        x = torch.cat([self._tokens(u, common_counts(u, v)), self._tokens(v, common_counts(v, u))], dim=1)  # [B, S, d]
        masks = [sequences.mask[:, :: self.patch] for sequences in (u, v)]  # [B, S / 2]; entries fill patches in order
        mask = torch.cat(masks, dim=1)
        for layer in self.layers:
            x = layer(x, mask)
        ends = (self.out(masked_mean(part, real)) for part, real in zip(x.chunk(2, dim=1), masks, strict=True))
        logits: Tensor = self.classifier(*ends).squeeze(-1)
        return logits

    def _tokens(self, sequences: Sequences, counts: Tensor) -> Tensor:
        """The channels of each patch of a sequence: [B, L / patch, d]."""
        counted = self.count(counts[..., None]).sum(dim=2)  # [B, L, c]
        entries = [sequences.features, sequences.attributes, self.time(sequences.gaps), counted]
        real = sequences.mask[..., None]  # [B, L, 1]
        patches = [self._patches(entry * real) for entry in entries if entry is not None]
        return torch.cat([layer(patch) for layer, patch in zip(self.channels, patches, strict=True)], dim=-1)

    def _patches(self, x: Tensor) -> Tensor:
        """[B, L, width] -> [B, L / patch, patch width]"""
        return x.reshape(len(x), x.shape[1] // self.patch, -1)


def common_counts(u: Sequences, v: Sequences) -> Tensor:
    """How often each node of u's sequence occurs in u's and in v's: [B, L, 2]; arbitrary at padded positions."""
    counts = [((u.ids[:, :, None] == other.ids[:, None, :]) & other.mask[:, None, :]).sum(dim=2) for other in (u, v)]
    return torch.stack(counts, dim=2).float()


def masked_mean(x: Tensor, mask: Tensor) -> Tensor:
    """The mean over the tokens in the mask, of which there is at least one: [B, S, d], [B, S] -> [B, d]."""
    real = mask[..., None].to(x.dtype)
    return (x * real).sum(dim=1) / real.sum(dim=1)


class DygformerSystem(NeighbourSystem):
    """DyGFormer on the links strictly before each query, padded to a fixed length and masked."""

    module: Dygformer

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.pairs_per_pass = max(_ENTRIES // self.config.length, 1)
        self.module = Dygformer(context.config, self.link_width, self.node_width).to(self.device)

    def logits(self, past: PastTensors, src: Tensor, dst: Tensor, t: Tensor, visible: Tensor) -> Tensor:
        u, v = (self._sequences(past, nodes, t, visible) for nodes in (src, dst))
        logits: Tensor = self.module(u, v)
        return logits

    def _sequences(self, past: PastTensors, nodes: Tensor, t: Tensor, visible: Tensor) -> Sequences:
        links = past.recent(nodes, visible, self.config.length - 1)  # [B, L - 1]
        ids = torch.cat([nodes[:, None], links.nodes], dim=1)
        gaps = nn.functional.pad(self.gaps(t, links), (1, 0))
        events = nn.functional.pad(links.events, (1, 0), value=-1)
        return Sequences(ids, gaps, past.attributes(events), past.features(ids))
