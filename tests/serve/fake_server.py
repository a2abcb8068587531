"""A stand-in for the service: the page's own files, and answers that a test sets."""

from __future__ import annotations

import asyncio
import json
import math
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from cawn.explain.explanation import Explanation, LinkPart, PairHistory
from cawn.explain.views import EarlierLink, Walk
from cawn.serve import page

START = 1_700_000_000  # Unix seconds
HOSTILE = "</td><img src=x onerror=alert(1)> \"q\" & 'x' ../?#%"
RIGHT_TO_LEFT = "שלום \u202eevil"
LONG = "n" * 300
LARGE = 2**53 + 1  # a double would round it


def figures(mrr: float, *, calibrated: bool = True) -> dict[str, float]:
    found = {"mrr": mrr, "mrr_error": 0.004, "log_loss": 0.9 - mrr, "log_loss_error": 0.006}
    return found | ({"ece": 0.05 * (1 - mrr)} if calibrated else {})


def point(i: int) -> dict[str, Any]:
    wave = math.sin(i / 6) / 60 + (i * 37 % 11 - 5) / 1000
    return {
        "links": 500 * (i + 1),
        "t": START + 60 * i,
        "scored": 100,
        "model": figures(0.62 + wave),
        "shadow": figures(0.60 + wave / 2 + i / 1500) if i >= 10 else None,
        "baseline": figures(0.48 + wave / 3, calibrated=False),
        "new_nodes": 0.02 + abs(wave) / 3,
        "new_pairs": 0.31 - wave,
    }


LATENCY = {"status": (0.4, 1, 99), "score": (4.1, 21.2, 1_000), "rank": (81, 149, 412), "links": (2.7, 9.4, 1_000)}
DRIFT = {"new_nodes": (0.034, 0.021, -0.013), "new_pairs": (0.287, 0.314, 0.027), "ece": (0.013, 0.019, 0.006)}
STATUS: dict[str, Any] = {
    "ready": True,
    "phase": "ready",
    "links": 59_835,
    "nodes": 1_899,
    "version": 12,
    "watermark": START + 3600,
    "unit": "s",
    "model": {"name": "payments", "version": "9f3c2a71d0e4"},
    "links_per_second": 812.4,
    "latency": {
        name: {"p50": p50 / 1000, "p99": p99 / 1000, "count": count}
        for name, (p50, p99, count) in (LATENCY | {"explain": (113, 342, 27)}).items()
    },
    "queue": {"size": 1, "capacity": 10_000, "links": 3},
    "late": {"policy": "insert", "links": 0},
    "accuracy": {"arrived": 30_500, "scored": 6_100, "window": {"links": 2_000, "scored": 2_000, "negatives": 20}}
    | {"model": figures(0.62), "shadow": figures(0.65), "baseline": figures(0.48, calibrated=False)}
    | {"new_nodes": 0.021, "new_pairs": 0.314, "alarm": None, "alarm_since": None}
    | {"drift": {name: dict(zip(("test", "now", "change"), each, strict=True)) for name, each in DRIFT.items()}},
    "learning": {"enabled": True, "promotions": 2},
    "sources": [],
    "loaded": {"links": 0, "of": 0},
}
NAMES = [HOSTILE, "alice", RIGHT_TO_LEFT, "bob", LONG, "carol/ops", LARGE, "dave", "7", ".."]
LINKS = [
    {"src": NAMES[i % 10], "dst": NAMES[(3 * i + 1) % 10], "t": START + 3600 - 7 * i}
    | {"probability": [0.934, 0.412, 0.077, None][i % 4]}
    for i in range(20)
]


