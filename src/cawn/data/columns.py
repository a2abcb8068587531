"""Columns to which rows are appended: arrays in memory, or .npy files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from cawn.data.array_files import ArrayFile
from cawn.data.growing import GrowingArray

Array = npt.NDArray[Any]


class Column(Protocol):
    """Rows of one number each, or of `width` numbers."""

    width: int | None

    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def rows(self) -> int: ...

    def append(self, values: Array) -> None:
        """Append rows."""

    def read(self, first: int, count: int) -> Array:
        """`count` rows from row `first` on, which may not be changed."""

    def replace(self, first: int, values: Array) -> None:
        """Write rows from row `first` on."""

    def retype(self, dtype: npt.DTypeLike) -> None:
        """Read the same bytes as another type of the same size."""

    def finish(self) -> Array | Path:
        """The whole column: an array, or its file, which is flushed to disk."""

    def discard(self) -> None:
        """Free the memory or remove the file."""


class Store(Protocol):
    """Where columns are."""

    def create(self, name: str, dtype: npt.DTypeLike, width: int | None = None) -> Column: ...


class ColumnArray:
    """A column in memory."""

    def __init__(self, dtype: npt.DTypeLike, width: int | None = None) -> None:
        self.dtype, self.width = np.dtype(dtype), width
        self._held = GrowingArray(np.empty(0 if width is None else (0, width), dtype))

    @property
    def rows(self) -> int:
        return len(self._held)

    def append(self, values: Array) -> None:
        self._held.append(values)

    def read(self, first: int, count: int) -> Array:
        return self._held.values[first : first + count].view(self.dtype)

    def replace(self, first: int, values: Array) -> None:
        self.read(first, len(values))[:] = values

    def retype(self, dtype: npt.DTypeLike) -> None:
        self.dtype = np.dtype(dtype)

    def finish(self) -> Array:
        return self.read(0, self.rows)

    def discard(self) -> None:
        self._held = GrowingArray(np.empty(0))


class ColumnFile:
    """A column in a .npy file, which is valid once it is finished."""

    def __init__(self, path: Path, dtype: npt.DTypeLike, width: int | None = None) -> None:
        self.path, self.width, self.rows = path, width, 0
        self._file = ArrayFile(path, self._shape(0), dtype)

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._file.dtype

    def append(self, values: Array) -> None:
        self.replace(self.rows, values)
        self.rows += len(values)

    def read(self, first: int, count: int) -> Array:
        return self._file.read(first * (self.width or 1), count * (self.width or 1)).reshape(self._shape(count))

    def replace(self, first: int, values: Array) -> None:
        self._file.write(values, first * (self.width or 1))

    def retype(self, dtype: npt.DTypeLike) -> None:
        self._file.dtype = np.dtype(dtype)

    def finish(self) -> Path:
        self._file.shorten(self.rows)
        self._file.close()
        return self.path

    def discard(self) -> None:
        self._file.discard()

    def _shape(self, rows: int) -> tuple[int, ...]:
        return (rows,) if self.width is None else (rows, self.width)


class ArrayStore:
    """Columns in memory."""

    def create(self, name: str, dtype: npt.DTypeLike, width: int | None = None) -> Column:
        return ColumnArray(dtype, width)


class FileStore:
    """Columns in the files of a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def create(self, name: str, dtype: npt.DTypeLike, width: int | None = None) -> Column:
        return ColumnFile(self._folder / f"{name}.npy", dtype, width)


def steps(rows: int, size: int) -> Iterator[tuple[int, int]]:
    """Consecutive blocks of at most `size` rows: the first row and the number of rows of each."""
    for first in range(0, rows, size):
        yield first, min(size, rows - first)
