"""How much has linked, and when: sums over sorted lists of times, looked up at any moment."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.kernels.cpu.walks import count_before
from cawn.kernels.jit import njit

Array = npt.NDArray[Any]


@njit
def look_back(
    lists: Array, t: Array, starts: Array, time: Array, logsum: Array, alphas: Array, ages: Array, rates: Array
) -> Array:
    """For each list and moment: the entries strictly before it [B], the ages of the newest few, and their rates.

    ages [B, r] are infinite where there are fewer than r entries; rates [B, decays] are the sums of exp(-alpha age).
    A list below 0 or unknown is empty.
    """
    count = np.zeros(lists.size, np.int64)
    for q in range(lists.size):
        ages[q] = np.inf
        rates[q] = 0.0
        if lists[q] < 0 or lists[q] >= starts.size - 1:
            continue
        first = starts[lists[q]]
        count[q] = count_before(time, first, starts[lists[q] + 1], t[q])
        newest = first + count[q] - 1
        for r in range(min(count[q], ages.shape[1])):
            ages[q, r] = t[q] - time[newest - r]
        if count[q] > 0:
            for a in range(alphas.size):
                rates[q, a] = math.exp(logsum[a, newest] - alphas[a] * ages[q, 0])
    return count
