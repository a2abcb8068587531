"""Random numbers: known answers, uniformity, the same on every device; logarithms that are exact enough."""

from itertools import permutations

import numba
import numpy as np
import pytest
import torch
from scipy import stats

from cawn.kernels import rng
from cawn.kernels.cpu.logarithms import exp, log1p
from reference import walks as reference
from statistics_of_draws import assert_follows


@pytest.mark.parametrize("seed", [0, 1, 2**63, 2**64 - 1])
@pytest.mark.parametrize("t", [0, 7, -3, 1_700_000_000_000_000_000, 0.5, -1e300])
def test_random_numbers(seed: int, t: float) -> None:
    bits = np.array([t]).view(np.uint64)[0]
    key = np.uint64(rng.query_key(np.uint64(seed), bits, 12))
    assert int(key) == reference.query_key(seed, np.array(t), 12)
    assert rng.uniform(key, 5, 3) == reference.uniform(int(key), 5, 3)


def test_mix64_known_answers() -> None:
    """The first outputs of SplitMix64 from state 0, by every implementation."""
    states = [rng.GOLDEN * i % 2**64 for i in (1, 2, 3)]
    expected = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    words = np.array(states, np.uint64)
    assert [rng.mix64_int(state) for state in states] == expected
    assert [numba.njit(rng.mix64)(word) for word in words] == expected
    assert rng.mix64(words).tolist() == expected
    assert rng.mix64_tensor(torch.from_numpy(words.view(np.int64))).numpy().view(np.uint64).tolist() == expected


def test_seeds_of_runs_trained_before() -> None:
    """Resuming an old run needs these very numbers."""
    assert rng.seed_for(3, "epoch", 2) == 8486756233395787624
    assert rng.seed_for(3, "dropout", 2, 5) == 2553049612289287211
    assert rng.order(7, 8).tolist() == [2, 3, 5, 1, 0, 7, 6, 4]
    assert rng.bernoulli(7, 8, 0.25).tolist() == [False, True, True, False, False, False, False, False]


def test_uniform_is_uniform_in_every_argument() -> None:
    """Neighbouring seeds, queries, walks and steps give unrelated numbers: pairs fill the unit square evenly."""
    base = {"seed": 3, "t": 10, "link": 4, "index": 5, "step": 1}

    def number(**changed: int) -> float:
        a = base | changed
        return reference.uniform(reference.query_key(a["seed"], np.array(a["t"]), a["link"]), a["index"], a["step"])

    for name in base:
        asked = [{"step": i % 255 + 1, "index": i // 255} if name == "step" else {name: i} for i in range(20_000)]
        values = np.array([number(**changed) for changed in asked])
        cells = np.floor(values[:-1] * 8).astype(int) * 8 + np.floor(values[1:] * 8).astype(int)
        assert_follows(np.bincount(cells[::2], minlength=64), np.full(64, 1 / 64))


@pytest.mark.parametrize("size", [0, 1, 7, 1000])
@pytest.mark.parametrize("seed", [0, 1, 2**63 - 1, 2**64 - 1])
def test_order_and_bernoulli_are_the_same_on_every_device(seed: int, size: int) -> None:
    order = rng.order(seed, size)
    assert np.array_equal(np.sort(order), np.arange(size))
    assert np.array_equal(rng.order(seed, size, "cpu").numpy(), order)
    drawn = rng.bernoulli(seed, size, 0.25)
    assert np.array_equal(rng.bernoulli(seed, size, 0.25, torch.device("cpu")).numpy(), drawn)


def test_permutations_are_equally_likely_and_bernoulli_is_fair() -> None:
    """False alarms: one in a million each."""
    trials, kinds = 24_000, list(permutations(range(4)))
    seen = dict.fromkeys(kinds, 0)
    for seed in range(trials):
        seen[tuple(rng.order(seed, 4).tolist())] += 1
    assert stats.chisquare(list(seen.values())).pvalue > 1e-6
    drawn = np.stack([rng.bernoulli(seed, 4, 0.25) for seed in range(trials)])
    for i in range(4):
        assert stats.binomtest(int(drawn[:, i].sum()), trials, 0.25).pvalue > 1e-6
        both = drawn[:, i] & drawn[:, (i + 1) % 4]
        assert stats.binomtest(int(both.sum()), trials, 1 / 16).pvalue > 1e-6
    place = np.argsort(rng.order(5, 20_000))  # and independent of the order
    assert stats.kstest(place[rng.bernoulli(5, 20_000, 0.25)] / 20_000, "uniform").pvalue > 1e-6


def test_normal_numbers() -> None:
    """Mean, variance and tails of 40,000 draws, each within 5 standard errors."""
    drawn = rng.normal(3, 40_000).astype(np.float64)
    assert abs(drawn.mean()) < 5 / 200
    assert abs(drawn.var() - 1) < 5 * np.sqrt(2) / 200
    assert abs((np.abs(drawn) > 2).mean() - 0.0455) < 5 * np.sqrt(0.0455 * 0.9545) / 200
    assert np.array_equal(rng.normal(3, 10), rng.normal(3, 40_000)[:10])
    assert not np.array_equal(rng.normal(4, 10), rng.normal(3, 10))


def test_exp_and_log1p() -> None:
    """Against NumPy, which is exact to the last bits."""
    x = np.concatenate([np.linspace(-700, 100, 2_001), -np.geomspace(1e-300, 1, 50), [0.0, 1e-17]])
    np.testing.assert_allclose([exp(value) for value in x], np.exp(x), rtol=2e-11)
    x = np.linspace(-760, -700, 200)  # too small for a normal number, at last for any
    np.testing.assert_allclose([exp(value) for value in x], np.exp(x), rtol=2e-11, atol=1e-323)
    assert exp(-746.0) == exp(-1e300) == exp(-np.inf) == 0.0
    x = np.concatenate([np.geomspace(1e-300, 1e300, 2_001), np.linspace(0, 4, 1_001)])
    np.testing.assert_allclose([log1p(value) for value in x], np.log1p(x), rtol=2e-11)
    assert log1p(0.0) == 0.0
