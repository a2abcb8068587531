"""The HTTP application: the table of routes, what they answer, and `App`, through which every request passes."""

from __future__ import annotations

import json
from concurrent.futures import Future
from functools import cached_property, partial
from time import perf_counter
from types import GenericAlias
from typing import Annotated, Any
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec
from msgspec import Meta, Struct
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from cawn.data.times import describe_far
from cawn.errors import brief
from cawn.serve import metrics, page
from cawn.serve.batching import Scored
from cawn.serve.bodies import MAX_BODY, Bodies, in_thread
from cawn.serve.connections import EXCESS
from cawn.serve.inference import Inference
from cawn.serve.problems import Problem, of_error
from cawn.serve.requests import (
    LINKS,
    MAX_CANDIDATES,
    MAX_NAME,
    PAIRS,
    ExplainQuery,
    Name,
    Pairs,
    RankQuery,
    Time,
)
from cawn.serve.results import PendingResults
from cawn.serve.routes import JSON, Route, Routes, openapi, parameter
from cawn.serve.service import NEWEST, Service
from cawn.serve.tokens import Tokens, check_host
from cawn.serve.writer import MAX_KEY
from cawn.snapshot import Snapshot

OTHER = "other"  # the route, in metrics, of requests that match none
_PAGE_POLICY = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox"}


def _answer(title: str, **fields: Any) -> type[Struct]:
    """The type of an answer, for its description; handlers return it as a dict."""
    return msgspec.defstruct(title, list(fields.items()))


Probability = Annotated[float, Meta(ge=0, le=1)]
Version = Annotated[int, Meta(description="of the history; it increases with every change")]
Past = int | float | None
Doubts = dict[str, list[Any]]
DOUBTS = {
    "unknown": Annotated[list[Name], Meta(description="names in the request that the network does not know")],
    "warnings": Annotated[list[str], Meta(description="doubts about the times in the request")],
}
ADDED = _answer("Added", added=int, duplicates=int, nodes_added=int, version=Version, watermark=Past)
SCORES = _answer("Scores", probability=list[Probability], version=Version, model=str, **DOUBTS)
RANKED = _answer("RankedName", name=Name, probability=Probability, found=str)
RANKING = _answer("Ranking", src=Name, t=Time, ranking=GenericAlias(list, RANKED), version=Version, **DOUBTS)
SHOWN = Annotated[dict[str, Any], Meta(description="what pages show of the explanation")]
EXPLANATION = _answer(
    "Explanation", src=Name, dst=Name, t=Time, probability=Probability, walks=list[Any], view=SHOWN, **DOUBTS
)
LINK = _answer("PastLink", src=Name, dst=Name, t=Past)
NODE = _answer("Node", name=Name, known=bool, links=int, first=Past, last=Past, recent=GenericAlias(list, LINK))
NEWEST_LINK = _answer("ScoredLink", src=Name, dst=Name, t=Time, probability=Probability)
NEWEST_LINKS = _answer("Newest", links=GenericAlias(list, NEWEST_LINK))
REMOVED = _answer("Removed", removed=int, version=Version)
FEW_NAMES = 100  # which are looked up at once
COUNTS = dict.fromkeys(("links", "nodes", "version", "watermark"), Past)  # null until the service is ready
STATUS = _answer("Status", ready=bool, **COUNTS, model=dict[str, Any], queue=dict[str, Any])
PROGRESS = _answer("Progress", ready=bool, sources=list[dict[str, Any]])


def create_app(service: Service, tokens: Tokens | None = None, *, max_body: int = MAX_BODY) -> App:
    """The application for an ASGI server; `service` is started and stopped by the caller."""
    return App(service, tokens or Tokens(), max_body)


