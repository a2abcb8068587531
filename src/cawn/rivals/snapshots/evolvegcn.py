"""EvolveGCN: a graph convolution of the last snapshot, whose weights are evolved over the snapshots by a GRU.

Pareja et al., "EvolveGCN: Evolving Graph Convolutional Networks for Dynamic Graphs", AAAI 2020.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import one_hot

from cawn.kernels import rng
from cawn.rivals.snapshots.system import SnapshotSettings, SnapshotSystem, Target, predictable_targets
from cawn.rivals.snapshots.windows import Graph, Normalised, RecentValues, Snapshots, View
from cawn.systems.base import Context
from cawn.systems.layers import Merge
from cawn.systems.settings import setting
from cawn.systems.training import Optimizer, contrast_loss

LOOP = 1.0  # weight of self-loops in the normalised adjacency


@dataclass(frozen=True)
class EvolveGCNSettings(SnapshotSettings):
    """Settings of EvolveGCN."""

    batch_size: int = setting(1000, "links per step, at most; all are of one snapshot")
    lr: float = 1e-3
    epochs: int = 200
    patience: int = 20
    variant: Literal["O", "H"] = setting("O", "H: the weights also depend on the nodes of each snapshot")
    history: int = setting(6, "snapshots over which the weights evolve before the last one", 0, 10_000)
    hidden: int = setting(100, "width of both layers and of the classifier", 1, 4096)
    max_degree: int = setting(32, "degrees are one-hot features up to this one", 1, 100_000)

    MEMORY: ClassVar[tuple[str, ...]] = ("batch_size", "history", "hidden", "max_degree")
    SEARCHED: ClassVar[dict[str, Any]] = {
        "lr": {"low": 1e-4, "high": 1e-2, "log": True},
        "hidden": [32, 64, 100],
        "history": [3, 6, 12],
        "variant": ["O", "H"],
    }


class SnapshotInput:
    """The input of the network for one window; features are computed on first use.

    Args:
        x: Node attributes [N, d].
        max_degree: Larger degrees count as this one.
    """

    def __init__(self, graph: Graph, x: Tensor, max_degree: int) -> None:
        self._graph, self._x, self._max_degree = graph, x, max_degree
        self.nodes = graph.nodes  # [A] with links

    @property
    def matrix(self) -> Normalised:
        return self._graph.normalised(LOOP)

    @cached_property
    def features(self) -> Tensor:
        """One-hot degrees, as source and as destination, and node attributes: [N, width]."""
        degrees = [self._one_hot(degree) for degree in (self._graph.out_degree, self._graph.in_degree)]
        return torch.cat([*degrees, self._x], dim=1)

    def _one_hot(self, degree: Tensor) -> Tensor:
        of_all = torch.zeros(len(self._x), dtype=torch.int64, device=degree.device)
        of_all = of_all.index_copy(0, self.nodes, degree.clamp(max=self._max_degree))
        return one_hot(of_all, self._max_degree + 1).float()


class EvolveGCN(nn.Module):
    """Embeds all nodes given a sequence of snapshots, and classifies pairs."""

    def __init__(self, config: EvolveGCNSettings, width: int) -> None:
        super().__init__()
        sizes = [(width, config.hidden), (config.hidden, config.hidden)]
        self.weights = nn.ModuleList(EvolvingWeight(*size, sees_nodes=config.variant == "H") for size in sizes)
        self.sees_nodes = config.variant == "H"
        self.activation = nn.RReLU()
        self.classifier = Merge(config.hidden, config.hidden, config.hidden, 1)

    def forward(self, snapshots: Sequence[SnapshotInput]) -> Tensor:
        """Embeddings of all nodes at the last snapshot: [N, hidden]."""
        weights: list[Tensor] = [weight.get_parameter("first") for weight in self.weights]
        for snapshot in snapshots[:-1]:
            if self.sees_nodes:
                weights, _ = self._embed(weights, snapshot)
            else:
                weights = [evolving(weight) for evolving, weight in zip(self.weights, weights, strict=True)]
        return self._embed(weights, snapshots[-1])[1]

    def _embed(self, weights: list[Tensor], snapshot: SnapshotInput) -> tuple[list[Tensor], Tensor]:
        """The weights of all layers at a snapshot, and the embeddings of its nodes."""
        h, found = snapshot.features, []  # [N, width]
        for evolving, weight in zip(self.weights, weights, strict=True):
            found.append(evolving(weight, h[snapshot.nodes]))  # [in, out]
            h = self.activation(snapshot.matrix(h @ found[-1]))  # [N, out]
        return found, h


class EvolvingWeight(nn.Module):
    """The weight matrix of a layer: its initial value, and the GRU that evolves it from one snapshot to the next.

    The GRU's input is the weight itself (variant O), or the layer's input at as many selected nodes as the weight has
    columns (variant H).
    """

    def __init__(self, rows: int, columns: int, *, sees_nodes: bool) -> None:
        super().__init__()
        self.first = nn.Parameter(_uniform(rows, columns, scale=columns))
        self.gru = MatrixGRU(rows, columns)
        self.direction = nn.Parameter(_uniform(rows, 1, scale=rows)[:, 0]) if sees_nodes else None  # p of the paper

    def forward(self, weight: Tensor, h: Tensor | None = None) -> Tensor:
        """The next weight [rows, columns]; variant H uses the layer's input at the nodes with links, h [A, rows]."""
        given = weight if self.direction is None or h is None else self.summary(h, weight.shape[1])
        evolved: Tensor = self.gru(given, weight)
        return evolved

    def summary(self, h: Tensor, size: int) -> Tensor:
        """The inputs of the nodes with the largest projections on `direction`, each times its tanh: [rows, size].

        If there are fewer nodes, the remaining columns are zeros.
        """
        assert self.direction is not None
        projection = h @ (self.direction / self.direction.norm())  # [A]
        value, top = projection.topk(min(size, len(h)))
        chosen = h[top] * torch.tanh(value)[:, None]  # [size, rows]
        return nn.functional.pad(chosen, (0, 0, 0, size - len(chosen))).T


