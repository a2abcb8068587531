"""A stream of links as snapshots: windows of equal length, the windows visible to a query, and sparse matrices.

A query at t sees all windows before the one that contains t, and nothing of its own window. Windows are closed on the
right, (origin + k span, origin + (k + 1) span], so that the last link of the training period is in its last window;
the first window also contains the origin. Windows of the same length continue after the training period.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cached_property
from threading import RLock
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from cawn.data.events import Events
from cawn.errors import DataError

Array = npt.NDArray[Any]
Value = TypeVar("Value")

EMPTY = 16  # consecutive empty windows that count; more are skipped
_LAST = 2.0**52  # windows beyond this one count as the same
_GRAPHS = 1024  # number of cached graphs


@dataclass(frozen=True)
class WindowGrid:
    """Windows of length `span` that start at `origin`; both are derived from the training period."""

    origin: int | float
    span: float

    @classmethod
    def of(cls, t: Array, count: int) -> WindowGrid:
        """The grid that divides the period of these ascending times into `count` windows."""
        period = float(t[-1] - t[0]) if len(t) else 0.0
        if period / count == 0:
            raise DataError("all training links have the same time: snapshots need a longer history")
        span = period / count
        while math.ceil(period / span) > count:  # the division was rounded
            span = math.nextafter(span, math.inf)
        found = cls(t[0].item(), span)
        if len(np.unique(found.windows(t))) < 2:
            raise DataError("all training links are in one snapshot: give more snapshots or a longer history")
        return found

    def windows(self, t: Array) -> npt.NDArray[np.int64]:
        """The number of the window of each time, from 0; equal times are in the same window: [B]."""
        origin = np.full_like(t, self.origin)
        later = np.maximum(t, origin)
        if t.dtype.kind == "i":  # the difference of two int64 fits into uint64
            origin, later = origin.view(np.uint64), later.view(np.uint64)
        with np.errstate(over="ignore"):
            window = np.ceil((later - origin) / self.span) - 1
        return np.asarray(np.clip(window, 0, _LAST), np.int64)


class View(NamedTuple):
    """What is visible to a query: all windows of the first `known` links, and `gap` empty windows after the last."""

    known: int
    gap: int


class Snapshots:
    """The links of a history, divided into windows.

    Steps are the windows from the first one with links to the last, without the empty windows that are skipped (see
    EMPTY).
    """

    def __init__(self, events: Events, grid: WindowGrid, device: torch.device) -> None:
        self.events, self.grid, self.device = events, grid, device
        self.num_nodes = events.num_nodes
        self._window = grid.windows(events.t)  # [E], ascending
        distinct, start = np.unique(self._window, return_index=True)
        step = np.concatenate([[0], np.cumsum(np.minimum(np.diff(distinct), EMPTY + 1))]) if len(distinct) else distinct
        self._step_of_link = np.repeat(step, np.diff(np.append(start, len(events))))  # [E], ascending
        steps = np.arange(step[-1] + 1) if len(step) else step
        self._first, self._last = (np.searchsorted(self._step_of_link, steps, side) for side in ("left", "right"))
        self._graphs: RecentValues[Graph] = RecentValues(_GRAPHS)

    @cached_property
    def x(self) -> Tensor:
        """Node attributes with a row of zeros for unknown ids: [num_nodes + 1, d]."""
        x = np.empty((self.num_nodes, 0), np.float32) if self.events.x is None else self.events.x
        return torch.from_numpy(np.pad(x, ((0, 1), (0, 0)))).to(self.device)

    def views(self, t: Array, visible: Array | None = None) -> tuple[Array, Array]:
        """The `View` of each query, as two arrays [B]; with `visible` [B], only the first `visible` links are known."""
        window = self.grid.windows(t)
        known = np.searchsorted(self._window, window, side="left")
        if visible is not None:
            known = np.minimum(known, visible)
        if len(self._window) == 0:
            return known, known
        gap = window - self._window[np.maximum(known - 1, 0)] - 1
        return known, np.where(known > 0, np.minimum(gap, EMPTY), 0)

    def ends(self, t: Array) -> Array:
        """The number of links up to the end of the window of each time: [B]."""
        return np.searchsorted(self._window, self.grid.windows(t), side="right")

    def step(self, view: View) -> int:
        """The step of the last known link; -1 if there is none."""
        return self.step_at(view.known - 1) if view.known else -1

    def step_at(self, link: int) -> int:
        """The step of a link, by its position."""
        return int(self._step_of_link[link])

    @property
    def num_steps(self) -> int:
        return len(self._first)

    def links(self, step: int, known: int) -> tuple[int, int]:
        """The links of a step among the first `known` links, as a range of positions."""
        return int(self._first[step]), min(int(self._last[step]), known)

    def latest(self, view: View, count: int) -> list[tuple[int, int]]:
        """The links of the last `count` windows of a view, oldest first; fewer if the stream is shorter."""
        if view.known == 0:
            return []
        last, empty = self.step(view), min(view.gap, count)
        steps = range(max(last + 1 - (count - empty), 0), last + 1)
        return [self.links(step, view.known) for step in steps] + [(view.known, view.known)] * empty

    def graph(self, links: tuple[int, int]) -> Graph:
        """The snapshot of a range of links."""
        if links[0] >= links[1]:
            links = (0, 0)
        return self._graphs.get(links, lambda: Graph(self.events, slice(*links), self.device))

    def rows(self, nodes: Array) -> Tensor:
        """Rows of nodes in a state of `num_nodes` + 1 rows, the last of which stands for unknown ids: [B]."""
        return torch.from_numpy(np.minimum(nodes, self.num_nodes).astype(np.int64)).to(self.device)


class Graph:
    """An undirected snapshot in which a link that occurs n times has weight n.

    `pairs` [2, P] contains every linked pair of nodes once in each direction, sorted, and `count` [P] its number of
    links. `nodes` [A] are the nodes with links, `out_degree` and `in_degree` [A] their links as source and destination.
    """

    def __init__(self, events: Events, links: slice, device: torch.device) -> None:
        src, dst = (ends[links].astype(np.int64) for ends in (events.src, events.dst))
        self.num_nodes, self.device = events.num_nodes, device
        codes = np.concatenate([src * self.num_nodes + dst, (dst * self.num_nodes + src)[src != dst]])
        pairs, count = np.unique(codes, return_counts=True)
        self.codes = torch.from_numpy(pairs).to(device)  # [P], source * num_nodes + destination
        self.host_pairs = np.stack(np.divmod(pairs, max(self.num_nodes, 1)))
        self.pairs = torch.from_numpy(self.host_pairs).to(device)
        self.count = torch.from_numpy(count.astype(np.float32)).to(device)
        self.host_nodes, first = np.unique(self.host_pairs[0], return_index=True)
        self.starts = np.append(first, len(pairs))  # start of each node's range in `pairs`
        self.nodes = torch.from_numpy(self.host_nodes).to(device)
        degrees = (np.bincount(ends, minlength=self.num_nodes)[self.host_nodes] for ends in (src, dst))
        self.out_degree, self.in_degree = (torch.from_numpy(degree).to(device) for degree in degrees)
        self._normalised: dict[float, Normalised] = {}

    def normalised(self, loop: float) -> Normalised:
        """D^(-1/2) (A + loop I) D^(-1/2), D being the row sums of A + loop I."""
        if loop not in self._normalised:
            self._normalised[loop] = Normalised.of(self, loop)
        return self._normalised[loop]


class Normalised(NamedTuple):
    """A symmetric sparse matrix of num_nodes + 1 rows; the rows of nodes without links are those of the identity."""

    nodes: Tensor  # [A] with links
    columns: Tensor  # [n] of the entries of their rows, one row after another
    values: Tensor  # [n]
    offsets: Tensor  # [A] where each row begins

    @classmethod
    def of(cls, graph: Graph, loop: float) -> Normalised:
        (row, column), nodes = graph.pairs, graph.nodes
        row, column = torch.cat([row, nodes]), torch.cat([column, nodes])
        count = torch.cat([graph.count, torch.full_like(nodes, loop, dtype=torch.float32)])
        order = torch.argsort(row * graph.num_nodes + column, stable=True)
        row, column, count = row[order], column[order], count[order]
        scale = torch.zeros(graph.num_nodes + 1, device=graph.device).index_add(0, row, count) ** -0.5
        return cls(nodes, column, count * scale[row] * scale[column], torch.searchsorted(row, nodes))

    def __call__(self, x: Tensor) -> Tensor:
        """The product with x [num_nodes + 1, d]."""
        found: Tensor = _Product.apply(x, *self)  # type: ignore[no-untyped-call]
        return found


class _Product(torch.autograd.Function):
    """Multiplication by a `Normalised` matrix; it is symmetric, so the backward pass is the same multiplication.

    Sums are computed in a fixed order on every device.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, nodes: Tensor, columns: Tensor, values: Tensor, offsets: Tensor) -> Tensor:
        ctx.save_for_backward(nodes, columns, values, offsets)
        return _multiply(x, nodes, columns, values, offsets)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        return _multiply(gradients[0].contiguous(), *ctx.saved_tensors), None, None, None, None


def _multiply(x: Tensor, nodes: Tensor, columns: Tensor, values: Tensor, offsets: Tensor) -> Tensor:
    if len(nodes) == 0:
        return x.clone()
    rows = embedding_bag(columns, x, offsets, mode="sum", per_sample_weights=values)  # [A, d]
    return x.index_copy(0, nodes, rows)


class RecentValues(Generic[Value]):
    """A thread-safe cache of the `size` most recently used values."""

    def __init__(self, size: int) -> None:
        self._size, self._held, self._lock = size, OrderedDict[Hashable, Value](), RLock()

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The value of a key; created by `make` if it is not in the cache."""
        with self._lock:
            value = self._held.pop(key) if key in self._held else make()
            self._held[key] = value
            if len(self._held) > self._size:
                self._held.popitem(last=False)
            return value

    def __reduce__(self) -> tuple[Any, ...]:
        return RecentValues, (self._size,)  # locks cannot be pickled; values are recomputed
