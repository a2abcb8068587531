"""What a client sends under /v1 and /v2 and what it gets."""

from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest

from asgi_client import AsgiClient
from cawn.serve import app
from cawn.serve.app import create_app
from cawn.serve.requests import MAX_NAME
from cawn.serve.service import Service

pytestmark = pytest.mark.filterwarnings("ignore:t is ")  # about times far from the data

AS_JSON = {"Content-Type": "application/json"}
PAIR = {"src": "n1", "dst": "n2"}
INFER = "/v2/models/run/infer"


def tensor(name: str, datatype: str, data: list[Any], shape: list[int] | None = None) -> dict[str, Any]:
    return {"name": name, "shape": [len(data)] if shape is None else shape, "datatype": datatype, "data": data}


SRC, DST = tensor("src", "BYTES", ["n1", "n1"]), tensor("dst", "BYTES", ["n2", "n3"])
T = tensor("t", "INT64", [20_000, 20_000])


@pytest.fixture
def client(served) -> Iterator[AsgiClient]:
    service = served(late="refuse", max_ahead=2.0**62)
    with AsgiClient(create_app(service)) as client:
        client.service = service
        yield client


@pytest.fixture(scope="module")
def reader(shared_service) -> Iterator[AsgiClient]:
    """A client that changes nothing."""
    with AsgiClient(create_app(shared_service)) as client:
        yield client


def ask(client: AsgiClient, path: str, **body: Any) -> Any:
    return client.post(f"/v1/{path}", json=body).json()


def settle(client: AsgiClient) -> None:
    """Wait until observers have seen the links that were added."""
    client.service.writer.between(lambda: None)


def newest(client: AsgiClient) -> int:
    return client.get("/v1/status").json()["watermark"]


def test_links_and_scores(client) -> None:
    t, before = newest(client) + 1, client.get("/v1/status").json()["version"]
    receipt = ask(client, "links", links=[{"src": "n1", "dst": "new", "t": t, "id": "e1"}])
    assert receipt["version"] > before
    assert receipt == {"added": 1, "duplicates": 0, "nodes_added": 1, "version": receipt["version"], "watermark": t}
    again = ask(client, "links", src=["n1"], dst=["new"], t=[t], ids=["e1"])
    assert (again["added"], again["duplicates"]) == (0, 1)
    scores = ask(client, "score", src="n1", dst=["new", "n2"], t=t + 1)
    assert scores["version"] >= receipt["version"]
    assert len(scores["model"]) == 12
    now = ask(client, "score", pairs=[{"src": "n1", "dst": "new"}, PAIR])
    assert now["probability"] == scores["probability"]
    rare = ask(client, "score", src="n1", dst="new", t=t + 1, prior=0.01)
    assert rare["probability"][0] < scores["probability"][0]
    assert ask(client, "score", pairs=[])["probability"] == []


def test_the_same_key_adds_once(client) -> None:
    link, key = PAIR | {"t": newest(client) + 1}, {"Idempotency-Key": "k"}
    first, second = (client.post("/v1/links", json=link, headers=key).json() for _ in range(2))
    assert first["added"] == second["added"] == 1
    assert first["version"] == second["version"]
    assert client.post("/v1/links", json=link | {"dst": "n3"}, headers=key).status_code == 422
    for wrong in ("", " ", "x" * 256, "\xe9", "\x01"):
        answer = client.post("/v1/links", json={}, headers={b"Idempotency-Key": wrong.encode("latin-1")})
        assert answer.status_code == 422
        assert "Idempotency-Key" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("path", "body", "status", "where"),
    [
        ("links", PAIR | {"t": 0}, 409, "older than the newest"),
        *(("links", PAIR | {"t": t}, 422, "") for t in (1e300, "2016-01-23")),
        ("links", PAIR | {"t": 10**7, "attributes": [1.0]}, 422, "attributes"),
        *(("score", PAIR | {"t": t}, 422, "") for t in ("no date", 0.5)),
        ("explain", PAIR | {"src": "nobody"}, 422, "nobody"),
        ("rank", {"src": "n1", "t": "x"}, 422, ""),
    ],
)
def test_what_the_predictor_refuses(client, path: str, body: Any, status: int, where: str) -> None:
    answer = client.post(f"/v1/{path}", json=body)
    assert answer.status_code == answer.json()["status"] == status
    assert where in answer.json()["detail"]


