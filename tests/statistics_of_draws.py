"""Tests of distributions with a stated false-alarm rate.

All of them together raise a false alarm once in a million runs of fresh seeds: each may do so with probability
FALSE_ALARM_RATE / MAX_TESTS. (Seeds are fixed, so a run repeats; the rate is what a change of seed would risk.)
"""

from collections.abc import Sequence

import numpy as np
from scipy import stats

FALSE_ALARM_RATE = 1e-6
MAX_TESTS = 2000
LEVEL = FALSE_ALARM_RATE / MAX_TESTS


def p_value(observed: Sequence[float], law: Sequence[float]) -> float:
    """Chi-square of counts against probabilities; the rarest outcomes are pooled until each cell expects 10."""
    observed, law = np.asarray(observed, float), np.asarray(law, float)
    assert observed.shape == law.shape
    np.testing.assert_allclose(law.sum(), 1, rtol=1e-9)
    assert not observed[law == 0].any(), "an impossible outcome was drawn"
    order = np.argsort(-law)
    observed, expected = observed[order], law[order] * observed.sum()
    cells, rest = [], [0.0, 0.0]
    for o, e in zip(observed, expected, strict=True):
        if e >= 10:
            cells.append([o, e])
        else:
            rest = [rest[0] + o, rest[1] + e]
    if cells and rest[1] < 10:
        cells[-1] = [cells[-1][0] + rest[0], cells[-1][1] + rest[1]]
    elif rest[1] > 0:
        cells.append(rest)
    if len(cells) < 2:
        return 1.0
    o, e = np.array(cells).T
    return float(stats.chi2.sf(((o - e) ** 2 / e).sum(), len(cells) - 1))


def assert_follows(observed: Sequence[float], law: Sequence[float]) -> None:
    p = p_value(observed, law)
    assert p > LEVEL, f"p = {p:.2e}: observed {np.asarray(observed)}, expected shares {np.asarray(law)}"
