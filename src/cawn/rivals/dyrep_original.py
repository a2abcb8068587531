"""DyRep as its paper defines it: a point process whose intensity is a function of states that every link updates.

Trivedi, Farajtabar, Biswal and Zha, "DyRep: Learning Representations over Dynamic Graphs", ICLR 2019. A pair's first
link is an association, every later one a communication.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from cawn.data.events import Events
from cawn.kernels.jit import inline_fast, njit, njit_fast
from cawn.rivals.matrices import multiply, multiply_transposed
from cawn.rivals.stream import State
from cawn.rivals.versions import MessagePlan, StateVersions, VersionedLinks, VersionedSystem, host_array
from cawn.systems.base import Context
from cawn.systems.settings import DrawsNoNegatives, PublishedSettings, setting

Array = npt.NDArray[Any]

_SMALLEST, _LARGEST = 0.1, 1000.0  # psi


@dataclass(frozen=True)
class DyRepOriginalSettings(DrawsNoNegatives, PublishedSettings):
    """Settings of DyRep, with the defaults of its public implementation where its paper gives none."""

    batch_size: int = setting(200, "links per optimizer step; back-propagation ends at its first link")
    lr: float = 2e-4
    epochs: int = 50
    patience: int = 5
    dim: int = setting(32, "width of the states", 1, 4096)
    neighbours: int = setting(20, "most recent partners that a node attends to", 1, 1024)
    samples: int = setting(5, "random other nodes, for each node of a link, in the survival term", 1, 1024)

    MEMORY: ClassVar[tuple[str, ...]] = ("batch_size", "neighbours", "dim")
    SEARCHED: ClassVar[dict[str, Any]] = {
        "lr": {"low": 2e-5, "high": 2e-3, "log": True},
        "batch_size": [100, 200, 400],
        "dim": [16, 32, 64],
        "neighbours": [10, 20, 40],
        "samples": [2, 5, 10],
    }


class Intensity(nn.Module):
    """lambda_k = psi_k log(1 + exp(g_k / psi_k)), g_k = omega_k . [z_u | z_v] + b_k."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.omega = nn.Linear(2 * dim, 2)
        self.log_psi = nn.Parameter(torch.full((2,), 0.5).log())

    @property
    def psi(self) -> Tensor:
        return self.log_psi.exp().clamp(_SMALLEST, _LARGEST)

    def arrays(self) -> tuple[Array, ...]:
        """omega, b and psi on the host."""
        return host_array(self.omega.weight), host_array(self.omega.bias), host_array(self.psi)

    def log(self, u: Tensor, v: Tensor) -> Tensor:
        """log lambda of both kinds: [..., 2], from states [..., d]."""
        x = self.omega(torch.cat([u, v], dim=-1)) / self.psi
        return self.psi.log() + torch.where(x < -15, x, softplus(x.clamp(min=-15)).log())  # log(1 + exp(x)) ~ exp(x)


class DyRep(nn.Module):
    """The weights: z_v = sigma(W_struct h_u + W_rec z_v + W_t gap + b), h_u = max_i sigma(q_ui W_h z_i)."""

    def __init__(self, dim: int, link: int, node: int) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.rand(dim))  # the state of a node without links
        self.features = nn.Linear(node, dim, bias=False) if node else None
        self.w_struct, self.w_rec, self.w_h = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.w_t = nn.Linear(1 + link, dim)  # of the gap, and of the link's attributes
        self.intensity = Intensity(dim)


