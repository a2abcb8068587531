"""Prequential accuracy and drift on a small stream."""

import json
import logging
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cawn
from cawn.learn.calibration import Calibration
from cawn.serve import monitor as monitors
from cawn.serve.accuracy import Recalibrated, calibration_bins, calibration_error, reciprocal_ranks
from cawn.serve.links import SubmittedLinks
from cawn.serve.monitor import Monitor
from cawn.serve.recency import Recency
from cawn.snapshot import Snapshot
from cawn.systems.base import Scorer
from cawn.systems.baselines import Past
from small_stream import TRAINED, added, feed, planted, portions

SAME_LAW, OTHER_LAW = (planted(np.arange(TRAINED + 1200) < end) for end in (TRAINED + 1200, TRAINED))


@pytest.fixture(autouse=True)
def fixed_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which links are scored does not depend on the speed of this machine."""
    monkeypatch.setattr(monitors, "COST_WEIGHT", 0.0)


def load(run: Path) -> cawn.LinkPredictor:
    return cawn.LinkPredictor.load(run, device="cpu", threads=1, recalibrate=False)


class Copy:
    """Takes the place of a learner: a shadow model that is the served model, and notes what is asked of it."""

    def __init__(self, num_negatives: int = 20) -> None:
        self.calibrated, self.asked, self._width = Recalibrated(Calibration()), list[Any](), 1 + num_negatives

    def scorer(self, snapshot: Snapshot) -> Scorer:
        def logits(*pairs: np.ndarray) -> np.ndarray:
            self.asked.append([column.reshape(-1, self._width) for column in pairs])
            return snapshot.scorer(*pairs)

        return logits

    def judge(self, differences: np.ndarray) -> bool:
        assert not differences[:, 0].any()
        return False

    def learn(self, *_: object) -> None:
        pass

    def pairs(self) -> list[np.ndarray]:
        """Sources, destinations and times of all links that were scored, each before its negatives: [m, 1 + K] each."""
        return [np.concatenate(columns) for columns in zip(*self.asked, strict=True)]


def test_the_figures_are_those_of_links_scored_before_they_arrived(cycles: Path) -> None:
    """By the model, and by the baseline as in tables."""
    predictor, shadow = load(cycles), Copy()
    monitor = Monitor(predictor, shadow)
    first = []
    for links in portions(OTHER_LAW[: TRAINED + 100], TRAINED, 20):
        first += predictor.score(links.src[:1], links.dst[:1], links.t[:1]).tolist()  # the others see it
        assert feed(predictor, monitor, links) == 20
    src, dst, t = shadow.pairs()
    arrived, found = slice(TRAINED, TRAINED + 100), monitor.summary()
    events = predictor.snapshot().events
    for column, given in zip((src, dst, t), (events.src, events.dst, events.t), strict=True):
        assert column[:, 0].tolist() == given[arrived].tolist()
    assert not (dst[:, 1:] == dst[:, :1]).any()
    names = np.array(predictor.nodes(), object)
    scores = predictor.score(names[src.ravel()].tolist(), names[dst.ravel()].tolist(), t.ravel()).reshape(src.shape)
    assert scores[::20, 0].tolist() == pytest.approx(first, rel=1e-4)
    baseline = Past(events).recency(src.ravel(), dst.ravel(), t.ravel()).reshape(src.shape)
    for name, each in (("model", scores), ("shadow", scores), ("baseline", baseline)):
        assert found[name]["mrr"] == pytest.approx(reciprocal_ranks(each).mean())
    assert found["model"]["ece"] == pytest.approx(calibration_error(calibration_bins(scores)), rel=1e-3)


def test_a_stream_like_the_test_period_raises_no_alarm(cycles: Path) -> None:
    """All links are scored if there is time, so that the sample of the alarm is reached soon (U9)."""
    predictor = load(cycles)
    monitor = Monitor(predictor, window=200)
    for links in portions(SAME_LAW, TRAINED, 100):
        monitor.observe(added(predictor, links))
    while monitor.process():
        pass
    found = monitor.summary()
    assert (found["alarm"], found["window"]["scored"]) == (None, 200)
    assert found["model"]["mrr"] > found["baseline"]["mrr"] + 5 * found["model"]["mrr_error"]
    assert found["model"]["log_loss"] < found["baseline"]["log_loss"]
    assert (found["arrived"], found["scored"], found["share"], found["late"]) == (1200, 1200, 1.0, 0)
    assert found["shadow"] is None
    assert found["drift"]["ece"]["test"] > 0
    assert abs(found["drift"]["new_pairs"]["change"]) < 0.05
    assert found["new_nodes"] == 0
    gauges, points = monitor.gauges(), monitor.series()
    json.dumps([found, points])
    assert (gauges["model_mrr"], gauges["alarm"]) == (found["model"]["mrr"], 0)
    assert "shadow_mrr" not in gauges
    assert (sum(point["scored"] for point in points), points[-1]["links"]) == (1200, 1200)


def test_an_alarm_when_the_baseline_wins_until_the_model_does(cycles: Path, caplog: pytest.LogCaptureFixture) -> None:
    predictor = load(cycles)
    monitor = Monitor(predictor, window=200)
    with caplog.at_level(logging.INFO, logger="cawn.serve.monitor"):
        for links in portions(OTHER_LAW[: TRAINED + 600], TRAINED, 100):
            feed(predictor, monitor, links)
        found = monitor.summary()
        assert "baseline ranks better" in found["alarm"]
        assert found["alarm_since"]
        assert monitor.gauges()["alarm"] == 1
        for links in portions(planted(np.ones(800, bool), seed=5), 0, 100):
            later = SubmittedLinks(links.src, links.dst, [t + TRAINED + 600 for t in links.t])
            feed(predictor, monitor, later)
    assert monitor.summary()["alarm"] is None
    assert len(caplog.messages) == 2  # once each


def test_a_share_is_scored_if_links_arrive_faster(cycles: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All links of a round are equally likely to be scored."""
    monkeypatch.setattr(monitors, "BACKLOG", 0.0999)  # seconds, of which a fifth is used: enough for 10 links of 2 ms
    predictor, counts, (links,) = load(cycles), np.zeros(40), portions(SAME_LAW[: TRAINED + 40], TRAINED, 40)
    watched = [Copy(num_negatives=1) for _ in range(200)]
    monitors_of = [Monitor(predictor, shadow, negatives=1, cpu_share=0.2, seed=i) for i, shadow in enumerate(watched)]
    new = added(predictor, links)
    for monitor, shadow in zip(monitors_of, watched, strict=True):
        monitor.observe(new)
        assert (monitor.process(), monitor.process()) == (10, 0)
        assert monitor.summary()["share"] == 0.25
        counts[shadow.pairs()[2][:, 0] - TRAINED] += 1
    # 200 rounds, each link scored with probability 1/4: z beyond 4.8 among 40 links has a probability below 1e-4.
    assert np.abs(counts - 50).max() < 4.8 * np.sqrt(200 * 0.25 * 0.75)


