"""Features from the sequences of links, against the links read one by one."""

import math
from itertools import pairwise

import numpy as np
import pytest

import cawn
from cawn.data.ties import in_canonical_order
from cawn.walks.rates import Rates
from cawn.walks.sequences import DEPTH, PARTNERS, SCALE, STRIDE, Sequences
from cawn.walks.sequences import SequenceParts as Parts
from networks import queries, random_events

ALPHAS = (0.0, 0.05, 2.0)
UNIT = 40 / SCALE  # sums decay over 40 units of time


def sequences_of(events: cawn.Events) -> Sequences:
    rates = Rates(events, cawn.History(events, ALPHAS), directed=False)
    return Sequences.of(events, rates.pairs, UNIT)


def slow(events: cawn.Events, u: int, v: int, now: float) -> list[float]:
    """The features of u, given v."""
    times, moment = np.unique(events.t, return_inverse=True)
    events = in_canonical_order(events.with_times(moment), equal_by_rows=True)
    events = events.with_times(times[events.t])
    links = [(int(a), int(b), float(t)) for a, b, t in zip(events.src, events.dst, events.t, strict=True) if t < now]

    def of(node: int) -> list[tuple[int, float]]:
        return [(b if a == node else a, t) for a, b, t in links if node in (a, b)]

    def together(a: int, b: int) -> list[float]:
        return [t for x, y, t in links if {x, y} == {a, b}]

    def decayed(times: list[float], alpha: float = 1 / 40) -> float:
        return sum(math.exp(-alpha * (now - t)) for t in times)

    mine, pair = of(u), together(u, v)
    since = sum(t >= pair[-1] for _, t in mine) if pair else 0
    row = [math.log1p(since) / 3, 1 / since] if pair else [-1.0, 0.0]

    steps = [(w, t) for w, t in mine[-PARTNERS:] if w != v]
    used = ALPHAS[::STRIDE]
    for alpha in used:
        weights = [math.exp(-alpha * (now - t)) for _, t in steps]
        rates = [decayed(together(w, v), alpha) for w, _ in steps]
        row.append(sum(a * r / (1 + r) for a, r in zip(weights, rates, strict=True)) / (sum(weights) + 1e-6))
    for alpha in used:
        roots = [math.sqrt(math.exp(-alpha * (now - t)) * decayed(together(w, v), alpha)) for w, t in steps]
        row.append(math.log1p(sum(roots)))
    row.append(math.log1p(sum(bool(together(w, v)) for w, _ in steps)))

    follows = []  # (before, after, time) in the sequence of each node
    nodes = {node for a, b, _ in links for node in (a, b)}
    for node in nodes:
        whole = of(node)
        follows += [(w, z, t) for (w, _), (z, t) in pairwise(whole)]
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
def test_features_are_what_the_links_say(dtype: type) -> None:
    events = random_events(3, num_links=120, dtype=dtype)
    u, t = queries(events, 1, 60)
    v = np.roll(u, 7)
    found = sequences_of(events).features(u, v, t, Parts())
    assert found.shape == (60, Parts().width(len(ALPHAS)))
    for row, a, b, now in zip(found, u, v, t, strict=True):
        np.testing.assert_allclose(row, slow(events, a, b, now), rtol=1e-5, atol=1e-6)


def test_literal_case() -> None:
    """1 and 2 linked last, two links of 1 ago; 1's last partner 3 was twice followed by 2, of three times in all."""
    src, dst = [1, 4, 4, 1, 5, 5, 6, 6], [2, 3, 2, 3, 3, 2, 3, 7]
    events = cawn.Events(src, dst, np.arange(8), num_nodes=9)
    rates = Rates(events, cawn.History(events, 0.0), directed=False)
    found = Sequences.of(events, rates.pairs, 1e9 / SCALE).features(
        np.array([1]), np.array([2]), np.array([8]), Parts()
    )
    base = (3 + 1) / (16 + 7)
    assert found[0, :2] == pytest.approx([math.log(3) / 3, 1 / 2])
    assert found[0, 2:5] == pytest.approx([0.0, 0.0, 0.0], abs=1e-6)  # 3 and 2 never linked
    assert found[0, 5:8] == pytest.approx(
        [math.log(x) / 3 for x in (base, (1 + base) / (2 + 1), (2 + base) / (3 + 1))], rel=1e-5
    )


@pytest.mark.parametrize(
    "parts", [Parts(True, False, False), Parts(False, True, False), Parts(False, False, True), Parts(True, False, True)]
)
def test_each_part_by_itself(parts: Parts) -> None:
    events = random_events(4, num_links=100)
    u, t = queries(events, 2, 30)
    v = np.roll(u, 3)
    index = sequences_of(events)
    whole, ends = index.features(u, v, t, Parts()), np.cumsum([0, 2, 5, 2 + DEPTH])
    kept = [whole[:, ends[i] : ends[i + 1]] for i, used in enumerate(parts) if used]
    assert np.array_equal(index.features(u, v, t, parts), np.concatenate(kept, axis=1))


def test_neither_rows_nor_names_nor_the_unit_of_time_nor_the_future_matter() -> None:
    events = random_events(6, num_links=150)
    u, t = queries(events, 3, 40)
    u, v = u % events.num_nodes, np.roll(u % events.num_nodes, 5)
    expected = sequences_of(events).features(u, v, t, Parts())
    rng = np.random.default_rng(0)
    rows, names = rng.permutation(len(events)), rng.permutation(events.num_nodes).astype(np.int32)
    shuffled = cawn.Events(events.src[rows], events.dst[rows], events.t[rows], num_nodes=events.num_nodes)
    renamed = cawn.Events(names[events.src], names[events.dst], events.t, num_nodes=events.num_nodes)
    assert np.array_equal(sequences_of(shuffled).features(u, v, t, Parts()), expected)
    assert np.allclose(sequences_of(renamed).features(names[u], names[v], t, Parts()), expected, atol=1e-6)
    stretched = cawn.Events(events.src, events.dst, events.t * 1024, num_nodes=events.num_nodes)
    rates = Rates(stretched, cawn.History(stretched, tuple(a / 1024 for a in ALPHAS)), directed=False)
    found = Sequences.of(stretched, rates.pairs, UNIT * 1024).features(u, v, t * 1024, Parts())
    assert np.allclose(found, expected, atol=1e-6)
    early = t < np.median(events.t)
    past = events[events.t < np.median(events.t)]
    assert np.allclose(sequences_of(past).features(u[early], v[early], t[early], Parts()), expected[early], atol=1e-6)


def test_no_links() -> None:
    events = random_events(0, num_links=5)[:0]
    found = sequences_of(events).features(np.array([0, 99]), np.array([1, 98]), np.array([3, 4]), Parts())
    assert np.isfinite(found).all()
    assert (found[:, 0] == -1).all()
