"""An index that grows equals one that is built at once, bit for bit, and its earlier versions never change."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

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


class Failing:
    """Links that can be read so many times."""

    def __init__(self, events: Events, reads: int) -> None:
        self.events, self.reads = events, iter(range(reads))

    def __len__(self) -> int:
        return len(self.events)

    def __getitem__(self, part: slice) -> Events:
        next(self.reads)
        return self.events[part]

    def __getattr__(self, name: str) -> object:
        next(self.reads)
        return getattr(self.events, name)


RATES, NONE = PairParts(since=False, two_steps=False, transitions=False), PairParts(*[False] * 5)
SIZES, LATE = st.sampled_from([1, 3, 20, 90]), st.sampled_from([0, 0, 1, 5])


class Growth(RuleBasedStateMachine):
    """An index that links are added to, some of them late; extensions are abandoned or fail."""

    @initialize(
        parts=st.sampled_from([ALL, ALL._replace(directed=False), RATES, NONE]),
        dtype=st.sampled_from([np.int64, np.float64]),
        own=st.booleans(),
        seed=st.integers(0, 99),
    )
    def begin(self, parts: PairParts, dtype: type, own: bool, seed: int) -> None:
        self.parts, self.rng = parts, np.random.default_rng(seed)
        self.links = random_links(seed, 4_000, times=600, dtype=dtype)
        self.held, self.rest = GrowingEvents(prefix(self.links, 40)), self.links[40:]
        self.index, self.kept = growing(self.held.events, parts, own=own), []

    def arrivals(self, held: GrowingEvents, size: int, late: int) -> tuple[Events, int]:
        """All links with the next ones, up to so late, and the number of those that kept their place."""
        some, self.rest = self.rest[:size], self.rest[size:]
        t = np.sort(some.t - self.rng.integers(0, late + 1, len(some)).astype(some.t.dtype))
        nodes = max(held.events.num_nodes, int(some.src.max(initial=0)) + 1, int(some.dst.max(initial=0)) + 1)
        return held.add(NewLinks(some.src, some.dst, t, some.msg, None, NameIndex.of(np.arange(nodes)), []))

    @rule(size=SIZES, late=LATE)
    def append(self, size: int, late: int) -> None:
        version = self.index.append(*self.arrivals(self.held, size, late))
        asked = questions(self.held.events, size)
        self.kept.append((version, asked, answers(version, asked, self.parts)))

    @rule(size=SIZES, late=LATE, reads=st.none() | st.integers(0, 27))
    def leave_no_trace(self, size: int, late: int, reads: int | None) -> None:
        """Links are read at least 28 times for sequences, 12 times for rates, and 6 times for walks alone."""
        events, kept = self.arrivals(GrowingEvents(self.held.events), size, late)
        if reads is None:
            self.index.extend(events, kept)
            self.index.abandon()
            return
        least = 28 if self.parts.sequences else 12 if self.parts.any else 6
        with pytest.raises(StopIteration):
            self.index.append(Failing(events, reads % least), kept)

    @rule(at=st.integers(0, 99))
    def release_a_version(self, at: int) -> None:
        self.kept = [kept for i, kept in enumerate(self.kept) if i != at % len(self.kept)]

    @invariant()
    def every_version_is_what_it_was(self) -> None:
        for version, asked, before in self.kept:
            assert_equal(answers(version, asked, self.parts), before)

    @invariant()
    def the_newest_one_equals_an_index_built_at_once(self) -> None:
        same(self.index.version, built(self.held.events, self.parts))


TestGrowth = Growth.TestCase
TestGrowth.settings = settings(max_examples=50, stateful_step_count=30)


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
    same(index.version, built(events))
