"""Column files whose length is known only after the last row is written."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.data.array_files import npy_header, read_at, write_at

Array = npt.NDArray[Any]


class ColumnFile:
    """A .npy file to which rows are appended; rows can be read and replaced, and `finish` writes the header."""

    def __init__(self, path: Path, dtype: npt.DTypeLike, width: int | None = None) -> None:
        """Create the file; a row is one number, or `width` numbers."""
        self.path, self.dtype, self._width = path, np.dtype(dtype), width
        self.rows = 0
        self.row_bytes = self.dtype.itemsize * (1 if width is None else width)
        self._offset = len(npy_header(self._shape(0), self.dtype))
        self._descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | getattr(os, "O_CLOEXEC", 0), 0o666)

    def like(self, path: Path) -> ColumnFile:
        """A new empty file of the same type."""
        return ColumnFile(path, self.dtype, self._width)

    def append(self, values: Array) -> None:
        """Append rows."""
        self.replace(self.rows, values)
        self.rows += len(values)

    def replace(self, first: int, values: Array) -> None:
        """Write rows from row `first` on."""
        write_at(self._descriptor, np.ascontiguousarray(values, self.dtype), self._offset + first * self.row_bytes)

    def read(self, first: int, count: int) -> Array:
        """A new array of `count` rows from row `first` on."""
        found = np.empty(self._shape(count), self.dtype)
        read_at(self._descriptor, found, self._offset + first * self.row_bytes, self.path)
        return found

    def truncate(self, rows: int) -> None:
        """Drop the rows from row `rows` on."""
        self.rows = rows

    def retype(self, dtype: npt.DTypeLike) -> None:
        """Read the same bytes as another type of the same size."""
        self.dtype = np.dtype(dtype)

    def finish(self) -> None:
        """Write the header, flush the file to disk and close it."""
        try:
            os.ftruncate(self._descriptor, self._offset + self.rows * self.row_bytes)
            os.pwrite(self._descriptor, npy_header(self._shape(self.rows), self.dtype), 0)
            os.fsync(self._descriptor)
        finally:
            self.close()

    def move(self, path: Path) -> None:
        """Rename the file."""
        os.rename(self.path, path)
        self.path = path

    def remove(self) -> None:
        """Close the file and delete it."""
        self.close()
        self.path.unlink()

    def close(self) -> None:
        """Close the file, which is not yet valid."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def _shape(self, rows: int) -> tuple[int, ...]:
        return (rows,) if self._width is None else (rows, self._width)

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            self.close()
