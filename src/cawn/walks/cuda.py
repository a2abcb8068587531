"""`History` and `anonymize` on a GPU: the same walks and counts as on the CPU. Imports Triton."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from cawn.checks import check_integer, check_seed
from cawn.errors import QueryError
from cawn.index.cuda import place_index
from cawn.index.neighbours import Neighbours
from cawn.kernels.cuda.launch import memory_for
from cawn.walks.kernels.cuda import count_positions, sample_walks
from cawn.walks.sampling import RecentLinks, Walks, query_arrays, step_widths


class DeviceHistory:
    """A `History` with its index on a device; made by `History.to`."""

    def __init__(self, history: Any, device: torch.device) -> None:
        self.device, self._host = device, history
        self.alpha: tuple[float, ...] = history.alpha  # the decays, one or several
        self.num_nodes: int = history.num_nodes
        self._place = torch.empty(0, device=device).device  # with an index
        self.index = place_index(history.index, device)

    def to(self, device: torch.device | str) -> Any:
        """The same history on another device; on "cpu" the one it was copied from."""
        return self._host.to(device)

    @property
    def nbytes(self) -> int:
        """Device memory of what walks are sampled from."""
        return sum(tensor.nbytes for tensor in self.index.walks if tensor.device.type == self.device.type)

    def __repr__(self) -> str:
        return f"{self._host!r} on {self.device}"

    def sample(
        self,
        nodes: Any,
        t: Any,
        *,
        seed: int,
        num_walks: int | None = None,
        length: int | None = None,
        fanouts: Sequence[int] | None = None,
    ) -> Walks:
        """As `History.sample`; the walks are tensors on the device.

        Queries may be tensors on the device: int64 node ids, where an id below 0 has no history, and times in the
        dtype of the events' times.
        """
        widths = step_widths(num_walks, length, fanouts, len(self.alpha))
        check_seed(seed)
        queries = self._queries(nodes, t)
        with memory_for(f"{len(queries[0]):,} queries x {widths[-1]:,} walks", "ask for fewer at once"):
            steps = torch.tensor(widths, device=self.device)
            found, times, links, _ = sample_walks(self.index.walks, *queries, steps, self.seed(seed), widths[-1])
        return Walks(found, times, links.long() >> 1)

    def recent(self, nodes: Any, t: Any, k: int) -> RecentLinks:
        """As `History.recent`, with tensors on the device."""
        check_integer(k, "k", 1)
        queries, times = self._queries(nodes, t)
        found = self._neighbours.recent(queries, self._neighbours.before(times), k)
        return RecentLinks(found.nodes.int(), found.t, found.events)

    @cached_property
    def _neighbours(self) -> Neighbours:
        return Neighbours(self._host.index, self.device)

    def seed(self, seed: int) -> Tensor:
        """A seed as the kernels take it: [1] int64 on the device."""
        return torch.tensor([seed if seed < 1 << 63 else seed - (1 << 64)], device=self.device)

    def _queries(self, nodes: Any, t: Any) -> tuple[Tensor, Tensor]:
        dtype = self.index.time.dtype
        if isinstance(nodes, Tensor) and isinstance(t, Tensor) and nodes.device == t.device == self._place:
            if nodes.dtype != torch.int64 or t.dtype != dtype or nodes.ndim != 1 or nodes.shape != t.shape:
                raise QueryError(
                    f"queries on the device are int64 nodes and {dtype} times of one shape [B]; "
                    f"found {nodes.dtype} {tuple(nodes.shape)} and {t.dtype} {tuple(t.shape)}"
                )
            return nodes.contiguous(), t.contiguous()
        nodes, t = (x.cpu().numpy() if isinstance(x, Tensor) else x for x in (nodes, t))
        ids, times = query_arrays(nodes, t, self._host.index.t.dtype)
        return torch.from_numpy(ids).to(self.device), torch.from_numpy(times).to(self.device)


def anonymize(nodes_u: Tensor, nodes_v: Tensor) -> Tensor:
    """I_CAW of B pairs of walk sets nodes_u[b], nodes_v[b], [B, M, L] each: [B, 2, M, L, 2, L] int32."""
    first = torch.arange(len(nodes_u), device=nodes_u.device)
    rows = torch.stack([first, first + len(first)], dim=1)
    return count_positions(torch.cat([nodes_u, nodes_v]), rows).contiguous()
