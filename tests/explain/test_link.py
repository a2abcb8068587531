"""Explanations of a link: they add up, are the same for what is asked in another way, and scores depend on them."""

import json
from datetime import datetime, timedelta

import numpy as np
import pytest
from benchmarks.explaining import deletion

import cawn
from cawn.data import laws
from cawn.data.names import NameIndex
from cawn.errors import QueryError
from cawn.explain.explanation import Explanation
from cawn.explain.link import explain_link
from cawn.explain.views import Walk
from cawn.learn.calibration import Calibration
from cawn.learn.splits import split
from networks import random_events
from small_cawn import random_scorer
from small_explanation import M, random_pairs, small_explanation
from tolerances import SCORES, assert_same_scores


def explain(scorer, ends, **options: object) -> Explanation:
    options = {"draws": 2, "prior": 0.5} | options
    return explain_link(scorer, NameIndex.of(np.arange(10)), Calibration(), ends, **options)


def some_test_links(predictor: cawn.LinkPredictor, count: int) -> np.ndarray:
    links = split(predictor.snapshot().events, "transductive", seed=0).test["all"]
    return links[np.linspace(0, len(links) - 1, count).astype(int)]


@pytest.mark.parametrize(
    "changes", [{}, {"sides": "joint"}, {"rates": False}, {"rnn": "transformer"}, {"head": "linear"}], ids=str
)
@pytest.mark.parametrize("background", ["strangers", "pairs"])
def test_parts_add_up_to_the_logit(changes: dict, background: str) -> None:
    scorer, _, (src, dst, t) = random_pairs(**changes)
    for b in range(4):
        ends = src[[b]], dst[[b]], t[[b]]
        why = explain(scorer, ends, background=background)
        assert why.base + sum(part.contribution for part in why.parts) == pytest.approx(why.logit, abs=1e-9)
        assert_same_scores(why.logit, scorer(*ends)[0])
        for part in why.parts:
            walks = [walk for walk in why.walks if walk.part == part.name]
            assert sum(walk.count for walk in walks) == part.num_walks
            if part.name in ("repeated", "common", "longer", "apart"):
                total = sum(walk.contribution for walk in walks)
                assert part.counted + total == pytest.approx(part.contribution, abs=1e-9)
        assert sum(part.num_walks for part in why.parts) == 2 * M


@pytest.mark.parametrize("background", ["strangers", "pairs"])
def test_shapes_add_up_too_and_agree_with_the_parts(background: str) -> None:
    """Contributions of single shapes are estimates; what is no walk contributes about the same as before."""
    scorer, _, (src, dst, t) = random_pairs()
    why = explain(scorer, (src[:1], dst[:1], t[:1]), shapes=True, background=background)
    assert len(why.shapes) > 10  # too many for all coalitions
    assert why.base + sum(shape.contribution for shape in why.shapes) == pytest.approx(why.logit, abs=1e-9)
    assert sum(shape.num_walks for shape in why.shapes) == 2 * M
    assert {shape.name for shape in why.shapes if shape.num_walks} == {walk.shape for walk in why.walks}
    parts = {part.name: part.contribution for part in why.parts}
    for shape in why.shapes:
        assert shape.error >= 0
        if shape.name in ("pair", "source", "destination"):
            assert shape.contribution == pytest.approx(parts[shape.name], abs=max(6 * shape.error, 0.1))


def test_few_shapes_are_exact() -> None:
    scorer, _, (src, dst, t) = random_pairs(length=1, rates=False, since=False, two_steps=False, transitions=False)
    why = explain(scorer, (src[:1], dst[:1], t[:1]), shapes=True)
    assert len(why.shapes) <= 10
    assert {shape.error for shape in why.shapes} == {0.0}
    assert why.base + sum(shape.contribution for shape in why.shapes) == pytest.approx(why.logit, abs=1e-9)


def test_a_model_of_walks_alone_has_no_history_to_interact_with() -> None:
    scorer, _, (src, dst, t) = random_pairs(**cawn.Config.PRESETS["walks"])
    why = explain(scorer, (src[:1], dst[:1], t[:1]))
    assert [part.name for part in why.parts] == ["repeated", "common", "longer", "apart", "time"]
    assert (why.interaction, why.interaction_in_words) == (None, "")
    assert not any(part.counted for part in why.parts)


def test_times_beyond_all_reason_stay_finite() -> None:
    events = random_events(3, num_nodes=10, num_links=150, dtype=np.float64)
    scorer = random_scorer(cawn.Config(num_walks=M, dim=8), events, (0.05, 1.0))
    why = explain(scorer, (np.array([1]), np.array([2]), np.array([1e305])))
    values = [why.probability, why.logit, why.base, *(part.contribution for part in why.parts)]
    assert np.isfinite(values).all()


def test_nothing_to_explain() -> None:
    scorer, _, (src, dst, _) = random_pairs()
    early = np.array([-5])
    for background in ("strangers", "pairs"):
        with pytest.raises(QueryError, match="neither node has a link before -5: there is nothing to explain"):
            explain(scorer, (src[:1], dst[:1], early), background=background)


