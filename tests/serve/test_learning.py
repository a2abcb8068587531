"""A shadow model on streams with and without a change of their law, and the weights that are kept."""

import logging
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import cawn
from cawn.errors import QueryError, StorageError
from cawn.serve import monitor as monitors
from cawn.serve.learning import Learner
from cawn.serve.monitor import Monitor
from cawn.serve.recency import Recency
from cawn.serve.store import LiveStore
from cawn.serve.weights import KeptWeights
from cawn.snapshot import PairQueries
from cawn.systems.indexed import IndexedScorer
from cawn.systems.training import contrast_loss
from small_runs import TINY
from small_stream import TRAINED, feed, planted, portions

SAME_LAW, OTHER_LAW = (planted(np.arange(TRAINED + 1200) < end) for end in (TRAINED + 1200, TRAINED))


@pytest.fixture(autouse=True)
def fixed_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which links are scored does not depend on the speed of this machine."""
    monkeypatch.setattr(monitors, "COST_WEIGHT", 0.0)


def load(run: Path) -> cawn.LinkPredictor:
    return cawn.LinkPredictor.load(run, device="cpu", threads=1)


def learner_of(predictor: cawn.LinkPredictor, store: LiveStore | None = None, **options: Any) -> Learner:
    return Learner(predictor, store, **{"rate": 1.0, "window": 200} | options)


def stream(
    predictor: cawn.LinkPredictor, learner: Learner | None, events: cawn.Events, first: int = TRAINED
) -> Monitor:
    """Monitor all links from position `first` on."""
    monitor = Monitor(predictor, learner, window=200)
    for links in portions(events, first, 50):
        feed(predictor, monitor, links)
    return monitor


def weights_of(predictor: cawn.LinkPredictor, *, more: float = 0.0) -> dict[str, torch.Tensor]:
    return {name: value + more for name, value in predictor.snapshot().model.system.module.state_dict().items()}


def ask(predictor: PairQueries) -> list[float]:
    found = predictor.score(["n0", "n1"], ["n20", "n21"], TRAINED + 50)
    assert isinstance(found, np.ndarray)
    return found.tolist()


def assert_equal(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> None:
    assert a.keys() == b.keys()
    assert all(torch.equal(a[name], b[name]) for name in a)


def test_after_a_change_of_law_the_shadow_model_wins(
    cycles: Path, store: LiveStore, caplog: pytest.LogCaptureFixture
) -> None:
    predictor = load(cycles)
    before, version = weights_of(predictor), predictor.version
    learner = learner_of(predictor, store)
    with caplog.at_level(logging.INFO, logger="cawn.serve.learning"):
        found = stream(predictor, learner, OTHER_LAW).summary()
    assert learner.summary()["promotions"] >= 1
    assert any("the shadow model is served now" in message for message in caplog.messages)
    fixed = stream(load(cycles), None, OTHER_LAW).summary()["model"]
    assert found["model"]["mrr"] > fixed["mrr"] + 5 * fixed["mrr_error"]
    assert found["model"]["log_loss"] < fixed["log_loss"]
    assert predictor.version > version + (len(OTHER_LAW) - TRAINED) // 50 - 1

    kept = KeptWeights(store)
    assert kept.numbers() == list(range(learner.summary()["promotions"] + 1))
    assert kept.serving == kept.numbers()[-1] == learner.summary()["serving"]
    assert_equal(kept.read(0)[0], before)
    weights, about = kept.read(kept.serving)
    assert_equal(weights, weights_of(predictor))
    assert about["evidence"]["means"][0] > 0
    assert about["evidence"]["means"][1] >= 0

    assert kept.serve(predictor, 0) == kept.serving == 0
    assert_equal(weights_of(predictor), before)


def test_no_link_is_learned_before_it_is_scored(cycles: Path) -> None:
    predictor = load(cycles)
    learner = learner_of(predictor)
    monitor = Monitor(predictor, learner)
    for links in portions(OTHER_LAW[: TRAINED + 300], TRAINED, 50):
        assert learner._until < links.t[0]
        assert feed(predictor, monitor, links) == 50
    assert TRAINED + 200 < learner._until < TRAINED + 300
    assert learner.summary()["links"] == learner._until - TRAINED + 1


def test_links_are_replayed_in_the_stated_proportion(cycles: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    predictor = load(cycles)
    learner = learner_of(predictor, replay=0.75, most_steps=2)
    trained: list[Any] = []
    monkeypatch.setattr(learner, "_train", lambda snapshot, training: trained.append(training))
    (links,) = portions(SAME_LAW[: TRAINED + 400], TRAINED, 400)
    feed(predictor, Monitor(predictor, learner), links)
    (training,) = trained
    t = training.events.t[training.positions]
    new = t >= TRAINED - 1
    assert new.sum() == 32  # a quarter of two batches of 64
    assert (~new).sum() == pytest.approx(96, abs=12)  # a link that is drawn twice counts once
    assert t.max() < TRAINED + 399  # links at the newest time wait


def test_negatives_are_destinations_by_the_end_of_the_period(cycles: Path) -> None:
    predictor = load(cycles)
    learner, events = learner_of(predictor), predictor.snapshot().events
    recency = Recency(events.src, events.dst, events.t)
    chosen = np.arange(0, len(events), 7)
    training = learner._with_negatives(events, chosen, len(events), recency)
    first = {int(node): int(np.flatnonzero(events.dst == node)[0]) for node in np.unique(events.dst)}
    drawn = np.stack([training.negatives(epoch) for epoch in range(200)])
    for i, link in enumerate(chosen.tolist()):
        end = (1 + 5 * link // len(events)) * len(events) / 5
        known = {node for node, position in first.items() if position < end} - {int(events.dst[link])}
        assert set(drawn[:, i].tolist()) == known


def test_a_worse_shadow_model_starts_again_from_the_served_weights(cycles: Path) -> None:
    predictor = load(cycles)
    learner = learner_of(predictor)
    with torch.no_grad():
        for weight in learner._shadow.module.parameters():
            weight.add_(1.0)
    rng = np.random.default_rng(0)
    assert not learner.judge(np.stack([rng.normal(size=200), rng.normal(-1, 1, 200)], axis=1))
    assert learner.summary()["restarts"] == 1
    assert_equal(dict(learner._shadow.module.state_dict()), weights_of(predictor))


@pytest.mark.parametrize(
    ("rank_loss", "gain", "promoted"), [(-0.1, 0.5, True), (0.1, 0.5, False), (-0.1, 0.0005, False)]
)
def test_a_promotion_needs_a_lower_log_loss_and_no_lower_rank(
    cycles: Path, rank_loss: float, gain: float, promoted: bool
) -> None:
    learner = learner_of(load(cycles))
    rng = np.random.default_rng(0)
    differences = np.stack([rng.normal(rank_loss, 0.01, 200), rng.normal(gain, gain, 200)], axis=1)
    assert not learner.judge(differences[:150])  # no decision before the window is full
    assert learner.judge(differences[150:]) == promoted
    assert learner.summary()["evidence"]["links"] == (0 if promoted else 200)


def test_a_restart_continues_with_the_same_shadow_model(cycles: Path, store: LiveStore) -> None:
    predictor = load(cycles)
    learner = learner_of(predictor, store)
    stream(predictor, learner, OTHER_LAW[: TRAINED + 130])
    learner.save()
    again = learner_of(load(cycles), store)
    assert again.summary() == learner.summary()
    for name in ("module", "training"):
        assert_equal(dict(getattr(again._shadow, name).state_dict()), dict(getattr(learner._shadow, name).state_dict()))
    mine, theirs = (each._shadow.optimizer.adam.state_dict()["state"] for each in (learner, again))
    assert all(torch.equal(mine[i][name], theirs[i][name]) for i in mine for name in mine[i])
    assert again.calibrated.calibration == learner.calibrated.calibration
    assert again._until == learner._until


def test_damage_is_found(cycles: Path, store: LiveStore, caplog: pytest.LogCaptureFixture) -> None:
    """Weights are refused; a shadow model starts again."""
    predictor = load(cycles)
    learner_of(predictor, store).save()
    with closing(sqlite3.connect(store.path, isolation_level=None)) as db:
        db.execute("UPDATE weights SET crc = crc + 1")
    with pytest.raises(StorageError, match=r"the weights 0 are damaged .checksum"):
        KeptWeights(store).serve(predictor, 0)
    again = learner_of(predictor, store)
    assert "starts again" in caplog.text
    assert_equal(dict(again._shadow.module.state_dict()), weights_of(predictor))


def test_other_systems_are_refused_in_one_line() -> None:
    run = cawn.train(SAME_LAW[:200], "popularity", quiet=True, task=cawn.Task(baselines=False, negatives=("random",)))
    with pytest.raises(QueryError, match="'popularity' cannot learn while it is served"):
        Learner(cawn.LinkPredictor.of(run))
    with pytest.raises(QueryError, match="'popularity' cannot be replaced"):
        cawn.LinkPredictor.of(run).replace_weights({})


def test_caw_n_learns_too() -> None:
    events = SAME_LAW[:400]
    run = cawn.train(
        events[:300],
        TINY.with_(epochs=1, alpha=0.01),
        quiet=True,
        task=cawn.Task(baselines=False, negatives=("random",)),
        device="cpu",
    )
    predictor = cawn.LinkPredictor.of(run)
    learner = learner_of(predictor, window=20)
    monitor = stream(predictor, learner, events, 300)
    assert learner.summary()["steps"] >= 2
    assert monitor.summary()["shadow"]["mrr"] != monitor.summary()["model"]["mrr"]


def test_training_logits_are_those_of_training() -> None:
    """The loss of a step on the service's index equals that of the system's own training step."""
    events = SAME_LAW[:300]
    for config in (TINY.with_(dropout=0.0), cawn.systems.settings_type("rates")(batch_size=64)):
        trainer = cawn.learn.trainer.Trainer(events, config, quiet=True, device="cpu", threads=1)
        system, training = trainer.system, trainer.training
        loss = next(system.updates(0, 0, trainer.optimizer))
        scorer = system.scorer(trainer.visible)
        assert isinstance(scorer, IndexedScorer)
        links = next(training.batches(0, 0))
        logits = scorer.training_logits(links, seed=training.seed_for("epoch", 0))
        again = contrast_loss(logits, links.weight, training.num_negatives)
        assert again.item() == pytest.approx(loss.item(), rel=1e-5)


def test_weights_are_numbered_and_served_again(cycles: Path, store: LiveStore) -> None:
    predictor, kept = load(cycles), KeptWeights(store)
    snapshot, first, calibration = predictor.snapshot(), ask(predictor), predictor.calibration
    assert kept.serve(predictor) is None
    assert kept.keep(weights_of(predictor), calibration, links=7) == 0
    assert kept.keep(weights_of(predictor, more=0.1), calibration, links=9, evidence={"links": 500}) == 1
    assert kept.numbers() == [0, 1]
    assert kept.serve(predictor, 1) == kept.serve(predictor) == 1
    second = ask(predictor)
    assert set(first).isdisjoint(second)
    assert ask(snapshot) == first  # queries in progress keep their weights
    other = load(cycles)
    assert KeptWeights(store).serve(other) == 1  # after a restart
    assert ask(other) == second
    assert kept.serve(other, 0) == kept.serving == 0
    assert ask(other) == first
    _, about = kept.read(1)
    assert (about["links"], about["evidence"], about["when"][-6:]) == (9, {"links": 500}, "+00:00")
    with pytest.raises(QueryError, match="no weights with the number 3; there are 0, 1"):
        kept.serve(predictor, 3)
    with pytest.raises(QueryError, match="do not fit"):
        predictor.replace_weights({"0.weight": torch.zeros(2, 2)})
    assert ask(predictor) == second


def test_weights_in_use_keep_their_newer_calibration(cycles: Path, store: LiveStore) -> None:
    predictor, kept = load(cycles), KeptWeights(store)
    before, version = predictor.calibration, predictor.version
    kept.serve(predictor, kept.keep(weights_of(predictor), before.initial, links=1))
    kept.serve(predictor)
    assert predictor.calibration is before
    assert predictor.version == version


def test_replaced_weights_are_saved_and_those_of_the_results_kept(cycles: Path, tmp_path: Path) -> None:
    predictor = load(cycles)
    tested = weights_of(predictor)
    predictor.replace_weights(weights_of(predictor, more=0.1))
    predictor.append(["n0"], ["n20"], [TRAINED])
    predictor.save(tmp_path / "saved")
    again = load(tmp_path / "saved")
    assert ask(again) == ask(predictor)
    evaluated = again.snapshot().model.record.evaluated
    assert all((evaluated[name] == value.numpy()).all() for name, value in tested.items())
