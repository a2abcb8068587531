"""What a user holds: scores, ranks, embeddings, updates, and a folder that is all it needs."""

import json
import pickle
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

import cawn
from cawn import snapshot
from cawn.caw.config import Config
from cawn.caw.features import WALK_SEED
from cawn.data import laws
from cawn.data.names import NameIndex
from cawn.kernels.rng import seed_for
from cawn.learn.calibration import RollingCalibration
from cawn.learn.negatives import part_negatives
from cawn.learn.reliability import reliability
from cawn.learn.runs import load_system, read_description, read_run
from cawn.learn.splits import split_of_run
from cawn.predictor import LinkPredictor, Scores
from cawn.rankings import Ranked, Ranking, Rankings
from cawn.walks import candidates
from tolerances import assert_same_scores

SMALL = Config(alpha="ladder", num_walks=8, dim=8, frequencies=4, batch_size=64, epochs=1, lr=3e-3)


@pytest.fixture(scope="module")
def events() -> cawn.Events:
    plain = laws.triadic_closure(60, 1_500, seed=0).events
    return cawn.Events(plain.src, plain.dst, plain.t, labels=[f"n{i}" for i in range(60)])


@pytest.fixture(scope="module")
def folder(events, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    cawn.train(events, SMALL, out=path, quiet=True, task=cawn.Task(negatives=("random",)))
    return path


@pytest.fixture
def predictor(folder: Path) -> LinkPredictor:
    return LinkPredictor.load(folder)


@pytest.fixture(scope="module")
def now(events) -> int:
    return int(events.t[-1]) + 1


def some(events: cawn.Events, count: int = 20) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    last = slice(len(events) - count, len(events))
    return events.labels[events.src[last]], events.labels[events.dst[last]], events.t[last]


def test_scores_are_the_calibrated_logits_of_the_model(events, folder, predictor) -> None:
    src, dst, t = some(events)
    system = load_system(read_run(folder), torch.device("cpu"))
    batcher, model = system.scorer(predictor.snapshot().events).batcher, system.module.eval()
    logits = model(batcher.pairs(events.ids(src), events.ids(dst), t, seed=WALK_SEED)).detach().numpy()
    found = json.loads((folder / "report.json").read_text())["calibration"]
    expected = RollingCalibration.from_dict(found).probability(logits, t)
    assert_same_scores(predictor.score(src, dst, t), expected)


def test_one_serves_all(events, predictor) -> None:
    src, dst, t = some(events)
    one = predictor.score(src[0], dst, t[0])
    np.testing.assert_array_equal(one, predictor.score([src[0]] * 20, dst, [t[0]] * 20))
    assert predictor.score(src[0], dst[0], t[0]).shape == (1,)
    assert predictor.score([], [], []).shape == (0,)
    with pytest.raises(cawn.QueryError, match="give as many of each"):
        predictor.score(src, dst[:3], t)
    names, expected = ["n1", "n2"], predictor.score(["n1", "n2"], "n3", t[0])
    for given in (np.array(names), np.array(names, object), pa.array(names), iter(names), tuple(names)):
        np.testing.assert_array_equal(predictor.score(given, "n3", t[0]), expected)
    assert predictor.score(["n1\0"], "n3", t[0]) != predictor.score(["n1"], "n3", t[0])


def test_strangers_have_no_history(events, predictor, now) -> None:
    known = events.labels[events.src[-1]]
    scores = predictor.score(["nobody", "someone", known], ["somebody", known, "nobody"], now)
    assert np.isfinite(scores).all()
    assert predictor.score("nobody", "else", now) == predictor.score("who", "what", now)
    assert predictor.score("same", "same", now) != predictor.score("same", "other", now)
    assert predictor.knows(known)
    assert not predictor.knows("nobody")
    assert predictor.snapshot().count_unknown(["nobody", known, "n1"], [known, "nobody", "n2"]) == 2
    assert predictor.snapshot().unknown(["nobody", known], ["n1", "nobody"]) == ["nobody"]
    with pytest.raises(cawn.QueryError, match="'N1'; did you mean 'n1'"):
        predictor.score("N1", known, now, strict=True)
    assert predictor.score("n1", known, now, strict=True) == predictor.score("n1", known, now)
    assert np.isfinite(predictor.score("n1", "n2", -1_000)).all()  # before all history
    assert predictor.rank("n1", -1_000) == []
    alone = predictor.score("zz", "zz", now)
    assert_same_scores(predictor.rank("zz", now, candidates=["zz"])[0].probability, alone[0])
    predictor.update(cawn.Events([0], [1], [now + 50], labels=["zz", "n1"]))
    assert_same_scores(predictor.score("zz", "zz", now), alone)
    for name in (None, 3.7, True, b"3", ["n1", "n2"], {}):
        for ask in (lambda name: predictor.rank(name, 100), predictor.knows):
            with pytest.raises(cawn.QueryError):
                ask(name)


def test_draws_give_the_sampling_error(events, predictor) -> None:
    src, dst, t = some(events)
    few, many = predictor.score(src, dst, t, draws=16), predictor.score(src, dst, t, draws=64)
    assert isinstance(many, Scores)
    assert (many.error >= 0).all()
    assert many.error.mean() < few.error.mean()
    assert (np.abs(few.probability - many.probability) < 6 * few.error + 0.02).all()
    with pytest.raises(cawn.QueryError, match="draws is 1"):
        predictor.score(src, dst, t, draws=1)


def test_embeddings(events, folder, predictor) -> None:
    src, dst, t = some(events)
    found = predictor.embed(src, dst, t)
    model = load_system(read_run(folder), torch.device("cpu")).module.eval()
    assert found.shape == (20, model.width)
    logits = model.head(torch.from_numpy(found)).squeeze(-1).detach().double().numpy()
    assert_same_scores(predictor.calibration.probability(logits, t), predictor.score(src, dst, t))


def test_updates_become_history(events, folder, predictor, tmp_path) -> None:
    """The same as a predictor that had known these links from the start; new nodes too."""
    now = int(events.t[-1])
    before = predictor.score("n1", ["n2", "newcomer"], now + 10)
    new = cawn.Events([0, 2], [1, 1], [now + 2, now + 3], labels=["n1", "newcomer", "n7"])
    predictor.update(new)
    assert predictor.num_links == len(events) + 2
    after = predictor.score("n1", ["n2", "newcomer"], now + 10)
    assert (before != after).all()
    np.testing.assert_array_equal(
        predictor.score("n1", ["n2", "newcomer"], now), LinkPredictor.load(folder).score("n1", ["n2", "newcomer"], now)
    )
    predictor.save(tmp_path / "later")
    np.testing.assert_array_equal(
        LinkPredictor.load(tmp_path / "later").score("n1", ["n2", "newcomer"], now + 10), after
    )
    with pytest.raises(cawn.QueryError, match="holds a run already"):
        predictor.save(tmp_path / "later")
    with pytest.raises(cawn.QueryError, match="links were added after its training"):
        cawn.evaluate(tmp_path / "later")
    predictor.update(cawn.Events([0], [1], [now - 50]))  # late links take their place in time
    assert np.isfinite(predictor.score("0", "1", now)).all()


def test_a_run_in_memory_is_a_predictor_too(events, folder, tmp_path) -> None:
    run, asked = cawn.train(events, SMALL, quiet=True, task=cawn.Task(negatives=("random",))), some(events)
    LinkPredictor.of(run).save(tmp_path / "saved")
    for same in (LinkPredictor.of(run), LinkPredictor.load(tmp_path / "saved")):
        np.testing.assert_array_equal(same.score(*asked), LinkPredictor.load(folder).score(*asked))


def test_a_failing_update_changes_nothing(predictor, events, now) -> None:
    predictor.update(cawn.Events([0], [1], [now], labels=["n1", "n2"]))
    with pytest.raises(cawn.DataError, match="spans more"):
        predictor.update(cawn.Events([0], [1], [-(2**63)]))
    with pytest.raises(cawn.DataError, match="1 link attributes, but the model needs 0"):
        predictor.update(cawn.Events([0], [1], [5], msg=[[1.0]]))
    assert np.isfinite(predictor.score("n1", "n2", now + 2)).all()
    assert predictor.num_links == len(events) + 1


def test_identity_names_the_history(folder, now) -> None:
    a, b, c = (LinkPredictor.load(folder) for _ in range(3))
    assert a.identity == b.identity
    a.update(cawn.Events([0], [1], [now], labels=["n1", "n2"]))
    b.update(cawn.Events([0], [1], [now], labels=["n3", "n4"]))
    assert len({a.identity, b.identity, c.identity}) == 3


def test_two_sided_names_and_dates(tmp_path: Path) -> None:
    path = tmp_path / "clicks.csv"
    rng = np.random.default_rng(0)
    days = np.sort(rng.integers(0, 300, 800))
    rows = [f"{rng.integers(20)},{rng.integers(9)},{np.datetime64('2024-01-01') + d}" for d in days]
    path.write_text("user_id,item_id,timestamp\n" + "\n".join(rows) + "\n")
    cawn.train(cawn.read(path), SMALL, out=tmp_path / "run", quiet=True, task=cawn.Task(negatives=("random",)))
    predictor = LinkPredictor.load(tmp_path / "run")
    assert predictor.knows("user:3")
    noon = "2024-10-20T12:00"
    for same in (("user:3", "item:3", noon), (3, 3, np.datetime64(noon)), (3, 3, "2024-10-20T14:00:00+02:00")):
        np.testing.assert_array_equal(predictor.score(3, 3, noon), predictor.score(*same))
    with pytest.raises(cawn.QueryError, match="ISO dates"):
        predictor.score(3, 3, "yesterday")
    before = predictor.score(3, 3, "2024-12-01")
    predictor.update(
        pa.table({"who": [3, 99], "what": [3, 3], "when": ["2024-11-20"] * 2}), src="who", dst="what", time="when"
    )
    assert predictor.knows("user:99")
    assert not predictor.knows("item:99")
    assert predictor.score(3, 3, "2024-12-01") != before
    assert predictor.score("zz", "zz", "2024-12-01") == predictor.score("zz", "other", "2024-12-01")


@pytest.mark.parametrize("part", ["weights.safetensors", "network-*", "run.json", "config.toml", "report.json"])
def test_damage_is_one_line(folder: Path, tmp_path: Path, part: str) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    chosen = next(copy.glob(part))
    damaged = sorted(chosen.iterdir())[0] if chosen.is_dir() else chosen
    damaged.write_bytes(b"\x00 damaged")
    with pytest.raises(cawn.StorageError) as caught:
        LinkPredictor.load(copy)
    assert "\n" not in str(caught.value)
    shutil.rmtree(chosen) if chosen.is_dir() else chosen.unlink()
    if part == "config.toml":
        LinkPredictor.load(copy)
    else:
        with pytest.raises(cawn.StorageError):
            LinkPredictor.load(copy)


def test_without_directions_both_orders_are_one_question() -> None:
    events = laws.triadic_closure(40, 900, seed=0).events
    one_way = cawn.Events(np.minimum(events.src, events.dst), np.maximum(events.src, events.dst), events.t)
    config = Config(alpha=0.01, num_walks=4, length=1, dim=4, frequencies=2, epochs=1, directed=False)
    predictor = LinkPredictor.of(
        cawn.train(one_way, config, quiet=True, task=cawn.Task(negatives=("random",)), device="cpu")
    )
    rng = np.random.default_rng(0)
    src, dst, t = rng.integers(0, 45, 200), rng.integers(0, 45, 200), rng.integers(0, 2000, 200)
    np.testing.assert_array_equal(predictor.score(src, dst, t), predictor.score(dst, src, t))
    np.testing.assert_array_equal(predictor.embed(src, dst, t), predictor.embed(dst, src, t))
    both = predictor.score([3, 9, 3], [9, 3, 9], [900, 900, 800])
    assert both[0] == both[1]
    assert len(predictor.score([], [], [])) == 0
    last = int(one_way.t[-1]) + 1  # node 0 is never a destination, and a candidate all the same
    assert 0 in [name for name, *_ in predictor.rank(39, last, k=40, candidates="all")]


def later(events: cawn.Events, count: int) -> cawn.Events:
    """More links after the last one, between the same nodes."""
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, events.num_nodes, (2, count))
    return cawn.Events(src, dst, events.t[-1] + 1 + np.arange(count), labels=events.labels)


