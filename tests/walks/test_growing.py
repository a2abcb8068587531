"""An index that grows equals one that is built at once, bit for bit, and its earlier versions never change."""

import numpy as np
import pytest

from cawn.data.events import Events
from cawn.data.names import NameIndex
from cawn.data.updates import GrowingEvents, NewLinks
from cawn.walks.growing import GrowingIndex, IndexVersion
from cawn.walks.history import History
from cawn.walks.pairs import PairFeatures, PairParts

ALPHAS = (0.0, 0.3)
UNIT = 0.001


def random_links(seed: int, size: int = 300, nodes: int = 12, times: int = 60, *, dtype: type = np.int64) -> Events:
    """Many simultaneous links, self-loops, and nodes that appear late."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.integers(0, times, size)).astype(dtype)
    newest = np.maximum(np.arange(size) * nodes // size, 1)
    src, dst = (rng.integers(0, newest + 1) for _ in range(2))
    return Events(src, dst, t, rng.normal(size=(size, 2)).round(), x=rng.normal(size=(nodes, 1)), num_nodes=nodes)


def built(events: Events, parts: PairParts) -> IndexVersion:
    history = History(events, ALPHAS)
    return IndexVersion(history, PairFeatures.of(parts, events, history, UNIT))


def prefix(events: Events, size: int) -> Events:
    """The first links, with only the nodes that occur in them."""
    some = events[:size]
    nodes = max(int(some.src.max(initial=0)), int(some.dst.max(initial=0))) + 1
    return Events(some.src, some.dst, some.t, some.msg, x=events.x[:nodes])


def same(found: IndexVersion, expected: IndexVersion) -> None:
    assert list(found.history.arrays) == list(expected.history.arrays)
    for name, array in expected.history.arrays.items():
        np.testing.assert_array_equal(found.history.arrays[name], array, err_msg=name)
    if expected.pair_features is not None:
        arrays = found.pair_features.arrays
        for name, array in expected.pair_features.arrays.items():
            np.testing.assert_array_equal(arrays[name], array, err_msg=name)
            assert arrays[name].dtype == array.dtype
            assert arrays[name].flags.c_contiguous


def questions(events: Events, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, events.num_nodes + 2, (2, 50))
    return src, dst, rng.integers(0, 65, 50).astype(events.t.dtype)


def answers(version: IndexVersion, asked: tuple[np.ndarray, np.ndarray, np.ndarray]) -> list[np.ndarray]:
    src, dst, t = asked
    walks = version.history.sample(src, t, seed=3, num_walks=8, length=3)
    degree, recent = version.history.degree(src, t), version.history.recent(src, t, 4)
    found = [walks.nodes, walks.t, walks.events, degree, *recent]
    if version.pair_features is not None:
        found.append(version.pair_features.features(src, dst, t))
    return found


PARTS = {
    "all": PairParts(),
    "undirected": PairParts(directed=False),
    "rates": PairParts(since=False, two_steps=False, transitions=False),
    "none": PairParts(False, False, False, False, False),
}


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
def test_equals_an_index_built_at_once(parts: PairParts, dtype: type) -> None:
    for seed in range(4):
        events, rng = random_links(seed, dtype=dtype), np.random.default_rng(seed)
        cuts = np.unique(rng.integers(1, len(events), [3, 12, 60, 400][seed]))
        first = prefix(events, int(cuts[0]))
        start = built(first, parts)
        index = GrowingIndex(first, *start)
        same(index.version, start)
        for cut in [*cuts[1:].tolist(), len(events)]:
            some = prefix(events, cut)
            version, expected = index.append(some), built(some, parts)
            asked = questions(some, cut)
            for a, b in zip(answers(version, asked), answers(expected, asked), strict=True):
                np.testing.assert_array_equal(a, b)
        same(index.version, expected)


@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS)
def test_late_links_go_where_they_belong(parts: PairParts) -> None:
    for seed in range(4):
        events, rng = random_links(seed), np.random.default_rng(seed)
        early = np.sort(rng.random(len(events)) < 0.9)
        early[rng.permutation(len(events))[:30]] = False  # these arrive late
        held = GrowingEvents(events[early])
        index = GrowingIndex(held.events, *built(held.events, parts))
        late = events[~early]
        for part in np.array_split(rng.permutation(len(late)), 12):
            some = late[np.sort(part)]
            names = NameIndex.of(np.arange(events.num_nodes))
            new = NewLinks(some.src, some.dst, some.t, some.msg, None, names, [])
            version = index.append(*held.add(new))
            assert (np.diff(held.events.t) >= 0).all()
            same(version, built(held.events, parts))
        assert len(held.events) == len(events)


def test_versions_never_change() -> None:
    """Each version is asked again after many more links, some of them late, and after others were forgotten."""
    events, rng = random_links(5, size=600), np.random.default_rng(0)
    held = GrowingEvents(events[:100])
    index = GrowingIndex(held.events, *built(held.events, PairParts()))
    asked, kept = questions(events, 1), []
    names = NameIndex.of(np.arange(events.num_nodes))
    for first in range(100, 600, 5):
        some = events[first : first + 5]
        t = np.sort(some.t - rng.integers(0, 3, 5))
        version = index.append(*held.add(NewLinks(some.src, some.dst, t, some.msg, None, names, [])))
        kept.append((version, answers(version, asked)))
        if rng.random() < 0.5:
            del kept[rng.integers(len(kept))]
        del version
        for held_version, before in kept:
            for a, b in zip(answers(held_version, asked), before, strict=True):
                np.testing.assert_array_equal(a, b)