class DyRepOriginal(VersionedSystem):
    """DyRep. A node is the owner of its state; id N stands for all nodes that are not in the events."""

    module: DyRep

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        config: DyRepOriginalSettings = context.config
        self.scale = self.gap_scale("gaps")
        self._pool: Array | None = None  # nodes of the training links
        self.module = DyRep(config.dim, self.link_width, self.node_width).to(self.device)

    def owners(self, events: Events) -> Array:
        return np.stack([events.src, events.dst], axis=1)

    def new_state(self, num_nodes: int) -> State:
        slots = num_nodes + 1, self.config.neighbours
        return {
            "states": torch.zeros(num_nodes + 1, self.config.dim, device=self.device),
            "attention": torch.zeros(slots),  # S, by slot; this and the following stay on the host
            "partners": torch.full(slots, -1),  # the partner in each slot
            "newest": torch.full(slots, -1),  # the last link with each of them
        }

    def without_links(self, stream: VersionedLinks, owners: Array) -> Tensor:
        module, shape = self.module, (*owners.shape, self.config.dim)
        if module.features is None or stream.x is None:
            return module.first.expand(shape)
        features: Tensor = module.features(stream.x[self.tensor(owners)])  # unknown nodes have zeros
        return module.first + features

    def roll(self, versions: StateVersions) -> tuple[MessagePlan, Tensor]:
        stream, state = versions.stream, versions.state
        plan, messages = self._plan(versions)
        before = versions.before(plan.outside, plan.outside_last)  # [L, d]
        attention = state["attention"][torch.from_numpy(plan.outside)]  # [L, K]
        module, drive = self.module, self._drive(stream, plan.first_message + np.arange(len(messages.rows)))
        square = module.w_struct.weight, module.w_rec.weight, module.w_h.weight
        rolled: Any = DyRepRecurrence.apply
        table, attention = rolled(before, drive, *square, module.intensity.arrays(), messages, attention)
        owners, last = stream.final(versions.first, versions.last)
        versions.next["attention"] = state["attention"].index_copy(
            0, torch.from_numpy(owners), attention[torch.from_numpy(plan.row(last))]
        )
        return plan, table

    def _plan(self, versions: StateVersions) -> tuple[MessagePlan, DyRepMessages]:
        """The plan of a chunk, in which a message reads its owner, the other node and the partners of the other."""
        stream, first, last = versions.stream, versions.first, versions.last
        owners, moments = stream.owners[first:last], stream.moment[first:last]
        shape = 2 * len(owners), self.config.neighbours
        partners_read, writer = np.empty((2, *shape), np.int64)
        sizes = np.empty((shape[0], 2), np.int64)
        versions.next = {name: versions.state[name].clone() for name in ("partners", "newest")}
        partners, newest = (table.numpy() for table in versions.next.values())
        list_partners(owners[:, 0], owners[:, 1], moments, first, partners, newest, partners_read, writer, sizes)
        ends = owners.reshape(-1, 1), owners[:, ::-1].reshape(-1, 1)
        plan = stream.plan(first, last, np.concatenate([*ends, partners_read], axis=1))
        share = np.where(sizes > 0, 1 / np.maximum(sizes, 1), 0.0).astype(np.float32)  # b' and b
        kinds = np.repeat(stream.linked(owners, moments), 2).astype(np.int64)
        none = np.empty((0, 0), np.float32)
        return plan, DyRepMessages(plan.rows, plan.previous, writer, share, kinds, drive=none)

    def _drive(self, stream: VersionedLinks, messages: Array) -> Tensor:
        """The contribution of the gap since the owner's last link and of link attributes to each message: [M, d]."""
        links = messages // 2
        last = stream.last_message(stream.owners[links, messages % 2], stream.moment[links])
        given = [self.gaps(stream.events.t[links], last, stream, self.scale)[:, None]]
        if stream.msg is not None:
            given.append(self.tensor(stream.msg[links]))
        drive: Tensor = self.module.w_t(torch.cat(given, dim=1))
        return drive

    def loss(self, versions: StateVersions, weight: Tensor | None, epoch: int) -> Tensor:
        stream, some, log = versions.stream, slice(versions.first, versions.last), self.module.intensity.log
        owners, visible = stream.owners[some], stream.moment[some, None]
        u, v = versions(owners, visible).unbind(1)  # [n, d] each
        kinds = self.tensor(stream.linked(owners, visible[:, 0]).astype(np.int64))
        observed = log(u, v).gather(1, kinds[:, None]).squeeze(1)  # [n]
        others = versions(self._others(owners, epoch, versions.first), visible[:, None])  # [n, 2, samples, d]
        of_u, of_v = others.unbind(1)
        rates = log(u[:, None].expand_as(of_u), of_u).exp() + log(of_v, v[:, None].expand_as(of_v)).exp()
        losses = rates.sum(dim=2).mean(dim=1) - observed  # both kinds survive
        return (losses if weight is None else losses * weight).mean()

    def _others(self, owners: Array, epoch: int, first: int) -> Array:
        """Random nodes that do not link here, for the source and for the destination: [n, 2, samples]."""
        if self._pool is None:  # in the order of appearance, which is independent of names
            nodes, appeared = np.unique(self.training_stream.owners, return_index=True)
            self._pool = nodes[np.argsort(appeared)]
        seed = self.context.train.seed_for("survival", epoch, first)
        drawn = np.random.default_rng(seed).integers(0, len(self._pool), (len(owners), 2, self.config.samples))
        for _ in range(2):  # replaces the nodes of the link by the next node
            is_end = (self._pool[drawn][..., None] == owners[:, None, None]).any(axis=-1)
            drawn = (drawn + is_end) % len(self._pool)
        return self._pool[drawn]

    def logits(self, versions: StateVersions, src: Array, dst: Array, t: Array, visible: Array) -> Tensor:
        num_nodes = versions.stream.events.num_nodes
        u, v = (versions(np.minimum(ends, num_nodes), visible) for ends in (src, dst))
        kinds = self.tensor(versions.stream.linked(np.stack([src, dst], axis=1), visible).astype(np.int64))
        return self.module.intensity.log(u, v).gather(1, kinds[:, None]).squeeze(1)


