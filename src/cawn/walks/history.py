"""History: the immutable index of all links that walks are sampled from."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cawn.checks import check_integer, check_threads
from cawn.data.events import Events
from cawn.errors import QueryError
from cawn.kernels.cpu import walks as cpu
from cawn.kernels.cpu.index import fill_lists, fill_logsums, list_starts
from cawn.kernels.cpu.spans import Spans, constant, lengths, span
from cawn.kernels.threads import even_bounds, in_parallel
from cawn.walks.lists import ListsVersion
from cawn.walks.sampling import Sampler, WalkBackend, check_alphas, query_arrays

if TYPE_CHECKING:
    from cawn.walks.cuda import DeviceHistory

MAX_EVENTS = 2**30
_ENTRIES_PER_TASK = 1 << 16
STORED = ("starts", "time", "hop", "logsum", "alphas")  # in run folders


class RecentLinks(NamedTuple):
    """The last k links of B nodes, newest first, [B, k] each; nodes and events are -1 where there is no further link.

    NumPy arrays, or tensors on the GPU if the history was moved there.
    """

    nodes: Any  # int32, the other end of each link
    t: Any  # int64 or float64 like the events; 0 where there is no link
    events: Any  # int64


class History(Sampler):
    """The links of every node in the order of time, with the running log-sums of their weights.

    Args:
        events: The links. Each counts for both of its nodes; a self-loop counts once.
        alpha: The decay per unit of time: a link at t' has weight exp(alpha (t' - t)); 0 weighs all links the same.
            With several decays, each gets an equal, consecutive share of the walks of a query.
        threads: Threads to build the index with; all cores by default.
    """

    index: cpu.Index
    _lists: ListsVersion  # of a version of lists that grow
    _token: object

    def __init__(self, events: Events, alpha: float | Sequence[float], *, threads: int | None = None) -> None:
        if not isinstance(events, Events):
            raise QueryError(f"events is a {type(events).__name__}: give cawn.Events, or read them with cawn.read")
        if len(events) >= MAX_EVENTS:
            raise QueryError(f"{len(events):,} events: one History indexes fewer than 2**30; split the events by time")
        alphas = check_alphas(alpha)
        check_threads(threads)
        try:
            starts = list_starts(events.src, events.dst, events.num_nodes)
            size = int(starts[-1])
            time, hop = np.empty(size, events.t.dtype), np.empty((size, 3), np.int32)
            logsum = np.empty((alphas.size, size))
        except MemoryError as error:
            links, nodes = f"{len(events):,} links", f"{events.num_nodes:,} nodes"
            raise QueryError(
                f"no memory for the index of {links} and {nodes}; number nodes from 0, or use a Stream"
            ) from error
        fill_lists(events.src, events.dst, events.t, starts, time, hop)
        # Each task gets about the same number of entries, however uneven the degrees are.
        bounds = [0, *np.searchsorted(starts, even_bounds(size, _ENTRIES_PER_TASK)).tolist(), events.num_nodes]
        for a in range(alphas.size):
            fill = partial(fill_logsums, starts, time, alphas[a], logsum[a])
            in_parallel(fill, bounds, threads)
        self._use({"starts": starts, "time": time, "hop": hop, "logsum": logsum, "alphas": alphas})

    @classmethod
    def adopt(cls, arrays: dict[str, npt.NDArray[Any]]) -> History:
        """Rebuild a history from its `arrays`; those read from a file must pass `check_history` first."""
        history = cls.__new__(cls)
        history._use(arrays)
        return history

    def _use(self, arrays: dict[str, npt.NDArray[Any]]) -> None:
        time, hop, logsum, alphas = (constant(arrays[name]) for name in STORED[1:])
        self.arrays = {name: arrays[name] for name in STORED}
        self.index = cpu.Index(Spans.of(arrays["starts"]), time, hop, logsum, alphas)

    @classmethod
    def of_version(cls, lists: ListsVersion, alphas: npt.NDArray[np.float64], token: object) -> History:
        """One version of lists that grow (see `GrowingIndex`); holds the token of that version."""
        history = cls.__new__(cls)
        history._lists, history._token = lists, token
        time, hop, logsum = (lists.columns[name] for name in STORED[1:-1])
        history.index = cpu.Index(lists.spans, time, hop, logsum, alphas)
        return history

    def __reduce__(self) -> tuple[Any, ...]:
        return History.adopt, (self.arrays,)

    @cached_property
    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The index by name, lists one after the other, as stored in run folders."""
        starts, columns = self._lists.flat()
        found = columns | {"starts": starts, "alphas": self.index.alphas}
        return {name: found[name] for name in STORED}

    @property
    def alpha(self) -> tuple[float, ...]:
        """The decays, one or several."""
        return tuple(self.index.alphas.tolist())

    @property
    def num_nodes(self) -> int:
        return self.index.spans.size

    @property
    def nbytes(self) -> int:
        """Memory of the index, without room to grow."""
        return sum(array.nbytes for array in self.arrays.values())

    def __repr__(self) -> str:
        entries, decays = int(lengths(self.index.spans).sum()), len(self.alpha)
        return f"History({self.num_nodes:,} nodes, {entries:,} entries, {decays} decays)"

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
        return cpu.degrees(self.index, *query_arrays(nodes, t, self.index.time.dtype))

    def links_of(self, node: int, k: int) -> tuple[int, npt.NDArray[np.int64]]:
        """The number of links of a node, and the ids of the first and of the last k, in the order of time."""
        start, stop = span(self.index.spans, node)
        entries = np.unique(np.append(np.arange(start, min(start + 1, stop)), np.arange(max(start, stop - k), stop)))
        return int(stop - start), self.index.hop[entries, cpu.LINK].astype(np.int64) >> 1

    def recent(self, nodes: npt.ArrayLike, t: npt.ArrayLike, k: int) -> RecentLinks:
        """The last k links of each node strictly before t, newest first."""
        check_integer(k, "k", 1)
        ids, times = query_arrays(nodes, t, self.index.time.dtype)
        shape = len(ids), int(k)
        found = RecentLinks(np.full(shape, -1, np.int32), np.zeros(shape, times.dtype), np.full(shape, -1))
        cpu.recent_links(self.index, ids, times, *found)
        return found

    def _backend(self) -> WalkBackend:
        return WalkBackend(cpu.sample_walks, self.index, self.index.time.dtype, self.index.alphas.size)
