"""DyRep as its paper defines it: a point process whose intensity follows from states that every link changes.

Trivedi, Farajtabar, Biswal and Zha, "DyRep: Learning Representations over Dynamic Graphs", ICLR 2019. A pair's first
link is an association, every later one a communication.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from cawn.data.events import Events
from cawn.kernels.cpu.levels import list_partners
from cawn.systems.base import Context
from cawn.systems.settings import Settings
from cawn.systems.versions import Plan, State, Stream, VersionedSystem, Versions, running_means

Array = npt.NDArray[Any]

_SMALLEST, _LARGEST = 0.1, 1000.0  # psi


@dataclass(frozen=True)
class DyRepOriginalSettings(Settings):
    """Settings of DyRep, with the defaults of its public implementation where its paper gives none."""

    batch_size: int = 200  # links per optimizer step; back-propagation ends at its first link
    lr: float = 2e-4
    epochs: int = 50
    patience: int = 5
    schedule: Literal["constant", "one-cycle"] = "constant"
    weight_decay: float = 0.0
    negatives: Literal["random", "mixed"] = "random"  # has no effect: the survival term draws its own nodes
    dim: int = 32  # width of the states
    neighbours: int = 20  # most recent partners of a node that its attention covers
    samples: int = 5  # random other nodes, for each end of a link, in the survival term

    RANGES: ClassVar[dict[str, tuple[float, float]]] = Settings.RANGES | {
        "dim": (1, 4096),
        "neighbours": (1, 1024),
        "samples": (1, 1024),
    }


class Intensity(nn.Module):
    """lambda_k = psi_k log(1 + exp(g_k / psi_k)), g_k = omega_k . [z_u | z_v] + b_k."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.omega = nn.Linear(2 * dim, 2)
        self.log_psi = nn.Parameter(torch.full((2,), 0.5).log())

    def log(self, u: Tensor, v: Tensor) -> Tensor:
        """log lambda of both kinds: [..., 2], from states [..., d]."""
        psi = self.log_psi.exp().clamp(_SMALLEST, _LARGEST)
        x = self.omega(torch.cat([u, v], dim=-1)) / psi
        return psi.log() + torch.where(x < -15, x, softplus(x.clamp(min=-15)).log())  # log(1 + exp(x)) ~ exp(x)


