"""Stream: an appendable index with constant memory per node, sampled like a `History` (Alg. 2 and 3)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from cawn.checks import check_choice, check_integer, check_number, is_integer
from cawn.data.events import link_arrays
from cawn.data.times import cast_times, check_span
from cawn.errors import LateEventError, QueryError, brief
from cawn.walks.kernels import ring as cpu_ring
from cawn.walks.sampling import Sampler, check_alphas, query_arrays

_TIME_TYPES = ("int64", "float64", int, float, np.int64, np.float64, np.dtype(np.int64), np.dtype(np.float64))


class Stream(Sampler):
    """The most recent `capacity` links of each node, with running sums that keep their probabilities exact.

    A stored link is drawn with exactly the probability it has in the whole history. A walk that would take a link that
    is no longer stored ends; `missing_mass` is the probability of that.

    Args:
        num_nodes: Nodes to allocate; it grows as new nodes appear.
        alpha: As for `History`.
        capacity: Links to store per node, or "auto": the fewest that leave out at most `tolerance` of the probability
            of a node whose links are a Poisson process with `tau` links per unit of time (see `ring_capacity`).
        tau: The intensity for "auto"; `events.intensity` is that of an average node, and busy nodes need more.
        tolerance: The fraction of the probability that "auto" may leave out.
        late: What to do with events older than the newest: "error", or "drop" and count them in `dropped`.
        dtype: The dtype of times, int64 or float64; by default that of the first events appended.
    """

    def __init__(
        self,
        num_nodes: int,
        alpha: float | Sequence[float],
        *,
        capacity: int | Literal["auto"] = 32,
        tau: float | None = None,
        tolerance: float = 0.01,
        late: Literal["error", "drop"] = "error",
        dtype: npt.DTypeLike | None = None,
    ) -> None:
        check_integer(num_nodes, "num_nodes", 0, 2**31 - 1)
        check_choice(late, "late", ("error", "drop"))
        if dtype is not None and not (isinstance(dtype, str | type | np.dtype) and dtype in _TIME_TYPES):
            raise QueryError(f"dtype is {brief(dtype)}: times are int64 or float64")
        self._alphas = check_alphas(alpha)
        if isinstance(capacity, str) and capacity == "auto":
            if tau is None:
                raise QueryError(
                    "capacity='auto' needs tau, the links of a node per unit of time; see events.intensity"
                )
            capacity = ring_capacity(tau, float(self._alphas.min()), tolerance)
        elif not is_integer(capacity) or not 1 <= capacity < 2**31:
            raise QueryError(f"capacity is {brief(capacity)}: give a positive number of links, or 'auto'")
        self.capacity = int(capacity)
        self.dropped = 0
        self._late = late
        self._dtype = None if dtype is None else np.dtype(dtype)
        self._oldest: Any = None
        self._newest: Any = None
        self._num_events = 0
        self._num_nodes = int(num_nodes)
        self._rings = self._empty_rings(self._num_nodes, self._dtype or np.dtype(np.int64))

    @property
    def num_nodes(self) -> int:
        """Number of nodes: as many as were asked for, or more if more have appeared."""
        return self._num_nodes

    def __len__(self) -> int:
        """Number of links appended so far."""
        return self._num_events

    @property
    def nbytes(self) -> int:
        """Memory of the rings."""
        return sum(array.nbytes for array in self._rings)

    def __repr__(self) -> str:
        return f"Stream({len(self):,} links, {self.num_nodes:,} nodes, capacity {self.capacity}, alpha {self.alpha})"

    def append(self, src: npt.ArrayLike, dst: npt.ArrayLike, t: npt.ArrayLike) -> int:
        """Append links in the order of time; returns how many were appended.

        On an error none is appended. With late="drop" all but the late ones are.
        """
        src, dst, t = link_arrays(src, dst, t)
        if len(src) == 0:
            return 0
        t = cast_times(t, self._dtype or t.dtype)
        late = self._late_events(t)
        src, dst, t = src[~late], dst[~late], t[~late]
        if len(src):
            check_span(np.array([t[0] if self._oldest is None else self._oldest, t[-1]]))
            self._grow(int(max(src.max(), dst.max())) + 1, t.dtype)
            cpu_ring.append_links(self._rings, src, dst, t, self._num_events)
            self._oldest = t[0] if self._oldest is None else self._oldest
            self._newest = t[-1]
            self._num_events += len(src)
        self.dropped += int(late.sum())
        return len(src)

    def _backend(self) -> tuple[Any, Any]:
        return cpu_ring.sample_walks, self._rings

    def missing_mass(self, nodes: npt.ArrayLike, t: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """The probability of each node's links before t that are no longer stored, mean over the decays: [B].

        With this probability, a walk from (node, t) ends at its first step although the node has earlier links.
        """
        ids, times = query_arrays(nodes, t, self._rings.time.dtype)
        return cpu_ring.missing_mass(self._rings, ids, times)

    def _empty_rings(self, size: int, dtype: np.dtype[Any]) -> cpu_ring.Rings:
        decays, held = self._alphas.size, (size, self.capacity)
        try:
            return cpu_ring.Rings(
                alphas=self._alphas,
                total=np.zeros(size, np.int64),
                first=np.zeros(size, dtype),
                running=np.zeros((size, decays)),
                time=np.zeros(held, dtype),
                node=np.zeros(held, np.int32),
                link=np.zeros(held, np.int64),
                p=np.zeros((size, decays, self.capacity)),
            )
        except MemoryError as error:
            raise QueryError(
                f"no memory for {size:,} nodes of {self.capacity} links each; number nodes from 0 or lower the capacity"
            ) from error

    def _grow(self, needed: int, dtype: np.dtype[Any]) -> None:
        """Grow to at least `needed` nodes, and by at least half, so that the amortized cost stays constant."""
        room = len(self._rings.total)
        if self._dtype is None:
            self._rings = self._empty_rings(max(needed, room), dtype)
        elif needed > room:
            grown = self._empty_rings(max(needed, room + room // 2), dtype)
            for new, old in zip(grown[1:], self._rings[1:], strict=True):
                new[:room] = old
            self._rings = grown
        self._dtype = dtype
        self._num_nodes = max(self._num_nodes, needed)

    def _late_events(self, times: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """Mask of the events that are older than an earlier one; an error unless they may be dropped."""
        latest = np.maximum.accumulate(times)
        if self._newest is not None:
            latest = np.maximum(latest, self._newest)
        late = times < latest
        if self._late == "error" and late.any():
            i = int(np.argmax(late))
            raise LateEventError(
                f"event {i} of the batch is at t={times[i]}, but t={latest[i]} was reached before it; nothing was "
                "appended. Sort the events, or use Stream(..., late='drop')"
            )
        return np.asarray(late)


def ring_capacity(tau: float, alpha: float, tolerance: float) -> int:
    """The fewest links to store so that at most `tolerance` of the probability is left out, for a Poisson process.

    With intensity tau, each link has on average tau / (tau + alpha) times the weight of the next one, so c links leave
    out (tau / (tau + alpha)) ** c of the total.
    """
    check_number(tau, "tau", "the links of a node per unit of time, a finite number >= 0", lambda rate: rate >= 0)
    check_number(tolerance, "tolerance", "a fraction between 0 and 1", lambda share: 0 < share < 1)
    if alpha == 0:
        raise QueryError(
            "with alpha=0 all links have equal weight, and no capacity is enough; give a capacity, or use a History"
        )
    if tau == 0:
        return 1
    decay = math.log1p(alpha / tau)
    capacity = math.log(tolerance) / -decay if decay > 0 else math.inf
    if capacity >= 2**31:
        raise QueryError(
            f"tau={tau:.3g}, alpha={alpha:.3g} need {capacity:.3g} links for each node; use a larger alpha"
        )
    return max(math.ceil(capacity), 1)