def test_bodies_that_are_not_json(reader) -> None:
    for path in ("/v1/links", "/v1/score", "/v1/rank", "/v1/explain", INFER):
        for content, status in ((b"{", 400), (b"", 400), (b"[" * 10_000, 400), (b'{"src": NaN}', 422)):
            assert reader.post(path, content=content, headers=AS_JSON).status_code == status
        for headers in ({}, {"Content-Type": "text/plain"}, AS_JSON | {"Content-Encoding": "gzip"}):
            assert reader.post(path, content=b"{}", headers=headers).status_code == 415
    utf8 = {"Content-Type": "Application/JSON; charset=utf-8"}
    assert reader.post("/v1/score", content=b'{"src": "n1", "dst": "n2"}', headers=utf8).status_code == 200


def test_rankings_and_explanations(reader) -> None:
    found = ask(reader, "rank", src="n1", k=3)
    assert (found["src"], found["t"], len(found["ranking"])) == ("n1", newest(reader) + 1, 3)
    assert found["ranking"][0].keys() == {"name", "probability", "found"}
    given = ask(reader, "rank", src="n1", candidates=["n2", "nobody"])["ranking"]
    assert {each["name"] for each in given} == {"n2", "nobody"}
    body = {"src": "n1", "dst": found["ranking"][0]["name"]}
    assert ask(reader, "explain", **body)["dst"] == body["dst"]
    page = reader.post("/v1/explain", json=body, headers={"Accept": "text/html,*/*"})
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "sandbox" in page.headers["content-security-policy"]
    assert page.text.startswith("<!DOCTYPE html>")


NAMES = ["a/b", "a%2Fb", "%", "ü", "\n", "\0", "?x=1#y", " ", "a+b", "..", "", "n1", "/", "\\", "x" * MAX_NAME]


def test_names_with_any_characters(client) -> None:
    for name in NAMES:
        t = newest(client) + 1
        assert ask(client, "links", src=name, dst="other", t=t)["added"] == 1
        quoted = "".join(f"%{byte:02X}" for byte in name.encode())
        for path in (f"/v1/nodes/{quoted}", f"/v1/nodes?name={quoted}"):
            found = client.get(path).json()
            assert (found["name"], found["known"]) == (name, True)
            assert found["recent"][0] == {"src": name.strip(), "dst": "other", "t": t}
        settle(client)
        assert client.get("/v1/links/recent").json()["links"][0]["src"] == name.strip()


def test_nodes_and_links_are_removed(client, monkeypatch: pytest.MonkeyPatch) -> None:
    removal, done = [], Future()
    done.set_result(7)
    for name in ("forget", "remove"):
        monkeypatch.setattr(Service, name, lambda _, what, name=name: removal.append((name, what)) or done)
    for path in ("nodes/a%2Fb", "nodes/a/b", "nodes?name=a/b", "links/e%2F1", "links/recent", "links?id=.."):
        assert client.request("DELETE", f"/v1/{path}").json()["removed"] == 7
    assert removal == [("forget", "a/b")] * 3 + [("remove", link_id) for link_id in ("e/1", "recent", "..")]
    for method, path in (
        *(("GET", path) for path in (f"nodes/{'x' * (MAX_NAME + 1)}", "nodes?name=%FF", "nodes?name=a&name=b")),
        *((method, path) for method in ("GET", "DELETE") for path in ("nodes", "nodes/%FF")),
        *(("DELETE", path) for path in ("links", "links?id=a&id=b")),
    ):
        assert client.request(method, f"/v1/{path}").status_code == 422, path


