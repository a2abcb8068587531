"""Training and scoring with a memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from cawn.data.events import Events
from cawn.rivals.memory.config import TgnSettings
from cawn.rivals.memory.memories import LatestMessages, MemoryVersions
from cawn.rivals.memory.network import MemoryNetwork
from cawn.rivals.memory.stream import MemoryBatches
from cawn.rivals.stream import BatchedSystem, State
from cawn.systems.base import Context
from cawn.systems.neural import distinct
from cawn.systems.training import LinkBatch

Array = npt.NDArray[Any]

_VERSIONS = 1 << 18  # versions of memories that are stored at once, in scoring


class MemorySystem(BatchedSystem):
    """TGN, JODIE or DyRep, depending on the settings.

    In scoring, a part of the stream is several batches: all versions of memories in one part are stored at once, so
    that pairs at all times within it are scored together.
    """

    module: MemoryNetwork

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        config: TgnSettings = context.config
        gaps = (0.0, 1.0)
        if config.embedding == "projection":
            gaps = tuple(context.fact("gaps", lambda: gap_moments(context.train.known)))
        network = MemoryNetwork(config, self.link_width, self.node_width, self.unit, gaps)
        self.module = network.to(self.device)

    def past(self, events: Events) -> MemoryBatches:
        return MemoryBatches(events, self, _VERSIONS)

    def first_state(self) -> State:
        return LatestMessages.initial(self.module, self._past_of(self.context.events))

    def add(self, past: MemoryBatches, state: State, number: int) -> None:
        LatestMessages(self.module, past, state).add(number)

    def training_logits(self, past: MemoryBatches, state: State, links: LinkBatch, complete: int) -> Tensor:
        nodes, read = torch.cat([links.src, links.dst, links.negative]), LatestMessages(self.module, past, state).read
        visible, done = past.before(links.t).repeat(3), torch.full_like(nodes, complete)
        h = self.module.embed(past, read, nodes, links.t.repeat(3), visible, done)  # [3B, dim]
        source, *destinations = h.chunk(3)  # [B, dim] each
        return self.module.score(source.repeat(2, 1), torch.cat(destinations)).squeeze(-1)  # type: ignore[no-any-return]

    def parts(self, past: MemoryBatches, visible: Array) -> npt.NDArray[np.int64]:
        return np.maximum(np.searchsorted(past.bounds, past.complete(visible)) - 1, 0)  # that ends with these batches

    def initial(self, past: MemoryBatches) -> State:
        return {"memory": torch.zeros(past.num_nodes + 1, self.config.dim, device=self.device)}

    def part(self, past: MemoryBatches, state: State, number: int) -> MemoryVersions:
        return MemoryVersions(self.module, past, state["memory"], *past.bounds[number : number + 2])

    def advance(self, part: MemoryVersions, state: State) -> None:
        state["memory"].copy_(part.after())

    def logits(self, part: MemoryVersions, src: Array, dst: Array, t: Array, visible: Array) -> Tensor:
        past, columns = part.stream, (np.append(src, dst), *np.tile([visible, part.stream.complete(visible)], 2))
        nodes, known, complete = (torch.from_numpy(column).to(self.device) for column in columns)
        now = torch.from_numpy(np.tile(t, 2)).to(self.device)
        some, place = distinct(nodes, now, known, complete)
        h = self.module.embed(past, part.read, nodes[some], now[some], known[some], complete[some])
        return self.module.score(*h[place].chunk(2)).squeeze(-1)  # type: ignore[no-any-return]


def gap_moments(train: Events) -> tuple[float, float]:
    """Mean and standard deviation of the time between a node's successive links; (0, 1) if no node has two."""
    nodes, t = np.concatenate([train.src, train.dst]), np.tile(train.t, 2)
    order = np.lexsort((t, nodes))
    gaps = np.diff(t[order])[np.diff(nodes[order]) == 0].astype(np.float64)
    return (float(gaps.mean()), float(gaps.std()) or 1.0) if len(gaps) else (0.0, 1.0)
