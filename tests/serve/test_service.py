"""The service without HTTP: what is added is seen, what is asked is answered, what is forgotten is gone."""

import threading
import time
from pathlib import Path

import numpy as np
import pytest

import cawn
from cawn.serve import monitor, retention
from cawn.serve.links import SubmittedLinks
from cawn.serve.problems import Problem
from cawn.serve.requests import ExplainQuery, Pairs, RankQuery
from cawn.serve.retention import Retention
from cawn.serve.service import NEWEST, RECENT_OF_NODE, SLOW_QUEUE, Service, ServiceSettings
from cawn.serve.sources.entries import RejectedEntries
from cawn.serve.writer import LateLinks, QueueFull
from former_state import write_state

KINDS = ("recent", "two hops", "popular")


def test_answers_are_those_of_a_predictor_with_the_same_links(served, trained) -> None:
    service = served()
    now = service.predictor.watermark
    pairs = Pairs(["n1", "n5", "x", "nobody"], ["x", "n1", "n1", "n1"], [now + 3] * 4)
    before = service.score(pairs).result(600)
    added = SubmittedLinks(["n1", "x", "n2"], ["x", "n3", "n1"], [now + 1, now + 2, now + 2])
    receipt = service.add(added).result(600)
    assert receipt[:3] == (3, 0, 1)
    after = service.score(pairs).result(600)
    assert after.version >= receipt.version > before.version
    offline = cawn.LinkPredictor.load(trained, device="cpu", threads=1, recalibrate=False)
    offline.append(added.src, added.dst, added.t)
    np.testing.assert_array_equal(after.probability, offline.score(pairs.src, pairs.dst, now + 3))
    found = service.rank(RankQuery("n1", None, 3, None, KINDS, prior=0.5)).result(600)
    assert (found.t, found.ranking) == (now + 3, list(offline.rank("n1", now + 3, 3)))
    query = ExplainQuery("n1", "x", None, prior=0.5)
    assert service.explain(query).result(600)["t"] == now + 3
    assert service.explain(query, as_page=True).result(600).startswith("<!DOCTYPE html>")
    node = service.node("x").result(600)
    assert (node["known"], node["links"], node["first"], node["last"]) == (True, 2, now + 1, now + 2)
    assert node["recent"][0] == {"src": "x", "dst": "n3", "t": now + 2}
    service.stop()
    again = served()
    assert (again.predictor.num_links, again.predictor.watermark) == (403, now + 2)
    np.testing.assert_array_equal(again.score(pairs).result(600).probability, after.probability)


def test_the_newest_links_have_the_scores_from_before_they_arrived(served) -> None:
    service = served()
    now = service.predictor.watermark
    before = service.score(Pairs(["n1"], ["n2"], [now + 1])).result(600).probability
    assert service.newest().result(600) == []
    service.add(SubmittedLinks(["n1"], ["n2"], [now + 1])).result(600)
    service.writer.between(lambda: None)  # by then, observers have seen the links
    (newest,) = service.newest().result(600)
    assert newest == {"src": "n1", "dst": "n2", "t": now + 1, "probability": before[0]}
    service.add(SubmittedLinks(["n1"] * 200, ["n2"] * 200, [now + 2] * 200)).result(600)
    service.writer.between(lambda: None)
    assert [len(service.newest(*limit).result(600)) for limit in ((), (3,))] == [NEWEST, 3]
    assert len(service.node("n1").result(600)["recent"]) == RECENT_OF_NODE


def test_what_status_and_metrics_say(served) -> None:
    service = served(late="refuse")
    now = service.predictor.watermark
    with pytest.raises(LateLinks):
        service.add(SubmittedLinks(["n1"], ["n2"], [now - 1])).result(600)
    links = SubmittedLinks(["n1", "n2"], ["n2", "n3"], [now + 1] * 2, ids=["a", "b"])
    assert [service.add(links).result(600)[:2] for _ in range(2)] == [(2, 0), (0, 2)]
    service.writer.between(lambda: None)
    text = service.metrics.to_text().decode()
    expected = ("ready 1.0", "links 402.0", "links_added_total 2.0", "links_duplicate_total 2.0", "queue_pairs 0.0")
    for line in (*expected, "watermark ", "model_info{", "commits_total 1.0", "store_bytes "):
        assert f"\ncawn_{line}" in text, line
    status = service.status()
    assert (status["ready"], status["links"], status["nodes"], status["watermark"]) == (True, 402, 30, now + 1)
    assert status["model"] == {"name": "run", "version": service.model_version}
    assert (status["learning"], status["accuracy"]["arrived"]) == ({"enabled": False}, 2)
    assert service.series() == {"points": []}


def test_before_the_start_and_after_the_end(served, trained) -> None:
    starting, service = Service(ServiceSettings(trained)), served()
    service.stop()
    service.stop()
    for asked, message in ((starting, "being loaded"), (service, "stopping")):
        with pytest.raises(Problem, match=message) as caught:
            asked.score(Pairs(["n1"], ["n2"], None))
        assert caught.value.status == 503
        assert (asked.ready, asked.status()["links"]) == (False, None)
        assert b"cawn_ready 0.0" in asked.metrics.to_text()
    starting.stop()


@pytest.mark.parametrize("wrong", [{"sources": ("ftp://x",)}, {"retain": "5 apples"}, {"retain": "90d"}])
def test_a_failed_start_releases_the_state(served, wrong: dict) -> None:
    with pytest.raises(cawn.CawnError, match=r"--source|--retain"):
        served(**wrong)
    assert served(learn=True).status()["learning"]["enabled"]


