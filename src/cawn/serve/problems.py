"""Errors as HTTP answers: application/problem+json (RFC 9457) with type, title, status and detail."""

from __future__ import annotations

import json
import logging
from secrets import token_hex
from typing import Any, NamedTuple

from starlette.responses import Response

from cawn.errors import CawnError, DeviceError, StorageError, is_out_of_memory, one_line
from cawn.serve.writer import LateLinks, QueueFull

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER = "1"  # seconds

log = logging.getLogger("cawn.serve")


class _Kind(NamedTuple):
    status: int
    title: str


KINDS = {
    "malformed": _Kind(400, "The request cannot be parsed"),
    "unauthenticated": _Kind(401, "A valid token is required"),
    "forbidden": _Kind(403, "The role of the token does not allow this"),
    "not-found": _Kind(404, "There is nothing at this address"),
    "method-not-allowed": _Kind(405, "This address does not support the method"),
    "not-acceptable": _Kind(406, "The answer is not available in the accepted types"),
    "timeout": _Kind(408, "The body did not arrive in time"),
    "late": _Kind(409, "Links are older than the newest link"),
    "too-large": _Kind(413, "The body is too large"),
    "media-type": _Kind(415, "The body must be JSON"),
    "invalid": _Kind(422, "The request is invalid"),
    "overloaded": _Kind(429, "Too many requests are waiting"),
    "internal": _Kind(500, "An error in the server"),
    "unavailable": _Kind(503, "The server cannot answer now"),
}
_OF_STATUS = {kind.status: name for name, kind in KINDS.items()}


class Problem(Exception):  # noqa: N818
    """A request that is refused; `kind` is a key of `KINDS`."""

    def __init__(self, kind: str, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.kind, self.detail = kind, one_line(detail)
        self.headers = headers or {}
        if KINDS[kind].status in (429, 503):
            self.headers.setdefault("Retry-After", RETRY_AFTER)

    @property
    def status(self) -> int:
        return KINDS[self.kind].status

    def to_dict(self) -> dict[str, Any]:
        status, title = KINDS[self.kind]
        # "error" is the member that clients of the Open Inference Protocol read.
        return {
            "type": f"urn:cawn:problem:{self.kind}",
            "title": title,
            "status": status,
            "detail": self.detail,
            "error": self.detail,
        }

    def response(self) -> Response:
        return Response(json.dumps(self.to_dict()), self.status, self.headers, MEDIA_TYPE)


def of_status(status: int, detail: str, headers: dict[str, str] | None = None) -> Problem:
    """The problem for a status code that the router chose."""
    kind = _OF_STATUS.get(status, "malformed" if status < 500 else "internal")
    return Problem(kind, detail, headers)


def of_error(error: Exception) -> Problem:
    """The problem for any exception. Server errors are logged under a number that is sent to the client."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, LateLinks):
        return Problem("late", str(error))
    if isinstance(error, QueueFull):
        return Problem("overloaded", str(error))
    out_of_memory = isinstance(error.__cause__, Exception) and is_out_of_memory(error.__cause__)
    if isinstance(error, CawnError) and not isinstance(error, StorageError | DeviceError) and not out_of_memory:
        return Problem("invalid", str(error))
    reference = token_hex(4)
    if isinstance(error, CawnError):
        log.error("error %s: %s", reference, one_line(str(error)))
        return Problem("unavailable", f"storage, memory or device failed; the server's log has it as {reference}")
    log.error("error %s", reference, exc_info=error)
    return Problem("internal", f"this is a bug in the server; its log has it as {reference}")
