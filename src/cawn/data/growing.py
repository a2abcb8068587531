"""An array that grows while other threads read earlier versions of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_LEAST = 1 << 10


class GrowingArray:
    """An array to which rows are appended. One thread writes; views never change."""

    def __init__(self, rows: Array) -> None:
        self._size = len(rows)
        self.values = np.empty((max(2 * len(rows), _LEAST), *rows.shape[1:]), rows.dtype)  # with room to grow
        self.values[: len(rows)] = rows

    def __len__(self) -> int:
        return self._size

    def append(self, rows: Array, kept: int | None = None) -> None:
        """Append rows after the first `kept` ones, by default all; if fewer are kept, they are copied first."""
        kept = self._size if kept is None else kept
        size = kept + len(rows)
        if size > len(self.values) or kept < self._size:
            larger = np.empty((max(2 * size, _LEAST), *self.values.shape[1:]), self.values.dtype)
            larger[:kept] = self.values[:kept]
            self.values = larger
        self.values[kept:size] = rows
        self._size = size

    def view(self) -> Array:
        """The rows so far, read-only."""
        view = self.values[: self._size]
        view.flags.writeable = False
        return view
