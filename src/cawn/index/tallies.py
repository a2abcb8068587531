"""The number of occurrences of keys among the first n links of a network, and the last of them."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from cawn.checks import Array
from cawn.index.kernels.lists import count_before
from cawn.kernels.jit import njit


class Tally(NamedTuple):
    """For each key, the positions of the links in which it occurs, in order."""

    keys: Array  # [K] sorted int64
    starts: Array  # [K + 1]
    links: Array  # [n] ascending within each key; a link may occur several times

    @classmethod
    def of(cls, keys: Array, links: Array) -> Tally:
        """From the key and the link of each occurrence, in the order of links."""
        order = np.argsort(keys, kind="stable")
        distinct, first = np.unique(keys[order], return_index=True)
        return cls(distinct, np.append(first, len(order)).astype(np.int64), links[order].astype(np.int64))

    def before(self, keys: Array, visible: Array) -> tuple[Array, Array]:
        """Occurrences of each key among the first `visible` links, and the newest of them: [B] each.

        The newest is an index into `links`, -1 if there is none.
        """
        at = np.searchsorted(self.keys, keys)
        known = at < len(self.keys)
        known[known] = self.keys[at[known]] == keys[known]
        return _before(np.where(known, at, -1), visible.astype(np.int64), self.starts, self.links)

    def running(self) -> Array:
        """The number of occurrences of its key, up to and including each occurrence: [n]."""
        return np.asarray(np.arange(len(self.links)) - np.repeat(self.starts[:-1], np.diff(self.starts)) + 1)

    def decayed(self, t: Array, scale: float) -> Array:
        """The sum of exp(-age / scale) over the occurrences of its key so far, at the time of each occurrence: [n].

        `t` are the times of all links.
        """
        return decayed_counts(self.starts, t[self.links], scale)


def first_occurrences(keys: Array) -> Array:
    """Whether each key occurs for the first time: [n]."""
    first = np.zeros(len(keys), np.bool_)
    first[np.unique(keys, return_index=True)[1]] = True
    return first


@njit
def decayed_counts(starts: Array, t: Array, scale: float) -> Array:
    """The sum of exp(-age / scale) over the entries of its list so far, at the time of each entry: [n]."""
    sums = np.ones(t.size)
    for row in range(starts.size - 1):
        for i in range(starts[row] + 1, starts[row + 1]):
            sums[i] += sums[i - 1] * math.exp(-(t[i] - t[i - 1]) / scale)
    return sums


@njit
def _before(rows: Array, visible: Array, starts: Array, links: Array) -> tuple[Array, Array]:
    count, newest = np.zeros(rows.size, np.int64), np.full(rows.size, -1)
    for i in range(rows.size):
        if rows[i] >= 0:
            first, stop = starts[rows[i]], starts[rows[i] + 1]
            count[i] = count_before(links, first, stop, visible[i])
            newest[i] = first + count[i] - 1 if count[i] > 0 else -1
    return count, newest
