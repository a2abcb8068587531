"""Submissions: stored before they are acknowledged, each alone responsible for its errors, none counted twice."""

import errno
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest

import cawn
from cawn.serve import log as log_module
from cawn.serve.ingest import Ingest, KeyConflict, LateLinks, QueueFull, Receipt
from cawn.serve.links import Links
from cawn.serve.log import LinkLog
from live_history import ListHistory, some_links


@pytest.fixture
def history() -> ListHistory:
    return ListHistory()


@pytest.fixture
def log(tmp_path: Path):
    log = LinkLog(tmp_path)
    yield log
    log.close()


@pytest.fixture
def ingest(history: ListHistory, log: LinkLog):
    ingest = Ingest(history, log)
    ingest.start()
    yield ingest
    ingest.stop()


def together(ingest: Ingest, *submissions: tuple) -> list:
    """Submit while the writer thread is held up, so that all become one group; returns the futures."""
    begun, go_on = Event(), Event()

    def hold() -> None:
        begun.set()
        go_on.wait()

    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(ingest.between, hold)
        begun.wait()
        futures = [ingest.submit(links, **options) for links, options in submissions]
        go_on.set()
        held.result()
    return futures


def results(futures: list) -> list:
    return [type(error) if (error := future.exception()) else future.result() for future in futures]


def times(log: LinkLog) -> list[float]:
    return [t for record in log.replay() for t in record.links.t]


def test_a_receipt_says_what_was_added(ingest, history, log) -> None:
    assert ingest.submit(some_links(3)).result() == Receipt(3, 0, 6, 1)
    assert ingest.submit(some_links(3, first=2)).result() == Receipt(2, 1, 4, 2)
    assert [row[2] for row in history.links] == [0, 1, 2, 3, 4] == times(log)
    assert (ingest.added, ingest.duplicates, ingest.links_queued, ingest.bytes_queued) == (5, 1, 0, 0)


def test_many_threads(ingest, history, log) -> None:
    with ThreadPoolExecutor(8) as pool:
        futures = list(pool.map(lambda i: ingest.submit(some_links(10, first=10 * i)), range(100)))
    assert sum(future.result().added for future in futures) == 1000
    assert sorted(row[2] for row in history.links) == list(range(1000)) == sorted(times(log))


def test_a_group_is_synced_once(ingest, log, monkeypatch) -> None:
    synced = []
    real = log_module._sync_file
    monkeypatch.setattr(log_module, "_sync_file", lambda descriptor: (synced.append(1), real(descriptor)))
    futures = together(ingest, *((some_links(1, first=i), {}) for i in range(50)))
    assert [future.result().added for future in futures] == [1] * 50
    assert len(synced) == 1


def test_on_disk_before_the_receipt_and_before_the_history(ingest, history, log, tmp_path) -> None:
    seen = []
    real = history.append_all

    def look(batches: list) -> object:
        seen.append((times(log), log.position))
        return real(batches)

    history.append_all = look
    ingest.submit(some_links(2)).result()
    assert seen == [([0, 1], 1)]


def test_bad_submissions_fail_alone_and_before_anything_is_written(ingest, history, log) -> None:
    futures = together(
        ingest,
        (some_links(2), {}),
        (Links(["bad"], ["x"], [5]), {}),
        (Links(["a"], ["x"], ["soon"]), {"key": "k"}),
        (Links(["a"], ["x"], [5], None, [1.5]), {}),
        (some_links(2, first=2), {}),
    )
    assert results(futures) == [
        Receipt(2, 0, 4, 1),
        cawn.DataError,
        cawn.QueryError,
        cawn.DataError,
        Receipt(2, 0, 4, 1),
    ]
    assert times(log) == [0, 1, 2, 3]
    assert log.find_key("k") is None


def test_the_times_of_one_submission_do_not_round_those_of_another(ingest, log) -> None:
    exact = 2**60 + 1
    futures = together(ingest, (Links(["a"], ["b"], [exact]), {}), (Links(["a"], ["b"], [2.0**60]), {}))
    assert [receipt.added for receipt in results(futures)] == [1, 1]
    assert times(log)[0] == exact


