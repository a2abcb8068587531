"""Names and rules of protocols, and which of them a run may be evaluated with."""

from pathlib import Path

import numpy as np
import pytest

import cawn
from cawn.learn.runs import read_description
from cawn.learn.splits import split
from networks import random_events

EVENTS = random_events(4, num_nodes=30, num_links=400, span=300)


def train(folder: Path, **options) -> cawn.Run:
    return cawn.train(EVENTS, "recency", quiet=True, task=cawn.Task(baselines=False, **options), out=folder)


def test_names() -> None:
    named = [cawn.Task(protocol=name) for name in ("strict", "tgb", "tgb:20", "dyglib", "paper")]
    assert [task.candidates for task in named] == [None, None, 20, None, None]
    assert [task.ranked for task in named] == [False, True, True, False, False]
    assert named[1].rules == named[2].rules
    for wrong in ("frob", "standard", "tgb:0", "tgb:x", "", None, ["tgb"]):
        with pytest.raises(cawn.QueryError, match="give strict, tgb, tgb:N"):
            cawn.Task(protocol=wrong)


def test_the_task_of_a_run() -> None:
    task = cawn.Task("inductive", cawn.TimeSplit(train_share=0.5), clock="batch:20", refit=True)
    assert cawn.Task.recorded(task.to_dict()) == task
    assert cawn.Task.recorded({"task": "transductive"}) == cawn.Task()  # runs of earlier versions
    for broken in ({"protocol": "frob"}, {"clock": 7}, {"cuts": {"val_share": 2}}):
        with pytest.raises(cawn.StorageError, match="damaged"):
            cawn.Task.recorded(task.to_dict() | broken)


def test_a_run_is_evaluated_with_other_protocols_of_the_same_split(tmp_path: Path) -> None:
    run = train(tmp_path / "run")
    assert read_description(tmp_path / "run")["protocol"] is None
    assert {row["protocol"] for row in run.results.tests} == {"strict"}
    (paper,) = cawn.evaluate(tmp_path / "run", protocol="paper", baselines=False).tests
    assert (paper["links"], paper["negatives"], paper["protocol"]) == ("all", "random", "paper")
    assert paper["count"] == run.results.tests[0]["count"] - 1
    ranked = cawn.evaluate(tmp_path / "run", protocol="tgb", baselines=False)
    assert [(row["links"], row["protocol"], row["clock"]) for row in ranked.tests] == [
        ("test", "tgb", "strict"),
        ("validation", "tgb", "strict"),
    ]
    assert ranked.tests[0]["split"] == run.results.tests[0]["split"]
    assert train(tmp_path / "tgb", protocol="tgb").results == ranked
    assert cawn.evaluate(tmp_path / "tgb", baselines=False) == ranked
    strict = cawn.evaluate(tmp_path / "tgb", protocol="strict", baselines=False)
    assert strict == run.results == cawn.evaluate(tmp_path / "run", baselines=False)


def test_a_protocol_whose_test_links_were_trained_on_is_refused(tmp_path: Path) -> None:
    train(tmp_path / "run")
    with pytest.raises(cawn.QueryError, match=r"protocol strict, transductive.* train with --protocol dyglib$"):
        cawn.evaluate(tmp_path / "run", protocol="dyglib")
    train(tmp_path / "inductive", nodes="inductive", protocol="paper")
    for other in ("tgb", "dyglib"):
        with pytest.raises(cawn.QueryError, match=f"protocol paper, inductive .* --protocol {other}$"):
            cawn.evaluate(tmp_path / "inductive", protocol=other)
    kinds = cawn.evaluate(tmp_path / "inductive", protocol="strict", baselines=False)
    assert {row["links"] for row in kinds} >= {"new-old", "all"}
    train(tmp_path / "cuts", split=cawn.TimeSplit(train_share=0.5))
    with pytest.raises(cawn.QueryError, match="train with --protocol paper"):
        cawn.evaluate(tmp_path / "cuts", protocol="paper")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"protocol": "tgb", "nodes": "inductive"}, "protocol tgb has no inductive task; leave out the task"),
        ({"protocol": "tgb", "split": cawn.TimeSplit(train_share=0.5)}, "quantiles of time; leave out the split"),
        ({"protocol": "tgb", "negatives": ("random",)}, "leave out the kinds of negatives"),
        ({"protocol": "frob"}, "protocol is 'frob'"),
    ],
)
def test_what_a_protocol_fixes_is_refused(tmp_path: Path, options: dict, message: str) -> None:
    with pytest.raises(cawn.QueryError, match=message):
        train(tmp_path / "run", **options)


@pytest.mark.parametrize("protocol", ["tgb", "dyglib", "paper"])
def test_published_code_splits_at_interpolated_quantiles(protocol: str) -> None:
    # Of the times 0 to 10, 0.7 and 0.85 are at 7 and 8.5; of 0 to 9, at 6.3 and 7.65.
    for last, train_end, val_end in ((10, 7, 8), (9, 6, 7)):
        t = np.arange(last + 1)
        parts = split(cawn.Events(t % 2, 2 + t % 3, t), cawn.Task(protocol=protocol), seed=0)
        assert parts.train.tolist() == list(range(train_end + 1))
        assert parts.val.tolist() == list(range(train_end + 1, val_end + 1))
        assert next(iter(parts.test.values())).tolist() == list(range(val_end + 1, last + 1))


def test_the_papers_protocol() -> None:
    """Its code leaves out the last link of every part, and its random negatives may be the true destinations."""
    from cawn.learn.calibration import Calibration
    from cawn.learn.evaluation import evaluate
    from cawn.learn.metrics import average_precision
    from cawn.learn.negatives import part_negatives

    # 400 links: 280 for training, 60 for validation, 60 test links. Scores are the link's time for true pairs.
    t = np.arange(400)
    events = cawn.Events(t % 7, 7 + t % 3, t)
    parts = split(events, cawn.Task(protocol="paper"), seed=0)
    drawn = part_negatives(events, parts, "all", "random", 5)
    links = parts.test["all"]
    assert len(drawn.dst) == len(links) == 60
    assert set(drawn.dst) == {7, 8, 9}
    assert 0 < (drawn.dst == events.dst[links]).sum() < 60

    def scorer(src: np.ndarray, dst: np.ndarray, t: np.ndarray) -> np.ndarray:
        return dst * 1.0

    (row,) = evaluate({"model": scorer}, events, parts, Calibration(), seed=5)
    true, false = events.dst[links] * 1.0, drawn.dst * 1.0
    first, second = (average_precision(true[a:b], false[a:b]) for a, b in ((0, 30), (30, 59)))
    assert row["count"] == 59
    assert row["model"]["ap_batch30"] == pytest.approx((first + second) / 2)
    assert row["model"]["ap"] == pytest.approx(average_precision(true[:59], false[:59]))
    inductive = split(EVENTS, cawn.Task("inductive", protocol="paper"), seed=3)
    assert list(inductive.test) == ["all", "new-new", "new-old"]
    assert np.union1d(inductive.test["new-new"], inductive.test["new-old"]).tolist() == inductive.test["all"].tolist()
    assert inductive.hidden.tolist() == split(EVENTS, "inductive", seed=3).hidden.tolist()
