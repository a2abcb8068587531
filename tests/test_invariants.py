"""What must change nothing: names, the future, threads, batches."""

import numpy as np
import pytest

import cawn
from networks import queries, random_events

FIELDS = ("nodes", "t", "events")


def assert_same(a: cawn.Walks, b: cawn.Walks) -> None:
    for field in FIELDS:
        np.testing.assert_array_equal(getattr(a, field), getattr(b, field))


def sampler(kind: str, events: cawn.Events, alpha: float):
    if kind == "history":
        return cawn.History(events, alpha)
    stream = cawn.Stream(events.num_nodes, alpha, capacity=6)
    stream.append(events.src, events.dst, events.t)
    return stream


both = pytest.mark.parametrize("kind", ["history", "stream"])


@both
@pytest.mark.parametrize("seed", range(5))
def test_renaming_nodes_changes_no_count(kind: str, seed: int) -> None:
    """Theorem 4.1, and more: the very same links are walked."""
    events = random_events(seed, num_nodes=12, num_links=200)
    new_name = np.random.default_rng(seed).permutation(1000)[:12]
    renamed = cawn.Events(new_name[events.src], new_name[events.dst], events.t, num_nodes=1000)
    u, t = queries(events, seed, 100)
    u, v = u % 12, (u + 1) % 12
    counts = []
    for network, name in ((events, np.arange(12)), (renamed, new_name)):
        history = sampler(kind, network, 0.1)
        walks_u, walks_v = (history.sample(name[ends], t, num_walks=16, length=3, seed=1) for ends in (u, v))
        counts.append((cawn.anonymize(walks_u, walks_v), walks_u.events, walks_v.events))
    for before, after in zip(*counts, strict=True):
        np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("seed", range(5))
def test_the_future_changes_nothing(seed: int) -> None:
    """Links at or after the query time: shuffled, removed, invented."""
    events = random_events(seed, num_links=200)
    now = int(np.median(events.t))
    past = events[events.t < now]
    later = events[events.t >= now]
    rng = np.random.default_rng(seed)
    invented = rng.integers(0, 8, (2, 100))
    futures = {
        "removed": (past.src, past.dst, past.t),
        "shuffled": (
            np.concatenate([past.src, rng.permutation(later.src)]),
            np.concatenate([past.dst, rng.permutation(later.dst)]),
            events.t,
        ),
        "invented": (
            np.concatenate([invented[0], events.src]),
            np.concatenate([invented[1], events.dst]),
            np.concatenate([rng.integers(now, now + 9, 100), events.t]),
        ),
    }
    how = {"num_walks": 16, "length": 3, "seed": 2}
    truth = cawn.History(events, 0.1).sample(np.arange(8), now, **how)
    for changed in futures.values():
        assert_same(cawn.History(cawn.Events(*changed, num_nodes=8), 0.1).sample(np.arange(8), now, **how), truth)


@both
def test_threads_and_batches_change_nothing(kind: str) -> None:
    events = random_events(1, num_nodes=50, num_links=2_000, span=500)
    nodes, t = queries(events, 3, 1_000)
    history = sampler(kind, events, 0.02)
    how = {"num_walks": 8, "length": 3, "seed": 7}
    truth = history.sample(nodes, t, threads=1, **how)
    assert_same(history.sample(nodes, t, threads=2, **how), truth)
    assert_same(history.sample(nodes, t, **how), truth)
    for size in (1, 7):
        for first in range(0, 140, size):
            part = slice(first, first + size)
            alone = history.sample(nodes[part], t[part], **how)
            assert_same(alone, cawn.Walks(*(getattr(truth, field)[part] for field in FIELDS)))
    order = np.random.default_rng(0).permutation(1_000)
    assert_same(history.sample(nodes[order], t[order], **how), cawn.Walks(*(getattr(truth, f)[order] for f in FIELDS)))


def test_threads_change_no_count_and_no_index() -> None:
    events = random_events(1, num_nodes=3_000, num_links=100_000, span=5_000)
    one, two = (cawn.History(events, (0.01, 0.1), threads=threads) for threads in (1, 2))
    for a, b in zip(one.index.kinds["nodes"].values(), two.index.kinds["nodes"].values(), strict=True):
        np.testing.assert_array_equal(a, b)
    walks_u, walks_v = (one.sample(events.src[50_000:51_000], 3_000, seed=s) for s in (0, 1))
    np.testing.assert_array_equal(
        cawn.anonymize(walks_u, walks_v, threads=1), cawn.anonymize(walks_u, walks_v, threads=2)
    )


def test_another_seed_gives_other_walks() -> None:
    history = cawn.History(random_events(1), 0.01)
    a, b = (history.sample(np.arange(8), 30, num_walks=16, length=2, seed=seed) for seed in (0, 1))
    assert (a.events != b.events).any()


def test_queries_of_one_node_at_different_times_are_independent() -> None:
    """The past is the same, the draws are not."""
    events = random_events(1, num_nodes=3)
    walks = cawn.History(events, 0.0).sample([0] * 50, 1_000 + np.arange(50), num_walks=16, length=1, seed=0)
    assert len({tuple(w) for w in walks.events[:, :, 1].tolist()}) == 50


def test_a_forked_process_may_sample() -> None:
    import os
    import warnings

    history = cawn.History(random_events(1, num_nodes=50, num_links=2_000, span=500), 0.02)
    nodes = np.arange(1_000) % 50
    truth = history.sample(nodes, 400, seed=1, threads=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking beside threads is what is tested
        child = os.fork()
    if child == 0:
        same = (history.sample(nodes, 400, seed=1, threads=2).events == truth.events).all()
        os._exit(0 if same else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_many_python_threads_may_sample_at_once() -> None:
    from concurrent.futures import ThreadPoolExecutor

    events = random_events(1, num_nodes=50, num_links=2_000, span=500)
    history = cawn.History(events, 0.02)
    truth = history.sample(events.src, 400, seed=1)
    with ThreadPoolExecutor(8) as pool:
        for walks in pool.map(lambda _: history.sample(events.src, 400, seed=1, threads=2), range(32)):
            assert_same(walks, truth)
