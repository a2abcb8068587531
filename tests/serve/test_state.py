"""The store of a live state: one server at a time, damage, disks that fail, copies, and states of earlier versions."""

import json
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

import cawn
import cawn.serve.writer
from cawn.serve.links import SubmittedLinks
from cawn.serve.live_info import live_info
from cawn.serve.sources.entries import RejectedEntries
from cawn.serve.state import open_state
from cawn.serve.store import FILE, KeyUse, LiveStore, backup, restore
from cawn.serve.weights import KeptWeights
from cawn.serve.writer import KeyConflict, LateLinks
from former_state import block, write_catalog, write_state, write_weights
from live import Live, failing_disk


@pytest.fixture
def run(runs: dict[str, Path], tmp_path: Path) -> Path:
    """A copy of a run with integer names, to be changed."""
    return Path(shutil.copytree(runs["integers"], tmp_path / "run"))


def contents(predictor: cawn.LinkPredictor) -> list:
    """History, names and scores."""
    state = predictor.snapshot()
    columns = [getattr(state.events, name).tolist() for name in ("src", "dst", "t")]
    return [*columns, state.identity, predictor.nodes(), predictor.score([1, "7.0", "x"], [2, 3, 4], 2_000).tolist()]


def test_keys_belong_to_their_links(run: Path, tmp_path: Path) -> None:
    """However these are written; and the newest are kept."""
    live = Live(run, late="refuse")
    first = live.add([1], [2], [901], key="a")
    with pytest.raises(LateLinks):
        live.add([1], [2], [5], key="late")
    assert live.add([1], [2], [905], key="late").added == 1, "H16: it was not used up"
    assert live.add(["1"], ["2.0"], ["901"], key="a") == first
    with pytest.raises(KeyConflict, match="'a' was used with other links"):
        live.add([1], [3], [901], key="a")
    live.stop()
    store = LiveStore(tmp_path / "small", max_keys=10)
    for i in range(40):
        store.commit(None, {f"k{i}": KeyUse(b"", first)}, {})
    known = [i for i in range(40) if store.find_key(f"k{i}") is not None]
    assert known == list(range(40 - len(known), 40))
    assert 10 <= len(known) <= 12
    store.close()


def test_one_server_at_a_time(run: Path) -> None:
    live = Live(run)
    with pytest.raises(cawn.StorageError, match="another process uses this state"):
        open_state(run, device="cpu", threads=1)
    with pytest.raises(cawn.StorageError, match="another process uses this state"):
        restore(run / "live" / FILE, run / "live")
    live.stop()
    Live(run).stop()


