"""TPNet (Lu et al., NeurIPS 2024): random projections of time-decayed walk matrices, and an MLP-Mixer.

Every node has k + 1 vectors. H^0 is random; a link (u, v) adds H^(l-1) of each node to H^l of the other, and H^l
decays by exp(-lambda l gap). The inner product of H^a of one node and H^b of another then estimates the decayed number
of walks of a + b links between them. These estimates, for the pair and for the recent neighbours of both of its nodes,
are the features of the network.

The projections do not depend on the weights. They are computed once, as of after every link, so that a score uses all
links strictly before its time, and training links can be shuffled.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from cawn.data.events import Events, by_first_appearance
from cawn.errors import QueryError, brief, enough_memory
from cawn.kernels import rng
from cawn.kernels.cuda.launch import memory_for
from cawn.kernels.jit import inline, njit
from cawn.systems.base import Context
from cawn.systems.layers import Merge, MixerBlock, TimeEncoding
from cawn.systems.neural import NeighbourSystem, PastTensors
from cawn.systems.settings import Alternatives, PublishedSettings, is_number, setting

Array = npt.NDArray[Any]

DECAYS = (0.05, 0.01, 0.25)  # lambda / tau that decay="auto" compares; the published choices lie between 0.01 and 0.25
LARGEST_DECAY = 1e6
LARGEST_PROJECTION = np.float32(1e15)  # inner products are finite in float32 however many walks there are
LOG_PERIOD = 14.0  # log(1 + gap) of a gap as long as the training period
SMALLER = "lower width_factor or levels"
TRIAL_DIM, TRIAL_LR = 32, 1e-3  # of the short training runs


@dataclass(frozen=True)
class TPNetSettings(PublishedSettings):
    """Settings of TPNet; the defaults are the published ones."""

    levels: int = setting(3, "k, the length of the longest walks", 1, 8)
    width_factor: float = setting(10.0, "the width of a projection is this times log(2 E)", 0.01, 1000)
    decay: Literal["auto"] | float = setting(
        "auto", "lambda / tau, tau being the links of an average node per unit of time"
    )
    neighbours: int = setting(20, "most recent links of each node", 1, 4096)
    time_dim: int = setting(100, "width of the time encoding", 1, 4096)
    dim: int = setting(172, "width of tokens", 1, 4096)
    layers: int = setting(2, "mixer blocks", 1, 64)
    dropout: float = setting(0.1, "dropout", 0, 0.95)

    MEMORY: ClassVar[tuple[str, ...]] = ("batch_size", "neighbours", "levels", "width_factor")
    SEARCHED: ClassVar[dict[str, Any]] = PublishedSettings.SEARCHED | {
        "dim": [64, 100, 172],
        "levels": [2, 3],
        "width_factor": [5.0, 10.0, 20.0],
        "neighbours": [10, 20, 40],
        "dropout": {"low": 0.0, "high": 0.5, "step": 0.1},
    }

    def alternatives(self, train: Events) -> Alternatives | None:
        """The decays that decay="auto" compares."""
        if self.decay != "auto":
            return None
        small = self.with_(dim=min(self.dim, TRIAL_DIM), lr=max(self.lr, TRIAL_LR), epochs=1, decay=DECAYS[0])
        facts = {f"{decay:g}": {"decay": decay_rate(self.with_(decay=decay), train)} for decay in DECAYS}
        return Alternatives("decays", small, facts)

    def _check(self, name: str, value: Any, hint: Any) -> None:
        if name != "decay":
            return super()._check(name, value, hint)
        if value != "auto" and not (is_number(value) and 0 <= value <= LARGEST_DECAY):
            raise QueryError(f"decay is {brief(value)}: give 'auto' or a number from 0 to {LARGEST_DECAY:g}")
        return None


class TPNet(nn.Module):
    """Computes logits from the projections of a pair and of its recent neighbours."""

    def __init__(self, config: TPNetSettings, link: int, node: int) -> None:
        super().__init__()
        pair, dim = (2 * config.levels + 2) ** 2, config.dim
        self.pair_mlp = nn.Sequential(nn.Linear(pair, 4 * pair), nn.ReLU(), nn.Linear(4 * pair, pair))
        self.time = TimeEncoding(config.time_dim, period=LOG_PERIOD)
        width = node + link + config.time_dim + 2 * pair
        self.token_mlp = nn.Sequential(nn.Linear(width, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))
        blocks = [MixerBlock(config.neighbours, dim, dropout=config.dropout) for _ in range(config.layers)]
        self.mixer = nn.ModuleList(blocks)
        self.out = Merge(2 * (dim + node), pair, dim, 1)

    def forward(
        self, ends: Tensor, past: Tensor, gap: Tensor, attributes: list[Tensor], own: list[Tensor], mask: Tensor
    ) -> Tensor:
        """Logits [B] of pairs.

        Args:
            ends: Projections of u and v [B, 2, K, d], K = k + 1.
            past: Projections of their neighbours [B, 2, n, K, d].
            gap: Time since each neighbour's link [B, 2, n].
            attributes: Those of each neighbour's link and of the neighbour itself, if any [B, 2, n, width] each.
            own: Node attributes of u and v, if there are any [B, 2, node].
            mask: Which neighbours exist [B, 2, n].
        """
        B, _, n = mask.shape
        between, with_neighbours = inner_products(ends, past)  # [B, P], [B, 2n, 2, P]
        pair = self.pair_mlp(between)  # f_uv [B, P]
        relative = self.pair_mlp(with_neighbours).view(B * 2, n, -1)  # [f_wu | f_wv] [2B, n, 2P]
        code = self.time(torch.log1p(gap)).view(B * 2, n, -1)  # [2B, n, time]
        x = self.token_mlp(torch.cat([*(a.flatten(0, 1) for a in attributes), code, relative], dim=-1))  # [2B, n, dim]
        exists = mask.view(B * 2, n)
        for block in self.mixer:
            x = block(x, exists)
        x = (x * exists[..., None]).sum(dim=1) / exists.sum(dim=1, keepdim=True).clamp(min=1)  # h_u, h_v [2B, dim]
        h = torch.cat([x.view(B, 2, -1), *own], dim=-1).view(B, -1)  # [B, 2 (dim + node)]
        logits: Tensor = self.out(h, pair).squeeze(-1)
        return logits


def inner_products(ends: Tensor, past: Tensor) -> tuple[Tensor, Tensor]:
    """log(1 + ReLU(.)) of all inner products among the 2K vectors of two nodes, P = (2K)^2 each.

    Returns those of (u, v) [B, P], and those of (w, u) and (w, v) for every neighbour w [B, 2n, 2, P].
    """
    B, _, n, K, _ = past.shape
    both, others = ends.flatten(1, 2), past.flatten(1, 2)  # [B, 2K, d], [B, 2n, K, d]
    between = both @ both.transpose(1, 2)  # [B, 2K, 2K]
    own = torch.stack([between[:, :K, :K], between[:, K:, K:]], dim=1)  # uu, vv [B, 2, K, K]
    within = others @ others.transpose(2, 3)  # ww [B, 2n, K, K]
    cross = (others.flatten(1, 2) @ both.transpose(1, 2)).view(B, 2 * n, K, 2, K).transpose(2, 3)  # [B, 2n, 2, K, K]
    shape = cross.shape
    top = torch.cat([within[:, :, None].expand(shape), cross], dim=-1)  # [ww | we] [B, 2n, 2, K, 2K]
    bottom = torch.cat([cross.transpose(3, 4), own[:, None].expand(shape)], dim=-1)  # [ew | ee]
    with_neighbours = torch.cat([top, bottom], dim=3)  # [B, 2n, 2, 2K, 2K]
    return torch.log1p(between.relu()).flatten(1), torch.log1p(with_neighbours.relu()).flatten(3)


class Projections(PastTensors):
    """The projections of nodes after each of their links.

    Random vectors H^0 are assigned to nodes in the order in which they first appear, so renaming nodes changes nothing.
    Before its first link, all projections of a node are 0.
    """

    def __init__(self, events: Events, system: TPNetSystem) -> None:
        super().__init__(events, system)
        self.decay, self.levels = system.decay, torch.arange(system.config.levels + 1, device=system.device)
        with enough_memory("computing the projections", SMALLER), memory_for("the projections", SMALLER):
            self.after_links = torch.from_numpy(self._after_links(system)).to(system.device).flatten(0, 1)

    def _after_links(self, system: TPNetSystem) -> npt.NDArray[np.float32]:
        """The projections of both nodes after each link, then zeros for nodes without links: [E + 1, 2, K, d]."""
        ordered, shape = self.events, (system.config.levels + 1, system.width)
        nodes = by_first_appearance(np.stack([ordered.src, ordered.dst], axis=1).ravel()).reshape(-1, 2)
        now = np.zeros((int(nodes.max()) + 1 if len(nodes) else 0, *shape), np.float32)
        now[:, 0] = rng.normal(system.seed, len(now) * system.width).reshape(-1, system.width) / math.sqrt(system.width)
        found = np.zeros((len(ordered) + 1, 2, *shape), np.float32)
        updated = np.repeat(ordered.t[:1], len(now))
        project(nodes[:, 0], nodes[:, 1], ordered.t, system.decay, now, now.copy(), updated, found)
        return found

    def at(self, nodes: Tensor, t: Tensor, visible: Tensor) -> Tensor:
        """H^0..H^k of nodes at times t [B], after the first `visible` [B] links: [B, K, d]."""
        newest = self.recent(nodes, visible, 1)
        row = torch.where(newest.mask, 2 * newest.events + (~newest.is_source).long(), -1).squeeze(1)  # [B]
        gap = torch.where(newest.mask, t[:, None] - newest.t, 0).clamp(min=0)  # [B, 1]
        factor = torch.exp(-self.decay * gap.double() * self.levels).float()  # [B, K]
        return self.after_links[row] * factor[..., None]


class TPNetSystem(NeighbourSystem):
    """TPNet, with projections of all links strictly before a query."""

    pairs_per_pass = 1 << 10

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        config: TPNetSettings = context.config
        self.decay = float(context.fact("decay", lambda: decay_rate(config, context.train.known)))
        self.width = int(context.fact("width", lambda: projection_width(config, context.train.known)))
        self.seed = rng.seed_for(context.seed, "projections")
        self.module = TPNet(config, self.link_width, self.node_width).to(context.device)

    def past(self, events: Events) -> Projections:
        return Projections(events, self)

    def logits(self, past: Projections, src: Tensor, dst: Tensor, t: Tensor, visible: Tensor) -> Tensor:
        n = self.config.neighbours
        with torch.no_grad():
            ends = torch.stack([src, dst], dim=1).view(-1)  # [2B] u, v, u, v, ...
            now, known = t.repeat_interleave(2), visible.repeat_interleave(2)  # [2B]
            recent = past.recent(ends, known, n)  # [2B, n]
            asked = torch.cat([ends[:, None], recent.nodes], dim=1)  # [2B, 1 + n]
            times, counts = (column[:, None].expand(-1, 1 + n).reshape(-1) for column in (now, known))
            h = past.at(asked.view(-1), times, counts).view(len(src), 2, 1 + n, past.levels.numel(), -1)
            gap = torch.where(recent.mask, now[:, None] - recent.t, 0).double() / self.unit  # [2B, n]
            links = [past.attributes(recent.events), past.features(recent.nodes)]
            attributes = [table.view(len(src), 2, n, -1) for table in links if table is not None]
            features = past.features(ends)
            own = [] if features is None else [features.view(len(src), 2, -1)]
        shape = len(src), 2, n
        gap, mask = gap.float().view(shape), recent.mask.view(shape)
        logits: Tensor = self.module(h[:, :, 0], h[:, :, 1:], gap, attributes, own, mask)
        return logits


def decay_rate(config: TPNetSettings, train: Events) -> float:
    """Lambda per unit of time, for the intensity of the training links."""
    ratio = DECAYS[0] if isinstance(config.decay, str) else config.decay
    return ratio * train.intensity


def projection_width(config: TPNetSettings, train: Events) -> int:
    """d by the published rule, and at least 1."""
    return max(round(config.width_factor * math.log(2 * max(len(train), 1))), 1)


@inline
def _limited(x: np.float32) -> np.float32:
    return min(max(x, -LARGEST_PROJECTION), LARGEST_PROJECTION)


@njit
def project(
    u: Array, v: Array, t: Array, decay: float, now: Array, before: Array, updated: Array, after_links: Array
) -> None:
    """Advance the projections H^0..H^k of all nodes by some links, and write those of both ends after each link.

    A link adds H^(l-1) of either end to H^l of the other, both as they were before its time, so simultaneous links do
    not see each other. Vectors are stored relative to the time of their last update: level l decays by
    exp(-decay * l * gap), which is safe for any unit of time.

    Args:
        u, v: Ends of the links [E], in the order of time.
        t: Their times [E].
        decay: Lambda, per unit of time.
        now: Projections [N, k+1, d] at `updated`; changed in place.
        before: Projections [N, k+1, d] before the links at `updated`; changed in place.
        updated: The time of each node's last update [N]; changed in place.
        after_links: Output [E, 2, k+1, d], the projections of u and of v after each link.
    """
    levels, width = now.shape[1], now.shape[2]
    first = 0
    while first < u.size:
        last = first
        while last < u.size and t[last] == t[first]:
            for node in (u[last], v[last]):
                if updated[node] != t[last]:
                    factor, power = np.exp(-decay * float(t[last] - updated[node])), 1.0
                    for level in range(1, levels):
                        power *= factor
                        for i in range(width):
                            now[node, level, i] *= power
                            before[node, level, i] = now[node, level, i]
                    updated[node] = t[last]
            last += 1
        for e in range(first, last):
            a, b = u[e], v[e]
            for level in range(1, levels):
                for i in range(width):
                    now[a, level, i] = _limited(now[a, level, i] + before[b, level - 1, i])
                for i in range(width):
                    now[b, level, i] = _limited(now[b, level, i] + before[a, level - 1, i])
            after_links[e, 0] = now[a]
            after_links[e, 1] = now[b]
        first = last
