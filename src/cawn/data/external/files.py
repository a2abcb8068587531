"""Columns whose length is known only when all of them is written."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.errors import StorageError

Array = npt.NDArray[Any]

_MOST = 1 << 30  # bytes of one system call, which takes less than 2**31


class ColumnFile:
    """A .npy file to which rows are appended; rows can be read and replaced, and `finish` writes the header."""

    def __init__(self, path: Path, dtype: npt.DTypeLike, width: int | None = None) -> None:
        """Create the file; a row is one number, or `width` numbers."""
        self.path, self.dtype, self._width = path, np.dtype(dtype), width
        self.rows = 0
        self.row_bytes = self.dtype.itemsize * (1 if width is None else width)
        self._offset = len(self._header())
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
        content = np.ascontiguousarray(values, self.dtype).reshape(-1).view(np.uint8).data
        place = self._offset + first * self.row_bytes
        while len(content):
            written = os.pwrite(self._descriptor, content[:_MOST], place)
            content, place = content[written:], place + written

    def read(self, first: int, count: int) -> Array:
        """A new array of `count` rows from row `first` on."""
        shape = (count,) if self._width is None else (count, self._width)
        found = np.empty(shape, self.dtype)
        content, place = found.reshape(-1).view(np.uint8).data, self._offset + first * self.row_bytes
        while len(content):
            size = os.preadv(self._descriptor, [content[:_MOST]], place)
            if size == 0:
                raise StorageError(f"{self.path}: ended early; was it changed by another process?")
            content, place = content[size:], place + size
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
            os.pwrite(self._descriptor, self._header(), 0)
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

    def _header(self) -> bytes:
        """Of the same length whatever the number of rows: NumPy leaves room for it to grow."""
        shape = (self.rows,) if self._width is None else (self.rows, self._width)
        header = io.BytesIO()
        described = {"descr": np.lib.format.dtype_to_descr(self.dtype), "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(header, described)
        return header.getvalue()

    def __del__(self) -> None:
        if hasattr(self, "_descriptor"):
            self.close()
