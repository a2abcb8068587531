"""Requests that reach no handler, or whose handler fails; tokens; the description of the routes."""

import json
from collections.abc import Iterator

import pytest

from asgi_client import AsgiClient
from cawn.serve.app import create_app
from cawn.serve.connections import EXCESS
from cawn.serve.problems import Problem
from cawn.serve.service import Service, ServiceSettings
from cawn.serve.tokens import Tokens

READ, WRITE = "read-token-1", "write-token-1"
TOKENS = Tokens({READ: "read", WRITE: "write"})
pytestmark = pytest.mark.filterwarnings("ignore:t is ")  # about times far from the data


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
def client(served) -> Iterator[AsgiClient]:
    with AsgiClient(create_app(served(max_ahead=2.0**62))) as client:
        yield client


@pytest.fixture
def guarded(served) -> Iterator[AsgiClient]:
    with AsgiClient(create_app(served(max_ahead=2.0**62), TOKENS)) as client:
        yield client


def is_problem(response, status: int) -> bool:
    found = response.json()
    assert response.headers["content-type"] == "application/problem+json"
    return response.status_code == found["status"] == status


def test_unknown_addresses_and_methods(client) -> None:
    assert client.get("/page/style.css").status_code == 200
    for path in ("/nothing", "/v1", "/v2/models", "/docs", "/page/../app.py", "/%00", "/v1/n%0Ao", "/openapi-json"):
        assert is_problem(client.get(path), 404), path
    for method, path, allowed in (
        ("PUT", "/v1/links", "DELETE, POST"),
        ("DELETE", "/v1/score", "POST"),
        ("POST", "/healthz", "GET"),
        ("PUT", "/v1/nodes/x", "DELETE, GET"),
        ("POST", "/v1/links/recent", "DELETE, GET"),
    ):
        answer = client.request(method, path)
        assert is_problem(answer, 405)
        assert answer.headers["allow"] == allowed


@pytest.mark.parametrize(
    ("method", "path", "nobody", "read", "write"),
    [
        *(("GET", path, 200, 200, 200) for path in ("/healthz", "/readyz", "/v2/health/live", "/v2/health/ready")),
        *(("GET", path, 200, 200, 200) for path in ("/openapi.json", "/", "/page/main.js")),
        *(
            ("GET", path, 401, 200, 200)
            for path in ("/metrics", "/ready", "/v1/status", "/v1/nodes/x", "/v2/models/run")
        ),
        ("GET", "/nothing", 401, 404, 404),
        ("POST", "/v1/score", 401, 200, 200),
        ("POST", "/v1/links", 401, 403, 200),
        ("DELETE", "/v1/links", 401, 403, 422),
        ("DELETE", "/v1/nodes", 401, 403, 422),
    ],
)
def test_roles(guarded, method: str, path: str, nobody: int, read: int, write: int) -> None:
    body = {"json": {"src": "n1", "dst": "n2", "t": 10**6}} if method == "POST" else {}
    for token, status in (("", nobody), ("other-token", nobody), (READ, read), (WRITE, write)):
        answer = guarded.request(method, path, headers=bearer(token), **body)
        assert answer.status_code == status
        if status == 401:
            assert answer.headers["www-authenticate"].startswith("Bearer")


def test_without_tokens_only_names_of_this_machine_are_accepted(client) -> None:
    elsewhere = {"Host": "evil.example"}
    assert is_problem(client.get("/v1/status", headers=elsewhere), 403)
    assert is_problem(client.post("/v1/links", json={}, headers=elsewhere), 403)
    assert client.get("/healthz", headers=elsewhere).status_code == 200


def test_with_tokens_a_server_may_have_any_name(guarded) -> None:
    assert guarded.get("/v1/status", headers=bearer(READ) | {"Host": "some.example"}).status_code == 200