class Api:
    """What the routes answer."""

    def __init__(self, service: Service, max_body: int) -> None:
        self.service, self._bodies, self.result = service, Bodies(max_body), PendingResults()

    def routes(self) -> list[Route]:
        key = parameter("Idempotency-Key", "header", required=False, minLength=1, maxLength=MAX_KEY)
        limit = parameter("limit", required=False, type="integer", minimum=1, maximum=NEWEST, default=20)
        name, link_id = (parameter("name"),), (parameter("id"),)
        bad, html = ("invalid",), (JSON, "text/html")
        return [
            Route("POST", "/v1/links", self.add, "write", LINKS, ADDED, (key,), ("late",)),
            Route("POST", "/v1/score", self.score, "read", PAIRS, SCORES),
            Route("POST", "/v1/rank", self.rank, "read", (RankQuery,), RANKING),
            Route("POST", "/v1/explain", self.explain, "read", (ExplainQuery,), EXPLANATION, media_types=html),
            Route("GET", "/v1/nodes/{name}", self.node, "read", (), NODE, (), bad),
            Route("GET", "/v1/nodes", self.node, "read", (), NODE, name, bad),
            Route("DELETE", "/v1/nodes/{name}", self.forget, "write", (), REMOVED, (), bad),
            Route("DELETE", "/v1/nodes", self.forget, "write", (), REMOVED, name, bad),
            Route("DELETE", "/v1/links/{id}", self.remove, "write", (), REMOVED, (), bad),
            Route("DELETE", "/v1/links", self.remove, "write", (), REMOVED, link_id, bad),
            Route("GET", "/v1/links/recent", self.newest, "read", (), NEWEST_LINKS, (limit,), bad),
            Route("GET", "/v1/status", self.status, answer=STATUS, always=True),
            Route("GET", "/v1/series", self.series),
            Route("GET", "/metrics", self.metrics, media_types=("text/plain",), always=True),
            Route("GET", "/ready", self.progress, answer=PROGRESS),
            Route("GET", "/readyz", self.ready, None, problems=("unavailable",)),
            Route("GET", "/healthz", self.health, None, always=True),
        ]

    async def add(self, request: Request) -> dict[str, Any]:
        """Add links. The response is sent once they are on disk and visible to the next request. With an
        Idempotency-Key that was used before, nothing is added and the first answer is repeated."""
        key = _idempotency_key(request)
        receipt = await self.result(self.service.add(await self.body(request), key))
        return receipt._asdict() | {"watermark": self.service.predictor.watermark}

    async def score(self, request: Request) -> dict[str, Any]:
        """The probability that pairs link, at a time or, without t, just after the newest link."""
        scored, doubts = await self.scored(await self.body(request))
        found = {"probability": scored.probability.tolist(), "version": scored.version}
        return found | {"model": self.service.model_version} | doubts

    async def scored(self, pairs: Pairs) -> tuple[Scored, Doubts]:
        """The scores of pairs, and what is doubtful about them."""
        doubts = await self._doubts(pairs.src, pairs.dst, pairs.t or [], pairs.strict)
        return await self.result(self.service.score(pairs)), doubts

    async def rank(self, request: Request) -> dict[str, Any]:
        """The most probable destinations of a node."""
        query: RankQuery = await self.body(request)
        if query.candidates == "all":
            await in_thread(check_destinations, self.service.predictor.snapshot())
        others = query.candidates if isinstance(query.candidates, list) else [query.src]
        doubts = await self._doubts([query.src], others, [] if query.t is None else [query.t], query.strict)
        found = await self.result(self.service.rank(query))
        ranking = [ranked._asdict() for ranked in found.ranking]
        return {"src": query.src, "t": found.t, "ranking": ranking, "version": found.version} | doubts

    async def explain(self, request: Request) -> dict[str, Any] | Response:
        """Why a pair has its score: the walks that raise or lower it. As a page with 'Accept: text/html'."""
        query: ExplainQuery = await self.body(request)
        doubts = await self._doubts([query.src], [query.dst], [] if query.t is None else [query.t], query.strict)
        as_page = "text/html" in request.headers.get("accept", "")
        found = await self.result(self.service.explain(query, as_page=as_page))
        return Response(found, 200, _PAGE_POLICY, "text/html") if isinstance(found, str) else found | doubts

    async def node(self, request: Request) -> dict[str, Any]:
        """A node, also one that is not known, and its newest links. In the path, its name is percent-encoded and may
        have slashes; in the query, it may also be . or .. or empty."""
        return await self.result(self.service.node(_text(request, "name")))

    async def newest(self, request: Request) -> dict[str, Any]:
        """The links that arrived last, newest first, each with the score it had before it arrived."""
        limit = (_query(request, "limit") or [b"20"])[0]
        if not limit.isdigit() or not 1 <= int(limit[:9]) <= NEWEST:
            raise Problem("invalid", f"limit is {brief(limit.decode('latin-1'))}: give an integer from 1 to {NEWEST}")
        return {"links": await self.result(self.service.newest(int(limit)))}

    async def forget(self, request: Request) -> dict[str, Any]:
        """Remove a node: its name and all of its links, for good."""
        return await self._removed(self.service.forget(_text(request, "name")))

    async def remove(self, request: Request) -> dict[str, Any]:
        """Remove the link with this id, for good."""
        return await self._removed(self.service.remove(_text(request, "id")))

    async def status(self, _request: Request) -> dict[str, Any]:
        """The state of the service; latencies in seconds."""
        return self.service.status()

    async def series(self, _request: Request) -> dict[str, Any]:
        """Accuracy on arriving links over time."""
        return self.service.series()

    async def metrics(self, _request: Request) -> Response:
        """Metrics in Prometheus' format."""
        return Response(self.service.metrics.to_text(), headers={"Content-Type": metrics.MEDIA_TYPE})

    async def progress(self, _request: Request) -> dict[str, Any]:
        """Whether requests are answered, by a replica with all links of its stream, and how far each stream is behind:
        `lag` entries are not read yet, and `behind` seconds ago all of them were."""
        return self.service.progress()

    async def ready(self, _request: Request) -> dict[str, Any]:
        """Whether requests are answered, by a replica with all links of its stream."""
        self.service.require_caught_up()
        return {"ready": True}

    async def health(self, _request: Request) -> dict[str, Any]:
        """Whether the process runs."""
        return {"status": "ok", "live": True}

    async def body(self, request: Request) -> Any:
        """What the body of a request asks."""
        return await self._bodies.read(request, request.scope["route"].body)

    async def _removed(self, links: Future[int]) -> dict[str, Any]:
        return {"removed": await self.result(links), "version": self.service.predictor.version}

    async def _doubts(self, src: list[Name], dst: list[Name], times: list[Time], strict: bool) -> Doubts:
        find = partial(find_doubts, self.service.predictor.snapshot(), src, dst, times, strict)
        return find() if max(len(src), len(dst)) <= FEW_NAMES else await in_thread(find)


