"""DyRep as its paper defines it: a point process whose intensity is a function of states that every link updates.

Trivedi, Farajtabar, Biswal and Zha, "DyRep: Learning Representations over Dynamic Graphs", ICLR 2019. A pair's first
link is an association, every later one a communication.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from cawn.data.events import Events
from cawn.kernels.cpu import dyrep
from cawn.kernels.cpu.dyrep import Messages
from cawn.kernels.cpu.partners import list_partners
from cawn.systems.base import Context
from cawn.systems.settings import PublishedSettings
from cawn.systems.versions import Plan, State, VersionedLinks, VersionedSystem, Versions, host_array

Array = npt.NDArray[Any]

_SMALLEST, _LARGEST = 0.1, 1000.0  # psi


@dataclass(frozen=True)
class DyRepOriginalSettings(PublishedSettings):
    """Settings of DyRep, with the defaults of its public implementation where its paper gives none."""

    batch_size: int = 200  # links per optimizer step; back-propagation ends at its first link
    lr: float = 2e-4
    epochs: int = 50
    patience: int = 5
    negatives: Literal["random", "mixed"] = "random"  # has no effect: the survival term draws its own nodes
    dim: int = 32  # width of the states
    neighbours: int = 20  # most recent partners that a node attends to
    samples: int = 5  # random other nodes, for each node of a link, in the survival term

    RANGES: ClassVar[dict[str, tuple[float, float]]] = PublishedSettings.RANGES | {
        "dim": (1, 4096),
        "neighbours": (1, 1024),
        "samples": (1, 1024),
    }
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

    def initial(self, stream: VersionedLinks, owners: Array) -> Tensor:
        module, shape = self.module, (*owners.shape, self.config.dim)
        if module.features is None or stream.x is None:
            return module.first.expand(shape)
        features: Tensor = module.features(stream.x[self.tensor(owners)])  # unknown nodes have zeros
        return module.first + features

    def roll(self, versions: Versions) -> tuple[Plan, Tensor]:
        stream, state = versions.stream, versions.state
        plan, messages = self._plan(versions)
        before = versions.before(plan.outside, plan.outside_last)  # [L, d]
        attention = state["attention"][torch.from_numpy(plan.outside)]  # [L, K]
        module, drive = self.module, self._drive(stream, plan.first_message + np.arange(len(messages.rows)))
        square = module.w_struct.weight, module.w_rec.weight, module.w_h.weight
        rolled: Any = Recurrence.apply
        table, attention = rolled(before, drive, *square, module.intensity.arrays(), messages, attention)
        owners, last = stream.final(versions.first, versions.last)
        versions.next["attention"] = state["attention"].index_copy(
            0, torch.from_numpy(owners), attention[torch.from_numpy(plan.row(last))]
        )
        return plan, table

    def _plan(self, versions: Versions) -> tuple[Plan, Messages]:
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
        return plan, Messages(plan.rows, plan.previous, writer, share, kinds, drive=none)

    def _drive(self, stream: VersionedLinks, messages: Array) -> Tensor:
        """The contribution of the gap since the owner's last link and of link attributes to each message: [M, d]."""
        links = messages // 2
        last = stream.last_message(stream.owners[links, messages % 2], stream.moment[links])
        given = [self.gaps(stream.events.t[links], last, stream, self.scale)[:, None]]
        if stream.msg is not None:
            given.append(self.tensor(stream.msg[links]))
        drive: Tensor = self.module.w_t(torch.cat(given, dim=1))
        return drive

    def loss(self, versions: Versions, weight: Tensor | None, epoch: int) -> Tensor:
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

    def logits(self, versions: Versions, src: Array, dst: Array, t: Array, visible: Array) -> Tensor:
        num_nodes = versions.stream.events.num_nodes
        u, v = (versions(np.minimum(ends, num_nodes), visible) for ends in (src, dst))
        kinds = self.tensor(versions.stream.linked(np.stack([src, dst], axis=1), visible).astype(np.int64))
        return self.module.intensity.log(u, v).gather(1, kinds[:, None]).squeeze(1)


class Recurrence(torch.autograd.Function):
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
        messages: Messages,
        attention: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """The states [L + M, d] and the attention [L + M, K] before the messages, then after each."""
        ctx.device, ctx.messages = before.device, messages._replace(drive=host_array(drive))
        ctx.weights = dyrep.Weights(host_array(w_struct), host_array(w_rec), host_array(w_h), *intensity)
        (num_outside, d), (m, k) = before.shape, messages.writer.shape
        ctx.tables = tables = dyrep.Tables(
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
        dyrep.forward(ctx.weights, ctx.messages, tables)
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
        dyrep.backward(weights, messages, tables, by_z, by_projected, by_drive)
        by_before = by_z[:num_outside] + by_projected[:num_outside] @ weights.h
        own = tables.z[messages.rows[:, 0]]
        found = by_before, by_drive, by_drive.T @ tables.h, by_drive.T @ own, by_projected.T @ tables.z
        return *(torch.from_numpy(np.ascontiguousarray(each)).to(ctx.device) for each in found), None, None, None
