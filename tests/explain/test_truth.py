"""Explanations tell the truth: the planted law comes first, and a score rests on the walks they name."""

import numpy as np
import pytest
from benchmarks.explaining import deletion

import cawn
from cawn.learn.metrics import mean_and_interval
from cawn.learn.splits import split


def some_test_links(predictor: cawn.LinkPredictor, count: int) -> np.ndarray:
    links = split(predictor._events, "transductive", seed=0).test["all"]
    return links[np.linspace(0, len(links) - 1, count).astype(int)]


@pytest.mark.parametrize("name", ["triadic closure", "feed-forward"])
def test_the_planted_law_is_the_top_shape(law_run, name: str) -> None:
    """The walk from the destination through the common neighbour to the source: its last link is the older one."""
    law = cawn.LinkPredictor.load(law_run(name)).law()
    top = law.shapes[0]
    assert top.shape == "(∞,0) → (1,1) → (0,2)"
    assert top.score > 1
    assert top.lift > 10
    assert top.significant
    assert top.with_true > 0.1 > 0.01 > top.with_false
    assert not any(row.significant for row in law.orders)  # walks that forget the others cannot see it


def test_pairs_that_stay_together(law_run) -> None:
    """Who was with whom before: the walk that goes to the other end and comes back."""
    law = cawn.LinkPredictor.load(law_run("two pairs")).law()
    top = law.shapes[0]
    assert top.shape in ("(0,1) → (1,0) → (0,1)", "(1,0) → (0,1) → (1,0)")
    assert top.significant
    assert top.with_true == 1.0
    assert top.with_false == 0.0


def test_no_law_no_shape(law_run) -> None:
    """All intervals of a table hold at once with 95 % confidence: so often is there no false alarm."""
    law = cawn.LinkPredictor.load(law_run("null")).law()
    assert len(law.shapes) > 10
    assert not any(row.significant for row in [*law.shapes, *law.orders])


def test_the_walks_of_a_closing_link(law_run) -> None:
    """A link that closes a triangle is explained by the two that left it open."""
    from cawn.data import laws

    network = laws.triadic_closure(300, 12_000, seed=1, noise=0.1)
    predictor, events = cawn.LinkPredictor.load(law_run("triadic closure")), network.events
    hits = []
    for link in np.flatnonzero(network.caused)[-100:]:
        u, v, t = events.src[link], events.dst[link], events.t[link]
        why = predictor.explain(int(u), int(v), int(t), draws=2)
        past = np.flatnonzero((events.t < t) & (events.t >= t - 2 * laws.REACTION_TIME))
        at_u, at_v = (past[(events.src[past] == end) | (events.dst[past] == end)] for end in (u, v))
        if len(at_u) and len(at_v) and why.raised:
            hits.append(any(step.event in (*at_u, *at_v) for step in why.raised[0].links))
    assert len(hits) > 80
    assert np.mean(hits) > 0.9


@pytest.mark.parametrize("name", ["triadic closure", "feed-forward"])
def test_scores_rest_on_the_strongest_walks(law_run, name: str) -> None:
    predictor = cawn.LinkPredictor.load(law_run(name))
    mean, half = mean_and_interval(deletion(predictor, some_test_links(predictor, 200)).tolist())
    assert mean - half > 0


def test_scores_rest_on_the_strongest_walks_of_a_real_network(network, tmp_path) -> None:
    config = cawn.Config(alpha="ladder", num_walks=32, dim=32, epochs=1, lr=3e-3, schedule="constant")
    cawn.train(network("uci")[:15_000], config, out=tmp_path / "run", quiet=True, kinds=("random",), device="cpu")
    predictor = cawn.LinkPredictor.load(tmp_path / "run")
    found = deletion(predictor, some_test_links(predictor, 260))
    assert len(found) >= 200
    mean, half = mean_and_interval(found.tolist())
    assert mean - half > 0
