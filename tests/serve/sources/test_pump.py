"""The thread that moves links from a stream into the log."""

import json
import logging
import threading
from pathlib import Path

import pytest

from cawn.errors import StorageError
from cawn.serve.ingest import LateLinks, QueueFull
from cawn.serve.links import Links
from cawn.serve.sources import Batch, Rejected, SourceError
from cawn.serve.sources import pump as module
from cawn.serve.sources.pump import Pump
from cawn.serve.sources.rejected import RejectedEntries
from stored_links import StoredLinks


class Listed:
    """A source that has batches; a commit removes what it acknowledges, and `close` begins again with the rest."""

    name, lag, known, trimmed, warning = "listed", None, 0, 0, None

    def __init__(self, *batches: Batch) -> None:
        self.left = list(batches)
        self.errors: list[Exception] = []
        self.committed: list[tuple] = []
        self.closed = 0
        self.drained = threading.Event()
        self._waiting = list(batches)

    def read(self, wait: float) -> Batch:
        if self.errors:
            raise self.errors.pop()
        if self._waiting:
            return self._waiting.pop(0)
        self.drained.set()
        threading.Event().wait(0.001)
        return Batch(Links([], [], []), [])

    def offsets(self, batch: Batch) -> dict[str, str]:
        return {"listed": str(batch.positions[-1][0])}

    def commit(self, batch: Batch) -> None:
        self.committed += [*batch.positions, *batch.others]
        self.left = [each for each in self.left if not set(each.positions) <= set(self.committed)]

    def close(self) -> None:
        self.closed += 1
        self._waiting = list(self.left)


def batch(*sources: str, first: int = 1, **options) -> Batch:
    times = list(range(first, first + len(sources)))
    return Batch(Links(list(sources), ["x"] * len(sources), times), [(t, 0) for t in times], **options)


@pytest.fixture
def stored(monkeypatch) -> StoredLinks:
    monkeypatch.setattr(module, "WAIT", 0.001)
    monkeypatch.setattr(module, "QUEUE_FULL", 0.001)
    return StoredLinks()


def run(source: Listed, stored: StoredLinks, folder: Path) -> Pump:
    """Run until everything was read."""
    pump = Pump(source, stored.submit, RejectedEntries(folder), back_off=(0.001, 0.002))
    pump.start()
    assert source.drained.wait(60)
    pump.stop()
    return pump


def rejected(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "rejected.jsonl").read_text().splitlines()]


def test_links_are_stored_then_acknowledged(stored: StoredLinks, tmp_path: Path) -> None:
    malformed = Rejected("3-0", {"src": "?"}, "dst is missing")
    source = Listed(batch("a", "b", others=[(3, 0)], rejected=[malformed]), batch("c", first=4))
    state = run(source, stored, tmp_path).state()
    assert stored.times == [1, 2, 4]
    assert stored.offsets == {"listed": "4"}
    assert source.committed == [(1, 0), (2, 0), (3, 0), (4, 0)]
    assert (state.read, state.added, state.rejected, state.errors) == (4, 3, 1, 0)
    assert not state.connected
    assert source.closed == 1
    assert rejected(tmp_path)[0]["reason"] == "dst is missing"


@pytest.mark.parametrize("at", range(5))
def test_a_refused_link_is_rejected_alone(stored: StoredLinks, tmp_path: Path, at: int) -> None:
    sources = ["a"] * 5
    sources[at] = "refused"
    source = Listed(batch(*sources))
    state = run(source, stored, tmp_path).state()
    assert stored.times == [t for t in range(1, 6) if t != at + 1]
    assert sorted(source.committed) == [(t, 0) for t in range(1, 6)]
    assert (state.added, state.rejected, state.errors) == (4, 1, 0)
    (found,) = rejected(tmp_path)
    assert found["position"] == f"{at + 1}-0"
    assert found["entry"] == {"src": "refused", "dst": "x", "t": at + 1}
    assert found["reason"] == "no such name"


def test_late_links_are_rejected(stored: StoredLinks, tmp_path: Path) -> None:
    stored.before = [LateLinks("too late")]
    run(Listed(batch("a")), stored, tmp_path)
    assert rejected(tmp_path)[0]["reason"] == "too late"


def test_a_full_queue_is_waited_for(stored: StoredLinks, tmp_path: Path) -> None:
    stored.before = [QueueFull("full") for _ in range(20)]
    state = run(Listed(batch(*"abcdefg")), stored, tmp_path).state()
    assert stored.times == list(range(1, 8))
    assert (state.errors, state.last_error) == (0, None)


def test_after_a_failure_it_goes_on(stored: StoredLinks, tmp_path: Path, caplog) -> None:
    stored.before = [StorageError("disk full")] * 3
    source = Listed(batch("a", "b"), batch("c", first=3))
    source.errors = [SourceError("no connection")] * 2 + [KeyError("bug")]
    with caplog.at_level(logging.WARNING):
        state = run(source, stored, tmp_path).state()
    assert stored.times == [1, 2, 3]
    assert (state.errors, state.last_error) == (6, None)
    said = [record.getMessage() for record in caplog.records]
    assert said == ["listed: KeyError: 'bug'", "listed: no connection", "listed: disk full"]


def test_a_failed_commit_is_not_stored_again(stored: StoredLinks, tmp_path: Path) -> None:
    source = Listed(batch("a"))
    commit, failures = source.commit, [SourceError("no connection")]

    def fail_once(done: Batch) -> None:
        commit(done)
        if failures:
            raise failures.pop()

    source.commit = fail_once
    assert run(source, stored, tmp_path).state().errors == 1
    assert stored.times == [1]


def test_the_wait_grows_up_to_a_limit(stored: StoredLinks, tmp_path: Path, monkeypatch) -> None:
    source = Listed()
    source.errors = [SourceError("no connection")] * 6
    pump = Pump(source, stored.submit, RejectedEntries(tmp_path), back_off=(0.001, 0.005))
    waits = []
    wait = pump._stopping.wait
    monkeypatch.setattr(pump._stopping, "wait", lambda seconds: waits.append(seconds) or wait(seconds))
    pump.start()
    assert source.drained.wait(60)
    pump.stop()
    assert waits == [0.001, 0.002, 0.004, 0.005, 0.005, 0.005]


def test_the_state_while_it_fails(stored: StoredLinks, tmp_path: Path) -> None:
    source = Listed()
    source.errors = [SourceError("no connection")]
    pump = Pump(source, stored.submit, RejectedEntries(tmp_path), back_off=(60, 60))
    failed = threading.Event()
    close = source.close
    source.close = lambda: failed.set() or close()
    pump.start()
    assert failed.wait(60)
    assert (pump.state().connected, pump.state().last_error) == (False, "no connection")
    pump.stop()  # without waiting for a minute


def test_a_stop_gives_up_a_write_that_does_not_end(stored: StoredLinks, tmp_path: Path, monkeypatch) -> None:
    from concurrent.futures import Future

    monkeypatch.setattr(module, "STOPPING", 0.001)
    submitted = threading.Event()

    def never(links: Links, **_: object) -> Future:
        submitted.set()
        return Future()

    source = Listed(batch("a"))
    pump = Pump(source, never, RejectedEntries(tmp_path))
    pump.start()
    assert submitted.wait(60)
    pump.stop()
    assert source.committed == []