class DyRep(nn.Module):
    """The weights: z_v = sigma(W_struct h_u + W_rec z_v + W_t gap + b), h_u = max_i sigma(q_ui W_h z_i)."""

    def __init__(self, dim: int, link: int, node: int) -> None:
        super().__init__()
        self.first = nn.Parameter(torch.rand(dim))  # the state of a node without links
        self.features = nn.Linear(node, dim, bias=False) if node else None
        self.w_struct, self.w_rec, self.w_h = (nn.Linear(dim, dim, bias=False) for _ in range(3))
        self.w_t = nn.Linear(1 + link, dim)  # of the gap, and of the link's attributes
        self.intensity = Intensity(dim)

    def neighbourhood(self, attention: Tensor, projected: Tensor, mask: Tensor) -> Tensor:
        """h_u from S_u [n, K], W_h z_i [n, K, d] and which neighbours exist [n, K]: [n, d]; 0 without neighbours."""
        q = attention.masked_fill(~mask, -1e9).softmax(dim=1)  # [n, K]
        activated = torch.sigmoid(q[..., None] * projected)
        return activated.masked_fill(~mask[..., None], 0.0).amax(dim=1)


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
            "attention": torch.zeros(slots, device=self.device),  # S, by slot
            "partners": torch.full(slots, -1),  # who has each slot; stays on the host
            "newest": torch.full(slots, -1),  # the last link with each of them
        }

    def initial(self, stream: Stream, owners: Array) -> Tensor:
        module, shape = self.module, (*owners.shape, self.config.dim)
        if module.features is None or stream.x is None:
            return module.first.expand(shape)
        features: Tensor = module.features(stream.x[self.tensor(owners)])  # unknown nodes have zeros
        return module.first + features

    def roll(self, versions: Versions) -> tuple[Plan, Tensor]:
        stream, module, state = versions.stream, self.module, versions.state
        plan, lists = self._plan(versions)
        links, num_outside = plan.messages // 2, len(plan.outside)
        rows, start = self.tensor(plan.rows), self.tensor(plan.tie_start)
        kinds = self.tensor(stream.linked(stream.owners[links], stream.moment[links]).astype(np.int64))  # [M]
        drive = self._drive(stream, plan.messages)  # [M, d]
        before = versions.before(plan.outside, plan.outside_last)  # [L, d]
        table = torch.cat([before, before.new_empty(len(links), before.shape[1])])  # z
        projected = torch.cat([module.w_h(before), torch.empty_like(table[num_outside:])])  # W_h z
        attention = state["attention"].new_empty(len(table), self.config.neighbours)  # S
        attention[:num_outside] = state["attention"][self.tensor(plan.outside)]
        for a, b, ties in plan.levels:
            own, other, around = rows[a:b, 0], rows[a:b, 1], rows[a:b, 2:]
            h = module.neighbourhood(attention[other], projected[around], lists.mask[a:b])  # [n, d]
            new = torch.sigmoid(module.w_struct(h) + module.w_rec(table[own]) + drive[a:b])  # [n, d]
            if ties:
                new = running_means(new, start[a:b], a)
            here = slice(num_outside + a, num_outside + b)
            with torch.no_grad():
                rate = self._rate(table[own], table[other], kinds[a:b])
                attention[here] = lists.attention(attention[own], rate, a, b)
            table[here], projected[here] = new, module.w_h(new)
        self._keep_attention(versions, plan, attention)
        return plan, table

    def _plan(self, versions: Versions) -> tuple[Plan, Lists]:
        """The plan of a chunk, in which a message reads its owner, the other end and the partners of that one."""
        stream, first, last = versions.stream, versions.first, versions.last
        owners, slots = stream.owners[first:last], self.config.neighbours
        shape = 2 * len(owners), slots
        before, writer, sizes = np.empty(shape, np.int64), np.empty(shape, np.int64), np.empty((shape[0], 2), np.int64)
        versions.next = {name: versions.state[name].clone() for name in ("partners", "newest")}
        partners, newest = (table.numpy() for table in versions.next.values())
        list_partners(
            owners[:, 0], owners[:, 1], stream.moment[first:last], first, partners, newest, before, writer, sizes
        )
        plan = stream.plan(
            first, last, np.concatenate([owners.reshape(-1, 1), owners[:, ::-1].reshape(-1, 1), before], 1)
        )
        order = plan.messages - 2 * first
        writer = np.where(writer >= 0, plan.rank[np.maximum(writer, 0)], -1)[order] if len(order) else writer
        share = np.where(sizes > 0, 1 / np.maximum(sizes, 1), 0.0).astype(np.float32)[order]  # b' and b
        return plan, Lists(self.tensor(before[order] >= 0), self.tensor(writer), self.tensor(share))

    def _drive(self, stream: Stream, messages: Array) -> Tensor:
        """What the gap since the owner's last link and the attributes of the link add to each message: [M, d]."""
        links = messages // 2
        last = stream.last_message(stream.owners[links, messages % 2], stream.moment[links])
        given = [self.gaps(stream.events.t[links], last, stream, self.scale)[:, None]]
        if stream.msg is not None:
            given.append(self.tensor(stream.msg[links]))
        drive: Tensor = self.module.w_t(torch.cat(given, dim=1))
        return drive

    def _rate(self, own: Tensor, other: Tensor, kinds: Tensor) -> Tensor:
        """lambda of links for the attention of their ends, the mean of both directions: [n]."""
        log = self.module.intensity.log
        both = log(own, other).exp() + log(other, own).exp()  # [n, 2]
        return both.gather(1, kinds[:, None]).squeeze(1) / 2

    def _keep_attention(self, versions: Versions, plan: Plan, attention: Tensor) -> None:
        owners, messages = versions.stream.final(versions.first, versions.last)
        kept = versions.state["attention"].clone()
        kept[self.tensor(owners)] = attention[self.tensor(plan.row(messages))]
        versions.next["attention"] = kept

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
        for _ in range(2):  # replaces an end of the link by the next node
            is_end = (self._pool[drawn][..., None] == owners[:, None, None]).any(axis=-1)
            drawn = (drawn + is_end) % len(self._pool)
        return self._pool[drawn]

    def logits(self, versions: Versions, src: Array, dst: Array, t: Array, visible: Array) -> Tensor:
        num_nodes = versions.stream.events.num_nodes
        u, v = (versions(np.minimum(ends, num_nodes), visible) for ends in (src, dst))
        kinds = self.tensor(versions.stream.linked(np.stack([src, dst], axis=1), visible).astype(np.int64))
        return self.module.intensity.log(u, v).gather(1, kinds[:, None]).squeeze(1)


class Lists(NamedTuple):
    """What the messages of a chunk find and change in the lists of partners, in the order of its plan."""

    mask: Tensor  # which slots of the other end are taken [M, K]
    writer: Tensor  # the message of the same owner and time that wrote to each slot of the owner [M, K]; -1 for none
    share: Tensor  # one over the owner's number of partners, before this time and now [M, 2]; 0 without partners

    def attention(self, old: Tensor, rate: Tensor, first: int, last: int) -> Tensor:
        """S of the owners after messages first..last: [n, K], from S before and lambda [n].

        The partner of the link has b + lambda; if it is new, all others lose b' - b. Rows sum to 1.
        """
        writer = self.writer[first:last]
        b_old, b = self.share[first:last].unbind(1)  # [n] each
        written = b[:, None] + rate[(writer - first).clamp(min=0)]
        kept = torch.where(old > 0, old - (b_old - b)[:, None], 0.0).clamp(min=0)
        y = torch.where(writer >= 0, written, kept)
        return y / y.sum(dim=1, keepdim=True)
