"""One file over HTTP: received beside its place, continued where it was broken off, checked, then moved into place."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.client import HTTPResponse
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from cawn.data.datasets.copies import sha256_of
from cawn.errors import StorageError

_BLOCK = 1 << 18
_SILENCE = 60.0  # seconds without a byte after which a connection counts as broken


class _Redirects(HTTPRedirectHandler):
    """Closes the connection of a redirect that leads nowhere."""

    def http_error_302(self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any) -> Any:
        try:
            return super().http_error_302(req, fp, code, msg, headers)
        except Exception:
            fp.close()
            raise

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


class NoAnswerError(StorageError):
    """The address did not give the file; another one may."""


def fetch(url: str, path: Path, sha256: str | None, progress: Callable[[int, int | None], object] | None) -> str:
    """Put the file of this address at `path` and return its SHA-256, which must be `sha256` if that is given.

    What has been received so far stands in `path` + '.part' and is continued by the next call, if the server can do
    that and its file is still the same one (by its ETag or date, kept in '.part.tag'); otherwise it starts anew.
    """
    part, tag = _part(path), _tag(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _receive(url, part, tag, progress)
        if part.stat().st_size == 0:
            discard(path)
            raise NoAnswerError(f"{url}: the server answers with an empty file")
        found = sha256_of(part)
        if sha256 not in (None, found):
            discard(path)
            raise StorageError(
                f"{url}: what came has sha256 {found}, expected {sha256}, and was not kept; "
                "try again, or use force=True if the publisher has changed the file"
            )
        os.replace(part, path)
        tag.unlink(missing_ok=True)
    except OSError as error:
        reason = error.strerror or error
        raise StorageError(
            f"{part}: cannot be written ({reason}); see that there is room and permission, and try again"
        ) from error
    return found


def discard(path: Path) -> None:
    """Forget what an interrupted download of this file has left."""
    with suppress(OSError):
        _tag(path).unlink(missing_ok=True)
        _part(path).unlink(missing_ok=True)


def _part(path: Path) -> Path:
    return path.with_name(f"{path.name}.part")


def _tag(path: Path) -> Path:
    return path.with_name(f"{path.name}.part.tag")


def _receive(url: str, part: Path, tag: Path, progress: Callable[[int, int | None], object] | None) -> None:
    """Complete the part that is here, or begin anew where the server gives the whole file."""
    mark = _mark(tag)
    known = part.stat().st_size if part.exists() and mark else 0
    report = progress or (lambda _done, _total: None)
    with _answer(url, known, mark) as response:
        done = known if response.status == 206 else 0
        if not done:
            part.unlink(missing_ok=True)
            _remember(response, tag)
        total = None if response.length is None else done + response.length
        with open(part, "ab") as file:
            report(done, total)
            for block in _blocks(response, url):
                file.write(block)
                done += len(block)
                report(done, total)
    if total not in (None, part.stat().st_size):
        raise _broken(url, f"{done:,} of {total:,} bytes have come")


def _answer(url: str, known: int, mark: str) -> HTTPResponse:
    """What follows on the known bytes (status 206), or all of the file where the server cannot give just that."""
    if not known:
        return _ask(url)
    try:
        response = _ask(url, {"Range": f"bytes={known}-", "If-Range": mark})
    except NoAnswerError as error:
        if getattr(error.__cause__, "code", None) != 416:  # nothing follows on these bytes
            raise
        return _ask(url)
    if response.status == 206 and not response.headers.get("Content-Range", "").startswith(f"bytes {known}-"):
        response.close()
        return _ask(url)
    return response


def _ask(url: str, headers: dict[str, str] | None = None) -> HTTPResponse:
    try:
        request = Request(url, headers={"User-Agent": "cawn"} | (headers or {}))
        response: HTTPResponse = build_opener(_Redirects()).open(request, timeout=_SILENCE)
    except HTTPError as error:
        error.close()
        raise NoAnswerError(f"{url}: the server answers {error.code} ({error.reason})") from error
    except Exception as error:  # whatever a broken server or redirect leads to
        reason = error.reason if isinstance(error, URLError) else error
        raise NoAnswerError(f"{url}: cannot be reached ({reason}); is there a network?") from error
    if response.headers.get_content_type() == "text/html":
        response.close()
        raise NoAnswerError(f"{url}: the server answers with a web page instead of the file")
    return response


def _remember(response: HTTPResponse, tag: Path) -> None:
    """Keep what tells this state of the server's file from another; without it the download cannot be continued."""
    etag = response.headers.get("ETag", "")
    mark = etag if etag and not etag.startswith("W/") else response.headers.get("Last-Modified")
    if mark:
        tag.write_text(mark, encoding="ascii", errors="replace")
    else:
        tag.unlink(missing_ok=True)


def _mark(tag: Path) -> str:
    """What was remembered; nothing where that cannot be sent in a header."""
    try:
        mark = tag.read_text(encoding="ascii")
    except (OSError, UnicodeError):
        return ""
    return mark if mark.isprintable() else ""


def _blocks(response: HTTPResponse, url: str) -> Iterator[bytes]:
    try:
        while block := response.read(_BLOCK):
            yield block
    except Exception as error:  # such as a chunk of negative length
        raise _broken(url, str(error) or type(error).__name__) from error


def _broken(url: str, how: str) -> StorageError:
    return StorageError(f"{url}: the connection broke ({how}); try again, and it goes on from there")
