"""VGRNN: a variational graph autoencoder per snapshot, with a prior from a graph recurrent network.

Hajiramezanali et al., "Variational Graph Recurrent Neural Networks", NeurIPS 2019.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from cawn.rivals.snapshots.system import KnownNodes, SnapshotSettings, SnapshotSystem, Target, targets
from cawn.rivals.snapshots.windows import Normalised, Snapshots, View
from cawn.rivals.stream import HasState, Replay, State
from cawn.systems.base import Context
from cawn.systems.settings import DrawsNoNegatives, IgnoresDirection, setting
from cawn.systems.training import Optimizer

LOOP = 2.0  # weight of self-loops in the normalised adjacency
_STEPS = 10  # an epoch repeats the sequence until it has this many steps
_SMALLEST = 1e-4  # standard deviation


@dataclass(frozen=True)
class VGRNNSettings(DrawsNoNegatives, IgnoresDirection, SnapshotSettings):
    """Settings of VGRNN."""

    lr: float = 1e-2
    epochs: int = 100
    patience: int = 10
    hidden: int = setting(32, "width of the recurrent state and of all layers", 1, 4096)
    latent: int = setting(16, "width of the latent variables", 1, 4096)
    truncation: int = setting(8, "snapshots per step, through which gradients are propagated", 1, 100_000)
    divergence: float = setting(
        0.0,
        "weight of the mean divergence of a node; 0 is the published one, 1 / number of nodes",
        0,
        1000,
    )
    nonlinks: int = setting(20_000, "pairs without a link that are sampled per snapshot, if there are more", 1, 1 << 30)

    MEMORY: ClassVar[tuple[str, ...]] = ("truncation", "nonlinks", "hidden")
    SEARCHED: ClassVar[dict[str, Any]] = {
        "lr": {"low": 1e-3, "high": 3e-2, "log": True},
        "hidden": [16, 32, 64],
        "latent": [8, 16, 32],
        "truncation": [4, 8, 16],
    }


class Gaussian(NamedTuple):
    """Independent normal variables: [N, latent] each."""

    mean: Tensor
    deviation: Tensor

    def divergence(self, prior: Gaussian) -> Tensor:
        """KL(self || prior) of each node: [N]."""
        ratio = (self.deviation / prior.deviation) ** 2
        shift = ((self.mean - prior.mean) / prior.deviation) ** 2
        return 0.5 * (ratio + shift - 1 - ratio.log()).sum(dim=-1)


class VGRNN(nn.Module):
    """Prior, posterior and recurrence of one snapshot. A graph convolution of x is a linear layer on `matrix(x)`."""

    def __init__(self, config: VGRNNSettings, nodes: KnownNodes, node_width: int) -> None:
        super().__init__()
        h, z = config.hidden, config.latent
        self.nodes, self.hidden = nodes, h
        small = nodes.count**-0.5  # that of a linear layer on one-hot vectors; larger values overfit
        self.identity = nn.Parameter(torch.empty(nodes.count, h).uniform_(-small, small))
        self.bias = nn.Parameter(torch.zeros(h))
        self.attributes = nn.Linear(node_width, h, bias=False) if node_width else None
        self.prior_layer, self.prior_mean, self.prior_deviation = nn.Linear(h, h), nn.Linear(h, z), nn.Linear(h, z)
        self.encoder, self.mean, self.deviation = nn.Linear(2 * h, h), nn.Linear(h, z), nn.Linear(h, z)
        self.latent = nn.Linear(z, h)
        self.gates = nn.Linear(3 * h, 2 * h)  # update and reset, of [xi | H | phi]
        self.candidate_input, self.candidate_state = nn.Linear(2 * h, h), nn.Linear(h, h, bias=False)

    def features(self, x: Tensor) -> Tensor:
        """xi, from the identities of known nodes and node attributes x [N, d]: [N, h]."""
        table = nn.functional.pad(self.identity, (0, 0, 0, 1))  # a row of zeros for all others
        found = table[self.nodes.all_of(len(x) - 1)] + self.bias
        return torch.relu(found if self.attributes is None else found + self.attributes(x))

    def prior(self, state: Tensor) -> Gaussian:
        """The latent variables of the next snapshot, from the state [N, h] before it."""
        hidden = torch.relu(self.prior_layer(state))  # [N, h]
        return Gaussian(self.prior_mean(hidden), softplus(self.prior_deviation(hidden)) + _SMALLEST)

    def forward(
        self, matrix: Normalised, xi: Tensor, state: Tensor, noise: Tensor | None = None
    ) -> tuple[Gaussian, Tensor, Tensor]:
        """The posterior of a snapshot, a sample of it [N, z] (its mean without `noise`), and the next state [N, h]."""
        given = matrix(torch.cat([xi, state], dim=1))  # [N, 2h]
        encoded = matrix(torch.relu(self.encoder(given)))  # [N, h]
        posterior = Gaussian(self.mean(encoded), softplus(self.deviation(encoded)) + _SMALLEST)
        z = posterior.mean if noise is None else posterior.mean + posterior.deviation * noise  # [N, z]

        phi = matrix(torch.relu(self.latent(z)))  # [N, h]
        update, reset = torch.sigmoid(self.gates(torch.cat([given, phi], dim=1))).chunk(2, dim=1)  # [N, h] each
        inputs = torch.cat([given[:, : self.hidden], phi], dim=1)  # [N, 2h]
        new = torch.tanh(self.candidate_input(inputs) + self.candidate_state(matrix(reset * state)))
        return posterior, z, update * state + (1 - update) * new


class VGRNNSystem(HasState, SnapshotSystem):
    """VGRNN, trained by truncated back-propagation through time: one step per `truncation` snapshots."""

    config: VGRNNSettings
    module: VGRNN

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.module = VGRNN(self.config, KnownNodes(context), self.node_width).to(self.device)

    @cached_property
    def _targets(self) -> dict[int, Target]:
        """The windows to train on, by their step."""
        past = self.past(self.context.events)
        return {past.step_at(target.view.known): target for target in targets(self)}

    @cached_property
    def _segments(self) -> list[range]:
        """The steps of the training period, divided into sequences."""
        count, size = max(self._targets) + 1, self.config.truncation
        return [range(start, min(start + size, count)) for start in range(0, count, size)]

    @property
    def steps_per_epoch(self) -> int:
        return -(-_STEPS // len(self._segments)) * len(self._segments)

    def updates(self, epoch: int, first: int, optimizer: Optimizer) -> Iterator[Tensor]:
        past = self.past(self.context.events)
        for step in range(first, self.steps_per_epoch):
            segment = self._segments[step % len(self._segments)]
            if segment.start == 0 or self._state is None:
                self._state = self.first_state()
            random = torch.Generator().manual_seed(self.context.train.seed_for("noise", epoch, step))
            loss, hidden = self._loss(past, segment, self._state["hidden"], random)
            self._state = {"hidden": hidden.detach()}
            yield loss

    def first_state(self) -> State:
        return {"hidden": self._new_state(self.past(self.context.events))}

    def _new_state(self, past: Snapshots) -> Tensor:
        return torch.zeros(past.num_nodes + 1, self.config.hidden, device=self.device)

    def _loss(self, past: Snapshots, segment: range, state: Tensor, random: torch.Generator) -> tuple[Tensor, Tensor]:
        """The negative ELBO per snapshot of a sequence, and the state after it; `random` is on the CPU."""
        module, total = self.module, torch.zeros((), device=self.device)
        xi = module.features(past.x[:, : self.node_width])
        for step in segment:
            prior = module.prior(state)
            graph = past.graph(past.links(step, len(past.events)))
            noise = torch.randn(len(xi), self.config.latent, generator=random).to(self.device)
            posterior, z, state = module(graph.normalised(LOOP), xi, state, noise)
            if (target := self._targets.get(step)) is not None:
                seen = self._appearance[: target.seen]
                divergence = posterior.divergence(prior)[seen].mean() * (self.config.divergence or 1 / target.seen)
                total = total + reconstruction(z, target, seen, self.config.nonlinks, random) + divergence
        return total / len(segment), state

    @cached_property
    def _appearance(self) -> Tensor:
        """The nodes of the training period in order of appearance."""
        return self.module.nodes.rows.argsort()[: self.module.nodes.count]

    def embedder(self, past: Snapshots) -> Callable[[View], Tensor]:
        module, xi = self.module, self.module.features(past.x[:, : self.node_width])

        def advance(state: list[Tensor], links: tuple[int, int]) -> None:
            state[0] = module(past.graph(links).normalised(LOOP), xi, state[0])[2]

        def replay_steps(state: list[Tensor], first: int, last: int) -> None:
            for step in range(first, last):
                advance(state, past.links(step, len(past.events)))

        replay = Replay(lambda: [self._new_state(past)], replay_steps, past.num_steps)

        def embed(view: View) -> Tensor:
            last = past.step(view)
            whole = last >= 0 and past.links(last, view.known) == past.links(last, len(past.events))
            state = list(replay.after(last + 1 if whole else max(last, 0)))
            rest = [] if whole or last < 0 else [past.links(last, view.known)]
            for links in rest + [(0, 0)] * view.gap:
                advance(state, links)
            return module.prior(state[0]).mean

        return embed

    def logits(self, embeddings: Tensor, src: Tensor, dst: Tensor) -> Tensor:
        return (embeddings[src] * embeddings[dst]).sum(dim=-1)


def reconstruction(z: Tensor, target: Target, seen: Tensor, sampled: int, random: torch.Generator) -> Tensor:
    """The weighted negative log-likelihood of a snapshot: half the mean over links and half the mean over non-links.

    Non-links are all other pairs of nodes seen so far; `sampled` of them are drawn if there are more.
    """
    graph, weight, size = target.graph, target.weight, len(seen)
    links = (z[graph.pairs[0]] * z[graph.pairs[1]]).sum(dim=-1)  # [P]
    total = (softplus(-links) * weight).sum() / weight.sum()
    pairs = size * size
    chosen = torch.arange(pairs) if pairs <= sampled else torch.randint(pairs, (sampled,), generator=random)
    chosen = chosen.to(z.device)
    i, j = seen[chosen // size], seen[chosen % size]
    others = ~target.linked(i, j)
    losses = softplus((z[i] * z[j]).sum(dim=-1)) * others
    count = pairs - len(graph.codes)
    return 0.5 * (total + losses.sum() * (pairs / len(chosen) / max(count, 1)))