def test_a_connection_too_many_gets_health_only(served) -> None:  # H6
    app = create_app(served(max_ahead=2.0**62))

    async def crowded(scope, receive, send) -> None:
        await app(scope | {EXCESS: Problem("overloaded", "too many")}, receive, send)

    with AsgiClient(crowded) as client:
        assert client.get("/healthz").status_code == client.get("/readyz").status_code == 200
        answer = client.get("/v1/status")
        assert is_problem(answer, 429)
        assert answer.headers["retry-after"] == "1"


def test_head_is_answered_like_get(client) -> None:
    assert client.request("HEAD", "/healthz").status_code == 200
    assert client.request("HEAD", "/v1/nodes/n1").status_code == 200


def test_a_bug_shows_nothing_of_the_server(client, monkeypatch: pytest.MonkeyPatch, caplog) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("/secret/path")

    for name in ("status", "require_ready"):
        monkeypatch.setattr(Service, name, fail)
    for path in ("/v1/status", "/readyz", "/v2/models/run"):
        answer = client.get(path)
        assert is_problem(answer, 500)
        assert "secret" not in answer.text
        assert answer.json()["detail"].split()[-1] in caplog.text
    assert "ZeroDivisionError" in caplog.text


def test_not_ready(trained) -> None:
    with AsgiClient(create_app(Service(ServiceSettings(trained)))) as client:
        for path in ("/healthz", "/v2/health/live"):
            assert client.get(path).json() == {"status": "ok", "live": True}
        assert client.get("/v1/status").json()["ready"] is False
        assert client.get("/metrics").status_code == 200
        for path in ("/ready", "/readyz", "/v2/health/ready", "/v1/series", "/v1/nodes/x", "/v1/links/recent"):
            assert is_problem(client.get(path), 503), path
        for path in ("/v1/links", "/v1/score", "/v1/rank", "/v1/explain", "/v2/models/run/infer"):
            answer = client.post(path, json={})
            assert is_problem(answer, 503), path
            assert answer.headers["retry-after"] == "1"
        assert is_problem(client.request("DELETE", "/v1/nodes/x"), 503)


def test_requests_are_counted_by_route(client) -> None:
    client.get("/v1/nodes/some name")
    client.get("/nothing")
    client.get("/v2/models/run")
    text = client.get("/metrics").text
    assert 'cawn_requests_total{route="/v1/nodes/{name}",status="200"} 1.0' in text
    assert 'cawn_requests_total{route="other",status="404"} 1.0' in text
    assert 'cawn_requests_total{route="/v2/models/{model}",status="200"} 1.0' in text


def test_every_route_is_described(client) -> None:
    schema = client.get("/openapi.json").json()
    assert {(method.upper(), path) for path, methods in schema["paths"].items() for method in methods} == {
        *(("POST", f"/v1/{name}") for name in ("links", "score", "rank", "explain")),
        *(("GET", f"/v1/{name}") for name in ("nodes", "nodes/{name}", "links/recent", "status", "series")),
        *(("DELETE", f"/v1/{name}") for name in ("nodes", "nodes/{name}", "links", "links/{id}")),
        *(
            ("GET", path)
            for path in ("/metrics", "/healthz", "/ready", "/readyz", "/v2/health/live", "/v2/health/ready")
        ),
        *(("GET", path) for path in ("/v2", "/v2/models/{model}", "/v2/models/{model}/ready")),
        ("POST", "/v2/models/{model}/infer"),
    }
    assert all(route["summary"] for methods in schema["paths"].values() for route in methods.values())


def test_the_examples_of_the_schema_work(client) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    posts = {path: methods["post"]["requestBody"]["content"] for path, methods in paths.items() if "post" in methods}
    bodies = [
        (path, each["value"])
        for path, kinds in posts.items()
        for each in kinds["application/json"]["examples"].values()
    ]
    assert len(bodies) == 8
    for path, body in bodies:
        answer = client.post(path.replace("{model}", "run"), json=body)
        unknown = path == "/v1/explain" and "not in the network" in answer.text
        assert answer.status_code == 200 or unknown, (path, json.dumps(body), answer.text)
