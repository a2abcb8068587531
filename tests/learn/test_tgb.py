"""TGB's candidates and ranks."""

import numpy as np
import pytest

import cawn
from cawn.learn import tgb
from cawn.learn.ranking import rank_among_all
from cawn.learn.splits import split
from networks import random_events
from small_results import a_test, results

# 20 links: 14 for training, 3 for validation, 3 for the test. Node 0 has linked to 5, 6 and 7, node 1 to 8.
SRC = [0, 0, 0, 1] * 3 + [0, 1] + [0, 0, 1] + [0, 0, 2]
DST = [5, 6, 7, 8] * 3 + [5, 8] + [6, 9, 8] + [5, 12, 9]
T = [*range(14), 14, 15, 16, 17, 17, 18]
EVENTS = cawn.Events(SRC, DST, T)


def by_number(src: np.ndarray, dst: np.ndarray, t: np.ndarray) -> np.ndarray:
    """A higher score for a smaller destination, equal for 10 and 11."""
    return -np.where(dst == 11, 10, dst).astype(np.float64)


def test_all_destinations_by_hand() -> None:
    parts = split(EVENTS, cawn.Task(protocol="tgb"), seed=0)
    assert [len(parts.train), len(parts.val), len(parts.test["test"])] == [14, 3, 3]
    validation, test = tgb.parts(EVENTS, parts)
    assert test.candidates is None
    assert test.description == "all destinations"
    assert test.pool.tolist() == [5, 6, 7, 8, 9, 10, 11, 12]  # 10 and 11 never occur
    # Test links 0-5 and 0-12 are simultaneous, so neither competes with the other: 5 is first, 12 is behind 6 to 11.
    # 2-9 is behind 5, 6, 7 and 8.
    assert rank_among_all(by_number, EVENTS, test.links, test.pool).tolist() == [1, 7, 5]
    (row, other) = tgb.rank_rows({"model": lambda _: by_number}, EVENTS, parts, model="model", trained_with="")
    assert row["model"] == {
        "mrr": float(np.mean(np.array([1, 1 / 7, 1 / 5], np.float32))),
        "hits@10": 1.0,
    }
    assert (row["links"], row["count"], row["split"]) == ("test", 3, parts.digest)
    assert other["links"] == "validation"
    assert row["digest"] == test.digest != other["digest"] == validation.digest


def test_sampled_candidates_by_hand() -> None:
    parts = split(EVENTS, cawn.Task(protocol="tgb:4"), seed=0)
    validation, test = tgb.parts(EVENTS, parts)
    assert validation.candidates.shape == test.candidates.shape == (3, 4)
    # Validation links 0-6, 0-9, 1-8 at times of their own. Up to two historical ones, then those never linked to.
    allowed = [({5, 7}, {8, 9, 10, 11, 12}), ({5, 6, 7}, {8, 10, 11, 12}), (set(), {5, 6, 7, 9, 10, 11, 12})]
    for row, (historical, rest) in zip(validation.candidates.tolist(), allowed, strict=True):
        count = min(2, len(historical))
        assert set(row[:count]) <= historical
        assert set(row[count:]) <= rest
        assert len(set(row)) == 4
    # Test links 0-5 and 0-12 at once, then 2-9, whose source is new.
    for row in test.candidates[:2].tolist():
        assert set(row[:2]) == {6, 7}
        assert set(row[2:]) <= {8, 9, 10, 11}
    # The stream of NumPy's legacy generator with seed 42: validation first, the historical ones before the others.
    stream = np.random.RandomState(42)
    expected = []
    for historical, rest in ([[5, 7], [8, 9, 10, 11, 12]], [[5, 6, 7], [8, 10, 11, 12]]):
        expected.append([*stream.choice(historical, 2, False), *stream.choice(rest, 2, False)])
    expected.append([*stream.choice([5, 6, 7, 9, 10, 11, 12], 4, False)])
    assert validation.candidates.tolist() == expected
    assert test.candidates[0].tolist() == [*stream.choice([6, 7], 2, False), *stream.choice([8, 9, 10, 11], 2, False)]


def test_equal_links_share_the_last_draw_and_small_pools_are_not_filled() -> None:
    src, dst = [0] * 14 + [1, 1, 1] + [2, 2, 2], [5, 6] * 7 + [7, 7, 7] + [8, 8, 8]
    events = cawn.Events(src, dst, [*range(14), 14, 15, 16, 17, 17, 18])
    links = np.array([17, 18, 19])
    pool = np.arange(5, 9, dtype=np.int32)
    drawn = [
        tgb.draw_candidates(events, links[some], np.arange(14), pool, 2, np.random.RandomState(1))
        for some in (slice(0, 1), slice(0, 3))
    ]
    assert drawn[1][0].tolist() == drawn[1][1].tolist()
    stream = np.random.RandomState(1)
    stream.choice([5, 6, 7], 2, False)
    assert drawn[1][0].tolist() == stream.choice([5, 6, 7], 2, False).tolist()
    few = tgb.draw_candidates(events, links, np.arange(14), pool, 5, np.random.RandomState(1))
    assert few.tolist() == [[5, 6, 7]] * 3  # all there are, in order
    parts = split(events, cawn.Task(protocol="tgb:6"), seed=0)
    part = list(tgb.parts(events, parts))[1]
    figures = part.figures(lambda s, d, t: d * 1.0, events, events.t, tgb.reciprocal_ranks, lambda _: None)
    assert figures.tolist() == [[1.0, 1.0]] * 3


