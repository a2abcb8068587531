"""The state after a restart, whatever happened before: the snapshot, the log after it, copies of both."""

import json
import shutil
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import cawn
from cawn.data import laws
from cawn.data.array_folders import write_arrays
from cawn.data.hashing import write_sealed
from cawn.files import FolderLock
from cawn.learn import index_cache
from cawn.learn.run_info import run_info
from cawn.learn.runs import read_description
from cawn.predictor import LinkPredictor
from cawn.serve.ingest import Ingest, Receipt
from cawn.serve.links import Links
from cawn.serve.log import LinkLog, Record
from cawn.serve.snapshots import LiveState, Snapshots, open_state
from cawn.systems.cawn.config import Config

SMALL = Config(alpha=0.01, num_walks=4, length=1, dim=4, frequencies=2, epochs=1)
LINKS, START = 400, 20_000  # the times of new links begin there


@pytest.fixture(scope="module")
def trained(tmp_path_factory) -> Path:
    plain = laws.triadic_closure(30, LINKS, seed=0).events
    events = cawn.Events(plain.src, plain.dst, plain.t, labels=[f"n{i}" for i in range(30)])
    folder = tmp_path_factory.mktemp("runs") / "run"
    cawn.train(events, SMALL, out=folder, quiet=True, kinds=("random",), device="cpu", threads=1)
    return folder


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return shutil.copytree(trained, tmp_path / "run")


class Live:
    """A service without HTTP."""

    def __init__(self, run: Path, folder: Path | None = None, **options: object) -> None:
        self.done: list[tuple[int, int]] = []
        self.state = opened(run, folder, progress=lambda *counts: self.done.append(counts))
        self.predictor, self.log = self.state.predictor, self.state.log
        self.ingest = Ingest(self.predictor, self.log)
        self.snapshots = Snapshots(self.predictor, self.log, self.ingest, **options)
        self.ingest.start()
        self.snapshots.start()

    def add(self, first: int, count: int = 10, **options: object) -> Receipt:
        return self.ingest.submit(links(first, count), **options).result()

    def stop(self, *, write: bool = True) -> None:
        self.ingest.stop()
        self.snapshots.stop(write=write)
        self.log.close()

    def kill(self) -> None:
        """End without a last snapshot, and without what a clean stop writes to the catalog."""
        self.ingest.stop()
        self.snapshots.stop(write=False)
        self.log.store = lambda: None
        self.log.close()


def opened(run: Path, folder: Path | None = None, **options: object) -> LiveState:
    return open_state(run, folder, device="cpu", threads=1, **options)


def links(first: int, count: int = 10) -> Links:
    """Links with the numbers from `first` on; each adds a node."""
    numbers = range(first, first + count)
    names = [f"n{i % 30}" for i in numbers], [f"new {i}" for i in numbers]
    return Links(*names, [START + i for i in numbers], None, [f"e{i}" for i in numbers])


def added(predictor: LinkPredictor) -> list[int]:
    """The numbers of the links that were added."""
    times = predictor.snapshot().events.t
    return (times[times >= START] - START).tolist()


def snapshots(run: Path) -> list[str]:
    return sorted(path.name for path in (run / "live" / "snapshots").iterdir())


def recovered(run: Path, folder: Path | None = None) -> tuple[list[int], int, list[str]]:
    """The links that are there after a restart, how many were replayed, and the problems."""
    state = opened(run, folder)
    found = added(state.predictor), state.replayed, state.problems
    state.log.close()
    return found


def test_all_links_are_there_after_a_restart(run: Path) -> None:
    live = Live(run)
    assert live.state.replayed == 0
    assert live.add(0) == Receipt(10, 0, 10, 1)
    live.add(10)
    live.kill()
    again = Live(run)
    assert (added(again.predictor), again.state.replayed) == (list(range(20)), 20)
    assert again.done[0] == (0, 20)
    assert again.done[-1] == (20, 20)
    assert again.add(15) == Receipt(5, 5, 5, again.predictor.version)
    now = START + 100
    scores = again.predictor.score("n1", ["n2", "new 3"], now)
    again.stop()
    assert recovered(run) == (list(range(25)), 0, [])
    third = opened(run)
    np.testing.assert_array_equal(third.predictor.score("n1", ["n2", "new 3"], now), scores)
    third.log.close()


