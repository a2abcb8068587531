"""Lists that grow, against plain Python lists: contents, versions, and memory that is used again."""

from itertools import chain, pairwise

import numpy as np
import pytest

from cawn.kernels.cpu.growing import EXACT, class_for, class_within, room
from cawn.kernels.cpu.spans import Spans, lengths
from cawn.walks.lists import GrowingLists, ListsVersion, Versions


class Token:
    """What readers of a version hold."""


def contents(version: ListsVersion, size: int) -> list[list[int]]:
    starts, columns = version.flat(np.arange(size))
    return [columns["time"][a:b].tolist() for a, b in pairwise(starts)]


def appended(lists: GrowingLists, rows: list[int], times: list[int], forced: list[bool] | None = None) -> None:
    reserved = lists.reserve(np.array(rows, np.int64), None if forced is None else np.array(forced))
    lists.columns["time"][reserved.position] = times


def test_size_classes() -> None:
    assert [class_for(n) for n in (1, 2, 3, 8, 9, 15, 16, 31)] == [0, 1, 2, 3, 4, 4, 5, 5]
    assert [room(c) for c in (0, 3, 4, 5)] == [1, 8, 15, 31]
    assert [class_within(n) for n in (1, 2, 3, 4, 15, 16)] == [0, 1, 1, 2, 3, 4]


def test_spans_of_lists_one_after_the_other() -> None:
    starts = np.array([0, 3, 3, 7] + [7] * 40)
    assert lengths(Spans.of(starts)).tolist() == np.diff(starts).tolist()


@pytest.mark.parametrize("seed", range(4))
def test_against_plain_lists(seed: int) -> None:
    """Random appends and removals; some versions are kept, and must never change."""
    rng = np.random.default_rng(seed)
    expected: list[list[int]] = [rng.integers(0, 9, rng.integers(0, 40)).tolist() for _ in range(70)]
    starts = np.append(0, np.cumsum([len(one) for one in expected]))
    versions = Versions()
    lists = GrowingLists(versions, starts, {"time": np.array(list(chain(*expected)), np.int64)})
    kept: list[tuple[ListsVersion, Token, list[list[int]]]] = []
    for step in range(200):
        versions.current += 1
        expected += [[] for _ in range(rng.integers(0, 3))]
        lists.begin(len(expected))
        rows = rng.integers(0, len(expected), rng.integers(0, 30)).tolist()
        appended(lists, rows, [step] * len(rows))
        for row in rows:
            expected[row].append(step)
        if rng.random() < 0.3:
            some = np.unique(rng.integers(0, len(expected), 5))
            some = np.array([row for row in some if expected[row]], np.int64)
            by = np.array([rng.integers(1, len(expected[row]) + 1) for row in some], np.int64)
            lists.shorten(some, by)
            for row, count in zip(some.tolist(), by.tolist(), strict=True):
                del expected[row][len(expected[row]) - count :]
        token = Token()
        versions.publish(token)
        version = lists.version()
        assert contents(version, len(expected)) == expected
        if rng.random() < 0.2:
            kept.append((version, token, [list(one) for one in expected]))
        if len(kept) > 4:
            del kept[rng.integers(len(kept))]
        for held, _, before in kept:
            assert contents(held, len(before)) == before


def test_forced_moves_leave_earlier_versions_alone() -> None:
    versions = Versions()
    lists = GrowingLists(versions, np.array([0, 20]), {"time": np.arange(20)})
    before, versions.current = lists.version(), 1
    lists.begin(0)
    appended(lists, [0], [7], [True])
    lists.columns["time"][lists.spans_of(np.array([0]))[0][0]] = 99
    assert contents(before, 1) == [list(range(20))]
    assert contents(lists.version(), 1) == [[99, *range(1, 20), 7]]


def test_keys_get_rows_in_the_order_of_their_arrival() -> None:
    lists = GrowingLists(Versions(), np.array([0, 1]), {"time": np.array([5])}, keys=np.array([40]))
    lists.begin(0)
    keys = np.random.default_rng(0).permutation(3000).astype(np.int64)
    rows = lists.rows_of(keys)
    assert rows.tolist() == [
        0 if key == 40 else i + (i < int(np.flatnonzero(keys == 40)[0])) for i, key in enumerate(keys)
    ]
    assert lists.rows_of(keys).tolist() == rows.tolist()
    appended(lists, rows.tolist(), list(range(3000)))
    found, order = lists.version().sorted_keys()
    assert found.tolist() == list(range(3000))
    assert keys[[rows.tolist().index(row) for row in order.tolist()[:20]]].tolist() == list(range(20))


def test_memory_of_forgotten_versions_is_used_again() -> None:
    """A thousand versions that nobody reads cost no more than the lists."""
    versions = Versions()
    lists = GrowingLists(versions, np.zeros(101, np.int64), {"time": np.empty(0, np.int64)})
    sizes, held = [], []
    for step in range(2000):
        versions.current += 1
        lists.begin(0)
        appended(lists, list(range(step % 100, 100, 10)), [step] * len(range(step % 100, 100, 10)))
        if step == 1000:
            held.append(token := Token())
            versions.publish(token)
            del token
        token = Token()
        versions.publish(token)
        sizes.append(lists.nbytes)
    entries = int(lengths(lists.version().spans).sum())
    assert sizes[1000] < 8 * 4 * entries
    assert sizes[-1] > sizes[1000]  # whoever holds a version holds its memory


def test_blocks_of_short_lists_have_no_free_entries() -> None:
    lists = GrowingLists(Versions(), np.array([0, 7, 27]), {"time": np.arange(27)})
    assert lists._blocks.classes[:2].tolist() == [EXACT, 5]


@pytest.mark.parametrize("forced", [False, True], ids=["extended", "moved"])
def test_a_version_that_is_read_for_long_keeps_only_its_own_memory(forced: bool) -> None:
    versions, size = Versions(), 300
    lists = GrowingLists(versions, np.array([0, size, 2 * size]), {"time": np.arange(2 * size)})
    held = Token()
    versions.publish(held)
    before, expected = lists.version(), list(range(2 * size))
    for step in range(1000):
        versions.current += 1
        lists.begin(0)
        if step % 2:
            lists.shorten(np.array([0]), np.array([1]))
        else:
            appended(lists, [0], [step], [forced])
        token = Token()
        versions.publish(token)
    assert list(chain(*contents(before, 2))) == expected
    assert lists.nbytes < 8 * 32 * size + 20_000
    assert len(lists._freed) + len(lists._read) < 50
    assert len(versions._alive) < 50


def test_removing_whole_lists_takes_no_memory() -> None:
    versions = Versions()
    lists = GrowingLists(versions, np.array([0, 0]), {"time": np.empty(0, np.int64)})
    sizes = []
    for step in range(100):
        versions.current += 1
        lists.begin(0)
        appended(lists, [0], [step])
        versions.current += 1
        lists.begin(0)
        lists.shorten(np.array([0]), np.array([1]))
        sizes.append(lists.nbytes)
    assert contents(lists.version(), 1) == [[]]
    assert sizes[-1] == sizes[10]
