"""How fast the past should fade: decays from the data, by a rule and then by a short comparison.

The paper finds its best alpha where tau / alpha is near 5, tau being the links of an average node per unit of time; but
the best value differs between networks by orders of magnitude. So the rule is a ladder of eight decays relative to tau,
each with an even share of the walks, wide enough for a network's slow habits and its bursts alike. The comparison
trains small models for a moment and looks whether a ladder moved to the slow or to the fast side does clearly better.
alpha="auto" is both, alpha="ladder" the rule alone, and alpha="paper" a single decay of tau / 5.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cawn.learn import metrics
from cawn.systems.cawn.config import Config

LADDERS = {  # alpha / tau
    "wide": (0.01, 0.05, 0.25, 1.2, 6.0, 30.0, 150.0, 750.0),
    "slow": (0.002, 0.006, 0.02, 0.07, 0.25, 0.8, 2.6, 9.0),
    "fast": (0.5, 1.6, 5.0, 16.0, 50.0, 160.0, 500.0, 1600.0),
}
PAPER_RATIO = 5.0  # tau / alpha
BLOCKS = 20  # of validation links, for the error of a comparison
CLEARLY = 3.0  # standard errors

Scores = npt.NDArray[np.float64]


def decays(config: Config, tau: float, ladder: str = "wide") -> tuple[float, ...]:
    """The decays a config asks for; from a ladder where it leaves them open."""
    if not isinstance(config.alpha, str):
        return config.alpha if isinstance(config.alpha, tuple) else (config.alpha,)
    if config.alpha == "paper":
        return (tau / PAPER_RATIO,)
    rungs = next(n for n in (8, 4, 2, 1) if config.num_walks % n == 0)
    return tuple(factor * tau for factor in LADDERS[ladder][8 // rungs // 2 :: 8 // rungs])


def advantage(candidate: tuple[Scores, Scores], incumbent: tuple[Scores, Scores]) -> tuple[float, float]:
    """How much more AP one pair of (true, false) scores has on the same links, and the standard error of that."""
    blocks = np.array_split(np.arange(len(candidate[0])), min(BLOCKS, len(candidate[0])))
    gains = [
        metrics.average_precision(candidate[0][b], candidate[1][b])
        - metrics.average_precision(incumbent[0][b], incumbent[1][b])
        for b in blocks
    ]
    error = np.std(gains, ddof=1) / np.sqrt(len(gains)) if len(gains) > 1 else np.inf
    return float(np.mean(gains)), float(error)


def better(scores: dict[str, tuple[Scores, Scores]]) -> str:
    """The ladder to take: the wide one, unless another is clearly better; of those the one that gains most."""
    gains = {name: advantage(mine, scores["wide"]) for name, mine in scores.items() if name != "wide"}
    clear = [name for name, (gain, error) in gains.items() if gain > CLEARLY * error]
    return max(clear, key=lambda name: gains[name][0], default="wide")
