"""TGAT (Xu et al., ICLR 2020): each node of a pair attends to its past links, whose neighbours attend to theirs.

See docs/systems/tgat.md for the equations and for how this differs from the published code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from cawn.index.neighbours import PastLinks
from cawn.kernels.rng import seed_for
from cawn.systems.base import Context
from cawn.systems.layers import Merge, TemporalAttention, TimeEncoding
from cawn.systems.neural import NodeEmbeddingSystem, PastTensors, distinct
from cawn.systems.settings import PublishedSettings, setting


@dataclass(frozen=True)
class TgatSettings(PublishedSettings):
    """Settings of TGAT; the defaults are those published with DyGLib for most networks."""

    sampling: Literal["recent", "uniform"] = setting("recent", "uniform: with replacement")
    neighbours: int = setting(20, "links that a node attends to", 1, 4096)
    layers: int = setting(2, "levels of the tree", 1, 4)
    heads: int = setting(2, "attention heads", 1, 64)
    dim: int = setting(172, "width of embeddings; the width of node attributes if that is larger", 1, 4096)
    time_dim: int = setting(100, "width of the time encoding", 1, 4096)
    dropout: float = setting(0.1, "dropout", 0, 0.99)

    MEMORY: ClassVar[tuple[str, ...]] = ("batch_size", "neighbours", "layers", "dim")
    SEARCHED: ClassVar[dict[str, Any]] = PublishedSettings.SEARCHED | {
        "dim": [64, 100, 172],
        "neighbours": [10, 20, 40],
        "layers": [1, 2],
        "dropout": {"low": 0.0, "high": 0.5, "step": 0.1},
    }


class Tgat(nn.Module):
    """The network: a time encoding, a layer of attention for each level of the tree, and a classifier.

    Args:
        link: Width of link attributes; 0 if there are none.
        node: Width of node attributes; 0 if there are none.
    """

    def __init__(self, config: TgatSettings, link: int, node: int) -> None:
        super().__init__()
        self.dim = max(config.dim, node)
        self.time = TimeEncoding(config.time_dim)
        self.layers = nn.ModuleList(
            TemporalAttention(self.dim, link, config.time_dim, heads=config.heads, dropout=config.dropout)
            for _ in range(config.layers)
        )
        self.classifier = Merge(self.dim, self.dim, self.dim, 1)


class TgatSystem(NodeEmbeddingSystem):
    """TGAT on a causal tree: the neighbour in a link at t_i is embedded at t_i, from links strictly before t_i."""

    module: Tgat
    pairs_per_pass = 1 << 9

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.module = Tgat(context.config, self.link_width, self.node_width).to(self.device)
        self._seed = seed_for(context.seed, "neighbours")

    def embed(self, past: PastTensors, nodes: Tensor, t: Tensor, visible: Tensor) -> Tensor:
        embedding = self._embed(past, nodes, t, visible, self.config.layers)
        assert embedding is not None
        return embedding

    def score(self, source: Tensor, destination: Tensor) -> Tensor:
        logits: Tensor = self.module.classifier(source, destination).squeeze(-1)
        return logits

    @property
    def _fixed_shapes(self) -> bool:
        """Whether the number of rows must not depend on the links: in training steps on a GPU."""
        return self.device.type != "cpu" and self.module.training

    def _embed(self, past: PastTensors, nodes: Tensor, t: Tensor, visible: Tensor, level: int) -> Tensor | None:
        """h of one level, of nodes at t [N]: [N, dim]; for level 0, None if nodes have no attributes."""
        if level == 0:
            x = past.features(nodes)  # [N, node]
            return None if x is None else nn.functional.pad(x, (0, self.module.dim - self.node_width))
        N, k = len(nodes), self.config.neighbours
        links = self._sample(past, nodes, t, visible)  # [N, k]
        below, place = self._below(past, links, nodes, t, visible, level)
        h, others = (None, None) if below is None else (below[:N], below.index_select(0, place).view(N, k, -1))
        gaps = self.gaps(t, links)  # [N, k]
        now, times = self.module.time(gaps.new_zeros(())), self.module.time(gaps)  # [time], [N, k, time]
        found: Tensor = self.module.layers[level - 1](h, now, others, past.attributes(links.events), times, links.mask)
        return found

    def _below(
        self, past: PastTensors, links: PastLinks, nodes: Tensor, t: Tensor, visible: Tensor, level: int
    ) -> tuple[Tensor | None, Tensor]:
        """h of the level below, of nodes at t and then of their neighbours; and the rows of the neighbours [N k].

        The same link occurs in many trees of a batch; unless shapes are fixed, its neighbour is embedded only once.
        """
        ends, times, key = (column.flatten() for column in (links.nodes, links.t, 2 * links.events + links.is_source))
        place = torch.arange(len(ends), device=ends.device)
        if level > 1 and not self._fixed_shapes:
            some, place = distinct(key)
            ends, times = ends[some], times[some]
        rows = torch.cat([nodes, ends]), torch.cat([t, times]), torch.cat([visible, past.before(times)])
        return self._embed(past, *rows, level - 1), len(nodes) + place

    def _sample(self, past: PastTensors, nodes: Tensor, t: Tensor, visible: Tensor) -> PastLinks:
        """The past links that nodes attend to: [N, k]."""
        if self.config.sampling == "recent":
            return past.recent(nodes, visible, self.config.neighbours)
        seed: int | Tensor = self._seed
        if self.module.training:  # from the generator that dropout uses, which is seeded for each step
            seed = torch.randint(1 << 62, (), device=self.device)
        return past.uniform(nodes, visible, t, self.config.neighbours, seed)