def test_the_run_itself_is_not_changed(run: Path, trained: Path) -> None:
    before = LinkPredictor.load(run, device="cpu").identity
    live = Live(run)
    live.add(0)
    live.stop()
    assert LinkPredictor.load(run, device="cpu").identity == before
    assert {path.name for path in run.iterdir()} - {path.name for path in trained.iterdir()} == {"live"}
    assert run_info(run)["files"]["live"] > 0
    assert run_info(run)["data"]["links"] == LINKS


def test_snapshots_are_written_in_the_background_and_pruned(run: Path) -> None:
    live = Live(run, every=50)  # of 400 links
    live.log._segment_bytes = 1_000
    for first in range(0, 400, 10):
        live.add(first)
    live.snapshots.write()
    live.stop()
    assert len(snapshots(run)) == 2
    older = int(snapshots(run)[0])
    log = LinkLog(run / "live")
    assert 1 < log.first <= older + 1
    assert [record.position for record in log.replay()][-1] == 40
    log.close()
    assert recovered(run) == (list(range(400)), 0, [])


def test_nothing_new_needs_no_snapshot(run: Path) -> None:
    live = Live(run)
    assert live.snapshots.write() is None
    live.add(0)
    assert live.snapshots.write() is not None
    assert live.snapshots.write() is None
    live.stop()
    assert len(snapshots(run)) == 1