def test_duplicates_by_id_never_by_content(ingest, history, log) -> None:
    same = Links(["a"] * 3, ["b"] * 3, [1] * 3)
    assert ingest.submit(same).result().added == 3
    assert ingest.submit(same).result().added == 3
    mixed = Links(["a"] * 4, ["b"] * 4, [1, 2, 3, 4], None, ["x", None, "x", None])
    assert ingest.submit(mixed).result()[:2] == (3, 1)
    futures = together(ingest, (Links(["a"], ["b"], [7], None, ["y"]), {}), (Links(["c"], ["d"], [8], None, ["y"]), {}))
    assert [receipt[:2] for receipt in results(futures)] == [(1, 0), (0, 1)]
    assert ingest.submit(Links(["a"], ["b"], [9], None, [7])).result().added == 1
    assert ingest.submit(Links(["a"], ["b"], [9], None, ["7"])).result().duplicates == 1
    assert times(log) == [1] * 6 + [1, 2, 4, 7, 9]


def test_a_key_returns_its_first_receipt(ingest, history, log) -> None:
    first = ingest.submit(some_links(2, ids=False), key="k").result()
    assert ingest.submit(some_links(2, ids=False), key="k").result() == first
    log.store()
    assert ingest.submit(some_links(2, ids=False), key="k").result() == first
    with pytest.raises(KeyConflict, match="'k' was used with other links"):
        ingest.submit(some_links(3, ids=False), key="k").result()
    assert len(history.links) == 2


def test_the_same_key_twice_in_a_group(ingest, history) -> None:
    one, other = some_links(2, ids=False), some_links(3, ids=False)
    futures = together(ingest, (one, {"key": "k"}), (one, {"key": "k"}), (other, {"key": "k"}))
    assert results(futures) == [Receipt(2, 0, 4, 1), Receipt(2, 0, 4, 1), KeyConflict]
    bad = Links(["bad"], ["x"], [5])
    assert results(together(ingest, (bad, {"key": "l"}), (one, {"key": "l"}))) == [cawn.DataError, Receipt(2, 0, 0, 2)]


def test_offsets_are_stored_with_the_links(ingest, log) -> None:
    ingest.submit(some_links(1), offsets={"s": "1"}).result()
    ingest.submit(Links([], [], []), offsets={"s": "2", "k:0": 7}).result()
    assert log.offsets == {"s": "2", "k:0": 7}
    assert [record.offsets for record in log.replay()] == [{"s": "1"}, {"s": "2", "k:0": 7}]


def test_late_links_are_inserted(ingest, history) -> None:
    ingest.submit(some_links(1, first=9)).result()
    assert ingest.submit(some_links(2, first=3)).result().added == 2
    assert ingest.late == 2


def test_late_links_are_refused(history, log) -> None:
    ingest = Ingest(history, log, late="refuse")
    ingest.start()
    assert ingest.submit(some_links(2, first=5)).result().added == 2
    with pytest.raises(LateLinks, match=r"2 of 3 links are older than the newest link \(t = 6\).*t = 4"):
        ingest.submit(some_links(3, first=4, ids=False)).result()
    assert ingest.submit(some_links(2, first=5)).result()[:2] == (0, 2)  # known, not late
    futures = together(
        ingest, (some_links(1, first=20), {}), (some_links(1, first=10), {}), (some_links(1, first=20), {})
    )
    assert [r if isinstance(r, type) else r[:2] for r in results(futures)] == [(1, 0), LateLinks, (0, 1)]
    ingest.stop()
    assert times(log) == [5, 6, 20]


