"""Scores depend on the walks that an explanation names, and contributions add up."""

import numpy as np
import pytest
from benchmarks.explaining import deletion

import cawn
from cawn.data import laws
from cawn.data.names import NameIndex
from cawn.explain.link import explain_link
from cawn.learn.calibration import Calibration
from cawn.learn.metrics import mean_and_interval
from cawn.learn.splits import split
from networks import random_events
from small_cawn import random_scorer
from small_explanation import M, random_pairs
from tolerances import assert_same_scores


def some_test_links(predictor: cawn.LinkPredictor, count: int) -> np.ndarray:
    links = split(predictor._events, "transductive", seed=0).test["all"]
    return links[np.linspace(0, len(links) - 1, count).astype(int)]


@pytest.mark.parametrize("changes", [{}, {"sides": "joint"}, {"rates": False}, {"rnn": "transformer"}], ids=str)
def test_contributions_add_up_with_a_linear_head(changes: dict) -> None:
    scorer, _, (src, dst, t) = random_pairs(head="linear", **changes)
    for b in range(4):
        ends = (src[[b]], dst[[b]], t[[b]])
        why = explain_link(scorer, NameIndex.of(np.arange(10)), Calibration(), ends, draws=2, prior=0.5)
        assert why.method == "additive"
        total = why.base + (why.rates or 0.0) + sum(walk.contribution for walk in why.walks)
        assert_same_scores(total, why.logit)
        assert_same_scores(why.logit, scorer(*ends)[0])


def test_times_beyond_all_reason_stay_finite() -> None:
    events = random_events(3, num_nodes=10, num_links=150, dtype=np.float64)
    scorer = random_scorer(cawn.Config(num_walks=M, dim=8), events, (0.05, 1.0))
    ends = np.array([1]), np.array([2]), np.array([1e305])
    why = explain_link(scorer, NameIndex.of(np.arange(10)), Calibration(), ends, draws=2, prior=0.5)
    assert np.isfinite([why.probability, why.logit, why.base, why.rates]).all()


def test_the_walks_of_a_closing_link(law_run) -> None:
    """A link that closes a triangle is explained by the two that left it open."""
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
def test_scores_depend_on_the_strongest_walks(law_run, name: str) -> None:
    predictor = cawn.LinkPredictor.load(law_run(name))
    mean, half = mean_and_interval(deletion(predictor, some_test_links(predictor, 200)).tolist())
    assert mean - half > 0


def test_scores_depend_on_the_strongest_walks_of_a_real_network(network, tmp_path) -> None:
    config = cawn.Config(alpha="ladder", num_walks=32, dim=32, epochs=1, lr=3e-3, schedule="constant")
    options = {"quiet": True, "kinds": ("random",), "device": "cpu", "baselines": False}
    cawn.train(network("uci")[:15_000], config, out=tmp_path / "run", **options)
    predictor = cawn.LinkPredictor.load(tmp_path / "run")
    found = deletion(predictor, some_test_links(predictor, 260))
    assert len(found) >= 200
    mean, half = mean_and_interval(found.tolist())
    assert mean - half > 0
