"""New links in a predictor: none lost, none twice, and every answer from one state of the history."""

import os
import pickle
import warnings
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Thread

import numpy as np
import pyarrow as pa
import pytest

import cawn
from cawn.data import laws
from cawn.data.columns import GrowingArray
from cawn.data.hashing import hash_ids
from cawn.data.names import NameIndex, Spelling
from cawn.data.reading import Reading
from cawn.data.updates import GrowingEvents, Update, merged, new_links
from cawn.errors import QueryError
from cawn.index.growing import GrowingIndex
from cawn.predictor import LinkPredictor
from cawn.systems.cawn.config import Config
from cawn.systems.cawn.system import CawnSystem, WalkScorer

SMALL = Config(alpha=0.01, num_walks=4, length=1, dim=4, frequencies=2, epochs=1)


@pytest.fixture(scope="module")
def run():
    plain = laws.triadic_closure(30, 400, seed=0).events
    events = cawn.Events(plain.src, plain.dst, plain.t, labels=[f"n{i}" for i in range(30)])
    return cawn.train(events, SMALL, quiet=True, kinds=("random",))


@pytest.fixture
def predictor(run) -> LinkPredictor:
    return LinkPredictor.of(run)


@pytest.fixture
def now(run) -> int:
    return int(run.events.t[-1]) + 1


def link(src: str, dst: str, t: int, **columns) -> cawn.Events:
    return cawn.Events([0], [1], [t], labels=[src, dst], **columns)


