"""Columns: arrays in memory that grow, and .npy files that are written and read in blocks, which are all that is in
memory."""

from __future__ import annotations

import io
import math
import mmap
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cawn.checks import Array
from cawn.errors import StorageError

_LEAST = 1 << 10  # rows that an array has room for at first
_MOST = 1 << 30  # bytes of one system call, which takes less than 2**31


class GrowingArray:
    """A column in memory. One thread writes, while others read earlier views, which only `replace` changes."""

    def __init__(self, rows: Array) -> None:
        self.rows = len(rows)
        self.values = np.empty((max(2 * len(rows), _LEAST), *rows.shape[1:]), rows.dtype)  # with room to grow
        self.values[: len(rows)] = rows

    @property
    def dtype(self) -> Any:
        return self.values.dtype

    @property
    def row_shape(self) -> tuple[int, ...]:
        """() if rows are numbers, else (numbers of a row,)."""
        return tuple(self.values.shape[1:])

    def append(self, rows: Array, kept: int | None = None) -> None:
        """Append rows after the first `kept` ones, by default all; if fewer are kept, they are copied first."""
        kept = self.rows if kept is None else kept
        size = kept + len(rows)
        if size > len(self.values) or kept < self.rows:
            larger = np.empty((max(2 * size, _LEAST), *self.values.shape[1:]), self.values.dtype)
            larger[:kept] = self.values[:kept]
            self.values = larger
        self.values[kept:size] = rows
        self.rows = size

    def view(self) -> Array:
        """The rows so far, read-only."""
        view = self.values[: self.rows]
        view.flags.writeable = False
        return view

    def read(self, first: int, count: int) -> Array:
        """`count` rows from row `first` on, which may not be changed."""
        return self.values[first : first + count]

    def replace(self, first: int, values: Array) -> None:
        """Write rows from row `first` on."""
        self.values[first : first + len(values)] = values

    def retype(self, dtype: npt.DTypeLike) -> None:
        """Read the same bytes as another type of the same size."""
        self.values = self.values.view(dtype)

    def discard(self) -> None:
        """Free the memory."""
        self.values, self.rows = self.values[:0].copy(), 0


