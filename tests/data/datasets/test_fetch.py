"""Downloads, from a server of our own."""

import errno
import hashlib
import io
import os
import socket
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


@dataclass
class Server:
    """Gives one file, well or badly, and remembers what it was asked."""

    body: bytes = SNAP
    ranges: bool = True
    mark: tuple[str, str] | None = ("ETag", '"first"')
    kind: str = "text/plain"
    length: bool = True
    status: int = 200
    breaks_at: int | None = None
    location: str | None = None
    raw: bytes | None = None  # sent instead of headers and body
    asked: list[str | None] = field(default_factory=list)
    url: str = ""

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        wanted = handler.headers.get("Range")
        self.asked.append(wanted)
        first = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted else 0
        same = self.mark is not None and handler.headers.get("If-Range") == self.mark[1]
        partial = bool(wanted) and self.ranges and same
        if self.status != 200 or (partial and first >= len(self.body)):
            handler.send_error(416 if self.status == 200 else self.status)
            return
        if self.location is not None:
            handler.send_response(302)
            handler.send_header("Location", self.location)
            handler.end_headers()
            return
        if self.raw is not None:
            handler.wfile.write(self.raw)
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


def publish(monkeypatch: pytest.MonkeyPatch, *urls: str, sha256: str | None = None) -> None:
    sources = tuple(datasets.Source(url, "snap", sha256) for url in urls)
    monkeypatch.setitem(CATALOG, "uci", replace(CATALOG["uci"], sources=sources))


