"""The page at `/`: static files that show, in a browser, what the HTTP API reports.

They hold no data and need no token. Nothing is loaded from other hosts; the Content-Security-Policy forbids it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from functools import cache
from importlib.resources import files
from pathlib import PurePosixPath
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

MEDIA_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
CONTENT_SECURITY_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",  # text never becomes markup
        "trusted-types 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-cache",  # ask again each time; the answer is 304 as long as nothing has changed
}


class Asset(NamedTuple):
    """A file of the page."""

    body: bytes
    media_type: str
    tag: str  # the value of ETag


@cache
def assets() -> dict[str, Asset]:
    """The files of the page by their path on the server."""
    found = {}
    for file in files(__package__).iterdir():
        media_type = MEDIA_TYPES.get(PurePosixPath(file.name).suffix)
        if media_type is not None:
            body = file.read_bytes()
            path = "/" if file.name == "index.html" else f"/page/{file.name}"
            found[path] = Asset(body, media_type, f'"{hashlib.sha256(body).hexdigest()[:16]}"')
    return found


def routes() -> list[Route]:
    """Routes for the application: `app.router.routes.extend(page.routes())`."""
    return [Route(path, _endpoint(asset), include_in_schema=False) for path, asset in assets().items()]


def _endpoint(asset: Asset) -> Callable[[Request], Awaitable[Response]]:
    headers = HEADERS | {"ETag": asset.tag}

    async def answer(request: Request) -> Response:
        if asset.tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(asset.body, media_type=asset.media_type, headers=headers)

    return answer