def flip(path: Path) -> None:
    """Change one bit of the times of the links that were added."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        (position, t) = db.execute("SELECT position, t FROM commits ORDER BY position DESC").fetchone()
        db.execute("UPDATE commits SET t = ? WHERE position = ?", (bytes([t[0] ^ 1]) + t[1:], position))


def change(statement: str):
    def apply(path: Path) -> None:
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute(statement)

    return apply


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (flip, "damaged .checksum.*backup"),
        (lambda path: path.write_bytes(b"not a database" * 100), "not a database"),
        (lambda path: path.write_bytes(path.read_bytes()[:5_000]), "malformed"),
        (change("UPDATE facts SET value = '3' WHERE name = 'format'"), "another version of cawn"),
        (change("UPDATE facts SET value = 'x' WHERE name = 'run'"), "belongs to another run"),
        (change("UPDATE facts SET value = '[' || value WHERE name = 'calibration'"), "damaged"),
        (change("DROP TABLE offsets"), "no such table"),
    ],
)
def test_damage_is_one_line(run: Path, damage, message: str) -> None:
    """H10: and what cannot be opened is not left locked."""
    live = Live(run)
    live.add([1], [2], [901])
    live.store.set_facts(calibration="{}")
    live.stop()
    damage(run / "live" / FILE)
    for _ in range(2):
        with pytest.raises(cawn.StorageError, match=message) as caught:
            open_state(run, device="cpu", threads=1)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("statement", "change", "left"),
    [
        ("COMMIT", lambda live: live.add([1], [2], [902], key="a"), 121),
        ("VACUUM", lambda live: live.writer.remove(links=100), 100),
    ],
)
def test_after_a_failed_sync_nothing_is_written_until_a_restart(
    run: Path, monkeypatch, statement: str, change, left: int
) -> None:
    disk, live = failing_disk(monkeypatch), Live(run)
    live.add([1], [2], [901])
    disk.failing, disk.error = statement, "SQLITE_IOERR_FSYNC"
    with pytest.raises(cawn.StorageError, match=r"could not be synced.*restart"):
        change(live)
    disk.failing = None
    for write in (
        lambda: live.add([1], [2], [903]),
        lambda: live.writer.remove(name=1),
        lambda: live.store.set_facts(serving="0"),
    ):
        with pytest.raises(cawn.StorageError, match="restart"):
            write()
    assert live.predictor.num_links == left
    live.stop()
    again = Live(run)
    assert again.predictor.num_links == left
    assert again.add([1], [2], [902], key="a").added == 1
    again.stop()


def test_links_that_are_stored_and_cannot_be_seen_end_all_writing(run: Path, monkeypatch) -> None:
    live = Live(run)
    with monkeypatch.context() as patched:
        patched.setattr(live.predictor, "publish", lambda extension: [][0])
        with pytest.raises(cawn.StorageError, match=r"stored but .*restart"):
            live.add([1], [2], [901], key="a")
    with pytest.raises(cawn.StorageError, match="restart"):
        live.add([1], [2], [901], key="a")
    live.stop()
    again = Live(run)
    assert again.add([1], [2], [901], key="a")[:2] == (1, 0)
    assert again.predictor.num_links == 121
    again.stop()


def test_a_backup_of_a_store_in_use(run: Path, tmp_path: Path) -> None:
    """Restored, it is what was there, bit for bit."""
    live, target = Live(run), tmp_path / "a folder 100%?#" / "backup"
    live.add([1, "x"], ["7.0", 3], [901, 950], ids=["a", "b"], key="k", offsets={"s": "1"})
    before = contents(live.predictor)
    backup(run / "live", target)
    live.add([1], [2], [999])
    with pytest.raises(cawn.QueryError, match="exists"):
        backup(run / "live", target)
    live.stop()
    for bad in (b"not a database", b""):
        (tmp_path / "bad").write_bytes(bad)
        with pytest.raises(cawn.StorageError, match="not a backup"):
            restore(tmp_path / "bad", run / "live")
    with pytest.raises(cawn.StorageError, match="is not a file"):
        restore(tmp_path / "none", run / "live")
    with pytest.raises(cawn.StorageError, match="holds no state"):
        backup(tmp_path, tmp_path / "other")
    assert live_info(run / "live")["links"] == 123, "what cannot be restored replaces nothing"
    restore(target, run / "live")
    again = Live(run)
    assert contents(again.predictor) == before
    assert again.store.offsets == {"s": "1"}
    assert again.add([1, "x"], [7, 3], [901, 950], ids=["a", "b"], key="k").added == 2
    assert again.predictor.num_links == 122
    again.stop()


def test_what_info_says(run: Path) -> None:
    assert live_info(run / "live") is None
    live = Live(run)
    live.add([1], ["new"], [901], offsets={"redis:s": "0-0:7-0"})
    for position in ("1-0", "2-0"):
        RejectedEntries(run / "live").add("redis:s", position, "x", "not JSON")
    found = live_info(run / "live")  # while it is used
    assert (found["links"], found["nodes"], found["rejected"]) == (121, 13, 2)
    assert found["sources"] == {"redis:s": "0-0:7-0"}
    assert found["bytes"] >= live.store.num_bytes > 0
    live.stop()


# States of earlier versions


FIRST = {"src": [1, "7.0"], "dst": [2, "x"], "t": [901, 902], "ids": ["a", None], "key": "k1", "offsets": {"s": "1"}}
SECOND = {"src": ["y"], "dst": [5], "t": [890], "ids": ["c"], "duplicates": 1, "key": "k2", "offsets": {"s": "2"}}


def test_the_state_of_an_earlier_version_is_imported(run: Path) -> None:
    """H2, H4: times are not read again, names have the form of the run."""
    served = cawn.LinkPredictor.load(run, device="cpu", threads=1)
    served.replace_weights({name: value + 0.1 for name, value in weights_of(served).items()})
    void = {"src": [1], "dst": [2], "t": [5]}, {"void": 2}
    folder = write_state(run, [block(1, FIRST)], [block(2, *void, SECOND), b"torn"])
    write_catalog(folder, {"k1": (1, 2, 0, 2, 1)}, {"s": "1"})
    write_weights(folder, 1, served)
    live = Live(run)
    expected = cawn.LinkPredictor.load(run, device="cpu", threads=1)
    expected.append([1, 7, "y"], [2, "x", 5], [901, 902, 890], link_id=["a", "b", "c"])
    assert contents(live.predictor)[4] == expected.nodes()
    np.testing.assert_array_equal(live.predictor.snapshot().events.t, expected.snapshot().events.t)
    np.testing.assert_array_equal(
        live.predictor.score([7, "y"], ["x", 1], 910), expected.score([7, "y"], ["x", 1], 910)
    )
    assert live.store.offsets == {"s": "2"}
    assert live.add([1, "7.0"], [2, "x"], [901, 902], ids=["a", None], key="k1") == (2, 0, 2, 1)
    assert live.add([1], [2], [901], ids=["a"])[:2] == (0, 1)
    assert live.add(["y"], [5], [890], ids=["c"], key="k2")[:3] == (1, 1, 1)
    assert KeptWeights(live.store).serve(live.predictor) == 1
    assert all((value == weights_of(served)[name]).all() for name, value in weights_of(live.predictor).items())
    before = contents(live.predictor)
    live.stop()
    again = Live(run)
    KeptWeights(again.store).serve(again.predictor)
    assert contents(again.predictor) == before
    again.stop()


def weights_of(predictor: cawn.LinkPredictor) -> dict:
    return predictor.snapshot().model.system.module.state_dict()


def test_the_newest_snapshot_of_an_earlier_version(run: Path) -> None:
    predictor = cawn.LinkPredictor.load(run, device="cpu", threads=1)
    predictor.append([1, 7], [2, "x"], [901, 902])
    folder = write_state(run, [block(2, SECOND)], first=2)
    predictor.save(folder / "snapshots" / f"{1:020d}" / "run")
    (folder / "snapshots" / f"{2:020d}").mkdir()  # of a server that was killed
    live = Live(run)
    predictor.append(["y"], [5], [890])
    assert contents(live.predictor)[:3] == contents(predictor)[:3]
    assert live.predictor.nodes() == predictor.nodes()
    live.stop()


@pytest.mark.parametrize(
    ("segments", "state", "message"),
    [
        ([[block(1, FIRST)[:-3] + b"\0\0\0" + block(2, SECOND)]], None, "damaged at offset"),
        ([[block(1, FIRST)[:-1]], [block(2, SECOND)]], None, "damaged at offset"),
        ([[block(2, FIRST)]], None, "begins at record 2, expected 1"),
        ([[block(1, {"src": [1], "dst": [2]})]], None, "cannot be read"),
        ([[block(1, {"src": [1.5], "dst": [2], "t": [1]})]], None, "record 1 of the log"),
        ([], "{", "cannot be read"),
        ([], "[" * 100_000, "cannot be read"),
        ([], '{"run": "x"}', "belongs to another run"),
    ],
)
def test_a_damaged_state_of_an_earlier_version(run: Path, segments: list, state: str | None, message: str) -> None:
    folder = write_state(run, *segments)
    if state is not None:
        (folder / "state.json").write_text(state)
    for _ in range(2):
        with pytest.raises(cawn.StorageError, match=message) as caught:
            open_state(run, device="cpu", threads=1)
        assert "\n" not in str(caught.value)


# Submitting


def test_submissions_that_wait_are_one_commit(run: Path) -> None:
    live = Live(run)
    seen: list[int] = []
    live.writer.observers += [lambda links: 1 / 0, lambda links: seen.append(len(links))]
    found = live.submit_together([(SubmittedLinks([1], [2], [901 + i]), {}) for i in range(50)])
    assert [receipt[:2] for receipt in found] == [(1, 0)] * 50
    live.writer.between(lambda: None)
    assert (live.writer.groups, live.writer.added, seen) == (1, 50, [50])
    live.stop()


def test_the_queue_is_bounded_and_stored_at_a_stop(run: Path) -> None:
    state = open_state(run, device="cpu", threads=1)
    writer = cawn.serve.writer.Writer(*state, max_queue=10, max_queue_bytes=10_000)
    links = SubmittedLinks([1] * 5, [2] * 5, [901] * 5)
    first, cancelled = writer.submit(links), writer.submit(links)
    with pytest.raises(cawn.serve.writer.QueueFull):
        writer.submit(SubmittedLinks([1], [2], [901]))
    for large in (SubmittedLinks([1] * 11, [2] * 11, [901] * 11), SubmittedLinks(["x" * 10_000], [2], [901])):
        with pytest.raises(cawn.QueryError, match="at most 10 links and 10,000 bytes"):
            writer.submit(large)
    assert cancelled.cancel()
    writer.start()
    writer.stop()
    assert first.result(0).added == 5
    assert (state.predictor.num_links, writer.links_queued, writer.bytes_queued) == (125, 0, 0)
    with pytest.raises(cawn.StorageError, match="stopping"):
        writer.submit(links)
    writer = cawn.serve.writer.Writer(*state, max_queue=3)
    for _ in range(3):
        writer.submit(SubmittedLinks([], [], []))
    with pytest.raises(cawn.serve.writer.QueueFull):  # empty submissions are bounded too
        writer.submit(SubmittedLinks([], [], []))
    state.store.close()


def test_invalid_arguments(run: Path) -> None:
    live = Live(run)
    for key in ("", "x" * 256, 7):
        with pytest.raises(cawn.QueryError, match="the idempotency key is"):
            live.add([1], [2], [901], key=key)
    for ids, message in (([1.5], "ids hold 1.5"), ([1, 2], "expected an id for each of the 1 links")):
        with pytest.raises(cawn.DataError, match=message):
            live.add([1], [2], [901], ids=ids)
    with pytest.raises(cawn.QueryError, match="late is 'drop'"):
        cawn.serve.writer.Writer(live.predictor, live.store, late="drop")
    with pytest.raises(ZeroDivisionError):
        live.writer.between(lambda: 1 / 0)
    live.stop()


def test_the_size_of_links_is_estimated() -> None:
    for attributes in (None, [[1.5, 20.0]] * 1000, [{"amount": 17.5, "currency": "EUR"}] * 1000, ["text"] * 1000):
        numbers = list(range(1000))
        links = SubmittedLinks([f"node {i}" for i in numbers], numbers, [0.5] * 1000, attributes, ["id"] * 1000)
        assert 0.5 < links.num_bytes / len(json.dumps(asdict(links))) < 2


def test_kills_lose_nothing_and_double_nothing() -> None:
    tool = Path(__file__).parents[2] / "tools" / "server_kills.py"
    options = ["--kills", "4", "--most", "20"]
    done = subprocess.run([sys.executable, tool, *options], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "lost 0, doubled 0, wrong receipts 0" in done.stdout
