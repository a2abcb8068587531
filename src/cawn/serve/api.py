"""The routes under /v1, for health, and for metrics."""

from __future__ import annotations

import asyncio
from urllib.parse import parse_qsl, unquote_to_bytes

from starlette.requests import Request
from starlette.responses import Response

from cawn.errors import brief
from cawn.serve import metrics, schemas
from cawn.serve.problems import Problem
from cawn.serve.requests import check_name, parse_explain, parse_links, parse_pairs, parse_rank
from cawn.serve.routes import Endpoint, header, json_response, read_json
from cawn.serve.service import NEWEST, Service
from cawn.serve.writer import MAX_KEY

_PAGE_POLICY = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox"}
_KEY_PARAMETER = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "With a key that was used before, nothing is added and the first answer is repeated.",
    "schema": {"type": "string", "minLength": 1, "maxLength": MAX_KEY},
}
_NAME_PARAMETER = {"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}

_LIMIT_PARAMETER = {
    "name": "limit",
    "in": "query",
    "schema": {"type": "integer", "minimum": 1, "maximum": NEWEST, "default": 20},
}


def api_routes(service: Service) -> list[Endpoint]:
    """The routes of a service."""
    api = _Api(service)
    text = {"type": "string"}
    page = {"text/html": {"schema": text}}
    explanation = schemas.answer("The explanation.", schemas.EXPLANATION)
    explanation["content"] |= page
    busy = ("overloaded", "unavailable")
    health = schemas.answer("As it is now.", {"type": "object"})
    return [
        Endpoint(
            "POST",
            "/v1/links",
            api.links,
            "Add links. The response is sent once they are on disk and visible to the next request.",
            schemas.answer("What was added.", schemas.RECEIPT, "receipt"),
            "write",
            schemas.body(schemas.LINKS, "links", "columns", "one"),
            ("late", *busy),
            [_KEY_PARAMETER],
        ),
        Endpoint(
            "POST",
            "/v1/score",
            api.score,
            "The probability that pairs link, at a time or, without t, just after the newest link.",
            schemas.answer("One probability for each pair.", schemas.SCORES, "scores"),
            body=schemas.body(schemas.PAIRS, "pairs", "now"),
            problems=busy,
        ),
        Endpoint(
            "POST",
            "/v1/rank",
            api.rank,
            "The most probable destinations of a node.",
            schemas.answer("Best first.", schemas.RANKING, "ranking"),
            body=schemas.body(schemas.RANK, "rank"),
            problems=busy,
        ),
        Endpoint(
            "POST",
            "/v1/explain",
            api.explain,
            "Why a pair has its score: the walks that raise or lower it. As a page with 'Accept: text/html'.",
            explanation,
            body=schemas.body(schemas.EXPLAIN, "explain"),
            problems=busy,
        ),
        Endpoint(
            "GET",
            "/v1/nodes/{name}",
            api.node,
            "A node and its newest links. The name is percent-encoded; it may have slashes.",
            schemas.answer("The node; also one that is not known.", schemas.NODE, "node"),
            problems=("invalid", *busy),
            parameters=[_NAME_PARAMETER],
        ),
        Endpoint(
            "GET",
            "/v1/nodes",
            api.node_by_query,
            "The same, with the name in the query, where it may also be . or .. or empty.",
            schemas.answer("The node; also one that is not known.", schemas.NODE, "node"),
            problems=("invalid", *busy),
            parameters=[_NAME_PARAMETER | {"in": "query"}],
        ),
        Endpoint(
            "GET",
            "/v1/links/recent",
            api.newest,
            "The links that arrived last, each with the score it had before it arrived.",
            schemas.answer("Newest first.", schemas.NEWEST),
            problems=("invalid", *busy),
            parameters=[_LIMIT_PARAMETER],
        ),
        Endpoint(
            "GET",
            "/v1/status",
            api.status,
            "The state of the service; latencies in seconds.",
            schemas.answer("As it is now.", schemas.STATUS),
        ),
        Endpoint(
            "GET",
            "/v1/series",
            api.series,
            "Accuracy on arriving links over time.",
            schemas.answer("Time series.", schemas.SERIES),
            problems=("unavailable",),
        ),
        Endpoint(
            "GET",
            "/metrics",
            api.metrics,
            "Metrics in Prometheus' format.",
            schemas.answer("Metrics.", text, media_type="text/plain"),
        ),
        Endpoint("GET", "/healthz", api.health, "Whether the process runs.", health, None),
        Endpoint(
            "GET", "/readyz", api.ready, "Whether requests are answered.", health, None, problems=("unavailable",)
        ),
    ]


class _Api:
    def __init__(self, service: Service) -> None:
        self._service = service

    async def links(self, request: Request) -> Response:
        self._service.require_ready()
        key = _idempotency_key(request)
        links = parse_links(await read_json(request))
        receipt = await asyncio.wrap_future(self._service.add(links, key))
        return json_response(receipt._asdict() | {"watermark": self._service.predictor.watermark})

    async def score(self, request: Request) -> Response:
        self._service.require_ready()
        pairs = parse_pairs(await read_json(request))
        scored = await asyncio.wrap_future(self._service.score(pairs))
        found = {"probability": scored.probability.tolist(), "version": scored.version}
        return json_response(found | {"model": self._service.model_version})

    async def rank(self, request: Request) -> Response:
        self._service.require_ready()
        query = parse_rank(await read_json(request))
        found = await asyncio.wrap_future(self._service.rank(query))
        ranking = [ranked._asdict() for ranked in found.ranking]
        return json_response({"src": query.src, "t": found.t, "ranking": ranking, "version": found.version})

    async def explain(self, request: Request) -> Response:
        self._service.require_ready()
        query = parse_explain(await read_json(request))
        as_page = b"text/html" in (header(request, b"accept") or b"")
        found = await asyncio.wrap_future(self._service.explain(query, as_page=as_page))
        if isinstance(found, str):
            return Response(found, 200, _PAGE_POLICY, "text/html")
        return json_response(found)

    async def node(self, request: Request) -> Response:
        name = _name_in_path(request)
        check_name(name)
        return json_response(await asyncio.wrap_future(self._service.node(name)))

    async def node_by_query(self, request: Request) -> Response:
        names = _query(request, "name")
        if len(names) != 1:
            raise Problem("invalid", f"the query has {len(names)} names: ask for /v1/nodes?name=NAME")
        check_name(name := names[0])
        return json_response(await asyncio.wrap_future(self._service.node(name)))

    async def newest(self, request: Request) -> Response:
        limit = (_query(request, "limit") or ["20"])[0]
        if not limit.isascii() or not limit.isdigit() or not 1 <= int(limit[:9]) <= NEWEST:
            raise Problem("invalid", f"limit is {brief(limit)}: give an integer from 1 to {NEWEST}")
        return json_response({"links": await asyncio.wrap_future(self._service.newest(int(limit)))})

    async def status(self, _request: Request) -> Response:
        return json_response(self._service.status())

    async def series(self, _request: Request) -> Response:
        self._service.require_ready()
        return json_response(self._service.series())

    async def metrics(self, _request: Request) -> Response:
        return Response(self._service.metrics.to_text(), headers={"Content-Type": metrics.MEDIA_TYPE})

    async def health(self, _request: Request) -> Response:
        return json_response({"status": "ok"})

    async def ready(self, _request: Request) -> Response:
        self._service.require_ready()
        return json_response({"ready": True})


def _idempotency_key(request: Request) -> str | None:
    given = header(request, b"idempotency-key")
    if given is None:
        return None
    key = given.decode("latin-1").strip()
    if not 1 <= len(key) <= MAX_KEY or not key.isascii() or not key.isprintable():
        raise Problem("invalid", f"Idempotency-Key: give 1 to {MAX_KEY} visible ASCII characters")
    return key


def _name_in_path(request: Request) -> str:
    """The name after /v1/nodes/, from the raw path; in the decoded one, bytes that are not UTF-8 are replaced."""
    parts: list[bytes] = (request.scope.get("raw_path") or b"").partition(b"?")[0].split(b"/", 3)
    if len(parts) == 4:
        return _text(unquote_to_bytes(parts[3]))
    return str(request.scope["path"]).removeprefix("/v1/nodes/")


def _query(request: Request, name: str) -> list[str]:
    """The values of a parameter of the query."""
    given = request.scope.get("query_string", b"").decode("latin-1")
    values = parse_qsl(given, keep_blank_values=True, encoding="latin-1", max_num_fields=100)
    return [_text(value.encode("latin-1")) for key, value in values if key == name]


def _text(encoded: bytes) -> str:
    try:
        return encoded.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise Problem("invalid", "the address is not UTF-8; percent-encode the UTF-8 bytes of names") from None
