"""An index that grows equals one that is built at once, bit for bit, and its earlier versions never change."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest

from cawn.data.events import Events
from cawn.data.names import NameIndex
from cawn.data.updates import GrowingEvents, NewLinks
from cawn.index.features import PairFeatures, PairParts
from cawn.index.growing import GrowingIndex
from cawn.index.index import Index
from cawn.walks.history import History

ALPHAS, UNIT, ALL = (0.0, 0.3), 0.001, PairParts()


def random_links(seed: int, size: int = 300, nodes: int = 12, times: int = 60, *, dtype: type = np.int64) -> Events:
    """Many simultaneous links, self-loops, and nodes that appear late."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.integers(0, times, size)).astype(dtype)
    newest = np.maximum(np.arange(size) * nodes // size, 1)
    src, dst = (rng.integers(0, newest + 1) for _ in range(2))
    return Events(src, dst, t, rng.normal(size=(size, 2)).round(), x=rng.normal(size=(nodes, 1)), num_nodes=nodes)


def built(events: Events, parts: PairParts = ALL, *, room: bool = False) -> Index:
    return Index.of(events, np.array(ALPHAS), parts.kinds, parts.decay(UNIT), room=room)


def growing(events: Events, parts: PairParts = ALL, *, own: bool = True) -> GrowingIndex:
    """An index that grows: built for that, or a copy of one that others use."""
    return GrowingIndex(events, built(events, parts, room=own), own=own)


def assert_equal(found: list[np.ndarray], expected: list[np.ndarray]) -> None:
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a, b)


def prefix(events: Events, size: int) -> Events:
    """The first links, with only the nodes that occur in them."""
    some = events[:size]
    nodes = max(int(some.src.max(initial=0)), int(some.dst.max(initial=0))) + 1
    return Events(some.src, some.dst, some.t, some.msg, x=events.x[:nodes])


def same(found: Index, expected: Index) -> None:
    """The same arrays, but for the order of simultaneous transitions, which no answer depends on."""
    found = found.flat()
    assert list(found.kinds) == list(expected.kinds)
    for kind, columns in expected.kinds.items():
        for name, array in columns.items():
            mine = found.kinds[kind][name]
            if kind in ("next", "origins") and name == "link":
                mine, array = found.t[mine >> 1], expected.t[array >> 1]
            np.testing.assert_array_equal(mine, array, err_msg=f"{kind}.{name}")
            assert mine.dtype == array.dtype
    np.testing.assert_array_equal(found.totals, expected.totals)
    np.testing.assert_array_equal(found.firsts, expected.firsts)


def added(held: GrowingEvents, links: Events, t: np.ndarray | None = None) -> tuple[Events, int]:
    """All links with these added, at other times if any are given, and the number of those that kept their place."""
    names, when = NameIndex.of(np.arange(len(links.x))), links.t if t is None else t
    return held.add(NewLinks(links.src, links.dst, when, links.msg, None, names, []))


def questions(events: Events, seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, events.num_nodes + 2, (2, 50))
    return [src, dst, rng.integers(0, 65, 50).astype(events.t.dtype)]


def answers(version: Index, asked: list[np.ndarray], parts: PairParts = ALL) -> list[np.ndarray]:
    src, dst, t = asked
    history = History.of(version)
    walks = history.sample(src, t, seed=3, num_walks=8, length=3)
    found = [walks.nodes, walks.t, walks.events, history.degree(src, t), *history.recent(src, t, 4)]
    if parts.any:
        found.append(PairFeatures(parts, version, UNIT).features(src, dst, t))
    return found


RATES = PairParts(since=False, two_steps=False, transitions=False)
PARTS = ALL, ALL._replace(directed=False), RATES, PairParts(*[False] * 5)


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
@pytest.mark.parametrize("parts", PARTS)
def test_equals_an_index_built_at_once(parts: PairParts, dtype: type) -> None:
    for seed in range(4):
        events, rng = random_links(seed, dtype=dtype), np.random.default_rng(seed)
        cuts = np.unique(rng.integers(1, len(events), [3, 12, 60, 400][seed]))
        first = prefix(events, int(cuts[0]))
        index = growing(first, parts, own=seed % 2 == 0)
        same(index.version, built(first, parts))
        for cut in [*cuts[1:].tolist(), len(events)]:
            some = prefix(events, cut)
            version, expected = index.append(some), built(some, parts)
            asked = questions(some, cut)
            assert_equal(answers(version, asked, parts), answers(expected, asked, parts))
        same(index.version, expected)


