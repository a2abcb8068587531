"""The thread that moves links from a stream into the store."""

import json
import logging
import shutil
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cawn.errors import StorageError
from cawn.serve.sources import SourceError, StreamEntry
from cawn.serve.sources import pump as module
from cawn.serve.sources.entries import RejectedEntries
from cawn.serve.sources.pump import Pump
from cawn.serve.writer import QueueFull
from live import Live
from stored_links import StoredLinks

CLOCK = 1_700_000_000.0


class Listed:
    """A source with entries; `sizes` are those of its batches, the last of which is repeated."""

    name, trimmed, warning = "listed", 0, None

    def __init__(self, *entries: Any, sizes: Sequence[int] = (100,), errors: Sequence[Exception] = ()) -> None:
        self._entries = [StreamEntry(str(i), CLOCK + i, json.dumps(each).encode()) for i, each in enumerate(entries, 1)]
        self._sizes, self.errors, self.commit_errors = list(sizes), list(errors), list[Exception]()
        self._at, self.lag = 0, None
        self.drained, self.closed = threading.Event(), threading.Event()

    def read(self, wait: float) -> Sequence[StreamEntry]:
        if self.errors:
            raise self.errors.pop()
        size = self._sizes.pop(0) if len(self._sizes) > 1 else self._sizes[0]
        found = self._entries[self._at : self._at + size]
        self.lag = len(self._entries) - self._at - len(found)
        if not found:
            self.drained.set()
            threading.Event().wait(0.001)
        return found

    def offset(self, entries: Sequence[StreamEntry]) -> str:
        return entries[-1].position if entries else str(self._at)

    def commit(self, entries: Sequence[StreamEntry]) -> None:
        self._at = int(self.offset(entries))
        if self.commit_errors:
            raise self.commit_errors.pop()

    def close(self) -> None:
        self.closed.set()


def link(src: Any = "a", t: Any = 1, **more: Any) -> dict[str, Any]:
    return {"src": src, "dst": "x", "t": t, **more}


@pytest.fixture
def stored(monkeypatch) -> StoredLinks:
    monkeypatch.setattr(module, "WAIT", 0.001)
    monkeypatch.setattr(module, "QUEUE_FULL", 0.001)
    return StoredLinks()


def run(source: Listed, submit: Any, folder: Path) -> dict[str, Any]:
    """Run until everything was read; what the pump says then."""
    pump = Pump(source, submit, RejectedEntries(folder), back_off=(0.001, 0.002))
    assert pump.state()["behind"] is None
    pump.start()
    assert source.drained.wait(60)
    pump.stop()
    return pump.state()


def rejected(folder: Path) -> list[dict]:
    path = folder / "rejected.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_links_are_stored_with_their_offset(stored: StoredLinks, tmp_path: Path) -> None:
    source = Listed(link(), link(t=2), {"src": "?"}, link(t=4), 5, sizes=[3, 1])
    state = run(source, stored.submit, tmp_path)
    assert (stored.times, stored.offsets) == ([1, 2, 4], {"listed": "5"})
    assert [state[name] for name in ("read", "added", "rejected", "errors", "lag", "connected")] == [
        5,
        3,
        2,
        0,
        0,
        False,
    ]
    assert 0 <= state["behind"] < 60
    assert source.closed.is_set()
    assert rejected(tmp_path)[0] == {
        "source": "listed",
        "position": "3",
        "entry": '{"src": "?"}',
        "reason": "dst is missing",
    }


USUAL = {"integers": {}, "text": {"attributes": {"amount": 2.5, "currency": "EUR"}}}
ODD = {
    "integers": [{"attributes": [1.0]}, {"attributes": {"amount": 2}}, {"t": "soon"}, {"t": 10**12}],
    "text": [{"attributes": None}, {"attributes": {"price": 1}}, {"t": "soon"}, {"t": 10**12}],
}


