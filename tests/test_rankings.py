"""Rankings: the same whoever numbers the nodes, one source at a time or many, and as tables."""

import pickle

import numpy as np
import pyarrow as pa
import pytest

import cawn
from cawn import snapshot
from cawn.data import laws
from cawn.data.names import NameIndex
from cawn.predictor import LinkPredictor
from cawn.rankings import Ranked, Ranking, Rankings
from cawn.systems.cawn.config import Config
from cawn.walks import candidates
from cawn.walks.candidates import Candidates

SMALL = Config(alpha=0.001, num_walks=8, length=2, dim=8, frequencies=4, epochs=1)


@pytest.fixture(scope="module")
def events() -> cawn.Events:
    plain = laws.triadic_closure(60, 1_200, seed=0).events
    return cawn.Events(plain.src, plain.dst, plain.t, labels=[f"n{i}" for i in range(60)])


@pytest.fixture(scope="module")
def run(events):
    return cawn.train(events, SMALL, quiet=True, kinds=("random",))


@pytest.fixture
def model(run) -> LinkPredictor:
    return LinkPredictor.of(run)


@pytest.fixture(scope="module")
def now(events) -> int:
    return int(events.t[-1]) + 1


def renumbered(model: LinkPredictor, events: cawn.Events, seed: int) -> LinkPredictor:
    """The same predictor on the same links, nodes numbered otherwise."""
    new = np.random.default_rng(seed).permutation(events.num_nodes)
    labels = np.empty(events.num_nodes, object)
    labels[new] = events.labels
    moved = cawn.Events(new[events.src], new[events.dst], events.t, labels=labels)
    return LinkPredictor(model.snapshot().model, moved, NameIndex.of(moved.labels), model.calibration)


@pytest.mark.parametrize("given", [None, "all"])
def test_node_numbers_change_nothing(model, events, now, monkeypatch, given) -> None:
    """Also where more nodes are found than are kept."""
    monkeypatch.setattr(candidates, "MAX_CANDIDATES", 7)
    nodes = model.nodes()[:12]
    for seed in range(3):
        other = renumbered(model, events, seed)
        for a, b in zip(
            model.rank_many(nodes, now, candidates=given), other.rank_many(nodes, now, candidates=given), strict=True
        ):
            assert [(r.name, r.found) for r in a] == [(r.name, r.found) for r in b]
            np.testing.assert_allclose([r.probability for r in a], [r.probability for r in b], rtol=1e-5)


def test_equal_probabilities_are_ordered_by_name(model, now, monkeypatch) -> None:
    strangers = [f"stranger {i}" for i in (3, 1, 2)]
    monkeypatch.setattr(type(model.snapshot().scorer), "__call__", lambda _, src, dst, t: np.zeros(len(dst)))
    ranked = model.rank("n1", now, candidates=strangers)
    assert len({r.probability for r in ranked}) == 1
    assert [r.name for r in ranked] == sorted(strangers)
    assert [r.name for r in model.rank("n1", now, k=2, candidates=strangers)] == sorted(strangers)[:2]


def test_many_are_ranked_as_one_by_one(model, events, now, monkeypatch) -> None:
    monkeypatch.setattr(snapshot, "PAIRS_AT_ONCE", 100)
    nodes = [*model.nodes()[:4], "stranger"]
    for how in ({}, {"candidates": "all"}, {"candidates": ["n1", "n2", "stranger"]}, {"byte_budget": 1}):
        many = list(model.rank_many(nodes, now, k=5, **how))
        assert [ranking.node for ranking in many] == nodes
        for node, ranking in zip(nodes, many, strict=True):
            scores = dict(zip([r.name for r in ranking], [r.probability for r in ranking], strict=True))
            alone = {r.name: r.probability for r in model.rank(node, now, k=5, **how)}
            assert scores == pytest.approx(alone, rel=1e-5)


def test_many_may_have_times_of_their_own(model, events, now) -> None:
    times = [now, int(events.t[600]), int(events.t[0])]
    many = list(model.rank_many(["n1", "n2", "n1"], times, k=3))
    assert many[2] == []
    for node, t, ranking in zip(["n1", "n2", "n1"], times, many, strict=True):
        assert [r.name for r in ranking] == [r.name for r in model.rank(node, t, k=3)]
    with pytest.raises(cawn.QueryError, match="3 nodes and 2 times"):
        model.rank_many(["n1", "n2", "n3"], [1, 2])
    assert list(model.rank_many([], now)) == []