class TestDownload:
    def files(self, own_cache: Path) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in (own_cache / "uci").iterdir()}

    def broken_off(self, server: Server, at: int = 20) -> None:
        server.breaks_at = at
        with pytest.raises(cawn.StorageError, match=r"the connection broke .*; try again to resume the download$"):
            datasets.download("uci")
        server.breaks_at = None

    def test_complete(self, server: Server, own_cache: Path) -> None:
        seen: list[tuple[int, int | None]] = []
        events = datasets.load("uci", progress=lambda done, total: seen.append((done, total)))
        assert len(events) == 3
        assert seen == [(0, len(SNAP)), (len(SNAP), len(SNAP))]
        record = f"{SNAP_SHA256}  CollegeMsg.txt\n".encode()
        assert self.files(own_cache) == {"CollegeMsg.txt": SNAP, "CollegeMsg.txt.sha256": record}
        assert datasets.verify("uci") == "ok: as first downloaded; the publisher states no checksum"
        datasets.load("uci")
        assert datasets.download("uci") == own_cache / "uci" / "CollegeMsg.txt"
        assert server.asked == [None]

    def refused(self, message: str) -> None:
        with pytest.raises(cawn.StorageError, match=message) as caught:
            datasets.download("uci")
        assert "\n" not in str(caught.value)
        assert datasets.where("uci") is None

    @pytest.mark.parametrize("length", [True, False])
    def test_an_empty_answer_is_not_kept(self, server: Server, own_cache: Path, length: bool) -> None:
        server.body, server.length = b"", length
        self.refused("sent an empty file")
        assert self.files(own_cache) == {}
        server.body = SNAP
        assert datasets.download("uci").read_bytes() == SNAP

    @pytest.mark.parametrize(
        "location", ["http://[::bad/x", "file:///etc/passwd", "http://127.0.0.1:99999/x", "http://" + "a" * 300 + ".x/"]
    )
    def test_invalid_redirects(self, server: Server, location: str) -> None:
        server.location = location
        self.refused("cannot be reached|the server answered")

    @pytest.mark.parametrize("size", ["-5", "zz", "7fffffffffffffff"])
    def test_invalid_chunks(self, server: Server, size: str) -> None:
        server.raw = f"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{size}\r\nabc".encode()
        self.refused("the connection broke")

    @pytest.mark.parametrize("content", [b"\xff\xfe", b"a\r\nX-Other: b", b""])
    def test_a_damaged_tag_begins_anew(self, server: Server, own_cache: Path, content: bytes) -> None:
        self.broken_off(server)
        (own_cache / "uci" / "CollegeMsg.txt.part.tag").write_bytes(content)
        assert datasets.download("uci").read_bytes() == SNAP
        assert server.asked == [None, None]

    def test_of_unknown_length(self, server: Server) -> None:
        server.length = False
        seen: list[tuple[int, int | None]] = []
        datasets.download("uci", progress=lambda done, total: seen.append((done, total)))
        assert seen == [(0, None), (len(SNAP), None)]

    @pytest.mark.parametrize("mark", [("ETag", '"first"'), ("Last-Modified", "Wed, 21 Oct 2015 07:28:00 GMT")])
    def test_continued(self, server: Server, own_cache: Path, mark: tuple[str, str]) -> None:
        server.mark = mark
        self.broken_off(server)
        assert self.files(own_cache)["CollegeMsg.txt.part"] == SNAP[:20]
        assert datasets.where("uci") is None
        seen: list[tuple[int, int | None]] = []
        path = datasets.download("uci", progress=lambda done, total: seen.append((done, total)))
        assert path.read_bytes() == SNAP
        assert seen == [(20, len(SNAP)), (len(SNAP), len(SNAP))]
        assert server.asked == [None, "bytes=20-"]
        assert set(self.files(own_cache)) == {"CollegeMsg.txt", "CollegeMsg.txt.sha256"}

    @pytest.mark.parametrize(
        ("changes", "asked"),
        [
            ({"ranges": False}, [None, "bytes=20-"]),
            ({"body": SNAP.replace(b"1", b"7"), "mark": ("ETag", '"second"')}, [None, "bytes=20-"]),
            ({"mark": None}, [None, None]),
            ({"mark": ("ETag", 'W/"weak"')}, [None, None]),
        ],
        ids=["the server cannot continue", "the file has changed", "no mark", "a weak mark"],
    )
    def test_begun_anew(self, server: Server, changes: dict, asked: list) -> None:
        if "body" not in changes:  # so from the beginning
            vars(server).update(changes)
        self.broken_off(server)
        vars(server).update(changes)
        assert datasets.download("uci").read_bytes() == server.body
        assert server.asked == asked

    def test_begun_anew_where_nothing_is_left_to_send(self, server: Server, own_cache: Path) -> None:
        self.broken_off(server)
        (own_cache / "uci" / "CollegeMsg.txt.part").write_bytes(SNAP)
        assert datasets.download("uci").read_bytes() == SNAP
        assert server.asked == [None, f"bytes={len(SNAP)}-", None]

    def test_ctrl_c_leaves_a_part_to_continue(
        self, server: Server, own_cache: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(fetch, "_BLOCK", 10)

        def interrupt(done: int, _total: int | None) -> None:
            if done == 30:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            datasets.load("uci", progress=interrupt)
        assert self.files(own_cache)["CollegeMsg.txt.part"] == SNAP[:30]
        assert datasets.download("uci").read_bytes() == SNAP
        assert server.asked == [None, "bytes=30-"]

    def test_the_publishers_checksum(self, server: Server, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        publish(monkeypatch, server.url, sha256=SNAP_SHA256)
        server.body = b"something else"
        wrong = hashlib.sha256(server.body).hexdigest()
        with pytest.raises(cawn.StorageError, match=f"sha256 {wrong}, expected {SNAP_SHA256}, and was not kept"):
            datasets.download("uci")
        assert self.files(own_cache) == {}
        server.body = SNAP
        path = datasets.download("uci")
        assert datasets.verify("uci") == "ok: as published"
        path.write_bytes(b"scribbled over")
        with pytest.raises(cawn.StorageError, match=rf"sha256 is \w+, expected {SNAP_SHA256}; download it again"):
            datasets.verify("uci")

    def test_the_checksum_of_the_first_download(self, server: Server) -> None:
        path = datasets.download("uci")
        path.unlink()
        server.body = b"9 8 7\n"
        with pytest.raises(cawn.StorageError, match=f"expected {SNAP_SHA256}, and was not kept"):
            datasets.download("uci")
        assert datasets.download("uci", force=True).read_bytes() == server.body
        assert datasets.verify("uci").startswith("ok: as first downloaded")
        path.write_bytes(SNAP)
        with pytest.raises(cawn.StorageError, match=f"sha256 is {SNAP_SHA256}, expected "):
            datasets.verify("uci")

    def test_by_force_nothing_old_is_used(self, server: Server) -> None:
        self.broken_off(server)
        assert datasets.download("uci", force=True).read_bytes() == SNAP
        datasets.download("uci", force=True)
        assert server.asked == [None, None, None]

    def test_a_file_put_there_by_hand(self, own_cache: Path) -> None:
        put(own_cache, "uci", SNAP)
        assert datasets.verify("uci").startswith("not checked: no checksum of ")

    @pytest.mark.parametrize(
        ("status", "reason"), [(404, "Not Found"), (403, "Forbidden"), (503, "Service Unavailable")]
    )
    def test_refused(self, server: Server, own_cache: Path, status: int, reason: str) -> None:
        server.status = status
        by_hand = own_cache / "uci" / "CollegeMsg.txt"
        with pytest.raises(cawn.StorageError) as refused:
            datasets.download("uci")
        assert str(refused.value) == (
            f"{server.url}: the server answered {status} ({reason}); try again later, "
            f"or see https://snap.stanford.edu/data/CollegeMsg.html and put the file at {by_hand}"
        )

    def test_a_refusal_loses_nothing(self, server: Server) -> None:
        self.broken_off(server)
        server.status = 503
        with pytest.raises(cawn.StorageError, match="503"):
            datasets.download("uci")
        server.status = 200
        assert datasets.download("uci").read_bytes() == SNAP
        assert server.asked[-1] == "bytes=20-"

    def test_a_web_page_is_no_file(self, server: Server) -> None:
        server.kind, server.body = "text/html; charset=utf-8", b"<html>please register"
        with pytest.raises(cawn.StorageError, match="sent a web page"):
            datasets.load("uci")

    def test_no_connection(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            publish(monkeypatch, f"http://127.0.0.1:{unused.getsockname()[1]}/CollegeMsg.txt")
            with pytest.raises(cawn.StorageError, match=r"cannot be reached \(.*\); is there a network\?") as refused:
                datasets.load("uci")
        assert "\n" not in str(refused.value)

    def test_the_next_address_where_the_first_has_no_answer(
        self, server: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        publish(monkeypatch, "http://127.0.0.1:1/elsewhere.txt", server.url)
        assert datasets.download("uci").name == "CollegeMsg.txt"
        assert len(datasets.load("uci")) == 3

    def test_a_full_disk(self, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
        class Full(io.BytesIO):
            def write(self, _: object) -> int:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(fetch, "open", lambda *_: Full(), raising=False)
        with pytest.raises(cawn.StorageError, match=r"\.part: cannot be written \(No space left on device\); check"):
            datasets.download("uci")
        assert server.asked == [None]

    def test_a_cache_that_cannot_be_written(self, server: Server, own_cache: Path) -> None:
        own_cache.parent.mkdir()
        own_cache.write_text("a file where the folder should be")
        with pytest.raises(cawn.StorageError, match=r"\.part: cannot be written"):
            datasets.download("uci")
        assert server.asked == []
