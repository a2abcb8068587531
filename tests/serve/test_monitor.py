"""Prequential accuracy and drift on a small stream."""

import json
import logging
from pathlib import Path

import numpy as np
import pytest

import cawn
from cawn.serve import monitor as monitors
from cawn.serve.links import Links
from cawn.serve.monitor import Monitor
from cawn.systems.baselines import Past
from small_stream import TRAINED, feed, planted, portions


def load(run: Path) -> cawn.LinkPredictor:
    return cawn.LinkPredictor.load(run, device="cpu", threads=1, recalibrate=False)


SAME_LAW, OTHER_LAW = (planted(np.arange(TRAINED + 1200) < end) for end in (TRAINED + 1200, TRAINED))


def test_a_link_has_the_score_it_had_before_it_arrived(cycles: Path) -> None:
    predictor = load(cycles)
    monitor = Monitor(predictor, links_per_second=1000)
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
    monitor = Monitor(predictor, links_per_second=1000, negatives=1000)  # finds all earlier destinations
    for links in portions(OTHER_LAW[: TRAINED + 100], TRAINED, 30):
        feed(predictor, monitor, links)
    past = Past(OTHER_LAW[: TRAINED + 100])
    for row in monitor.recent():
        link = int(row["t"])
        src, t = OTHER_LAW.src[link], OTHER_LAW.t[link]
        others = np.setdiff1d(OTHER_LAW.dst[:link], OTHER_LAW.dst[link])
        ends = np.concatenate([OTHER_LAW.dst[link : link + 1], others])
        scores = past.recency(np.repeat(src, len(ends)), ends, np.repeat(t, len(ends)))
        best = bool((scores[1:] < scores[0]).all())
        assert (row["baseline_rank"] == 1) == best


def test_a_stream_like_the_test_period_raises_no_alarm(cycles: Path) -> None:
    predictor = load(cycles)
    monitor = Monitor(predictor, links_per_second=1000, window=200)
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
    json.dumps([found, monitor.series(), monitor.recent()])
    gauges = monitor.gauges()
    assert gauges["model_mrr"] == found["model"]["mrr"]
    assert gauges["alarm"] == 0
    assert "shadow_mrr" not in gauges
    points = monitor.series()
    assert sum(point["scored"] for point in points) == 1200
    assert points[-1]["links"] == 1200


def test_an_alarm_when_the_baseline_wins_until_the_model_does(cycles: Path, caplog: pytest.LogCaptureFixture) -> None:
    predictor = load(cycles)
    monitor = Monitor(predictor, links_per_second=1000, window=200)
    with caplog.at_level(logging.INFO, logger="cawn.serve.monitor"):
        for links in portions(OTHER_LAW[: TRAINED + 600], TRAINED, 100):
            feed(predictor, monitor, links)
        found = monitor.summary()
        assert "recency baseline ranks better than the model" in found["alarm"]
        assert found["alarm_since"]
        assert monitor.gauges()["alarm"] == 1
        again = planted(np.ones(800, bool), seed=5)
        for links in portions(again, 0, 100):
            later = Links(links.src, links.dst, [t + TRAINED + 600 for t in links.t])
            feed(predictor, monitor, later)
    assert monitor.summary()["alarm"] is None
    assert len(caplog.messages) == 2  # once each


def test_a_bounded_sample_of_a_round_is_scored(cycles: Path) -> None:
    predictor = load(cycles)
    monitor = Monitor(predictor, links_per_second=10)
    assert [feed(predictor, monitor, links) for links in portions(SAME_LAW[: TRAINED + 160], TRAINED, 80)] == [10, 10]
    assert monitor.summary()["share"] == 20 / 160
    assert monitor.process() == 0


def test_every_link_of_a_round_is_as_likely_to_be_scored(cycles: Path) -> None:
    counts, links = np.zeros(40), next(portions(SAME_LAW[: TRAINED + 40], TRAINED, 40))
    predictor = load(cycles)
    predictor.append(links.src, links.dst, links.t)
    for seed in range(200):
        monitor = Monitor(predictor, links_per_second=10, negatives=1, seed=seed)
        monitor._start = None  # an empty baseline will do
        monitor._recency.extend(SAME_LAW, 0, 20)
        monitor.observe(links)
        monitor.process()
        counts[[row["t"] - TRAINED for row in monitor.recent()]] += 1
    # 200 rounds, each link scored with probability 1/4: z beyond 4.8 among 40 links has a probability below 1e-4.
    assert np.abs(counts - 50).max() < 4.8 * np.sqrt(200 * 0.25 * 0.75)


