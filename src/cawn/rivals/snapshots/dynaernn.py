"""DynAERNN: predicts a node's next row of the adjacency matrix from its last rows, by an autoencoder with LSTMs.

Goyal, Chhetri, Canedo, "dyngraph2vec: Capturing network dynamics using dynamic graph representation learning",
Knowledge-Based Systems 2020.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import embedding_bag, leaky_relu

from cawn.rivals.snapshots.system import KnownNodes, SnapshotSettings, SnapshotSystem, Target, predictable_targets
from cawn.rivals.snapshots.windows import Graph, Snapshots, View
from cawn.systems.base import Context
from cawn.systems.settings import DrawsNoNegatives, IgnoresDirection, setting
from cawn.systems.training import Optimizer

Array = npt.NDArray[Any]

_ROWS = 1 << 12  # nodes per forward pass, in scoring


@dataclass(frozen=True)
class DynAERNNSettings(DrawsNoNegatives, IgnoresDirection, SnapshotSettings):
    """Settings of DynAERNN."""

    batch_size: int = setting(100, "nodes per step")
    lr: float = 1e-3
    epochs: int = 50
    patience: int = 5
    lookback: int = setting(3, "snapshots from which a prediction is made", 1, 1000)
    dim: int = setting(64, "width of a node's embedding", 1, 4096)
    wide: int = setting(500, "width of the outer layers and of the first LSTM", 1, 4096)
    narrow: int = setting(300, "width of the inner layers", 1, 4096)
    beta: float = setting(5.0, "weight of the error at links", 1e-6, 1e6)
    l1: float = setting(1e-6, "penalty on the absolute weights", 0, 1)
    l2: float = setting(1e-6, "penalty on the squared weights", 0, 1)
    nonlinks: int = setting(
        1000,
        "columns that are sampled per step for the error at non-links, if there are more nodes",
        1,
        1 << 30,
    )

    MEMORY: ClassVar[tuple[str, ...]] = ("nonlinks", "batch_size", "lookback", "wide")
    SEARCHED: ClassVar[dict[str, Any]] = {
        "lr": {"low": 1e-4, "high": 1e-2, "log": True},
        "dim": [32, 64, 128],
        "lookback": [2, 3, 5],
        "beta": {"low": 1.0, "high": 20.0, "log": True},
    }


class SparseRows(NamedTuple):
    """Sparse rows of adjacency matrices; the entries of row i start at offsets[i]."""

    columns: Tensor  # [n] nodes
    offsets: Tensor  # [rows + 1]
    owner: Tensor  # [n] the row of each entry
    pairs: Tensor  # [n] the position of each entry in `Graph.pairs`


class DynAERNN(nn.Module):
    """An encoder per lag, two LSTMs over the lags, and a decoder; the first and the last layer are sparse, with one
    column per known node."""

    def __init__(self, config: DynAERNNSettings, nodes: KnownNodes) -> None:
        super().__init__()
        lags, dim, wide, narrow = config.lookback, config.dim, config.wide, config.narrow
        self.nodes, self.lags = nodes, lags
        self.first = nn.Parameter(_uniform(lags * nodes.count + 1, wide, fan=nodes.count + wide))  # last row: unused
        self.first_bias = nn.Parameter(torch.zeros(lags, 1, wide))
        self.second = nn.Parameter(_uniform(lags, wide, narrow, fan=wide + narrow))
        self.second_bias = nn.Parameter(torch.zeros(lags, 1, narrow))
        self.third = nn.Parameter(_uniform(lags, narrow, dim, fan=narrow + dim))
        self.third_bias = nn.Parameter(torch.zeros(lags, 1, dim))
        self.lstm_1, self.lstm_2 = nn.LSTM(dim, wide), nn.LSTM(wide, dim)
        self.decoder = nn.Sequential(nn.Linear(dim, narrow), nn.LeakyReLU(), nn.Linear(narrow, wide), nn.LeakyReLU())
        self.last = nn.Parameter(_uniform(nodes.count, wide, fan=nodes.count + wide))
        self.last_bias = nn.Parameter(torch.zeros(nodes.count))

    def forward(self, entries: Tensor, offsets: Tensor, count: int) -> Tensor:
        """The input of the last layer for `count` nodes: [count, wide].

        Args:
            entries: Rows of `first` [n], one for each non-zero entry; grouped by lag, then by node.
            offsets: Where the entries of each group begin [lags * count].
        """
        found = embedding_bag(entries, self.first, offsets, mode="sum", padding_idx=len(self.first) - 1)
        y = leaky_relu(found.view(self.lags, count, -1) + self.first_bias)  # [lags, count, wide]
        y = leaky_relu(y @ self.second + self.second_bias)  # [lags, count, narrow]
        y = leaky_relu(y @ self.third + self.third_bias)  # [lags, count, dim]
        embedding = self.lstm_2(self.lstm_1(y)[0])[0][-1]  # [count, dim]
        decoded: Tensor = self.decoder(embedding)
        return decoded

    def entries(self, lags: Tensor, columns: Tensor) -> Tensor:
        """Rows of `first` for entries in columns, given as rows of `KnownNodes`: [n]."""
        return torch.where(columns < self.nodes.count, lags * self.nodes.count + columns, len(self.first) - 1)

    def predict(self, decoded: Tensor, columns: Tensor) -> Tensor:
        """Predicted entries of pairs, from decoded nodes [B, wide] and rows of `KnownNodes` [B]; 0 if unknown: [B]."""
        known = columns < self.nodes.count
        column = columns.clamp(max=self.nodes.count - 1)
        found: Tensor = leaky_relu((decoded * self.last[column]).sum(dim=-1) + self.last_bias[column]) * known
        return found

    def penalty(self, l1: float, l2: float) -> Tensor:
        """L1 and L2 penalties on all matrices."""
        matrices = [weight for weight in self.parameters() if weight.dim() > 1 and weight.shape[-2] > 1]
        penalties = [l1 * weight.abs().sum() + l2 * weight.square().sum() for weight in matrices]
        return torch.stack(penalties).sum()


def _uniform(*shape: int, fan: int) -> Tensor:
    limit = (6 / fan) ** 0.5
    return torch.empty(shape).uniform_(-limit, limit)


class Step(NamedTuple):
    """The nodes of one optimizer step."""

    target: Target
    nodes: Array  # [B]
    weight: Array  # [B] the number of nodes that each stands for


class DynAERNNSystem(SnapshotSystem):
    """DynAERNN, trained on all nodes with links in a target window and on as many others, weighted accordingly."""

    config: DynAERNNSettings
    module: DynAERNN

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.module = DynAERNN(self.config, KnownNodes(context)).to(self.device)

    @cached_property
    def _targets(self) -> list[Target]:
        return predictable_targets(self)

    @property
    def steps_per_epoch(self) -> int:
        return sum(-(-_rows_of(target) // self.config.batch_size) for target in self._targets)

    @cached_property
    def _appearance(self) -> Array:
        """The nodes of the training period in order of appearance."""
        found: Array = self.module.nodes.rows.argsort()[: self.module.nodes.count].cpu().numpy()
        return found

    def updates(self, epoch: int, first: int, optimizer: Optimizer) -> Iterator[Tensor]:
        past = self.past(self.context.events)
        for number, step in enumerate(self._steps(epoch)[first:], start=first):
            random = torch.Generator().manual_seed(self.context.train.seed_for("columns", epoch, number))
            yield self._loss(past, step, random) + self.module.penalty(self.config.l1, self.config.l2)

    def _steps(self, epoch: int) -> list[Step]:
        """The steps of an epoch, in random order."""
        draw, size = np.random.default_rng(self.context.train.seed_for("rows", epoch)), self.config.batch_size
        steps = []
        for target in self._targets:
            active = target.graph.host_nodes
            idle = np.setdiff1d(self._appearance[: target.seen], active)
            some = draw.choice(idle, _rows_of(target) - len(active), replace=False)
            nodes = np.concatenate([active, some])
            weight = np.repeat([1.0, len(idle) / max(len(some), 1)], [len(active), len(some)])
            order = draw.permutation(len(nodes))
            parts = [order[start : start + size] for start in range(0, len(order), size)]
            steps += [Step(target, nodes[part], weight[part].astype(np.float32)) for part in parts]
        return [steps[i] for i in draw.permutation(len(steps))]

    def _loss(self, past: Snapshots, step: Step, random: torch.Generator) -> Tensor:
        """The weighted squared error per node; `random` is on the CPU."""
        module, target = self.module, step.target
        decoded = self._decode(past, target.view, step.nodes)  # [B, wide]
        weight = torch.from_numpy(step.weight).to(self.device)  # [B]
        rows = self._rows([(target.graph, step.nodes)])
        linked = module.predict(decoded[rows.owner], self._known(past)[rows.columns])  # [n]
        error = (linked - 1) ** 2 * target.weight[rows.pairs] * weight[rows.owner]
        at_nonlinks = self._at_nonlinks(step, decoded, weight, random)
        return (self.config.beta**2 * error.sum() + at_nonlinks) / len(step.nodes)

    def _at_nonlinks(self, step: Step, decoded: Tensor, weight: Tensor, random: torch.Generator) -> Tensor:
        """The squared error at non-links, estimated from some columns if there are many."""
        module, seen, sampled = self.module, step.target.seen, self.config.nonlinks
        columns = torch.arange(seen) if seen <= sampled else torch.randint(seen, (sampled,), generator=random)
        columns = columns.to(self.device)
        found = leaky_relu(decoded @ module.last[columns].T + module.last_bias[columns])  # [B, columns]
        nodes = torch.from_numpy(step.nodes).to(self.device)[:, None]
        others = ~step.target.linked(nodes, torch.from_numpy(self._appearance).to(self.device)[columns])
        return (found**2 * others * weight[:, None]).sum() * (seen / len(columns))

    def _decode(self, past: Snapshots, view: View, nodes: Array) -> Tensor:
        """The input of the last layer for nodes [B]: [B, wide]."""
        ranges = past.latest(view, self.config.lookback)
        ranges = [(0, 0)] * (self.config.lookback - len(ranges)) + ranges
        graphs = [past.graph(links) for links in ranges]
        rows = self._rows([(graph, nodes) for graph in graphs])
        entries = self.module.entries(rows.owner // len(nodes), self._known(past)[rows.columns])
        decoded: Tensor = self.module(entries, rows.offsets[:-1], len(nodes))
        return decoded

    def _known(self, past: Snapshots) -> Tensor:
        return self.module.nodes.all_of(past.num_nodes)

    def _rows(self, wanted: list[tuple[Graph, Array]]) -> SparseRows:
        """The entries of the rows of nodes in several graphs, one after another."""
        columns, pairs, lengths = [], [], []
        for graph, nodes in wanted:
            at = np.searchsorted(graph.host_nodes, nodes)
            at[at == len(graph.host_nodes)] = 0
            has = graph.host_nodes[at] == nodes if len(graph.host_nodes) else np.zeros(len(nodes), bool)
            start = np.where(has, graph.starts[at], 0)
            length = np.where(has, graph.starts[np.minimum(at + 1, len(graph.starts) - 1)] - start, 0)
            found = np.repeat(start - (np.cumsum(length) - length), length) + np.arange(length.sum())
            columns.append(graph.host_pairs[1][found])
            pairs.append(found)
            lengths.append(length)
        length = np.concatenate(lengths)
        arrays = (
            np.concatenate(columns),
            np.append(0, np.cumsum(length)),
            np.repeat(np.arange(len(length)), length),
            np.concatenate(pairs),
        )
        return SparseRows(*(torch.from_numpy(array.astype(np.int64)).to(self.device) for array in arrays))

    def embedder(self, past: Snapshots) -> Callable[[View], tuple[Tensor, Tensor, Tensor]]:
        return lambda view: self._embed(past, view)

    def _embed(self, past: Snapshots, view: View) -> tuple[Tensor, Tensor, Tensor]:
        """Decoded nodes, the row of each node in them, and the row of each node in `KnownNodes`.

        All nodes without links in the last windows share the last row.
        """
        ranges = past.latest(view, self.config.lookback)
        active = [np.empty(0, np.int64), *(past.graph(links).host_nodes for links in ranges)]
        nodes = np.append(np.unique(np.concatenate(active)), past.num_nodes)
        parts = [nodes[start : start + _ROWS] for start in range(0, len(nodes), _ROWS)]
        decoded = torch.cat([self._decode(past, view, part) for part in parts])  # [A + 1, wide]
        row = np.full(past.num_nodes + 1, len(nodes) - 1)
        row[nodes] = np.arange(len(nodes))
        return decoded, torch.from_numpy(row).to(self.device), self._known(past)

    def logits(self, embeddings: tuple[Tensor, Tensor, Tensor], src: Tensor, dst: Tensor) -> Tensor:
        decoded, row, known = embeddings
        forward = self.module.predict(decoded[row[src]], known[dst])
        backward = self.module.predict(decoded[row[dst]], known[src])
        return (forward + backward) / 2


def _rows_of(target: Target) -> int:
    """The number of nodes to train on."""
    active = len(target.graph.host_nodes)
    return min(2 * active, max(target.seen, active))
