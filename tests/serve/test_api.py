"""What a client sends under /v1 and what it gets."""

from collections.abc import Iterator
from concurrent.futures import Future

import numpy as np
import pytest

from asgi_client import AsgiClient
from cawn.serve import app
from cawn.serve.app import create_app
from cawn.serve.requests import MAX_NAME
from cawn.serve.service import Service

pytestmark = pytest.mark.filterwarnings("ignore:t is ")  # about times far from the data

AS_JSON = {"Content-Type": "application/json"}


@pytest.fixture
def client(served) -> Iterator[AsgiClient]:
    service = served(late="refuse", max_ahead=2.0**62)
    with AsgiClient(create_app(service)) as client:
        client.service = service
        yield client


def settle(client) -> None:
    """Wait until observers have seen the links that were added."""
    client.service.writer.between(lambda: None)


def newest(client) -> int:
    return client.get("/v1/status").json()["watermark"]


def test_links_and_scores(client) -> None:
    t = newest(client) + 1
    before = client.get("/v1/status").json()["version"]
    answer = client.post("/v1/links", json={"links": [{"src": "n1", "dst": "new", "t": t, "id": "e1"}]})
    assert answer.status_code == 200
    receipt = answer.json()
    assert receipt["version"] > before
    assert receipt == {"added": 1, "duplicates": 0, "nodes_added": 1, "version": receipt["version"], "watermark": t}
    again = client.post("/v1/links", json={"src": ["n1"], "dst": ["new"], "t": [t], "ids": ["e1"]}).json()
    assert (again["added"], again["duplicates"]) == (0, 1)
    scores = client.post("/v1/score", json={"src": "n1", "dst": ["new", "n2"], "t": t + 1}).json()
    assert scores["version"] >= receipt["version"]
    assert len(scores["model"]) == 12
    now = client.post("/v1/score", json={"pairs": [{"src": "n1", "dst": "new"}, {"src": "n1", "dst": "n2"}]}).json()
    assert now["probability"] == scores["probability"]
    rare = client.post("/v1/score", json={"src": "n1", "dst": "new", "t": t + 1, "prior": 0.01}).json()
    assert rare["probability"][0] < scores["probability"][0]
    assert client.post("/v1/score", json={"pairs": []}).json()["probability"] == []


def test_the_same_key_adds_once(client) -> None:
    t = newest(client) + 1
    first, second = (
        client.post("/v1/links", json={"src": "n1", "dst": "n2", "t": t}, headers={"Idempotency-Key": "k"}).json()
        for _ in range(2)
    )
    assert first["added"] == second["added"] == 1
    assert first["version"] == second["version"]
    other = client.post("/v1/links", json={"src": "n1", "dst": "n3", "t": t}, headers={"Idempotency-Key": "k"})
    assert other.status_code == 422
    for key in ("", " ", "x" * 256, "\xe9", "\x01"):
        answer = client.post("/v1/links", json={}, headers={b"Idempotency-Key": key.encode("latin-1")})
        assert answer.status_code == 422
        assert "Idempotency-Key" in answer.json()["detail"]


def test_late_links_are_refused(client) -> None:
    answer = client.post("/v1/links", json={"src": "n1", "dst": "n2", "t": 0})
    assert answer.status_code == answer.json()["status"] == 409
    assert "older than the newest" in answer.json()["detail"]


def test_what_the_predictor_refuses(client) -> None:
    pair = {"src": "n1", "dst": "n2"}
    for path, body in (
        *(("/v1/links", pair | {"t": t}) for t in (1e300, "2016-01-23")),
        ("/v1/links", pair | {"t": 10**7, "attributes": [1.0]}),
        *(("/v1/score", pair | {"t": t}) for t in ("no date", 0.5)),
        ("/v1/explain", pair | {"src": "nobody"}),
        ("/v1/rank", {"src": "n1", "t": "x"}),
    ):
        answer = client.post(path, json=body)
        assert answer.status_code == answer.json()["status"] == 422
    assert client.post("/v1/score", json=pair).status_code == 200


