"""Index folders: built once, read as links, and used by training instead of an index built in memory."""

import json
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import cawn
from cawn.data.hashing import write_sealed
from cawn.data.stored import read_stored
from cawn.files import FolderLock
from cawn.index import files as files_of_index
from cawn.learn import indexing
from cawn.learn.indexing import build_index, summary
from cawn.learn.runs import digest_of_links
from networks import random_events
from small_runs import TINY, assert_same_weights

ALONE = cawn.Task(baselines=False)
QUIET = {"device": "cpu", "threads": 1, "quiet": True, "task": ALONE}
CONFIG = TINY.with_(epochs=1)
MEMORY = 2**33


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log that is not sorted by time, with names and ties."""
    events = random_events(0, num_nodes=30, num_links=600, span=200)
    rows = [f"node{u},node{v},{t}" for u, v, t in zip(events.src, events.dst, events.t, strict=True)]
    path = tmp_path_factory.mktemp("log") / "log.csv"
    path.write_text("\n".join(["src,dst,t", *np.random.default_rng(0).permutation(rows)]) + "\n")
    return path


@pytest.fixture(scope="module")
def stored(log: Path) -> Path:
    build_index(log, log.parent / "index", CONFIG, memory=MEMORY)
    return log.parent / "index"


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_links_are_those_of_the_log(log: Path, stored: Path) -> None:
    events, read = cawn.read(stored), cawn.read(log)
    for name in ("src", "dst", "t", "rows", "labels"):
        np.testing.assert_array_equal(getattr(events, name), getattr(read, name))
    assert (events.reading, events.num_nodes) == (read.reading, read.num_nodes)
    assert events.stored is not None
    assert digest_of_links(events) == digest_of_links(read) == events.stored.description["contents"]
    assert digest_of_links(events[:50]) == digest_of_links(read[:50])


def test_training_uses_the_stored_index_and_links_its_files(log: Path, stored: Path, tmp_path: Path) -> None:
    run = cawn.train(cawn.read(stored), CONFIG, out=tmp_path / "stored", **QUIET)
    other = cawn.train(cawn.read(log), CONFIG, out=tmp_path / "built", **QUIET)
    assert_same_weights(run, other)
    assert run.results == other.results
    ours, theirs = (json.loads((tmp_path / name / "run.json").read_text()) for name in ("stored", "built"))
    assert ours["network"]["files"] == theirs["network"]["files"]
    inodes = {path.stat().st_ino for path in stored.rglob("*.npy")}
    linked = [path for path in (tmp_path / "stored").rglob("*.npy") if path.stat().st_ino in inodes]
    assert len(linked) == len(list((tmp_path / "stored").rglob("*.npy"))) > 20  # of the links and of the index
    assert not list((tmp_path / "built").glob("index*"))
    predictor = cawn.LinkPredictor.load(tmp_path / "stored", device="cpu")
    assert predictor.score(["node1"], ["node2"], [150]).shape == (1,)


def test_an_index_of_other_settings_is_not_used(stored: Path, tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="does not match .it has decays 8 from .*, but 1 from 0.1"):
        cawn.train(cawn.read(stored), CONFIG.with_(alpha=0.1), out=tmp_path / "run", **QUIET)
    with pytest.warns(UserWarning, match="its unit of time is .*; building one in memory"):
        cawn.train(
            cawn.read(stored),
            CONFIG.with_(alpha=tuple(summary(stored)["facts"]["alpha"])),
            **QUIET | {"task": cawn.Task(split=cawn.TimeSplit(train_share=0.5), baselines=False)},
        )


def test_parts_of_the_stored_index_are_enough(stored: Path) -> None:
    plain = {"rates": False, "since": False, "two_steps": False, "transitions": False}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cawn.train(cawn.read(stored), CONFIG.with_(**plain), **QUIET)


def test_a_finished_stage_is_kept(log: Path, stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "index"

    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(indexing, "write_index", interrupt)
        with pytest.raises(KeyboardInterrupt):
            build_index(log, folder, CONFIG, memory=MEMORY)
    with pytest.raises(cawn.StorageError, match="the index is not finished; run the same cawn index command again"):
        cawn.read(folder)
    with pytest.raises(cawn.QueryError, match="unfinished index of other data or columns"):
        build_index(log, folder, CONFIG, memory=MEMORY, time="dst")
    monkeypatch.setattr(indexing, "write_columns", interrupt)
    found = build_index(log, folder, CONFIG, memory=MEMORY)
    assert {name.split("/")[-1] for name in files(folder)} == {name.split("/")[-1] for name in files(stored)}
    assert found["index"]["files"] == read_stored(stored, verify=True).stored.description["index"]["files"]


@pytest.mark.parametrize("stage", ["dividing nodes", "sorting pairs", "numbering next"])
def test_an_interrupted_index_leaves_nothing_half_done(
    log: Path, stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stage: str
) -> None:
    """Written in pieces, because of little memory."""
    folder = tmp_path / "index"
    monkeypatch.setattr(files_of_index, "memory_to_build", lambda *_: 2**60)

    @contextmanager
    def report(title: str, *_: object, **__: object) -> Iterator[Callable[[float], None]]:
        if title == stage:
            raise KeyboardInterrupt
        yield lambda _: None

    with pytest.raises(KeyboardInterrupt):
        build_index(log, folder, CONFIG, memory=MEMORY, report=report)
    assert {path.name.split("-")[0] for path in folder.iterdir()} == {".lock", "building.json", "network"}
    build_index(log, folder, CONFIG, memory=MEMORY)
    ours, theirs = ({path.name: path.read_bytes() for path in of.rglob("*.npy")} for of in (folder, stored))
    assert ours == theirs


@pytest.mark.parametrize("name", ["src", "t", "name_ends", "nodes.hop", "nodes.span", "pairs.link"])
def test_damaged_files_are_refused(stored: Path, tmp_path: Path, name: str) -> None:
    """Kernels would read outside of arrays."""
    folder = shutil.copytree(stored, tmp_path / "index")
    (path,) = folder.rglob(f"{name}.npy")
    content = path.read_bytes()
    path.write_bytes(content[:128] + b"\xff" * (len(content) - 128))
    with pytest.raises(cawn.StorageError, match=rf"{name}\.npy: missing or damaged; build the index again"):
        cawn.train(cawn.read(folder), CONFIG, **QUIET)


def test_opening_notices_files_of_another_size(stored: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(stored, tmp_path / "index")
    (path,) = folder.rglob("nodes.logsum.npy")
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(cawn.StorageError, match=r"nodes.logsum.npy: missing or damaged"):
        cawn.read(folder)


def test_a_build_that_fails_leaves_nothing(tmp_path: Path) -> None:
    path, folder = tmp_path / "log.csv", tmp_path / "index"
    path.write_text("src,dst,t\na,b,1\nb,c,noon\n")
    with pytest.raises(cawn.DataError, match="noon"):
        build_index(path, folder, CONFIG, memory=MEMORY)
    assert not folder.exists()
    path.write_text("src,dst,t\n" + "".join(f"a{i % 5},b{i % 3},{i}\n" for i in range(40)))
    assert build_index(path, folder, CONFIG, memory=MEMORY)["links"] == 40
    with pytest.raises(cawn.QueryError, match="the folder of the input; choose a folder outside of it"):
        build_index(tmp_path, tmp_path / "other", CONFIG, memory=MEMORY)


def test_folders_that_are_refused(log: Path, stored: Path, tmp_path: Path) -> None:
    before = files(stored)
    with pytest.raises(cawn.QueryError, match="holds an index already"):
        build_index(log, stored, CONFIG, memory=MEMORY)
    assert files(stored) == before
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(cawn.QueryError, match=r"is not empty \(it holds 'notes.txt'\)"):
        build_index(log, tmp_path, CONFIG, memory=MEMORY)
    (tmp_path / "used").mkdir()
    with FolderLock(tmp_path / "used"), pytest.raises(cawn.StorageError, match="another process is writing"):
        build_index(log, tmp_path / "used", CONFIG, memory=MEMORY)
    with pytest.raises(cawn.QueryError, match="system tgat has no index to store"):
        build_index(log, tmp_path / "new", cawn.systems.settings_type("tgat")(), memory=MEMORY)
    with pytest.raises(cawn.DataError, match="is an index folder; leave out src"):
        cawn.read(stored, src="u")


def test_a_full_disk_is_noticed_before(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "_free_bytes", lambda _: 1_000)
    with pytest.raises(cawn.StorageError, match=r"0.0 GB are free on this disk, but about 0.0 GB are needed; free"):
        build_index(log, tmp_path / "index", CONFIG, memory=MEMORY)


@pytest.mark.parametrize("damage", ["shorter", "other", "description"])
def test_damage(log: Path, tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "index"
    found = build_index(log, folder, CONFIG, memory=MEMORY)
    path = folder / found["network"]["folder"] / "src.npy"
    content = path.read_bytes()
    if damage == "shorter":
        path.write_bytes(content[:-4])
    elif damage == "other":
        path.write_bytes(content[:-4] + b"\xff\xff\xff\x7f")
    else:
        write_sealed(folder / "index.json", found | {"links": 599})
    with pytest.raises(cawn.StorageError, match=r"damaged.*; build the index again \(cawn index\)"):
        read_stored(folder, verify=True)
