"""DynAERNN against its equations, written with dense matrices."""

import numpy as np
import pytest
import torch

from cawn.rivals.snapshots.dynaernn import Step
from rivals.snapshots.snapshot_trainers import adjacency, network, sigmoid, trainer, view_at, weights


def leaky(x: np.ndarray) -> np.ndarray:
    return np.where(x >= 0, x, 0.01 * x)


class Twin:
    """All predicted rows, in float64; columns are nodes of the training period in order of appearance."""

    def __init__(self, system, past) -> None:
        self.w, self.past, self.lags = weights(system.module), past, system.config.lookback
        self.count, self.order = system.module.nodes.count, system._appearance

    def lstm(self, name: str, sequence: list[np.ndarray]) -> list[np.ndarray]:
        w, found = self.w, []
        width = w[f"{name}.weight_hh_l0"].shape[1]
        h = c = np.zeros((len(sequence[0]), width))
        for x in sequence:
            gates = x @ w[f"{name}.weight_ih_l0"].T + w[f"{name}.bias_ih_l0"]
            gates += h @ w[f"{name}.weight_hh_l0"].T + w[f"{name}.bias_hh_l0"]
            i, f, g, o = np.split(gates, 4, axis=1)
            c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
            h = sigmoid(o) * np.tanh(c)
            found.append(h)
        return found

    def rows(self, view) -> np.ndarray:
        """Predicted adjacency of all nodes, and an unknown one, with those of the training period: [N + 1, n]."""
        w, sequence = self.w, []
        ranges = self.past.latest(view, self.lags)
        ranges = [(0, 0)] * (self.lags - len(ranges)) + ranges
        for lag, links in enumerate(ranges):
            a = (adjacency(self.past, links) > 0)[:, self.order]
            y = leaky(a @ w["first"][lag * self.count : (lag + 1) * self.count] + w["first_bias"][lag])
            y = leaky(y @ w["second"][lag] + w["second_bias"][lag])
            sequence.append(leaky(y @ w["third"][lag] + w["third_bias"][lag]))
        y = self.lstm("lstm_2", self.lstm("lstm_1", sequence))[-1]
        y = leaky(y @ w["decoder.0.weight"].T + w["decoder.0.bias"])
        y = leaky(y @ w["decoder.2.weight"].T + w["decoder.2.bias"])
        return leaky(y @ w["last"].T + w["last_bias"])


def test_the_equations() -> None:
    made = trainer("dynaernn", lookback=3)
    system, events = made.system, made.events
    scorer, past = system.scorer(events), system.past(events)
    twin = Twin(system, past)
    src, dst = np.array([0, 1, 2, 8, 9, 12]), np.array([1, 2, 2, 0, 3, 0])
    for t in (0, 13, 50, 99, 130, 100_000):
        square = np.zeros((11, 11))  # unseen columns are zeros
        square[:, twin.order] = twin.rows(view_at(past, t))
        square = (square + square.T) / 2
        expected = square[np.minimum(src, 10), np.minimum(dst, 10)]
        np.testing.assert_allclose(scorer(src, dst, np.full(6, t)), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_loss_of_all_rows(weighted: bool) -> None:
    weight = np.random.default_rng(0).integers(0, 3, 120) if weighted else None
    made = trainer("dynaernn", network(weight=weight), beta=2.0)
    system, past = made.system, made.system.past(made.visible)
    twin, train = Twin(system, past), made.training
    for target in system._targets[::3]:
        nodes = system._appearance[: target.seen]
        step = Step(target, nodes, np.ones(len(nodes), np.float32))
        found = float(system._loss(past, step, torch.Generator()).detach())

        links, n = np.zeros((11, 11)), np.zeros((11, 11))
        window = system.grid.windows(train.events.t[train.part])
        own = system.grid.windows(train.events.t[train.positions[target.chosen.start : target.chosen.stop]])[0]
        scale = 1.0 if train.weights is None else train.events.weight[train.positions].mean()
        for i in train.part[window == own]:
            u, v = train.events.src[i], train.events.dst[i]
            for a, b in {(u, v), (v, u)}:
                links[a, b] += (1.0 if weight is None else train.events.weight[i]) / scale
                n[a, b] += 1
        predicted = np.zeros((11, 11))
        predicted[:, twin.order] = twin.rows(target.view)
        loss = np.where(n > 0, 4 * (predicted - 1) ** 2 * links, predicted**2)
        np.testing.assert_allclose(found, loss[np.ix_(nodes, nodes)].sum() / len(nodes), rtol=1e-4)


def test_sampled_columns_estimate_the_same_loss() -> None:
    """The mean of 400 estimates; 5 standard errors make a false alarm rarer than one in a million."""
    made = trainer("dynaernn")
    system, past = made.system, made.system.past(made.visible)
    step = max(system._steps(0), key=lambda step: step.target.seen)
    few = trainer("dynaernn", nonlinks=4).system
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        exact = float(system._loss(past, step, random))
        found = np.array([float(few._loss(past, step, random)) for _ in range(400)])
    assert abs(found.mean() - exact) < 5 * found.std() / 20
    assert found.std() > 0


def test_steps_stand_for_all_nodes() -> None:
    made = trainer("dynaernn", batch_size=3, snapshots=20)
    system = made.system
    steps = system._steps(5)
    assert len(steps) == made.num_steps
    assert [step.nodes.tolist() for step in steps] == [step.nodes.tolist() for step in system._steps(5)]
    assert [step.nodes.tolist() for step in steps] != [step.nodes.tolist() for step in system._steps(6)]
    for target in system._targets:
        own = [step for step in steps if step.target is target]
        assert sum(step.weight.sum() for step in own) == pytest.approx(target.seen)
        nodes = np.concatenate([step.nodes for step in own])
        assert len(np.unique(nodes)) == len(nodes)
        assert set(target.graph.host_nodes) <= set(nodes)
        assert all(len(step.nodes) <= 3 for step in own)


def test_penalties() -> None:
    module = trainer("dynaernn").system.module
    matrices = ("first", "second", "third", "last", "weight_ih", "weight_hh", "decoder.0.weight", "decoder.2.weight")
    total = 0.0
    for name, value in weights(module).items():
        if any(part in name for part in matrices) and "bias" not in name:
            total += 0.2 * np.abs(value).sum() + 0.3 * (value**2).sum()
    assert float(module.penalty(0.2, 0.3).detach()) == pytest.approx(total, rel=1e-4)