def test_no_update_is_lost_and_no_answer_mixes_two_states(run, now) -> None:
    """Each update repeats one link; the pair's score says how many there are, so every score must be one of those."""
    updates, threads = 12, 4
    reference, possible = LinkPredictor.of(run), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(updates * threads + 1):
            possible.append(float(reference.score("n1", "n2", now + 5)[0]))
            reference.update(link("n1", "n2", now))
    assert len(set(possible)) > 3
    predictor, start, seen = LinkPredictor.of(run), Barrier(2 * threads), []

    def update(thread: int) -> None:
        start.wait()
        for i in range(updates):
            predictor.update(link("n1", "n2", now, link_id=[f"{thread}/{i}"]))

    def ask() -> None:
        start.wait()
        for _ in range(updates):
            seen.append(float(predictor.score("n1", "n2", now + 5)[0]))

    running = [Thread(target=update, args=(i,)) for i in range(threads)] + [Thread(target=ask) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert predictor.num_links == len(run.events) + updates * threads
    assert set(seen) <= set(possible)
    assert float(predictor.score("n1", "n2", now + 5)[0]) == possible[updates * threads]


def test_updates_extend_the_index(predictor, now, monkeypatch) -> None:
    built = []
    monkeypatch.setattr(CawnSystem, "scorer", lambda *args: built.append(1))
    for i in range(10):
        predictor.update(link("n1", f"new {i}", now + i // 3))
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: predictor.score("n1", "new 3", now + 9), range(4)))
    assert not built
    assert predictor.version == 10


def test_a_query_does_not_wait_for_an_update(predictor, now, monkeypatch) -> None:
    before, extend, found = predictor.score("n1", "n2", now + 1), WalkScorer.extended, []

    def query_meanwhile(*args):
        thread = Thread(target=lambda: found.append(predictor.score("n1", "n2", now + 1)))
        thread.start()
        thread.join(30)
        assert not thread.is_alive()
        return extend(*args)

    monkeypatch.setattr(WalkScorer, "extended", query_meanwhile)
    predictor.update(link("n1", "n2", now))
    assert found == [before]
    assert predictor.score("n1", "n2", now + 1) != before


@pytest.mark.parametrize(("grows", "fails_at"), [(GrowingIndex, 1), (GrowingArray, 1), (GrowingArray, 2)])
@pytest.mark.parametrize("late", [0, 1])
def test_an_update_that_fails_changes_nothing(
    run, predictor, now, monkeypatch, grows: type, fails_at: int, late: int
) -> None:
    """It may fail when some of its columns, or all of them and the index, have grown; the same links come again."""
    calls, append = [], grows.append

    def fail(self, *args):
        calls.append(append(self, *args))
        if len(calls) == fails_at:
            raise MemoryError

    predictor.append(["first"], ["second"], [now + 1])
    state = (predictor.score("n1", "n2", now + 2), predictor.num_links, predictor.version, predictor.nodes())
    columns = {"src": ["n1", "third"], "dst": ["n2", "fourth"], "t": [now + 1 - late, now + 1]}
    with monkeypatch.context() as patched:
        patched.setattr(grows, "append", fail)
        for once in (False, True):
            calls.clear()
            with pytest.raises(MemoryError):
                predictor.update(pa.table(columns | {"id": ["a", "b"]}), link_id="id", once=once)
    assert state == (predictor.score("n1", "n2", now + 2), predictor.num_links, predictor.version, predictor.nodes())
    assert predictor.append(["fifth"], ["sixth"], [now + 1]).nodes_added == 2
    assert predictor.append(*columns.values(), link_id=["a", "b"]) == Update(2, 0, 2)
    assert predictor.update(pa.table(columns), once=True).added == 2
    assert predictor.update(pa.table(columns), once=True).added == 0
    assert predictor.nodes() == [*state[-1], "fifth", "sixth", "third", "fourth"]
    other = LinkPredictor.of(run)
    other.append(["first", "fifth"], ["second", "sixth"], [now + 1] * 2)
    for _ in range(2):
        other.append(*columns.values())
    np.testing.assert_array_equal(predictor.score("n1", "n2", now + 2), other.score("n1", "n2", now + 2))


def test_snapshots_and_pickled_copies_are_independent(predictor, now) -> None:
    snapshot = predictor.snapshot()
    before = snapshot.score("n1", "n2", now + 1)
    predictor.update(link("n1", "n2", now))
    assert snapshot.score("n1", "n2", now + 1) == before != predictor.score("n1", "n2", now + 1)
    assert (snapshot.version, predictor.version) == (0, 1)
    with pytest.raises(QueryError, match="snapshot, which never changes"):
        snapshot.update(link("n1", "n2", now))
    predictor.update(link("n1", "newcomer", now))
    copy = pickle.loads(pickle.dumps(predictor))
    np.testing.assert_array_equal(copy.score("n1", "newcomer", now + 1), predictor.score("n1", "newcomer", now + 1))
    copy.update(link("n1", "another", now))
    assert not predictor.knows("another")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_lock_held_while_forking_does_not_stop_the_child(predictor, now) -> None:
    """The process is forked while another thread updates."""
    predictor.update(link("n1", "n2", now))
    before = predictor.num_links
    predictor._updating.acquire()
    predictor._swapping.acquire()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            predictor.update(link("n1", "n3", now))
            os._exit(0 if predictor.num_links == before + 1 else 1)
        finally:
            os._exit(2)
    predictor._updating.release()
    predictor._swapping.release()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_links_with_known_ids_are_skipped(predictor, now) -> None:
    first = cawn.Events([0, 0, 1], [1, 1, 2], [now] * 3, labels=["n1", "n2", "new"], link_id=["a", "a", "b"])
    assert predictor.update(first) == Update(2, 1, 1)
    assert predictor.update(first) == Update(0, 3, 0)
    table = pa.table({"src": ["n1", "n1"], "dst": ["n2", "n5"], "t": [now, now + 1], "number": ["b", "c"]})
    assert predictor.update(table, link_id="number") == Update(1, 1, 0)
    assert predictor.update(table, link_id="number") == Update(0, 2, 0)
    assert pickle.loads(pickle.dumps(predictor)).update(first) == Update(0, 3, 0)


def test_once_skips_the_same_batch_in_any_order(run, predictor, now) -> None:
    rows = {"src": ["n1", "n2", "n3"], "dst": ["n2", "n5", "n6"], "t": [now, now, now + 1]}
    backwards = {name: column[::-1] for name, column in rows.items()}
    assert predictor.update(pa.table(rows), once=True) == Update(3, 0, 0)
    assert predictor.update(pa.table(backwards), once=True) == Update(0, 3, 0)
    assert predictor.update(pa.table(rows | {"t": [now, now, now + 2]}), once=True) == Update(3, 0, 0)
    assert predictor.update(run.events, once=True) == Update(0, 400, 0), "the links it was trained on"
    with pytest.warns(UserWarning, match="were added before"):
        assert predictor.update(pa.table(rows)) == Update(3, 0, 0)


def predictor_of(run, events: cawn.Events, **options) -> LinkPredictor:
    held = LinkPredictor.of(run)
    return LinkPredictor(held._system, SMALL, events, NameIndex.of(events.labels), held.calibration, **options)


@pytest.mark.parametrize("names", [["99", "user:99"], ["user:99", "99"]])
def test_one_new_node_under_two_spellings(run, names: list[str]) -> None:
    events = cawn.Events([0, 1, 0], [2, 3, 3], [1, 2, 3], labels=["user:1", "user:2", "item:1", "item:2"])
    predictor = predictor_of(run, events, prefixes=("user", "item"))
    table = pa.table({"user": names, "item": ["1", "1"], "t": [10_000, 10_001]})
    assert predictor.update(table) == Update(2, 0, 1)
    assert predictor.update(pa.table({"user": ["user:99"], "item": ["2"], "t": [10_002]})) == Update(1, 0, 0)
    assert sorted(predictor.nodes()) == ["item:1", "item:2", "user:1", "user:2", "user:99"]
    predictor = predictor_of(run, cawn.Events(run.events.src, run.events.dst, run.events.t))
    table = pa.table({"src": ["77", "77.0"], "dst": ["1", "1.0"], "t": [90_000, 90_001]})
    assert predictor.update(table) == Update(2, 0, 1)
    assert predictor.nodes()[-1] == 77
    assert predictor.knows("77.0")


def test_recorded_columns_are_used(predictor, now) -> None:
    predictor.reading = Reading(src="rater", dst="ratee", time="when")
    recorded, usual = {"when": [now], "ratee": ["n2"], "rater": ["a"]}, {"src": ["n1"], "dst": ["b"], "t": [now]}
    assert predictor.update(pa.table(recorded)) == predictor.update(pa.table(usual)) == Update(1, 0, 1)
    assert "a" in predictor.nodes("src")
    assert "b" in predictor.nodes("dst")


def test_updates_carry_ids() -> None:
    events = cawn.Events([0, 1, 2], [1, 2, 0], [3, 1, 2], link_id=["c", "a", "b"])
    names = NameIndex.of(events.labels)
    for links, expected in (
        (cawn.Events([0], [1], [9], link_id=["d"]), hash_ids("abcd").tolist()),
        (cawn.Events([0], [1], [9]), [*hash_ids("abc").tolist(), 0]),
    ):
        new, _ = new_links(events, names, [links], Spelling(None))
        assert merged(events, new).link_id.tolist() == expected
        assert GrowingEvents(events).add(new)[0].link_id.tolist() == expected


def test_appended_columns_are_an_update(run, predictor, now) -> None:
    other = LinkPredictor.of(run)
    names, times = (["n1", "stranger", "n1"], ["n2", "n3", "n2"]), [now + 1, now, now + 2]
    assert predictor.append(*names, times, link_id=["a", "b", "a"]) == Update(2, 1, 1)
    other.update(pa.table({"src": names[0][:2], "dst": names[1][:2], "t": times[:2]}))
    np.testing.assert_array_equal(predictor.score("n1", "n2", now + 3), other.score("n1", "n2", now + 3))
    assert (predictor.version, predictor.watermark) == (1, now + 1)
    assert predictor.knows_link_ids(hash_ids(["a", "b", "c"])).tolist() == [True, True, False]
    assert predictor.append(["n1"], ["n2"], [now], link_id=["b"]) == Update(0, 1, 0)
    assert predictor.version == 1


def test_new_links_are_checked_without_an_effect(predictor, now) -> None:
    links = predictor.num_links
    assert predictor.check_links(["n1", "x"], ["n2", "y"], [now + 1.0, now]).tolist() == [now + 1, now]
    for src, t, msg in ((["n1"], [now + 0.5], None), (["n1", "n2"], [now], None), (["n1"], [now], [[1.0]])):
        with pytest.raises(cawn.CawnError):
            predictor.check_links(src, ["n2"], t, msg=msg)
    assert (predictor.num_links, predictor.version, predictor.knows("x")) == (links, 0, False)
