"""History: the immutable index of all links that walks are sampled from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from cawn.checks import check_integer, check_threads
from cawn.data.events import Events
from cawn.errors import QueryError
from cawn.index.index import Index
from cawn.index.kernels import nodes as kernels
from cawn.index.kernels.lists import visible_lists
from cawn.index.kinds import NODES
from cawn.walks.kernels.sampling import sample_walks
from cawn.walks.sampling import RecentLinks, Sampler, check_alphas, query_arrays

if TYPE_CHECKING:
    from cawn.walks.cuda import DeviceHistory


class History(Sampler):
    """The links of every node in the order of time, with the running log-sums of their weights.

    Args:
        events: The links. Each counts for both of its nodes; a self-loop counts once.
        alpha: The decay per unit of time: a link at t' has weight exp(alpha (t' - t)); 0 weighs all links the same.
            With several decays, each gets an equal, consecutive share of the walks of a query.
        threads: Threads to build the index with; all cores by default.
    """

    index: Index

    def __init__(self, events: Events, alpha: float | Sequence[float], *, threads: int | None = None) -> None:
        if not isinstance(events, Events):
            raise QueryError(f"events is a {type(events).__name__}: give cawn.Events, or read them with cawn.read")
        alphas = check_alphas(alpha)
        check_threads(threads)
        try:
            self.index = Index.of(events, alphas, threads=threads)
        except MemoryError as error:
            links, nodes = f"{len(events):,} links", f"{events.num_nodes:,} nodes"
            raise QueryError(
                f"no memory for the index of {links} and {nodes}; number nodes from 0, or use a Stream"
            ) from error

    @classmethod
    def of(cls, index: Index) -> History:
        """The history of an index that was built."""
        history = cls.__new__(cls)
        history.index = index
        return history

    @property
    def num_nodes(self) -> int:
        return self.index.num_nodes

    @property
    def nbytes(self) -> int:
        """Memory of the index."""
        return self.index.nbytes

    def __repr__(self) -> str:
        return f"History({self.num_nodes:,} nodes, {len(self.index.t):,} links, {len(self.alpha)} decays)"

    def to(self, device: Any) -> History | DeviceHistory:
        """Copy the index to a device and sample there; on "cpu" this history itself."""
        from cawn.devices import named_device

        found = named_device(device)
        if found.type == "cpu":
            return self
        from cawn.walks.cuda import DeviceHistory

        return DeviceHistory(self, found)

    def degree(self, nodes: npt.ArrayLike, t: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Number of links of each node strictly before t: [B]."""
        return kernels.degrees(self.index.nodes, *query_arrays(nodes, t, self.index.t.dtype))

    def links_of(self, node: int, k: int) -> tuple[int, npt.NDArray[np.int64]]:
        """The number of links of a node, and the ids of the first and of the last k, in the order of time."""
        lists = self.index.every[NODES]
        (start,), (size,) = visible_lists(lists, np.array([node]), len(self.index.t))
        last = lists.link[start + max(size - k, 0) : start + size]
        return int(size), np.append(lists.link[start : start + (size > k)], last).astype(np.int64) >> 1

    def recent(self, nodes: npt.ArrayLike, t: npt.ArrayLike, k: int) -> RecentLinks:
        """The last k links of each node strictly before t, newest first."""
        check_integer(k, "k", 1)
        ids, times = query_arrays(nodes, t, self.index.t.dtype)
        shape = len(ids), int(k)
        found = RecentLinks(np.full(shape, -1, np.int32), np.zeros(shape, times.dtype), np.full(shape, -1))
        kernels.recent_links(self.index.nodes, ids, times, *found)
        return found

    def _backend(self) -> tuple[Any, Any]:
        return sample_walks, self.index.nodes
