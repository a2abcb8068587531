"""Prequential accuracy and drift on a small stream."""

import json
import logging
import time
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cawn
from cawn.serve import monitor as monitors
from cawn.serve.links import Links
from cawn.serve.monitor import Monitor
from cawn.serve.recency import Recency
from cawn.systems.baselines import Past
from small_stream import TRAINED, added, feed, planted, portions

SAME_LAW, OTHER_LAW = (planted(np.arange(TRAINED + 1200) < end) for end in (TRAINED + 1200, TRAINED))


@pytest.fixture(autouse=True)
def fixed_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which links are scored does not depend on the speed of this machine."""
    monkeypatch.setattr(monitors, "COST_WEIGHT", 0.0)


def load(run: Path) -> cawn.LinkPredictor:
    return cawn.LinkPredictor.load(run, device="cpu", threads=1, recalibrate=False)


def test_a_link_has_the_score_it_had_before_it_arrived(cycles: Path) -> None:
    predictor = load(cycles)
    monitor = Monitor(predictor)
    before = []
    for links in portions(SAME_LAW[: TRAINED + 60], TRAINED, 20):
        now = [predictor.score(links.src[0], links.dst[0], links.t[0])[0]]  # only the first: the others see it
        assert feed(predictor, monitor, links) == 20
        before += now
    scored = monitor.recent()[::-1]
    assert [row["t"] for row in scored] == list(range(TRAINED, TRAINED + 60))
    assert [row["probability"] for row in scored[::20]] == pytest.approx(before, rel=1e-4)
    every = predictor.score(*([row[name] for row in scored] for name in ("src", "dst", "t")))
    assert [row["probability"] for row in scored] == pytest.approx(every.tolist(), rel=1e-4)


def test_the_baseline_is_that_of_the_tables(cycles: Path) -> None:
    predictor = load(cycles)
    monitor = Monitor(predictor, negatives=1000)  # finds all earlier destinations
    for links in portions(OTHER_LAW[: TRAINED + 100], TRAINED, 30):
        feed(predictor, monitor, links)
    past = Past(OTHER_LAW[: TRAINED + 100])
    for row in monitor.recent():
        link = int(row["t"])
        src, t = OTHER_LAW.src[link], OTHER_LAW.t[link]
        others = np.setdiff1d(OTHER_LAW.dst[:link], OTHER_LAW.dst[link])
        ends = np.concatenate([OTHER_LAW.dst[link : link + 1], others])
        scores = past.recency(np.repeat(src, len(ends)), ends, np.repeat(t, len(ends)))
        assert (row["baseline_rank"] == 1) == bool((scores[1:] < scores[0]).all())


def test_a_stream_like_the_test_period_raises_no_alarm(cycles: Path) -> None:
    predictor = load(cycles)
    monitor = Monitor(predictor, window=200)
    for links in portions(SAME_LAW, TRAINED, 100):
        feed(predictor, monitor, links)
    found = monitor.summary()
    assert found["alarm"] is None
    assert found["model"]["mrr"] > found["baseline"]["mrr"] + 5 * found["model"]["mrr_error"]
    assert found["model"]["log_loss"] < found["baseline"]["log_loss"]
    assert (found["arrived"], found["scored"], found["share"], found["late"]) == (1200, 1200, 1.0, 0)
    assert found["shadow"] is None
    assert found["drift"]["ece"]["test"] > 0
    assert abs(found["drift"]["new_pairs"]["change"]) < 0.05
    assert found["new_nodes"] == 0
    gauges, points = monitor.gauges(), monitor.series()
    json.dumps([found, points, monitor.recent()])
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
            later = Links(links.src, links.dst, [t + TRAINED + 600 for t in links.t])
            feed(predictor, monitor, later)
    assert monitor.summary()["alarm"] is None
    assert len(caplog.messages) == 2  # once each


def test_all_links_are_scored_if_there_is_time(cycles: Path) -> None:
    """U9: the sample of the alarm is reached as soon as that many links have arrived."""
    predictor = load(cycles)
    monitor = Monitor(predictor)
    for links in portions(SAME_LAW, TRAINED, 40):
        monitor.observe(added(predictor, links))
    while monitor.process():
        pass
    found = monitor.summary()
    assert (found["scored"], found["share"]) == (1200, 1.0)
    assert found["window"]["scored"] >= monitor.window


def test_a_share_is_scored_if_links_arrive_faster(cycles: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All links of a round are equally likely to be scored."""
    monkeypatch.setattr(monitors, "BACKLOG", 0.0999)  # seconds, of which a fifth is used: enough for 10 links of 2 ms
    predictor, counts, (links,) = load(cycles), np.zeros(40), portions(SAME_LAW[: TRAINED + 40], TRAINED, 40)
    monitors_of = [Monitor(predictor, negatives=1, seed=seed) for seed in range(200)]
    new = added(predictor, links)
    for monitor in monitors_of:
        monitor.observe(new)
        assert (monitor.process(), monitor.process()) == (10, 0)
        assert monitor.summary()["share"] == 0.25
        counts[[row["t"] - TRAINED for row in monitor.recent()]] += 1
    # 200 rounds, each link scored with probability 1/4: z beyond 4.8 among 40 links has a probability below 1e-4.
    assert np.abs(counts - 50).max() < 4.8 * np.sqrt(200 * 0.25 * 0.75)