def test_a_full_queue_refuses(history, log) -> None:
    ingest = Ingest(history, log, max_queue=10, max_queue_bytes=10_000)
    futures = [ingest.submit(some_links(5)), ingest.submit(some_links(5, first=5))]
    with pytest.raises(QueueFull, match="10 links are waiting"):
        ingest.submit(some_links(1))
    with pytest.raises(cawn.QueryError, match="11 links of about"):
        ingest.submit(some_links(11))
    with pytest.raises(cawn.QueryError, match="at most 10 links and 10,000 bytes"):
        ingest.submit(Links(["x" * 10_000], ["y"], [1]))
    ingest.start()
    assert [future.result().added for future in futures] == [5, 5]
    assert ingest.submit(some_links(1, first=10)).result().added == 1
    ingest.stop()
    with pytest.raises(cawn.StorageError, match="stopping"):
        ingest.submit(some_links(1))


def test_many_empty_submissions_are_bounded_too(history, log) -> None:
    ingest = Ingest(history, log, max_queue=3)
    for _ in range(3):
        ingest.submit(Links([], [], []))
    with pytest.raises(QueueFull):
        ingest.submit(Links([], [], []))
    ingest.start()
    ingest.stop()
    assert log.position == 0


def test_what_is_queued_is_stored_on_stop(history, log) -> None:
    ingest = Ingest(history, log)
    futures = [ingest.submit(some_links(1, first=i)) for i in range(20)]
    ingest.start()
    ingest.stop()
    assert all(future.done() for future in futures)
    assert len(history.links) == 20


def test_a_cancelled_submission_is_not_stored(history, log) -> None:
    ingest = Ingest(history, log)
    first, second = ingest.submit(some_links(1)), ingest.submit(some_links(1, first=1))
    assert first.cancel()
    ingest.start()
    assert second.result().added == 1
    ingest.stop()
    assert times(log) == [1]
    assert ingest.links_queued == 0


def test_a_failing_disk_fails_the_group_and_no_link_is_added(ingest, history, log, monkeypatch) -> None:
    ingest.submit(some_links(1)).result()

    def fail(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(log_module, "_sync_file", fail)
    futures = together(ingest, (some_links(1, first=1), {}), (some_links(1, first=2), {"key": "k"}))
    assert results(futures) == [cawn.StorageError, cawn.StorageError]
    assert len(history.links) == 1
    monkeypatch.undo()
    with pytest.raises(cawn.StorageError, match="restart"):
        ingest.submit(some_links(1, first=3))


def test_links_that_the_history_refuses_after_all_are_void(ingest, history, log) -> None:
    futures = together(
        ingest, (some_links(1), {}), (Links(["broken"], ["x"], [5]), {"key": "k"}), (some_links(1, first=1), {})
    )
    assert results(futures) == [Receipt(1, 0, 2, 2), cawn.DataError, Receipt(1, 0, 2, 2)]
    assert log.voided() == {2}
    assert log.find_key("k") is None


def test_observers_get_what_was_added(ingest) -> None:
    seen: list[Links] = []

    def fail(_: Links) -> None:
        raise ValueError("broken observer")

    ingest.observers += [fail, seen.append]
    futures = together(ingest, (some_links(2), {}), (some_links(2, first=1), {}), (some_links(2), {}))
    assert [receipt.added for receipt in results(futures)] == [2, 1, 0]
    ingest.between(lambda: None)
    assert [links.t for links in seen] == [[0, 1, 2]]


@pytest.mark.parametrize(
    ("options", "message"),
    [({"key": ""}, "key is ''"), ({"key": "x" * 256}, "1 to 255 characters"), ({"offsets": {"s": 1.5}}, "at 1.5")],
)
def test_invalid_arguments(ingest, options: dict, message: str) -> None:
    with pytest.raises(cawn.QueryError, match=message):
        ingest.submit(some_links(1), **options)
    with pytest.raises(cawn.QueryError, match="late is 'drop'"):
        Ingest(ListHistory(), ingest._log, late="drop")


def test_between_raises_what_the_function_raises(ingest) -> None:
    with pytest.raises(ZeroDivisionError):
        ingest.between(lambda: 1 / 0)
    assert ingest.submit(some_links(1)).result().added == 1
