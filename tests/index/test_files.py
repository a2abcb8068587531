"""An index written in pieces has, byte for byte, the files of one built in memory."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import cawn
from cawn.index import files
from cawn.index.features import PairParts
from cawn.index.files import write_index

WALKS_ALONE = PairParts(False, False, False, False, False)
UNDIRECTED = PairParts(rates=True, directed=False, since=False, two_steps=False, transitions=False)
DECAYS = (0.0, 0.01, 3.0)


def links(size: int, nodes: int, kind: str, seed: int = 0) -> cawn.Events:
    """Links with self-loops, hubs, a pair with many links, and by kind, simultaneous ones."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, nodes, (2, size))
    src[rng.random(size) < 0.3] = 1
    dst[(rng.random(size) < 0.7) & (src == 1)] = 2
    dst[: size // 50] = src[: size // 50]
    t = {"tied": rng.integers(0, 5, size), "real": rng.integers(0, size, size) / 7, "distinct": np.arange(size)}[kind]
    msg = rng.integers(0, 3, (size, 2)) if kind == "tied" else None
    x = rng.integers(0, 3, (nodes + 3, 1)) if kind == "tied" else None
    return cawn.Events(src, dst, t, msg, x=x, num_nodes=nodes + 3)


def written(folder: Path, events: cawn.Events, parts: PairParts, memory: int, **options) -> dict[str, bytes]:
    folder.mkdir()
    names = write_index(events, DECAYS, 0.001, parts, folder, memory=memory, **options)
    assert {path.name for path in folder.iterdir()} == {f"{name}.npy" for name in names}
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_RUN", 700)
    monkeypatch.setattr(files, "_GROUP", 300)
    monkeypatch.setattr(files, "_LEAST", 64)
    monkeypatch.setattr(files, "memory_to_build", lambda *_: 2**39)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("kind", ["tied", "real", "distinct"])
@pytest.mark.parametrize("parts", [PairParts(), UNDIRECTED, WALKS_ALONE])
@pytest.mark.parametrize(("size", "nodes"), [(5000, 400), (3000, 20), (40, 2000)])
def test_files_are_those_of_an_index_in_memory(
    tmp_path: Path, kind: str, parts: PairParts, size: int, nodes: int
) -> None:
    events = links(size, nodes, kind, seed=size)
    theirs = written(tmp_path / "memory", events, parts, 2**40)
    ours = written(tmp_path / "pieces", events, parts, 2**17 + 40 * nodes)
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if ours[name] != theirs[name]] == []


@pytest.mark.usefixtures("small_pieces")
def test_progress_and_attributes(tmp_path: Path) -> None:
    """Every stage reports its total; attributes order simultaneous links only where they are wanted."""
    events, reports = links(2000, 50, "tied"), []

    @contextmanager
    def report(title: str, total: float, *, unit: str = "") -> Iterator[Callable[[float], None]]:
        yield lambda done: reports.append((title, done, total))

    found = [
        written(tmp_path / f"{memory}{attributes}", events, PairParts(), memory, attributes=attributes, report=report)
        for attributes in (True, False)
        for memory in (2**40, 2**17)
    ]
    assert found[0] == found[1] != found[2] == found[3]
    finished = {title for title, done, total in reports if done == total}
    assert finished == {title for title, *_ in reports} > {"dividing nodes", "sorting next", "numbering pairs"}


def test_too_little_memory(tmp_path: Path) -> None:
    with pytest.raises(cawn.QueryError, match=r"an index of 403 nodes needs 0\.\d MiB more than the memory limit"):
        write_index(links(5000, 400, "real"), DECAYS, 1.0, WALKS_ALONE, tmp_path, memory=2**18)
    assert not list(tmp_path.iterdir())
