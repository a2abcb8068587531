"""Errors as HTTP answers: application/problem+json (RFC 9457) with type, title, status and detail."""

from __future__ import annotations

import logging
from secrets import token_hex

import msgspec
from msgspec import Struct
from starlette.responses import Response

from cawn.errors import CawnError, DeviceError, StorageError, is_out_of_memory, one_line
from cawn.serve.writer import LateLinks, QueueFull

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER = "1"  # seconds
KINDS = {
    "malformed": (400, "The request cannot be parsed"),
    "unauthenticated": (401, "A valid token is required"),
    "forbidden": (403, "The role of the token does not allow this"),
    "not-found": (404, "There is nothing at this address"),
    "method-not-allowed": (405, "This address does not support the method"),
    "timeout": (408, "The body did not arrive in time"),
    "late": (409, "Links are older than the newest link"),
    "too-large": (413, "The body is too large"),
    "media-type": (415, "The body must be JSON"),
    "replica": (421, "The server takes links from its stream alone"),
    "invalid": (422, "The request is invalid"),
    "overloaded": (429, "Too much is waiting"),
    "internal": (500, "An error in the server"),
    "unavailable": (503, "The server cannot answer now"),
}

log = logging.getLogger("cawn.serve")


class Failure(Struct):
    """What is wrong, where, and what to do; `error` is what clients of the Open Inference Protocol read."""

    type: str
    title: str
    status: int
    detail: str
    error: str


class Problem(Exception):  # noqa: N818
    """A request that is refused; `kind` is a key of `KINDS`."""

    def __init__(self, kind: str, detail: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(detail)
        self.kind, self.detail = kind, one_line(detail)
        self.status, self.title = KINDS[kind]
        self.headers = ({"Retry-After": RETRY_AFTER} if self.status in (429, 503) else {}) | (headers or {})

    def response(self) -> Response:
        content = Failure(f"urn:cawn:problem:{self.kind}", self.title, self.status, self.detail, self.detail)
        return Response(msgspec.json.encode(content), self.status, self.headers, MEDIA_TYPE)


def of_error(error: Exception) -> Problem:
    """The problem for any exception. Server errors are logged under a number that is sent to the client."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, LateLinks | QueueFull):
        return Problem("late" if isinstance(error, LateLinks) else "overloaded", str(error))
    out_of_memory = isinstance(error.__cause__, Exception) and is_out_of_memory(error.__cause__)
    if isinstance(error, CawnError) and not isinstance(error, StorageError | DeviceError) and not out_of_memory:
        return Problem("invalid", str(error))
    reference = token_hex(4)
    if not isinstance(error, CawnError):
        log.error("error %s", reference, exc_info=error)
        return Problem("internal", f"this is a bug in the server; its log has it as {reference}")
    log.error("error %s: %s", reference, one_line(str(error)))
    links = "; links that were sent may be stored or not" if isinstance(error, StorageError) else ""  # H12
    return Problem("unavailable", f"storage, memory or device failed{links}; the server's log has it as {reference}")
