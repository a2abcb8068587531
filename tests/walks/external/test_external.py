"""An index built in pieces has, byte for byte, the arrays of one built in memory."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from cawn.walks.external import history, pairs, sorting
from cawn.walks.pairs import PairParts

import cawn
from cawn.walks import external
from cawn.walks.history import History

WALKS_ALONE = PairParts(False, False, False, False, False)
UNDIRECTED = PairParts(True, False, False, False, True)
DECAYS = (0.0, 0.01, 3.0)


def links(size: int, nodes: int, kind: str, seed: int = 0) -> cawn.Events:
    """Links with self-loops, simultaneous ones, and a hub."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, nodes, (2, size))
    src[rng.random(size) < 0.3] = 1
    dst[: size // 50] = src[: size // 50]
    t = rng.integers(0, 5 if kind == "tied" else size // 3, size)
    msg = rng.integers(0, 3, (size, 2)) if kind == "tied" else None
    x = rng.integers(0, 3, (nodes + 3, 1)) if kind == "tied" else None
    return cawn.Events(src, dst, t / 7 if kind == "real" else t, msg, x=x, num_nodes=nodes + 3)


def written(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "_BLOCK", 2048)
    monkeypatch.setattr(history, "_GROUP", 500)
    monkeypatch.setattr(pairs, "_BLOCK", 700)
    monkeypatch.setattr(pairs, "LEAST", 700)
    monkeypatch.setattr(sorting, "_PER_ROW", 1000)
    monkeypatch.setattr(sorting, "LEAST", 300)
    monkeypatch.setattr(sorting, "_BLOCK", 300)


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("kind", ["integer", "tied"])
@pytest.mark.parametrize("parts", [PairParts(), UNDIRECTED])
def test_all_parts_in_pieces(tmp_path: Path, kind: str, parts: PairParts) -> None:
    events = links(5000, 400, kind)
    for name in ("memory", "pieces"):
        (tmp_path / name).mkdir()
    every = external.write_index(events, DECAYS, 0.001, parts, tmp_path / "memory", memory=2**40)
    some = external.write_index(events, DECAYS, 0.001, parts, tmp_path / "pieces", memory=2**20)
    assert set(some) == set(every)
    ours, theirs = written(tmp_path / "pieces"), written(tmp_path / "memory")
    assert set(ours) == set(theirs)
    assert [name for name in ours if ours[name] != theirs[name]] == []


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("kind", ["integer", "real"])
def test_history_in_pieces(tmp_path: Path, kind: str) -> None:
    events = links(5000, 400, kind)
    for name in ("memory", "pieces"):
        (tmp_path / name).mkdir()
    reports = []

    @contextmanager
    def report(title: str, total: float, *, unit: str = "") -> Iterator[Callable[[float], None]]:
        yield lambda done: reports.append((title, done, total))

    every = external.write_index(events, DECAYS, 1.0, WALKS_ALONE, tmp_path / "memory", memory=2**40)
    some = external.write_index(events, DECAYS, 1.0, WALKS_ALONE, tmp_path / "pieces", memory=2**19, report=report)
    assert some == every
    assert written(tmp_path / "pieces") == written(tmp_path / "memory")
    assert set(written(tmp_path / "memory")) == {f"{name}.npy" for name in every}
    for name, array in History(events, DECAYS).arrays.items():
        np.testing.assert_array_equal(np.load(tmp_path / "pieces" / f"history.{name}.npy"), array)
    assert {stage for stage, done, total in reports if done == total} == {
        *("counting links", "distributing links", "sorting links")
    }


def test_too_many_nodes_for_the_memory(tmp_path: Path) -> None:
    with pytest.raises(cawn.QueryError, match="an index of 403 nodes needs 0 MiB more than the memory limit"):
        external.write_index(links(5000, 400, "integer"), DECAYS, 1.0, WALKS_ALONE, tmp_path, memory=2**12)
    assert not written(tmp_path)
