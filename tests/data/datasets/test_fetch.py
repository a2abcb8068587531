"""Downloads, from a server of our own."""

import errno
import hashlib
import io
import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import cawn
from cawn.data import datasets
from cawn.data.datasets import CATALOG, fetch
from dataset_files import SNAP, SNAP_SHA256, put

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
REDIRECT = b"HTTP/1.1 302 Found\r\nLocation: "
ABSENT, BUSY = b"HTTP/1.1 404 Not Found\r\n\r\n", b"HTTP/1.1 503 Service Unavailable\r\n\r\n"


@dataclass
class Server:
    """Gives one file, well or badly, and remembers what it was asked."""

    body: bytes = SNAP
    ranges: bool = True
    mark: tuple[str, str] | None = ("ETag", '"first"')
    kind: str = "text/plain"
    length: bool = True
    breaks_at: int | None = None
    raw: bytes | None = None  # sent instead of headers and body
    asked: list[str | None] = field(default_factory=list)
    url: str = ""

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        wanted, condition = handler.headers.get("Range"), handler.headers.get("If-Range")
        self.asked.append(wanted)
        first = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted else 0
        partial = bool(wanted) and self.ranges and self.mark is not None and condition == self.mark[1]
        if self.raw is not None:
            handler.wfile.write(self.raw)
            return
        if partial and first >= len(self.body):
            handler.send_error(416)
            return
        content = self.body[first:] if partial else self.body
        handler.send_response(206 if partial else 200)
        handler.send_header("Content-Type", self.kind)
        if partial:
            handler.send_header("Content-Range", f"bytes {first}-{len(self.body) - 1}/{len(self.body)}")
        if self.length:
            handler.send_header("Content-Length", str(len(content)))
        if self.mark:
            handler.send_header(*self.mark)
        handler.end_headers()
        handler.wfile.write(content[: self.breaks_at])


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server that is the only publisher of "uci"."""
    behaviour = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            behaviour.answer(self)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        behaviour.url = f"http://127.0.0.1:{http.server_port}/data/CollegeMsg.txt"
        publish(monkeypatch, behaviour.url)
        yield behaviour
        http.shutdown()
        thread.join()


@pytest.fixture
def folder(own_cache: Path) -> Path:
    return own_cache / "uci"


def publish(monkeypatch: pytest.MonkeyPatch, *urls: str, sha256: str | None = None) -> None:
    sources = tuple(datasets.Source(url, "snap", sha256) for url in urls)
    monkeypatch.setitem(CATALOG, "uci", replace(CATALOG["uci"], sources=sources))


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def assert_refused(message: str) -> None:
    with pytest.raises(cawn.StorageError, match=message) as caught:
        datasets.download("uci")
    assert "\n" not in str(caught.value)


def break_off(server: Server, at: int = 20) -> None:
    server.breaks_at = at
    assert_refused(r"the connection broke .*; try again to resume the download$")
    assert datasets.where("uci") is None
    server.breaks_at = None


def test_complete(server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the next address where the first has no answer."""
    publish(monkeypatch, "http://127.0.0.1:1/elsewhere.txt", server.url)
    seen: list[tuple[int, int | None]] = []
    assert len(datasets.load("uci", progress=lambda *now: seen.append(now))) == 3
    assert seen == [(0, len(SNAP)), (len(SNAP), len(SNAP))]
    record = f"{SNAP_SHA256}  CollegeMsg.txt\n".encode()
    assert files(folder) == {"CollegeMsg.txt": SNAP, "CollegeMsg.txt.sha256": record}
    assert datasets.verify("uci") == "ok: as first downloaded; the publisher states no checksum"
    datasets.load("uci")
    assert datasets.download("uci") == folder / "CollegeMsg.txt"
    assert server.asked == [None]
    server.length = False
    datasets.download("uci", force=True, progress=lambda *now: seen.append(now))
    assert seen[2:] == [(0, None), (len(SNAP), None)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"raw": ABSENT}, r"CollegeMsg.txt: the server answered 404 \(Not Found\); try again later, or see https://"),
        ({"raw": BUSY}, r"\(Service Unavailable\); .*/CollegeMsg.html and put the file at .*/uci/CollegeMsg.txt$"),
        ({"kind": "text/html; charset=utf-8", "body": b"<html>please register"}, "sent a web page"),
        ({"body": b""}, "sent an empty file"),
        ({"body": b"", "length": False}, "sent an empty file"),
        ({"raw": REDIRECT + b"http://[::bad/x\r\n\r\n"}, r"cannot be reached \(.*\); is there a network\?"),
        ({"raw": REDIRECT + b"file:///etc/passwd\r\n\r\n"}, "cannot be reached|the server answered"),
        ({"raw": REDIRECT + b"http://127.0.0.1:99999/x\r\n\r\n"}, "cannot be reached|the server answered"),
        ({"raw": REDIRECT + b"http://" + b"a" * 300 + b".x/\r\n\r\n"}, "cannot be reached|the server answered"),
        *(({"raw": CHUNKED + size + b"\r\nabc"}, "connection broke") for size in (b"-5", b"zz", b"7fffffffffffffff")),
    ],
)
def test_bad_answers(server: Server, folder: Path, changes: dict, message: str) -> None:
    vars(server).update(changes)
    assert_refused(message)
    assert "CollegeMsg.txt" not in files(folder)
    vars(server).update({name: getattr(Server(), name) for name in changes})
    assert datasets.download("uci").read_bytes() == SNAP


