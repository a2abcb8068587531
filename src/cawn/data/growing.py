"""An array that grows while other threads read earlier versions of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

_LEAST = 1 << 10


class GrowingArray:
    """Rows that are only ever appended; one thread writes, and views of it never change."""

    def __init__(self, rows: Array) -> None:
        self._size = len(rows)
        self.values = np.empty((max(2 * len(rows), _LEAST), *rows.shape[1:]), rows.dtype)  # with room to grow
        self.values[: len(rows)] = rows

    def __len__(self) -> int:
        return self._size

    def append(self, rows: Array) -> None:
        size = self._size + len(rows)
        if size > len(self.values):
            larger = np.empty((2 * size, *self.values.shape[1:]), self.values.dtype)
            larger[: self._size] = self.values[: self._size]
            self.values = larger
        self.values[self._size : size] = rows
        self._size = size

    def view(self) -> Array:
        """The rows so far, read-only."""
        view = self.values[: self._size]
        view.flags.writeable = False
        return view
