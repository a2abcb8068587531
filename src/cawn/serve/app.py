"""The HTTP application: every request passes `Gate`, which finds the route, checks the token and records metrics.

FastAPI describes the routes (OpenAPI) and dispatches those with parameters. Routes with a fixed path are called
directly: FastAPI's own dispatch takes longer than storing a link.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from cawn import __version__
from cawn.serve import page, schemas
from cawn.serve.api import api_routes
from cawn.serve.inference import inference_routes
from cawn.serve.problems import of_error, of_status
from cawn.serve.routes import Endpoint, header, limit_body
from cawn.serve.service import Service
from cawn.serve.tokens import Role, Tokens, check_host

MAX_BODY = 8 << 20  # bytes
NODES = "/v1/nodes/"  # names may have any characters, even line breaks, which the router's patterns do not match
OTHER = "other"  # the route, in metrics, of requests that match none


def create_app(service: Service, tokens: Tokens | None = None, *, max_body: int = MAX_BODY) -> ASGIApp:
    """The application for an ASGI server; `service` is started and stopped by the caller."""
    endpoints = [*api_routes(service), *inference_routes(service)]
    return Gate(_describe(endpoints), service, endpoints, tokens or Tokens(), max_body)


def _describe(endpoints: Sequence[Endpoint]) -> FastAPI:
    """The routes in FastAPI."""
    app = FastAPI(
        title="cawn",
        version=__version__,
        summary="Scores of links in a temporal network, while links arrive.",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    for endpoint in endpoints:
        app.add_api_route(
            endpoint.path,
            endpoint.respond,
            methods=[endpoint.method],
            name=endpoint.path,
            summary=endpoint.summary,
            response_model=None,
            responses={200: endpoint.answer, **schemas.problems(*endpoint.kinds)},
            openapi_extra=endpoint.extra,
        )

    app.router.routes.extend(page.routes())

    @app.exception_handler(HTTPException)
    async def refuse(request: Request, error: HTTPException) -> Response:
        what = {404: "there is no such address", 405: f"the method {request.method} is not supported here"}
        detail = what.get(error.status_code, error.detail)
        return of_status(error.status_code, detail, dict(error.headers or {})).response()

    found = app.openapi()
    components = found.setdefault("components", {})
    components.setdefault("schemas", {})["Problem"] = schemas.PROBLEM
    components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    return app


class Gate:
    """Handles every request: finds its route, checks its token, turns errors into answers and records metrics."""

    def __init__(
        self, app: FastAPI, service: Service, endpoints: Sequence[Endpoint], tokens: Tokens, max_body: int
    ) -> None:
        self._app, self._metrics, self._tokens, self._max_body = app, service.metrics, tokens, max_body
        self._fixed = {(each.method, each.path): each for each in endpoints if "{" not in each.path}
        self._nodes = next(each for each in endpoints if each.path.startswith(NODES))
        self._open = {"/", "/openapi.json", *(each.path for each in endpoints if each.role is None)}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, method, path = perf_counter(), scope["method"], scope["path"]
        method = "GET" if method == "HEAD" else method
        endpoint = self._fixed.get((method, path))
        if endpoint is None and method == "GET" and path.startswith(NODES):
            endpoint = self._nodes
        request = limit_body(Request(scope, receive), self._max_body)
        watched = _Watched(send)
        try:
            role = self._role(endpoint, path)
            if role is not None and self._tokens:
                self._tokens.check(header(request, b"authorization"), role)
            elif role is not None:
                check_host(header(request, b"host"))
            if endpoint is not None:
                response = await endpoint.respond(request)
                await response(scope, receive, watched)
            else:
                await self._app(scope, receive, watched)
        except ClientDisconnect:
            pass
        except Exception as error:
            if watched.status == 0:
                await of_error(error).response()(scope, receive, watched)
            else:
                of_error(error)  # which logs it
        finally:
            route = endpoint.path if endpoint is not None else getattr(scope.get("route"), "path", OTHER)
            self._metrics.request(route, watched.status or 499, perf_counter() - started)

    def _role(self, endpoint: Endpoint | None, path: str) -> Role | None:
        if endpoint is not None:
            return endpoint.role
        return None if path in self._open or path.startswith("/page/") else "read"


class _Watched:
    """Sends messages, and stores the status."""

    __slots__ = ("_send", "status")

    def __init__(self, send: Send) -> None:
        self._send, self.status = send, 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        await self._send(message)
