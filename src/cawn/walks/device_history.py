"""The index of a network on a GPU, and the walks sampled there: the same walks for the same seed as on the CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from cawn.checks import check_seed
from cawn.errors import QueryError
from cawn.kernels.cuda.launch import block_of, current, memory_for, require_triton
from cawn.walks.sampling import Walks, query_arrays, step_widths

if TYPE_CHECKING:
    from cawn.walks.history import History


class Paths(NamedTuple):
    """Walks as the kernel writes them: [Q, M, L] each."""

    nodes: Tensor  # int32
    t: Tensor  # int64 or float64
    links: Tensor  # int32, 2 * event + side; -1 where there is none
    seen: Tensor  # int32, how many earlier links the node has there


class DeviceHistory:
    """A `History` whose arrays are tensors on a device. `History.to` makes it."""

    def __init__(self, history: History, device: torch.device | str) -> None:
        self.device, self._host = torch.device(device), history
        require_triton(self.device)
        with memory_for(f"the index ({history.nbytes / 2**30:,.1f} GiB)"):
            self.index = {
                name: torch.from_numpy(np.array(array)).to(self.device) for name, array in history.arrays.items()
            }

    def to(self, device: torch.device | str) -> History | DeviceHistory:
        """The same history elsewhere; the one it was made from on "cpu"."""
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
        """Device memory the index holds."""
        return sum(tensor.nbytes for tensor in self.index.values())

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

        Queries that are tensors on the device stay there: node ids as int64, times in the type of the events' times. An
        id below 0 has no past either.
        """
        widths = step_widths(num_walks, length, fanouts, len(self.alpha))
        check_seed(seed)
        asked = self._queries(nodes, t)
        with memory_for(f"{len(asked[0]):,} queries x {widths[-1]:,} walks", "ask for fewer at once"):
            paths = self.walk(*asked, torch.tensor(widths, device=self.device), self.seed(seed))
        return Walks(paths.nodes, paths.t, paths.links.long() >> 1)

    def seed(self, seed: int) -> Tensor:
        """A seed as the kernel takes it."""
        return torch.tensor([seed if seed < 1 << 63 else seed - (1 << 64)], device=self.device)

    def walk(self, nodes: Tensor, t: Tensor, widths: Tensor, seed: Tensor, num_walks: int | None = None) -> Paths:
        """`sample` without its checks: nodes [Q], t [Q], widths [m], seed [1], all on the device.

        `num_walks` is the last of the widths, for those who know it: reading it would wait for the device.
        """
        from cawn.kernels.cuda.walks import sample_walks

        M = int(widths[-1]) if num_walks is None else num_walks
        shape = (len(nodes), M, len(widths) + 1)
        dtypes = (torch.int32, t.dtype, torch.int32, torch.int32)
        paths = Paths(*(torch.empty(shape, device=self.device, dtype=dtype) for dtype in dtypes))
        if len(nodes) == 0:
            return paths
        block = block_of(M, 128)
        starts, time, hop, logsum, alphas = self.index.values()
        with current(self.device):
            sample_walks[(len(nodes), -(-M // block))](
                *(starts, time, hop, logsum, alphas, nodes, t, widths, seed, *paths),
                *(len(starts) - 1, len(time), len(alphas), M),
                LENGTH=len(widths),
                BLOCK=block,
                num_warps=max(block // 64, 1),
            )
        return paths

    def _queries(self, nodes: Any, t: Any) -> tuple[Tensor, Tensor]:
        time = self.index["time"]
        if isinstance(nodes, Tensor) and isinstance(t, Tensor) and nodes.device == t.device == time.device:
            if nodes.dtype != torch.int64 or t.dtype != time.dtype or nodes.ndim != 1 or nodes.shape != t.shape:
                raise QueryError(
                    f"queries on the device are int64 nodes and {time.dtype} times of one shape [B]; "
                    f"found {nodes.dtype} {tuple(nodes.shape)} and {t.dtype} {tuple(t.shape)}"
                )
            return nodes.contiguous(), t.contiguous()
        nodes, t = (x.cpu().numpy() if isinstance(x, Tensor) else x for x in (nodes, t))
        ids, times = query_arrays(nodes, t, self._host.arrays["time"].dtype)
        return torch.from_numpy(ids).to(self.device), torch.from_numpy(times).to(self.device)