def test_updates_recalibrate_later_queries_only(events, folder, tmp_path) -> None:
    src, dst, t = some(events)
    predictor, fixed = LinkPredictor.load(folder), LinkPredictor.load(folder, recalibrate=False)
    before, new = predictor.score(src, dst, t), later(events, 300)
    steps = len(predictor.calibration.steps)
    for each in (predictor, fixed):
        each.update(new)
    np.testing.assert_array_equal(predictor.score(src, dst, t), before)
    assert len(fixed.calibration.steps) == steps
    assert len(predictor.calibration.steps) == steps + 3  # of 125 links: 100 test links and these
    end = events.t[-1] + 1_000
    assert predictor.score(src, dst, end).tolist() != fixed.score(src, dst, end).tolist()
    np.testing.assert_array_equal(*(np.argsort(p.score(src[0], dst, end)) for p in (predictor, fixed)))

    predictor.save(tmp_path / "saved")
    read = LinkPredictor.load(tmp_path / "saved")
    assert read.calibration == predictor.calibration
    np.testing.assert_array_equal(read.score(src, dst, end), predictor.score(src, dst, end))
    assert read.identity == predictor.identity != fixed.identity


def test_recalibration_counts_the_links_of_several_updates(events, folder, predictor, monkeypatch) -> None:
    """Too few links change nothing until further ones arrive; of many, only the newest are scored."""
    new, steps = later(events, 30), len(predictor.calibration.steps)
    assert (events.t > predictor.calibration.since[-1]).sum() == 100
    for links, more in ((new[:20], 0), (new[20:], 1)):
        predictor.update(links)
        assert len(predictor.calibration.steps) == steps + more
    monkeypatch.setattr("cawn.learn.testing.MOST_RECALIBRATED", 150)
    other = LinkPredictor.load(folder)
    other.update(later(events, 600))
    assert other.calibration.since[steps:] == (events.t[-1] + 450 + 125,)


