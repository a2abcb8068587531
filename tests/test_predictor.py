"""What a user holds: scores, ranks, embeddings, updates, and a folder that is all it needs."""

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch

import cawn
from cawn.data import laws
from cawn.kernels.rng import seed_for
from cawn.learn.calibration import RollingCalibration
from cawn.learn.negatives import part_negatives
from cawn.learn.reliability import reliability
from cawn.learn.runs import load_system, read_description, read_run
from cawn.learn.splits import split_of_run
from cawn.predictor import LinkPredictor, Scores
from cawn.systems.cawn.config import Config
from cawn.systems.cawn.features import WALK_SEED
from tolerances import assert_same_scores

SMALL = Config(alpha="ladder", num_walks=8, dim=8, frequencies=4, batch_size=64, epochs=1, lr=3e-3)


@pytest.fixture(scope="module")
def events() -> cawn.Events:
    plain = laws.triadic_closure(60, 1_500, seed=0).events
    return cawn.Events(plain.src, plain.dst, plain.t, labels=[f"n{i}" for i in range(60)])


@pytest.fixture(scope="module")
def folder(events, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    cawn.train(events, SMALL, out=path, quiet=True, kinds=("random",))
    return path


@pytest.fixture
def predictor(folder: Path) -> LinkPredictor:
    return LinkPredictor.load(folder)


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


def test_strangers_have_no_history(events, predictor) -> None:
    now = events.t[-1]
    known = events.labels[events.src[-1]]
    scores = predictor.score(["nobody", "someone", known], ["somebody", known, "nobody"], now)
    assert np.isfinite(scores).all()
    assert predictor.score("nobody", "else", now) == predictor.score("who", "what", now)
    assert predictor.score("same", "same", now) != predictor.score("same", "other", now)
    assert predictor.knows(known)
    assert not predictor.knows("nobody")


def test_a_time_before_all_history_is_allowed(events, predictor) -> None:
    assert np.isfinite(predictor.score("n1", "n2", -1_000)).all()
    assert predictor.rank("n1", -1_000) == []


def test_draws_give_the_sampling_error(events, predictor) -> None:
    src, dst, t = some(events)
    few, many = predictor.score(src, dst, t, draws=16), predictor.score(src, dst, t, draws=64)
    assert isinstance(many, Scores)
    assert (many.error >= 0).all()
    assert many.error.mean() < few.error.mean()
    assert (np.abs(few.probability - many.probability) < 6 * few.error + 0.02).all()
    with pytest.raises(cawn.QueryError, match="draws is 1"):
        predictor.score(src, dst, t, draws=1)


def test_rank_is_the_order_of_scores(events, predictor) -> None:
    now, src = events.t[-1] + 1, events.labels[events.src[-1]]
    others = [name for name in events.labels if name != src]
    ranked = predictor.rank(src, now, k=60, candidates=others)
    scores = dict(zip(others, predictor.score(src, others, now), strict=True))
    assert {r.name for r in ranked} == set(others)
    assert [r.probability for r in ranked] == sorted((r.probability for r in ranked), reverse=True)
    assert {r.found for r in ranked} == {"given"}
    assert_same_scores([r.probability for r in ranked], [scores[r.name] for r in ranked])
    again = predictor.rank(src, now, k=60, candidates=others, byte_budget=1)
    assert_same_scores([r.probability for r in again], [scores[r.name] for r in again])
    assert {r.name for r in again} == set(others)


def test_rank_says_how_it_chose(events, predictor) -> None:
    now, src = events.t[-1] + 1, events.labels[events.src[-1]]
    chosen = predictor.rank(src, now, k=100)
    assert {r.found for r in chosen} <= {"recent", "two hops", "popular"}
    assert src not in {r.name for r in chosen}
    partners = {r.name for r in predictor.rank(src, now, k=100, kinds=["recent"])}
    u = events.ids([src])[0]
    touching = (events.src == u) | (events.dst == u)
    assert partners <= set(events.labels[np.where(events.src == u, events.dst, events.src)[touching]])
    assert len(predictor.rank(src, now, k=3)) == 3
    assert {r.found for r in predictor.rank("nobody", now)} == {"popular"}
    for wrong, match in (({"kinds": ["luck"]}, "kinds 'luck'"), ({"k": 0}, "k is 0")):
        with pytest.raises(cawn.QueryError, match=match):
            predictor.rank(src, now, **wrong)


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


def test_attributes_must_fit(events, predictor) -> None:
    with pytest.raises(cawn.DataError, match="1 link attributes, but the model needs 0"):
        predictor.update(cawn.Events([0], [1], [5], msg=[[1.0]]))


def test_a_run_in_memory_is_a_predictor_too(events, folder, tmp_path) -> None:
    run = cawn.train(events, SMALL, quiet=True, kinds=("random",))
    src, dst, t = some(events)
    np.testing.assert_array_equal(
        LinkPredictor.of(run).score(src, dst, t), LinkPredictor.load(folder).score(src, dst, t)
    )
    LinkPredictor.of(run).save(tmp_path / "saved")
    np.testing.assert_array_equal(
        LinkPredictor.load(tmp_path / "saved").score(src, dst, t), LinkPredictor.load(folder).score(src, dst, t)
    )


@pytest.mark.parametrize("name", [None, 3.7, True, b"3", ["n1", "n2"], {}])
def test_what_is_no_name_is_refused(predictor, name) -> None:
    with pytest.raises(cawn.QueryError):
        predictor.rank(name, 100)
    with pytest.raises(cawn.QueryError):
        predictor.knows(name)


def test_names_from_anywhere(predictor, events) -> None:
    now, names = events.t[-1], ["n1", "n2"]
    expected = predictor.score(names, "n3", now)
    for given in (np.array(names), np.array(names, object), pa.array(names), iter(names), tuple(names)):
        np.testing.assert_array_equal(predictor.score(given, "n3", now), expected)
    assert predictor.score(["n1\0"], "n3", now) != predictor.score(["n1"], "n3", now)


def test_the_same_stranger_is_one_node(predictor, events) -> None:
    now = int(events.t[-1])
    alone = predictor.score("zz", "zz", now)
    assert_same_scores(predictor.rank("zz", now, candidates=["zz"])[0].probability, alone[0])
    predictor.update(cawn.Events([0], [1], [now + 50], labels=["zz", "n1"]))
    assert_same_scores(predictor.score("zz", "zz", now), alone)


def test_a_failing_update_changes_nothing(predictor, events) -> None:
    now = int(events.t[-1])
    predictor.update(cawn.Events([0], [1], [now + 1], labels=["n1", "n2"]))
    with pytest.raises(cawn.DataError, match="spans more"):
        predictor.update(cawn.Events([0], [1], [-(2**63)]))
    assert predictor.num_links == len(events) + 1
    assert np.isfinite(predictor.score("n1", "n2", now + 2)).all()
    assert predictor.num_links == len(events) + 1


def test_identity_names_the_history(folder, events) -> None:
    now = int(events.t[-1]) + 5
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
    cawn.train(cawn.read(path), SMALL, out=tmp_path / "run", quiet=True, kinds=("random",))
    predictor = LinkPredictor.load(tmp_path / "run")
    assert predictor.knows("user:3")
    np.testing.assert_array_equal(
        predictor.score(3, 3, "2024-10-20"), predictor.score("user:3", "item:3", "2024-10-20")
    )
    np.testing.assert_array_equal(
        predictor.score(3, 3, "2024-10-20T12:00"), predictor.score(3, 3, np.datetime64("2024-10-20T12:00"))
    )
    np.testing.assert_array_equal(
        predictor.score(3, 3, "2024-10-20T12:00:00Z"), predictor.score(3, 3, "2024-10-20T14:00:00+02:00")
    )
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
    predictor = LinkPredictor.of(cawn.train(one_way, config, quiet=True, kinds=("random",), device="cpu"))
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


def test_recalibration_counts_the_links_of_several_updates(events, folder) -> None:
    """Too few links change nothing until further ones arrive."""
    predictor, new = LinkPredictor.load(folder), later(events, 30)
    steps = len(predictor.calibration.steps)
    assert (events.t > predictor.calibration.since[-1]).sum() == 100
    predictor.update(new[:20])
    assert len(predictor.calibration.steps) == steps
    predictor.update(new[20:])
    assert len(predictor.calibration.steps) == steps + 1


def test_recalibration_scores_only_the_newest_links(events, folder, monkeypatch) -> None:
    monkeypatch.setattr("cawn.learn.testing.MOST_RECALIBRATED", 150)
    predictor, new = LinkPredictor.load(folder), later(events, 600)
    steps = len(predictor.calibration.steps)
    predictor.update(new)
    assert predictor.calibration.since[steps:] == (events.t[-1] + 450 + 125,)


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


def test_facts_of_a_node(events, folder) -> None:
    predictor = LinkPredictor.load(folder)
    node = int(events.src[-1])
    mine = np.flatnonzero((events.src == node) | (events.dst == node))
    found = predictor.node(events.labels[node], 3)
    newest = [(events.labels[events.src[i]], events.labels[events.dst[i]], events.t[i]) for i in mine[::-1][:3]]
    assert found == (True, len(mine), events.t[mine[0]], events.t[mine[-1]], newest)
    predictor.append([events.labels[node]], ["a new node"], [events.t[-1] + 5])
    assert predictor.node("a new node") == (
        True,
        1,
        events.t[-1] + 5,
        events.t[-1] + 5,
        [(str(events.labels[node]), "a new node", events.t[-1] + 5)],
    )
    assert predictor.node(events.labels[node], 0)[1:] == (len(mine) + 1, events.t[mine[0]], events.t[-1] + 5, [])
    assert predictor.node("a stranger") == (False, 0, None, None, [])
