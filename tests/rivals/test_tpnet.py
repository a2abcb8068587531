"""TPNet: its projections against an enumeration of walks, its logits against the equations."""

import math
from collections.abc import Iterator

import numpy as np
import pytest
import torch

import cawn
from cawn.rivals.tpnet import DECAYS, TPNetSettings, TPNetSystem, project, projection_width
from networks import random_events, with_columns
from systems.small_settings import small
from tolerances import assert_same_scores

Links = list[tuple[int, int, float]]


def walks(links: Links, node: int, length: int, last: float, now: float, decay: float) -> Iterator[tuple[int, float]]:
    """The end and the weight of every walk back in time: each link adds a factor exp(-decay * its age)."""
    if length == 0:
        yield node, 1.0
        return
    for a, b, t in links:
        if t < last:
            for here, there in ((a, b), (b, a)):
                if here == node:
                    weight = math.exp(-decay * (now - t))
                    for end, rest in walks(links, there, length - 1, t, now, decay):
                        yield end, weight * rest


def walk_matrix(links: Links, num_nodes: int, length: int, now: float, decay: float) -> np.ndarray:
    """[u, w] the decayed number of walks from u back to w over these links."""
    found = np.zeros((num_nodes, num_nodes))
    for node in range(num_nodes):
        for end, weight in walks(links, node, length, math.inf, now, decay):
            found[node, end] += weight
    return found


def rows(events: cawn.Events) -> Links:
    return list(zip(events.src.tolist(), events.dst.tolist(), events.t.tolist(), strict=True))


def built(events: cawn.Events, **settings: object) -> TPNetSystem:
    """A system with weights as initialised, on all these links."""
    torch.manual_seed(0)
    trainer = cawn.Trainer(events, small("tpnet", **settings), quiet=True, device="cpu")
    assert isinstance(trainer.system, TPNetSystem)
    trainer.system.module.eval()
    return trainer.system


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_without_randomness_the_projections_are_walk_matrices(dtype: type) -> None:
    events, decay = random_events(1, num_nodes=5, num_links=25, span=15, dtype=dtype), 0.1
    n, levels = events.num_nodes, 4
    now = np.zeros((n, levels, n), np.float32)
    now[:, 0] = np.eye(n)
    updated, after_links = np.repeat(events.t[:1], n), np.zeros((len(events), 2, levels, n), np.float32)
    project(events.src, events.dst, events.t, decay, now, now.copy(), updated, after_links)
    for visible in (1, 7, 8, 9, 18, 25):  # also in the middle of a tie
        t = events.t[visible - 1]
        for length in range(levels):
            expected = walk_matrix(rows(events[:visible]), n, length, float(t), decay)
            for side, node in enumerate((events.src[visible - 1], events.dst[visible - 1])):
                found = after_links[visible - 1, side, length]
                assert found == pytest.approx(expected[node], rel=1e-5, abs=1e-6)


def test_projections_at_any_time() -> None:
    events = random_events(2, num_nodes=6, num_links=30, span=20)
    system = built(events, levels=2)
    past = system.past(events)
    ordered, nodes = past.events, torch.arange(8)
    end = torch.full((8,), 100)
    first = past.at(nodes, end, torch.full((8,), 30))[:6, 0].double().numpy()  # H^0
    for t in (0, 3, 11, 20, 25):
        now = torch.full((8,), t)
        found = past.at(nodes, now, past.before(now)).double().numpy()
        links = rows(ordered[: int(np.searchsorted(ordered.t, t))])
        occurs = np.isin(np.arange(6), [link[:2] for link in links])
        for length in range(3):
            expected = walk_matrix(links, 6, length, t, system.decay) @ first
            assert found[:6, length] == pytest.approx(expected * occurs[:, None], rel=1e-4, abs=1e-5)
        assert not found[6:].any()  # unknown ids


def test_inner_products_estimate_numbers_of_walks() -> None:
    """The error of an estimate shrinks with the square root of the width."""
    events = random_events(3, num_nodes=6, num_links=30, span=20)
    system = built(events, width_factor=1000.0)
    past = system.past(events)
    now = torch.full((6,), 30)
    found = past.at(torch.arange(6), now, torch.full((6,), 30))
    exact = [walk_matrix(rows(events), 6, length, 30, system.decay) for length in range(4)]
    for a, b in ((0, 1), (1, 1), (0, 3), (2, 3)):
        expected = exact[a] @ exact[b].T
        scale = np.linalg.norm(exact[a], axis=1)[:, None] * np.linalg.norm(exact[b], axis=1)
        estimate = (found[:, a].double() @ found[:, b].double().T).numpy()
        assert np.abs(estimate - expected).max() < 6 * scale.max() / math.sqrt(system.width)