def with_room(array: Array, size: int) -> Array:
    """The array itself if it has this many rows, else a copy that has, the last of which are 0."""
    if len(array) >= size:
        return array
    larger = np.zeros((size, *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


class ArrayFile:
    """A .npy file whose parts are written in any order, by several threads, or which grows as a `GrowingArray` does; it
    is valid once it is closed."""

    _descriptor = -1

    def __init__(self, path: Path, shape: Sequence[int], dtype: npt.DTypeLike) -> None:
        """Create the file; numbers that are never written are 0."""
        self.path, self.shape, self.dtype = path, tuple(map(int, shape)), np.dtype(dtype)
        self._offset = len(self._header())
        self._descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o666)

    @property
    def rows(self) -> int:
        return self.shape[0]

    @property
    def row_shape(self) -> tuple[int, ...]:
        return self.shape[1:]

    def append(self, values: Array) -> None:
        """Write rows after all others."""
        self.replace(self.rows, values)
        self.shape = (self.rows + len(values), *self.row_shape)

    def replace(self, first: int, values: Array) -> None:
        """Write rows from row `first` on."""
        self.write(values, first * math.prod(self.row_shape))

    def retype(self, dtype: npt.DTypeLike) -> None:
        """Read the same bytes as another type of the same size."""
        self.dtype = np.dtype(dtype)

    def write(self, values: Array, at: int = 0) -> None:
        """Write numbers from position `at` on, which counts the numbers of the array in C order."""
        content = np.ascontiguousarray(values, self.dtype).reshape(-1).view(np.uint8).data
        place = self._offset + at * self.dtype.itemsize
        while len(content):
            written = os.pwrite(self._descriptor, content[:_MOST], place)
            content, place = content[written:], place + written

    def read(self, first: int, count: int) -> Array:
        """A new array of `count` rows from row `first` on."""
        found = np.empty((count, *self.row_shape), self.dtype)
        content = found.reshape(-1).view(np.uint8).data
        place = self._offset + first * math.prod(self.row_shape) * self.dtype.itemsize
        while len(content):
            size = os.preadv(self._descriptor, [content[:_MOST]], place)
            if size == 0:
                raise StorageError(f"{self.path}: ended early; was it changed by another process?")
            content, place = content[size:], place + size
        return found

    def mapped(self) -> Array:
        """The whole array, mapped to be read and written."""
        os.ftruncate(self._descriptor, self._offset + math.prod(self.shape) * self.dtype.itemsize)
        return np.memmap(self.path, self.dtype, "r+", self._offset, self.shape)

    def close(self) -> None:
        """Complete the file, flush it to disk and close it."""
        if self._descriptor < 0:
            return
        try:
            os.pwrite(self._descriptor, self._header(), 0)
            os.ftruncate(self._descriptor, self._offset + math.prod(self.shape) * self.dtype.itemsize)
            os.fsync(self._descriptor)
        finally:
            self._release()

    def finish(self) -> Path:
        """The file of the whole column, flushed to disk."""
        self.close()
        return self.path

    def discard(self) -> None:
        """Close and remove the file."""
        self._release()
        self.path.unlink(missing_ok=True)

    def _header(self) -> bytes:
        """NumPy leaves room for any number of rows, so the length of the header does not depend on it."""
        content = io.BytesIO()
        described = {"descr": np.lib.format.dtype_to_descr(self.dtype), "fortran_order": False, "shape": self.shape}
        np.lib.format.write_array_header_1_0(content, described)
        return content.getvalue()

    def _release(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __enter__(self) -> ArrayFile:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        self.close() if kind is None else self._release()

    def __del__(self) -> None:
        self._release()


Column = GrowingArray | ArrayFile


class Store:
    """Where columns are: in memory, or in the files of a folder."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder

    def create(self, name: str, dtype: npt.DTypeLike, *row_shape: int) -> Column:
        if self._folder is None:
            return GrowingArray(np.empty((0, *row_shape), dtype))
        return ArrayFile(self._folder / f"{name}.npy", (0, *row_shape), dtype)


def steps(rows: int, size: int) -> Iterator[tuple[int, int]]:
    """Consecutive blocks of at most `size` rows: the first row and the number of rows of each."""
    for first in range(0, rows, size):
        yield first, min(size, rows - first)


def write_array(path: Path, array: Array) -> None:
    """Write an array to a new file."""
    with ArrayFile(path, array.shape, array.dtype) as file:
        file.write(array)


def blocks(size: int, *arrays: Array | None) -> Iterator[tuple[int, list[Any]]]:
    """Consecutive blocks of `size` rows of arrays of one length: the first row of each, and views of the arrays.

    The pages of memory-mapped arrays are released after each block, and read again from the file if they are used
    again.
    """
    length = next(len(array) for array in arrays if array is not None)
    for first in range(0, length, size):
        views = [None if array is None else array[first : first + size] for array in arrays]
        yield first, views
        for view in views:
            if view is not None:
                release_pages(view)


def release_pages(array: Array) -> None:
    """Release the resident pages of an array that is memory-mapped and was not written to; others are left alone."""
    owner: Any = array
    mode = ""
    while isinstance(owner, np.ndarray):
        mode = getattr(owner, "mode", mode)  # of a memmap
        owner = owner.base
    if mode not in ("r", "c") or array.nbytes == 0 or not isinstance(owner, mmap.mmap) or not hasattr(owner, "madvise"):
        return
    place = array.ctypes.data - np.frombuffer(owner, np.uint8).ctypes.data
    first = place // mmap.PAGESIZE * mmap.PAGESIZE
    owner.madvise(mmap.MADV_DONTNEED, first, place + array.nbytes - first)
