import numpy as np
import pytest

import cawn
from cawn.serve.ingest import LateLinks, QueueFull
from cawn.serve.links import Links
from cawn.serve.problems import Problem
from cawn.serve.requests import ExplainQuery, Pairs, RankQuery
from cawn.serve.service import NEWEST, SLOW_QUEUE, Service, ServiceSettings

KINDS = ("recent", "two hops", "popular")


def test_a_score_includes_links_added_before(served) -> None:
    service = served()
    now = service.predictor.watermark
    before = service.score(Pairs(["n1"], ["new"], [now + 10])).result(600)
    links = Links(["n1"] * 5, ["new"] * 5, [now + 1 + i for i in range(5)])
    receipt = service.add(links).result(600)
    assert (receipt.added, receipt.duplicates, receipt.nodes_added) == (5, 0, 1)
    after = service.score(Pairs(["n1"], ["new"], [now + 10])).result(600)
    assert after.version >= receipt.version > before.version
    assert after.probability[0] != before.probability[0]


def test_scores_are_those_of_a_predictor_with_the_same_links(served, trained) -> None:
    service = served()
    now = service.predictor.watermark
    added = Links(["n1", "x", "n2"], ["x", "n3", "n1"], [now + 1, now + 2, now + 2])
    service.add(added).result(600)
    offline = cawn.LinkPredictor.load(trained, device="cpu", threads=1, recalibrate=False)
    offline.append(added.src, added.dst, added.t)
    src, dst = ["n1", "n5", "x", "nobody"], ["x", "n1", "n1", "n1"]
    online = service.score(Pairs(src, dst, [now + 3] * 4)).result(600).probability
    np.testing.assert_array_equal(online, offline.score(src, dst, now + 3))


@pytest.mark.parametrize("system", ["cawn", "popularity"])
def test_parts_that_are_added_together_have_the_results_of_parts_added_alone(trained, system: str) -> None:
    def load() -> cawn.LinkPredictor:
        if system == "cawn":
            return cawn.LinkPredictor.load(trained, device="cpu", threads=1)
        events = cawn.read(trained.parent / "links.csv")
        run = cawn.train(events, system=system, quiet=True, kinds=("random",), device="cpu", baselines=False)
        return cawn.LinkPredictor.of(run)

    together, alone = load(), load()
    rng, t, sizes = np.random.default_rng(0), together.watermark, [3, 0, 1, 1, 5, 2, 1]
    names = np.array([f"n{i}" for i in range(50)], object)  # of which 20 are new
    parts = [(rng.choice(names, n).tolist(), rng.choice(names, n).tolist(), t + rng.integers(0, 9, n)) for n in sizes]
    columns = [np.concatenate(column).tolist() for column in zip(*parts, strict=True)]
    expected = [alone.append(*part) for part in parts]
    assert together.append_parts(together.prepare(*columns), sizes) == expected
    assert sum(each.nodes_added for each in expected) == together.num_nodes - 30 > 0
    ids = [rng.choice(99, n, replace=False).astype(np.uint64) + 1 for n in sizes]
    alone.append(["n1"], ["n2"], [t], link_id=ids[4][:1])
    together.append(["n1"], ["n2"], [t], link_id=ids[4][:1])  # now known
    expected = [alone.append(*part, link_id=some) for part, some in zip(parts, ids, strict=True)]
    assert together.append_parts(together.prepare(*columns, link_id=np.concatenate(ids)), sizes) == expected
    assert sum(each.skipped for each in expected) > 0


def test_rank_and_explain(served) -> None:
    service = served()
    now = service.predictor.watermark
    found = service.rank(RankQuery("n1", None, 3, None, KINDS, 0.5)).result(600)
    assert found.t == now + 1
    assert found.ranking == list(service.predictor.rank("n1", now + 1, 3))
    query = ExplainQuery("n1", found.ranking[0].name, now + 1, 0.5)
    assert service.explain(query).result(600)["src"] == "n1"
    assert service.explain(query, as_page=True).result(600).startswith("<!DOCTYPE html>")
    with pytest.raises(cawn.QueryError, match="is not in the network"):
        service.explain(ExplainQuery("nobody", "n1", None, 0.5)).result(600)


def test_a_node_and_its_newest_links(served) -> None:
    service = served()
    now = service.predictor.watermark
    service.add(Links(["a/b"] * 30, ["n1"] * 30, [now + 1 + i for i in range(30)])).result(600)
    found = service.node("a/b").result(600)
    assert (found["known"], found["links"], found["first"], found["last"]) == (True, 30, now + 1, now + 30)
    assert found["recent"][0] == {"src": "a/b", "dst": "n1", "t": now + 30}
    assert len(found["recent"]) == 20
    unknown = service.node("nobody").result(600)
    assert (unknown["known"], unknown["links"], unknown["recent"]) == (False, 0, [])


