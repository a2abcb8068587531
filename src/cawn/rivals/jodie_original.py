"""JODIE as its paper defines it: two recurrent networks, projection in time, and prediction of the next item.

Kumar, Zhang and Leskovec, "Predicting Dynamic Embedding Trajectory in Temporal Interaction Networks", KDD 2019. Every
node has a state as a source ("user") and another as a destination ("item"), so a network need not be bipartite.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from cawn.data.events import Events
from cawn.errors import DataError
from cawn.kernels.jit import njit_fast
from cawn.rivals.matrices import multiply, multiply_transposed
from cawn.rivals.stream import State
from cawn.rivals.versions import NONE, MessagePlan, StateVersions, VersionedLinks, VersionedSystem, host_array
from cawn.systems.base import Context
from cawn.systems.settings import DrawsNoNegatives, PublishedSettings, setting

Array = npt.NDArray[Any]

SOURCE, ITEM = 0, 1  # the roles
_MOST_WEIGHTS = 1 << 29  # of the one-hot layer
_SMALLEST_NORM = 1e-12


@dataclass(frozen=True)
class JodieOriginalSettings(DrawsNoNegatives, PublishedSettings):
    """Settings of JODIE, with the defaults of its paper."""

    batch_size: int = setting(200, "links per optimizer step; back-propagation ends at its first link")
    lr: float = 1e-3
    epochs: int = 50
    patience: int = 10
    weight_decay: float = 1e-5
    dim: int = setting(128, "width of the dynamic states", 1, 4096)
    smoothness: float = setting(1.0, "weight of both smoothness terms in the loss", 0, 1e6)

    MEMORY: ClassVar[tuple[str, ...]] = ("batch_size", "dim")
    SEARCHED: ClassVar[dict[str, Any]] = {
        "lr": {"low": 1e-4, "high": 1e-2, "log": True},
        "batch_size": [100, 200, 400],
        "dim": [32, 64, 128],
        "smoothness": {"low": 0.01, "high": 100.0, "log": True},
    }


class Role(nn.Module):
    """The RNN of one role: tanh(A own + B other + C [gap | attributes] + c)."""

    def __init__(self, dim: int, link: int) -> None:
        super().__init__()
        self.own, self.other = nn.Linear(dim, dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.drive = nn.Linear(1 + link, dim)


class NextItem(nn.Module):
    """j~ = W [uhat | i' | ibar' | ubar] + b, where ibar' and ubar are one-hot, so each selects a row of a table.

    Nodes without training links have no one-hot vector: their row is 0.
    """

    sources: Tensor
    items: Tensor

    def __init__(self, dim: int, node: int, sources: list[int], items: list[int]) -> None:
        super().__init__()
        out = dim + len(items)
        self.register_buffer("sources", torch.tensor(sources), persistent=False)  # node ids [U], ascending; facts
        self.register_buffer("items", torch.tensor(items), persistent=False)  # node ids [I]
        self.dense = nn.Linear(2 * dim + 2 * node, out)
        inputs = 2 * dim + 2 * node + len(items) + 1 + len(sources)  # of the whole layer, on which its scale depends
        nn.init.uniform_(self.dense.weight, -(inputs**-0.5), inputs**-0.5)
        self.source_rows = nn.Parameter(torch.zeros(len(sources), out))
        self.item_rows = nn.Parameter(torch.zeros(len(items) + 1, out))  # the last for "no item yet"

    def forward(self, dense: Tensor, src: Tensor, previous: Tensor) -> Tensor:
        """Predictions [B, d + I] from uhat, i' and attributes [B, ...], and the ids of u and i', -1 for no item."""
        j = self.dense(dense)
        row, known = _place(self.sources, src)
        j = j + self.source_rows[row] * known[:, None]
        row, known = _place(self.items, previous)
        row = torch.where(previous < 0, len(self.items), row)
        predicted: Tensor = j + self.item_rows[row] * (known | (previous < 0))[:, None]
        return predicted

    def squared_distance(self, j: Tensor, dynamic: Tensor, dst: Tensor) -> Tensor:
        """|j~ - [i | ibar]|^2 for items with these dynamic states [B, d] and ids [B]: [B].

        |s - onehot(i)|^2 = |s|^2 - 2 s_i + 1, so no one-hot vector is built. An item without training links has a
        coordinate of its own that is predicted as 0.
        """
        moving, static = j[:, : dynamic.shape[1]], j[:, dynamic.shape[1] :]
        row, known = _place(self.items, dst)
        own = static.gather(1, row[:, None]).squeeze(1) * known
        return (moving - dynamic).square().sum(dim=1) + static.square().sum(dim=1) - 2 * own + 1


class Jodie(nn.Module):
    """The weights: the initial states, the recurrence of each role, the projection and the prediction."""

    def __init__(self, dim: int, link: int, node: int, sources: list[int], items: list[int]) -> None:
        super().__init__()
        self.first = nn.Parameter(normalize(torch.rand(2, dim), dim=1))  # of sources and of destinations
        self.source, self.item = Role(dim, link), Role(dim, link)
        self.projection = nn.Parameter(torch.empty(dim).normal_(std=dim**-0.5))  # w
        self.next_item = NextItem(dim, node, sources, items)


class JodieOriginal(VersionedSystem):
    """JODIE. A state belongs to a node in a role: owner v is v as a source, owner N + 1 + v is v as a destination.

    Id N stands for all nodes that are not in the events.
    """

    module: Jodie

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        config: JodieOriginalSettings = context.config
        self.scales = self.gap_scale("source_gaps", 0), self.gap_scale("destination_gaps", 1)
        sources = context.fact("sources", lambda: np.unique(context.train.known.src).tolist())
        items = context.fact("items", lambda: np.unique(context.train.known.dst).tolist())
        weights = (len(sources) + len(items) + 2 * config.dim) * (len(items) + config.dim)
        if weights > _MOST_WEIGHTS:
            raise DataError(
                f"{len(sources):,} sources and {len(items):,} destinations: the one-hot vectors of jodie-original need "
                f"{weights:,} weights, more than {_MOST_WEIGHTS:,}; use the system jodie"
            )
        self.module = Jodie(config.dim, self.link_width, self.node_width, sources, items).to(self.device)

    def owners(self, events: Events) -> Array:
        return np.stack(
            [_owners(ends, role, events.num_nodes) for role, ends in enumerate((events.src, events.dst))], 1
        )

    def new_state(self, num_nodes: int) -> State:
        return {"states": torch.zeros(2 * num_nodes + 2, self.config.dim, device=self.device)}

    def without_links(self, stream: VersionedLinks, owners: Array) -> Tensor:
        return self.module.first[self.tensor((owners > stream.events.num_nodes).astype(np.int64))]

    def roll(self, versions: StateVersions) -> tuple[MessagePlan, Tensor]:
        stream, first, last = versions.stream, versions.first, versions.last
        owners = stream.owners[first:last]
        plan = stream.plan(first, last, np.stack([owners.ravel(), owners[:, ::-1].ravel()], axis=1))
        drive = self._drives(stream, 2 * first + np.arange(len(plan.rows)))  # [M, d]
        before = versions.before(plan.outside, plan.outside_last)  # [L, d]
        roles = self.module.source, self.module.item
        own, other = (torch.stack([getattr(role, name).weight for role in roles]) for name in ("own", "other"))
        rolled: Any = JodieRecurrence.apply
        return plan, rolled(before, drive, own, other, plan)

    def _drives(self, stream: VersionedLinks, messages: Array) -> Tensor:
        """The contribution of gaps and attributes to each message: [M, d]."""
        links, role = messages // 2, messages % 2
        last, t = stream.last_message(stream.owners[links, role], stream.moment[links]), stream.events.t[links]
        found = []
        for part, scale in zip((self.module.source, self.module.item), self.scales, strict=True):
            given = [self.gaps(t, last, stream, scale)[:, None]]
            if stream.msg is not None:
                given.append(self.tensor(stream.msg[links]))
            found.append(part.drive(torch.cat(given, dim=1)))
        return torch.where(self.tensor(role == SOURCE)[:, None], found[SOURCE], found[ITEM])

    def _predict(self, versions: StateVersions, src: Array, t: Array, visible: Array) -> Tensor:
        """j~ of sources at t after the first `visible` links: [B, d + I]."""
        stream, num_nodes = versions.stream, versions.stream.events.num_nodes
        owners = _owners(src, SOURCE, num_nodes)
        last = stream.last_message(owners, visible)
        previous = np.full(len(src), NONE)
        if len(stream.events):
            previous = np.where(last >= 0, stream.events.dst[np.maximum(last, 0) // 2], NONE).astype(np.int64)
        gap = self.gaps(t, last, stream, self.scales[SOURCE])[:, None]
        projected = versions(owners, visible) * (1 + gap * self.module.projection)  # uhat [B, d]
        item = versions(_owners(np.where(previous >= 0, previous, num_nodes), ITEM, num_nodes), visible)  # i' [B, d]
        dense = [projected, item]
        if stream.x is not None:
            dense += [stream.x[self.tensor(np.where(ids < num_nodes, ids, -1))] for ids in (src, previous)]
        predicted: Tensor = self.module.next_item(torch.cat(dense, dim=1), self.tensor(src), self.tensor(previous))
        return predicted

    def loss(self, versions: StateVersions, weight: Tensor | None, epoch: int) -> Tensor:
        stream, some = versions.stream, slice(versions.first, versions.last)
        events, before = stream.events, stream.moment[some]
        src, dst, t = events.src[some].astype(np.int64), events.dst[some].astype(np.int64), events.t[some]
        after = np.searchsorted(events.t, t, side="right")
        old = versions(stream.owners[some], before[:, None])  # [n, 2, d]
        new = versions(stream.owners[some], after[:, None])
        j = self._predict(versions, src, t, before)
        error = self.module.next_item.squared_distance(j, old[:, 1].detach(), self.tensor(dst))
        losses = error + self.config.smoothness * (new - old.detach()).square().sum(dim=(1, 2))
        loss: Tensor = (losses if weight is None else losses * weight).mean()
        return loss

    def logits(self, versions: StateVersions, src: Array, dst: Array, t: Array, visible: Array) -> Tensor:
        is_new = np.append(True, (src[1:] != src[:-1]) | (t[1:] != t[:-1]) | (visible[1:] != visible[:-1]))
        question = self.tensor(np.cumsum(is_new[: len(src)]) - 1)  # one prediction for all destinations
        j = self._predict(versions, src[is_new], t[is_new], visible[is_new])
        item = versions(_owners(dst, ITEM, versions.stream.events.num_nodes), visible)  # [B, d]
        squared = self.module.next_item.squared_distance(j[question], item, self.tensor(dst))
        logits: Tensor = -squared.clamp(min=1e-12).sqrt()
        return logits


class JodieRecurrence(torch.autograd.Function):
    """The state after each message, normalise(tanh(A own + B other + drive)), computed message by message.

    Forward and backward run in compiled loops on the host for every device: few messages are independent of each other.
    """

    @staticmethod
    def forward(ctx: Any, before: Tensor, drive: Tensor, own: Tensor, other: Tensor, plan: MessagePlan) -> Tensor:
        """The states [L + M, d] before the messages, then after each; A and B by role are [2, d, d]."""
        m, d = drive.shape
        ctx.device, ctx.own, ctx.other = before.device, host_array(own), host_array(other)
        ctx.messages = JodieMessages(plan.rows, plan.previous, host_array(drive))
        ctx.tables = JodieTables(
            z=np.concatenate([host_array(before), np.empty((m, d), np.float32)]),
            new=np.empty((m, d), np.float32),
            mean=np.empty((m, d), np.float32),
            averaged=np.empty(m, np.int64),
            norm=np.empty(m, np.float32),
        )
        states_forward(ctx.own, ctx.other, ctx.messages, ctx.tables)
        return torch.from_numpy(ctx.tables.z).to(ctx.device)

    @staticmethod
    def backward(ctx: Any, by_table: Tensor) -> Any:
        messages, tables = ctx.messages, ctx.tables
        by_z, by_drive = host_array(by_table).copy(), np.empty_like(messages.drive)
        states_backward(ctx.own, ctx.other, messages, tables, by_z, by_drive)
        of_role = by_drive.reshape(-1, 2, by_drive.shape[1]).transpose(1, 2, 0)  # [2, d, n]
        read = tables.z[messages.rows].reshape(-1, 2, 2, by_drive.shape[1])  # [n, role, own or other, d]
        by_own, by_other = (of_role @ read[:, :, which].swapaxes(0, 1) for which in (0, 1))  # [2, d, d]
        found = by_z[: len(by_z) - len(by_drive)], by_drive, by_own, by_other
        return *(torch.from_numpy(np.ascontiguousarray(each)).to(ctx.device) for each in found), None


def _owners(nodes: Array, role: int, num_nodes: int) -> npt.NDArray[np.int64]:
    """The owners of the states of nodes in a role."""
    return np.minimum(nodes, num_nodes).astype(np.int64) + role * (num_nodes + 1)


def _place(known: Tensor, nodes: Tensor) -> tuple[Tensor, Tensor]:
    """The position of each node in an ascending list of ids, and whether it is in it: [B] each."""
    at = torch.searchsorted(known, nodes).clamp(max=len(known) - 1)
    return at, known[at] == nodes


# The states after each link, and their gradients. Row r of the tables is a state from before the links (r < L), or what
# message r - L makes of one. Message 2e is what link e does to its source, message 2e + 1 what it does to its
# destination. Messages at one time read rows from before that time, and the state after them is their mean, divided by
# its norm.


class JodieMessages(NamedTuple):
    """M consecutive messages and what they read."""

    rows: Array  # of the owner and of the other end [M, 2]
    previous: Array  # the message before it to the same owner at the same time [M]; -1 for none
    drive: Array  # what gap and attributes add to the state, before the nonlinearity [M, d]


class JodieTables(NamedTuple):
    """What the forward pass writes."""

    z: Array  # the states [L + M, d]
    new: Array  # tanh(own z_own + other z_other + drive) [M, d]
    mean: Array  # its mean with those to the same owner at the same time so far [M, d]
    averaged: Array  # the number of messages in that mean [M]
    norm: Array  # of the mean [M]


@njit_fast
def states_forward(own: Array, other: Array, messages: JodieMessages, tables: JodieTables) -> None:
    """Fill the tables, of which the first L rows of z are given; `own` and `other` are weights by role [2, d, d]."""
    z, mean = tables.z, tables.mean
    num_outside = len(z) - len(messages.rows)
    for m in range(len(messages.rows)):
        new = tables.new[m]
        new[:] = messages.drive[m]
        multiply(own[m % 2], z[messages.rows[m, 0]], new)
        multiply(other[m % 2], z[messages.rows[m, 1]], new)
        before = messages.previous[m]
        tables.averaged[m] = 1 if before < 0 else tables.averaged[before] + 1
        total = 0.0
        for j in range(new.size):
            new[j] = math.tanh(new[j])
            mean[m, j] = new[j] if before < 0 else mean[before, j] + (new[j] - mean[before, j]) / tables.averaged[m]
            total += mean[m, j] * mean[m, j]
        tables.norm[m] = max(math.sqrt(total), _SMALLEST_NORM)
        for j in range(new.size):
            z[num_outside + m, j] = mean[m, j] / tables.norm[m]


@njit_fast
def states_backward(
    own: Array, other: Array, messages: JodieMessages, tables: JodieTables, grad_z: Array, grad: Array
) -> None:
    """Gradients by the inputs of each message, from those by the states.

    Args:
        grad_z: By the states [L + M, d]; those of the first L rows are completed.
        grad: By the drive of each message [M, d], written.
    """
    num_outside = len(grad_z) - len(messages.rows)
    by_mean = np.zeros_like(grad)
    for m in range(len(messages.rows) - 1, -1, -1):
        z, by_z, count, before = (
            tables.z[num_outside + m],
            grad_z[num_outside + m],
            tables.averaged[m],
            messages.previous[m],
        )
        along = 0.0
        for j in range(z.size):
            along += z[j] * by_z[j]
        for j in range(z.size):
            by_mean[m, j] += (by_z[j] - along * z[j]) / tables.norm[m]
            if before >= 0:
                by_mean[before, j] += by_mean[m, j] * (count - 1) / count
            grad[m, j] = by_mean[m, j] / count * (1 - tables.new[m, j] * tables.new[m, j])
        multiply_transposed(own[m % 2], grad[m], grad_z[messages.rows[m, 0]])
        multiply_transposed(other[m % 2], grad[m], grad_z[messages.rows[m, 1]])
