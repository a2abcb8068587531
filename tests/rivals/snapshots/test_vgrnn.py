"""VGRNN against its equations, written with dense matrices."""

import numpy as np
import pytest
import torch

from cawn.rivals.snapshots.vgrnn import reconstruction
from rivals.snapshots.snapshot_trainers import (
    adjacency,
    convolution,
    network,
    sigmoid,
    softplus,
    trainer,
    view_at,
    weights,
)


class Twin:
    """All equations for all nodes, in float64."""

    def __init__(self, system, past) -> None:
        self.w, self.past, self.h = weights(system.module), past, system.config.hidden
        rows = np.full(past.num_nodes + 1, system.module.nodes.count)
        rows[: past.num_nodes] = self.w["nodes.rows"]
        one_hot = np.eye(system.module.nodes.count + 1)[rows][:, :-1]  # zeros for unseen nodes
        xi = one_hot @ self.w["identity"] + self.w["bias"]
        if past.events.x is not None:
            xi += np.vstack([past.events.x, np.zeros_like(past.events.x[:1])]) @ self.w["attributes.weight"].T
        self.xi = np.maximum(xi, 0)

    def linear(self, name: str, x: np.ndarray) -> np.ndarray:
        return x @ self.w[f"{name}.weight"].T + self.w.get(f"{name}.bias", 0)

    def prior(self, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        hidden = np.maximum(self.linear("prior_layer", state), 0)
        return self.linear("prior_mean", hidden), softplus(self.linear("prior_deviation", hidden)) + 1e-4

    def step(self, links, state, noise=0.0):
        """Posterior mean, deviation, sample, and the next state."""
        a = convolution(adjacency(self.past, links), 2.0)
        q = np.maximum(self.linear("encoder", a @ np.hstack([self.xi, state])), 0)
        mean, deviation = self.linear("mean", a @ q), softplus(self.linear("deviation", a @ q)) + 1e-4
        z = mean + deviation * noise
        phi = np.maximum(self.linear("latent", z), 0)
        gates = sigmoid(self.linear("gates", a @ np.hstack([self.xi, state, phi])))
        update, reset = gates[:, : self.h], gates[:, self.h :]
        new = self.linear("candidate_input", a @ np.hstack([self.xi, phi]))
        new = np.tanh(new + self.linear("candidate_state", a @ (reset * state)))
        return mean, deviation, z, update * state + (1 - update) * new


@pytest.mark.parametrize("attributes", [False, True])
def test_the_equations(attributes: bool) -> None:
    x = np.random.default_rng(0).normal(size=(10, 2)) if attributes else None
    made = trainer("vgrnn", network(x=x))
    system, events = made.system, made.events
    scorer, past = system.scorer(events), system.past(events)
    twin = Twin(system, past)
    src, dst = np.array([0, 1, 2, 8, 9, 12]), np.array([1, 2, 2, 0, 3, 0])
    for t in (99, 0, 13, 50, 130, 100_000):
        state = np.zeros((11, 8))
        for links in past.latest(view_at(past, t), 10_000):
            *_, state = twin.step(links, state)
        mean, _ = twin.prior(state)
        expected = (mean[np.minimum(src, 10)] * mean[np.minimum(dst, 10)]).sum(axis=1)
        np.testing.assert_allclose(scorer(src, dst, np.full(6, t)), expected, rtol=1e-4, atol=1e-4)


def test_the_loss_is_the_published_one() -> None:
    """The Bernoulli likelihood over all pairs, weighted as in the paper's code, and the divergence.

    The only difference is that a link that occurs n times counts n times.
    """
    made = trainer("vgrnn", truncation=100)
    system, past = made.system, made.system.past(made.visible)
    twin, order = Twin(system, past), system._appearance.numpy()
    noise = np.random.default_rng(1).normal(size=(len(system._segments[0]), 11, 4)).astype(np.float32)
    state, total = np.zeros((11, 8)), 0.0
    window = system.grid.windows(made.visible.t)
    for step in system._segments[0]:
        prior_mean, prior_deviation = twin.prior(state)
        mean, deviation, z, state = twin.step(past.links(step, 10_000), state, noise[step])
        count = adjacency(past, past.links(step, 10_000))
        links = count > 0
        if not links.any():
            continue
        last = np.flatnonzero(window == window[past.links(step, 10_000)[0]])[-1]
        seen = np.unique(np.concatenate([made.visible.src[: last + 1], made.visible.dst[: last + 1]]))
        assert set(order[: len(seen)]) == set(seen)
        n, links, logits = len(seen), links[np.ix_(seen, seen)], (z @ z.T)[np.ix_(seen, seen)]
        count = count[np.ix_(seen, seen)]
        positive = (n * n - links.sum()) / count.sum()
        likelihood = positive * count * softplus(-logits) + ~links * softplus(logits)
        total += n * n / (2 * (n * n - links.sum())) * likelihood.mean()
        divergence = np.log(prior_deviation / deviation) - 0.5
        divergence += (deviation**2 + (mean - prior_mean) ** 2) / (2 * prior_deviation**2)
        total += divergence[seen].sum(axis=1).mean() / n
    draws = iter(torch.from_numpy(noise))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "randn", lambda *_, **__: next(draws))
        loss, after = system._loss(past, system._segments[0], system._new_state(past), torch.Generator())
    np.testing.assert_allclose(float(loss.detach()), total / len(system._segments[0]), rtol=1e-4)
    np.testing.assert_allclose(after.detach().numpy(), state, rtol=1e-4, atol=1e-4)


def test_sampled_nonlinks_estimate_the_same_loss() -> None:
    """The mean of 400 estimates; 5 standard errors make a false alarm rarer than one in a million."""
    made = trainer("vgrnn")
    system = made.system
    target = max(system._targets.values(), key=lambda target: target.seen)
    z, seen = torch.randn(11, 4, generator=torch.Generator().manual_seed(0)), system._appearance[: target.seen]
    random = torch.Generator().manual_seed(0)
    exact = float(reconstruction(z, target, seen, 10_000, random))
    found = np.array([float(reconstruction(z, target, seen, 20, random)) for _ in range(400)])
    assert abs(found.mean() - exact) < 5 * found.std() / 20
    assert found.std() > 0


def test_every_gate_is_trained() -> None:
    made = trainer("vgrnn", truncation=4)
    made.system.module.train()
    next(made.system.updates(0, 0, made.optimizer)).backward()
    gradients = {name: float(weight.grad.abs().sum()) for name, weight in made.system.module.named_parameters()}
    assert {"gates.weight", "candidate_input.weight", "candidate_state.weight"} <= set(gradients)
    assert all(value > 0 for value in gradients.values()), gradients


def test_the_state_is_carried_on_within_an_epoch() -> None:
    made = trainer("vgrnn", truncation=3)
    system = made.system
    updates = system.updates(0, 0, made.optimizer)
    system.module.train()
    count = len(system._segments)
    states = [next(updates) is not None and system.training_state()["hidden"] for _ in range(count + 1)]
    assert not torch.equal(states[0], states[1])
    assert made.num_steps % count == 0
    assert made.num_steps >= 10


def test_links_without_weight_are_not_trained_on() -> None:
    """They are no non-links either."""
    weight = np.ones(120)
    weight[::2] = 0
    made = trainer("vgrnn", network(weight=weight))
    target = next(iter(made.system._targets.values()))
    assert (target.weight == 0).any()
    i, j = target.graph.pairs
    assert target.linked(i, j).all()