def test_links_arrive_while_a_snapshot_is_written(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    live = Live(run)
    live.add(0)

    saver = live.predictor.saver

    def interrupted() -> Callable[[Path], None]:
        save = saver()
        return lambda target: (live.add(10), save(target))

    monkeypatch.setattr(live.predictor, "saver", interrupted)
    path = live.snapshots.write()
    assert path is not None
    live.kill()
    state = opened(run)
    assert (added(state.predictor), state.replayed) == (list(range(20)), 10)
    state.log.close()


@pytest.mark.parametrize("damage", ["run", "manifest"])
def test_a_damaged_snapshot_is_reported_and_the_one_before_is_used(run: Path, damage: str) -> None:
    live = Live(run)
    for first in (0, 10, 20):
        live.add(first)
        live.snapshots.write()
    live.stop()
    newest = run / "live" / "snapshots" / snapshots(run)[-1]
    where = {"run": "run/network-*/t.npy", "manifest": "snapshot.json"}[damage]
    (path,) = newest.glob(where)
    content = bytearray(path.read_bytes())
    content[-3 if len(content) > 3 else 0] ^= 1
    path.write_bytes(content)
    found, replayed, problems = recovered(run)
    assert (found, replayed) == (list(range(30)), 10)
    assert len(problems) == 1
    assert newest.name in problems[0]
    assert "\n" not in problems[0]
    assert snapshots(run)[-1].endswith(".damaged")
    again = Live(run)
    again.add(30)
    again.stop()
    assert len(snapshots(run)) == 2
    assert recovered(run) == (list(range(40)), 0, [])


def test_without_any_valid_snapshot_the_whole_log_is_replayed_or_nothing(run: Path, tmp_path: Path) -> None:
    live = Live(run)
    live.add(0)
    live.stop()
    (run / "live" / "snapshots" / snapshots(run)[0] / "snapshot.json").unlink()
    found, replayed, problems = recovered(run)
    assert (found, replayed, len(problems)) == (list(range(10)), 10, 1)
    live = Live(run)
    for first in (10, 20, 30):
        live.add(first)
        live.log.finish_segment()
        live.snapshots.write()
    live.stop()
    for name in snapshots(run):
        (run / "live" / "snapshots" / name / "snapshot.json").unlink()
    with pytest.raises(cawn.StorageError, match=r"no valid snapshot, and the log begins at record"):
        opened(run)


def test_a_lost_log_is_not_taken_for_a_new_one(run: Path) -> None:
    live = Live(run)
    live.add(0)
    live.stop()
    shutil.rmtree(run / "live" / "log")
    for path in (run / "live").glob("catalog.sqlite*"):
        path.unlink()
    with pytest.raises(cawn.StorageError, match=r"ends at record 0, but .* includes 1; restore"):
        opened(run)
    assert len(snapshots(run)) == 1


def test_keys_and_offsets_survive_a_kill(run: Path) -> None:
    live = Live(run)
    first = live.add(0, key="a", offsets={"redis:s": "7-0"})
    live.snapshots.write()
    second = live.add(10, key="b", offsets={"redis:s": "8-0"})
    live.kill()
    again = Live(run)
    assert again.log.offset("redis:s") == "8-0"
    assert again.add(0, key="a") == first
    assert again.add(10, key="b")[:3] == second[:3]
    again.stop()
    assert recovered(run)[0] == list(range(20))


def test_a_removed_catalog_is_built_anew(run: Path) -> None:
    live = Live(run)
    live.add(0, key="a", offsets={"s": 1})
    live.snapshots.write()
    live.add(10, key="b", offsets={"s": 2})
    live.kill()
    for path in (run / "live").glob("catalog.sqlite*"):
        path.unlink()
    again = Live(run)
    assert again.log.offset("s") == 2
    assert again.add(0, key="a")[:2] == (10, 0)
    assert again.add(10, key="b")[:3] == (10, 0, 10)
    again.stop()
    assert recovered(run)[0] == list(range(20))


def test_offsets_survive_without_the_catalog_and_the_segments(run: Path, tmp_path: Path) -> None:
    live = Live(run)
    live.add(0, offsets={"s": 1, "other": 5})
    for first in (10, 20):
        live.log.finish_segment()
        live.snapshots.write()
        live.add(first, offsets={"s": first})
    live.log.finish_segment()
    live.snapshots.write()
    live.add(30)
    assert live.log.first > 1
    (tmp_path / "copy").mkdir()
    shutil.copy(run / "live" / "state.json", tmp_path / "copy")
    for name in ("snapshots", "log"):  # while it runs
        shutil.copytree(run / "live" / name, tmp_path / "copy" / name)
    live.kill()
    copy = opened(run, tmp_path / "copy")
    assert (added(copy.predictor), copy.log.offsets) == (list(range(40)), {"s": 20, "other": 5})
    copy.log.close()
    again = LinkLog(tmp_path / "copy")
    assert again.offsets == {"s": 20, "other": 5}
    again.close()


def test_void_records_are_not_added(run: Path) -> None:
    live = Live(run)
    live.add(0)
    live.log.append([bad := Record(Links(["n1"], ["n2"], ["never"]))])
    live.log.append([Record(Links([], [], []), void=bad.position)])
    live.add(10)
    live.kill()
    assert recovered(run) == (list(range(20)), 20, [])


def test_a_record_refused_just_before_a_kill_is_voided(run: Path) -> None:
    live = Live(run)
    live.add(0)
    live.log.append([Record(Links(["n1"], ["n2"], ["never"]))])
    live.kill()
    found, _, problems = recovered(run)
    assert found == list(range(10))
    assert len(problems) == 1
    assert "record 2 of the log cannot be added" in problems[0]
    assert recovered(run) == (list(range(10)), 10, [])


def test_a_backup_is_a_copy_of_the_folder(run: Path, tmp_path: Path) -> None:
    live = Live(run)
    live.add(0)
    live.stop()
    shutil.copytree(run / "live", tmp_path / "copy")
    live = Live(run)
    live.add(10)
    live.stop()
    assert recovered(run, tmp_path / "copy")[0] == list(range(10))


def test_a_backup_while_running(run: Path, tmp_path: Path) -> None:
    live = Live(run)
    live.add(0, key="a")
    (run / "live" / "weights").mkdir()
    (run / "live" / "weights" / "best").write_bytes(b"weights")
    live.snapshots.backup(tmp_path / "first")
    assert (tmp_path / "first" / "weights" / "best").read_bytes() == b"weights"
    live.add(10, key="b")
    live.snapshots._write = lambda: None  # as if links arrived after the snapshot
    live.snapshots.backup(tmp_path / "second")
    with pytest.raises(cawn.QueryError, match="exists"):
        live.snapshots.backup(tmp_path / "second")
    live.add(20)
    for name, count in (("first", 10), ("second", 20)):
        copy = Live(run, tmp_path / name)
        assert added(copy.predictor) == list(range(count))
        assert copy.add(0, key="a") == (10, 0, 10, 1)
        copy.add(count)
        copy.stop()
    assert live.add(30) == Receipt(10, 0, 10, live.predictor.version)
    live.kill()
    assert recovered(run)[0] == list(range(40))


def test_the_state_belongs_to_one_run(run: Path, tmp_path: Path) -> None:
    live = Live(run, tmp_path / "state")
    with pytest.raises(cawn.StorageError, match="another process uses this state"):
        opened(run, tmp_path / "state")
    live.add(0)
    live.stop()
    with FolderLock(run) as lock:
        predictor = LinkPredictor.load(run, device="cpu")
        predictor.append(["n1"], ["n2"], [START])
        predictor.save_links(lock)
    with pytest.raises(cawn.StorageError, match=r"the links or weights of .* were changed since"):
        opened(run, tmp_path / "state")
    (tmp_path / "state" / "state.json").write_text("{")
    with pytest.raises(cawn.StorageError, match=r"state\.json: damaged"):
        opened(run, tmp_path / "state")


def test_a_state_of_the_former_format_is_opened(run: Path) -> None:
    """Runs in it also store an index, which is ignored; the same runs elsewhere have to be trained again."""
    live = Live(run)
    live.add(0)
    live.snapshots.write()
    live.add(10)
    live.kill()
    (snapshot,) = (run / "live" / "snapshots").glob("*/run")
    for folder in (run, snapshot):
        arrays = {"history.time": np.arange(3)}
        name, files = write_arrays(folder, "index", arrays)
        content = read_description(folder) | {"format": 4, "index": {"folder": name, "files": files}}
        write_sealed(folder / "run.json", content)
    again = Live(run)
    assert (added(again.predictor), again.state.replayed, again.state.problems) == (list(range(20)), 10, [])
    written = again.snapshots.write()
    again.stop()
    assert not list((written / "run").glob("index*"))
    assert "index" not in json.loads((written / "run" / "run.json").read_text())
    assert recovered(run) == (list(range(20)), 0, [])
    for folder, state in ((run, run.parent / "new"), (snapshot, None)):
        with pytest.raises(cawn.StorageError, match="in format 4, and this one reads format 5; the run must be"):
            opened(folder, state)
    with pytest.raises(cawn.StorageError, match="in format 4"):
        LinkPredictor.load(run)


def test_snapshots_have_no_cache(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is loaded once at most, as the next stop writes another."""
    monkeypatch.setattr(index_cache, "SLOW", 0.0)
    live = Live(run)
    live.add(0)
    live.stop()
    assert recovered(run) == (list(range(10)), 0, [])
    for thread in threading.enumerate():
        if thread.name == index_cache.WRITER:
            thread.join()
    assert (run / index_cache.FOLDER).exists()
    assert not list((run / "live").rglob(index_cache.FOLDER))


def test_a_failed_snapshot_changes_nothing(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(folder: Path) -> None:
        raise OSError(28, "No space left on device")

    live = Live(run, every=5)
    monkeypatch.setattr(live.predictor, "saver", lambda: fail)
    live.add(0)
    with pytest.raises(cawn.StorageError, match="No space left on device"):
        live.snapshots.write()
    live.add(10, 100)  # the background thread fails too
    while not live.snapshots.problem:
        live.snapshots._thread.join(0.01)
    assert "No space left on device" in live.snapshots.problem
    live.stop(write=False)
    assert snapshots(run) == []
    assert recovered(run)[0] == list(range(110))


def test_the_catalog_of_a_stopped_service_is_complete(run: Path) -> None:
    live = Live(run)
    live.add(0, key="k")
    live.stop()
    with sqlite3.connect(run / "live" / "catalog.sqlite") as db:
        assert db.execute("SELECT count(*) FROM keys").fetchone() == (1,)
        assert db.execute("SELECT value FROM facts WHERE name = 'position'").fetchone() == (1,)
    db.close()
    manifest = json.loads(next((run / "live" / "snapshots").glob("*/snapshot.json")).read_text())
    assert (manifest["position"], manifest["links"]) == (1, LINKS + 10)


def test_kills_lose_nothing_and_double_nothing(run: Path) -> None:
    tool = Path(__file__).parents[2] / "tools" / "server_kills.py"
    options = ["--kills", "4", "--most", "20", "--run", str(run)]
    done = subprocess.run([sys.executable, tool, *options], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "lost 0, doubled 0, wrong receipts 0" in done.stdout
