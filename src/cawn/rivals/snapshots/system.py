"""Common parts of the systems on snapshots: the choice of the granularity, the scorer, and tables of known nodes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from threading import RLock
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from cawn.data.events import Events
from cawn.data.ties import in_canonical_order
from cawn.errors import DataError, brief
from cawn.kernels.cuda.launch import Pieces
from cawn.rivals.snapshots.windows import EMPTY, Graph, RecentValues, Snapshots, View, WindowGrid
from cawn.systems.base import Context
from cawn.systems.settings import Alternatives, Settings, setting
from cawn.systems.training import Optimizer, TrainingLinks

Array = npt.NDArray[Any]

CANDIDATES = (24, 8, 62, 160)  # numbers of training snapshots to compare; the first is kept unless another is better
TRIAL_STEPS = 200  # of each short training run
_PAIRS = 1 << 16  # per forward pass, in scoring
_KEPT = 8  # cached embeddings of all nodes, for the most recently used windows


@dataclass(frozen=True)
class SnapshotSettings(Settings):
    """Settings that all systems on snapshots share."""

    schedule: Literal["constant", "one-cycle"] = "constant"
    weight_decay: float = 0.0
    negatives: Literal["random", "mixed"] = "random"
    pool: Literal["period", "training"] = "training"
    snapshots: int = setting(
        0,
        "equal spans of time in the training period; 0 compares several numbers on validation links",
        0,
        1_000_000,
    )

    PRESETS: ClassVar[dict[str, dict[str, Any]]] = {"default": {}, "fast": {"epochs": 20, "patience": 4}}

    def alternatives(self, train: Events) -> Alternatives | None:
        """The granularities that snapshots = 0 compares."""
        if self.snapshots > 0:
            return None
        grids = {f"{count} snapshots": WindowGrid.of(train.t, count) for count in CANDIDATES}
        facts = {name: {"origin": grid.origin, "span": grid.span} for name, grid in grids.items()}
        return Alternatives("granularities", self, facts, TRIAL_STEPS)


class SnapshotSystem(ABC):
    """A system that embeds all nodes once per window, and scores a pair from the embeddings of its two nodes.

    A subclass sets `module`, `steps_per_epoch` and `updates`, and defines `embedder` and `logits`.
    """

    module: nn.Module

    def __init__(self, context: Context) -> None:
        self.context, self.config, self.device = context, context.config, context.device
        origin, span = context.fact("origin", lambda: self._grid().origin), context.fact("span", self._span)
        if not 0 < span < math.inf or not math.isfinite(origin):
            raise DataError(f"origin {brief(origin)} or span {brief(span)} is out of range")
        self.grid = WindowGrid(origin, float(span))
        x = context.events.x if self.config.attributes else None
        self.node_width = 0 if x is None else x.shape[1]
        self._past: tuple[Events, Snapshots] | None = None  # of the most recent events

    @abstractmethod
    def updates(self, epoch: int, first: int, optimizer: Optimizer) -> Iterator[Tensor]:
        """See `System`."""

    @abstractmethod
    def embedder(self, past: Snapshots) -> Callable[[View], Any]:
        """A function that returns the embeddings of all nodes for a view of these snapshots."""

    @abstractmethod
    def logits(self, embeddings: Any, src: Tensor, dst: Tensor) -> Tensor:
        """Logits [B] of pairs of rows."""

    def past(self, events: Events) -> Snapshots:
        """The snapshots of a history."""
        if self._past is None or self._past[0] is not events:
            self._past = events, Snapshots(events, self.grid, self.device)
        return self._past[1]

    def scorer(self, events: Events) -> SnapshotScorer:
        return SnapshotScorer(self, self.past(events))

    def _grid(self) -> WindowGrid:
        return WindowGrid.of(self.context.train.known.t, self.config.snapshots or CANDIDATES[0])

    def _span(self) -> float:
        return self._grid().span


class SnapshotScorer:
    """Scores pairs with the current weights of a system; queries of one window share the embeddings of all nodes."""

    def __init__(self, system: SnapshotSystem, past: Snapshots) -> None:
        self._system, self._past, self._pieces, self._lock = system, past, Pieces(_PAIRS), RLock()
        self._version = -1

    def __reduce__(self) -> tuple[Any, ...]:
        return SnapshotScorer, (self._system, self._past)  # locks cannot be pickled; embeddings are recomputed

    def __call__(self, src: Array, dst: Array, t: Array) -> Array:
        return self._score(src, dst, *self._past.views(t))

    def score_after(self, src: Array, dst: Array, t: Array, visible: Array) -> Array:
        """See `PrefixScorer`: the scores if the stream consisted of the first `visible` links alone."""
        return self._score(src, dst, *self._past.views(t, visible))

    @torch.no_grad()
    def _score(self, src: Array, dst: Array, known: Array, gap: Array) -> Array:
        found, code = np.empty(len(src)), known * (EMPTY + 1) + gap
        order = np.argsort(code, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(code[order])) + 1) if len(src) else []
        with self._lock:
            self._renew()
            for some in groups:  # of the same view
                view = View(int(known[some[0]]), int(gap[some[0]]))
                found[some] = self._score_view(view, src[some], dst[some])
        return found

    def _score_view(self, view: View, src: Array, dst: Array) -> Array:
        system, past = self._system, self._past
        embeddings = self._kept.get(view, lambda: self._embed(view))

        def score(first: int, last: int) -> Array:
            u, v = past.rows(src[first:last]), past.rows(dst[first:last])
            scored: Array = system.logits(embeddings, u, v).double().cpu().numpy()
            return scored

        return np.concatenate(list(self._pieces(score, len(src))))

    def _renew(self) -> None:
        """Drop the cached embeddings if the weights have changed since they were computed."""
        self._system.module.eval()
        version = sum(weight._version for weight in self._system.module.parameters())
        if version != self._version:
            self._version, self._kept = version, RecentValues[Any](_KEPT)
            self._embed = self._system.embedder(self._past)


class KnownNodes(nn.Module):
    """Rows of a table with one row per training node, in order of appearance; all other nodes share one row."""

    rows: Tensor

    def __init__(self, context: Context) -> None:
        super().__init__()
        sizes = context.fact("nodes", lambda: [context.events.num_nodes, len(_appearance(context.train.known))])
        self.count = int(sizes[1])
        rows = torch.full((int(sizes[0]),), self.count)
        if context.training is not None:
            rows[torch.from_numpy(_appearance(context.train.known))] = torch.arange(self.count)
        self.register_buffer("rows", rows)  # [num_nodes], `count` for nodes without training links

    def all_of(self, num_nodes: int) -> Tensor:
        """The rows of nodes 0..num_nodes, the last of which stands for unknown nodes: [num_nodes + 1]."""
        known = self.rows[:num_nodes].clamp(0, self.count)
        return nn.functional.pad(known, (0, num_nodes + 1 - len(known)), value=self.count)


def _appearance(events: Events) -> npt.NDArray[np.int64]:
    """The nodes with links in order of first appearance, independent of the order of simultaneous rows."""
    ordered = in_canonical_order(events)
    nodes, first = np.unique(np.stack([ordered.src, ordered.dst], axis=1), return_index=True)
    return np.asarray(nodes[np.argsort(first)], np.int64)


@dataclass(frozen=True)
class Target:
    """A window to predict in training."""

    view: View  # what is known before it
    graph: Graph  # its links
    weight: Tensor  # [P] the sum of the loss weights of the links of each pair in `graph`
    chosen: slice  # the links to train on, as a part of `TrainingLinks.positions`
    seen: int  # number of nodes that have appeared up to its end

    def linked(self, src: Tensor, dst: Tensor) -> Tensor:
        """Whether pairs are linked in this window: bool, of the shape of src and dst."""
        codes, wanted = self.graph.codes, src * self.graph.num_nodes + dst
        at = torch.searchsorted(codes, wanted).clamp(max=len(codes) - 1)
        return codes[at] == wanted


def targets(system: SnapshotSystem) -> list[Target]:
    """The windows of the training period that have links to train on."""
    train, past = system.context.train, system.past(system.context.events)
    t = train.events.t[train.positions]
    _, first = np.unique(system.grid.windows(t), return_index=True)
    (known, gap), ends = past.views(t[first]), past.ends(t[first])
    seen = np.searchsorted(np.sort(_first_links(past.events)), ends)
    found = []
    for i, stop in enumerate(np.append(first[1:], len(t)).tolist()):
        graph, chosen = past.graph((int(known[i]), int(ends[i]))), slice(int(first[i]), stop)
        weight = _pair_weights(train, chosen, graph)
        found.append(Target(View(int(known[i]), int(gap[i])), graph, weight, chosen, int(seen[i])))
    return found


def predictable_targets(system: SnapshotSystem) -> list[Target]:
    """The targets that have at least one known link before them."""
    found = [target for target in targets(system) if target.view.known]
    if not found:
        raise DataError("all links to train on are in the first snapshot: give more snapshots or a longer history")
    return found


def _pair_weights(train: TrainingLinks, chosen: slice, graph: Graph) -> Tensor:
    if train.weights is None:
        return graph.count
    links, weights = train.positions[chosen], torch.from_numpy(train.weights[chosen]).to(graph.device)
    src, dst = (torch.from_numpy(ends[links].astype(np.int64)) for ends in (train.events.src, train.events.dst))
    total = torch.zeros_like(graph.count)
    for one, other, part in ((src, dst, weights), (dst, src, weights * (src != dst).to(graph.device))):
        codes = (one * graph.num_nodes + other).to(graph.device)
        total = total.index_add(0, torch.searchsorted(graph.codes, codes), part)
    return total


def _first_links(events: Events) -> npt.NDArray[np.int64]:
    """The position of the first link of each node that has links."""
    return np.unique(np.stack([events.src, events.dst], axis=1), return_index=True)[1] // 2