def test_probabilities_of_test_links_are_those_of_the_results(events, folder, predictor) -> None:
    """The predictor's calibration at a time is the one that the evaluation used: fitted on earlier links alone."""
    parts = split_of_run(events, read_description(folder))
    links, names = parts.test["all"], events.labels
    negatives = part_negatives(events, parts, "all", "random", seed_for(0, "test")).dst
    true, false = (
        predictor.score(names[events.src[links]], names[dst], events.t[links]) for dst in (events.dst[links], negatives)
    )
    expected = json.loads((folder / "results.json").read_text())[0]["reliability"]["rolling"]
    found = reliability(true, false)
    assert found["brier"] == pytest.approx(expected["brier"], abs=1e-4)
    assert found["ece"] == pytest.approx(expected["ece"], abs=5e-3)  # rounding may move a pair to the next bin


def test_facts_of_a_node(events, predictor, now) -> None:
    node, last = events.labels[events.src[-1]], now + 4
    mine = np.flatnonzero((events.src == events.src[-1]) | (events.dst == events.src[-1]))
    newest = [(events.labels[events.src[i]], events.labels[events.dst[i]], events.t[i]) for i in mine[::-1][:3]]
    assert predictor.node(node, 3) == (True, len(mine), events.t[mine[0]], events.t[mine[-1]], newest)
    predictor.append([node], ["a new node"], [last])
    assert predictor.node("a new node") == (True, 1, last, last, [(str(node), "a new node", last)])
    assert predictor.node(node, 0) == (True, len(mine) + 1, events.t[mine[0]], last, [])
    assert predictor.node("a stranger") == (False, 0, None, None, [])


