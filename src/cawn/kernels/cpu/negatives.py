"""Drawing a negative destination for each of many links, each from its own set of choices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.kernels.jit import njit
from cawn.kernels.rng import mix64

Array = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Choices:
    """The destinations that each of n links may draw: a run of `nodes`, with some positions skipped.

    A link that draws the number r takes position r + k of its run, where k is the number of its `skipped` values <= r.
    """

    links: Array  # [n] int64, the key of each link's random number
    nodes: Array  # int32, all runs, one after the other
    first: Array  # [n] int64, where the run of a link starts
    count: Array  # [n] int64, the number of destinations it may draw
    skipped: Array  # int64, each skipped position minus the number of earlier ones, non-decreasing for each link
    skip_from: Array  # [n] int64, start and end of each link's part of `skipped`
    skip_to: Array  # [n] int64
    salt: int  # separates the draws of one kind of negatives from those of another

    def of(self, some: Array) -> Choices:
        """The choices of the links at positions `some`, [k]."""
        per_link = ("links", "first", "count", "skip_from", "skip_to")
        return replace(self, **{name: getattr(self, name)[some] for name in per_link})

    def draw(self, seed: int) -> npt.NDArray[np.int32]:
        """A destination for each link, drawn uniformly; -1 if it has no choice: [n]."""
        arrays = (self.nodes, self.first, self.count, self.skipped, self.skip_from, self.skip_to)
        return _draw(self.links, *arrays, np.uint64(seed ^ self.salt))


@njit
def _draw(
    links: Array,
    nodes: Array,
    first: Array,
    count: Array,
    skipped: Array,
    skip_from: Array,
    skip_to: Array,
    key: np.uint64,
) -> npt.NDArray[np.int32]:
    """See `Choices`; `kernels.cuda.negatives` draws the same on a GPU."""
    out = np.full(links.size, -1, np.int32)
    for i in range(links.size):
        if count[i] > 0:
            r = np.int64(mix64(mix64(key) ^ np.uint64(links[i])) % np.uint64(count[i]))
            lo, hi = skip_from[i], skip_to[i]
            while lo < hi:
                mid = (lo + hi) >> 1
                if skipped[mid] <= r:
                    lo = mid + 1
                else:
                    hi = mid
            out[i] = nodes[first[i] + r + lo - skip_from[i]]
    return out
