"""The thread that moves links from a stream into the store."""

import json
import logging
import shutil
import threading
from concurrent.futures import Future
from pathlib import Path

import pytest

from cawn.errors import StorageError
from cawn.serve.links import Links
from cawn.serve.sources import Batch, Rejected, SourceError
from cawn.serve.sources import pump as module
from cawn.serve.sources.entries import Columns
from cawn.serve.sources.pump import Pump
from cawn.serve.sources.rejected import RejectedEntries
from cawn.serve.writer import QueueFull
from live import Live
from stored_links import StoredLinks


class Listed:
    """A source that has batches; a commit removes what it acknowledges, and `close` begins again with the rest."""

    name, lag, known, trimmed, warning = "listed", None, 0, 0, None

    def __init__(self, *batches: Batch, errors: tuple[Exception, ...] = ()) -> None:
        self.left = list(batches)
        self.errors, self.commit_errors = list(errors), list[Exception]()
        self.committed: list[tuple] = []
        self.drained, self.closed = threading.Event(), threading.Event()
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
        if self.commit_errors:
            raise self.commit_errors.pop()

    def close(self) -> None:
        self.closed.set()
        self._waiting = list(self.left)


def batch(*sources: str, first: int = 1, **options) -> Batch:
    times = list(range(first, first + len(sources)))
    return Batch(Links(list(sources), ["x"] * len(sources), times), [(t, 0) for t in times], **options)


@pytest.fixture
def stored(monkeypatch) -> StoredLinks:
    monkeypatch.setattr(module, "WAIT", 0.001)
    monkeypatch.setattr(module, "QUEUE_FULL", 0.001)
    return StoredLinks()


def run(source: Listed, submit, folder: Path) -> Pump:
    """Run until everything was read."""
    pump = Pump(source, submit, RejectedEntries(folder), back_off=(0.001, 0.002))
    pump.start()
    assert source.drained.wait(60)
    pump.stop()
    return pump


def rejected(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / "rejected.jsonl").read_text().splitlines()]


def test_links_are_stored_then_acknowledged(stored: StoredLinks, tmp_path: Path) -> None:
    malformed = Rejected("3-0", {"src": "?"}, "dst is missing")
    source = Listed(batch("a", "b", others=[(3, 0)], rejected=[malformed]), batch("c", first=4))
    state = run(source, stored.submit, tmp_path).state()
    assert (stored.times, stored.offsets) == ([1, 2, 4], {"listed": "4"})
    assert source.committed == [(1, 0), (2, 0), (3, 0), (4, 0)]
    assert (state.read, state.added, state.rejected, state.errors) == (4, 3, 1, 0)
    assert not state.connected
    assert source.closed.is_set()
    assert rejected(tmp_path)[0]["reason"] == "dst is missing"


@pytest.mark.parametrize("at", range(5))
def test_a_refused_link_is_rejected_alone(stored: StoredLinks, tmp_path: Path, at: int) -> None:
    sources = ["a"] * 5
    sources[at] = "refused"
    source = Listed(batch(*sources))
    state = run(source, stored.submit, tmp_path).state()
    assert stored.times == [t for t in range(1, 6) if t != at + 1]
    assert sorted(source.committed) == [(t, 0) for t in range(1, 6)]
    assert (state.added, state.rejected, state.errors) == (4, 1, 0)
    (found,) = rejected(tmp_path)
    assert (found["position"], found["reason"]) == (f"{at + 1}-0", "no such name")
    assert found["entry"] == {"src": "refused", "dst": "x", "t": at + 1}


ODD = [{"attributes": [1.0]}, {"attributes": {"amount": 2}}, {"t": "soon"}, {"t": 10**12}]


@pytest.mark.parametrize("kind", ["integers", "text"])
def test_odd_entries_of_a_stream_are_rejected_alone(runs: dict[str, Path], tmp_path: Path, kind: str) -> None:
    """H5: also where other entries have no attributes; H7: times that cannot be; U1: attributes by name."""
    usual = {} if kind == "integers" else {"attributes": {"amount": 2.5, "currency": "EUR"}}
    odd = ODD if kind == "integers" else [{"attributes": None}, {"attributes": {"price": 1}}, *ODD[2:]]
    odd_at = {10 + 50 * i: each for i, each in enumerate(odd)}
    columns = Columns()
    for i in range(200):
        entry = {"src": f"n{i % 5}", "dst": f"n{5 + i % 3}", "t": 901 + i} | usual | odd_at.get(i, {})
        columns.add((i, 0), entry)
    live = Live(Path(shutil.copytree(runs[kind], tmp_path / "run")))
    source = Listed(Batch(columns.links(), columns.positions))
    state = run(source, live.writer.submit, tmp_path).state()
    assert (state.added, state.rejected) == (200 - len(odd), len(odd))
    assert sorted(int(found["position"].removesuffix("-0")) for found in rejected(tmp_path)) == sorted(odd_at)
    expected = [901 + i for i in range(200) if i not in odd_at]
    assert live.predictor.snapshot().events.t[120:].tolist() == expected
    assert live.store.offset("listed") == "199"
    live.stop()


def test_a_full_queue_is_waited_for(stored: StoredLinks, tmp_path: Path) -> None:
    stored.before = [QueueFull("full") for _ in range(20)]
    state = run(Listed(batch(*"abcdefg")), stored.submit, tmp_path).state()
    assert stored.times == list(range(1, 8))
    assert (state.errors, state.last_error) == (0, None)


def test_after_a_failure_it_goes_on(stored: StoredLinks, tmp_path: Path, caplog) -> None:
    stored.before = [StorageError("disk full")] * 3
    errors = SourceError("no connection"), SourceError("no connection"), KeyError("bug")
    source = Listed(batch("a", "b"), batch("c", first=3), errors=errors)
    source.commit_errors = [SourceError("connection lost")]
    with caplog.at_level(logging.WARNING):
        state = run(source, stored.submit, tmp_path).state()
    assert stored.times == [1, 2, 3], "also those whose acknowledgement failed"
    assert (state.errors, state.last_error) == (7, None)
    said = [record.getMessage() for record in caplog.records]
    assert said == [f"listed: {each}" for each in ("KeyError: 'bug'", "no connection", "disk full", "connection lost")]


def test_the_wait_grows_up_to_a_limit(stored: StoredLinks, tmp_path: Path, monkeypatch) -> None:
    source = Listed(errors=(SourceError("no connection"),) * 6)
    pump = Pump(source, stored.submit, RejectedEntries(tmp_path), back_off=(0.001, 0.005))
    waits = []
    wait = pump._stopping.wait
    monkeypatch.setattr(pump._stopping, "wait", lambda seconds: waits.append(seconds) or wait(seconds))
    pump.start()
    assert source.drained.wait(60)
    pump.stop()
    assert waits == [0.001, 0.002, 0.004, 0.005, 0.005, 0.005]


def test_the_state_while_it_fails(stored: StoredLinks, tmp_path: Path) -> None:
    source = Listed(errors=(SourceError("no connection"),))
    pump = Pump(source, stored.submit, RejectedEntries(tmp_path), back_off=(60, 60))
    pump.start()
    assert source.closed.wait(60)
    assert (pump.state().connected, pump.state().last_error) == (False, "no connection")
    pump.stop()  # without waiting for a minute


def test_a_stop_gives_up_a_write_that_does_not_end(stored: StoredLinks, tmp_path: Path, monkeypatch) -> None:
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
