"""The table of routes: dispatch, roles, the labels of metrics and the OpenAPI description come from it."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.requests import Request

from cawn import __version__
from cawn.serve.problems import KINDS, MEDIA_TYPE, Failure
from cawn.serve.requests import Body
from cawn.serve.tokens import Role

Schema = dict[str, Any]
JSON = "application/json"


@dataclass(frozen=True)
class Route:
    """A method and an address, and what answers there.

    Args:
        path: It may have parameters, such as {name}; one at its end may have slashes.
        handler: Returns a Response, or the content of one as JSON; its docstring describes the route.
        role: The role that is needed; None if no token is.
        body: The forms of the body; none if there is no body.
        answer: The content of the answer; any object if it is None.
        parameters: Of the query and the headers; see `parameter`.
        problems: Errors beyond those of every route with such a role and body.
        always: Whether it answers while the service is not ready.
    """

    method: str
    path: str
    handler: Callable[[Request], Awaitable[Any]]
    role: Role | None = "read"
    body: tuple[type[Body], ...] = ()
    answer: type[msgspec.Struct] | None = None
    parameters: tuple[Schema, ...] = ()
    problems: tuple[str, ...] = ()
    media_types: tuple[str, ...] = (JSON,)
    always: bool = False


class Routes:
    """Finds the routes of an address."""

    def __init__(self, routes: Sequence[Route]) -> None:
        self._fixed: dict[str, dict[str, Route]] = {}
        self._patterns: dict[str, dict[str, Route]] = {}
        for route in sorted(routes, key=lambda route: len(route.path), reverse=True):
            pattern = re.sub(r"\{(\w+)\}$", r"(?P<\1>(?s:.*))", route.path)
            pattern = re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", pattern)
            table = self._fixed if pattern == route.path else self._patterns
            table.setdefault(pattern, {})[route.method] = route

    def find(self, method: str, path: str, raw_path: str) -> tuple[dict[str, Route], dict[str, str]]:
        """The routes by method, and the parameters in the path, percent-encoded."""
        fixed = self._fixed.get(path, {})
        if method in fixed:
            return fixed, {}
        matches = ((routes, re.fullmatch(pattern, raw_path)) for pattern, routes in self._patterns.items())
        return next(((routes | fixed, match.groupdict()) for routes, match in matches if match), (fixed, {}))


def parameter(name: str, place: str = "query", *, required: bool = True, **schema: Any) -> Schema:
    """The description of a parameter of a route."""
    return {"name": name, "in": place, "required": required, "schema": {"type": "string"} | schema}


def openapi(routes: Sequence[Route]) -> Schema:
    """The OpenAPI description of routes."""
    paths: Schema = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    structs = {each for route in routes for each in (*route.body, route.answer, Failure) if each is not None}
    ordered = sorted(structs, key=lambda each: each.__name__)
    schemas = msgspec.json.schema_components(ordered, ref_template="#/components/schemas/{name}")[1]
    return {
        "openapi": "3.1.0",
        "info": {"title": "cawn", "version": __version__, "summary": "Scores of links in a temporal network."},
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}},
    }


def _operation(route: Route) -> Schema:
    in_path = [parameter(name, "path") for name in re.findall(r"\{(\w+)\}", route.path)]
    found: Schema = {
        "summary": " ".join((route.handler.__doc__ or "").split()),
        "security": [] if route.role is None else [{"token": []}],
        "parameters": [*in_path, *route.parameters],
        "responses": _responses(route),
    }
    if route.body:
        examples = {form.__name__: {"value": form.example} for form in route.body}
        content = {"schema": {"anyOf": [_schema(form) for form in route.body]}, "examples": examples}
        found["requestBody"] = {"required": True, "content": {JSON: content}}
    return found


def _responses(route: Route) -> Schema:
    kinds = {*route.problems}
    if route.role is not None:
        kinds |= {"unauthenticated", "forbidden", "overloaded", "unavailable"}
    if route.body:
        kinds |= {"malformed", "timeout", "too-large", "media-type", "invalid"}
    good = {
        kind: {"schema": _schema(route.answer) if kind == JSON else {"type": "string"}} for kind in route.media_types
    }
    bad = {MEDIA_TYPE: {"schema": _schema(Failure)}}
    problems = {str(KINDS[kind][0]): {"description": KINDS[kind][1], "content": bad} for kind in sorted(kinds)}
    return {"200": {"description": "The answer.", "content": good}} | problems


def _schema(struct: type[msgspec.Struct] | None) -> Schema:
    return {"type": "object"} if struct is None else {"$ref": f"#/components/schemas/{struct.__name__}"}
