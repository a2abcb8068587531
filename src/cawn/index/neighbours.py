"""The past links of nodes: the k most recent or k random ones, strictly before any time, on any device."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from cawn.data.events import Events
from cawn.data.ties import in_canonical_order
from cawn.index.index import Index
from cawn.index.kernels.building import LINK, NODE
from cawn.index.kernels.lists import LENGTH
from cawn.kernels import rng

NO_LINK = -1


class PastLinks(NamedTuple):
    """Links of B nodes before a time, newest first, [B, k] each; nodes and events are -1 where there is none."""

    nodes: Tensor  # int64, the neighbour
    t: Tensor  # int64 or float64 like the events; 0 where there is none
    events: Tensor  # int64, the position of the link in `Neighbours.events`
    is_source: Tensor  # bool, whether the queried node is the source of the link

    @property
    def mask(self) -> Tensor:
        """True where there is a link."""
        return self.events >= 0


class Neighbours:
    """Every node's links in the order of time, as tensors on one device.

    A query states how many of the first links are visible to it: `before(t)` for all links strictly before t.
    Simultaneous links are in canonical order, so the order of rows does not matter. Unknown node ids have no links.
    """

    events: Events  # in canonical order

    def __init__(self, events: Events | Index, device: torch.device | str = "cpu") -> None:
        """Of events, or of the index that walks are sampled from, whose order links then have, without `events`."""
        if isinstance(events, Events):
            self.events = in_canonical_order(events)
        index = events.flat() if isinstance(events, Index) else Index.of(self.events, np.empty(0))
        nodes, t = index.kinds["nodes"], index.t
        hop, lengths = nodes["hop"], nodes["span"] & LENGTH
        starts = np.append(0, np.cumsum(lengths))
        owner = np.repeat(np.arange(len(lengths)), lengths)
        link = hop[:, LINK].astype(np.int64)  # 2 * event + side
        self._stride = 2 * len(t) + 2
        self._nodes = torch.from_numpy(hop[:, NODE].astype(np.int64)).to(device)
        self._links = torch.from_numpy(link).to(device)
        self._codes = torch.from_numpy(owner * self._stride + link).to(device)  # ascending
        self._starts = torch.from_numpy(starts).to(device)
        self.t = torch.from_numpy(np.array(t)).to(device)  # [E]
        self.device, self.num_nodes = torch.device(device), len(starts) - 1

    def before(self, t: Tensor) -> Tensor:
        """The number of links strictly before each time: [B]."""
        return torch.searchsorted(self.t, t)

    def recent(self, nodes: Tensor, visible: Tensor, k: int) -> PastLinks:
        """The last k links of each node [B] among the first `visible` [B] links."""
        first, end = self._range(nodes, visible)
        at = end[:, None] - torch.arange(1, k + 1, device=self.device)  # [B, k]
        return self._links_at(at, at >= first[:, None])

    def uniform(self, nodes: Tensor, visible: Tensor, t: Tensor, k: int, seed: int | Tensor) -> PastLinks:
        """k links drawn uniformly, with replacement, from those of each node, sorted by time.

        A draw depends only on the seed, on t and on the node's newest visible link, so not on ids. A seed that is drawn
        on the device is an int64 tensor [].
        """
        first, end = self._range(nodes, visible)
        some = end > first
        newest = self._links[torch.where(some, end - 1, 0)] if len(self._links) else torch.zeros_like(end)
        bits = t.view(torch.int64) if t.is_floating_point() else t
        mixed = rng.mix64_tensor(seed) if isinstance(seed, Tensor) else rng.signed(rng.mix64_int(seed))
        key = rng.mix64_tensor(rng.mix64_tensor(bits ^ mixed) ^ newest)  # [B]
        counter = torch.arange(1, k + 1, device=self.device) * rng.signed(rng.GOLDEN)
        drawn = rng.shift_right(rng.mix64_tensor(key[:, None] + counter), 12).double() * 2.0**-52  # [B, k]
        at = first[:, None] + (drawn * (end - first)[:, None]).long()
        return self._links_at(at.sort(dim=1, descending=True).values, some[:, None].expand(-1, k))

    def _range(self, nodes: Tensor, visible: Tensor) -> tuple[Tensor, Tensor]:
        """Where the visible links of each node begin and end in the lists: [B] each."""
        known = torch.where((nodes >= 0) & (nodes < self.num_nodes), nodes, self.num_nodes)
        first = self._starts[known]
        end = torch.searchsorted(self._codes, known * self._stride + 2 * visible)
        return first, torch.maximum(first, end)

    def _links_at(self, at: Tensor, exists: Tensor) -> PastLinks:
        if len(self._links) == 0:
            none = torch.full_like(at, NO_LINK)
            return PastLinks(none, torch.zeros_like(at).to(self.t.dtype), none, torch.zeros_like(exists))
        at = torch.where(exists, at, 0)
        link = self._links[at]
        events = link >> 1
        return PastLinks(
            torch.where(exists, self._nodes[at], NO_LINK),
            torch.where(exists, self.t[events], 0),
            torch.where(exists, events, NO_LINK),
            exists & ((link & 1) == 0),
        )
