"""GraphMixer (Cong et al., ICLR 2023): an MLP-Mixer on the most recent links of each node, then an MLP on the pair.

See docs/systems/graphmixer.md for the equations and for how this differs from the published code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from cawn.systems.base import Context
from cawn.systems.layers import Merge, MixerBlock, TimeEncoding
from cawn.systems.neural import NodeEmbeddingSystem, PastTensors
from cawn.systems.settings import PublishedSettings, setting


@dataclass(frozen=True)
class GraphMixerSettings(PublishedSettings):
    """Settings of GraphMixer; the defaults are those published with DyGLib for most networks."""

    neighbours: int = setting(20, "most recent links of a node, the tokens of the mixer", 1, 4096)
    time_gap: int = setting(2000, "most recent links over whose neighbours the node encoder averages", 1, 1 << 30)
    layers: int = setting(2, "mixer blocks", 1, 16)
    dim: int = setting(172, "width of tokens and embeddings", 1, 4096)
    time_dim: int = setting(100, "width of the time encoding", 1, 4096)
    dropout: float = setting(0.4, "dropout", 0, 0.99)

    MEMORY: ClassVar[tuple[str, ...]] = ("batch_size", "neighbours", "dim")
    SEARCHED: ClassVar[dict[str, Any]] = PublishedSettings.SEARCHED | {
        "dim": [64, 100, 172],
        "neighbours": [10, 20, 40],
        "layers": [1, 2, 3],
        "dropout": {"low": 0.0, "high": 0.5, "step": 0.1},
    }


class GraphMixer(nn.Module):
    """The network: link encoder, node encoder and link classifier.

    Args:
        link: Width of link attributes; 0 if there are none.
        node: Width of node attributes; 0 if there are none.
    """

    def __init__(self, config: GraphMixerSettings, link: int, node: int) -> None:
        super().__init__()
        k, d = config.neighbours, config.dim
        self.time = TimeEncoding(config.time_dim, learned=False)
        self.token = nn.Linear(link + config.time_dim, d)
        self.mixers = nn.ModuleList(MixerBlock(k, d, dropout=config.dropout) for _ in range(config.layers))
        self.out = nn.Linear(d + node, d)
        self.classifier = Merge(d, d, d, 1)

    def embed(self, gaps: Tensor, attributes: Tensor | None, mask: Tensor, nodes: Tensor | None) -> Tensor:
        """Embeddings of nodes: [B, d].

        Args:
            gaps: Time since each recent link, newest first [B, k].
            attributes: Of these links [B, k, link].
            mask: Which of them exist [B, k].
            nodes: The output of the node encoder [B, node].
        """
        code = self.time(gaps)  # [B, k, time]
        x = self.token(code if attributes is None else torch.cat([attributes, code], dim=-1))  # [B, k, d]
        real = mask.to(x.dtype)
        for mixer in self.mixers:
            x = mixer(x, real)
        mean = (x * real[..., None]).sum(dim=1) / real.sum(dim=1, keepdim=True).clamp(min=1)  # [B, d]
        embedding: Tensor = self.out(mean if nodes is None else torch.cat([mean, nodes], dim=-1))
        return embedding


class GraphMixerSystem(NodeEmbeddingSystem):
    """GraphMixer on the links strictly before each query."""

    module: GraphMixer

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.module = GraphMixer(context.config, self.link_width, self.node_width).to(self.device)

    def embed(self, past: PastTensors, nodes: Tensor, t: Tensor, visible: Tensor) -> Tensor:
        links = past.recent(nodes, visible, self.config.neighbours)  # [N, k]
        attributes, encoded = past.attributes(links.events), self._node_encoder(past, nodes, visible)
        return self.module.embed(self.gaps(t, links), attributes, links.mask, encoded)

    def _node_encoder(self, past: PastTensors, nodes: Tensor, visible: Tensor) -> Tensor | None:
        """The attributes of each node, plus their mean over the neighbours in its recent links: [N, node]."""
        own, mean = past.features(nodes), past.mean_features(nodes, visible, self.config.time_gap)
        return None if own is None or mean is None else own + mean

    def score(self, source: Tensor, destination: Tensor) -> Tensor:
        logits: Tensor = self.module.classifier(source, destination).squeeze(-1)
        return logits
