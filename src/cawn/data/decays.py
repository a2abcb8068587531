"""Decays of walks (alpha), relative to the activity of a network.

The paper finds its best alpha where tau / alpha is near 5, tau being the links of an average node per unit of time; but
the best value differs between networks by orders of magnitude. A ladder of decays, each with an equal share of the
walks, covers both long-term habits and bursts.
"""

from __future__ import annotations

import sys

from cawn.data.events import Events
from cawn.data.times import usual

LADDERS = {  # alpha / tau
    "wide": (0.01, 0.05, 0.25, 1.2, 6.0, 30.0, 150.0, 750.0),
    "slow": (0.002, 0.006, 0.02, 0.07, 0.25, 0.8, 2.6, 9.0),
    "fast": (0.5, 1.6, 5.0, 16.0, 50.0, 160.0, 500.0, 1600.0),
}
PAPER_RATIO = 5.0  # tau / alpha
TIME_UNITS = 1e6  # in the period of the training links


def ladder(tau: float, *, num_walks: int = 8, name: str = "wide") -> tuple[float, ...]:
    """The decays of a ladder: eight, or the most of 4, 2 and 1 that share `num_walks` evenly."""
    rungs = next(n for n in (8, 4, 2, 1) if num_walks % n == 0)
    return tuple(factor * tau for factor in LADDERS[name][8 // rungs // 2 :: 8 // rungs])


def time_unit(train: Events) -> float:
    """The unit that a model counts times in: a millionth of the usual period of its training links."""
    t = train.t[usual(train.t)]
    span = float(t[-1] - t[0])
    return max(span / TIME_UNITS, sys.float_info.min) if span > 0 else 1.0