# Rankings: the same whoever numbers the nodes, one source at a time or many, and as tables


def test_rank_is_the_order_of_scores(events, predictor, now) -> None:
    src = events.labels[events.src[-1]]
    others = [name for name in events.labels if name != src]
    scores = dict(zip(others, predictor.score(src, others, now), strict=True))
    for options in ({}, {"byte_budget": 1}):
        ranked = predictor.rank(src, now, k=60, candidates=others, **options)
        assert {r.name for r in ranked} == set(others)
        assert [r.probability for r in ranked] == sorted((r.probability for r in ranked), reverse=True)
        assert {r.found for r in ranked} == {"given"}
        assert_same_scores([r.probability for r in ranked], [scores[r.name] for r in ranked])


def test_rank_says_how_it_chose(events, predictor, now) -> None:
    src = events.labels[events.src[-1]]
    chosen = predictor.rank(src, now, k=100)
    assert {r.found for r in chosen} <= {"recent", "two hops", "popular"}
    assert src not in {r.name for r in chosen}
    partners = {r.name for r in predictor.rank(src, now, k=100, kinds=["recent"])}
    touching = (events.src == events.src[-1]) | (events.dst == events.src[-1])
    ends = np.where(events.src == events.src[-1], events.dst, events.src)
    assert partners <= set(events.labels[ends[touching]])
    assert len(predictor.rank(src, now, k=3)) == 3
    assert {r.found for r in predictor.rank("nobody", now)} == {"popular"}
    wrong = {"kinds": [["luck"], None, "recent"], "byte_budget": ["x"], "k": [0, 1.5]}
    for name, values in wrong.items():
        for value in values:
            for ask in (predictor.rank, predictor.rank_many):
                with pytest.raises(cawn.QueryError, match=name):
                    ask("n1", now, **{name: value})


