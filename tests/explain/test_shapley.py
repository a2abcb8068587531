"""Shapley values: against a definition by orders, and the laws that characterise them."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cawn.explain.shapley import interaction, sampled_shapley_values, shapley_values

EXACT = 1e-12


def random_game(n: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=1 << n)


def by_orders(table: np.ndarray) -> np.ndarray:
    """The slow twin: the mean of what each player adds, over all n! orders in which they could join."""
    n = table.size.bit_length() - 1
    gains = np.zeros(n)
    orders = list(permutations(range(n)))
    for order in orders:
        coalition = 0
        for player in order:
            gains[player] += table[coalition | 1 << player] - table[coalition]
            coalition |= 1 << player
    return gains / len(orders)


@given(n=st.integers(1, 6), seed=st.integers(0, 10**6))
def test_the_mean_over_all_orders(n: int, seed: int) -> None:
    table = random_game(n, seed)
    np.testing.assert_allclose(shapley_values(table), by_orders(table), atol=EXACT)


@given(n=st.integers(1, 9), seed=st.integers(0, 10**6))
def test_they_add_up(n: int, seed: int) -> None:
    table = random_game(n, seed)
    assert shapley_values(table).sum() == pytest.approx(table[-1] - table[0], abs=EXACT)


@given(n=st.integers(2, 7), seed=st.integers(0, 10**6), data=st.data())
def test_interchangeable_players_contribute_the_same(n: int, seed: int, data: st.DataObject) -> None:
    a, b = data.draw(st.lists(st.integers(0, n - 1), min_size=2, max_size=2, unique=True))
    table, coalitions = random_game(n, seed), np.arange(1 << n)
    has_a, has_b = coalitions >> a & 1, coalitions >> b & 1
    swapped = np.where(has_a != has_b, coalitions ^ (1 << a | 1 << b), coalitions)
    found = shapley_values((table + table[swapped]) / 2)
    assert found[a] == pytest.approx(found[b], abs=EXACT)


@given(n=st.integers(1, 7), seed=st.integers(0, 10**6), data=st.data())
def test_a_null_player_contributes_nothing_and_changes_nothing(n: int, seed: int, data: st.DataObject) -> None:
    player = data.draw(st.integers(0, n - 1))
    coalitions = np.arange(1 << n)
    table = random_game(n, seed)[coalitions & ~(1 << player)]
    found = shapley_values(table)
    assert found[player] == 0
    if n > 1:
        without = table[coalitions >> player & 1 == 0]
        np.testing.assert_allclose(np.delete(found, player), shapley_values(without), atol=EXACT)


def test_values_of_a_sum_of_games_are_sums() -> None:
    one, two = random_game(5, 0), random_game(5, 1)
    np.testing.assert_allclose(shapley_values(one + two), shapley_values(one) + shapley_values(two), atol=EXACT)
    np.testing.assert_allclose(shapley_values(np.stack([one, two]))[1], shapley_values(two), atol=EXACT)


def test_a_game_by_hand() -> None:
    """Two gloves make a pair; the first player has a left one, the others right ones."""
    table = np.array([0.0, 0, 0, 1, 0, 1, 0, 1])
    np.testing.assert_allclose(shapley_values(table), [2 / 3, 1 / 6, 1 / 6], atol=EXACT)
    assert interaction(table, 0b001, 0b110) == pytest.approx(1.0)  # neither is worth anything without the other
    assert interaction(table, 0b010, 0b100) == pytest.approx(-0.5)  # a second right glove is worth nothing


def test_interaction_is_zero_where_groups_only_add() -> None:
    weights = np.random.default_rng(0).normal(size=5)
    table = (np.arange(32)[:, None] >> np.arange(5) & 1) @ weights
    assert interaction(table, 0b00011, 0b01100) == pytest.approx(0.0, abs=EXACT)
    assert interaction(table + np.where(np.arange(32) & 0b101 == 0b101, 3.0, 0), 1, 4) == pytest.approx(3.0)


def test_two_groups_are_two_players() -> None:
    """The interaction of groups is that of the game in which each is one player, here computed from its definition."""
    table = random_game(4, 3)
    whole = [table[a * 0b0011 | b * 0b0100 | c * 0b1000] for c in (0, 1) for b in (0, 1) for a in (0, 1)]
    by_hand = np.mean([whole[4 * c + 3] - whole[4 * c + 1] - whole[4 * c + 2] + whole[4 * c] for c in (0, 1)])
    assert interaction(table, 0b0011, 0b0100) == pytest.approx(by_hand, abs=EXACT)


def test_sampled_values_have_the_stated_error() -> None:
    """Of 12 x 40 estimates, as many as Student's t with 19 degrees of freedom allows lie beyond 3 standard errors:
    0.7 % are expected; more than 20 of 480 would happen once in 10^10 runs (binomial, players taken as independent)."""
    n = 12
    table = random_game(n, 5)
    exact = shapley_values(table)
    far = 0
    for seed in range(40):
        found, error = sampled_shapley_values(lambda c: table[c @ (1 << np.arange(n))], n, orders=20, seed=seed)
        assert found.sum() == pytest.approx(table[-1] - table[0], abs=1e-9)
        far += int((np.abs(found - exact) > 3 * error).sum())
    assert far <= 20


def test_sampling_is_exact_where_players_only_add() -> None:
    weights = np.random.default_rng(0).normal(size=30)
    found, error = sampled_shapley_values(lambda coalitions: coalitions @ weights, 30, orders=3, seed=0)
    np.testing.assert_allclose(found, weights, atol=1e-12)
    assert error.max() < 1e-12


def test_a_table_of_another_size_is_refused() -> None:
    with pytest.raises(ValueError, match="2\\^n values, not 6"):
        shapley_values(np.zeros(6))