def find_doubts(state: Snapshot, src: list[Name], dst: list[Name], times: list[Time], strict: bool) -> Doubts:
    """Names that the network does not know, which a strict question must not have, and what is unlikely about times."""
    if strict:
        state.refuse_unknown(src, dst)
    form, held = state.model.form.times, state.events.t
    parsed = form.parse(times)
    far = describe_far(parsed, held, form) if parsed.size and held.size else ""
    return {"unknown": state.unknown(src, dst), "warnings": [far] if far else []}


def check_destinations(state: Snapshot) -> None:
    """Refuse to rank all destinations if there are more than a request may name."""
    if state.num_nodes > MAX_CANDIDATES and (found := len(state.nodes("dst"))) > MAX_CANDIDATES:
        what = f'candidates is "all", and there are {found:,} destinations'
        raise Problem("invalid", f"{what}: name at most {MAX_CANDIDATES:,} of them, or leave it out")


def _idempotency_key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is not None and (not 1 <= len(key := key.strip()) <= MAX_KEY or not (key.isascii() and key.isprintable())):
        raise Problem("invalid", f"Idempotency-Key: give 1 to {MAX_KEY} visible ASCII characters")
    return key


def _text(request: Request, name: str) -> str:
    """A parameter of the path or the query."""
    in_path = request.path_params.get(name)
    given = _query(request, name) if in_path is None else [unquote_to_bytes(in_path)]
    if len(given) != 1:
        raise Problem("invalid", f"the query has {len(given)} values of {name}: give one, as in ?{name}=alice")
    try:
        found = given[0].decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise Problem("invalid", "the address is not UTF-8; percent-encode the UTF-8 bytes of names") from None
    if len(found) > MAX_NAME:
        raise Problem("invalid", f"{name} has a length of {len(found):,}: give at most {MAX_NAME:,}")
    return found


def _query(request: Request, name: str) -> list[bytes]:
    """The values of a parameter of the query."""
    given = request.scope.get("query_string", b"").decode("latin-1")
    values = parse_qsl(given, keep_blank_values=True, encoding="latin-1", max_num_fields=100)
    return [value.encode("latin-1") for key, value in values if key == name]


class _Request(Request):
    """A request whose headers are decoded once, not at every look."""

    @cached_property
    def headers(self) -> dict[str, str]:  # type: ignore[override]
        return {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(self.scope["headers"])}


class App:
    """Handles every request: finds its route, checks its token, turns errors into answers and records metrics."""

    def __init__(self, service: Service, tokens: Tokens, max_body: int) -> None:
        api, self._service = Api(service, max_body), service
        self.described = [*api.routes(), *Inference(api).routes()]  # in OpenAPI
        files = page.handlers() | {"/openapi.json": page.static(_to_json(openapi(self.described)), JSON, {})}
        static = [Route("GET", path, handler, None, always=True) for path, handler in files.items()]
        self._routes, self._tokens = Routes([*self.described, *static]), tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        started, status = perf_counter(), 499
        raw_path, method = scope.get("raw_path") or scope["path"].encode(), scope["method"]
        method = "GET" if method == "HEAD" else method
        routes, parameters = self._routes.find(method, scope["path"], raw_path.partition(b"?")[0].decode("latin-1"))
        route = routes.get(method)
        scope.update(route=route, path_params=parameters)
        try:
            response = await self._respond(_Request(scope, receive), route, list(routes))
            await response(scope, receive, send)
            status = response.status_code
        except ClientDisconnect:
            pass
        finally:
            self._service.metrics.request(OTHER if route is None else route.path, status, perf_counter() - started)

    async def _respond(self, request: Request, route: Route | None, methods: list[str]) -> Response:
        try:
            self._check_access(request, route)
            if route is None and not methods:
                raise Problem("not-found", "there is no such address")
            if route is None:
                what = f"the method {request.method} is not supported here"
                raise Problem("method-not-allowed", what, {"Allow": ", ".join(sorted(methods))})
            if not route.always:
                self._service.require_ready()
            found = await route.handler(request)
            return found if isinstance(found, Response) else Response(_to_json(found), media_type=JSON)
        except ClientDisconnect:
            raise
        except Exception as error:
            return of_error(error).response()

    def _check_access(self, request: Request, route: Route | None) -> None:
        if route is not None and route.role is None:
            return
        if (problem := request.scope.get(EXCESS)) is not None:
            raise problem
        if self._tokens:
            self._tokens.check(request.headers.get("authorization"), "read" if route is None else route.role or "read")
        else:
            check_host(request.headers.get("host"))


def _to_json(content: Any) -> bytes:
    """Compact JSON; names that are not Unicode are escaped."""
    try:
        return msgspec.json.encode(content)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(content), separators=(",", ":")).encode()