def test_rankings_beyond_the_queue_are_refused(served, monkeypatch: pytest.MonkeyPatch) -> None:
    service, free = served(), threading.Event()
    monkeypatch.setattr(service, "_rank", lambda query: free.wait(600))
    query = RankQuery("n1", None, 3)
    waiting = [service.rank(query) for _ in range(SLOW_QUEUE)]
    with pytest.raises(QueueFull):
        service.rank(query)
    free.set()
    assert all(each.result(600) for each in waiting)


# Removing links


SECRET = "secret-name-4711"


def bytes_with(name: str, folder: Path) -> list[Path]:
    """The files in which a name occurs."""
    return [path for path in folder.rglob("*") if path.is_file() and name.encode() in path.read_bytes()]


def with_secret(trained: Path, folder: Path) -> Path:
    """A run with a node whose name is secret, and its former state."""
    predictor = cawn.LinkPredictor.load(trained, device="cpu", threads=1)
    predictor.append([SECRET], ["n1"], [predictor.watermark + 1])
    predictor.save(folder)
    (write_state(folder) / "log" / "x").write_text(SECRET)
    return folder


def test_a_forgotten_name_is_nowhere(served, trained: Path, tmp_path: Path) -> None:
    """U4: neither in the run nor in any file of the state, also of an earlier version; the rest is as without it."""
    run = with_secret(trained, tmp_path / "run")
    service = served()
    now = service.predictor.watermark
    service.add(SubmittedLinks(["n2", SECRET], [SECRET, "friend"], [now + 1, now + 2], ids=[1, 2]), "key").result(600)
    kept = service.add(SubmittedLinks(["n2"], ["n3"], [now + 3])).result(600)
    RejectedEntries(run / "live").add("redis:s", "1-0", {"src": SECRET}, "dst is missing")
    assert {path.parent.name for path in bytes_with(SECRET, run)} >= {"live", "log"}
    removed = service.forget(SECRET).result(600)
    assert removed == 3
    assert service.predictor.version > kept.version
    assert bytes_with(SECRET, run) == []
    assert not service.node(SECRET).result(600)["known"]
    assert not service.node("friend").result(600)["known"], "its only link is gone"
    assert SECRET not in str(service.newest().result(600))
    pairs = Pairs(["n2", SECRET], ["n1", "n3"], [now + 9] * 2)
    found = service.score(pairs).result(600).probability
    without = cawn.LinkPredictor.load(trained, device="cpu", threads=1)
    without.append(["n2"], ["n3"], [now + 3])
    np.testing.assert_array_equal(found, without.score(pairs.src, pairs.dst, now + 9))
    with pytest.raises(cawn.QueryError, match="is not in the network"):
        service.forget(SECRET).result(600)
    service.stop()
    assert bytes_with(SECRET, run) == []
    np.testing.assert_array_equal(served().score(pairs).result(600).probability, found)


def test_forgetting_can_be_repeated_after_a_crash(served, trained: Path, tmp_path: Path) -> None:
    """U4: between the removal from the state and that from the run."""
    run = with_secret(trained, tmp_path / "run")
    service = served()
    service.writer.remove(name=SECRET)
    assert bytes_with(SECRET, run)
    assert service.forget(SECRET).result(600) == 0
    assert bytes_with(SECRET, run) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90d", Retention(90, "d")),
        (" 1.5h ", Retention(1.5, "h")),
        ("500", Retention(500, None)),
        ("5e6 links", Retention(5_000_000, "links")),
    ],
)
def test_what_is_retained(text: str, expected: Retention) -> None:
    assert Retention.parse(text) == expected
    for wrong in ("", "-1d", "0", "90 days", "1e999d", "links"):
        with pytest.raises(cawn.QueryError, match="--retain"):
            Retention.parse(wrong)


def test_old_links_are_removed(served, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the start, and while links arrive."""
    monkeypatch.setattr(retention, "INTERVAL", 0.01)
    service = served(retain="300 links")
    assert service.predictor.num_links == 300
    now = service.predictor.watermark
    service.add(SubmittedLinks(["n1"] * 20, ["n2"] * 20, [now + 1] * 20)).result(600)
    while service.predictor.num_links != 300:
        time.sleep(0.01)
    service.stop()
    assert served().predictor.num_links == 300


@pytest.mark.parametrize("unit", ["s", "ms"])
def test_retention_by_age(unit: str) -> None:
    days = (np.datetime64("2024-01-01") + np.arange(100)).astype(f"datetime64[{unit}]")
    events = cawn.Events(np.arange(100) % 7, 7 + np.arange(100) % 5, days)
    run = cawn.train(
        events, "popularity", quiet=True, task=cawn.Task(baselines=False, negatives=("random",)), device="cpu"
    )
    predictor = cawn.LinkPredictor.of(run)
    chosen = Retention.parse("30d").removal(predictor)
    assert predictor.retain(**chosen) == 69
    assert predictor.num_links == 31
    assert Retention.parse("31d").removal(predictor) == Retention.parse("31 links").removal(predictor) == {}


def test_a_restart_keeps_the_refitted_calibration(served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(monitor, "INTERVAL", 0.01)
    monkeypatch.setattr(monitor, "COST_WEIGHT", 0.0)
    service = served()
    now, rng = service.predictor.watermark, np.random.default_rng(0)
    src, dst = ([f"n{i}" for i in rng.integers(0, 30, 300)] for _ in range(2))
    service.add(SubmittedLinks(src, dst, [now + 1 + i for i in range(300)])).result(600)
    while service.status()["accuracy"]["scored"] < 300:
        time.sleep(0.01)
    pairs = Pairs(src[:20], dst[:20], [now + 400] * 20)
    before, calibration = service.score(pairs).result(600).probability, service.predictor.calibration
    assert calibration.since[-1] > now
    service.stop()
    again = served()
    assert again.predictor.calibration == calibration
    np.testing.assert_array_equal(again.score(pairs).result(600).probability, before)