def renumbered(predictor: LinkPredictor, events: cawn.Events, seed: int) -> LinkPredictor:
    """The same predictor on the same links, nodes numbered otherwise."""
    new = np.random.default_rng(seed).permutation(events.num_nodes)
    labels = np.empty(events.num_nodes, object)
    labels[new] = events.labels
    moved = cawn.Events(new[events.src], new[events.dst], events.t, labels=labels)
    return LinkPredictor(predictor.snapshot().model, moved, NameIndex.of(moved.labels), predictor.calibration)


@pytest.mark.parametrize("given", [None, "all"])
def test_node_numbers_change_nothing(predictor, events, now, monkeypatch, given) -> None:
    """Also where more nodes are found than are kept."""
    monkeypatch.setattr(candidates, "MAX_CANDIDATES", 7)
    ask = lambda each: list(each.rank_many(predictor.nodes()[:12], now, candidates=given))  # noqa: E731
    expected = ask(predictor)
    for seed in range(3):
        for a, b in zip(ask(renumbered(predictor, events, seed)), expected, strict=True):
            assert [(r.name, r.found) for r in a] == [(r.name, r.found) for r in b]
            np.testing.assert_allclose([r.probability for r in a], [r.probability for r in b], rtol=1e-5)


def test_equal_probabilities_are_ordered_by_name(predictor, now, monkeypatch) -> None:
    strangers = [f"stranger {i}" for i in (3, 1, 2)]
    monkeypatch.setattr(type(predictor.snapshot().scorer), "__call__", lambda _, src, dst, t: np.zeros(len(dst)))
    ranked = predictor.rank("n1", now, candidates=strangers)
    assert len({r.probability for r in ranked}) == 1
    assert [r.name for r in ranked] == sorted(strangers)
    assert [r.name for r in predictor.rank("n1", now, k=2, candidates=strangers)] == sorted(strangers)[:2]


