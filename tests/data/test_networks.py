"""Networks: in words and numbers, those that follow a law, and the order of their simultaneous links."""

from collections import Counter
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import cawn
from cawn.caw.config import Config
from cawn.data import laws, summary
from cawn.data.decays import LADDERS, time_unit
from cawn.data.summary import describe, in_words
from cawn.data.ties import batch_ends, in_canonical_order
from cawn.data.times import usual
from cawn.learn.indexing import build_index
from cawn.progress import progress
from networks import random_events
from statistics_of_draws import assert_follows

# Networks in words, and the decays that follow from their pace.


DAY = 86_400


@pytest.mark.parametrize(
    ("events", "sentences"),
    [
        (cawn.Events([], [], []), ["no links, so there is nothing to learn from"]),
        (cawn.Events([0, 1], [1, 2], [7, 7]), ["all links are at 7, so no link has a history"]),
        (
            cawn.Events([0, 1, 2, 0, 3], [1, 0, 3, 1, 3], [10, 20, 30, 40, 40], msg=np.ones((5, 2)), x=np.ones(4)),
            [
                "4 nodes, 5 links, 2 link and 1 node attributes; 40% repeat an earlier pair (in either direction), ",
                "20% share a time, 20% self-loops\nfrom 10 to 40; an average node links every 12 units of time (1/tau)",
            ],
        ),
        (
            cawn.Events([0] * 20, [1] * 20, 1_704_067_200 + np.arange(20) * DAY // 2 + 0.5),
            ["from 2024-01-01T00:00:00.5 to 2024-01-10T12:00:00.5; an average node links every 11.4 hours"],
        ),
        (
            cawn.Events([0] * 400, [1] * 400, np.append(np.arange(398) * DAY + 1_600_000_000, [0, 2_600_000_000])),
            ["from 2020-09-13T12:26:40 to 2021-10-15T12:26:40 (but for 2 links far from these", "23.9 hours (1/tau)"],
        ),
    ],
)
def test_networks_in_words(events: cawn.Events, sentences: list[str]) -> None:
    found = describe(events)
    words = in_words(found)
    assert all(sentence in words for sentence in sentences), words
    assert ("alpha" in words) == (events.intensity > 0)
    assert ("attributes" in words) == (events.msg is not None)
    assert [found["start"], found["end"]] == ([events.t.min(), events.t.max()] if len(events) else [None, None])
    assert found["alpha"] == [LADDERS["wide"][0] * events.intensity, LADDERS["wide"][-1] * events.intensity]


def test_networks_are_described_in_blocks_and_from_a_stored_index(tmp_path: Path, monkeypatch) -> None:
    """Which knows how many pairs there are, if it has features of pairs."""
    events = random_events(0, num_links=100, span=30)
    expected, log = describe(events), tmp_path / "log.parquet"
    assert (expected["ties"], expected["repeats"], expected["self_loops"]) == (70, 69, 20)
    pq.write_table(pa.table({"src": events.src, "dst": events.dst, "t": events.t}), log)
    monkeypatch.setattr(summary, "_BLOCK", 7)
    for preset, changed in (("fast", {}), ("paper-mean", {"repeats": None})):
        build_index(log, tmp_path / preset, Config.preset(preset), memory=2**33, report=partial(progress, quiet=True))
        assert describe(cawn.read(tmp_path / preset)) == expected | changed


@given(
    gaps=st.lists(st.integers(1, 50), min_size=299, max_size=299),
    far=st.lists(st.sampled_from([-(10**6), -(10**7), 10**6, 10**8]), max_size=4),
    unit=st.sampled_from([1, 1000, 2.0**-10]),
)
def test_links_dated_far_from_all_others_do_not_move_decays(gaps: list[int], far: list[int], unit: float) -> None:
    t = np.append(0, np.cumsum(gaps))
    plain = cawn.Events(np.arange(300) % 9, np.arange(300) % 7, t * unit)
    both = cawn.Events([*plain.src, *[1] * len(far)], [*plain.dst, *[2] * len(far)], np.append(t, far) * unit)
    sides = sum(time < 0 for time in far), sum(time > 0 for time in far)
    if max(sides) <= 3 and t[-1] > 0:
        assert usual(both.t) == slice(sides[0], 300 + sides[0])
        assert (both.intensity, time_unit(both)) == (plain.intensity, time_unit(plain))
    assert usual(plain.t) == slice(0, 300)


def test_the_ladder_follows_the_pace_of_the_network() -> None:
    events = laws.null(50, 1_000, seed=0).events
    tau = events.intensity
    assert Config().decays(tau) == tuple(f * tau for f in LADDERS["wide"])
    assert len(Config(num_walks=12).decays(tau)) == 4
    assert Config(num_walks=5).decays(tau) == (LADDERS["wide"][4] * tau,)
    assert Config(alpha=0.5).decays(tau, "slow") == (0.5,)
    assert Config(alpha=(0.5, 2.0)).decays(tau) == (0.5, 2.0)
    assert Config.preset("paper-mean").decays(tau) == (tau / 5,)
    faster = cawn.Events(events.src, events.dst, events.t / 1000.0, num_nodes=50)
    np.testing.assert_allclose(np.array(Config().decays(faster.intensity)) / Config().decays(tau), 1000)


# The laws hold in the networks that claim them, and chance alone rules the null model.


def closers(network: laws.LawNetwork, *, directed: bool) -> np.ndarray:
    """For each link u-v: did a path u -> w -> v with rising times happen within two reaction times before it?"""
    links = list(zip(network.events.src.tolist(), network.events.dst.tolist(), network.events.t.tolist(), strict=True))
    found = np.zeros(len(links), bool)
    for e, (u, v, now) in enumerate(links):
        before = [link for link in links[:e] if now - 2 * laws.REACTION_TIME <= link[2] < now]
        for (a, b, early), (c, d, late) in product(before, before):
            loop = (a, b, d) == (u, c, v)
            triangle = len({a, b} & {c, d}) == 1 and {a, b} ^ {c, d} == {u, v}
            found[e] |= early < late and (loop if directed else triangle)
    return found


@pytest.mark.parametrize(
    ("law", "directed", "noise", "caused"),
    [
        (laws.triadic_closure, False, 0.2, range(61, 140)),
        (laws.feed_forward, True, 0.2, range(61, 140)),
        (laws.feed_forward, False, 0.0, [80]),  # the decoys, whatever their direction
        (lambda *size, seed, noise: laws.null(*size, seed=seed), False, 0.0, [0]),
    ],
)
def test_caused_links_have_their_causes_and_chance_closes_no_triangles(law, directed: bool, noise, caused) -> None:
    network = law(40, 400, seed=1, noise=noise)
    closed = closers(network, directed=directed)
    assert closed[network.caused].all()
    assert closed[~network.caused].mean() < 0.1
    assert network.caused.sum() in caused
    assert len(network.events) == 400


@pytest.mark.parametrize("law", [laws.triadic_closure, laws.feed_forward, laws.null])
def test_a_seed_is_a_network(law) -> None:
    a, b, c = law(seed=1).events, law(seed=1).events, law(seed=2).events
    np.testing.assert_array_equal(np.stack([a.src, a.t]), np.stack([b.src, b.t]))
    assert (a.src != c.src).any()
    assert (a.src != a.dst).all()
    assert (a.num_nodes, len(a)) == (100, 3000)


def test_actors_are_uniform_among_different_nodes() -> None:
    """The only episode of each of 6,000 networks: any three of five nodes, in any order, each as likely."""
    counts = Counter()
    for seed in range(6_000):
        events = laws.triadic_closure(5, 3, seed=seed, noise=0.0).events
        first, second, _ = map(frozenset, zip(events.src.tolist(), events.dst.tolist(), strict=True))
        counts[first - second, first & second, second - first] += 1  # u-w, then w-v
    assert len(counts) == 60
    assert_follows(list(counts.values()), np.full(60, 1 / 60))


def test_the_two_pairs_of_figure_3() -> None:
    network = laws.two_pairs()
    links = np.stack([network.events.src, network.events.dst, network.events.t], axis=1).tolist()
    assert links == [[0, 1, 1], [2, 3, 1], [0, 1, 2], [2, 3, 2]]
    assert network.caused.tolist() == [False, False, True, True]
    with pytest.raises(cawn.QueryError):
        laws.two_pairs(1)


@pytest.mark.parametrize("arguments", [{"num_nodes": 2}, {"num_links": 0}, {"noise": 1.5}])
def test_refused(arguments: dict) -> None:
    with pytest.raises(cawn.QueryError, match=f"{next(iter(arguments))} is .*: give a"):
        laws.triadic_closure(seed=0, **arguments)


# The canonical order of simultaneous links, and batches that end between times.


def shuffled(events: cawn.Events, seed: int) -> cawn.Events:
    """The same links, with rows in another order."""
    order = np.random.default_rng(seed).permutation(len(events))
    msg = None if events.msg is None else events.msg[order]
    return cawn.Events(events.src[order], events.dst[order], events.t[order], msg=msg, num_nodes=events.num_nodes)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("attributes", [False, True])
def test_it_depends_neither_on_rows_nor_on_ids(seed: int, attributes: bool) -> None:
    """Ids: where nodes differ in their pasts, here by a first link at a time of its own."""
    rng = np.random.default_rng(seed)
    src, dst = rng.integers(0, 20, (2, 400))
    first, t = np.arange(20), 100 + np.arange(400) // 10
    ends = np.append(first, src), np.append((first + 1) % 20, dst)
    msg = rng.normal(size=(420, 2)) if attributes else None
    events = cawn.Events(*ends, np.append(first, t), msg=msg)
    name = rng.permutation(20)
    renamed = cawn.Events(name[events.src], name[events.dst], events.t, msg=events.msg)
    expected, found, other = map(in_canonical_order, (events, shuffled(events, seed), shuffled(renamed, seed)))
    for column in ("src", "dst", "t", "msg"):
        np.testing.assert_array_equal(getattr(found, column), getattr(expected, column))
    np.testing.assert_array_equal(other.src, name[expected.src])
    np.testing.assert_array_equal(other.dst, name[expected.dst])
    assert not np.array_equal(expected.src, events.src)
    assert np.array_equal(events.src[np.argsort(events.rows)][expected.rows], expected.src)  # rows lead to the input
    without_ties = cawn.Events([0, 1], [1, 2], [1, 2])
    assert in_canonical_order(without_ties) is without_ties


@given(st.lists(st.integers(0, 6), max_size=20), st.integers(1, 4))
def test_a_batch_ends_at_the_first_change_of_time_after_its_links(times: list[int], size: int) -> None:
    """So that links at or after a time do not move the ends before it."""
    t, ends = sorted(times), [0]
    for end in range(1, len(t) + 1):
        if end - ends[-1] >= size and (end == len(t) or t[end] != t[end - 1]):
            ends.append(end)
    assert batch_ends(np.array(t), size).tolist() == ends[1:]
