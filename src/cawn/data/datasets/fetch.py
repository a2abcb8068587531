"""Download of one file over HTTP: to a temporary file beside its place, resumable, verified, then renamed.

`pooch` is not used because it cannot resume: its downloader requests the whole file into a new temporary file, so that
an interrupted download starts again. Nor does it refuse web pages, or limit what an archive unpacks to, so that only
the request itself would be saved, for another two dependencies.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.client import HTTPResponse
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

from cawn.errors import StorageError, reason
from cawn.files import sha256_of

_BLOCK = 1 << 18
_TIMEOUT = 60.0  # seconds without a byte


class _Redirects(HTTPRedirectHandler):
    """Closes the connection if a redirect fails; redirects to anything but HTTP and FTP fail in urllib."""

    def http_error_302(self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Any) -> Any:
        try:
            return super().http_error_302(req, fp, code, msg, headers)
        except Exception:
            fp.close()
            raise

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


class NoAnswerError(StorageError):
    """This URL does not give the file; another one may."""


def fetch(url: str, path: Path, sha256: str | None, progress: Callable[[int, int | None], object] | None) -> str:
    """Download a URL to `path` and return its SHA-256, which must be `sha256` if that is given.

    A partial file `path` + '.part' is resumed by the next call if the server supports it and its file has not changed
    (by ETag or date, stored in '.part.tag'); otherwise the download starts again.
    """
    part, tag = _partial_files(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _receive(url, part, tag, progress)
        if part.stat().st_size == 0:
            discard(path)
            raise NoAnswerError(f"{url}: the server sent an empty file")
        found = sha256_of(part)
        if sha256 not in (None, found):
            discard(path)
            raise StorageError(
                f"{url}: the download has sha256 {found}, expected {sha256}, and was not kept; "
                "try again, or use force=True if the publisher has changed the file"
            )
        os.replace(part, path)
        tag.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(
            f"{part}: cannot be written ({reason(error)}); check free space and permissions, and try again"
        ) from error
    return found


def discard(path: Path) -> None:
    """Remove the partial file of an interrupted download."""
    with suppress(OSError):
        for partial in _partial_files(path):
            partial.unlink(missing_ok=True)


def _partial_files(path: Path) -> tuple[Path, Path]:
    """What is received of a file, and what identifies the version of it."""
    return path.with_name(f"{path.name}.part"), path.with_name(f"{path.name}.part.tag")


def _receive(url: str, part: Path, tag: Path, progress: Callable[[int, int | None], object] | None) -> None:
    """Complete the partial file, or start again if the server sends the whole file."""
    validator = _validator(tag)
    known = part.stat().st_size if part.exists() and validator else 0
    report = progress or (lambda _done, _total: None)
    with _answer(url, known, validator) as response:
        done = known if response.status == 206 else 0
        if not done:
            part.unlink(missing_ok=True)
            etag: str = response.headers.get("ETag", "")
            version = etag if etag and not etag.startswith("W/") else response.headers.get("Last-Modified", "")
            tag.write_text(version, encoding="ascii", errors="replace")  # if "", the download cannot be resumed
        total = None if response.length is None else done + response.length
        with open(part, "ab") as file:
            report(done, total)
            for block in _blocks(response, url):
                file.write(block)
                done += len(block)
                report(done, total)
    if total not in (None, part.stat().st_size):
        raise _broken(url, f"received {done:,} of {total:,} bytes")


def _answer(url: str, known: int, validator: str) -> HTTPResponse:
    """The rest of the file (status 206), or all of it if the server cannot send a part."""
    if not known:
        return _ask(url)
    try:
        response = _ask(url, {"Range": f"bytes={known}-", "If-Range": validator})
    except NoAnswerError as error:
        if getattr(error.__cause__, "code", None) != 416:  # the partial file is already complete, or too long
            raise
        return _ask(url)
    if response.status == 206 and not response.headers.get("Content-Range", "").startswith(f"bytes {known}-"):
        response.close()
        return _ask(url)
    return response


def _ask(url: str, headers: dict[str, str] | None = None) -> HTTPResponse:
    try:
        request = Request(url, headers={"User-Agent": "cawn"} | (headers or {}))
        response: HTTPResponse = build_opener(_Redirects()).open(request, timeout=_TIMEOUT)
    except HTTPError as error:
        error.close()
        raise NoAnswerError(f"{url}: the server answered {error.code} ({error.reason})") from error
    except Exception as error:  # a broken server or redirect can raise anything
        why = error.reason if isinstance(error, URLError) else error
        raise NoAnswerError(f"{url}: cannot be reached ({why}); is there a network?") from error
    if response.headers.get_content_type() == "text/html":
        response.close()
        raise NoAnswerError(f"{url}: the server sent a web page instead of the file")
    return response


def _validator(tag: Path) -> str:
    """The stored validator; "" if there is none that can be sent in a header."""
    try:
        validator = tag.read_text(encoding="ascii")
    except (OSError, UnicodeError):
        return ""
    return validator if validator.isprintable() else ""


def _blocks(response: HTTPResponse, url: str) -> Iterator[bytes]:
    try:
        while block := response.read(_BLOCK):
            yield block
    except Exception as error:  # such as for a chunk of negative length
        raise _broken(url, reason(error)) from error


def _broken(url: str, how: str) -> StorageError:
    return StorageError(f"{url}: the connection broke ({how}); try again to resume the download")