@pytest.mark.parametrize("parts", PARTS)
def test_late_links_go_where_they_belong(parts: PairParts) -> None:
    for seed in range(3):
        events, rng = random_links(seed), np.random.default_rng(seed)
        early = np.sort(rng.random(len(events)) < 0.9)
        early[rng.permutation(len(events))[:30]] = False  # these arrive late
        held = GrowingEvents(events[early])
        index, late = growing(held.events, parts, own=seed % 2 == 0), events[~early]
        for part in np.array_split(rng.permutation(len(late)), 8):
            version = index.append(*added(held, late[np.sort(part)]))
            assert (np.diff(held.events.t) >= 0).all()
            same(version, built(held.events, parts))
        assert len(held.events) == len(events)


def test_versions_never_change_and_an_extension_that_is_not_published_leaves_no_trace() -> None:
    """Each version is asked again after many more links, some of them late, and after others were abandoned."""
    events, rng = random_links(5, size=900), np.random.default_rng(0)
    held = GrowingEvents(events[:100])
    index = growing(held.events)
    asked, kept = questions(events, 1), []
    for first in range(100, 900, 8):
        some = events[first : first + 8]
        abandoned = GrowingEvents(held.events)
        index.extend(
            *added(abandoned, events[np.sort(rng.permutation(900)[:5])], np.sort(some.t[:5] - rng.integers(0, 4)))
        )
        index.abandon()
        version = index.append(*added(held, some, np.sort(some.t - rng.integers(0, 3, len(some)))))
        kept.append((version, answers(version, asked)))
        if rng.random() < 0.7:
            del kept[rng.integers(len(kept))]
        for earlier, before in kept:
            assert_equal(answers(earlier, asked), before)
    same(index.version, built(held.events))


def test_readers_see_their_version_while_links_arrive() -> None:
    """Threads ask versions, new and old ones, at every moment of a thousand publications."""
    events = random_links(7, size=1200, nodes=9, times=300)
    index = growing(prefix(events, 200))
    asked = questions(events, 2)
    versions: list[Index] = [index.version]
    found: list[tuple[int, list[np.ndarray]]] = []
    done = Event()

    def read(seed: int) -> None:
        rng = np.random.default_rng(seed)
        while not done.is_set():
            version = versions[-1 if rng.random() < 0.5 else rng.integers(len(versions))]
            found.append((len(version.t), answers(version, asked)))

    with ThreadPoolExecutor(3) as pool:
        readers = [pool.submit(read, seed) for seed in range(3)]
        for size in range(201, 1201):
            versions.append(index.append(prefix(events, size)))
        done.set()
        for reader in readers:
            reader.result()
    expected = {size: answers(built(prefix(events, size)), asked) for size, _ in found}
    for size, answer in found:
        assert_equal(answer, expected[size])
    same(index.version, built(events))


def test_memory_follows_the_links() -> None:
    """Places that lists have left are used again: links one by one cost at most twice what they cost at once."""
    events = random_links(3, size=4000, nodes=40, times=3000)
    index = growing(prefix(events, 50))
    for size in range(60, 4001, 10):
        index.append(prefix(events, size))
    assert index.nbytes < 2.2 * built(events).nbytes


class Failing:
    """Links that can be read so many times."""

    def __init__(self, events: Events, reads: int) -> None:
        self.events, self.reads = events, iter(range(reads))

    def __len__(self) -> int:
        return len(self.events)

    def __getattr__(self, name: str) -> object:
        next(self.reads)
        return getattr(self.events, name)


def test_an_append_that_fails_leaves_no_trace_among_simultaneous_links() -> None:
    """Wherever it fails: links are read at least 30 times."""
    events = random_links(0, size=120, nodes=10, times=12)
    index = growing(prefix(events, 40))
    for size in range(41, 121):
        with pytest.raises(StopIteration):
            index.append(Failing(prefix(events, min(size + 30, 120)), reads=size % 30))
        same(index.append(prefix(events, size)), built(prefix(events, size)))