def test_logits_are_those_of_the_equations() -> None:
    plain = random_events(4, num_nodes=8, num_links=60, span=40)
    rng = np.random.default_rng(0)
    events = with_columns(plain, msg=rng.normal(size=(60, 2)), x=rng.normal(size=(8, 3)))
    system = built(events, neighbours=3)
    encoded = system.context.events
    past, net = system.past(encoded), system.module
    src, dst, t = np.array([0, 1, 7, 3]), np.array([1, 2, 0, 3]), np.array([2, 15, 15, 33])
    with torch.no_grad():
        expected = [_logit(system, past, net, *pair) for pair in zip(src, dst, t, strict=True)]
    assert_same_scores(system.scorer(encoded)(src, dst, t), np.array(expected))


def _logit(system, past, net, u: int, v: int, t: int) -> float:
    events = past.events
    visible = int(np.searchsorted(events.t, t))

    def projections(node: int) -> torch.Tensor:
        return past.at(torch.tensor([node]), torch.tensor([t]), torch.tensor([visible]))[0]  # [K, d]

    def pair(a: int, b: int) -> torch.Tensor:
        both = torch.cat([projections(a), projections(b)])
        return net.pair_mlp(torch.log1p((both @ both.T).relu()).flatten())

    def embedding(node: int) -> torch.Tensor:
        links = [e for e in range(visible) if node in (events.src[e], events.dst[e])]  # a self-loop once
        tokens = torch.zeros(3, system.config.dim)
        for i, e in enumerate(links[::-1][:3]):
            other = int(events.dst[e] if events.src[e] == node else events.src[e])
            code = net.time(torch.tensor(math.log1p((t - events.t[e]) / system.unit)))
            parts = [torch.tensor(events.msg[e]), torch.tensor(events.x[other]), code, pair(other, u), pair(other, v)]
            tokens[i] = net.token_mlp(torch.cat(parts))
        count = min(len(links), 3)
        for block in net.mixer:
            normed = block.token_norm(tokens)
            normed[count:] = 0
            tokens = tokens + block.token_mlp(normed.T).T
            tokens = tokens + block.channel_mlp(block.channel_norm(tokens))
        mean = tokens[:count].mean(dim=0) if count else torch.zeros(system.config.dim)
        return torch.cat([mean, torch.tensor(events.x[node])])

    return float(net.out(torch.cat([embedding(u), embedding(v)]), pair(u, v)))


def test_the_unit_and_the_origin_of_time_change_nothing() -> None:
    tied = random_events(5, num_links=100)  # the order of simultaneous links depends on their times
    events = cawn.Events(tied.src, tied.dst, np.arange(100), num_nodes=tied.num_nodes)
    ages = cawn.Events(events.src, events.dst, events.t * 10**9 + 10**15, num_nodes=events.num_nodes)
    src, dst, t = np.array([0, 1, 2]), np.array([3, 4, 5]), np.array([10, 50, 90])
    expected = built(events).scorer(events)(src, dst, t)
    assert_same_scores(built(ages).scorer(ages)(src, dst, t * 10**9 + 10**15), expected)


def test_strong_decays_and_long_gaps_are_finite() -> None:
    events = random_events(6, num_links=100)
    scorer = built(events, decay=1e6).scorer(events)
    assert np.isfinite(scorer(np.arange(8), np.arange(8), np.full(8, 2**60))).all()


def test_more_walks_than_float32_can_count() -> None:
    """Two nodes with 3,000 links have about 3,000^8 / 8! walks of 8 links."""
    events = cawn.Events(np.zeros(3000, int), np.ones(3000, int), np.arange(3000))
    scorer = built(random_events(6), decay=0.0, levels=8).scorer(events)
    assert np.isfinite(scorer(np.array([0, 0]), np.array([1, 2]), np.array([3000, 3000]))).all()


def test_settings() -> None:
    events = random_events(7, num_links=60)
    assert projection_width(TPNetSettings(), events) == round(10 * math.log(120))
    found = TPNetSettings().alternatives(events)
    assert found is not None
    assert [facts["decay"] for facts in found.facts.values()] == pytest.approx([d * events.intensity for d in DECAYS])
    assert TPNetSettings(decay=0.1).alternatives(events) is None
    for decay in ("fast", -1.0, math.inf, math.nan, True):
        with pytest.raises(cawn.QueryError, match=r"decay is .*: give 'auto' or a number from 0 to 1e\+06"):
            TPNetSettings(decay=decay)  # type: ignore[arg-type]
    assert TPNetSettings.from_toml(TPNetSettings(decay=0.1).to_toml()).decay == 0.1


def test_the_decay_is_chosen_by_short_trainings() -> None:
    events = random_events(8, num_nodes=12, num_links=300, span=1000)
    run = cawn.train(
        events, small("tpnet", decay="auto", epochs=1), quiet=True, device="cpu", task=cawn.Task(negatives=("random",))
    )
    train = events[: np.searchsorted(events.t, np.quantile(events.t, 0.7), side="right")]
    assert any(run.facts["decay"] == pytest.approx(ratio * train.intensity, rel=0.05) for ratio in DECAYS)
