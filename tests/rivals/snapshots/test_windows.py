"""Cutting a stream into windows, what a query sees of them, and sparse matrices against dense ones."""

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import cawn
from cawn.rivals.snapshots.windows import EMPTY, Graph, RecentValues, Snapshots, View, WindowGrid
from networks import random_events

CPU = torch.device("cpu")


def cut(events: cawn.Events, count: int) -> Snapshots:
    return Snapshots(events, WindowGrid.of(events.t, count), CPU)


def test_windows_are_closed_on_the_right_and_go_on() -> None:
    grid = WindowGrid.of(np.array([10, 12, 30]), 4)
    assert grid == WindowGrid(10, 5.0)
    times = np.array([7, 10, 11, 15, 16, 20, 30, 31, 35, 36])
    assert grid.windows(times).tolist() == [0, 0, 0, 0, 1, 1, 3, 4, 4, 5]
    assert grid.windows(times + 0.5).tolist() == [0, 0, 0, 1, 1, 2, 4, 4, 5, 5]


@given(st.lists(st.floats(-1e300, 1e300), min_size=2, unique=True), st.integers(2, 200))
def test_the_training_period_has_the_given_number_of_windows(times: list[float], count: int) -> None:
    t = np.sort(np.array(times))
    if (t[-1] - t[0]) / count == 0:
        return
    windows = WindowGrid.of(t, count).windows(t)
    assert (np.diff(windows) >= 0).all()
    assert windows[0] == 0
    assert windows[-1] == count - 1


def test_times_far_in_the_future_have_a_window() -> None:
    grid = WindowGrid.of(np.array([0.0, 1e-300]), 2)
    assert grid.windows(np.array([1e300]))[0] > 1e12
    limits = np.iinfo(np.int64)
    assert WindowGrid(limits.min, 1.0).windows(np.array([limits.min, limits.max])).tolist() == [0, 1 << 52]


def test_one_snapshot_is_refused() -> None:
    with pytest.raises(cawn.DataError, match="in one snapshot: give more snapshots or a longer history"):
        WindowGrid.of(np.array([1, 2, 3]), 1)
    with pytest.raises(cawn.DataError, match="all training links have the same time"):
        WindowGrid.of(np.array([3, 3, 3]), 8)


def windows_of(events: cawn.Events, grid: WindowGrid, t: float, visible: int) -> list[list[int]]:
    """The links of every window that a query at t sees, oldest first, from the first link on; by hand."""
    now = grid.windows(np.array([t]))[0]
    window = grid.windows(events.t)
    known = [i for i in range(visible) if window[i] < now]
    if not known:
        return []
    found, empty = [], 0
    for w in range(window[known[0]], now):
        links = [i for i in known if window[i] == w]
        empty = 0 if links else empty + 1
        if empty <= EMPTY:
            found.append(links)
    return found


@pytest.mark.parametrize("count", [2, 7, 90])
@pytest.mark.parametrize("prefix", [False, True])
def test_a_query_sees_whole_windows_before_its_own(count: int, prefix: bool) -> None:
    events = random_events(3, num_links=50, span=60)
    events = cawn.Events(events.src, events.dst, np.where(np.arange(50) > 40, events.t + 400, events.t))
    grid = WindowGrid.of(events.t[:30], count)
    past, rng = Snapshots(events, grid, CPU), np.random.default_rng(0)
    times = np.sort(rng.integers(-5, 700, 80))
    visible = np.minimum(np.searchsorted(events.t, times), np.arange(80)) if prefix else None
    known, gap = past.views(times, visible)
    for b, t in enumerate(times):
        expected = windows_of(events, grid, t, len(events) if visible is None else visible[b])
        for latest in (1, 3, 1000):
            ranges = past.latest(View(int(known[b]), int(gap[b])), latest)
            assert [list(range(*links)) for links in ranges] == expected[-latest:]


def test_a_graph_counts_repeated_links() -> None:
    events = cawn.Events([0, 0, 1, 2, 2], [1, 1, 0, 2, 0], [0, 1, 2, 3, 4], num_nodes=5)
    graph = Graph(events, slice(0, 5), CPU)
    assert graph.pairs.T.tolist() == [[0, 1], [0, 2], [1, 0], [2, 0], [2, 2]]
    assert graph.count.tolist() == [3, 1, 3, 1, 1]
    assert graph.nodes.tolist() == [0, 1, 2]
    assert graph.out_degree.tolist() == [2, 1, 2]
    assert graph.in_degree.tolist() == [2, 2, 1]
    assert graph.starts.tolist() == [0, 2, 3, 5]


@pytest.mark.parametrize("loop", [1.0, 2.0])
@pytest.mark.parametrize("links", [slice(0, 60), slice(5, 5), slice(7, 19)])
def test_normalised_matrix(loop: float, links: slice) -> None:
    events = random_events(4)
    size = events.num_nodes + 1
    dense = np.zeros((size, size))
    for i in range(links.start, links.stop):
        u, v = events.src[i], events.dst[i]
        dense[u, v] += 1
        if u != v:
            dense[v, u] += 1
    dense += loop * np.eye(size)
    scale = dense.sum(axis=1) ** -0.5
    dense = scale[:, None] * dense * scale
    x, y = torch.randn(2, size, 3, generator=torch.Generator().manual_seed(0))
    x.requires_grad_()
    found = Graph(events, links, CPU).normalised(loop)(x)
    np.testing.assert_allclose(found.detach().numpy(), dense @ x.detach().numpy(), rtol=1e-5, atol=1e-6)
    (found * y).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), dense.T @ y.numpy(), rtol=1e-5, atol=1e-6)


def test_recent_values_are_kept() -> None:
    made: list[int] = []
    recent = RecentValues[int](2)

    def get(key: int) -> int:
        return recent.get(key, lambda: made.append(key) or -key)

    assert [get(key) for key in (1, 2, 1, 3, 1, 2)] == [-1, -2, -1, -3, -1, -2]
    assert made == [1, 2, 3, 2]
    assert pickle.loads(pickle.dumps(recent)).get(1, lambda: 5) == 5


def test_unknown_nodes_share_the_last_row() -> None:
    past = cut(random_events(1), 4)
    assert past.rows(np.array([0, 7, 8, 100])).tolist() == [0, 7, 8, 8]
    assert past.x.shape == (9, 0)
