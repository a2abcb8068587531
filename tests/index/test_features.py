"""Exact features of pairs against the same sums written out, link by link; past links of nodes; counts of keys."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch

import cawn
from cawn.index.canonical import CanonicalOrder
from cawn.index.features import DEPTH, RECENT, SCALE, PairFeatures, PairParts
from cawn.index.index import Index
from cawn.index.kernels.rates import AGES
from cawn.index.kernels.sequences import STRIDE
from cawn.index.neighbours import Neighbours
from cawn.index.tallies import Tally, first_occurrences
from cawn.kernels.keys import pair_key
from networks import queries, random_events
from reference.walks import links_before

ALPHAS = (0.0, 0.003, 0.05, 2.0, 40.0)
RATES = PairParts(since=False, two_steps=False, transitions=False)
SEQUENCES = PairParts(rates=False)
UNIT = 40 / SCALE  # transitions decay over 40 units of time


def features_of(
    events: cawn.Events, parts: PairParts, unit: float = UNIT, alphas: tuple[float, ...] = ALPHAS
) -> PairFeatures:
    return PairFeatures(parts, Index.of(events, np.array(alphas), parts.kinds, parts.decay(unit)), unit)


def rates(events: cawn.Events, u: int, v: int, now: float, unit: float, directed: bool) -> list[float]:
    s, d = events.src, events.dst
    before = events.t < now

    def look(mask: np.ndarray) -> tuple[list[float], np.ndarray]:
        ages = np.sort((now - events.t[mask & before]).astype(float))
        return list(ages), np.array([np.exp(-a * ages).sum() for a in ALPHAS])

    def closeness(ages: list[float], count: int) -> list[float]:
        return [1 - np.log1p(a / unit) / 14 for a in ages[:count]] + [-1.0] * (count - len(ages))

    ages, pair = look(((s == u) & (d == v)) | ((s == v) & (d == u)))
    row = [*np.log1p(pair), np.log1p(len(ages)), *closeness(ages, AGES)]
    for end in (u, v):
        ages, found = look((s == end) | (d == end))
        row += [*np.log1p(found), *closeness(ages, 1)]
        row += np.divide(pair, found, out=np.zeros_like(pair), where=found > 0).tolist()
    if directed:
        for mask in ((s == u) & (d == v), s == u, d == v):
            ages, found = look(mask)
            row += [*np.log1p(found), *closeness(ages, 1)]
    return row


def check_rates(events: cawn.Events, src: np.ndarray, dst: np.ndarray, t: np.ndarray, directed: bool = True) -> None:
    parts = RATES._replace(directed=directed)
    found = features_of(events, parts, 4.0).features(src, dst, t)
    assert found.shape == (len(src), parts.width(len(ALPHAS)))
    slow = [rates(events, *asked, 4.0, directed) for asked in zip(src, dst, t, strict=True)]
    np.testing.assert_allclose(found, np.array(slow).reshape(found.shape), rtol=3e-7, atol=1e-9)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("dtype", [np.int64, np.float64])
def test_rates_are_sums_over_the_past(dtype: type, directed: bool) -> None:
    """Lists of fewer links than a block of sums, and of many blocks; no links before the query, and none at all."""
    for seed, nodes in enumerate((4, 12, 60)):
        events = random_events(seed, num_nodes=nodes, num_links=300, dtype=dtype, offset=seed * 1_000_000_000)
        src, t = queries(events, seed, 150)
        dst = np.random.default_rng(seed).integers(-1, nodes + 2, 150)
        for indexed in (events, events[:0]):
            check_rates(indexed, src, dst, t, directed)


@pytest.mark.parametrize("per_query", [1, 3, 64, 100, 400])
def test_consecutive_pairs_of_one_source(per_query: int) -> None:
    """As in ranking: they share what depends on the source; groups that end within a block of pairs, and at its end."""
    events = random_events(1, num_nodes=12, num_links=300)
    src, t = (np.repeat(values, per_query)[:400] for values in queries(events, 5, 400))
    check_rates(events, src, np.arange(400) % 13, t)


def test_features_are_finite() -> None:
    far = cawn.Events([0, 0], [1, 1], np.array([0, 2**62], np.int64))
    found = features_of(far, PairParts(), 1e-9, (1e300,)).features(np.array([0]), np.array([1]), np.array([2**62 + 1]))
    assert np.isfinite(found).all()


def sequences(events: cawn.Events, u: int, v: int, now: float) -> list[float]:
    """The features of u, given v."""
    _, keys = CanonicalOrder(events, attributes=True).extend(events, 0)
    order = np.lexsort((keys, events.t))
    columns = (events.src[order], events.dst[order], events.t[order])
    links = [(int(a), int(b), float(t)) for a, b, t in zip(*columns, strict=True) if t < now]

    def of(node: int) -> list[tuple[int, float]]:
        return [(b if a == node else a, t) for a, b, t in links if node in (a, b)]

    def together(a: int, b: int) -> list[float]:
        return [t for x, y, t in links if {x, y} == {a, b}]

    def decayed(times: list[float], alpha: float = 1 / 40) -> float:
        return sum(math.exp(-alpha * (now - t)) for t in times)

    mine, pair = of(u), together(u, v)
    since = sum(t >= pair[-1] for _, t in mine) if pair else 0
    row = [math.log1p(since) / 3, 1 / since] if pair else [-1.0, 0.0]

    steps = [(w, t) for w, t in mine[-RECENT:] if w != v]
    used = ALPHAS[::STRIDE]
    for alpha in used:
        weights = [math.exp(-alpha * (now - t)) for _, t in steps]
        found = [decayed(together(w, v), alpha) for w, _ in steps]
        row.append(sum(a * r / (1 + r) for a, r in zip(weights, found, strict=True)) / (sum(weights) + 1e-6))
    for alpha in used:
        roots = [math.sqrt(math.exp(-alpha * (now - t)) * decayed(together(w, v), alpha)) for w, t in steps]
        row.append(math.log1p(sum(roots)))
    row.append(math.log1p(sum(bool(together(w, v)) for w, _ in steps)))

    nodes = {node for a, b, _ in links for node in (a, b)}
    follows = [(w, z, t) for node in nodes for (w, _), (z, t) in pairwise(of(node))]
    total = 2 * decayed([t for _, _, t in links])
    base = (decayed([t for _, t in of(v)]) + 1) / (total + max(len(nodes), 1))
    row += [math.log(base) / 3, math.log((decayed(pair) + base) / (decayed([t for _, t in mine]) + 1)) / 3]
    for k in range(DEPTH):
        if k >= len(mine):
            row.append(0.0)
            continue
        w = mine[-1 - k][0]
        next_to_v = decayed([t for before, after, t in follows if (before, after) == (w, v)])
        row.append(math.log((next_to_v + base) / (decayed([t for before, _, t in follows if before == w]) + 1)) / 3)
    return row


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
@pytest.mark.parametrize("nodes", [4, 8])
def test_sequences_are_what_the_links_say(nodes: int, dtype: type) -> None:
    events = random_events(3, num_nodes=nodes, num_links=150, dtype=dtype)
    u, t = queries(events, 1, 60)
    v = np.roll(u, 7)
    for indexed in (events, events[:0]):
        found = np.split(features_of(indexed, SEQUENCES).features(u, v, t), 2, axis=1)
        for half, ends in zip(found, ((u, v), (v, u)), strict=True):
            slow = [sequences(indexed, *asked) for asked in zip(*ends, t, strict=True)]
            np.testing.assert_allclose(half, slow, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("parts", [PairParts(a, a, b, c, d) for a in (True, False) for b, c, d in np.ndindex(2, 2, 2)])
def test_each_part_by_itself(parts: PairParts) -> None:
    """The rates, then the source, then the destination; a part has the same values whatever else is asked for."""
    events = random_events(4, num_links=100)
    u, t = queries(events, 2, 30)
    v = np.roll(u, 3)
    whole, width = features_of(events, PairParts()).features(u, v, t), PairParts().widths(len(ALPHAS))
    ends = np.cumsum([0, width[0], *[2, 2 * -(-len(ALPHAS) // STRIDE) + 1, 2 + DEPTH] * 2])
    used = [parts.rates, *[parts.since, parts.two_steps, parts.transitions] * 2]
    kept = [whole[:, ends[i] : ends[i + 1]] for i, use in enumerate(used) if use]
    found = features_of(events, parts).features(u, v, t)
    np.testing.assert_array_equal(found, np.concatenate([whole[:, :0], *kept], axis=1))


@pytest.mark.parametrize("size", [0, 1, 2047, 2048, 5001])
def test_neither_threads_nor_the_batch_matter(size: int) -> None:
    features = features_of(random_events(2, num_links=300), PairParts())
    src, t = queries(random_events(2, num_links=300), 3, size)
    dst = np.roll(src, 1)
    found = [features.features(src, dst, t, threads=threads) for threads in (1, 2)]
    np.testing.assert_array_equal(*found)
    one_by_one = [features.features(src[i : i + 1], dst[i : i + 1], t[i : i + 1]) for i in range(0, size, 500)]
    np.testing.assert_array_equal(found[0][::500], np.concatenate([found[0][:0], *one_by_one]))


def test_neither_rows_nor_names_matter() -> None:
    events = random_events(6, num_links=150)
    u, t = queries(events, 3, 40)
    u, v = u % events.num_nodes, np.roll(u % events.num_nodes, 5)
    rng = np.random.default_rng(0)
    rows, names = rng.permutation(len(events)), rng.permutation(events.num_nodes).astype(np.int32)
    other = cawn.Events(names[events.src[rows]], names[events.dst[rows]], events.t[rows], num_nodes=events.num_nodes)
    found = features_of(other, PairParts()).features(names[u], names[v], t)
    np.testing.assert_allclose(found, features_of(events, PairParts()).features(u, v, t), atol=1e-6)


# Past links of nodes, exact and strict; counts of keys among the first n links.


def newest(events: cawn.Events, node: int, t: float, k: int) -> list[tuple[int, float, int]]:
    """The last k links of a node strictly before t, newest first."""
    return [(other, when, event) for when, other, event, _ in links_before(events, node, t)[::-1][:k]]


@pytest.mark.parametrize("dtype", [np.int64, np.float64])
@pytest.mark.parametrize("k", [1, 3, 50])
def test_recent_links_against_reading_all_links(dtype: type, k: int) -> None:
    """Of a history, and of neighbours, which follow the canonical order and the number of visible links."""
    events = random_events(1, num_links=200, span=50, dtype=dtype, offset=-20)
    nodes, t = queries(events, 2, 60)
    neighbours = Neighbours(events)
    ids, visible = torch.from_numpy(nodes), neighbours.before(torch.from_numpy(t))
    assert visible.tolist() == [int((events.t < when).sum()) for when in t]
    theirs = neighbours.recent(ids, visible, k)
    found = cawn.History(events, 0.1).recent(nodes, t, k)
    assert found.nodes.shape == (60, k)
    assert found.t.dtype == events.t.dtype
    for b, (node, now) in enumerate(zip(nodes, t, strict=True)):
        expected, other = newest(events, node, now, k), newest(neighbours.events, node, now, k)
        missing = [(-1, 0, -1)] * (k - len(expected))
        assert list(zip(*(column[b].tolist() for column in found), strict=True)) == expected + missing
        assert list(zip(*(column[b].tolist() for column in theirs[:3]), strict=True)) == other + missing
        is_source = [bool(neighbours.events.src[event] == node) for *_, event in other]
        assert theirs.is_source[b].tolist() == is_source + [False] * len(missing)


def test_uniform_links_have_a_uniform_law_and_do_not_depend_on_the_batch() -> None:
    """Chi-squared with 9 degrees of freedom; false alarm 1e-6. The seed is fixed."""
    events = cawn.Events(np.zeros(20, int), 1 + np.arange(20), np.arange(20))
    neighbours = Neighbours(events)
    zeros, ten = torch.zeros(1, dtype=torch.int64), torch.tensor([10])
    drawn = torch.cat([neighbours.uniform(zeros, ten, ten, 100, seed).nodes for seed in range(50)]).ravel()
    counts = np.bincount(drawn.numpy() - 1, minlength=10)
    assert len(counts) == 10
    assert ((counts - 500) ** 2 / 500).sum() < 45.1
    nodes, t = torch.tensor([0, 5, 0, 40]), torch.tensor([10, 10, 15, 3])
    whole = neighbours.uniform(nodes, neighbours.before(t), t, 7, 3)
    for b in range(4):
        alone = neighbours.uniform(nodes[b : b + 1], neighbours.before(t[b : b + 1]), t[b : b + 1], 7, 3)
        for column, expected in zip(alone, whole, strict=True):
            assert torch.equal(column[0], expected[b])
    assert (whole.t.diff(dim=1) <= 0).all()
    assert not whole.mask[3].any()


def test_no_links_at_all_and_what_is_refused() -> None:
    nothing = cawn.Events([], [], [], num_nodes=3)
    nodes = torch.tensor([0, 5])
    neighbours = Neighbours(nothing)
    for found in (neighbours.recent(nodes, nodes * 0, 2), neighbours.uniform(nodes, nodes * 0, nodes, 2, 0)):
        assert not found.mask.any()
    history = cawn.History(nothing, 0.0)
    assert history.recent([0], [1], 2).nodes.tolist() == [[-1, -1]]
    for k in (0, -1, 1.5, "a"):
        with pytest.raises(cawn.QueryError, match="k is"):
            history.recent([0], [1], k)


def test_occurrences_before_first_ones_and_keys_of_pairs() -> None:
    assert first_occurrences(np.array([4, 4, 2, 4, 2])).tolist() == [True, False, True, False, False]
    ids = np.array([0, 2**31 - 1], np.int32)
    assert len(set(pair_key(np.repeat(ids, 2), np.tile(ids, 2)))) == 4
    tally = Tally.of(np.array([7, 3, 7, 7, 5]), np.array([0, 1, 2, 2, 4]))
    keys, visible = np.array([7, 7, 7, 7, 5, 3, 4, 9]), np.array([0, 1, 2, 3, 4, 9, 9, 9])
    count, newest = tally.before(keys, visible)
    assert count.tolist() == [0, 1, 1, 3, 0, 1, 0, 0]
    assert [tally.links[at] if at >= 0 else -1 for at in newest] == [-1, 0, 0, 2, -1, 1, -1, -1]
    assert tally.running().tolist() == [1, 1, 1, 2, 3]  # by key: 3, 5, 7
    count, newest = Tally.of(np.empty(0, np.int64), np.empty(0, np.int64)).before(keys, visible)
    assert (set(count), set(newest)) == ({0}, {-1})


def test_decayed_sums() -> None:
    t = np.array([0, 3, 10, 12], np.int64)
    tally = Tally.of(np.array([1, 0, 1, 1]), np.arange(4))
    expected = [1, 1, 1 + np.exp(-5), 1 + np.exp(-1) + np.exp(-6)]
    assert tally.decayed(t, 2.0).tolist() == pytest.approx(expected)