def test_many_are_ranked_as_one_by_one(predictor, events, now, monkeypatch) -> None:
    monkeypatch.setattr(snapshot, "PAIRS_AT_ONCE", 100)
    nodes = [*predictor.nodes()[:4], "stranger"]
    for how in ({}, {"candidates": "all"}, {"candidates": ["n1", "n2", "stranger"]}, {"byte_budget": 1}):
        many = list(predictor.rank_many(nodes, now, k=5, **how))
        assert [ranking.node for ranking in many] == nodes
        for node, ranking in zip(nodes, many, strict=True):
            scores = dict(zip([r.name for r in ranking], [r.probability for r in ranking], strict=True))
            alone = {r.name: r.probability for r in predictor.rank(node, now, k=5, **how)}
            assert scores == pytest.approx(alone, rel=1e-5)


def test_many_may_have_times_of_their_own(predictor, events, now) -> None:
    times = [now, int(events.t[600]), int(events.t[0])]
    many = list(predictor.rank_many(["n1", "n2", "n1"], times, k=3))
    assert many[2] == []
    for node, t, ranking in zip(["n1", "n2", "n1"], times, many, strict=True):
        assert [r.name for r in ranking] == [r.name for r in predictor.rank(node, t, k=3)]
    with pytest.raises(cawn.QueryError, match="3 nodes and 2 times"):
        predictor.rank_many(["n1", "n2", "n3"], [1, 2])
    assert list(predictor.rank_many([], now)) == []


def test_many_are_answered_from_one_history(predictor, now) -> None:
    answers, prepared = predictor.rank_many(["n1", "n2"], now + 10, k=5), predictor.snapshot().candidates
    expected = [predictor.rank(node, now + 10, k=5) for node in ("n1", "n2")]
    assert predictor.snapshot().candidates is prepared
    predictor.update(cawn.Events([0], [1], [now], labels=["n1", "n50"]))
    for ranking, before in zip(answers, expected, strict=True):
        assert [r.name for r in ranking] == [r.name for r in before]


def test_everyone_who_was_a_destination(predictor, events, now) -> None:
    half = int(events.t[600])
    before = {f"n{i}" for i in events.dst[events.t < half]} - {"n1"}
    ranked = predictor.rank("n1", half, k=100, candidates="all")
    assert {r.name for r in ranked} == before
    assert {r.found for r in ranked} == {"all"}
    scores = dict(zip([r.name for r in ranked], predictor.score("n1", [r.name for r in ranked], half), strict=True))
    assert {r.name: r.probability for r in ranked} == pytest.approx(scores, rel=1e-5)


def test_nodes(predictor, events) -> None:
    assert predictor.nodes() == events.labels.tolist()
    assert set(predictor.nodes("src")) == {f"n{i}" for i in events.src}
    assert set(predictor.nodes("dst")) == {f"n{i}" for i in events.dst}
    with pytest.raises(cawn.QueryError, match="side is 'both'"):
        predictor.nodes("both")


def test_rankings_unpack_and_are_tables(predictor, now) -> None:
    ranked = predictor.rank("n1", now, k=3)
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
    assert Ranking("n1", []).to_table().num_rows == 0
    scores = predictor.score_table("n1", ["n2", "n3"], now)
    assert scores.column_names == ["src", "dst", "t", "probability"]
    assert scores["src"].to_pylist() == ["n1", "n1"]
    np.testing.assert_array_equal(scores["probability"].to_numpy(), predictor.score("n1", ["n2", "n3"], now))
    assert predictor.score_table("n1", "n2", now, draws=2).column_names[-1] == "error"


def test_many_rankings_are_one_table() -> None:
    found = [Ranking(1, [Ranked(7, 0.5, "recent"), Ranked(8, 0.25, "popular")])]
    found += [Ranking(2, []), Ranking(3, [Ranked(1, 0.5, "all")])]
    table = Rankings(iter(found)).to_table()
    assert [list(row.values()) for row in table.to_pylist()] == [
        [1, 1, 7, 0.5, "recent"],
        [1, 2, 8, 0.25, "popular"],
        [3, 1, 1, 0.5, "all"],
    ]
    assert table["candidate"].type == pa.int64()
    rankings = Rankings(found)
    assert next(rankings).node == 1
    assert rankings.to_table()["node"].to_pylist() == [3], "those that are left"
    assert Rankings([]).to_table().num_rows == 0