def test_the_past_in_words_and_numbers(tmp_path) -> None:
    """The history of a pair as it is in the data, dates included."""
    start = datetime(2024, 3, 1)
    src = ["ann", "ann", "bob", "cid", "ann", "bob"] * 8
    dst = ["bob", "cid", "cid", "dan", "dan", "ann"] * 8
    events = cawn.Events(*_ids(src, dst), np.array([start + timedelta(days=i) for i in range(48)], "M8[s]"))
    events = events.named(NameIndex.of(np.array(["ann", "bob", "cid", "dan"])))
    config = cawn.Config(num_walks=8, dim=8, epochs=1)
    cawn.train(events, config, out=tmp_path / "run", quiet=True, device="cpu", task=cawn.Task(baselines=False))
    why = cawn.LinkPredictor.load(tmp_path / "run").explain("ann", "bob", "2024-04-10T12:00:00", draws=2)
    # Before day 40.5 there are links on days 0 to 40: of ann and bob on days 0, 5, 6, 11, ..., 36.
    together = [i for i in range(41) if {src[i], dst[i]} == {"ann", "bob"}]
    assert why.past.pair_links == len(together)
    assert why.past.src_links == sum("ann" in (src[i], dst[i]) for i in range(41))
    assert why.time == "2024-04-10T12:00:00"
    last = (start + timedelta(days=together[-1])).strftime("%Y-%m-%d")
    details = {part.name: part.detail for part in why.parts}
    assert details["pair"] == f"they have linked {len(together)} times before, the last at {last}"
    data = json.loads(json.dumps(why.to_dict()))
    assert data["time"] == "2024-04-10T12:00:00"
    for walk in data["walks"]:
        for link in walk["links"]:
            assert link["time"] == str(np.datetime64(link["t"], "s"))[:10]
    assert data["answer"] == why.answer
    assert why.answer.startswith("A link between ann and bob at 2024-04-10T12:00:00 is ")


def _ids(*columns: list[str]) -> list[np.ndarray]:
    names = sorted({name for column in columns for name in column})
    return [np.array([names.index(name) for name in column]) for column in columns]


@pytest.mark.parametrize(
    ("probability", "words"),
    [(0.97, "very likely"), (0.7, "likely"), (0.5, "uncertain"), (0.2, "unlikely"), (0.01, "very unlikely")],
)
def test_the_answer_names_the_part_that_decides(probability: float, words: str) -> None:
    walk = Walk("src", 1, -1.5, "(0,1)", ["a"], [])
    answer = small_explanation([walk], probability=probability, base=0.0).answer
    assert f" is {words} (probability {probability:.2f})" in answer
    if words == "uncertain":
        assert "; the largest contribution comes from walks along a repeated link (" in answer
    else:  # the part with the largest contribution of the same sign
        deciding = "the pair's own history" if probability >= 0.5 else "walks along a repeated link"
        assert f", mainly because of {deciding} (" in answer
    if probability < 0.4:  # where strangers already have a low score, nothing in particular lowers it
        low = small_explanation([walk], probability=probability, base=-100.0).answer
        assert low.endswith(f"(probability {probability:.2f}): no part of its history raises the score enough.")


@pytest.mark.parametrize(("value", "words"), [(-0.5, "0.50 less"), (0.5, "0.50 more"), (0.01, "independently")])
def test_interaction_in_words(value: float, words: str) -> None:
    assert words in small_explanation([], interaction=value).interaction_in_words


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
    """Without the links of its three strongest walks, a score loses much more than without others; about eight times
    as much, but trained weights differ between machines."""
    predictor = cawn.LinkPredictor.load(law_run(name))
    found = deletion(predictor, some_test_links(predictor, 150), draws=2)
    assert found.ratio > 3
    assert found.apart


def test_scores_depend_on_the_strongest_walks_of_a_real_network(network, tmp_path) -> None:
    config = cawn.Config(alpha="ladder", num_walks=32, dim=32, epochs=1, lr=3e-3, schedule="constant")
    task = cawn.Task(negatives=("random",), baselines=False)
    options = {"quiet": True, "task": task, "device": "cpu"}
    cawn.train(network("uci")[:15_000], config, out=tmp_path / "run", **options)
    predictor = cawn.LinkPredictor.load(tmp_path / "run")
    found = deletion(predictor, some_test_links(predictor, 120), draws=1)
    assert len(found.strongest) >= 80
    assert found.ratio > 3
    assert found.apart


def test_a_walk_contributes_the_same_in_any_explanation(law_run) -> None:
    """Draws, prior and what else is asked for change nothing about contributions."""
    predictor = cawn.LinkPredictor.load(law_run("triadic closure"))
    events = predictor.snapshot().events
    link = int(events.src[-30]), int(events.dst[-30]), events.t[-30].item()
    one, two = predictor.explain(*link, draws=2), predictor.explain(*link, draws=4, prior=0.1, shapes=True)
    np.testing.assert_allclose(
        [walk.contribution for walk in one.walks], [walk.contribution for walk in two.walks], atol=SCORES
    )
