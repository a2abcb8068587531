"""Bodies that arrive in parts, are too large, or never end."""

import asyncio
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from cawn.serve.problems import Problem
from cawn.serve.routes import Endpoint, json_response, limit_body, read_json

TYPE = (b"content-type", b"application/json")


class Messages:
    """What a server receives, one message after another; then nothing, forever."""

    def __init__(self, *messages: dict[str, Any]) -> None:
        self.left = list(messages)

    async def __call__(self) -> dict[str, Any]:
        if not self.left:
            await asyncio.Event().wait()
        return self.left.pop(0)


def part(body: bytes, more: bool = True) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


def read(receive: Messages, *headers: tuple[bytes, bytes], most: int = 10) -> Any:
    scope = {"type": "http", "headers": [TYPE, *headers], "method": "POST", "path": "/"}
    return asyncio.run(read_json(limit_body(Request(scope, receive), most)))


def test_parts_are_joined() -> None:
    assert read(Messages(part(b"[1, 2, 3]", more=False))) == [1, 2, 3]
    assert read(Messages(part(b"[1, "), part(b""), part(b"2, 3]", more=False))) == [1, 2, 3]


def test_a_body_that_is_too_large_is_refused_before_it_has_arrived() -> None:
    endless = Messages(*[part(b"12345")] * 5)
    with pytest.raises(Problem, match="more than 10 bytes") as caught:
        read(endless)
    assert caught.value.status == 413
    assert len(endless.left) == 2  # it was not read on


def test_a_length_that_is_too_large_is_refused_at_once() -> None:
    for length in (b"11", b"9" * 100):
        untouched = Messages(part(b"[]", more=False))
        with pytest.raises(Problem) as caught:
            read(untouched, (b"content-length", length))
        assert caught.value.status == 413
        assert len(untouched.left) == 1
    assert read(Messages(part(b"[]", more=False)), (b"content-length", b"2")) == []
    assert read(Messages(part(b"[]", more=False)), (b"content-length", b"-x")) == []


def test_a_single_part_that_is_too_large() -> None:
    with pytest.raises(Problem) as caught:
        read(Messages(part(b"[1, 2, 3, 4]", more=False)))
    assert caught.value.status == 413


def test_a_client_that_goes_away() -> None:
    with pytest.raises(ClientDisconnect):
        read(Messages(part(b"[1"), {"type": "http.disconnect"}))
    with pytest.raises(ClientDisconnect):
        read(Messages({"type": "http.disconnect"}))


def test_a_body_that_never_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cawn.serve.routes.BODY_SECONDS", 0.01)
    with pytest.raises(Problem) as caught:
        read(Messages(part(b"[1")))
    assert caught.value.status == 408


def test_every_error_is_answered_but_a_disconnect(caplog) -> None:
    async def fail(request: Request) -> Response:
        raise error

    endpoint = Endpoint("GET", "/", fail, "", {})
    request = Request({"type": "http", "headers": []})
    error: Exception = KeyError("x")
    assert asyncio.run(endpoint.respond(request)).status_code == 500
    error = Problem("late", "x")
    assert asyncio.run(endpoint.respond(request)).status_code == 409
    error = ClientDisconnect()
    with pytest.raises(ClientDisconnect):
        asyncio.run(endpoint.respond(request))


def test_answers_are_compact_and_exact() -> None:
    assert json_response({"a": [1, 0.1], "b": "ü\ud800"}).body == b'{"a":[1,0.1],"b":"\\u00fc\\ud800"}'
    with pytest.raises(ValueError, match="JSON compliant"):
        json_response(float("nan"))


@pytest.mark.parametrize(
    ("role", "body", "kinds"),
    [
        (None, None, []),
        ("read", None, ["forbidden", "unauthenticated"]),
        ("write", {}, ["forbidden", "invalid", "malformed", "media-type", "timeout", "too-large", "unauthenticated"]),
    ],
)
def test_the_errors_of_a_route(role, body, kinds: list[str]) -> None:
    async def handler(request: Request) -> Response:
        return Response()

    endpoint = Endpoint("GET", "/", handler, "", {}, role, body)
    assert endpoint.kinds == kinds
    assert endpoint.extra["security"] == ([] if role is None else [{"token": []}])
    assert ("requestBody" in endpoint.extra) == (body is not None)