def test_the_newest_links(client) -> None:
    t = newest(client) + 1
    ask(client, "links", src=["n1", "n2"], dst=["n2", "n3"], t=[t, t + 1])
    settle(client)
    links = client.get("/v1/links/recent").json()["links"]
    assert [(link["src"], link["dst"], link["t"]) for link in links] == [("n2", "n3", t + 1), ("n1", "n2", t)]
    assert all(0 < link["probability"] < 1 for link in links)
    assert len(client.get("/v1/links/recent?limit=1").json()["links"]) == 1
    for limit in ("0", "101", "x", "-1", "1e1", "", "٣", "9" * 5_000):
        assert client.get("/v1/links/recent", params={"limit": limit}).status_code == 422


def test_status_series_and_metrics(client, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(client, "score", **PAIR)
    status = client.get("/v1/status").json()
    assert (status["ready"], status["latency"]["score"]["count"], status["queue"]["size"]) == (True, 1, 0)
    assert client.get("/v1/series").json() == {"points": []}
    metrics = client.get("/metrics")
    assert metrics.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert "cawn_pairs_scored_total 1.0" in metrics.text


def test_without_streams_nothing_is_behind(client) -> None:
    assert client.get("/ready").json() == {"ready": True, "sources": []}


def test_unknown_names_are_listed_or_refused(reader) -> None:  # U6
    inputs = [tensor("src", "BYTES", ["n1"]), tensor("dst", "BYTES", ["N2"])]
    for path, body, unknown in (
        ("/v1/score", {"src": "n1", "dst": ["n2", "N2", "n2 ", "N2"]}, ["N2"]),
        ("/v1/score", {"src": ["n1"] * 200, "dst": ["N2", "n2"] * 100}, ["N2"]),
        ("/v1/score", PAIR, []),
        ("/v1/rank", {"src": "nobody"}, ["nobody"]),
        ("/v1/rank", {"src": "n1", "candidates": ["n2", "N2"]}, ["N2"]),
        ("/v1/explain", PAIR, []),
        (INFER, {"inputs": inputs}, ["N2"]),
    ):
        found = reader.post(path, json=body).json()
        assert found.get("parameters", found)["unknown"] == unknown
        strict = {"parameters": {"strict": True}} if "inputs" in body else {"strict": True}
        answer = reader.post(path, json=body | strict)
        assert answer.status_code == (422 if unknown else 200)
        assert all(repr(name) in answer.text for name in unknown)


def test_doubtful_times_are_answered_with_a_warning(reader) -> None:  # U2
    near, far = newest(reader) + 1, newest(reader) * 1_000
    for path, body in (("score", {"src": "n1", "dst": ["n2", "n3"]}), ("rank", {"src": "n1"}), ("explain", PAIR)):
        assert ask(reader, path, **body)["warnings"] == ask(reader, path, **body, t=near)["warnings"] == []
        (warning,) = ask(reader, path, **body, t=far)["warnings"]
        assert str(far) in warning
    assert len(ask(reader, "score", src="n1", dst=["n2", "n3", "n4"], t=[near, far, -far])["warnings"]) == 1


def test_all_candidates_have_the_limit_of_named_ones(reader, monkeypatch: pytest.MonkeyPatch) -> None:  # H11
    assert reader.post("/v1/rank", json={"src": "n1", "candidates": "all"}).status_code == 200
    monkeypatch.setattr(app, "MAX_CANDIDATES", 10)
    answer = reader.post("/v1/rank", json={"src": "n1", "candidates": "all"})
    assert answer.status_code == 422
    assert "candidates" in answer.json()["detail"]
    assert reader.post("/v1/rank", json={"src": "n1"}).status_code == 200


def test_large_times_come_back_unchanged(client) -> None:
    t = newest(client) + 2**55 + 1
    assert ask(client, "links", **PAIR, t=t)["watermark"] == t
    assert client.get("/v1/nodes/n1").json()["last"] == t
    assert np.isfinite(ask(client, "score", **PAIR)["probability"][0])


# The Open Inference Protocol


def infer(client: AsgiClient, **body: Any) -> Any:
    return client.post(INFER, json={"inputs": [SRC, DST, T]} | body)


def test_metadata(reader) -> None:
    assert reader.get("/v2").json()["name"] == "cawn"
    assert reader.get("/v2/health/live").json()["live"]
    assert reader.get("/v2/health/ready").json() == {"ready": True}
    assert reader.get("/v2/models/run/ready").json() == {"name": "run", "ready": True}
    found = reader.get("/v2/models/run").json()
    assert (found["name"], len(found["versions"])) == ("run", 1)
    assert [each["name"] for each in found["inputs"]] == ["src", "dst", "t"]
    assert found["outputs"] == [{"name": "probability", "datatype": "FP64", "shape": [-1]}]
    for method, path in (("GET", ""), ("GET", "/ready"), ("POST", "/infer")):
        answer = reader.request(method, f"/v2/models/other{path}", json={})
        assert (answer.status_code, "'other'" in answer.json()["error"]) == (404, True)


def test_the_same_scores(reader) -> None:
    scores = ask(reader, "score", src="n1", dst=["n2", "n3"], t=20_000)
    answer = infer(reader, id="7", parameters={"prior": 0.5, "strict": True}, outputs=[{"name": "probability"}]).json()
    assert answer == {
        "model_name": "run",
        "model_version": scores["model"],
        "id": "7",
        "parameters": {"unknown": [], "warnings": []},
        "outputs": [tensor("probability", "FP64", scores["probability"])],
    }
    column, floats = tensor("src", "BYTES", [["n1"], ["n1"]], [2, 1]), tensor("t", "FP64", [20_000, 20_000.0])
    for inputs in ([column, DST, T], [SRC, DST, floats]):
        assert infer(reader, inputs=inputs).json()["outputs"] == answer["outputs"]
    assert infer(reader, inputs=[SRC, tensor("dst", "BYTES", ["n2", "x" * 1_000])]).status_code == 200


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({"inputs": 1}, "inputs is 1: give a list"),
        ({"inputs": [1, 2]}, "inputs[0] is 1: give an object with name"),
        ({"inputs": [SRC]}, "inputs has a length of 1"),
        ({"inputs": [SRC, SRC]}, "inputs: give one tensor each of src, dst, t"),
        ({"inputs": [SRC, T]}, "the body has no dst"),
        ({"inputs": [SRC, {**DST, "name": "x"}]}, "inputs[1].name is 'x': inputs"),
        ({"inputs": [SRC, {**DST, "datatype": "FP32"}]}, "inputs[1].datatype is 'FP32': datatypes"),
        ({"inputs": [SRC, {**DST, "datatype": "FP64"}]}, "dst has the datatype 'FP64': give BYTES or INT64"),
        ({"inputs": [SRC, {**DST, "shape": [3]}]}, "dst has the shape [3] and 2 values"),
        ({"inputs": [SRC, {**DST, "data": "n2"}]}, "inputs[1].data is 'n2': give a list"),
        ({"inputs": [SRC, {**DST, "data": ["n2", 3]}]}, "dst[1] is 3"),
        ({"inputs": [SRC, {**DST, "data": [["n2", "n3"], "n1"]}]}, "dst[0] is ['n2', 'n3']"),
        ({"inputs": [SRC, DST, tensor("t", "FP64", [10**400, 1])]}, "inputs[2].data[0] is"),
        ({"inputs": [SRC, DST, tensor("t", "BYTES", ["x" * 65, "1"])]}, "t[0] has a length of 65"),
        ({"inputs": [SRC, DST, tensor("t", "INT64", [1])]}, "2 src, 2 dst, 1 t"),
        ({"id": 7}, "id is 7"),
        ({"parameters": 7}, "parameters is 7: give an object with prior"),
        ({"parameters": {"prior": 2}}, "parameters.prior is 2"),
        ({"outputs": [{"name": "logit"}]}, "outputs[0].name is 'logit'"),
    ],
)
def test_bad_tensors(reader, body: dict[str, Any], where: str) -> None:
    answer = infer(reader, **body)
    assert answer.status_code == 422
    assert answer.json()["error"].startswith(where)
