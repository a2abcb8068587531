"""Decayed counts against their slow definition: to one unit in the last place of float32."""

import numpy as np
import pytest

import cawn
from cawn.kernels.cpu.rates import find_key, hash_table
from cawn.walks.rates import Rates
from networks import queries, random_events
from reference import rates as reference

ALPHAS = (0.0, 0.003, 0.05, 2.0, 40.0)


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("dtype", [np.int64, np.float64])
@pytest.mark.parametrize("seed", range(3))
def test_features_equal_the_reference(seed: int, dtype: type, directed: bool) -> None:
    events = random_events(seed, num_nodes=12, num_links=300, dtype=dtype, offset=seed * 1_000_000_000)
    src, t = queries(events, seed, 150)
    dst = np.random.default_rng(seed).integers(-1, events.num_nodes + 2, 150)
    check(Rates(events, cawn.History(events, ALPHAS), directed=directed), src, dst, t)


@pytest.mark.parametrize("per_query", [1, 3, 64, 100, 400])
def test_consecutive_pairs_of_one_source(per_query: int) -> None:
    """As in ranking: lengths that end within a block of the kernel, at its end, and beyond it."""
    events = random_events(1, num_nodes=12, num_links=300)
    src, t = (np.repeat(values, per_query)[:400] for values in queries(events, 5, 400))
    dst = np.arange(400) % 13
    check(Rates(events, cawn.History(events, ALPHAS), directed=True), src, dst, t)


def test_a_bipartite_network() -> None:
    """Every list of directed links is also a list without direction, except those of node 0 and one partner."""
    rng = np.random.default_rng(0)
    src, dst, t = rng.integers(0, 6, 200), rng.integers(6, 12, 200), np.sort(rng.integers(0, 50, 200))
    src[50], dst[50] = dst[50], 0
    events = cawn.Events(src, dst, t)
    rates = Rates(events, cawn.History(events, ALPHAS), directed=True)
    check(rates, rng.integers(0, 12, 150), rng.integers(0, 12, 150), rng.integers(0, 60, 150))


def test_pairs_of_lists_that_are_neighbours_in_memory() -> None:
    """The list of node 1 has no link before 5, and stands after that of node 0."""
    events = cawn.Events([0, 0, 1], [2, 3, 2], [1, 2, 7])
    rates = Rates(events, cawn.History(events, ALPHAS), directed=True)
    check(rates, np.array([0, 1, 1, 0]), np.array([2, 2, 3, 1]), np.array([5, 5, 5, 5]))


def check(rates: Rates, src: np.ndarray, dst: np.ndarray, t: np.ndarray) -> None:
    found = rates.features(src, dst, t, 4.0)
    slow = reference.rate_features(rates.counts, src, dst, t, 4.0)
    assert found.dtype == slow.dtype == np.float32
    np.testing.assert_array_max_ulp(found, slow, maxulp=1)


@pytest.mark.parametrize("size", [0, 1, 2047, 2048, 5001])
def test_threads_change_nothing(size: int) -> None:
    events = random_events(2, num_links=300)
    rates = Rates(events, cawn.History(events, ALPHAS), directed=True)
    src, t = queries(events, 3, size)
    dst = np.roll(src, 1)
    found = [rates.features(src, dst, t, 4.0, threads=threads) for threads in (1, 2)]
    np.testing.assert_array_equal(*found)
    one_by_one = [rates.features(src[i : i + 1], dst[i : i + 1], t[i : i + 1], 4.0) for i in range(0, size, 500)]
    np.testing.assert_array_equal(found[0][::500], np.concatenate([found[0][:0], *one_by_one]))


def test_a_network_without_links() -> None:
    events = cawn.Events([], [], np.empty(0, np.int64), num_nodes=3)
    rates = Rates(events, cawn.History(events, ALPHAS), directed=True)
    check(rates, np.array([0, 1]), np.array([2, 5]), np.array([4, 4]))


def test_the_hash_table_finds_every_key_and_no_other() -> None:
    keys = np.unique(np.random.default_rng(0).integers(0, 1 << 62, 500))
    slots = hash_table(keys)
    assert [find_key(keys, slots, len(keys), key) for key in keys] == list(range(len(keys)))
    others = {find_key(keys, slots, len(keys), key) for key in (*(keys + 1), -1)}
    assert others <= {-1, *np.flatnonzero(np.diff(keys) == 1)}
