"""Walks, the checks of a sampling call, and the sampling interface that `History` and `Stream` share."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from cawn.checks import as_array, check_seed, check_threads, is_integer
from cawn.data.times import cast_times
from cawn.errors import QueryError, brief
from cawn.walks.kernels.sampling import Kernel, run_walks

MAX_LENGTH = 255
MAX_WALKS = 2**32


@dataclass(frozen=True, slots=True)
class Walks:
    """M walks back in time from each of B queries, each a start and m steps.

    Position 0 is the query itself. Position i > 0 is the node reached by step i, the time of the link taken and its
    event id. A walk ends at a node without earlier links; all three are -1 from there on. NumPy arrays, or tensors on
    the GPU if the history was moved there.
    """

    nodes: Any  # [B, M, m + 1] int32
    t: Any  # [B, M, m + 1], int64 or float64 like the events
    events: Any  # [B, M, m + 1] int64, -1 at position 0

    def __len__(self) -> int:
        return len(self.nodes)

    def __repr__(self) -> str:
        B, M, L = self.nodes.shape
        return f"Walks({B:,} queries x {M} walks of length {L - 1})"


class RecentLinks(NamedTuple):
    """The last k links of B nodes, newest first, [B, k] each; nodes and events are -1 where there is no further link.

    NumPy arrays, or tensors on the GPU if the history was moved there.
    """

    nodes: Any  # int32, the other end of each link
    t: Any  # int64 or float64 like the events; 0 where there is no link
    events: Any  # int64


class Sampler(ABC):
    """Samples walks; the base class of `History` and `Stream`."""

    @abstractmethod
    def _backend(self) -> tuple[Kernel, Any]:
        """A sampling kernel and the index that it reads, which has `time` and `alphas`."""

    @property
    def alpha(self) -> tuple[float, ...]:
        """The decays, one or several."""
        return tuple(self._backend()[1].alphas.tolist())

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
        """Walk back in time from each (node, t); each step takes a link strictly before the previous one (Alg. 1).

        Args:
            nodes: Node ids [B]. An unknown id has no history.
            t: Times [B] in the unit of the events, or one time for all nodes.
            seed: The same seed gives the same walks for a query, whatever else the call asks for and on any number
                of threads.
            num_walks: M, independent walks per query (64).
            length: m, steps per walk (2).
            fanouts: Instead of both: (k1, ..., km) grows a tree in which k_i links follow each link of step i - 1,
                and returns its k1 * ... * km paths.
            threads: Number of threads; all cores by default.
        """
        kernel, index = self._backend()
        queries = query_arrays(nodes, t, index.time.dtype)
        widths = step_widths(num_walks, length, fanouts, len(index.alphas))
        check_threads(threads)
        check_seed(seed)
        try:
            return Walks(*run_walks(kernel, index, *queries, widths, seed, threads))
        except (MemoryError, ValueError) as error:
            size = f"{len(queries[0]):,} queries x {widths[-1]:,} walks x {len(widths) + 1} positions"
            raise QueryError(
                f"no memory for {size}; lower num_walks or batch_size, or ask for fewer at once"
            ) from error


def check_alphas(alpha: float | Sequence[float]) -> npt.NDArray[np.float64]:
    """The decays as an array [k]; each must be finite and >= 0."""
    given = np.atleast_1d(as_array(alpha, "alpha"))
    numeric = given.dtype.kind in "iuf"
    alphas = np.array(given if numeric else np.nan, np.float64)
    if alphas.ndim != 1 or alphas.size == 0 or not (np.isfinite(alphas).all() and (alphas >= 0).all()):
        raise QueryError(
            f"alpha is {brief(alpha)}: give a finite number >= 0 (per unit of time), or a tuple of such numbers"
        )
    return alphas


def step_widths(
    num_walks: int | None, length: int | None, fanouts: Sequence[int] | None, num_decays: int
) -> tuple[int, ...]:
    """Number of links drawn at each step: M at each of m steps, or the cumulative products of the fan-outs."""
    if fanouts is not None:
        if num_walks is not None or length is not None:
            raise QueryError(
                "give num_walks and length, or fanouts, not both: the fan-outs alone determine the number of walks"
            )
        if not isinstance(fanouts, Sequence) or len(fanouts) > MAX_LENGTH:
            raise QueryError(f"fanouts={brief(fanouts)}: give one number for each step, such as (8, 4, 2)")
        steps = tuple(fanouts)
        what = f"fanouts={brief(steps)}"
    else:
        num_walks, length = 64 if num_walks is None else num_walks, 2 if length is None else length
        what = f"num_walks={brief(num_walks)}, length={brief(length)}"
        possible = is_integer(length) and 0 < length <= MAX_LENGTH
        steps = (num_walks, *(1,) * (int(length) - 1)) if possible else ()
    if not 1 <= len(steps) <= MAX_LENGTH or not all(is_integer(k) and k > 0 for k in steps):
        raise QueryError(f"{what}: a walk has 1 to {MAX_LENGTH} steps, and each number must be a positive integer")
    widths = tuple(math.prod(int(k) for k in steps[: i + 1]) for i in range(len(steps)))
    if widths[-1] >= MAX_WALKS:
        raise QueryError(f"{what}: more than {MAX_WALKS - 1:,} walks per query are too many")
    if widths[0] % num_decays:
        raise QueryError(
            f"{what}: the first step draws {widths[0]} links, which {num_decays} decays cannot share evenly; "
            f"use a multiple of {num_decays}"
        )
    return widths


def query_arrays(
    nodes: npt.ArrayLike, t: npt.ArrayLike, time_dtype: np.dtype[Any]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[Any]]:
    """Nodes and times of B queries as contiguous arrays [B]; a single time is repeated for all nodes."""
    node_ids = np.atleast_1d(as_array(nodes, "nodes"))
    if node_ids.size == 0:
        node_ids = node_ids.astype(np.int64)
    if node_ids.ndim != 1 or node_ids.dtype.kind not in "iu":
        raise QueryError(
            f"nodes: found {node_ids.dtype} of shape {node_ids.shape}, expected a list of node ids (integers)"
        )
    if node_ids.size and (node_ids.min() < 0 or node_ids.max() >= 2**31):
        bad = int(np.flatnonzero((node_ids < 0) | (node_ids >= 2**31))[0])
        raise QueryError(f"nodes[{bad}] is {node_ids[bad]}: node ids run from 0 to 2**31 - 1")
    times = cast_times(t, time_dtype)
    if times.ndim == 0:
        times = np.full(len(node_ids), times)
    if times.shape != node_ids.shape:
        raise QueryError(
            f"{node_ids.size} nodes but times of shape {times.shape}: give one time for each node, or one for all"
        )
    return np.ascontiguousarray(node_ids, np.int64), np.ascontiguousarray(times)
