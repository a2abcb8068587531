"""What one version sees of lists that grow, and where it goes in lists one after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.index.kernels.lists import EXACT, START_BITS, Lists, entries_before
from cawn.kernels.jit import njit

Array = npt.NDArray[Any]


@njit
def visible_lists(lists: Lists, rows: Array, num_links: int) -> tuple[Array, Array]:
    """The first entry of each row [n], and how many of its entries belong to the first `num_links` links [n]."""
    first, size = np.empty(rows.size, np.int64), np.empty(rows.size, np.int64)
    for i in range(rows.size):
        first[i], size[i] = entries_before(lists, rows[i], num_links)
    return first, size


@njit
def flat_spans(first: Array, size: Array) -> tuple[Array, Array]:
    """The spans of lists one after the other [n], and where each of their entries was."""
    span, at, n = np.empty(first.size, np.int64), np.empty(size.sum(), np.int64), 0
    for i in range(first.size):
        span[i] = n << START_BITS | EXACT | size[i]
        for k in range(size[i]):
            at[n + k] = first[i] + k
        n += size[i]
    return span, at