class DyRepRecurrence(torch.autograd.Function):
    """z_v = sigma(W_struct h_u + W_rec z_v + drive), message by message; attention is a constant.

    A message reads the states of many other nodes, so hardly any two can be computed in parallel. Forward and backward
    run in compiled loops on the host for every device.
    """

    @staticmethod
    def forward(
        ctx: Any,
        before: Tensor,
        drive: Tensor,
        w_struct: Tensor,
        w_rec: Tensor,
        w_h: Tensor,
        intensity: tuple[Array, ...],
        messages: DyRepMessages,
        attention: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """The states [L + M, d] and the attention [L + M, K] before the messages, then after each."""
        ctx.device, ctx.messages = before.device, messages._replace(drive=host_array(drive))
        ctx.weights = Weights(host_array(w_struct), host_array(w_rec), host_array(w_h), *intensity)
        (num_outside, d), (m, k) = before.shape, messages.writer.shape
        ctx.tables = tables = DyRepTables(
            z=np.concatenate([host_array(before), np.empty((m, d), np.float32)]),
            projected=np.empty((num_outside + m, d), np.float32),
            attention=np.concatenate([host_array(attention), np.empty((m, k), np.float32)]),
            new=np.empty((m, d), np.float32),
            averaged=np.empty(m, np.int64),
            h=np.empty((m, d), np.float32),
            best=np.empty((m, d), np.int64),
            q=np.empty((m, k), np.float32),
            rate=np.empty(m, np.float32),
        )
        states_forward(ctx.weights, ctx.messages, tables)
        after = torch.from_numpy(tables.attention)
        ctx.mark_non_differentiable(after)
        return torch.from_numpy(tables.z).to(ctx.device), after

    @staticmethod
    def backward(ctx: Any, by_table: Tensor, _: Any) -> Any:
        weights, messages, tables = ctx.weights, ctx.messages, ctx.tables
        num_outside = len(tables.z) - len(messages.rows)
        by_z, by_projected, by_drive = (
            host_array(by_table).copy(),
            np.zeros_like(tables.z),
            np.empty_like(messages.drive),
        )
        states_backward(weights, messages, tables, by_z, by_projected, by_drive)
        by_before = by_z[:num_outside] + by_projected[:num_outside] @ weights.h
        own = tables.z[messages.rows[:, 0]]
        found = by_before, by_drive, by_drive.T @ tables.h, by_drive.T @ own, by_projected.T @ tables.z
        return *(torch.from_numpy(np.ascontiguousarray(each)).to(ctx.device) for each in found), None, None, None


# The states after each link, and their gradients. Row r of the tables is a state from before the links (r < L), or what
# message r - L makes of one. Message 2e is what link e does to its source, message 2e + 1 what it does to its
# destination. Messages at one time read rows from before that time, and the state after them is their mean.


class Weights(NamedTuple):
    """Of a state of width d; float32."""

    struct: Array  # [d, d]
    rec: Array  # [d, d]
    h: Array  # [d, d]
    omega: Array  # [2, 2d], of both kinds of links
    bias: Array  # [2]
    psi: Array  # [2]


class DyRepMessages(NamedTuple):
    """M consecutive messages and what they read; K slots for partners."""

    rows: Array  # of the owner, of the other end, and of each partner of the other end [M, 2 + K]; -1 for no partner
    previous: Array  # the message before it to the same owner at the same time [M]; -1 for none
    writer: Array  # the message of the same owner and time that wrote to each slot of the owner [M, K]; -1 for none
    share: Array  # one over the owner's number of partners, before this time and now [M, 2]
    kinds: Array  # of the link [M]
    drive: Array  # what gap and attributes add to the state, before the nonlinearity [M, d]


class DyRepTables(NamedTuple):
    """What the forward pass writes."""

    z: Array  # the states [L + M, d]
    projected: Array  # W_h z [L + M, d]
    attention: Array  # S [L + M, K]
    new: Array  # the states before they are averaged with those of the same time [M, d]
    averaged: Array  # the number of states in that average [M]
    h: Array  # the neighbourhood of the other end [M, d]
    best: Array  # the slot with the largest input to h [M, d]; -1 without partners
    q: Array  # softmax of the attention of the other end [M, K]
    rate: Array  # lambda [M]


@inline_fast
def _sigmoid(x: float) -> float:
    """1 / (1 + exp(-x)); the exponential does not overflow."""
    return 1 / (1 + math.exp(-min(max(x, -80.0), 80.0)))


@njit_fast
def states_forward(weights: Weights, messages: DyRepMessages, tables: DyRepTables) -> None:
    """Fill the tables, of which the first L rows of z and attention are given."""
    z, projected = tables.z, tables.projected
    num_messages, num_outside = len(messages.rows), len(z) - len(messages.rows)
    for row in range(num_outside):
        projected[row] = 0
        multiply(weights.h, z[row], projected[row])
    for m in range(num_messages):
        own, other, row = messages.rows[m, 0], messages.rows[m, 1], num_outside + m
        _read_partners(messages, tables, m, other)
        new = tables.new[m]
        new[:] = messages.drive[m]
        multiply(weights.rec, z[own], new)
        multiply(weights.struct, tables.h[m], new)
        for j in range(new.size):
            new[j] = _sigmoid(new[j])
        before = messages.previous[m]
        if before >= 0:
            tables.averaged[m] = tables.averaged[before] + 1
            for j in range(new.size):
                z[row, j] = z[num_outside + before, j] + (new[j] - z[num_outside + before, j]) / tables.averaged[m]
        else:
            tables.averaged[m] = 1
            z[row] = new
        projected[row] = 0
        multiply(weights.h, z[row], projected[row])
        kind = messages.kinds[m]
        tables.rate[m] = (_rate(weights, z[own], z[other], kind) + _rate(weights, z[other], z[own], kind)) / 2
        _update_attention(messages, tables, m, own, row)


@inline_fast
def _read_partners(messages: DyRepMessages, tables: DyRepTables, m: int, other: int) -> None:
    """h = max over partners i of the other end of sigma(q_i W_h z_i); sigma is monotonic, so it is applied last."""
    partners, h, best, q = messages.rows[m, 2:], tables.h[m], tables.best[m], tables.q[m]
    h[:], best[:], q[:] = 0, -1, 0
    total = np.float32(0)
    for k in range(q.size):
        if partners[k] >= 0:
            q[k] = math.exp(tables.attention[other, k])  # S is from 0 to 1
            total += q[k]
    for k in range(q.size):
        if partners[k] >= 0:
            q[k] /= total
            for j in range(h.size):
                value = q[k] * tables.projected[partners[k], j]
                if best[j] < 0 or value > h[j]:
                    h[j], best[j] = value, k
    if total > 0:
        for j in range(h.size):
            h[j] = _sigmoid(h[j])


@inline_fast
def _rate(weights: Weights, u: Array, v: Array, kind: int) -> float:
    """lambda = psi log(1 + exp(g / psi)), g = omega . [u | v] + b."""
    g = weights.bias[kind]
    for j in range(u.size):
        g += weights.omega[kind, j] * u[j] + weights.omega[kind, u.size + j] * v[j]
    x = g / weights.psi[kind]
    return float(weights.psi[kind] * (max(x, np.float32(0)) + math.log1p(math.exp(-abs(x)))))


@inline_fast
def _update_attention(messages: DyRepMessages, tables: DyRepTables, m: int, own: int, row: int) -> None:
    """S of the owner: b + lambda for partners that link now; all others lose b' - b; the sum is 1."""
    old, new, writer = tables.attention[own], tables.attention[row], messages.writer[m]
    lost = messages.share[m, 0] - messages.share[m, 1]
    total = np.float32(0)
    for k in range(new.size):
        if writer[k] >= 0:
            new[k] = messages.share[m, 1] + tables.rate[writer[k]]
        elif old[k] > 0:
            new[k] = max(old[k] - lost, np.float32(0))
        else:
            new[k] = 0
        total += new[k]
    for k in range(new.size):
        new[k] /= total


@njit_fast
def states_backward(
    weights: Weights, messages: DyRepMessages, tables: DyRepTables, grad_z: Array, grad_p: Array, grad: Array
) -> None:
    """Gradients by the inputs of each message, from those by the states; attention is a constant.

    Args:
        grad_z: By the states [L + M, d]; those of the first L rows are completed, except for what `grad_p` adds.
        grad_p: By W_h z [L + M, d], zeros, written.
        grad: By the drive of each message [M, d], written.
    """
    num_messages, num_outside = len(messages.rows), len(grad_z) - len(messages.rows)
    by_h = np.empty(grad.shape[1], np.float32)
    for m in range(num_messages - 1, -1, -1):
        row, own, count = num_outside + m, messages.rows[m, 0], tables.averaged[m]
        multiply_transposed(weights.h, grad_p[row], grad_z[row])
        if count > 1:
            for j in range(by_h.size):
                grad_z[num_outside + messages.previous[m], j] += grad_z[row, j] * np.float32((count - 1) / count)
        for j in range(by_h.size):
            grad[m, j] = grad_z[row, j] / np.float32(count) * tables.new[m, j] * (1 - tables.new[m, j])
        multiply_transposed(weights.rec, grad[m], grad_z[own])
        by_h[:] = 0
        multiply_transposed(weights.struct, grad[m], by_h)
        for j in range(by_h.size):
            slot = tables.best[m, j]
            if slot >= 0:
                inner = by_h[j] * tables.h[m, j] * (1 - tables.h[m, j])
                grad_p[messages.rows[m, 2 + slot], j] += inner * tables.q[m, slot]


@njit
def list_partners(
    src: Array,
    dst: Array,
    moments: Array,
    position: int,
    partners: Array,
    newest: Array,
    before: Array,
    writer: Array,
    sizes: Array,
) -> None:
    """Keep the K most recent partners of every node, and write what each message finds and changes.

    A new partner takes a free slot, or that of the partner whose last link is oldest.

    Args:
        src: Sources of consecutive links [n].
        dst: Destinations [n].
        moments: A number of each link's time [n], ascending.
        position: The position of the first link in the stream.
        partners: [N, K], changed; -1 in free slots.
        newest: The position of the last link with each partner [N, K], changed.
        before: The partners of the other end before the time of the link [2n, K], written.
        writer: For each slot of the owner the last message at this time, up to this one, that wrote to it [2n, K],
            written; -1 for none.
        sizes: The number of partners of the owner before the time of the link, and after the message [2n, 2], written.
    """
    num_slots = partners.shape[1]
    previous = np.full(partners.shape[0], -1)  # the last message to a node at the same time
    first = 0
    while first < src.size:
        last = first
        while last < src.size and moments[last] == moments[first]:
            last += 1
        for m in range(2 * first, 2 * last):
            before[m] = partners[dst[m // 2] if m % 2 == 0 else src[m // 2]]
        for m in range(2 * first, 2 * last):
            source, destination = src[m // 2], dst[m // 2]
            node, other = (source, destination) if m % 2 == 0 else (destination, source)
            slot, size = 0, 0
            for k in range(num_slots):
                size += partners[node, k] >= 0
            for k in range(num_slots):
                if partners[node, k] == other or partners[node, k] < 0:
                    slot = k
                    break
                if newest[node, k] < newest[node, slot]:
                    slot = k
            if previous[node] >= 0:
                writer[m] = writer[previous[node]]
                sizes[m, 0] = sizes[previous[node], 0]
            else:
                writer[m] = -1
                sizes[m, 0] = size
            sizes[m, 1] = size + (partners[node, slot] < 0)
            partners[node, slot], newest[node, slot] = other, position + m // 2
            writer[m, slot] = m
            previous[node] = m
        for m in range(2 * first, 2 * last):
            previous[src[m // 2] if m % 2 == 0 else dst[m // 2]] = -1
        first = last
