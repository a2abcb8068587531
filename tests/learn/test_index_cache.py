"""The cache of an index: it makes opening a run faster, and whatever becomes of it, answers stay the same."""

import errno
import os
import shutil
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import cawn
from cawn.data.hashing import read_sealed, write_sealed
from cawn.files import FolderLock
from cawn.index.index import Index
from cawn.learn import index_cache
from cawn.learn.runs import replace_links
from cawn.learn.store import stamp_of
from cawn.predictor import LinkPredictor
from damaged_arrays import BIG, NAN, as_type, put, shorter
from networks import random_events

CONFIG = cawn.Config(alpha=(0.01, 0.1), num_walks=4, length=1, dim=4, frequencies=2, batch_size=256, epochs=1)
RATES = cawn.systems.settings_type("rates")(epochs=1, batch_size=1024)
QUIET = {"task": cawn.Task(negatives=("random",)), "quiet": True, "device": "cpu", "threads": 1}


def links(seed: int) -> cawn.Events:
    events = random_events(seed, num_nodes=20, num_links=300, span=500)
    return cawn.Events(events.src, events.dst, events.t + 0.25, num_nodes=20)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    cawn.train(links(0), CONFIG, out=folder, **QUIET)
    return folder


@pytest.fixture(scope="module")
def expected(trained: Path) -> np.ndarray:
    return scores(trained)


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Building any index takes long."""
    monkeypatch.setattr(index_cache, "SLOW", 0.0)


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(trained, tmp_path / "run"))


@pytest.fixture
def cached(run: Path) -> Path:
    """A run with a cache."""
    with mock.patch.object(index_cache, "SLOW", 0.0):
        scores(run)
    return run


def load(run: Path, **options: bool) -> LinkPredictor:
    predictor = LinkPredictor.load(run, device="cpu", threads=1, **options)
    for thread in threading.enumerate():
        if thread.name == index_cache.WRITER and thread.ident is not None:  # else its starter is about to wait for it
            thread.join()
    return predictor


def scores(run: Path, **options: bool) -> np.ndarray:
    return load(run, **options).score(np.arange(10), np.arange(10, 20), 501)


def maps_its_index(run: Path) -> bool:
    """Whether the run opens without building an index."""
    with mock.patch.object(Index, "of", side_effect=ZeroDivisionError):
        try:
            scores(run)
        except ZeroDivisionError:
            return False
    return True


def size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def arrays(run: Path) -> list[Path]:
    return sorted((run / index_cache.FOLDER).glob("index-*/*.npy"))


def test_runs_store_links_and_weights_alone(tmp_path: Path) -> None:
    """An index of all features takes some 300 bytes per link, the links take 16."""
    events = random_events(0, num_nodes=500, num_links=20_000, span=50_000)
    cawn.train(events, RATES, out=tmp_path / "run", **QUIET)
    predictor = LinkPredictor.load(tmp_path / "run", device="cpu")
    predictor.append([1, 2], [3, 4], [60_000, 60_001])
    predictor.save(tmp_path / "saved")
    state = sum(path.stat().st_size for path in (tmp_path / "run").glob("*.safetensors"))
    for run in (tmp_path / "run", tmp_path / "saved"):
        assert size(run) < 2 * (16 * len(events) + state), run


def test_an_index_that_is_built_at_once_is_not_cached(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = sorted(run.iterdir())
    scores(run)
    assert sorted(run.iterdir()) == before
    monkeypatch.setattr(index_cache, "SLOW", 0.0)
    scores(run, cache=False)
    assert sorted(run.iterdir()) == before


@pytest.mark.usefixtures("slow")
def test_the_second_opening_maps_the_cache(run: Path, expected: np.ndarray) -> None:
    assert not maps_its_index(run)
    np.testing.assert_array_equal(scores(run), expected)
    assert maps_its_index(run)
    np.testing.assert_array_equal(scores(run), expected)
    np.testing.assert_array_equal(scores(run, verify=False), expected)


@pytest.mark.usefixtures("slow")
def test_the_cache_is_no_part_of_the_run(run: Path, tmp_path: Path, expected: np.ndarray) -> None:
    before = (run / "run.json").read_bytes()
    predictor = load(run)
    assert (run / index_cache.FOLDER).exists()
    assert (run / "run.json").read_bytes() == before
    predictor.save(tmp_path / "saved")
    assert not (tmp_path / "saved" / index_cache.FOLDER).exists()
    shutil.rmtree(run / index_cache.FOLDER)
    np.testing.assert_array_equal(predictor.score(np.arange(10), np.arange(10, 20), 501), expected)
    np.testing.assert_array_equal(scores(run), expected)


@pytest.mark.usefixtures("slow")
def test_new_links_make_the_cache_useless(run: Path, expected: np.ndarray) -> None:
    predictor = load(run)
    stale = shutil.copytree(run / index_cache.FOLDER, run.parent / "stale")
    predictor.append(np.arange(10), np.arange(10, 20), [500] * 10)
    replace_links(run, predictor.snapshot().events, names=predictor.snapshot().names)
    assert not (run / index_cache.FOLDER).exists()
    after = predictor.score(np.arange(10), np.arange(10, 20), 501)
    assert (after != expected).any()
    shutil.copytree(stale, run / index_cache.FOLDER)
    np.testing.assert_array_equal(scores(run), after)
    assert maps_its_index(run)
    np.testing.assert_array_equal(scores(run), after)
    assert len(list((run / index_cache.FOLDER).glob("index-*"))) == 1


def test_the_cache_of_another_run_is_ignored(cached: Path, tmp_path: Path) -> None:
    """Of as many links, so that every array has the right shape and range."""
    cawn.train(links(1), CONFIG, out=tmp_path / "other", **QUIET)
    own = scores(tmp_path / "other")
    shutil.copytree(cached / index_cache.FOLDER, tmp_path / "other" / index_cache.FOLDER)
    np.testing.assert_array_equal(scores(tmp_path / "other"), own)
    assert not maps_its_index(tmp_path / "other")


def test_damage_never_changes_an_answer(cached: Path, expected: np.ndarray) -> None:
    rng = np.random.default_rng(0)
    for path in [cached / index_cache.FOLDER / "cache.json", *arrays(cached)]:
        whole = path.read_bytes()
        flipped = bytearray(whole)
        flipped[rng.integers(len(whole))] ^= 1 << rng.integers(8)
        for content in (bytes(flipped), whole[: len(whole) // 2], b"", whole + b"\0", b"[" * 5_000, None):
            path.unlink() if content is None else path.write_bytes(content)
            np.testing.assert_array_equal(scores(cached), expected)
        path.write_bytes(whole)
    assert maps_its_index(cached)


@pytest.mark.usefixtures("slow")
def test_a_damaged_cache_is_replaced(cached: Path) -> None:
    arrays(cached)[3].write_bytes(b"damaged")
    assert not maps_its_index(cached)
    scores(cached)
    assert maps_its_index(cached)
    assert len({path.parent for path in arrays(cached)}) == 1


@pytest.mark.parametrize(
    "wrong",
    [
        {"key": "other"},
        {"folder": "../elsewhere"},
        {"folder": 5},
        {"files": None},
        {"files": {}},
        {"files": {"../src.npy": [1, ""]}},
        {"files": [1]},
    ],
)
def test_a_description_that_makes_no_sense(cached: Path, expected: np.ndarray, wrong: dict) -> None:
    path = cached / index_cache.FOLDER / "cache.json"
    write_sealed(path, read_sealed(path, "") | wrong)
    np.testing.assert_array_equal(scores(cached), expected)
    assert not maps_its_index(cached)


HARM = [
    ("nodes.span", put(1, -5)),
    ("nodes.span", put(1, BIG)),
    ("nodes.span", put(-1, BIG)),
    ("nodes.span", as_type(np.int32)),
    ("nodes.span", shorter),
    ("nodes.time", put(3, NAN)),
    ("nodes.time", put(-1, -1e9)),
    ("nodes.time", shorter),
    ("nodes.time", as_type(np.int64)),
    ("nodes.hop", put(0, -1)),
    ("nodes.hop", put(0, 20)),
    ("nodes.hop", put(1, -2)),
    ("nodes.hop", put(1, BIG)),
    ("nodes.hop", put(2, -1)),
    ("nodes.hop", put(2, BIG)),
    ("nodes.hop", shorter),
    ("nodes.hop", np.asfortranarray),
    ("nodes.logsum", put(0, NAN)),
    ("nodes.logsum", put(0, 1e9)),
    ("nodes.logsum", shorter),
    ("nodes.logsum", lambda array: np.repeat(array, 2, axis=0)),
    ("pairs.keys", lambda array: array[::-1]),
    ("pairs.keys", shorter),
    ("pairs.slots", put(0, BIG)),
    ("pairs.slots", shorter),
    ("pairs.sums", put(0, NAN)),
    ("ways.span", put(1, BIG)),
    ("sources.span", put(1, -1)),
    ("sources.link", put(0, BIG)),
    ("destinations.link", shorter),
    ("partners.partner", put(0, BIG)),
    ("next.span", put(1, -1)),
    ("origins.link", shorter),
    ("all.totals", put(0, NAN)),
    ("all.firsts", put(0, BIG)),
]


@pytest.mark.parametrize(("name", "harm"), HARM, ids=[f"{i}-{name}" for i, (name, _) in enumerate(HARM)])
def test_arrays_that_would_lead_compiled_code_astray_are_ignored(
    cached: Path, expected: np.ndarray, name: str, harm: Callable[[np.ndarray], np.ndarray]
) -> None:
    """Even if their checksums agree."""
    path = next(path for path in arrays(cached) if path.stem == name)
    np.save(path, harm(np.load(path)))
    description = cached / index_cache.FOLDER / "cache.json"
    found = read_sealed(description, "")
    write_sealed(description, found | {"files": found["files"] | {path.name: stamp_of(path.read_bytes())}})
    np.testing.assert_array_equal(scores(cached), expected)
    assert not maps_its_index(cached)


@pytest.mark.usefixtures("slow")
@pytest.mark.parametrize("operation", ["mkdir", "replace", "fsync"])
@pytest.mark.parametrize("error", [errno.EROFS, errno.ENOSPC, errno.EACCES])
def test_a_folder_that_cannot_be_written(run: Path, expected: np.ndarray, operation: str, error: int) -> None:
    with mock.patch.object(os, operation, side_effect=OSError(error, os.strerror(error))):
        np.testing.assert_array_equal(scores(run), expected)
    assert not maps_its_index(run)
    assert not [path for path in run.rglob("*") if path.suffix in (".npy", ".tmp") and "network" not in str(path)]


@pytest.mark.usefixtures("slow")
@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is read-only for root")
def test_a_read_only_folder(run: Path, expected: np.ndarray) -> None:
    run.chmod(0o555)
    try:
        np.testing.assert_array_equal(scores(run), expected)
    finally:
        run.chmod(0o755)


@pytest.mark.usefixtures("slow")
def test_something_else_of_its_name_is_left_alone(run: Path, expected: np.ndarray) -> None:
    (run / index_cache.FOLDER).write_text("mine")
    np.testing.assert_array_equal(scores(run), expected)
    assert (run / index_cache.FOLDER).read_text() == "mine"


@pytest.mark.usefixtures("slow")
def test_one_process_writes_at_a_time(run: Path, expected: np.ndarray) -> None:
    (run / index_cache.FOLDER).mkdir()
    with FolderLock(run / index_cache.FOLDER):
        np.testing.assert_array_equal(scores(run), expected)
    assert not arrays(run)
    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(scores, [run] * 12):
            np.testing.assert_array_equal(found, expected)
    assert len({path.parent for path in arrays(run)}) == 1
    assert maps_its_index(run)
