"""A set of 64-bit ids that grows."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.uint64]

_RECENT = 1 << 16


class IdSet:
    """Ids in sorted arrays of growing size, 8 bytes each; the newest in a set. Not thread-safe.

    An array is merged with the next larger one when it reaches half its size, so n additions cost O(n log n).
    """

    def __init__(self, ids: npt.ArrayLike = (), *, recent: int = _RECENT) -> None:
        """Of these ids; `recent` of those that are added are in the set."""
        first = np.unique(np.asarray(ids, np.uint64))
        self._arrays = [first] if len(first) else []  # from the largest to the smallest
        self._recent, self._most = set[int](), recent

    def __len__(self) -> int:
        return sum(map(len, self._arrays)) + len(self._recent)

    def contains(self, ids: Ids) -> npt.NDArray[np.bool_]:
        """Which of these are in the set: [n]."""
        recent = self._recent
        found = np.fromiter((each in recent for each in ids.tolist()), bool, len(ids))
        for held in self._arrays:
            at = np.minimum(np.searchsorted(held, ids), len(held) - 1)
            found |= held[at] == ids
        return found

    def add(self, ids: Ids) -> None:
        """Add ids that are not in the set."""
        self._recent.update(ids.tolist())
        if len(self._recent) >= self._most:
            self._arrays.append(np.sort(np.fromiter(self._recent, np.uint64, len(self._recent))))
            self._recent.clear()
            while len(self._arrays) > 1 and 2 * len(self._arrays[-1]) >= len(self._arrays[-2]):
                last = [self._arrays.pop(), self._arrays.pop()]
                self._arrays.append(np.sort(np.concatenate(last), kind="stable"))
