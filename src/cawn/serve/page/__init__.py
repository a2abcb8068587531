"""The page at `/`: static files that show, in a browser, what the HTTP API reports.

They hold no data and need no token. Nothing is loaded from other hosts; the Content-Security-Policy forbids it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping
from importlib.resources import files
from pathlib import PurePosixPath

from starlette.requests import Request
from starlette.responses import Response

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


Handler = Callable[[Request], Awaitable[Response]]


def handlers() -> dict[str, Handler]:
    """What answers with the files of the page, by their paths on the server."""
    found = {}
    for file in files(__package__).iterdir():
        if (media_type := MEDIA_TYPES.get(PurePosixPath(file.name).suffix)) is not None:
            path = "/" if file.name == "index.html" else f"/page/{file.name}"
            found[path] = static(file.read_bytes(), media_type, HEADERS)
    return found


def static(body: bytes, media_type: str, headers: Mapping[str, str]) -> Handler:
    """Answers with the same content every time; 304 to a client that has it."""
    tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'

    async def answer(request: Request) -> Response:
        known = tag in request.headers.get("if-none-match", "")
        return Response(None if known else body, 304 if known else 200, {**headers, "ETag": tag}, media_type)

    return answer
