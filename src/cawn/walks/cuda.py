"""`History`, `Rates` and `anonymize` on a GPU: the same walks and counts as on the CPU. Imports Triton."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from cawn.checks import check_integer, check_seed
from cawn.errors import QueryError
from cawn.index.neighbours import Neighbours
from cawn.kernels.cpu.sequences import LOG_SCALE, SINCE_SCALE, FlatLists
from cawn.kernels.cuda.counts import count_positions
from cawn.kernels.cuda.launch import memory_for, place
from cawn.kernels.cuda.walks import sample_walks
from cawn.walks.history import RecentLinks
from cawn.walks.rates import AGES, CLOSENESS_SCALE, LONGEST, Rates, part_widths
from cawn.walks.sampling import Walks, query_arrays, step_widths
from cawn.walks.sequences import DEPTH, PARTNERS, STRIDE, SequenceParts, Sequences

if TYPE_CHECKING:
    from cawn.walks.history import History


class DeviceHistory:
    """A `History` with its index on a device; made by `History.to`."""

    def __init__(self, history: History, device: torch.device) -> None:
        self.device, self._host = device, history
        self._place = torch.empty(0, device=device).device  # with an index
        arrays = history.arrays
        self.index = dict(zip(arrays, place(list(arrays.values()), device, "the index"), strict=True))

    def to(self, device: torch.device | str) -> History | DeviceHistory:
        """The same history on another device; on "cpu" the one it was copied from."""
        return self._host.to(device)

    @property
    def alpha(self) -> tuple[float, ...]:
        """The decays, one or several."""
        return self._host.alpha

    @property
    def num_nodes(self) -> int:
        return self._host.num_nodes

    @property
    def nbytes(self) -> int:
        """Device memory of the index."""
        return sum(tensor.nbytes for tensor in self.index.values() if tensor.device.type == self.device.type)

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
            found, times, links, _ = sample_walks(
                list(self.index.values()), *queries, steps, self.seed(seed), widths[-1]
            )
        return Walks(found, times, links.long() >> 1)

    def recent(self, nodes: Any, t: Any, k: int) -> RecentLinks:
        """As `History.recent`, with tensors on the device."""
        check_integer(k, "k", 1)
        queries, times = self._queries(nodes, t)
        found = self._neighbours.recent(queries, self._neighbours.before(times), k)
        return RecentLinks(found.nodes.int(), found.t, found.events)

    @cached_property
    def _neighbours(self) -> Neighbours:
        return Neighbours.of_index(self._host.arrays, self.device)

    def seed(self, seed: int) -> Tensor:
        """A seed as the kernels take it: [1] int64 on the device."""
        return torch.tensor([seed if seed < 1 << 63 else seed - (1 << 64)], device=self.device)

    def _queries(self, nodes: Any, t: Any) -> tuple[Tensor, Tensor]:
        time = self.index["time"]
        if isinstance(nodes, Tensor) and isinstance(t, Tensor) and nodes.device == t.device == self._place:
            if nodes.dtype != torch.int64 or t.dtype != time.dtype or nodes.ndim != 1 or nodes.shape != t.shape:
                raise QueryError(
                    f"queries on the device are int64 nodes and {time.dtype} times of one shape [B]; "
                    f"found {nodes.dtype} {tuple(nodes.shape)} and {t.dtype} {tuple(t.shape)}"
                )
            return nodes.contiguous(), t.contiguous()
        nodes, t = (x.cpu().numpy() if isinstance(x, Tensor) else x for x in (nodes, t))
        ids, times = query_arrays(nodes, t, self._host.arrays["time"].dtype)
        return torch.from_numpy(ids).to(self.device), torch.from_numpy(times).to(self.device)


class DeviceRates:
    """`Rates` on a device, with its counts concatenated."""

    def __init__(self, rates: Rates, device: torch.device) -> None:
        counts = rates.counts
        keys = [one.keys for one in counts]
        entries = np.cumsum([0, *(len(one.time) for one in counts)])
        starts = [one.starts[:-1] + before for one, before in zip(counts, entries, strict=False)]
        arrays = (
            np.concatenate(keys),
            np.append(np.concatenate(starts), entries[-1]),
            np.concatenate([one.time for one in counts]),
            np.concatenate([one.logsum for one in counts], axis=1),
            np.array(counts[0].alphas),
            np.cumsum([0, *map(len, keys)]),
        )
        self.lists = place(arrays, device, "the rates")
        pair_width, end_width, _ = part_widths(len(counts[0].alphas))
        self.constants: dict[str, Any] = {  # of `kernels.cuda.features.rate_features`, beside the lists
            "directed": len(counts) > 2,
            "pair_width": pair_width,
            "end_width": end_width,
            "num_ages": AGES,
            "closeness_scale": CLOSENESS_SCALE,
            "longest": LONGEST,
        }


class DeviceSequences:
    """`Sequences` on a device."""

    def __init__(self, sequences: Sequences, parts: SequenceParts, device: torch.device) -> None:
        arrays = [np.atleast_1d(np.array(array)) for array in sequences.flat]  # the scale as [1]
        self.index = FlatLists._make(place(arrays, device, "the sequences of links"))
        num_decays = -(-len(sequences.flat.alphas) // STRIDE)
        self.constants: dict[str, Any] = {  # of `kernels.cuda.sequences.sequence_features`, besides the index
            "since": parts.since,
            "partners": PARTNERS * parts.two_steps,
            "stride": STRIDE,
            "depth": DEPTH * parts.transitions,
            "num_decays": num_decays * parts.two_steps,
            "since_scale": SINCE_SCALE,
            "log_scale": LOG_SCALE,
        }


def anonymize(nodes_u: Tensor, nodes_v: Tensor) -> Tensor:
    """I_CAW of B pairs of walk sets nodes_u[b], nodes_v[b], [B, M, L] each: [B, 2, M, L, 2, L] int32."""
    first = torch.arange(len(nodes_u), device=nodes_u.device)
    rows = torch.stack([first, first + len(first)], dim=1)
    return count_positions(torch.cat([nodes_u, nodes_v]), rows).contiguous()
