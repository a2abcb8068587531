"""Where a dataset is looked for: prepared copies, then the cache."""

import gzip
import sys
from pathlib import Path

import numpy as np
import pytest

import cawn
from cawn.data import datasets
from cawn.data.datasets import cache_folder
from dataset_files import SNAP, put
from link_files import named_links


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
        assert named_links(events) == [(2, 1, 10), (1, 0, 20), (0, 1, 30)]
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
        assert named_links(datasets.load("uci")) == [(1, 2, 1082040961), (3, 4, 1082155839), (5, 2, 1082414391)]

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
