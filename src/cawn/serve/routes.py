"""Common parts of the routes: their description, reading of bodies within limits, JSON answers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from cawn.serve.problems import Problem, of_error
from cawn.serve.requests import parse_json
from cawn.serve.tokens import Role

Handler = Callable[[Request], Awaitable[Response]]

BODY_SECONDS = 30.0  # for a body to arrive
_MAX_BODY = "cawn.max_body"  # in the scope of a request
_encode = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


@dataclass(frozen=True)
class Endpoint:
    """A route, and how OpenAPI describes it.

    Args:
        path: A path, or one that ends with a parameter, such as /v1/nodes/{name}.
        role: The role that is needed; None if no token is.
        body: The description of the body; None if there is none.
        problems: Errors it may answer with, beyond those of every route with such a role and body.
    """

    method: str
    path: str
    handler: Handler
    summary: str
    answer: dict[str, Any]
    role: Role | None = "read"
    body: dict[str, Any] | None = None
    problems: tuple[str, ...] = ()
    parameters: list[dict[str, Any]] = field(default_factory=list)

    async def respond(self, request: Request) -> Response:
        """The answer to a request; errors become problems."""
        try:
            return await self.handler(request)
        except ClientDisconnect:
            raise
        except Exception as error:
            return of_error(error).response()

    @property
    def kinds(self) -> list[str]:
        """All errors it may answer with."""
        found = {*self.problems}
        if self.role is not None:
            found |= {"unauthenticated", "forbidden"}
        if self.body is not None:
            found |= {"malformed", "timeout", "too-large", "media-type", "invalid"}
        return sorted(found)

    @property
    def extra(self) -> dict[str, Any]:
        """Its description in OpenAPI, apart from its answers."""
        found: dict[str, Any] = {"security": [] if self.role is None else [{"token": []}]}
        if self.body is not None:
            found["requestBody"] = self.body
        if self.parameters:
            found["parameters"] = self.parameters
        return found


def header(request: Request, name: bytes) -> bytes | None:
    for key, value in request.scope["headers"]:
        if key == name:
            found: bytes = value
            return found
    return None


def limit_body(request: Request, most: int) -> Request:
    """Set the size in bytes that `read_json` accepts."""
    request.scope[_MAX_BODY] = most
    return request


async def read_json(request: Request) -> Any:
    """The JSON value of the body; its type, size and syntax are checked (408, 413, 415, 400)."""
    kind = (header(request, b"content-type") or b"").partition(b";")[0].strip().lower()
    if kind != b"application/json":
        raise Problem("media-type", "send the body as JSON, with the header 'Content-Type: application/json'")
    if (header(request, b"content-encoding") or b"identity").lower() != b"identity":
        raise Problem("media-type", "send the body without compression")
    most = request.scope[_MAX_BODY]
    length = header(request, b"content-length")
    if length is not None and length.isdigit() and int(length[:20]) > most:
        raise _too_large(most)
    try:
        async with asyncio.timeout(BODY_SECONDS):
            body = await _read(request, most)
    except TimeoutError:
        raise Problem("timeout", f"the body did not arrive within {BODY_SECONDS:.0f} seconds") from None
    return parse_json(body)


async def _read(request: Request, most: int) -> bytes:
    message = await request.receive()
    body: bytes = message.get("body", b"")
    if message["type"] == "http.request" and not message.get("more_body") and len(body) <= most:
        return body
    parts, size = [], 0
    while message["type"] == "http.request":
        parts.append(message.get("body", b""))
        size += len(parts[-1])
        if size > most:
            raise _too_large(most)
        if not message.get("more_body"):
            return b"".join(parts)
        message = await request.receive()
    raise ClientDisconnect


def _too_large(most: int) -> Problem:
    return Problem("too-large", f"the body has more than {most:,} bytes; send it in parts", {"Connection": "close"})


def json_response(content: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(_encode(content), status, headers, "application/json")