def test_bodies_that_are_not_json(client) -> None:
    for path in ("/v1/links", "/v1/score", "/v1/rank", "/v1/explain", "/v2/models/run/infer"):
        for content, status in ((b"{", 400), (b"", 400), (b"[" * 10_000, 400), (b'{"src": NaN}', 422)):
            assert client.post(path, content=content, headers=AS_JSON).status_code == status
        for headers in ({}, {"Content-Type": "text/plain"}, AS_JSON | {"Content-Encoding": "gzip"}):
            assert client.post(path, content=b"{}", headers=headers).status_code == 415
    utf8 = {"Content-Type": "Application/JSON; charset=utf-8"}
    assert client.post("/v1/score", content=b'{"src": "n1", "dst": "n2"}', headers=utf8).status_code == 200


def test_rankings(client) -> None:
    found = client.post("/v1/rank", json={"src": "n1", "k": 3}).json()
    assert found["src"] == "n1"
    assert found["t"] == newest(client) + 1
    assert len(found["ranking"]) == 3
    assert found["ranking"][0].keys() == {"name", "probability", "found"}
    given = client.post("/v1/rank", json={"src": "n1", "candidates": ["n2", "nobody"]}).json()["ranking"]
    assert {each["name"] for each in given} == {"n2", "nobody"}


def test_explanations(client) -> None:
    best = client.post("/v1/rank", json={"src": "n1", "k": 1}).json()["ranking"][0]["name"]
    body = {"src": "n1", "dst": best}
    found = client.post("/v1/explain", json=body).json()
    assert found["dst"] == best
    page = client.post("/v1/explain", json=body, headers={"Accept": "text/html,*/*"})
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "sandbox" in page.headers["content-security-policy"]
    assert page.text.startswith("<!DOCTYPE html>")


NAMES = ["a/b", "a%2Fb", "%", "ü", "\n", "\0", "?x=1#y", " ", "a+b", "..", "", "n1", "/", "\\", "x" * MAX_NAME]


@pytest.mark.parametrize("name", NAMES)
def test_names_with_any_characters(client, name: str) -> None:
    t = newest(client) + 1
    assert client.post("/v1/links", json={"src": name, "dst": "other", "t": t}).json()["added"] == 1
    quoted = "".join(f"%{byte:02X}" for byte in name.encode())
    for path in (f"/v1/nodes/{quoted}", f"/v1/nodes?name={quoted}"):
        found = client.get(path).json()
        assert found["name"] == name
        assert found["known"]
        assert found["recent"][0] == {"src": name.strip(), "dst": "other", "t": t}
    settle(client)
    assert client.get("/v1/links/recent").json()["links"][0]["src"] == name.strip()


def test_names_that_are_refused(client) -> None:
    assert client.get(f"/v1/nodes/{'x' * (MAX_NAME + 1)}").status_code == 422
    assert client.get("/v1/nodes/%FF").status_code == 422
    assert client.get("/v1/nodes?name=%FF").status_code == 422
    assert client.get("/v1/nodes").status_code == 422
    assert client.get("/v1/nodes?name=a&name=b").status_code == 422


def test_nodes_and_links_are_removed(client, monkeypatch: pytest.MonkeyPatch) -> None:
    removal, done = [], Future()
    done.set_result(7)
    for name in ("forget", "remove"):
        monkeypatch.setattr(Service, name, lambda _, what, name=name: removal.append((name, what)) or done)
    for path in ("nodes/a%2Fb", "nodes/a/b", "nodes?name=a/b", "links/e%2F1", "links/recent", "links?id=.."):
        assert client.request("DELETE", f"/v1/{path}").json()["removed"] == 7
    assert removal == [("forget", "a/b")] * 3 + [("remove", link_id) for link_id in ("e/1", "recent", "..")]
    for path in ("nodes", "nodes/%FF", "links", "links?id=a&id=b"):
        assert client.request("DELETE", f"/v1/{path}").status_code == 422


def test_the_newest_links(client) -> None:
    t = newest(client) + 1
    client.post("/v1/links", json={"src": ["n1", "n2"], "dst": ["n2", "n3"], "t": [t, t + 1]})
    settle(client)
    links = client.get("/v1/links/recent").json()["links"]
    assert [(link["src"], link["dst"], link["t"]) for link in links] == [("n2", "n3", t + 1), ("n1", "n2", t)]
    assert all(0 < link["probability"] < 1 for link in links)
    assert len(client.get("/v1/links/recent?limit=1").json()["links"]) == 1
    for limit in ("0", "101", "x", "-1", "1e1", "", "٣", "9" * 5_000):
        assert client.get("/v1/links/recent", params={"limit": limit}).status_code == 422


