"""Which of several alternatives is clearly better on the same validation links, after a short training of each."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cawn.learn import metrics

BLOCKS = 20  # blocks of validation links, for the standard error of a comparison
CLEARLY = 3.0  # standard errors
MAX_TRIAL_STEPS, MIN_TRIAL_STEPS = 100, 25  # of each short training; after fewer, the alternatives hardly differ
TRAINING_SHARE = 10  # all short trainings together take at most a tenth of the steps of the training

Scores = tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]  # of positives and of negatives


def trial_steps(planned: int, num_alternatives: int) -> int:
    """Number of steps of each short training before a training of `planned` steps; 0 if these are too few.

    Steps are counted instead of seconds, so that the choice does not depend on the machine.
    """
    steps = min(planned // (TRAINING_SHARE * num_alternatives), MAX_TRIAL_STEPS)
    return steps if steps >= MIN_TRIAL_STEPS else 0


def advantage(candidate: Scores, incumbent: Scores) -> tuple[float, float]:
    """The mean gain in AP of the candidate over the incumbent on the same links, and its standard error."""
    blocks = np.array_split(np.arange(len(candidate[0])), min(BLOCKS, len(candidate[0])))
    gains = [
        metrics.average_precision(candidate[0][block], candidate[1][block])
        - metrics.average_precision(incumbent[0][block], incumbent[1][block])
        for block in blocks
    ]
    error = np.std(gains, ddof=1) / np.sqrt(len(gains)) if len(gains) > 1 else np.inf
    return float(np.mean(gains)), float(error)


def choose_alternative(scores: dict[str, Scores]) -> str:
    """The first alternative, unless others are clearly better; then the one with the largest gain."""
    first, *others = scores
    gains = {name: advantage(scores[name], scores[first]) for name in others}
    clear = [name for name, (gain, error) in gains.items() if gain > CLEARLY * error]
    return max(clear, key=lambda name: gains[name][0], default=first)
