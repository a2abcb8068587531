"""A system of one file gets everything: training, resuming, evaluation, run folders and a predictor."""

from pathlib import Path

import numpy as np
import pytest
import torch

import cawn
from cawn import systems
from cawn.data import laws
from cawn.learn.reporting import Progress
from cawn.learn.testing import BASELINES
from cawn.learn.trainer import Trainer
from cawn.systems.baselines import STANDING
from example_files import example
from networks import with_columns
from systems.small_settings import small

SHARED = example("own_system")
SMALL = SHARED.SharedSettings(batch_size=32, epochs=3)


@pytest.fixture(scope="module")
def events() -> cawn.Events:
    """Each of 40 sources links to one of its own two destinations, again and again."""
    rng = np.random.default_rng(0)
    src = rng.integers(0, 40, 1_500)
    names = [f"n{i}" for i in range(120)]
    return cawn.Events(src, 40 + 2 * src + rng.integers(0, 2, 1_500), np.arange(1_500), labels=names)


def weights(run: cawn.Run) -> dict[str, torch.Tensor]:
    return run.model.state_dict()


def test_it_is_trained_evaluated_stored_and_loaded(events, tmp_path: Path) -> None:
    run = cawn.train(events, SMALL, out=tmp_path / "run", quiet=True, device="cpu")
    assert isinstance(run.system, SHARED.SharedNeighbours)
    random = run.results.tests[0]
    assert random["negatives"] == "random"
    assert random["model"]["auc"] > 0.9
    assert set(random["baselines"]) == {*BASELINES, *STANDING}
    assert cawn.evaluate(tmp_path / "run", device="cpu") == run.results

    predictor = cawn.LinkPredictor.load(tmp_path / "run", device="cpu")
    src, dst, t = [["n3"] * 3, ["n46", "n47", "n80"], [1_600, 1_500, 1_550]]  # times in any order
    scores = predictor.score(src, dst, t)
    np.testing.assert_array_equal(scores, cawn.LinkPredictor.of(run).score(src, dst, t))
    assert min(scores[:2]) > scores[2]
    assert {ranked.name for ranked in predictor.rank("n3", 1_600, k=2)} == {"n46", "n47"}
    predictor.update(cawn.Events([0], [1], [1_590], labels=["n3", "n80"]))
    assert predictor.score("n3", "n80", 1_600) > scores[2]
    predictor.save(tmp_path / "saved")
    assert cawn.LinkPredictor.load(tmp_path / "saved", device="cpu").num_links == len(events) + 1


def test_what_a_system_cannot_do_is_refused_in_one_line(events, tmp_path: Path) -> None:
    run = cawn.train(
        events,
        SMALL.with_(epochs=1),
        out=tmp_path / "run",
        quiet=True,
        device="cpu",
        task=cawn.Task(negatives=("random",)),
    )
    predictor = cawn.LinkPredictor.load(run.folder, device="cpu")
    for ask, message in (
        (lambda: predictor.embed("n1", "n42", 1_600), "has no embeddings"),
        (lambda: predictor.score("n1", "n42", 1_600, draws=3), "draws no samples"),
        (lambda: predictor.explain("n1", "n42", 1_600), "uses no walks"),
        (lambda: predictor.law(), "uses no walks"),
    ):
        with pytest.raises(cawn.QueryError, match=message):
            ask()


def test_progress_reaches_a_callback(events) -> None:
    told: list[Progress] = []
    cawn.train(events, SMALL, quiet=True, device="cpu", task=cawn.Task(negatives=("random",)), callback=told.append)
    training = [now for now in told if now.stage == "training"]
    assert {now.epoch for now in training} == {1, 2, 3}
    assert all(now.epochs == 3 and now.done <= now.total and now.loss > 0 for now in training)
    assert all(now.links_per_second > 0 and now.seconds_left >= 0 for now in training)
    steps = [(4 - now.epoch) * now.total - now.done for now in training]  # left
    links = [now.links_per_second * now.seconds_left for now in training]
    assert links == pytest.approx([left * len(events) * 0.7 / training[0].total for left in steps], rel=1e-3)
    assert [now.metrics["epoch"] for now in told if now.stage == "epoch"] == [1, 2, 3]
    assert told[-1].stage == "testing"
    assert told[-1].done == told[-1].total


def test_negatives_that_a_system_cannot_be_trained_with_are_not_ignored_silently() -> None:
    events = laws.triadic_closure(30, 500, seed=3).events
    given = with_columns(events, negative=np.full(len(events), 3, np.int32))
    with pytest.warns(UserWarning, match="vgrnn draws no negatives in training; those of the links are for tests only"):
        Trainer(given, small("vgrnn"), device="cpu", quiet=True)


def test_a_callback_that_raises_ends_the_training(events) -> None:
    def fail(_: Progress) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        cawn.train(events, SMALL, quiet=True, device="cpu", callback=fail)
    with pytest.raises(cawn.QueryError, match="callback is 3"):
        cawn.train(events, SMALL, callback=3)


def test_systems_by_name(events) -> None:
    assert systems.names()[0] == "cawn"
    run = cawn.train(events, "rates", quiet=True, device="cpu", task=cawn.Task(negatives=("random",)))
    assert run.results.tests[0]["model"]["auc"] > 0.9
    with pytest.raises(cawn.QueryError, match="system is 'tgx': there are cawn"):
        cawn.train(events, "tgx")
    with pytest.raises(cawn.QueryError, match="config is a dict: give settings"):
        cawn.train(events, {"epochs": 3})


def test_each_pair_is_asked_once_and_in_the_order_of_time() -> None:
    """Over all kinds of negatives together."""
    from cawn.learn.calibration import Calibration
    from cawn.learn.evaluation import MODEL, evaluate
    from cawn.learn.splits import split
    from cawn.learn.task import KINDS

    events = laws.triadic_closure(30, 600, seed=0).events
    asked = []

    def scorer(src: np.ndarray, dst: np.ndarray, t: np.ndarray) -> np.ndarray:
        asked.append(np.stack([src, dst, t], axis=1))
        return np.zeros(len(src))

    rows = evaluate({MODEL: scorer}, events, split(events, "transductive", seed=0), Calibration(), seed=0)
    assert [row["negatives"] for row in rows] == list(KINDS)
    assert {row["model"]["auc"] for row in rows} == {0.5}
    table = np.concatenate(asked)
    assert (np.diff(table[:, 2]) >= 0).all()
    assert len(np.unique(table, axis=0)) == len(table)