def test_destinations_of_a_bipartite_network_are_no_sources() -> None:
    events = cawn.Events([0, 2, 4], [1, 3, 7], [1, 2, 3])
    assert tgb.all_destinations(events).tolist() == [1, 3, 5, 6, 7]
    assert tgb.all_destinations(cawn.Events([0, 2, 3], [1, 3, 7], [1, 2, 3])).tolist() == [1, 2, 3, 4, 5, 6, 7]


def test_both_sides_become_nodes_of_their_own() -> None:
    events = tgb.two_sided(cawn.Events([0, 2, 1], [1, 0, 2], [3, 1, 2]))
    assert (events.src.tolist(), events.dst.tolist(), events.t.tolist()) == ([2, 1, 0], [3, 5, 4], [1, 2, 3])


def test_rules_of_few_candidates_and_of_many() -> None:
    for number, expected in ((1_000, "all destinations"), (1_001, "1,000 destinations")):
        dst = 1 + np.arange(2_000) % number
        events = cawn.Events(np.zeros(2_000, int), dst, np.arange(2_000))
        parts = split(events, cawn.Task(protocol="tgb"), seed=0)
        assert next(tgb.parts(events, parts)).description == expected


@pytest.mark.parametrize("clock", ["strict", "event", "batch:3"])
def test_rows_follow_the_clock(clock: str) -> None:
    events = random_events(3, num_nodes=15, num_links=200, span=60)
    run = cawn.train(events, "recency", task=cawn.Task(protocol="tgb", clock=clock), quiet=True)
    assert [row["clock"] for row in run.results.tests] == [clock] * 2
    assert set(run.results.tests[0]["baselines"]) == {
        "recency",
        "LR+LP+GR+GP",
        "LP+GP",
        "edgebank",
        "edgebank (window)",
        "popularity",
    }
    assert run.results.tests[0]["model"] == run.results.tests[0]["baselines"]["recency"]


def test_summary_over_runs() -> None:
    runs = [a_test(2 * value, seed=seed, links="test") for seed, value in enumerate((0.5, 0.7))]
    found = tgb.summarise(results(*runs))["test"]["mrr"]
    assert found["mean"] == pytest.approx(0.6)
    assert found["std"] == pytest.approx(0.2 / 2**0.5)
    assert found["interval"] == pytest.approx(12.706 * 0.1)
    assert tgb.summarise(results(*runs[:1]))["test"]["mrr"] == {"mean": 0.5, "std": None, "interval": None}


@pytest.mark.filterwarnings("ignore")  # of packages that py-tgb imports
def test_ranks_agree_with_py_tgb() -> None:
    """To the last digit, link by link and for all links at once."""
    evaluate = pytest.importorskip("tgb.linkproppred.evaluate")
    measure, name = tgb.best_measure()
    assert name.startswith("py-tgb")
    rng = np.random.default_rng(0)
    true, negatives = rng.integers(0, 50, 500) / 7, rng.integers(0, 50, (500, 40)) / 7
    ours = tgb.reciprocal_ranks(true, negatives)
    assert np.array_equal(measure(true, negatives), ours)
    asked = {"y_pred_pos": true, "y_pred_neg": negatives, "eval_metric": ["mrr"]}
    whole = evaluate.Evaluator("tgbl-wiki").eval(asked)
    assert {key: float(value) for key, value in whole.items()} == tgb._means(ours)


@pytest.mark.filterwarnings("ignore")
def test_candidates_agree_with_py_tgb(tmp_path) -> None:
    generator = pytest.importorskip("tgb.linkproppred.negative_generator")
    import pickle

    import torch
    from torch_geometric.data import TemporalData

    events = random_events(1, num_nodes=30, num_links=600, span=200)
    columns = [torch.from_numpy(column.astype(np.int64)) for column in (events.src, events.dst, events.t)]
    data = TemporalData(**dict(zip(("src", "dst", "t"), columns, strict=True)))
    parts = split(events, cawn.Task(protocol="tgb:12"), seed=0)
    first, last = int(events.dst.min()), int(events.dst.max())
    options = {"num_neg_e": 12, "strategy": "hist_rnd", "rnd_seed": 42}
    sampler = generator.NegativeEdgeGenerator(
        "x", first, last, **options, historical_data=data[torch.from_numpy(parts.train)]
    )
    for part, name in zip(tgb.parts(events, parts), ("val", "test"), strict=True):
        sampler.generate_negative_samples(data[torch.from_numpy(part.links)], name, str(tmp_path))
        theirs = pickle.loads((tmp_path / f"x_{name}_ns.pkl").read_bytes())
        for link, ours in zip(part.links, part.candidates, strict=True):
            key = int(events.src[link]), int(events.dst[link]), int(events.t[link])
            assert theirs[key].astype(int).tolist() == ours[ours >= 0].tolist()