def explanation(src: Any, dst: Any, t: Any) -> dict[str, Any]:
    links = [
        EarlierLink(src, "bob", START, 5, "2023-11-14T22:13:20"),
        EarlierLink(HOSTILE, "bob", START - 60, 4, "2023-11-14T22:12:20"),
    ]
    meaning = "a node that both have linked to"
    walks = [
        Walk("src", 9, 1.204, "(0,2) → (1,1)", [src, "bob"], links[:1], meaning, "common"),
        Walk("dst", 4, 0.377, "(2,0)", [dst, "bob", HOSTILE], links, meaning, "common"),
        Walk("dst", 2, -0.611, "(2,0)", [dst], [], meaning, "apart"),
    ]
    parts = [
        LinkPart("pair", "the pair's own history", "they linked 3 times before", 1.63),
        LinkPart("source", "activity of the source", f"{src} has 41 earlier links", 0.25),
        LinkPart("common", "common neighbours", "13 sampled walks, through bob", 1.821, 0.24, 13),
        LinkPart("apart", "walks that do not meet", "2 sampled walks", -0.611, 0.0, 2),
        LinkPart("time", "times on the walks", "when these links took place", 0.0101),
        LinkPart("longer", "longer paths", "no sampled walks", 0.0002),
        LinkPart("repeated", "walks along a repeated link", "no sampled walks", -0.0003),
    ]
    why = Explanation(
        src=src,
        dst=dst,
        t=t,
        probability=0.934,
        error=0.0042,
        draws=8,
        logit=1.9,
        base=-1.2,
        parts=parts,
        walks=walks,
        num_walks=32,
        past=PairHistory(src_links=41, dst_links=17, pair_links=3, pair_last=START - 3600),
        interaction=-0.31,
        time="2023-11-14T23:13:20",
    )
    return why.to_dict() | {"view": asdict(why.view())}


def node(name: str, links: list[dict[str, Any]]) -> dict[str, Any]:
    if name == "unknown":
        return {"name": name, "known": False, "links": 0, "first": None, "last": None, "recent": []}
    recent = [{"src": link["src"], "dst": link["dst"], "t": link["t"]} for link in links]
    return {"name": name, "known": True, "links": 41, "first": START, "last": START + 3600, "recent": recent}


class FakeServer:
    """Answers from attributes that tests change; `requests` lists what was asked: (method, path, body or query)."""

    def __init__(self) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self.socket.getsockname()[1]}/"
        self.reset()

    def reset(self) -> None:
        self.status: dict[str, Any] = json.loads(json.dumps(STATUS))
        self.points: list[dict[str, Any]] = [point(i) for i in range(61)]
        self.links: list[dict[str, Any]] = LINKS
        self.token: str | None = None
        self.problems: dict[str, tuple[int, str]] = {}
        self.requests: list[tuple[str, str, Any]] = []

    def answer(self, path: str, query: Any, body: Any) -> Any:
        if path == "/v1/status":
            return self.status
        if path == "/v1/series":
            return {"points": self.points}
        if path == "/v1/links/recent":
            return {"links": self.links}
        if path == "/v1/nodes":
            return node(query["name"], self.links[:3])
        if path == "/v1/rank":
            ranking = [
                {"name": name, "probability": 0.9 / (i + 1), "found": ("recent", "two hops", "popular")[i % 3]}
                for i, name in enumerate(NAMES * 10)
            ]
            return {"src": body["src"], "t": START + 3601, "ranking": ranking[: body["k"]], "version": 12}
        return explanation(body["src"], body["dst"], body["t"])

    async def respond(self, request: Request) -> Response:
        path, raw = request.url.path, await request.body()
        body = json.loads(raw) if raw else None
        self.requests.append((request.method, path, body or dict(request.query_params)))
        status, detail = self.problems.get(path, (200, ""))
        if self.token is not None and request.headers.get("authorization") != f"Bearer {self.token}":
            status, detail = 401, "A valid token is needed."
        if status != 200:
            problem = {"type": "about:blank", "title": "Problem", "status": status, "detail": detail}
            return Response(json.dumps(problem), status, media_type="application/problem+json")
        if request.headers.get("accept") == "text/html":
            return HTMLResponse("<!DOCTYPE html><title>explanation</title>")
        return Response(json.dumps(self.answer(path, request.query_params, body)), media_type="application/json")

    def app(self) -> Starlette:
        api = [Route(f"/v1/{name}", self.respond) for name in ("status", "series", "links/recent", "nodes")]
        api += [Route(f"/v1/{name}", self.respond, methods=["POST"]) for name in ("rank", "explain")]
        files = [Route(path, handler) for path, handler in page.handlers().items()]
        return Starlette(routes=[*files, *api])

    @contextmanager
    def running(self) -> Iterator[FakeServer]:
        server = uvicorn.Server(uvicorn.Config(self.app(), log_level="warning", lifespan="off"))
        thread = threading.Thread(target=lambda: asyncio.run(server.serve([self.socket])))
        thread.start()
        try:
            yield self
        finally:
            server.should_exit = True
            thread.join()
