"""Plans: a message reads the versions from before its time."""

from itertools import pairwise

import numpy as np
import pytest
import torch

import cawn
from cawn.data.ties import in_canonical_order
from cawn.rivals.versions import NONE, VersionedLinks
from networks import random_events


class Nodes:
    """The part of a system that a stream needs: every node has one state."""

    link_width = node_width = 0
    device = torch.device("cpu")

    def owners(self, events: cawn.Events) -> np.ndarray:
        return np.stack([events.src, events.dst], axis=1)


def stream_of(events: cawn.Events, size: int = 20) -> VersionedLinks:
    return VersionedLinks(events, Nodes(), size)  # type: ignore[arg-type]


@pytest.mark.parametrize("span", [5, 40, 1_000])
def test_chunks_split_no_tie(span: int) -> None:
    stream = stream_of(random_events(0, num_links=100, span=span))
    t, chunks = stream.events.t, stream.chunks
    assert chunks[0] == 0
    assert chunks[-1] == 100
    for first, last in pairwise(chunks[:-1]):
        assert t[last] != t[last - 1]
        assert last - first >= 20
        assert (t[first + 20 - 1 : last] == t[last - 1]).all()  # closed at the first change of time after 20 links


def test_chunks_are_decided_by_the_past() -> None:
    events = random_events(0, num_links=100)
    whole, part = stream_of(events).chunks, stream_of(events[:60]).chunks
    assert part[:-1] == whole[: len(part) - 1]


@pytest.mark.parametrize("seed", range(3))
def test_last_messages_and_pairs(seed: int) -> None:
    events = random_events(seed)
    stream, rng = stream_of(events), np.random.default_rng(seed)
    nodes, visible = rng.integers(0, 9, (40, 2)), rng.integers(0, len(events) + 1, 40)
    found, linked = stream.last_message(nodes, visible[:, None]), stream.linked(nodes, visible)
    src, dst = stream.events.src, stream.events.dst
    for b in range(40):
        known = [{int(src[e]), int(dst[e])} for e in range(visible[b])]
        assert linked[b] == (set(nodes[b].tolist()) in known)
        for node, message in zip(nodes[b], found[b], strict=True):
            mine = [2 * e + side for e in range(visible[b]) for side in (0, 1) if (src, dst)[side][e] == node]
            assert message == max(mine, default=NONE)


@pytest.mark.parametrize("seed", range(3))
def test_a_plan_reads_versions_from_before(seed: int) -> None:
    events = random_events(seed, num_nodes=15, num_links=80, span=50)
    stream = stream_of(events)
    first, last = stream.chunks[1], stream.chunks[3]
    owners = stream.owners[first:last]
    extra = np.random.default_rng(seed).integers(-1, 15, (2 * len(owners), 2))
    read = np.concatenate([owners.reshape(-1, 1), owners[:, ::-1].reshape(-1, 1), extra], axis=1)
    plan = stream.plan(first, last, read)
    outside = len(plan.outside)
    for m in range(2 * (last - first)):
        message = 2 * first + m
        t = stream.events.t[message // 2]
        for owner, row in zip(read[m], plan.rows[m], strict=True):
            if owner < 0:
                assert row == NONE
                continue
            expected = stream.last_message(owner, np.searchsorted(stream.events.t, t))
            if row < outside:
                assert plan.outside[row] == owner
                assert plan.outside_last[row] == expected < 2 * first
            else:
                assert row == plan.row(expected) == outside + expected - 2 * first
                assert stream.events.t[expected // 2] < t
        earlier = [other for other in range(m) if _same(stream, 2 * first + other, message)]
        assert plan.previous[m] == max(earlier, default=NONE)
    assert plan.row(np.array([NONE, 2 * first - 1, 2 * first])).tolist() == [NONE, NONE, outside]


def _same(stream: VersionedLinks, one: int, other: int) -> bool:
    """Whether two messages go to the same owner at the same time."""
    a, b = ((stream.owners[m // 2, m % 2], stream.events.t[m // 2]) for m in (one, other))
    return bool(a == b)


def test_an_empty_stream() -> None:
    stream = stream_of(cawn.Events([], [], [], num_nodes=3))
    assert stream.chunks == [0]
    assert stream.chunk_of(np.array([0])) == [0]
    assert stream.bounds(0) == (0, 0)
    assert stream.last_message(np.array([0]), np.array([0])) == [NONE]
    assert stream.plan(0, 0, np.empty((0, 2), np.int64)).rows.shape == (0, 2)


def test_links_are_in_canonical_order() -> None:
    events = random_events(2, span=10)
    np.testing.assert_array_equal(stream_of(events).events.src, in_canonical_order(events).src)
