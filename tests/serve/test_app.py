"""Requests that reach no handler, or whose handler fails; tokens; the schema."""

import json
from collections.abc import Iterator

import pytest

from asgi_client import AsgiClient
from cawn.serve.app import create_app
from cawn.serve.service import Service, ServiceSettings
from cawn.serve.tokens import Tokens

READ, WRITE = "read-token-1", "write-token-1"
TOKENS = Tokens({READ: "read", WRITE: "write"})
pytestmark = pytest.mark.filterwarnings("ignore:t is ")  # about times far from the data


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
def client(served) -> Iterator[AsgiClient]:
    with AsgiClient(create_app(served())) as client:
        yield client


@pytest.fixture
def guarded(served) -> Iterator[AsgiClient]:
    with AsgiClient(create_app(served(), TOKENS)) as client:
        yield client


def is_problem(response, status: int) -> bool:
    found = response.json()
    assert response.headers["content-type"] == "application/problem+json"
    return response.status_code == found["status"] == status


def test_unknown_addresses_and_methods(client) -> None:
    for path in ("/nothing", "/v1", "/v1/links/", "/v2/models", "/docs", "/page/../app.py", "/%00", "/v1/n%0Ao"):
        assert is_problem(client.get(path), 404), path
    for method, path in (("GET", "/v1/links"), ("DELETE", "/v1/score"), ("POST", "/healthz"), ("PUT", "/v1/nodes/x")):
        answer = client.request(method, path)
        assert is_problem(answer, 405)
        assert "allow" in answer.headers


def test_the_page_is_served(client) -> None:
    answer = client.get("/")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/html")
    assert client.get("/page/style.css").status_code == 200


@pytest.mark.parametrize(
    ("method", "path", "nobody", "read", "write"),
    [
        ("GET", "/healthz", 200, 200, 200),
        ("GET", "/readyz", 200, 200, 200),
        ("GET", "/v2/health/live", 200, 200, 200),
        ("GET", "/v2/health/ready", 200, 200, 200),
        ("GET", "/openapi.json", 200, 200, 200),
        ("GET", "/", 200, 200, 200),
        ("GET", "/page/main.js", 200, 200, 200),
        ("GET", "/metrics", 401, 200, 200),
        ("GET", "/v1/status", 401, 200, 200),
        ("GET", "/v1/nodes/x", 401, 200, 200),
        ("GET", "/v2/models/run", 401, 200, 200),
        ("GET", "/nothing", 401, 404, 404),
        ("POST", "/v1/score", 401, 200, 200),
        ("POST", "/v1/links", 401, 403, 200),
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
        check_not_ready(client)


def check_not_ready(client: AsgiClient) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/v2/health/live").json() == {"live": True}
    assert client.get("/v1/status").json()["ready"] is False
    assert client.get("/metrics").status_code == 200
    for path in ("/readyz", "/v2/health/ready", "/v1/series", "/v1/nodes/x", "/v1/links/recent", "/v2/models/run"):
        answer = client.get(path)
        assert is_problem(answer, 503), path
        assert answer.headers["retry-after"] == "1"
    for path in ("/v1/links", "/v1/score", "/v1/rank", "/v1/explain"):
        assert is_problem(client.post(path, json={}), 503)


def test_requests_are_counted_by_route(client) -> None:
    client.get("/v1/nodes/some name")
    client.get("/nothing")
    client.get("/v2/models/run")
    text = client.get("/metrics").text
    assert 'cawn_requests_total{route="/v1/nodes/{name}",status="200"} 1.0' in text
    assert 'cawn_requests_total{route="other",status="404"} 1.0' in text
    assert 'cawn_requests_total{route="/v2/models/{model}",status="200"} 1.0' in text


def test_the_schema_describes_every_route(client) -> None:
    schema = client.get("/openapi.json").json()
    assert set(schema["paths"]) == {
        *("/v1/links", "/v1/score", "/v1/rank", "/v1/explain", "/v1/nodes", "/v1/nodes/{name}", "/v1/links/recent"),
        *("/v1/status", "/v1/series", "/metrics", "/healthz", "/readyz", "/v2", "/v2/health/live", "/v2/health/ready"),
        *("/v2/models/{model}", "/v2/models/{model}/ready", "/v2/models/{model}/infer"),
    }
    for path, methods in schema["paths"].items():
        for route in methods.values():
            assert route["summary"], path
            assert "422" not in route["responses"] or "problem" in str(route["responses"]["422"]), path


def test_the_examples_of_the_schema_work(client) -> None:
    schema = client.get("/openapi.json").json()
    for path, methods in schema["paths"].items():
        content = methods.get("post", {}).get("requestBody", {}).get("content", {}).get("application/json", {})
        examples = [each["value"] for each in content.get("examples", {}).values()]
        for body in examples + ([content["example"]] if "example" in content else []):
            answer = client.post(path.replace("{model}", "run"), json=body)
            unknown = path == "/v1/explain" and "not in the network" in answer.text
            assert answer.status_code == 200 or unknown, (path, json.dumps(body), answer.text)