@pytest.mark.parametrize("kind", ["integers", "text"])
def test_odd_entries_of_a_stream_are_rejected_alone(runs: dict[str, Path], tmp_path: Path, kind: str) -> None:
    """H5: also where other entries have no attributes; H7: times that cannot be; U1: attributes by name."""
    odd_at = {10 + 50 * i: each for i, each in enumerate(ODD[kind])}
    entries = [link(f"n{i % 5}", 901 + i) | USUAL[kind] | odd_at.get(i, {}) for i in range(200)]
    live = Live(Path(shutil.copytree(runs[kind], tmp_path / "run")))
    state = run(Listed(*entries, sizes=[200]), live.writer.submit, tmp_path)
    assert (state["added"], state["rejected"]) == (200 - len(odd_at), len(odd_at))
    assert sorted(int(found["position"]) - 1 for found in rejected(tmp_path)) == sorted(odd_at)
    assert live.predictor.snapshot().events.t[120:].tolist() == [901 + i for i in range(200) if i not in odd_at]
    assert live.store.offsets.get("listed") == "200"
    live.stop()


TIMES = st.integers(895, 930) | st.sampled_from([907, 12_000, 40_000, -1_000, 2**62, "x"])
ATTRIBUTES = st.sampled_from([{}, {}, {}, {"attributes": []}, {"attributes": [1]}])
IDS = st.one_of(st.just({}), st.builds(lambda i: {"id": i}, st.sampled_from(["a", "b", "c"])))
ENTRIES = st.lists(
    st.builds(
        lambda src, t, odd, i: link(src, t) | odd | i, st.sampled_from([1, "7.0", "n1", ""]), TIMES, ATTRIBUTES, IDS
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=20, deadline=None)
@example([link(t=907, attributes=[]), link(t=908, attributes=[1])], [1], "insert")
@given(ENTRIES, st.lists(st.integers(1, 5), min_size=1, max_size=6), st.sampled_from(["insert", "refuse"]))
def test_batches_make_no_difference(runs: dict[str, Path], tmp_path_factory, entries, sizes, late: str) -> None:
    """What an entry does depends on those before it, not on those that happen to be read with it."""
    found = []
    for each in ([1], [100], sizes):
        folder = tmp_path_factory.mktemp("batches")
        live = Live(runs["integers"], folder / "state", late=late)
        run(Listed(*entries, sizes=each), live.writer.submit, folder)
        state = live.predictor.snapshot()
        columns = [getattr(state.events, name).tolist() for name in ("src", "dst", "t")]
        said = sorted((each["position"], each["entry"]) for each in rejected(folder))
        found.append([columns, live.predictor.nodes(), state.identity, live.store.offsets, said])
        live.stop()
    assert found[0] == found[1] == found[2]


def test_a_full_queue_is_waited_for(stored: StoredLinks, tmp_path: Path) -> None:
    stored.before = [QueueFull("full") for _ in range(20)]
    state = run(Listed(*(link(t=t) for t in range(7))), stored.submit, tmp_path)
    assert stored.times == list(range(7))
    assert (state["errors"], state["last_error"]) == (0, None)


def test_after_a_failure_it_goes_on(stored: StoredLinks, tmp_path: Path, caplog) -> None:
    stored.before = [StorageError("disk full")] * 3
    errors = SourceError("no connection"), SourceError("no connection"), KeyError("bug")
    source = Listed(link(), link(t=2), link(t=3), sizes=[2], errors=errors)
    source.commit_errors = [SourceError("connection lost")]
    with caplog.at_level(logging.WARNING):
        state = run(source, stored.submit, tmp_path)
    assert stored.times == [1, 2, 3], "also those whose acknowledgement failed"
    assert (state["errors"], state["last_error"]) == (7, None)
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


def test_a_stop_while_it_waits(stored: StoredLinks, tmp_path: Path, monkeypatch) -> None:
    """After a failure, or for a write that does not end."""
    source = Listed(errors=(SourceError("no connection"),))
    pump = Pump(source, stored.submit, RejectedEntries(tmp_path), back_off=(60, 60))
    pump.start()
    assert source.closed.wait(60)
    assert [pump.state()[name] for name in ("connected", "last_error", "behind")] == [False, "no connection", None]
    pump.stop()
    monkeypatch.setattr(module, "STOPPING", 0.001)
    submitted, source = threading.Event(), Listed(link())
    pump = Pump(source, lambda *_, **__: submitted.set() or Future(), RejectedEntries(tmp_path))
    pump.start()
    assert submitted.wait(60)
    pump.stop()
    assert source.offset([]) == "0"