def test_the_newest_links_have_the_scores_from_before_they_arrived(served) -> None:
    service = served()
    now = service.predictor.watermark
    before = service.score(Pairs(["n1"], ["n2"], [now + 1])).result(600).probability
    assert service.newest().result(600) == []
    service.add(Links(["n1"], ["n2"], [now + 1])).result(600)
    service.ingest.between(lambda: None)  # by then, observers have seen the links
    (newest,) = service.newest().result(600)
    assert newest == {"src": "n1", "dst": "n2", "t": now + 1, "probability": before[0]}
    service.add(Links(["n1"] * 200, ["n2"] * 200, [now + 2] * 200)).result(600)
    service.ingest.between(lambda: None)
    assert len(service.newest().result(600)) == NEWEST
    assert len(service.newest(3).result(600)) == 3


def test_late_links(served) -> None:
    service = served(late="refuse")
    with pytest.raises(LateLinks):
        service.add(Links(["n1"], ["n2"], [service.predictor.watermark - 1])).result(600)


def test_duplicates_and_keys(served) -> None:
    service = served()
    now = service.predictor.watermark
    links = Links(["n1", "n2"], ["n2", "n3"], [now + 1] * 2, ids=["a", "b"])
    first = service.add(links, "key").result(600)
    assert service.add(links, "key").result(600) == first
    assert service.add(links).result(600)[:2] == (0, 2)
    assert b"cawn_links_added_total 2.0" in service.metrics.to_text()
    assert b"cawn_links_duplicate_total 2.0" in service.metrics.to_text()


def test_a_restart_has_all_links(served) -> None:
    service = served()
    now, before = service.predictor.watermark, service.predictor.num_links
    service.add(Links(["n1"], ["new"], [now + 7])).result(600)
    service.stop()
    again = served()
    assert b"cawn_snapshot_age_seconds" in again.metrics.to_text()
    assert again.predictor.num_links == before + 1
    assert again.predictor.watermark == now + 7


def test_before_the_start_and_after_the_end(served, trained) -> None:
    starting = Service(ServiceSettings(trained))
    assert not starting.ready
    assert starting.status()["links"] is None
    assert b"cawn_ready 0.0" in starting.metrics.to_text()
    starting.stop()
    service = served()
    service.stop()
    service.stop()
    pairs = Pairs(["n1"], ["n2"], None)
    for asked, message in ((Service(ServiceSettings(trained)), "being loaded"), (service, "stopping")):
        with pytest.raises(Problem, match=message) as caught:
            asked.score(pairs)
        assert caught.value.status == 503


def test_a_failed_start_releases_the_state(served) -> None:
    with pytest.raises(cawn.CawnError, match="--source"):
        served(sources=("ftp://x",))
    assert served().ready


def test_rankings_beyond_the_queue_are_refused(served, monkeypatch: pytest.MonkeyPatch) -> None:
    from threading import Event

    service, free = served(), Event()
    monkeypatch.setattr(service, "_rank", lambda query: free.wait(600))
    query = RankQuery("n1", None, 3, None, KINDS, 0.5)
    waiting = [service.rank(query) for _ in range(SLOW_QUEUE)]
    with pytest.raises(QueueFull):
        service.rank(query)
    free.set()
    assert all(each.result(600) for each in waiting)


def test_status_and_metrics(served) -> None:
    service = served()
    service.add(Links(["n1"], ["n2"], [service.predictor.watermark + 1])).result(600)
    service.ingest.between(lambda: None)
    status = service.status()
    assert status["ready"]
    assert (status["links"], status["nodes"]) == (401, 30)
    assert status["version"] == service.predictor.version
    assert status["watermark"] == service.predictor.watermark
    assert status["model"] == {"name": "run", "version": service.model_version}
    assert status["learning"] == {"enabled": False}
    assert status["accuracy"]["arrived"] == 1
    assert service.series() == {"points": []}
    text = service.metrics.to_text().decode()
    for name in ("cawn_ready 1.0", "cawn_links 401.0", "cawn_queue_pairs 0.0", "cawn_watermark ", "cawn_model_info{"):
        assert f"\n{name}" in text, name


def test_learning(served) -> None:
    service = served(learn=True)
    assert service.status()["learning"]["enabled"]


def test_the_index_can_grow_before_the_service_is_ready(served, monkeypatch) -> None:
    prepared = []

    def prepare_to_grow(predictor: cawn.LinkPredictor) -> None:
        prepared.append(predictor.version)

    monkeypatch.setattr(cawn.LinkPredictor, "prepare_to_grow", prepare_to_grow)
    service = served()
    assert prepared == [0]
    assert service.predictor.version == 0
