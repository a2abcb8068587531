"""Which of two scorers is better on a stream of links: a repeated test on paired differences."""

from __future__ import annotations

import math
from collections import deque
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

WINDOW = 500  # links between two tests
LEVEL = 0.001  # expected number of false verdicts per window, in each direction
BLOCKS = 20  # in each window; consecutive links within a block may depend on each other
SPANS = (1, 2, 4, 8, 16)  # numbers of windows that a test covers


class Verdict(NamedTuple):
    """A test that found a mean above or below 0."""

    links: int
    means: tuple[float, ...]  # of each column over these links
    error: float  # standard error of the first mean
    level: float  # of the test

    def to_dict(self) -> dict[str, Any]:
        """For a JSON file."""
        return self._asdict() | {"means": list(self.means)}


class PairedTest:
    """Tests, after every `window` links, whether the mean of paired differences is above 0, and whether it is below.

    Each test is Student's one-sided t-test, in either direction, on the means of blocks of consecutive links, over the
    last 1, 2, 4, 8 or 16 windows; those over s windows are done every s windows, so they do not overlap. There are
    fewer than two tests per window on average, each at half the `level`: where the mean is 0 or below, `level` bounds
    the expected number of verdicts per window that it is above, and likewise the other way round. Links further apart
    than a block are assumed to be independent.

    Args:
        columns: Number of differences per link. Only the first is tested; the means of the others are reported.
    """

    def __init__(self, window: int = WINDOW, level: float = LEVEL, *, columns: int = 1) -> None:
        self.window, self.level, self.columns = window, level, columns
        self.clear()

    def clear(self) -> None:
        """Start again without any links."""
        self.links = 0
        self._waiting = np.empty((0, self.columns))
        self._blocks: deque[Array] = deque(maxlen=BLOCKS * SPANS[-1])

    def add(self, differences: Array) -> Verdict | None:
        """Add differences of further links, [n] or [n, columns]; returns the first verdict, if any."""
        rows = differences.reshape(-1, self.columns)
        found: Verdict | None = None
        while len(rows):
            taken = rows[: self.window - len(self._waiting)]
            rows = rows[len(taken) :]
            self._waiting = np.concatenate([self._waiting, taken])
            self.links += len(taken)
            if len(self._waiting) == self.window:
                self._blocks.extend(part.mean(axis=0) for part in np.array_split(self._waiting, BLOCKS))
                self._waiting = self._waiting[:0]
                found = found or self._test()
        return found

    def _test(self) -> Verdict | None:
        windows = self.links // self.window
        for span in SPANS:
            if windows % span:
                return None
            blocks = np.array(self._blocks)[-BLOCKS * span :]
            mean, n = blocks.mean(axis=0), len(blocks)
            error = float(blocks[:, 0].std(ddof=1)) / math.sqrt(n)
            if abs(mean[0]) > t_quantile(1 - self.level / 2, n - 1) * error:
                return Verdict(span * self.window, tuple(mean.tolist()), error, self.level / 2)
        return None

    def newest_mean(self) -> float:
        """The mean of the first column over the last whole window; 0 before there is one."""
        blocks = [block[0] for block in self._blocks][-BLOCKS:]
        return float(np.mean(blocks)) if blocks else 0.0

    def state(self) -> dict[str, Any]:
        """What `load` needs, as JSON values."""
        blocks = [block.tolist() for block in self._blocks]
        return {"links": self.links, "waiting": self._waiting.tolist(), "blocks": blocks}

    def load(self, state: dict[str, Any]) -> None:
        """Continue from a state; raises KeyError, TypeError or ValueError if it does not fit."""
        links, blocks = int(state["links"]), [np.array(block, float) for block in state["blocks"]]
        waiting = np.array(state["waiting"], float).reshape(-1, self.columns)
        if links % self.window != len(waiting) or any(block.shape != (self.columns,) for block in blocks):
            raise ValueError("the evidence does not fit")
        self.links, self._waiting = links, waiting
        self._blocks = deque(blocks, maxlen=self._blocks.maxlen)


def t_quantile(share: float, freedom: int) -> float:
    """The quantile of Student's t, by the Cornish-Fisher expansion; to three digits from 19 degrees of freedom."""
    z = NormalDist().inv_cdf(share)
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    third = (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384
    return z + first / freedom + second / freedom**2 + third / freedom**3