def test_many_are_answered_from_one_history(model, now) -> None:
    answers = model.rank_many(["n1", "n2"], now + 10, k=5)
    expected = [model.rank(node, now + 10, k=5) for node in ("n1", "n2")]
    model.update(cawn.Events([0], [1], [now], labels=["n1", "n50"]))
    for ranking, before in zip(answers, expected, strict=True):
        assert [r.name for r in ranking] == [r.name for r in before]


def test_everyone_who_was_a_destination(model, events, now) -> None:
    half = int(events.t[600])
    before = {f"n{i}" for i in events.dst[events.t < half]} - {"n1"}
    ranked = model.rank("n1", half, k=100, candidates="all")
    assert {r.name for r in ranked} == before
    assert {r.found for r in ranked} == {"all"}
    scores = dict(zip([r.name for r in ranked], model.score("n1", [r.name for r in ranked], half), strict=True))
    assert {r.name: r.probability for r in ranked} == pytest.approx(scores, rel=1e-5)


def test_candidates_are_prepared_once(model, now, monkeypatch) -> None:
    made = []
    model.rank("n1", now)
    monkeypatch.setattr(Candidates, "__init__", lambda *_: made.append(1))
    model.rank("n1", now)
    list(model.rank_many(["n1", "n2"], now))
    assert not made


def test_nodes(model, events) -> None:
    assert model.nodes() == events.labels.tolist()
    assert set(model.nodes("src")) == {f"n{i}" for i in events.src}
    assert set(model.nodes("dst")) == {f"n{i}" for i in events.dst}
    with pytest.raises(cawn.QueryError, match="side is 'both'"):
        model.nodes("both")


def test_rankings_unpack_and_are_tables(model, now) -> None:
    ranked = model.rank("n1", now, k=3)
    assert isinstance(ranked, list)
    for name, probability, found in ranked:
        assert isinstance(name, str)
        assert 0 <= probability <= 1
        assert found in candidates.KINDS
    table = ranked.to_table()
    assert table.column_names == ["node", "rank", "candidate", "probability", "found"]
    assert table["rank"].to_pylist() == [1, 2, 3]
    assert table["candidate"].to_pylist() == [r.name for r in ranked]
    assert pickle.loads(pickle.dumps(ranked)).to_table().equals(table)
    assert "<td>n1</td>" in ranked._repr_html_()
    hostile = Ranking("<b>", [Ranked(7, 0.5, "given"), Ranked("<script>", 0.25, "given")])
    assert "<script>" not in hostile._repr_html_()
    assert hostile.to_table()["candidate"].to_pylist() == ["7", "<script>"]
    assert Ranking(1, [Ranked(7, 0.5, "given")]).to_table()["candidate"].type == pa.int64()
    assert Ranking("n1", []).to_table().num_rows == 0


def test_many_rankings_are_one_table() -> None:
    found = [
        Ranking(1, [Ranked(7, 0.5, "recent"), Ranked(8, 0.25, "popular")]),
        Ranking(2, []),
        Ranking(3, [Ranked(1, 0.5, "all")]),
    ]
    table = Rankings(iter(found)).to_table()
    assert table.to_pydict() == {
        "node": [1, 1, 3],
        "rank": [1, 2, 1],
        "candidate": [7, 8, 1],
        "probability": [0.5, 0.25, 0.5],
        "found": ["recent", "popular", "all"],
    }
    rankings = Rankings(found)
    assert next(rankings).node == 1
    assert rankings.to_table()["node"].to_pylist() == [3], "those that are left"
    assert Rankings([]).to_table().num_rows == 0


def test_scores_as_a_table(model, now) -> None:
    table = model.score_table("n1", ["n2", "n3"], now)
    assert table.column_names == ["src", "dst", "t", "probability"]
    assert table["src"].to_pylist() == ["n1", "n1"]
    np.testing.assert_array_equal(table["probability"].to_numpy(), model.score("n1", ["n2", "n3"], now))
    assert model.score_table("n1", "n2", now, draws=2).column_names[-1] == "error"


@pytest.mark.parametrize("wrong", [{"kinds": None}, {"kinds": "recent"}, {"byte_budget": "x"}, {"k": 1.5}])
def test_wrong_arguments_are_named(model, now, wrong) -> None:
    for ask in (model.rank, model.rank_many):
        with pytest.raises(cawn.QueryError, match=next(iter(wrong))):
            ask("n1", now, **wrong)