def test_status_series_and_metrics(client) -> None:
    client.post("/v1/score", json={"src": "n1", "dst": "n2"})
    status = client.get("/v1/status").json()
    assert status["ready"]
    assert status["latency"]["score"]["count"] == 1
    assert status["queue"]["size"] == 0
    assert client.get("/v1/series").json() == {"points": []}
    metrics = client.get("/metrics")
    assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "cawn_pairs_scored_total 1.0" in metrics.text


def test_unknown_names_are_listed_or_refused(client) -> None:  # U6
    pairs = {"src": "n1", "dst": ["n2", "N2", "n2 ", "N2"]}
    inputs = [{"name": n, "shape": [1], "datatype": "BYTES", "data": [d]} for n, d in (("src", "n1"), ("dst", "N2"))]
    for path, body, unknown in (
        ("/v1/score", pairs, ["N2"]),
        ("/v1/score", {"src": "n1", "dst": "n2"}, []),
        ("/v1/rank", {"src": "nobody"}, ["nobody"]),
        ("/v1/rank", {"src": "n1", "candidates": ["n2", "N2"]}, ["N2"]),
        ("/v1/explain", {"src": "n1", "dst": "n2"}, []),
        ("/v2/models/run/infer", {"inputs": inputs}, ["N2"]),
    ):
        found = client.post(path, json=body).json()
        assert found.get("parameters", found)["unknown"] == unknown
        strict = {"parameters": {"strict": True}} if "inputs" in body else {"strict": True}
        answer = client.post(path, json=body | strict)
        assert answer.status_code == (422 if unknown else 200)
        assert all(repr(name) in answer.text for name in unknown)


def test_doubtful_times_are_answered_with_a_warning(client) -> None:  # U2
    near, far = newest(client) + 1, newest(client) * 1_000
    for path, body in (
        ("/v1/score", {"src": "n1", "dst": ["n2", "n3"]}),
        ("/v1/rank", {"src": "n1"}),
        ("/v1/explain", {"src": "n1", "dst": "n2"}),
    ):
        assert client.post(path, json=body).json()["warnings"] == []
        assert client.post(path, json=body | {"t": near}).json()["warnings"] == []
        (warning,) = client.post(path, json=body | {"t": far}).json()["warnings"]
        assert str(far) in warning
    times = {"src": "n1", "dst": ["n2", "n3", "n4"], "t": [near, far, -far]}
    assert len(client.post("/v1/score", json=times).json()["warnings"]) == 1


def test_all_candidates_have_the_limit_of_named_ones(client, monkeypatch: pytest.MonkeyPatch) -> None:  # H11
    everybody = {"src": "n1", "candidates": "all"}
    assert client.post("/v1/rank", json=everybody).status_code == 200
    monkeypatch.setattr(app, "MAX_CANDIDATES", 10)
    answer = client.post("/v1/rank", json=everybody)
    assert answer.status_code == 422
    assert "candidates" in answer.json()["detail"]
    assert client.post("/v1/rank", json={"src": "n1"}).status_code == 200


def test_how_far_streams_are_behind(client, monkeypatch: pytest.MonkeyPatch) -> None:
    assert client.get("/ready").json() == {"ready": True, "sources": []}
    behind = {"name": "redis", "connected": True, "lag": 12}
    monkeypatch.setattr(Service, "status", lambda _: {"sources": [behind]})
    assert client.get("/ready").json()["sources"] == [behind]


def test_large_times_come_back_unchanged(client) -> None:
    t = newest(client) + 2**55 + 1
    assert client.post("/v1/links", json={"src": "n1", "dst": "n2", "t": t}).json()["watermark"] == t
    assert client.get("/v1/nodes/n1").json()["last"] == t
    assert np.isfinite(client.post("/v1/score", json={"src": "n1", "dst": "n2"}).json()["probability"][0])