class MatrixGRU(nn.Module):
    """A GRU whose state is a matrix; all columns share the same weights but have their own biases."""

    def __init__(self, rows: int, columns: int) -> None:
        super().__init__()
        self.input = nn.Parameter(_uniform(3 * rows, rows, scale=rows))  # of the update gate, reset gate and candidate
        self.state = nn.Parameter(_uniform(3 * rows, rows, scale=rows))
        self.bias = nn.Parameter(torch.zeros(3 * rows, columns))

    def forward(self, given: Tensor, state: Tensor) -> Tensor:
        """The next state, from an input of the same shape [rows, columns]."""
        update, reset, candidate = (self.input @ given + self.bias).chunk(3)  # [rows, columns] each
        for_update, for_reset, for_candidate = self.state.chunk(3)  # [rows, rows] each
        z = torch.sigmoid(update + for_update @ state)
        r = torch.sigmoid(reset + for_reset @ state)
        new = torch.tanh(candidate + for_candidate @ (r * state))
        return (1 - z) * state + z * new


def _uniform(rows: int, columns: int, *, scale: int) -> Tensor:
    return torch.empty(rows, columns).uniform_(-(scale**-0.5), scale**-0.5)


class EvolveGCNSystem(SnapshotSystem):
    """EvolveGCN, trained with one step per snapshot, or several if it has more than `batch_size` links."""

    config: EvolveGCNSettings
    module: EvolveGCN

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        width = 2 * (self.config.max_degree + 1) + self.node_width
        self.module = EvolveGCN(self.config, width).to(self.device)

    @cached_property
    def _steps(self) -> list[tuple[Target, int, int]]:
        """The target and a range of its links, for each step of an epoch."""
        size = self.config.batch_size
        return [
            (target, start, min(start + size, target.chosen.stop))
            for target in predictable_targets(self)
            for start in range(target.chosen.start, target.chosen.stop, size)
        ]

    @property
    def steps_per_epoch(self) -> int:
        return len(self._steps)

    def updates(self, epoch: int, first: int, optimizer: Optimizer) -> Iterator[Tensor]:
        train, past = self.context.train, self.past(self.context.events)
        order = self._order(epoch)
        links = train.positions[order]
        ends = train.events.src[links], train.events.dst[links], train.negatives(epoch)[order]
        src, dst, negative = (past.rows(nodes) for nodes in ends)  # [n] each
        weight = None if train.weights is None else torch.from_numpy(train.weights[order]).to(self.device)
        for step in rng.order(train.seed_for("epoch", epoch), len(self._steps))[first:]:
            target, start, stop = self._steps[step]
            part = slice(start, stop)
            h = self.module(self._snapshots(past, target.view))
            both = torch.cat([dst[part], negative[part]])
            logits = self.logits(h, src[part].repeat(2), both)  # [2B]
            yield contrast_loss(logits, None if weight is None else weight[part])

    def _order(self, epoch: int) -> np.ndarray:
        """The training links, shuffled within each window: [n]."""
        train = self.context.train
        window = self.grid.windows(train.events.t[train.positions])
        return np.lexsort((rng.order(train.seed_for("epoch", epoch), len(window)), window))

    def embedder(self, past: Snapshots) -> Callable[[View], Tensor]:
        held = RecentValues[SnapshotInput](self.config.history + 1)  # consecutive windows share all but one snapshot
        return lambda view: self.module(self._snapshots(past, view, held))

    def logits(self, embeddings: Tensor, src: Tensor, dst: Tensor) -> Tensor:
        found: Tensor = self.module.classifier(embeddings[src], embeddings[dst]).squeeze(-1)
        return found

    def _snapshots(
        self, past: Snapshots, view: View, held: RecentValues[SnapshotInput] | None = None
    ) -> list[SnapshotInput]:
        """The snapshots from which a view is embedded; a single empty one if no link is known."""
        ranges = past.latest(view, self.config.history + 1) or [(0, 0)]
        x, held = past.x[:, : self.node_width], held or RecentValues(0)
        return [held.get(links, partial(self._snapshot, past.graph(links), x)) for links in ranges]

    def _snapshot(self, graph: Graph, x: Tensor) -> SnapshotInput:
        return SnapshotInput(graph, x, self.config.max_degree)