def test_late_links_are_counted_but_not_scored(cycles: Path) -> None:
    predictor = load(cycles)
    monitor = Monitor(predictor, links_per_second=1000)
    (links,) = portions(SAME_LAW[: TRAINED + 20], TRAINED, 20)
    feed(predictor, monitor, links)
    late = Links(["n0", "fresh"], ["n20", "n21"], [5, TRAINED + 3])
    assert feed(predictor, monitor, late) == 0
    assert feed(predictor, monitor, Links(["fresh"], ["n21"], [TRAINED + 30])) == 1
    assert not monitor.recent(1)[0]["new_pair"]  # the late link is known
    assert monitor.summary()["late"] == 2


def test_numbers_and_dates_in_one_round(tmp_path: Path) -> None:
    rows = [f"n{i % 5},m{i % 3},2024-01-{1 + i // 24:02d}T{i % 24:02d}:00:00" for i in range(240)]
    (tmp_path / "links.csv").write_text("src,dst,t\n" + "\n".join(rows) + "\n")
    events = cawn.read(tmp_path / "links.csv")
    run = cawn.train(events, system="recency", quiet=True, baselines=False, kinds=("random",), device="cpu")
    predictor = cawn.LinkPredictor.of(run)
    monitor = Monitor(predictor)
    number = int(events.t[-1]) + 3600
    for links in (Links(["n0"], ["m1"], [number]), Links(["n1"], ["m1"], ["2024-01-12T00:00:00"])):
        predictor.append(links.src, links.dst, links.t)
        monitor.observe(links)
    assert monitor.process() == 2
    assert [row["t"] for row in monitor.recent()] == ["2024-01-12T00:00:00", number]


def test_links_beyond_the_queue_are_dropped_but_known(cycles: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitors, "MAX_QUEUE", 50)
    predictor = load(cycles)
    monitor = Monitor(predictor, links_per_second=1000)
    for links in portions(SAME_LAW[: TRAINED + 60], TRAINED, 20):
        predictor.append(links.src, links.dst, links.t)
        monitor.observe(links)
    assert monitor.process() == 0
    assert monitor.summary()["dropped"] == 60
    assert feed(predictor, monitor, Links(["new"], ["n20"], [TRAINED + 60])) == 1
    link = SAME_LAW.labels[[SAME_LAW.src[TRAINED + 59], SAME_LAW.dst[TRAINED + 59]]].tolist()
    assert feed(predictor, monitor, Links(link[:1], link[1:], [TRAINED + 61])) == 1
    assert monitor.recent(1)[0]["baseline_rank"] <= 2


def test_the_background_thread_scores_and_survives_failures(cycles: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitors, "INTERVAL", 0.01)
    predictor = load(cycles)
    monitor = Monitor(predictor, links_per_second=1000, cpu_share=0.9)
    monitor.start()
    monitor.observe(Links(["n0"], ["n20"], ["no time"]))  # fails
    (links,) = portions(SAME_LAW[: TRAINED + 20], TRAINED, 20)
    predictor.append(links.src, links.dst, links.t)
    while monitor.summary()["scored"] == 0:
        monitor.observe(links)
        monitor._stopping.wait(0.02)
    monitor.stop()
    assert monitor.summary()["scored"] >= 1


def test_the_calibration_follows_the_stream(cycles: Path) -> None:
    errors = []
    for recalibrate in (False, True):
        predictor = cawn.LinkPredictor.load(cycles, device="cpu", threads=1, recalibrate=recalibrate)
        monitor = Monitor(predictor, links_per_second=1000, window=200)
        for links in portions(OTHER_LAW[: TRAINED + 600], TRAINED, 50):
            feed(predictor, monitor, links)
        errors.append(monitor.summary()["model"]["ece"])
        assert (predictor.calibration.since[-1] == TRAINED + 599) == recalibrate
    fixed, followed = errors
    assert followed < fixed / 3
