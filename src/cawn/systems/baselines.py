"""Untrained baselines: scorers that need no training, reported with every model."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.data.events import Events
from cawn.kernels.jit import njit
from cawn.systems.base import Scorer

Scores = npt.NDArray[np.float64]
Array = npt.NDArray[Any]


def scorers(events: Events) -> dict[str, Scorer]:
    """Every untrained baseline by name."""
    past = Past(events)
    return {
        "recency": past.recency,
        "edgebank": past.edgebank,
        "edgebank (window)": past.edgebank_window,
        "popularity": past.popularity,
    }


class Past:
    """When each pair of nodes last linked, and when each node was last a destination, strictly before any time."""

    def __init__(self, events: Events) -> None:
        self._num_nodes = events.num_nodes
        self._span = float(events.t[-1] - events.t[0]) if len(events) else 0.0
        self._pairs = _by_key(self._pair_code(events.src, events.dst), events.t)
        self._destinations = _by_key(events.dst.astype(np.int64), events.t)

    def _pair_code(self, src: Array, dst: Array) -> Array:
        low, high = np.minimum(src, dst).astype(np.int64), np.maximum(src, dst)
        return low * self._num_nodes + high

    def recency(self, src: Array, dst: Array, t: Array) -> Scores:
        """Pairs that linked before, most recent first; then all others, by the last activity of the destination."""
        pair, _ = _last_before(*self._pairs, self._pair_code(src, dst), t)
        active, _ = _last_before(*self._destinations, dst.astype(np.int64), t)
        age_of_pair, age_of_activity = t - np.nan_to_num(pair), t - np.nan_to_num(active)
        by_pair = 2 - age_of_pair / (2 * self._span + 1)
        by_activity = 1 - age_of_activity / (2 * self._span + 1)
        return np.where(np.isnan(pair), np.where(np.isnan(active), 0.0, by_activity), by_pair)

    def edgebank(self, src: Array, dst: Array, t: Array) -> Scores:
        """1 if the pair has linked before, else 0."""
        _, count = _last_before(*self._pairs, self._pair_code(src, dst), t)
        return (count > 0).astype(np.float64)

    def edgebank_window(self, src: Array, dst: Array, t: Array) -> Scores:
        """1 if the pair has linked within the last 15 % of the time range, else 0."""
        pair, _ = _last_before(*self._pairs, self._pair_code(src, dst), t)
        with np.errstate(invalid="ignore"):
            return (t - pair <= 0.15 * self._span).astype(np.float64)

    def popularity(self, src: Array, dst: Array, t: Array) -> Scores:
        """The number of earlier links to the destination."""
        _, count = _last_before(*self._destinations, dst.astype(np.int64), t)
        return count.astype(np.float64)


def _by_key(keys: Array, t: Array) -> tuple[Array, Array]:
    """Keys and times, ordered by key and then by time."""
    order = np.argsort(keys, kind="stable")
    return keys[order], t[order]


@njit
def _last_before(keys: Array, times: Array, wanted: Array, t: Array) -> tuple[Scores, Array]:
    """The last time (NaN if none) and the number of occurrences of each wanted key strictly before t."""
    last, count = np.full(wanted.size, np.nan), np.zeros(wanted.size, np.int64)
    for i in range(wanted.size):
        first = np.searchsorted(keys, wanted[i])
        lo, hi = first, keys.size
        while lo < hi:
            mid = (lo + hi) >> 1
            if keys[mid] < wanted[i] or (keys[mid] == wanted[i] and times[mid] < t[i]):
                lo = mid + 1
            else:
                hi = mid
        if lo > first:
            last[i] = times[lo - 1]
            count[i] = lo - first
    return last, count
