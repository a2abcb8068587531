"""Shapley values: what each of n players contributes to the value of a game, over all orders in which they could join.

A game is a table of values [..., 2^n]: entry c is the value of the coalition of the players whose bits are set in c.
The contributions add up to the value of all players minus that of none; players that are interchangeable contribute the
same, and a player that never changes the value contributes nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from math import comb

import numpy as np
import numpy.typing as npt

from cawn.checks import Array

EXACT = 10  # players, at most, for which all coalitions are evaluated


def all_coalitions(n: int) -> npt.NDArray[np.bool_]:
    """The players of each coalition, in the order of a table: [2^n, n]."""
    return (np.arange(1 << n)[:, None] >> np.arange(n) & 1).astype(bool)


def join_weights(n: int) -> npt.NDArray[np.float64]:
    """The probability that exactly the players of a coalition precede a given other one, by their number: [n]."""
    return np.array([1 / (n * comb(n - 1, size)) for size in range(n)])


def shapley_values(table: Array) -> npt.NDArray[np.float64]:
    """The contribution of each player: [..., 2^n] to [..., n]."""
    n = _num_players(table)
    coalitions, weights = np.arange(1 << n), join_weights(n)
    found = np.empty((*table.shape[:-1], n))
    for player in range(n):
        without = coalitions[coalitions >> player & 1 == 0]
        gain = table[..., without | 1 << player] - table[..., without]
        found[..., player] = gain @ weights[np.bitwise_count(without)]
    return found


def interaction(table: Array, first: int, second: int) -> npt.NDArray[np.float64]:
    """How much more two groups of players contribute together than separately, on average: [...].

    This is the Shapley interaction index of the game in which each group is one player. Below zero, the groups are
    partly redundant.

    Args:
        first, second: The coalitions of the two groups, which have no player in common.
    """
    n = _num_players(table)
    others = np.arange(1 << n)
    others = others[others & (first | second) == 0]
    weights = join_weights(n + 1 - first.bit_count() - second.bit_count())[np.bitwise_count(others)]
    both, one, two, none = (table[..., others | group] for group in (first | second, first, second, 0))
    return np.asarray((both - one - two + none) @ weights)


def sampled_shapley_values(
    value: Callable[[npt.NDArray[np.bool_]], Array], n: int, *, orders: int, seed: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Estimates for a game with too many players for a table, and their standard errors: [n] each.

    The estimates, too, add up to the value of all players minus that of none.

    Args:
        value: The values [C] of coalitions [C, n].
        orders: Number of random orders in which players join; each is also used in reverse.
    """
    rng = np.random.default_rng(seed)
    order = np.array([rng.permutation(n) for _ in range(orders)])
    order = np.stack([order, order[:, ::-1]], axis=1).reshape(-1, n)  # [2 orders, n]
    rank = np.argsort(order, axis=1)
    steps = rank[:, None, :] < np.arange(n + 1)[:, None]  # [2 orders, n + 1, n]: who has joined after each step
    distinct, which = np.unique(np.packbits(steps.reshape(-1, n), axis=1), axis=0, return_inverse=True)
    values = value(np.unpackbits(distinct, axis=1, count=n).astype(bool))[which].reshape(-1, n + 1)
    gains = np.take_along_axis(np.diff(values, axis=1), rank, axis=1)  # [2 orders, n]
    of_orders = gains.reshape(-1, 2, n).mean(axis=1)  # an order and its reverse are not independent
    error = of_orders.std(axis=0, ddof=1) / np.sqrt(orders) if orders > 1 else np.full(n, np.inf)
    return of_orders.mean(axis=0), error


def _num_players(table: Array) -> int:
    n = int(table.shape[-1]).bit_length() - 1
    if n < 1 or table.shape[-1] != 1 << n:
        raise ValueError(f"a game of n players has 2^n values, not {table.shape[-1]}")
    return n