def test_late_links_are_counted_but_not_scored(cycles: Path) -> None:
    predictor = load(cycles)
    monitor = Monitor(predictor)
    (links,) = portions(SAME_LAW[: TRAINED + 20], TRAINED, 20)
    feed(predictor, monitor, links)
    assert feed(predictor, monitor, Links(["n0", "fresh"], ["n20", "n21"], [5, TRAINED + 3])) == 0
    assert feed(predictor, monitor, Links(["fresh"], ["n21"], [TRAINED + 30])) == 1
    assert not monitor.recent(1)[0]["new_pair"]  # the late link is known
    assert monitor.summary()["late"] == 2


def test_links_beyond_the_queue_are_dropped_but_known(cycles: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitors, "MAX_QUEUE", 50)
    predictor = load(cycles)
    monitor = Monitor(predictor)
    for links in portions(SAME_LAW[: TRAINED + 60], TRAINED, 20):
        monitor.observe(added(predictor, links))
    assert monitor.process() == 0
    assert monitor.summary()["dropped"] == 60
    assert feed(predictor, monitor, Links(["new"], ["n20"], [TRAINED + 60])) == 1
    link = SAME_LAW.labels[[SAME_LAW.src[TRAINED + 59], SAME_LAW.dst[TRAINED + 59]]].tolist()
    assert feed(predictor, monitor, Links(link[:1], link[1:], [TRAINED + 61])) == 1
    assert monitor.recent(1)[0]["baseline_rank"] <= 2


def test_it_goes_on_after_links_were_removed(cycles: Path) -> None:
    """U4: what is left of a node that is forgotten: no names, and no links under its former number."""
    predictor = load(cycles)
    monitor = Monitor(predictor)
    first, second = portions(SAME_LAW[: TRAINED + 80], TRAINED, 40)
    feed(predictor, monitor, first)
    with monitor.paused():
        predictor.forget("n0")
    assert monitor.recent() == []
    rest = [i for i, src in enumerate(second.src) if src != "n0"]
    kept = Links(*([column[i] for i in rest] for column in (second.src, second.dst, second.t)))
    assert feed(predictor, monitor, kept) == len(rest)
    again = predictor.score(kept.src, kept.dst, kept.t)
    assert [row["probability"] for row in monitor.recent()[::-1]] == pytest.approx(again.tolist(), rel=1e-4)


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
    for t in count(TRAINED):
        monitor.observe(added(predictor, Links(["n0"], ["n20"], [t])))
        time.sleep(0.01)
        if monitor.summary()["scored"]:
            break
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
