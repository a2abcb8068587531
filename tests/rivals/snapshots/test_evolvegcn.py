"""EvolveGCN against its equations, written with dense matrices."""

import numpy as np
import pytest

from rivals.snapshots.snapshot_trainers import adjacency, convolution, network, sigmoid, trainer, view_at, weights

RRELU = (1 / 8 + 1 / 3) / 2  # slope in evaluation


def activation(x: np.ndarray) -> np.ndarray:
    return np.where(x >= 0, x, RRELU * x)


def gru(w: dict, layer: str, given: np.ndarray, state: np.ndarray) -> np.ndarray:
    (az, ar, ah), (uz, ur, uh), (bz, br, bh) = (
        np.split(w[f"{layer}.gru.{name}"], 3) for name in ("input", "state", "bias")
    )
    z = sigmoid(az @ given + uz @ state + bz)
    r = sigmoid(ar @ given + ur @ state + br)
    return (1 - z) * state + z * np.tanh(ah @ given + uh @ (r * state) + bh)


def summary(h: np.ndarray, active: np.ndarray, p: np.ndarray, size: int) -> np.ndarray:
    y = h @ p / np.linalg.norm(p)
    top = sorted(np.flatnonzero(active), key=lambda i: -y[i])[:size]
    found = np.zeros((size, h.shape[1]))
    for row, i in enumerate(top):
        found[row] = h[i] * np.tanh(y[i])
    return found.T


def one_hot(events, links: tuple[int, int], nodes: int, most: int) -> np.ndarray:
    found = np.zeros((nodes, 2, most + 1))
    for side, ends in enumerate((events.src, events.dst)):
        for node in range(nodes):
            found[node, side, min((ends[slice(*links)] == node).sum(), most)] = 1
    return found.reshape(nodes, -1)


def embed(system, past, view) -> np.ndarray:
    """Embeddings [N + 1, hidden] from the equations."""
    w, config = weights(system.module), system.config
    layers = ["weights.0", "weights.1"]
    matrices = [w[f"{layer}.first"] for layer in layers]
    for links in past.latest(view, config.history + 1) or [(0, 0)]:
        found = adjacency(past, links)
        active, matrix = found.sum(axis=1) > 0, convolution(found, 1.0)
        h = one_hot(past.events, links, len(found), config.max_degree)
        if past.events.x is not None:
            h = np.hstack([h, np.vstack([past.events.x, np.zeros_like(past.events.x[:1])])])
        for i, layer in enumerate(layers):
            given = matrices[i]
            if config.variant == "H":
                given = summary(h, active, w[f"{layer}.direction"], matrices[i].shape[1])
            matrices[i] = gru(w, layer, given, matrices[i])
            h = activation(matrix @ h @ matrices[i])
    return h


@pytest.mark.parametrize("variant", ["O", "H"])
@pytest.mark.parametrize("attributes", [False, True])
def test_the_equations(variant: str, attributes: bool) -> None:
    x = np.random.default_rng(0).normal(size=(10, 2)) if attributes else None
    made = trainer("evolvegcn", network(x=x), variant=variant, max_degree=3, hidden=4)
    system, events = made.system, made.events
    scorer, w = system.scorer(events), weights(system.module)
    src, dst = np.array([0, 1, 2, 8, 9, 12]), np.array([1, 2, 2, 0, 3, 0])
    for t in (0, 13, 50, 99, 100_000):
        past = system.past(events)
        h = embed(system, past, view_at(past, t))
        pairs = np.hstack([h[np.minimum(src, 10)], h[np.minimum(dst, 10)]])
        hidden = np.maximum(pairs @ w["classifier.first.weight"].T + w["classifier.first.bias"], 0)
        expected = (hidden @ w["classifier.second.weight"].T + w["classifier.second.bias"])[:, 0]
        np.testing.assert_allclose(scorer(src, dst, np.full(6, t)), expected, rtol=1e-4, atol=1e-4)


def test_every_step_trains_on_links_of_one_window() -> None:
    made = trainer("evolvegcn", batch_size=7)
    system, train = made.system, made.training
    window = system.grid.windows(train.events.t[train.positions])
    order = system._order(3)
    assert sorted(order) == list(range(len(window)))
    covered = []
    for target, start, stop in system._steps:
        assert 0 < stop - start <= 7
        (own,) = set(window[order[start:stop]])
        assert own > 0
        assert target.view.known == np.searchsorted(system.grid.windows(made.visible.t), own)
        covered += list(order[start:stop])
    assert sorted(covered) == np.flatnonzero(window > window[0]).tolist()
    assert made.num_steps == len(system._steps)
    assert not np.array_equal(order, system._order(4))
