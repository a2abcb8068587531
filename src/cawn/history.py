"""History: who met whom strictly before t; the immutable index all sampling reads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from cawn.errors import QueryError
from cawn.events import Events
from cawn.kernels import cpu
from cawn.kernels.jit import even_bounds, in_parallel
from cawn.walks import Question, Walks, check_alphas, query_arrays

MAX_EVENTS = 2**30
_ENTRIES_PER_TASK = 1 << 16
_QUERIES_PER_TASK = 256


class History:
    """Every node's links in the order of time, with the running log-sums of their weights.

    Args:
        events: The links. Both ends of a link see it; a self-loop is one link of its node.
        alpha: How fast the past fades, per unit of time: a link at t' weighs exp(alpha (t' - t)). 0 is uniform.
            A tuple shares the walks of a query evenly among its decays, the first block of walks for the first.
        threads: Cores to build with; all by default.
    """

    def __init__(self, events: Events, alpha: float | Sequence[float], *, threads: int | None = None) -> None:
        if not isinstance(events, Events):
            raise QueryError(f"events is a {type(events).__name__}: give cawn.Events, or read them with cawn.read")
        if len(events) >= MAX_EVENTS:
            raise QueryError(f"{len(events):,} events: one History indexes fewer than 2**30; split the events by time")
        alphas = check_alphas(alpha)
        starts = cpu.list_starts(events.src, events.dst, events.num_nodes)
        size = int(starts[-1])
        time, hop, logsum = np.empty(size, events.t.dtype), np.empty((size, 3), np.int32), np.empty((alphas.size, size))
        cpu.fill_lists(events.src, events.dst, events.t, starts, time, hop)
        # As many entries for each task, however uneven the degrees are.
        bounds = [0, *np.searchsorted(starts, even_bounds(size, _ENTRIES_PER_TASK)).tolist(), events.num_nodes]
        for a in range(alphas.size):
            fill = partial(cpu.fill_logsums, starts, time, alphas[a], logsum[a])
            in_parallel(fill, bounds, threads)
        self._index = cpu.Index(starts, time, hop, logsum, alphas)

    @property
    def alpha(self) -> tuple[float, ...]:
        """The decays, one or several."""
        return tuple(self._index.alphas.tolist())

    @property
    def num_nodes(self) -> int:
        return len(self._index.starts) - 1

    @property
    def nbytes(self) -> int:
        """Memory the index holds."""
        return sum(array.nbytes for array in self._index)

    def degree(self, nodes: npt.ArrayLike, t: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """How many links each node has strictly before t: [B]."""
        return cpu.degrees(self._index, *query_arrays(nodes, t, self._index.time.dtype))

    def sample(
        self,
        nodes: npt.ArrayLike,
        t: npt.ArrayLike,
        *,
        seed: int,
        num_walks: int | None = None,
        length: int | None = None,
        fanouts: Sequence[int] | None = None,
        threads: int | None = None,
    ) -> Walks:
        """Walk back in time from each (node, t), taking only links strictly earlier than where a walk stands (Alg. 1).

        Args:
            nodes: Node ids [B]. An id the history does not know has no past.
            t: Times [B] in the events' unit, or one time for all.
            seed: The same seed gives the same walks for a query, whatever else is asked beside it and on
                however many threads.
            num_walks: M, independent walks per query (64).
            length: m, steps per walk (2).
            fanouts: Instead of both: (k1, ..., km) grows a tree in which k_i links follow each link of step i - 1,
                and returns its k1 * ... * km paths.
            threads: Cores to use; all by default.
        """
        question = Question.of(
            nodes,
            t,
            self._index.time.dtype,
            self._index.alphas.size,
            num_walks=num_walks,
            length=length,
            fanouts=fanouts,
            seed=seed,
        )
        sample = partial(cpu.sample_walks, self._index, question)
        in_parallel(sample, even_bounds(len(question.nodes), _QUERIES_PER_TASK), threads)
        return question.walks