def test_late_links_are_known_but_not_scored(cycles: Path) -> None:
    predictor = load(cycles)
    monitor = Monitor(predictor, window=20)
    (links,) = portions(SAME_LAW[: TRAINED + 20], TRAINED, 20)
    feed(predictor, monitor, links)
    assert feed(predictor, monitor, SubmittedLinks(["n0", "fresh"], ["n20", "n21"], [5, TRAINED + 3])) == 0
    assert feed(predictor, monitor, SubmittedLinks(["fresh"], ["n21"], [TRAINED + 30])) == 1
    found = monitor.summary()
    assert (found["late"], found["arrived"], found["scored"]) == (2, 23, 21)
    assert (found["new_nodes"], found["new_pairs"]) == (0, 0)


def test_links_beyond_the_queue_are_dropped_but_known(cycles: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitors, "MAX_QUEUE", 50)
    predictor = load(cycles)
    monitor = Monitor(predictor)
    for links in portions(SAME_LAW[: TRAINED + 60], TRAINED, 20):
        monitor.observe(added(predictor, links))
    assert monitor.process() == 0
    assert monitor.summary()["dropped"] == 60
    link = SAME_LAW.labels[[SAME_LAW.src[TRAINED + 59], SAME_LAW.dst[TRAINED + 59]]].tolist()
    assert (
        feed(predictor, monitor, SubmittedLinks(["new", link[0]], ["n20", link[1]], [TRAINED + 60, TRAINED + 61])) == 2
    )
    found = monitor.summary()
    assert (found["new_nodes"], found["new_pairs"]) == (1 / 2, 1 / 2)
    assert found["baseline"]["mrr"] > 1 / 4  # the second link is ranked first or second


def test_it_goes_on_after_links_were_removed(cycles: Path) -> None:
    """U4: nothing is left of a node that is forgotten, and no links under its former number."""
    predictor, shadow = load(cycles), Copy()
    monitor = Monitor(predictor, shadow, window=20)
    first, second = portions(SAME_LAW[: TRAINED + 80], TRAINED, 40)
    feed(predictor, monitor, first)
    with monitor.paused():
        predictor.forget("n0")
    rest = [i for i, src in enumerate(second.src) if src != "n0"]
    kept = SubmittedLinks(*([column[i] for i in rest] for column in (second.src, second.dst, second.t)))
    assert feed(predictor, monitor, kept) == len(rest)
    src, dst, t = (column.ravel() for column in shadow.asked[-1])
    assert [predictor.nodes()[node] for node in src[::21]] == kept.src
    baseline = Past(predictor.snapshot().events).recency(src, dst, t).reshape(-1, 21)
    assert monitor.summary()["baseline"]["mrr"] == pytest.approx(reciprocal_ranks(baseline)[-20:].mean())


def test_the_background_thread_scores_and_survives_failures(cycles: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitors, "INTERVAL", 0.01)
    add, failures = Recency.add, [MemoryError()]

    def fail_once(*arguments: Any) -> None:
        if failures:
            raise failures.pop()
        add(*arguments)

    monkeypatch.setattr(Recency, "add", fail_once)
    predictor = load(cycles)
    monitor = Monitor(predictor, cpu_share=0.9)
    monitor.start()
    t = TRAINED
    while not monitor.summary()["scored"]:
        monitor.observe(added(predictor, SubmittedLinks(["n0"], ["n20"], [t])))
        t += 1
        time.sleep(0.01)
    monitor.stop()
    assert not failures


def test_the_calibration_follows_the_stream(cycles: Path) -> None:
    errors = []
    for recalibrate in (False, True):
        predictor = cawn.LinkPredictor.load(cycles, device="cpu", threads=1, recalibrate=recalibrate)
        monitor = Monitor(predictor, window=200)
        for links in portions(OTHER_LAW[: TRAINED + 600], TRAINED, 50):
            feed(predictor, monitor, links)
        errors.append(monitor.summary()["model"]["ece"])
        assert (predictor.calibration.since[-1] == TRAINED + 599) == recalibrate
    fixed, followed = errors
    assert followed < fixed / 3