@pytest.mark.parametrize(
    ("before", "after", "kept", "asked"),
    [
        ({}, {}, {}, ["bytes=20-"]),
        ({"mark": ("Last-Modified", "Wed, 21 Oct 2015 07:28:00 GMT")}, {}, {}, ["bytes=20-"]),
        ({"ranges": False}, {}, {}, ["bytes=20-"]),
        ({}, {"body": SNAP.replace(b"1", b"7"), "mark": ("ETag", '"second"')}, {}, ["bytes=20-"]),
        ({"mark": None}, {}, {}, [None]),
        ({"mark": ("ETag", 'W/"weak"')}, {}, {}, [None]),
        *(({}, {}, {"part.tag": damaged}, [None]) for damaged in (b"\xff\xfe", b"a\r\nX-Other: b", b"")),
        ({}, {}, {"part": SNAP}, [f"bytes={len(SNAP)}-", None]),  # nothing is left to send
    ],
)
def test_resumed_or_begun_anew(
    server: Server, folder: Path, before: dict, after: dict, kept: dict[str, bytes], asked: list
) -> None:
    vars(server).update(before)
    break_off(server)
    assert files(folder)["CollegeMsg.txt.part"] == SNAP[:20]
    vars(server).update(after)
    for name, content in kept.items():
        (folder / f"CollegeMsg.txt.{name}").write_bytes(content)
    seen: list[tuple[int, int | None]] = []
    assert datasets.download("uci", progress=lambda *now: seen.append(now)).read_bytes() == server.body
    assert server.asked == [None, *asked]
    resumed = asked == ["bytes=20-"] and server.ranges and not after
    assert seen == [(20 if resumed else 0, len(SNAP)), (len(SNAP), len(SNAP))]
    assert set(files(folder)) == {"CollegeMsg.txt", "CollegeMsg.txt.sha256"}


def test_what_was_received_stays_after_ctrl_c_and_a_refusal(
    server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "_BLOCK", 10)

    def interrupt(done: int, _total: int | None) -> None:
        if done == 30:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        datasets.load("uci", progress=interrupt)
    assert files(folder)["CollegeMsg.txt.part"] == SNAP[:30]
    server.raw = BUSY
    assert_refused("503")
    server.raw = None
    assert datasets.download("uci").read_bytes() == SNAP
    assert server.asked == [None, "bytes=30-", "bytes=30-"]


def test_the_publishers_checksum(server: Server, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(monkeypatch, server.url, sha256=SNAP_SHA256)
    server.body = b"something else"
    wrong = hashlib.sha256(server.body).hexdigest()
    assert_refused(f"sha256 {wrong}, expected {SNAP_SHA256}, and was not kept")
    assert files(folder) == {}
    server.body = SNAP
    path = datasets.download("uci")
    assert datasets.verify("uci") == "ok: as published"
    path.write_bytes(b"scribbled over")
    with pytest.raises(cawn.StorageError, match=rf"sha256 is \w+, expected {SNAP_SHA256}; download it again"):
        datasets.verify("uci")


def test_the_checksum_of_the_first_download(server: Server, own_cache: Path) -> None:
    path = put(own_cache, "uci", SNAP)
    assert datasets.verify("uci").startswith("not checked: no checksum of ")
    path.unlink()
    datasets.download("uci").unlink()
    server.body = b"9 8 7\n"
    assert_refused(f"expected {SNAP_SHA256}, and was not kept")
    break_off(server, 3)
    server.asked.clear()
    for _ in range(2):  # by force, nothing old is used
        assert datasets.download("uci", force=True).read_bytes() == server.body
    assert server.asked == [None, None]
    assert datasets.verify("uci").startswith("ok: as first downloaded")
    path.write_bytes(SNAP)
    with pytest.raises(cawn.StorageError, match=f"sha256 is {SNAP_SHA256}, expected "):
        datasets.verify("uci")


def test_places_that_cannot_be_written(server: Server, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.BytesIO):
        def write(self, _: object) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(fetch, "open", lambda *_: Full(), raising=False)
        assert_refused(r"\.part: cannot be written \(No space left on device\); check")
    assert server.asked == [None]
    shutil.rmtree(own_cache)
    own_cache.write_text("a file where the folder should be")
    assert_refused(r"\.part: cannot be written")
    assert server.asked == [None]
