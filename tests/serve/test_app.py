"""Requests that reach no handler, or whose handler fails; tokens; the description of the routes."""

import logging
from collections.abc import Iterator

import pytest

import cawn
from asgi_client import AsgiClient
from cawn.errors import DeviceError, StorageError
from cawn.serve.app import create_app
from cawn.serve.connections import EXCESS
from cawn.serve.problems import KINDS, Problem, of_error
from cawn.serve.service import Service, ServiceSettings
from cawn.serve.tokens import Tokens
from cawn.serve.writer import LateLinks, QueueFull

READ, WRITE = "read-token-1", "write-token-1"
TOKENS = Tokens({READ: "read", WRITE: "write"})
pytestmark = pytest.mark.filterwarnings("ignore:t is ")  # about times far from the data


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
def client(served) -> Iterator[AsgiClient]:
    with AsgiClient(create_app(served(max_ahead=2.0**62))) as client:
        yield client


@pytest.fixture(scope="module")
def guarded(shared_service) -> Iterator[AsgiClient]:
    with AsgiClient(create_app(shared_service, TOKENS)) as client:
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
    for path in ("/healthz", "/v1/nodes/n1"):
        assert client.request("HEAD", path).status_code == 200


FREE = ("/healthz", "/readyz", "/v2/health/live", "/v2/health/ready", "/openapi.json", "/", "/page/main.js")
READABLE = ("/metrics", "/ready", "/v1/status", "/v1/nodes/x", "/v2/models/run")


@pytest.mark.parametrize(
    ("method", "path", "nobody", "read", "write"),
    [
        *(("GET", path, 200, 200, 200) for path in FREE),
        *(("GET", path, 401, 200, 200) for path in READABLE),
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
        assert answer.headers.get("www-authenticate", "").startswith("Bearer") == (status == 401)


def test_names_of_the_server(client, guarded) -> None:
    elsewhere = {"Host": "evil.example"}
    assert is_problem(client.get("/v1/status", headers=elsewhere), 403)
    assert is_problem(client.post("/v1/links", json={}, headers=elsewhere), 403)
    assert client.get("/healthz", headers=elsewhere).status_code == 200
    assert guarded.get("/v1/status", headers=bearer(READ) | elsewhere).status_code == 200


def test_a_connection_too_many_gets_health_only(shared_service) -> None:  # H6
    app = create_app(shared_service)

    async def crowded(scope, receive, send) -> None:
        await app(scope | {EXCESS: Problem("overloaded", "too many")}, receive, send)

    with AsgiClient(crowded) as client:
        assert client.get("/healthz").status_code == client.get("/readyz").status_code == 200
        answer = client.get("/v1/status")
        assert is_problem(answer, 429)
        assert answer.headers["retry-after"] == "1"


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


def test_errors_of_the_client() -> None:
    assert len({status for status, _ in KINDS.values()}) == len(KINDS)
    for error, status in (
        (QueueFull("full"), 429),
        (LateLinks("late"), 409),
        (cawn.DataError("bad"), 422),
        (cawn.QueryError("bad"), 422),
        (Problem("not-found", "two\nlines"), 404),
    ):
        problem = of_error(error)
        assert problem.status == problem.response().status_code == status
        assert problem.detail == " ".join(str(error).split())
        assert ("Retry-After" in problem.headers) == (status == 429)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (StorageError("/secret/path: disk full"), 503),
        (DeviceError("/secret/path"), 503),
        (ZeroDivisionError("/secret/path"), 500),
        (OSError(2, "no such file", "/secret/path"), 500),
    ],
)
def test_errors_of_the_server_are_logged_and_not_shown(error: Exception, status: int, caplog) -> None:
    with caplog.at_level(logging.ERROR):
        problem = of_error(error)
    assert problem.status == status
    assert b"secret" not in problem.response().body
    assert b"acknowledged" not in problem.response().body  # H12: what was stored is not known
    assert problem.detail.split()[-1] in caplog.text
    assert "secret" in caplog.text
    assert ("\n" in caplog.text.strip()) == (status == 500)  # a full disk must not fill the log with tracebacks


def test_running_out_of_memory_is_not_the_fault_of_the_client() -> None:
    error = cawn.QueryError("out of memory while answering; lower batch_size")
    error.__cause__ = MemoryError()
    assert of_error(error).status == 503


def test_not_ready(trained) -> None:
    with AsgiClient(create_app(Service(ServiceSettings(trained)))) as client:
        for path in ("/healthz", "/v2/health/live"):
            assert client.get(path).json() == {"status": "ok", "live": True}
        assert client.get("/v1/status").json()["ready"] is False
        assert client.get("/metrics").status_code == 200
        refused = [("GET", path) for path in ("/ready", "/readyz", "/v2/health/ready", "/v2/models/run", "/v1/series")]
        refused += [(method, path) for method in ("GET", "DELETE") for path in ("/v1/nodes/x", "/v1/nodes")]
        refused += [("POST", f"/v1/{path}") for path in ("links", "score", "rank", "explain")]
        for method, path in [*refused, ("GET", "/v1/links/recent"), ("POST", "/v2/models/run/infer")]:
            answer = client.request(method, path)
            assert is_problem(answer, 503), path
            assert answer.headers["retry-after"] == "1"


def test_requests_are_counted_by_route(client) -> None:
    for path in ("/v1/nodes/some name", "/nothing", "/v2/models/run"):
        client.get(path)
    text = client.get("/metrics").text
    for route, status in (("/v1/nodes/{name}", 200), ("other", 404), ("/v2/models/{model}", 200)):
        assert f'cawn_requests_total{{route="{route}",status="{status}"}} 1.0' in text


def test_every_route_is_described(client) -> None:
    paths = client.get("/openapi.json").json()["paths"]
    described = sorted(f"{method.upper()} {path}" for path, methods in paths.items() for method in methods)
    assert described == [
        *(f"DELETE /v1/{name}" for name in ("links", "links/{id}", "nodes", "nodes/{name}")),
        *(f"GET /{name}" for name in ("healthz", "metrics", "ready", "readyz")),
        *(f"GET /v1/{name}" for name in ("links/recent", "nodes", "nodes/{name}", "series", "status")),
        *(f"GET /v2{name}" for name in ("", "/health/live", "/health/ready", "/models/{model}")),
        "GET /v2/models/{model}/ready",
        *(f"POST /v1/{name}" for name in ("explain", "links", "rank", "score")),
        "POST /v2/models/{model}/infer",
    ]
    assert all(route["summary"] for methods in paths.values() for route in methods.values())
    posts = [(path, methods["post"]["requestBody"]) for path, methods in paths.items() if "post" in methods]
    examples = [(path, body["content"]["application/json"]["examples"].values()) for path, body in posts]
    assert sum(len(each) for _, each in examples) == 8
    for path, body in ((path, example["value"]) for path, each in examples for example in each):
        answer = client.post(path.replace("{model}", "run"), json=body)
        unknown = path == "/v1/explain" and "not in the network" in answer.text
        assert answer.status_code == 200 or unknown, (path, body, answer.text)
