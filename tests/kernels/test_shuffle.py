"""The order of an epoch: a permutation, any of them alike, the same on every device."""

from itertools import permutations

import numpy as np
import pytest
import torch
from scipy import stats

from cawn.kernels import shuffle


@pytest.mark.parametrize("size", [0, 1, 7, 1000])
@pytest.mark.parametrize("seed", [0, 1, 2**63 - 1, 2**64 - 1])
def test_a_permutation_and_coins_that_every_device_finds(seed: int, size: int) -> None:
    order = shuffle.order(seed, size)
    assert np.array_equal(np.sort(order), np.arange(size))
    assert np.array_equal(shuffle.device_order(seed, size, "cpu").numpy(), order)
    coins = shuffle.coins(seed, size, 0.25)
    assert np.array_equal(shuffle.device_coins(seed, size, 0.25, torch.device("cpu")).numpy(), coins)


def test_all_permutations_are_alike_and_coins_are_fair() -> None:
    """False alarms: one in a million each."""
    trials, kinds = 24_000, list(permutations(range(4)))
    seen = dict.fromkeys(kinds, 0)
    for seed in range(trials):
        seen[tuple(shuffle.order(seed, 4).tolist())] += 1
    assert stats.chisquare(list(seen.values())).pvalue > 1e-6
    coins = np.stack([shuffle.coins(seed, 4, 0.25) for seed in range(trials)])
    for i in range(4):
        assert stats.binomtest(int(coins[:, i].sum()), trials, 0.25).pvalue > 1e-6
        both = coins[:, i] & coins[:, (i + 1) % 4]
        assert stats.binomtest(int(both.sum()), trials, 1 / 16).pvalue > 1e-6


def test_coins_and_order_know_nothing_of_each_other() -> None:
    size = 20_000
    place = np.argsort(shuffle.order(5, size))
    chosen = shuffle.coins(5, size, 0.25)
    assert stats.kstest(place[chosen] / size, "uniform").pvalue > 1e-6
